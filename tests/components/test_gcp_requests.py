"""Values as well as names: what the GCP stacks send, held against Google's own API descriptions."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.components.gcp_requests import KINDS, UNCHECKED, refused, request
from tests.components.recording import Registered, recorded
from tests.conftest import REPO

pytest.importorskip("googleapiclient", reason="google-api-python-client is not installed")

# Whole stacks of a cloud are recorded here.
pytestmark = pytest.mark.slow

STACKS = ("gcp-a3-mega", "gcp-a3-ultra")


def ours(stack: str) -> Iterator[Registered]:
    return (r for r in recorded(stack).resources.values() if r.type.startswith("gcp:"))


def one(stack: str, token: str, name: str) -> dict[str, Any]:
    (result,) = (r for r in ours(stack) if r.type == token and r.name == name)
    return request(token, result.inputs)


@pytest.mark.parametrize("stack", STACKS)
def test_every_request_is_one_that_the_api_describes(stack: str) -> None:
    mistakes = {
        r.name: result
        for r in ours(stack)
        if r.type not in UNCHECKED and (result := refused(r.type, request(r.type, r.inputs)))
    }
    assert not mistakes


def test_every_type_that_the_stacks_use_is_checked() -> None:
    used = {r.type for stack in STACKS for r in ours(stack)}
    # Placement policies of a pool's own are in no shipped stack: variants of them, in test_gcp.
    assert used - UNCHECKED == set(KINDS) - {"gcp:compute/resourcePolicy:ResourcePolicy"}


# Resource type -> the predefined role with the permission to create it, from IAM's list of roles
# and their permissions as of 2026-08.
ROLES = {
    "gcp:container/cluster:Cluster": "roles/container.admin",
    "gcp:container/nodePool:NodePool": "roles/container.admin",
    "gcp:compute/network:Network": "roles/compute.networkAdmin",
    "gcp:compute/subnetwork:Subnetwork": "roles/compute.networkAdmin",
    "gcp:compute/router:Router": "roles/compute.networkAdmin",
    "gcp:compute/routerNat:RouterNat": "roles/compute.networkAdmin",
    "gcp:compute/globalAddress:GlobalAddress": "roles/compute.networkAdmin",
    # Not networkAdmin, which may only look at firewall rules.
    "gcp:compute/firewall:Firewall": "roles/compute.securityAdmin",
    # compute.resourcePolicies.create is in neither of the two above.
    "gcp:compute/resourcePolicy:ResourcePolicy": "roles/compute.instanceAdmin.v1",
    "gcp:servicenetworking/connection:Connection": "roles/servicenetworking.networksAdmin",
    "gcp:filestore/instance:Instance": "roles/file.editor",
    "gcp:lustre/instance:Instance": "roles/lustre.admin",
    "gcp:storage/bucket:Bucket": "roles/storage.admin",
    "gcp:storage/bucketIAMMember:BucketIAMMember": "roles/storage.admin",
    "gcp:serviceaccount/account:Account": "roles/iam.serviceAccountAdmin",
    "gcp:projects/iAMMember:IAMMember": "roles/resourcemanager.projectIamAdmin",
    "gcp:dns/managedZone:ManagedZone": "roles/dns.admin",
    "gcp:dns/recordSet:RecordSet": "roles/dns.admin",
}


def test_docs_list_every_role_that_up_needs() -> None:
    assert set(ROLES) == (set(KINDS) | UNCHECKED) - {"pulumi:providers:gcp"}
    text = (REPO / "docs" / "gcp.md").read_text()
    prerequisites = text.partition("## Prerequisites")[2].partition("\n## ")[0]
    # An account that creates nodes must be allowed to act as the nodes' account.
    for role in {*ROLES.values(), "roles/iam.serviceAccountUser"}:
        assert f"`{role}`" in prerequisites, role


CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
NETWORK = "gcp:compute/network:Network"


def test_the_cluster_is_what_multi_networking_and_lustre_need() -> None:
    cluster = one("gcp-a3-ultra", CLUSTER, "a3-ultra-gcp-gke-control-plane")
    assert cluster["networkConfig"] == {
        "datapathProvider": "ADVANCED_DATAPATH",
        "enableMultiNetworking": True,
    }
    assert cluster["privateClusterConfig"] == {"enablePrivateNodes": True}
    assert "masterAuthorizedNetworksConfig" not in cluster
    assert cluster["controlPlaneEndpointsConfig"] == {
        "dnsEndpointConfig": {"allowExternalTraffic": True},
        "ipEndpointsConfig": {"enabled": False},
    }
    assert cluster["workloadIdentityConfig"] == {"workloadPool": "railhead-training.svc.id.goog"}
    assert cluster["releaseChannel"] == {"channel": "REGULAR"}
    addons = {name: config["enabled"] for name, config in cluster["addonsConfig"].items()}
    assert addons == {
        "gcePersistentDiskCsiDriverConfig": True,
        "gcpFilestoreCsiDriverConfig": True,
        "gcsFuseCsiDriverConfig": True,
        "lustreCsiDriverConfig": True,
    }
    exclusions = cluster["maintenancePolicy"]["window"]["maintenanceExclusions"]
    assert exclusions["no-minor-or-node-upgrades"] == {
        "startTime": "2026-11-21T00:00:00Z",
        "maintenanceExclusionOptions": {
            "scope": "NO_MINOR_OR_NODE_UPGRADES",
            "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
        },
    }


def test_a_reserved_pool_asks_for_its_block() -> None:
    pool = one("gcp-a3-ultra", POOL, "a3-ultra-gcp-h200-pool")
    assert pool["initialNodeCount"] == 16
    assert pool["locations"] == ["europe-west1-b"]
    assert "autoscaling" not in pool
    assert "placementPolicy" not in pool
    config = pool["config"]
    assert config["machineType"] == "a3-ultragpu-8g"
    assert config["accelerators"] == [
        {
            "acceleratorType": "nvidia-h200-141gb",
            "acceleratorCount": "8",
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
        }
    ]
    assert config["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["a3-ultra-16/reservationBlocks/a3-ultra-16-block-0001"],
    }
    assert config["ephemeralStorageLocalSsdConfig"] == {"localSsdCount": 32}
    assert config["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    ]


def test_a_pool_has_a_network_a_nic_in_the_order_of_the_nics() -> None:
    pool = one("gcp-a3-ultra", POOL, "a3-ultra-gcp-h200-pool")
    attached = pool["networkConfig"]["additionalNodeNetworkConfigs"]
    rails = [{"network": "a3-ultra-rdma", "subnetwork": f"a3-ultra-rdma-{i}"} for i in range(8)]
    host = {"network": "a3-ultra-gvnic-1", "subnetwork": "a3-ultra-gvnic-1"}
    assert attached == [host, *rails]
    pool = one("gcp-a3-mega", POOL, "a3-mega-gcp-h100-mega-pool")
    attached = pool["networkConfig"]["additionalNodeNetworkConfigs"]
    names = [f"a3-mega-vpc{i}" for i in range(1, 9)]
    assert attached == [{"network": name, "subnetwork": name} for name in names]


def test_the_rdma_network_has_the_zones_profile() -> None:
    network = one("gcp-a3-ultra", NETWORK, "a3-ultra-gcp-gpu-networks-rdma-vpc")
    assert network == {
        "name": "a3-ultra-rdma",
        "autoCreateSubnetworks": False,
        "routingConfig": {"routingMode": "REGIONAL"},
        "mtu": 8896,
        "networkProfile": "projects/railhead-training/global/networkProfiles/"
        "europe-west1-b-vpc-roce",
    }


def test_placement_is_the_reservations_or_the_pools_own() -> None:
    reserved = one("gcp-a3-mega", POOL, "a3-mega-gcp-h100-mega-pool")
    assert reserved["placementPolicy"] == {"type": "COMPACT", "policyName": "a3-mega-8-compact"}
    burst = one("gcp-a3-mega", POOL, "a3-mega-gcp-h100-burst-pool")
    assert "placementPolicy" not in burst
    assert burst["config"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}


def test_burst_pool_starts_without_nodes() -> None:
    """Nodes on demand would run forever without `min_nodes`, and `up` fails without capacity."""
    burst = one("gcp-a3-mega", POOL, "a3-mega-gcp-h100-burst-pool")
    assert burst["queuedProvisioning"] == {"enabled": True}
    assert burst["config"]["flexStart"] is True
    assert burst["initialNodeCount"] == 0
    assert burst["autoscaling"]["totalMinNodeCount"] == 0


def test_file_systems_and_buckets() -> None:
    lustre = one(
        "gcp-a3-ultra", "gcp:lustre/instance:Instance", "a3-ultra-gcp-storage-lustre-instance"
    )
    assert lustre["capacityGb"] == "36000"
    assert lustre["perUnitStorageThroughput"] == "500"
    filestore = one(
        "gcp-a3-mega",
        "gcp:filestore/instance:Instance",
        "a3-mega-gcp-storage-filestore-instance",
    )
    assert filestore["tier"] == "ZONAL"
    assert filestore["fileShares"] == [{"name": "share", "capacityGb": "20480"}]
    bucket = one(
        "gcp-a3-ultra", "gcp:storage/bucket:Bucket", "a3-ultra-gcp-storage-datasets-bucket"
    )
    assert bucket["iamConfiguration"] == {
        "uniformBucketLevelAccess": {"enabled": True},
        "publicAccessPrevention": "enforced",
    }
    assert bucket["hierarchicalNamespace"] == {"enabled": True}


# (stack, type, logical name) -> (path in the request, a value that the API refuses).
MUTATIONS: Mapping[tuple[str, str, str], list[tuple[str, Any]]] = {
    ("gcp-a3-ultra", CLUSTER, "a3-ultra-gcp-gke-control-plane"): [
        ("networkConfig.datapathProvider", "DATAPLANE_V2"),
        ("networkConfig.enableMultiNetworking", "true"),
        ("releaseChannel.channel", "regular"),
        ("ipAllocationPolicy.stackType", "IPV4_ONLY"),
        ("monitoringConfig.componentConfig.enableComponents", ["GPU"]),
        ("maintenancePolicy.window.recurringWindow.window.startTime", "2026-11-28"),
        ("addonsConfig.lustreCsiDriver", {"enabled": True}),
        ("name", "a" * 41),
        ("endpoint", "10.0.0.1"),
    ],
    ("gcp-a3-ultra", POOL, "a3-ultra-gcp-h200-pool"): [
        ("placementPolicy", {"type": "COLLOCATED"}),
        ("config.reservationAffinity.consumeReservationType", "SPECIFIC"),
        ("config.reservationAffinity.consumeReservationType", "UNSPECIFIED"),
        ("config.taints", [{"key": "a", "value": "b", "effect": "NoSchedule"}]),
        ("config.accelerators", [{"acceleratorType": "nvidia-h200-141gb", "acceleratorCount": 8}]),
        ("config.workloadMetadataConfig.mode", "GCE"),
        ("config.maxRunDuration", "7d"),
        ("upgradeSettings.strategy", "ROLLING"),
        ("initialNodeCount", "16"),
        ("config.guestAccelerators", []),
    ],
    ("gcp-a3-ultra", NETWORK, "a3-ultra-gcp-network-vpc"): [
        ("mtu", 9000),
        ("routingConfig.routingMode", "regional"),
        ("name", "A3-ultra"),
        ("name", "a" * 64),
        ("name", None),
    ],
    (
        "gcp-a3-mega",
        "gcp:filestore/instance:Instance",
        "a3-mega-gcp-storage-filestore-instance",
    ): [
        ("tier", "SSD"),
        ("protocol", "NFS_V4"),
        ("fileShares", [{"capacityGb": "20480"}]),
        ("fileShares", [{"name": "share", "capacityGb": 20480}]),
        ("networks", [{"network": "n", "modes": ["IPV4"]}]),
    ],
    (
        "gcp-a3-ultra",
        "gcp:lustre/instance:Instance",
        "a3-ultra-gcp-storage-lustre-instance",
    ): [
        ("perUnitStorageThroughput", "600"),
        ("capacityGb", "17000"),
        ("filesystem", "lustrefs-1"),
        ("capacityGb", None),
    ],
    ("gcp-a3-ultra", "gcp:storage/bucket:Bucket", "a3-ultra-gcp-storage-datasets-bucket"): [
        ("iamConfiguration.uniformBucketLevelAccess.enabled", "true"),
        ("hierarchicalNamespace.enable", True),
        ("name", None),
    ],
    ("gcp-a3-ultra", "gcp:serviceaccount/account:Account", "a3-ultra-gcp-nodes-account"): [
        ("accountId", "a" * 31),
        ("accountId", "Nodes-of-a3"),
        ("accountId", None),
    ],
}


@pytest.mark.parametrize(
    ("where", "path", "value"),
    [(where, path, value) for where, pairs in MUTATIONS.items() for path, value in pairs],
)
def test_a_wrong_value_is_found(where: tuple[str, str, str], path: str, value: Any) -> None:
    body = copy.deepcopy(one(*where))
    at = body
    *folders, last = path.split(".")
    for folder in folders:
        at = at.setdefault(folder, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    assert not refused(where[1], one(*where))
    result = refused(where[1], body)
    assert result
    assert all(last in line for line in result)


def test_an_input_that_nobody_mapped_is_found() -> None:
    with pytest.raises(AssertionError, match="bestEffortProvisioning is not mapped"):
        request(POOL, {"bestEffortProvisioning": {"enabled": True}})
