"""Clusters on GCP as the program registers them."""

from __future__ import annotations

import copy
import inspect
import ipaddress
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pulumi
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from railhead.base.errors import InputError
from railhead.components.cluster_access import provider
from railhead.components.gcp import build
from railhead.components.gcp.gke_cluster import kubeconfig
from railhead.components.gcp.gpu_pool import reservation_value
from railhead.components.gcp.node_networks import subnets
from railhead.config import parse
from railhead.lab.recorders.recording import changed_paths, forced
from railhead.launch.job import parse_job
from railhead.launch.logs.reader import readers
from railhead.launch.plan import Plan, make_plan
from railhead.launch.render import train_job
from railhead.machines import GKE_MACHINES, MACHINES
from railhead.platform.gcp.facts import node_networks
from railhead.platform.gcp.model import GcpCluster, Reservation
from railhead.resolve import retention
from railhead.resolve.cluster import resolve
from tests import crds
from tests.components.gcp_requests import KINDS, integral, refused, request
from tests.components.recording import (
    Recording,
    Registered,
    recorded,
    run_program,
    run_stack,
    stack_cluster,
)
from tests.shipped import GCP_NETWORK

# The stacks of a cloud are recorded here, and each edit of one again.
pytestmark = pytest.mark.slow

ULTRA, MEGA = "gcp-a3-ultra", "gcp-a3-mega"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
FIREWALL = "gcp:compute/firewall:Firewall"
POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
LUSTRE = "gcp:lustre/instance:Instance"
FILESTORE = "gcp:filestore/instance:Instance"
BUCKET = "gcp:storage/bucket:Bucket"
GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"
MEMBER = "gcp:projects/iAMMember:IAMMember"
# How the engine's protocol marks a secret.
SECRET = "4dabf18193072939515e22adb298388d"

Edit = Callable[[dict[str, Any]], None]


def variant(stack: str, edit: Edit) -> Recording:
    """Record the cloud's resources and what they put into Kubernetes, for an edited cluster."""
    raw = copy.deepcopy(stack_cluster(stack))
    edit(raw)
    cluster = parse(raw, where=stack)
    assert isinstance(cluster, GcpCluster)

    def program() -> None:
        infrastructure = build(cluster, pulumi.ResourceOptions())
        access = provider("inside", infrastructure.access, pulumi.ResourceOptions())
        opts = pulumi.ResourceOptions(providers=[access])
        infrastructure.inside("platform", opts=opts)

    with tempfile.TemporaryDirectory() as folder:
        return run_program(None, Path(folder), stack=stack, program=program)


def whole(stack: str, edit: Edit) -> Recording:
    """Return the whole program on a stack with its cluster edited in place."""
    raw = copy.deepcopy(stack_cluster(stack))
    edit(raw)
    with tempfile.TemporaryDirectory() as folder:
        return run_stack(stack, Path(folder), cluster=raw)


def named(recording: Recording, token: str, end: str = "") -> Registered:
    results = [r for r in recording.of_type(token) if r.name.endswith(end)]
    assert len(results) == 1, f"{token} {end}: {[r.name for r in recording.of_type(token)]}"
    return results[0]


def plain(value: Any) -> Any:
    """Return a value without the protocol's mark of a secret, which must be there."""
    assert value["4dabf18193072939515e22adb298388d"] == "1b47061264138c4ac30d75fd1eb44270"
    return value["value"]


@pytest.fixture(params=[ULTRA, MEGA])
def recording(request: pytest.FixtureRequest) -> Recording:
    return recorded(request.param)


def clouds(recording: Recording) -> list[Registered]:
    return [r for r in recording.resources.values() if r.type.startswith("gcp:")]


def test_one_provider_makes_everything_where_the_stack_says(recording: Recording) -> None:
    provider = named(recording, "pulumi:providers:gcp")
    assert provider.inputs["project"] == "railhead-training"
    assert provider.inputs["zone"].startswith(provider.inputs["region"])
    for resource in clouds(recording):
        assert resource.provider.startswith(f"{provider.urn}::"), resource.urn


def test_every_resource_is_labelled_with_its_cluster(recording: Recording) -> None:
    provider = named(recording, "pulumi:providers:gcp")
    (cluster,) = (r.inputs["name"] for r in recording.of_type(CLUSTER))
    # The SDK hands a provider its structured settings as JSON.
    labels = json.loads(provider.inputs["defaultLabels"])
    assert labels == {"railhead-cluster": cluster, "team": "research"}
    pools = [p for p in recording.of_type(POOL) if "guestAccelerators" in p.inputs["nodeConfig"]]
    assert all(p.inputs["nodeConfig"]["resourceLabels"] == {"team": "research"} for p in pools)


def test_cluster_waits_for_nat_and_the_nodes_roles(recording: Recording) -> None:
    before = recording.before(named(recording, CLUSTER).urn)
    nodes = [m for m in recording.of_type(MEMBER) if "-nodes-" in m.name]
    needed = [*nodes, named(recording, "gcp:compute/routerNat:RouterNat")]
    assert {r.urn for r in needed} <= before
    roles = {r.inputs["role"] for r in nodes}
    assert roles == {
        "roles/container.defaultNodeServiceAccount",
        "roles/artifactregistry.reader",
    }


def test_pools_join_the_cluster_under_the_nodes_account(recording: Recording) -> None:
    cluster = named(recording, CLUSTER)
    account = named(recording, "gcp:serviceaccount/account:Account")
    for pool in recording.of_type(POOL):
        before = recording.before(pool.urn)
        assert {cluster.urn, account.urn} <= before
        config = pool.inputs["nodeConfig"]
        assert config["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
        assert config["shieldedInstanceConfig"]["enableSecureBoot"]
        assert pool.inputs["networkConfig"]["enablePrivateNodes"]


def test_a_gpu_pool_waits_for_its_networks(recording: Recording) -> None:
    made = {r.urn for r in recording.of_type(SUBNETWORK) if "-gpu-networks-" in r.name}
    pools = [p for p in recording.of_type(POOL) if "guestAccelerators" in p.inputs["nodeConfig"]]
    assert pools
    for pool in pools:
        assert made <= recording.before(pool.urn)
        assert len(made) == len(pool.inputs["networkConfig"]["additionalNodeNetworkConfigs"])


def test_gpu_pools_and_data_are_protected(recording: Recording) -> None:
    kept = {CLUSTER, LUSTRE, FILESTORE, BUCKET}
    for resource in clouds(recording):
        gpus = resource.type == POOL and "guestAccelerators" in resource.inputs["nodeConfig"]
        assert resource.protect == (gpus or resource.type in kept), resource.urn
    assert named(recording, CLUSTER).inputs["deletionProtection"] is True


def test_deletion_protection_may_be_turned_off() -> None:
    recording = variant(MEGA, lambda c: c["platform"].update(deletion_protection=False))
    assert not [r.urn for r in clouds(recording) if r.protect]
    assert named(recording, CLUSTER).inputs["deletionProtection"] is False
    assert named(recording, FILESTORE).inputs["deletionProtectionEnabled"] is False


def test_windows_are_written_as_gke_gives_them_back() -> None:
    """The provider compares texts, and the API answers in UTC whatever zone it was given."""
    west = {
        "start": "2026-11-27T22:00:00-04:00",
        "end": "2026-11-28T06:00:00-04:00",
        "no_upgrades_from": "2026-11-20T20:00:00-04:00",
    }
    recording = variant(ULTRA, lambda c: c["platform"]["maintenance"].update(west))
    policy = named(recording, CLUSTER).inputs["maintenancePolicy"]
    window, [exclusion] = policy["recurringWindow"], policy["maintenanceExclusions"]
    assert window["startTime"] == "2026-11-28T02:00:00Z"
    assert window["endTime"] == "2026-11-28T10:00:00Z"
    assert exclusion["startTime"] == "2026-11-21T00:00:00Z"


def test_the_pool_that_is_taken_away_never_replaces_the_cluster(recording: Recording) -> None:
    cluster = named(recording, CLUSTER)
    assert cluster.inputs["removeDefaultNodePool"] is True
    assert cluster.inputs["initialNodeCount"] == 1
    assert cluster.ignore_changes == {"initialNodeCount", "nodeConfig"}
    account = named(recording, "gcp:serviceaccount/account:Account")
    # Not the project's default account, which many organisations forbid or have taken away.
    assert cluster.inputs["nodeConfig"]["serviceAccount"].startswith(account.name)


def test_the_sdk_still_asks_for_the_pool_that_is_taken_away() -> None:
    """Upstream 8.9 deprecates both arguments; when the SDK does, leave them out and say so."""
    from pulumi_gcp import container

    text = inspect.getsource(container.Cluster)
    for name in ("remove_default_node_pool", "initial_node_count"):
        assert f'pulumi.log.warn("""{name} is deprecated' not in text
        assert f"{name} (Deprecated" not in text


def test_a_label_or_a_taint_is_changed_in_place() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        cluster["pools"][0]["labels"] = {"team": "vision"}
        cluster["pools"][0]["taints"] = [{"key": "team", "value": "vision", "effect": "NoSchedule"}]
        cluster["pools"][0]["tolerations"].append({"key": "team"})

    before = named(recorded(ULTRA), POOL, "h200-pool")
    after = named(variant(ULTRA, edit), POOL, "h200-pool")
    paths = list(changed_paths(before.inputs, after.inputs))
    assert {p.split(".")[1] for p in paths} == {"labels", "taints"}
    assert not forced(POOL, paths)
    assert after.protect


def test_what_replaces_a_pool_is_refused_by_the_engine() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        cluster["pools"][0]["capacity"] = {"kind": "on-demand"}

    before = named(recorded(ULTRA), POOL, "h200-pool")
    after = named(variant(ULTRA, edit), POOL, "h200-pool")
    assert forced(POOL, list(changed_paths(before.inputs, after.inputs)))
    assert after.protect, "the engine would replace sixteen nodes without a word"


def test_kubeconfig_is_a_secret_without_credentials(recording: Recording) -> None:
    provider = named(recording, "pulumi:providers:kubernetes")
    content = json.loads(plain(provider.inputs["kubeconfig"]))
    (user,) = content["users"]
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    (stack,) = [r.urn for r in recording.of_type("pulumi:pulumi:Stack")]
    assert SECRET in recording.outputs[stack]["kubeconfig"]


def test_the_dns_endpoint_needs_no_authority_and_addresses_do() -> None:
    by_name = plain(named(recorded(ULTRA), "pulumi:providers:kubernetes").inputs["kubeconfig"])
    (cluster,) = json.loads(by_name)["clusters"]
    assert cluster["cluster"] == {"server": "https://gke-0123456789ab-1.europe-west1.gke.goog"}
    by_address = plain(named(recorded(MEGA), "pulumi:providers:kubernetes").inputs["kubeconfig"])
    (cluster,) = json.loads(by_address)["clusters"]
    assert cluster["cluster"]["certificate-authority-data"]
    assert cluster["name"] == "gke_railhead-training_us-central1-c_a3-mega"


def test_a_grant_is_named_by_its_group() -> None:
    """Named by their places, the other grants would move with a group that goes, and one end."""
    (grant,) = [m for m in recorded(ULTRA).of_type(MEMBER) if "-researchers-" in m.name]
    assert grant.name == "a3-ultra-gcp-researchers-ml-researchers@example.com-connect"
    (part,) = recorded(ULTRA).of_type("railhead:gcp:ResearcherAccess")
    assert [a["spec"]["name"] for a in part.manner["known as"]] == ["a3-ultra-gcp-researchers"]


# terraform-provider-google-beta at 93c65b2d60: the provider's own limits, in minutes.
PATIENCE = {
    CLUSTER: {"create": 90, "update": 90, "delete": 90},
    POOL: {"create": 120, "update": 120, "delete": 120},
    LUSTRE: {"create": 120, "update": 60, "delete": 60},
    FILESTORE: {"create": 240, "update": 120, "delete": 120},
}


@pytest.mark.parametrize("name", [ULTRA, MEGA])
def test_nothing_has_less_time_than_the_provider_gives(name: str) -> None:
    for row in recorded(name).resources.values():
        for change, time in row.manner.get("timeouts", {}).items():
            minutes = int(time[:-1]) * (60 if time.endswith("h") else 1)
            assert minutes >= PATIENCE.get(row.type, {}).get(change, 0), (row.name, change)
    pool = named(recorded(ULTRA), POOL, "h200-pool")
    # Node by node, each of which may take half an hour to drain and to come back.
    assert pool.manner["timeouts"]["update"] == "9h"


def test_a_kubeconfig_is_one_that_kubectl_reads() -> None:
    cluster = parse(stack_cluster(ULTRA), where="x")
    assert isinstance(cluster, GcpCluster)
    content = kubeconfig(
        "a3-ultra",
        project=cluster.platform.project,
        location=cluster.platform.region,
        endpoint="example.com",
        authority=None,
    )
    (context,) = content["contexts"]
    assert context["name"] == content["current-context"]
    assert context["context"]["cluster"] == content["clusters"][0]["name"]
    assert context["context"]["user"] == content["users"][0]["name"]


def test_researchers_get_through_the_door_that_iam_guards() -> None:
    """GKE documentation, DNS endpoint: container.clusters.connect is asked for before RBAC is."""
    (grant,) = [m for m in recorded(ULTRA).of_type(MEMBER) if "-researchers-" in m.name]
    assert grant.inputs["role"] == "roles/container.clusterViewer"
    assert grant.inputs["member"] == "group:ml-researchers@example.com"
    assert grant.inputs["project"] == "railhead-training"
    assert not [m for m in recorded(MEGA).of_type(MEMBER) if "-researchers-" in m.name]


def test_pods_that_mount_a_bucket_reach_it_and_their_identity() -> None:
    """GCS FUSE runs in the pod's own network, behind the namespace's default deny."""
    recording = recorded(ULTRA)
    records = recording.of_type("gcp:dns/recordSet:RecordSet")
    record, buckets = sorted(records, key=lambda r: len(r.inputs["name"]))
    assert record.inputs["name"] == "storage.googleapis.com."
    # boto3 asks for a bucket's own name; a private zone has no answer from the world beside it.
    assert buckets.inputs["name"] == "*.storage.googleapis.com."
    assert buckets.inputs["rrdatas"] == record.inputs["rrdatas"]
    policy = recording.one("NetworkPolicy", "railhead-egress").inputs["spec"]["egress"]
    open_to = {
        (rule["to"][0]["ipBlock"]["cidr"], port["port"])
        for rule in policy
        for port in rule["ports"]
    }
    assert open_to == {("169.254.169.254/32", 80), ("199.36.153.8/30", 443)}
    addresses = [ipaddress.ip_address(rrdata) for rrdata in record.inputs["rrdatas"]]
    assert len(addresses) == 4
    assert all(address in ipaddress.ip_network("199.36.153.8/30") for address in addresses)
    (zone,) = recording.of_type("gcp:dns/managedZone:ManagedZone")
    vpc = named(recording, NETWORK, "network-vpc")
    assert {zone.urn, vpc.urn} <= recording.before(record.urn)
    assert not recorded(MEGA).of_type("gcp:dns/recordSet:RecordSet")
    assert not [
        p
        for p in recorded(MEGA).kind("NetworkPolicy")
        if p.inputs["metadata"]["name"] == "railhead-egress"
    ]


def test_public_and_private_endpoints() -> None:
    public = named(recorded(MEGA), CLUSTER).inputs
    assert public["privateClusterConfig"]["enablePrivateEndpoint"] is False
    assert public["controlPlaneEndpointsConfig"]["dnsEndpointConfig"] == {
        "allowExternalTraffic": False
    }
    blocks = public["masterAuthorizedNetworksConfig"]["cidrBlocks"]
    assert [b["cidrBlock"] for b in blocks] == ["203.0.113.0/24", "198.51.100.17/32"]
    assert public["masterAuthorizedNetworksConfig"]["gcpPublicCidrsAccessEnabled"] is False
    private = named(
        variant(MEGA, lambda c: c["platform"].update(endpoint={"kind": "private"})), CLUSTER
    ).inputs
    assert private["privateClusterConfig"]["enablePrivateEndpoint"] is True
    # There even when empty, or the endpoint is open to all of the VPC's peers.
    assert private["masterAuthorizedNetworksConfig"]["cidrBlocks"] == []


def test_gvnic_networks_let_each_other_in_and_rdma_takes_no_rule() -> None:
    mega = [r for r in recorded(MEGA).of_type(FIREWALL) if "-gpu-networks-" in r.name]
    assert len(mega) == 8
    assert all(r.inputs["sourceRanges"] == ["192.168.0.0/16"] for r in mega)
    ultra = [r.name for r in recorded(ULTRA).of_type(FIREWALL) if "-gpu-networks-" in r.name]
    assert ultra == ["a3-ultra-gcp-gpu-networks-gvnic-1-internal"]
    rdma = named(recorded(ULTRA), NETWORK, "rdma-vpc")
    rails = [r for r in recorded(ULTRA).of_type(SUBNETWORK) if rdma.urn in r.dependencies]
    assert len(rails) == 8


def test_mtu_is_the_catalogues_unless_the_stack_says() -> None:
    gpu = [r for r in recorded(MEGA).of_type(NETWORK) if "-gpu-networks-" in r.name]
    assert {r.inputs["mtu"] for r in gpu} == {8244}
    own = variant(MEGA, lambda c: c["platform"]["gpu_networks"].update(mtu=1460))
    gpu = [r for r in own.of_type(NETWORK) if "-gpu-networks-" in r.name]
    assert {r.inputs["mtu"] for r in gpu} == {1460}


@given(st.integers(12, 20), st.integers(1, 10))
def test_subnets_are_equal_parts_that_do_not_overlap(prefix: int, count: int) -> None:
    whole = ipaddress.IPv4Network(f"10.0.0.0/{prefix}")
    parts = [ipaddress.IPv4Network(p) for p in subnets(str(whole), count)]
    assert len(parts) == count
    assert len({p.prefixlen for p in parts}) == 1
    assert all(p.subnet_of(whole) for p in parts)
    assert not any(a.overlaps(b) for i, a in enumerate(parts) for b in parts[:i])


def test_a_network_that_is_there_is_left_alone() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        platform = cluster["platform"]
        platform["network"] = {
            "kind": "existing",
            "network": "shared",
            "subnetwork": "gke",
            "pods_range": "gke-pods",
            "services_range": "gke-services",
            "service_connection": True,
            "storage_names": True,
        }
        platform["gpu_networks"] = {
            "kind": "existing",
            "networks": [{"network": f"net-{i}", "subnetwork": f"sub-{i}"} for i in range(9)],
        }

    recording = variant(ULTRA, edit)
    assert not [r.urn for r in clouds(recording) if r.type.startswith(("gcp:compute/", "gcp:dns/"))]
    assert not recording.of_type("gcp:servicenetworking/connection:Connection")
    cluster = named(recording, CLUSTER).inputs
    assert cluster["network"] == "projects/railhead-training/global/networks/shared"
    assert cluster["subnetwork"].endswith("/regions/europe-west1/subnetworks/gke")
    assert cluster["ipAllocationPolicy"]["clusterSecondaryRangeName"] == "gke-pods"
    attached = named(recording, POOL, "h200-pool").inputs["networkConfig"]
    assert attached["additionalNodeNetworkConfigs"][8] == {
        "network": "net-8",
        "subnetwork": "sub-8",
    }
    assert recording.one("GKENetworkParamSet", "rdma-7").inputs["spec"]["vpc"] == "net-8"


def test_dranet_leaves_the_networks_to_gke() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        del cluster["platform"]["gpu_networks"]
        cluster["pools"][0]["networking"] = "dranet"
        cluster["fabric"] = {"kind": "gcp-rdma", "mode": "dranet", "driver": "managed"}

    recording = variant(ULTRA, edit)
    assert len(recording.of_type(NETWORK)) == 1
    assert not recording.kind("GKENetworkParamSet")
    made = named(recording, POOL, "h200-pool")
    pool = made.inputs
    assert pool["networkConfig"] == {
        "enablePrivateNodes": True,
        "acceleratorNetworkProfile": "auto",
    }
    labels = pool["nodeConfig"]["labels"]
    assert labels["cloud.google.com/gke-networking-dra-driver"] == "true"
    # GKE adds it, and the provider reads it back.
    profile = "gke.networks.io/accelerator-network-profile"
    assert profile not in labels
    assert made.ignore_changes == {f'nodeConfig.labels.["{profile}"]'}
    assert not refused(POOL, request(POOL, pool))


def pool_with(**fields: Any) -> Registered:
    recording = variant(ULTRA, lambda c: c["pools"][0].update(fields))
    pool = named(recording, POOL, "h200-pool")
    assert not refused(POOL, request(POOL, pool.inputs))
    return pool


QUEUED: list[dict[str, Any]] = [
    {"key": "nvidia.com/gpu"},
    {"key": "cloud.google.com/gke-queued"},
]


def test_flex_start_takes_nodes_when_gangs_wait() -> None:
    capacity = {"kind": "flex-start", "max_run_seconds": 3600}
    pool = pool_with(capacity=capacity, tolerations=QUEUED)
    assert pool.inputs["queuedProvisioning"] == {"enabled": True}
    assert pool.inputs["autoscaling"]["totalMinNodeCount"] == 0
    assert pool.inputs["autoscaling"]["totalMaxNodeCount"] == 16
    assert "nodeCount" not in pool.inputs
    assert pool.inputs["management"]["autoRepair"] is False
    config = pool.inputs["nodeConfig"]
    assert config["flexStart"] is True
    assert config["maxRunDuration"] == "3600s"
    assert config["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert pool.ignore_changes == {"initialNodeCount", "nodeCount"}
    assert "upgradeSettings" not in pool.inputs, "GKE's own, SHORT_LIVED, would differ for ever"


def test_a_gang_asks_for_the_nodes_of_flex_start() -> None:
    schemas = crds.schemas("proven")
    fields = {"capacity": {"kind": "flex-start"}, "tolerations": QUEUED}
    recording = whole(ULTRA, lambda c: c["pools"][0].update(fields))
    config = recording.one("ProvisioningRequestConfig")
    assert config.inputs["spec"]["provisioningClassName"] == "queued-provisioning.gke.io"
    assert config.inputs["spec"]["managedResources"] == ["nvidia.com/gpu"]
    # Nodes that no job began on are paid for each time; a zone may be short for an hour.
    strategy = config.inputs["spec"]["retryStrategy"]
    base, most = strategy["backoffBaseSeconds"], strategy["backoffMaxSeconds"]
    retries = int(strategy["backoffLimitCount"])
    waits = [min(base * 2**n, most) for n in range(retries)]
    assert 2.5 * 3600 < sum(waits) < 4 * 3600
    assert config.inputs["spec"]["podSetUpdates"]["nodeSelector"] == [
        {
            "key": "autoscaling.gke.io/provisioning-request",
            "valueFromProvisioningClassDetail": "ResizeRequestName",
        }
    ]
    check = recording.one("AdmissionCheck")
    assert config.urn in recording.before(check.urn)
    queue, flavor = recording.one("ClusterQueue"), recording.one("ResourceFlavor")
    assert check.urn in recording.before(queue.urn)
    assert queue.inputs["spec"]["admissionChecksStrategy"] == {
        "admissionChecks": [
            {
                "name": check.inputs["metadata"]["name"],
                "onFlavors": [flavor.inputs["metadata"]["name"]],
            }
        ]
    }
    # What a node proves once it is there cannot be asked of one that is not.
    assert flavor.inputs["spec"]["nodeLabels"] == {"railhead.dev/pool": "h200"}
    # Kueue sees nodes with all levels of a topology alone, and these may have none.
    assert "topologyName" not in flavor.inputs["spec"]
    tolerated = [t["key"] for t in flavor.inputs["spec"]["tolerations"]]
    assert tolerated == ["nvidia.com/gpu", "cloud.google.com/gke-queued"]
    # A flavor without a topology takes no job that asks for one.
    for runtime in recording.kind("ClusterTrainingRuntime"):
        assert "podset-preferred-topology" not in str(runtime.inputs["spec"]["template"]["spec"])
    for resource in (config, check, queue):
        schema = schemas[("kueue.x-k8s.io/v1beta2", resource.inputs["kind"])]
        jsonschema.validate(integral(dict(resource.inputs)), schema)


def test_static_pools_need_no_admission_check() -> None:
    ultra = recorded(ULTRA)
    assert not ultra.kind("AdmissionCheck")
    assert "admissionChecksStrategy" not in ultra.one("ClusterQueue").inputs["spec"]
    (check,) = (
        recorded(MEGA)
        .one("ClusterQueue")
        .inputs["spec"]["admissionChecksStrategy"]["admissionChecks"]
    )
    assert ["h100-burst" in name for name in check["onFlavors"]] == [True]


def test_spot_pool_scales_down_to_min_nodes() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        cluster["pools"][0].update(capacity={"kind": "spot"}, min_nodes=4)
        cluster["queueing"] = {"scheduler": "volcano"}
        del cluster["ready_timeout_seconds"], cluster["runtimes"][2]

    pool = named(variant(ULTRA, edit), POOL, "h200-pool")
    assert not refused(POOL, request(POOL, pool.inputs))
    assert pool.inputs["nodeConfig"]["spot"] is True
    assert pool.inputs["initialNodeCount"] == 4
    assert pool.inputs["autoscaling"]["totalMinNodeCount"] == 4


def test_workload_policy_is_created_or_reused() -> None:
    policy = {"kind": "workload-policy", "max_topology_distance": "block"}
    recording = variant(ULTRA, lambda c: c["pools"][0].update(placement=policy))
    made = named(recording, POLICY)
    assert made.inputs["workloadPolicy"] == {
        "type": "HIGH_THROUGHPUT",
        "maxTopologyDistance": "BLOCK",
    }
    assert not refused(POLICY, request(POLICY, made.inputs))
    pool = pool_with(placement={"kind": "workload-policy", "policy": "mine"})
    assert pool.inputs["placementPolicy"] == {"type": "COMPACT", "policyName": "mine"}


def test_images_that_are_there_before_pods_and_hosts_that_stay() -> None:
    image = "projects/railhead-training/global/images/training-images"
    pool = pool_with(image_streaming=True, image_cache=image, host_maintenance="periodic")
    config = pool.inputs["nodeConfig"]
    assert config["gcfsConfig"] == {"enabled": True}
    assert config["secondaryBootDisks"] == [{"diskImage": image, "mode": "CONTAINER_IMAGE_CACHE"}]
    assert config["hostMaintenancePolicy"] == {"maintenanceInterval": "PERIODIC"}
    assert not refused(POOL, request(POOL, pool.inputs))
    wrong = {**config, "hostMaintenancePolicy": {"maintenanceInterval": "SELDOM"}}
    assert refused(POOL, request(POOL, {**pool.inputs, "nodeConfig": wrong}))
    plain_pool = named(recorded(ULTRA), POOL, "h200-pool").inputs["nodeConfig"]
    assert not {"gcfsConfig", "secondaryBootDisks", "hostMaintenancePolicy"} & set(plain_pool)


def test_a_compact_policy_of_the_pools_own() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        cluster["pools"][0]["capacity"] = {"kind": "on-demand"}
        cluster["pools"][0]["placement"] = {"kind": "compact", "max_distance": 2}

    recording = variant(ULTRA, edit)
    made = named(recording, POLICY).inputs
    assert made["groupPlacementPolicy"] == {"collocation": "COLLOCATED", "maxDistance": 2}
    pool = named(recording, POOL, "h200-pool").inputs
    assert pool["placementPolicy"] == {"type": "COMPACT", "policyName": made["name"]}
    assert not refused(POLICY, request(POLICY, made))
    for wrong in ({"collocation": "COMPACT"}, {"collocation": "COLLOCATED", "maxDistance": "2"}):
        assert refused(POLICY, request(POLICY, {**made, "groupPlacementPolicy": wrong}))


MADE = [name for name in GKE_MACHINES if MACHINES[name].architecture == "amd64"]


@pytest.mark.parametrize("instance_type", MADE)
def test_pool_of_every_machine_type_has_its_nics(instance_type: str) -> None:
    machine, row = MACHINES[instance_type], GKE_MACHINES[instance_type]
    networks = node_networks(machine)
    (kind,) = machine.fabrics
    rails = [
        {"network": network.name, "interface": f"eth{index}"}
        for index, network in enumerate(networks, start=1)
        if not network.name.startswith("gvnic")
    ]

    def edit(cluster: dict[str, Any]) -> None:
        cluster["fabric"] = {"kind": kind, "mode": kind, "rails": rails}
        cluster["runtimes"] = [{**cluster["runtimes"][0], "cpu": "8", "memory": "64Gi"}]
        cluster["runtimes"][0]["shared_memory"] = "8Gi"
        cluster["runtimes"][0]["image"] = "nvcr.io/nvidia/pytorch:25.06-py3"
        pool = cluster["pools"][0]
        pool["instance_type"] = instance_type
        if row.accelerator_topology:
            pool["placement"] = {
                "kind": "workload-policy",
                "accelerator_topology": row.accelerator_topology,
            }

    recording = variant(ULTRA, edit)
    for resource in clouds(recording):
        if resource.type in KINDS:
            assert not refused(resource.type, request(resource.type, resource.inputs))
    pool = named(recording, POOL, "h200-pool").inputs
    attached = pool["networkConfig"]["additionalNodeNetworkConfigs"]
    assert len(attached) == len(machine.nics) + len(machine.host_nics) - 1
    (accelerator,) = pool["nodeConfig"]["guestAccelerators"]
    assert accelerator["type"] == row.accelerator
    assert accelerator["count"] == machine.gpus
    gpu = [r for r in recording.of_type(NETWORK) if "-gpu-networks-" in r.name]
    assert {r.inputs["mtu"] for r in gpu} == {row.mtu}
    profiles = {r.inputs.get("networkProfile") for r in gpu} - {None}
    assert bool(profiles) == any(nic.interface == "mrdma" for nic in machine.nics)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({}, "r"),
        ({"project": "other-project"}, "projects/other-project/reservations/r"),
        ({"block": "b"}, "r/reservationBlocks/b"),
        (
            {"project": "other-project", "block": "b", "subblock": "s"},
            "projects/other-project/reservations/r/reservationBlocks/b/reservationSubBlocks/s",
        ),
    ],
)
def test_how_a_reservation_is_named(fields: Mapping[str, str], value: str) -> None:
    reservation = Reservation.model_validate({"kind": "reservation", "name": "r", **fields})
    assert reservation_value(reservation) == value


def test_labels_are_those_that_gke_does_not_give() -> None:
    pool = pool_with(
        node_selector={
            "cloud.google.com/gke-nodepool": "h200",
            "railhead.dev/pool": "h200",
        },
        labels={"team": "vision"},
    )
    assert pool.inputs["nodeConfig"]["labels"] == {"railhead.dev/pool": "h200", "team": "vision"}


def test_the_clusters_networks_are_those_of_the_nodes(recording: Recording) -> None:
    pools = [p for p in recording.of_type(POOL) if "guestAccelerators" in p.inputs["nodeConfig"]]
    attached = pools[0].inputs["networkConfig"]["additionalNodeNetworkConfigs"]
    parameters = [r.inputs for r in recording.kind("GKENetworkParamSet")]
    wanted = sorted((a["network"], a["subnetwork"]) for a in attached)
    assert sorted((p["spec"]["vpc"], p["spec"]["vpcSubnet"]) for p in parameters) == wanted
    for parameter in parameters:
        name = parameter["metadata"]["name"]
        assert parameter["spec"]["deviceMode"] == (
            "RDMA" if name.startswith("rdma-") else "NetDevice"
        )
        network = recording.one("Network", name)
        assert network.inputs["spec"] == {
            "type": "Device",
            "parametersRef": {
                "group": "networking.gke.io",
                "kind": "GKENetworkParamSet",
                "name": name,
            },
        }
        needed = recording.one("GKENetworkParamSet", name).urn
        assert needed in recording.before(network.urn)


def test_pods_name_networks_that_there_are(recording: Recording) -> None:
    """The runtimes' annotation and the cluster's objects come from different hands."""
    there = {r.inputs["metadata"]["name"] for r in recording.kind("Network")}
    runtimes = recording.kind("ClusterTrainingRuntime")
    assert runtimes
    for runtime in runtimes:
        for job in runtime.inputs["spec"]["template"]["spec"]["replicatedJobs"]:
            annotations = job["template"]["spec"]["template"]["metadata"]["annotations"]
            asked = json.loads(annotations["networking.gke.io/interfaces"])
            names = {item["network"] for item in asked} - {"default"}
            assert names
            assert names <= there


def test_each_claim_has_a_volume_of_its_own() -> None:
    recording = recorded(ULTRA)
    lustre = recording.one("PersistentVolume", "training-checkpoints")
    assert lustre.inputs["spec"] == {
        "storageClassName": "lustre",
        "capacity": {"storage": "30000Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        "claimRef": {"namespace": "training", "name": "checkpoints"},
        "csi": {
            "driver": "lustre.csi.storage.gke.io",
            "volumeHandle": "railhead-training/europe-west1-b/a3-ultra-lustre",
            "volumeAttributes": {"ip": "10.8.0.2", "filesystem": "lustrefs"},
        },
    }
    bucket = recording.one("PersistentVolume", "training-datasets").inputs["spec"]
    assert bucket["csi"] == {
        "driver": "gcsfuse.csi.storage.gke.io",
        "volumeHandle": "railhead-training-a3-ultra-datasets",
    }
    assert bucket["mountOptions"] == ["implicit-dirs", "read_ahead_kb=1024"]
    nfs = recorded(MEGA).one("PersistentVolume", "training-checkpoints").inputs["spec"]
    assert nfs["csi"] == {
        "driver": "filestore.csi.storage.gke.io",
        "volumeHandle": "modeInstance/us-central1-c/a3-mega-filestore/share",
        "volumeAttributes": {"ip": "10.255.0.2", "volume": "share"},
    }
    assert nfs["mountOptions"] == ["nconnect=7"]


def test_filestore_reaches_nodes_that_wait_for_a_lock() -> None:
    firewall = named(recorded(MEGA), FIREWALL, "filestore-locks")
    assert firewall.inputs["sourceRanges"] == ["10.9.0.0/26"]
    assert {row["protocol"] for row in firewall.inputs["allows"]} == {"tcp", "udp"}
    assert (
        firewall.inputs["network"]
        == named(recorded(MEGA), SUBNETWORK, "-network-subnet").inputs["network"]
    )
    # Of a network that is there the rules are its owner's.
    existing = {"kind": "existing", "network": "net", "subnetwork": "nodes"}
    existing |= {"pods_range": "pods", "services_range": "services"}
    made = variant(MEGA, lambda c: c["platform"].update(network=existing))
    assert not [row for row in made.of_type(FIREWALL) if "locks" in row.name]


def test_small_filestore_has_two_connections_a_node() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["storage"][0]["capacity_gib"] = 9984
        cluster["checkpoints"][0]["size"] = "9Ti"

    nfs = variant(MEGA, edit).one("PersistentVolume", "training-checkpoints").inputs["spec"]
    assert nfs["mountOptions"] == ["nconnect=2"]


def test_filestore_takes_addresses_that_are_left_over() -> None:
    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["network"]["google_services"] = "10.8.0.0/20"

    made = variant(MEGA, edit)
    before = made.before(named(made, FILESTORE).urn)
    subnets = {r.urn for r in made.of_type("gcp:compute/subnetwork:Subnetwork")}
    ranges = {r.urn for r in made.of_type("gcp:compute/globalAddress:GlobalAddress")}
    assert ranges
    assert ranges <= before
    assert any(urn.endswith("-network-subnet") for urn in subnets & before)


@pytest.mark.parametrize(("addresses", "block"), [(None, None), ("10.8.0.0/24", "10.8.0.0/24")])
def test_filestore_is_where_the_stack_says(addresses: str | None, block: str | None) -> None:
    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["storage"][0]["addresses"] = addresses

    (network,) = named(variant(MEGA, edit), FILESTORE).inputs["networks"]
    assert network.get("reservedIpRange") == block


def warned_of(stack: str, edit: Edit) -> list[str]:
    texts: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pulumi.log.warn", texts.append)
        variant(stack, edit)
    return texts


@pytest.mark.parametrize(("cidr", "warned"), [("10.255.0.0/16", True), ("10.254.0.0/16", False)])
def test_filestore_that_nodes_look_for_at_a_rail(cidr: str, warned: bool) -> None:
    """Google chooses among addresses that the VPC has free (file.v1), and knows no rail."""

    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["gpu_networks"]["cidr"] = cidr

    texts = warned_of(MEGA, edit)
    warnings = [t for t in texts if "at 10.255.0.2, which nodes look for" in t and "/19 of" in t]
    assert bool(warnings) == warned


@pytest.mark.parametrize(("cidr", "warned"), [("10.8.0.0/16", True), ("10.254.0.0/16", False)])
def test_lustre_that_nodes_look_for_at_a_rail(cidr: str, warned: bool) -> None:
    """Private services access of an existing network may lie among the rails."""

    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["network"] = dict(GCP_NETWORK)
        cluster["platform"]["gpu_networks"]["cidr"] = cidr

    texts = warned_of(ULTRA, edit)
    warnings = [t for t in texts if "at 10.8.0.2, which nodes look for" in t and "/20 of" in t]
    assert bool(warnings) == warned


def test_bucket_reads_may_be_cached_on_local_ssds() -> None:
    """gcs-fuse-csi-driver, pkg/webhook/config.go: "0" means no limit; the default is 5 GiB."""

    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["storage"][1]["cache_gib"] = 2000

    bucket = variant(ULTRA, edit).one("PersistentVolume", "training-datasets").inputs["spec"]
    assert bucket["mountOptions"] == [
        "implicit-dirs",
        "read_ahead_kb=1024",
        "file-cache:max-size-mb:2048000",
        "file-cache:cache-file-for-range-read:true",
        "file-cache:enable-parallel-downloads:true",
    ]
    raw = copy.deepcopy(stack_cluster(ULTRA))
    edit(raw)
    for claim, limits in (
        ("datasets", {"cpu": "0", "memory": "0", "ephemeral-storage": "0"}),
        ("checkpoints", {}),
    ):
        raw["runtimes"][0]["checkpoint"] = claim
        pod = resolve(parse(raw, where=ULTRA)).runtimes[0].pod["metadata"]["annotations"]
        texts = {k: v for k, v in pod.items() if k.endswith("-limit")}
        assert texts == {f"gke-gcsfuse/{name}-limit": value for name, value in limits.items()}


def test_a_shared_vpc_is_its_host_projects() -> None:
    """GKE documentation, Clusters with Shared VPC: network and subnetwork by their full names."""

    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["network"] = {
            "kind": "existing",
            "project": "network-host",
            "network": "shared",
            "subnetwork": "gke",
            "pods_range": "gke-pods",
            "services_range": "gke-services",
            "service_connection": True,
            "storage_names": True,
        }
        # GKE finds no networks of the cluster's own project by name then.
        del cluster["platform"]["gpu_networks"]
        cluster["pools"][0]["networking"] = "dranet"
        cluster["fabric"] = {"kind": "gcp-rdma", "mode": "dranet", "driver": "managed"}

    recording = variant(ULTRA, edit)
    cluster = named(recording, CLUSTER).inputs
    host = "projects/network-host"
    assert cluster["network"] == f"{host}/global/networks/shared"
    assert cluster["subnetwork"] == f"{host}/regions/europe-west1/subnetworks/gke"
    (lustre,) = recording.of_type("gcp:lustre/instance:Instance")
    assert lustre.inputs["network"] == f"{host}/global/networks/shared"
    # The cluster itself and its pools are its project's.
    assert cluster["workloadIdentityConfig"]["workloadPool"] == "railhead-training.svc.id.goog"
    assert not [r for r in clouds(recording) if r.inputs.get("project") == "network-host"]


def test_claims_of_one_file_system_are_one_mount_of_a_node() -> None:
    """Lustre's driver refuses a second mount of a name; one handle is one mount to the kubelet."""

    def edit(cluster: dict[str, Any]) -> None:
        other = {**cluster["checkpoints"][0], "name": "scratch"}
        cluster["checkpoints"].append(other)

    volumes = variant(ULTRA, edit).kind("PersistentVolume")
    lustre = [v.inputs["spec"] for v in volumes if v.inputs["spec"]["storageClassName"] == "lustre"]
    assert len({spec["claimRef"]["name"] for spec in lustre}) == 2
    assert len({spec["csi"]["volumeHandle"] for spec in lustre}) == 1


def test_claims_wait_for_their_volumes(recording: Recording) -> None:
    for claim in recording.kind("PersistentVolumeClaim"):
        meta = claim.inputs["metadata"]
        volume = recording.one("PersistentVolume", f"{meta['namespace']}-{meta['name']}")
        assert volume.urn in recording.before(claim.urn)
        # A volume that is bound goes only after its claim, which the stack keeps.
        assert claim.retain
        assert volume.retain
        spec = volume.inputs["spec"]
        assert spec["claimRef"] == {"namespace": meta["namespace"], "name": meta["name"]}
        assert spec["storageClassName"] == claim.inputs["spec"]["storageClassName"]


def test_lustre_waits_for_its_way_in_and_its_driver_is_there() -> None:
    recording = recorded(ULTRA)
    connection = named(recording, "gcp:servicenetworking/connection:Connection")
    firewall = named(recording, FIREWALL, "access-lustre")
    assert {connection.urn, firewall.urn} <= recording.before(named(recording, LUSTRE).urn)
    # A producer holds it for days after its instance is gone.
    assert connection.inputs["deletionPolicy"] == "REMOVE_PEERING"
    assert firewall.inputs["sourceRanges"] == ["10.8.0.0/20"]
    assert firewall.inputs["allows"] == [{"protocol": "tcp", "ports": ["988", "6988"]}]
    legacy = variant(ULTRA, lambda c: c["platform"]["storage"][0].update(gke_support=True))
    addons = named(legacy, CLUSTER).inputs["addonsConfig"]
    assert addons["lustreCsiDriverConfig"] == {"enabled": True, "enableLegacyLustrePort": True}
    assert named(legacy, LUSTRE).inputs["gkeSupportEnabled"] is True


def test_only_training_namespaces_may_use_the_bucket() -> None:
    stack = recorded(ULTRA)
    grant = named(stack, GRANT)
    assert grant.inputs["role"] == "roles/storage.objectUser"
    assert grant.inputs["member"] == (
        "principalSet://iam.googleapis.com/projects/481516234200/locations/global/"
        "workloadIdentityPools/railhead-training.svc.id.goog/namespace/training"
    )
    # Where an edit removes the namespace, a job that still runs is asked for first; the engine
    # heeds edges of what goes alone (step_generator.go, ScheduleDeletes).
    namespace = named(stack, "kubernetes:core/v1:Namespace", "-namespace-training-namespace")
    assert grant.urn in namespace.dependencies


@pytest.mark.parametrize(("claim", "there"), [("checkpoints", False), ("datasets", True)])
def test_pods_that_mount_a_bucket_ask_for_the_sidecar(claim: str, there: bool) -> None:
    raw = copy.deepcopy(stack_cluster(ULTRA))
    raw["runtimes"][0]["checkpoint"] = claim
    metadata = resolve(parse(raw, where=ULTRA)).runtimes[0].pod["metadata"]
    assert (metadata["annotations"].get("gke-gcsfuse/volumes") == "true") is there


SIDECAR = {
    "gke-gcsfuse/volumes": "true",
    "gke-gcsfuse/cpu-limit": "0",
    "gke-gcsfuse/memory-limit": "0",
    "gke-gcsfuse/ephemeral-storage-limit": "0",
}
JOB = """\
name: demo
nodes: 2
command: [torchrun, x.py]
"""


def launched(text: str, edit: Callable[[dict[str, Any]], None] = lambda _: None) -> Plan:
    raw = copy.deepcopy(stack_cluster(ULTRA))
    edit(raw)
    return make_plan(parse_job(text, where="j"), (), resolve(parse(raw, where=ULTRA)).contract)


@pytest.mark.parametrize("more", ["", "topology: prefer gce-topology-block\n"])
def test_job_that_mounts_a_bucket_gets_its_sidecar(more: str) -> None:
    """The shipped runtime mounts no bucket; the sidecar of a job that does has no limits."""
    plan = launched(JOB + more + "mounts:\n  /datasets: datasets:ro\n")
    own = (plan.template["metadata"] or {})["annotations"]
    assert not SIDECAR.keys() & own.keys()
    assert plan.annotations is not None
    assert SIDECAR.items() <= plan.annotations.items()
    assert "networking.gke.io/interfaces" in plan.annotations
    (patch,) = train_job(plan)["spec"]["podTemplateOverrides"]
    assert SIDECAR.items() <= patch["metadata"]["annotations"].items()
    assert launched(JOB).annotations is None


def test_two_claims_of_one_file_system_are_refused() -> None:
    def another(raw: dict[str, Any]) -> None:
        raw["checkpoints"].append({**raw["checkpoints"][0], "name": "scratch"})

    with pytest.raises(InputError, match="'checkpoints' and 'scratch' are both of 'lustre'"):
        launched(JOB + "mounts:\n  /scratch: scratch\n", another)
    again = launched(JOB + "mounts:\n  /again: checkpoints\n", another)
    (patch,) = train_job(again)["spec"]["podTemplateOverrides"]
    # The runtime's own volume, since a pod has one of each claim.
    assert "volumes" not in patch["spec"]
    (mount,) = patch["spec"]["containers"][0]["volumeMounts"]
    assert mount == {"name": "checkpoints", "mountPath": "/again"}


def test_pods_of_the_clusters_own_mount_a_bucket() -> None:
    """Pods that retain, read logs and watch get the sidecar too."""
    raw = copy.deepcopy(stack_cluster(ULTRA))
    raw["runtimes"] = [raw["runtimes"][0] | {"checkpoint": "datasets"}]
    raw["checkpoints"][1]["retention"] = {"days": 9, "keep": 3}
    raw["watching"] = {"kind": "prometheus-operator", "checkpoints": True}
    cluster = parse(raw, where=ULTRA)
    made = resolve(cluster)
    cron = retention.cron_jobs(cluster, "training")["datasets"]
    pod = cron["jobTemplate"]["spec"]["template"]
    assert pod["metadata"] == {"annotations": SIDECAR}
    (reader,) = readers(made.contract, ["training"])
    (job,) = reader.job_set("r", {})["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]
    assert pod["metadata"] == {"annotations": SIDECAR}
    assert made.watching is not None
    claims = {claim.name: claim.annotations for claim in made.watching.claims}
    assert claims == {"checkpoints": {}, "datasets": SIDECAR}


def test_own_pods_have_a_place_beside_a_queued_pool() -> None:
    """Kueue implies a place only where all of a queue's flavors have a topology."""
    raw = copy.deepcopy(stack_cluster(MEGA))
    raw["checkpoints"][0]["retention"] = {"days": 9, "keep": 3}
    cluster = parse(raw, where=MEGA)
    anywhere = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    [cron] = retention.cron_jobs(cluster, "training").values()
    assert cron["jobTemplate"]["spec"]["template"]["metadata"]["annotations"] == anywhere
    contract = resolve(cluster).contract
    assert contract.unplaced(contract.queues[0]) == anywhere
    [reader, *_] = readers(contract, ["training"])
    [job] = reader.job_set("r", {})["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["template"]["metadata"]["annotations"] == anywhere


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@settings(
    max_examples=1, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(NAMES, NAMES, NAMES)
@example("a" * 63, "b" * 63, "c" * 63)
@example("0", "0" * 63, "1")
def test_names_are_those_that_every_api_takes(cluster: str, pool: str, storage: str) -> None:
    def edit(raw: dict[str, Any]) -> None:
        raw["name"] = cluster
        raw["pools"][0]["name"] = pool
        for runtime in raw["runtimes"]:
            runtime["pool"] = pool
        raw["queues"][0]["pools"] = [pool]
        raw["pools"][0]["placement"] = {"kind": "workload-policy"}
        raw["platform"]["storage"][0]["name"] = storage
        raw["platform"]["storage"].append(
            {"kind": "filestore", "name": f"{storage[:60]}-2", "capacity_gib": 1024}
        )
        raw["checkpoints"][0]["storage_class"] = storage

    recording = variant(ULTRA, edit)
    seen: set[tuple[str, str]] = set()
    for resource in clouds(recording):
        if resource.type not in KINDS:
            continue
        result = refused(resource.type, request(resource.type, resource.inputs))
        assert not result
        fields = ("name", "instanceId", "accountId")
        name = next((resource.inputs[f] for f in fields if f in resource.inputs), None)
        if name is None:
            assert resource.type == "gcp:servicenetworking/connection:Connection"
            continue
        # Not in the documents: container.v1 says it of clusters only, and ids are in URLs.
        assert len(name) <= {CLUSTER: 40, POOL: 40}.get(resource.type, 63)
        assert name.removeprefix("*.")[0].isalpha()  # a record may answer for all names below
        assert (resource.type, name) not in seen
        seen.add((resource.type, name))
    for volume in recording.kind("PersistentVolume"):
        assert len(volume.inputs["metadata"]["name"]) <= 63
