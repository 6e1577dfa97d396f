"""Order of creation and deletion on Google Cloud, read from Google's documentation.

Each assertion is about one step and what that step needs while it runs; beside it is the document
that says so. The engine deletes in the reverse of the order in which it makes.
"""

from __future__ import annotations

import pytest

from tests.components.order import assert_first, before, turns
from tests.components.recording import STACKS, Recording, Registered, recorded

pytestmark = pytest.mark.slow

GCP = [name for name in STACKS if name.startswith("gcp-")]

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ROUTER = "gcp:compute/router:Router"
NAT = "gcp:compute/routerNat:RouterNat"
FIREWALL = "gcp:compute/firewall:Firewall"
RANGE = "gcp:compute/globalAddress:GlobalAddress"
CONNECTION = "gcp:servicenetworking/connection:Connection"
LUSTRE = "gcp:lustre/instance:Instance"
FILESTORE = "gcp:filestore/instance:Instance"
BUCKET = "gcp:storage/bucket:Bucket"
GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"
MEMBER = "gcp:projects/iAMMember:IAMMember"
ACCOUNT = "gcp:serviceaccount/account:Account"
RECORD = "gcp:dns/recordSet:RecordSet"


@pytest.fixture(scope="module", params=GCP)
def stack(request: pytest.FixtureRequest) -> Recording:
    return recorded(request.param)


def gpu_pools(stack: Recording) -> list[Registered]:
    results = [p for p in stack.of_type(POOL) if "guestAccelerators" in p.inputs["nodeConfig"]]
    assert results
    return results


def inside(stack: Recording) -> list[Registered]:
    results = [r for r in stack.resources.values() if r.type.startswith("kubernetes:")]
    assert len(results) > 20
    return results


class TestNodes:
    def test_they_have_their_way_out_and_their_rights(self, stack: Recording) -> None:
        """GKE documentation, private nodes: images and packages come through Cloud NAT; least
        privilege for nodes: without container.defaultNodeServiceAccount a node does not register.
        The pool that GKE makes with the cluster, and takes away, needs both.
        """
        rights = [m for m in stack.of_type(MEMBER) if "-gcp-nodes-" in m.name]
        own = [f for f in stack.of_type(FIREWALL) if f.name.endswith("-network-internal")]
        (cluster,) = stack.of_type(CLUSTER)
        for step in (cluster, *stack.of_type(POOL)):
            for needed in (stack.of_type(NAT), own, rights, stack.of_type(ACCOUNT)):
                assert_first(stack, needed, step)

    def test_a_nat_gateway_has_its_router(self, stack: Recording) -> None:
        """Cloud NAT documentation: a gateway is a part of its router's configuration."""
        for nat in stack.of_type(NAT):
            assert_first(stack, stack.of_type(ROUTER), nat)

    def test_gpu_nodes_have_every_rail_and_its_rules(self, stack: Recording) -> None:
        """GKE documentation, multi-network support for Pods: VPCs and subnets are there before the
        pool; a subnet goes only when no interface is in it. Ranks meet over gVNIC rails, which let
        nothing in without a rule (GPUDirect-TCPXO: create VPCs, subnets and firewall rules first).
        """
        subnets = [s for s in stack.of_type(SUBNETWORK) if "-gpu-networks-" in s.name]
        rules = [f for f in stack.of_type(FIREWALL) if "-gpu-networks-" in f.name]
        for pool in gpu_pools(stack):
            assert_first(stack, subnets, pool)
            assert_first(stack, rules, pool)


class TestInside:
    def test_controllers_run_as_long_as_anything_is_inside(self, stack: Recording) -> None:
        """Kubernetes documentation, finalizers: a job, a queue or a namespace goes when its
        controller lets it; controllers need nodes, and those a control plane.
        """
        system = [p for p in stack.of_type(POOL) if p.inputs["name"] == "system"]
        for resource in inside(stack):
            assert_first(stack, system, resource)
            assert_first(stack, stack.of_type(CLUSTER), resource)

    def test_gpu_nodes_stay_until_what_runs_on_them_is_gone(self, stack: Recording) -> None:
        """Kubernetes documentation, pod termination: a pod is gone when its node's kubelet has
        ended it, and a namespace when its pods are; a node pool that GKE deletes meanwhile takes
        the kubelet away. The same holds for a DaemonSet on GPU nodes.
        """
        (namespace,) = [
            r for r in stack.kind("Namespace") if r.inputs["metadata"]["name"] == "training"
        ]
        installers = [r for r in stack.kind("DaemonSet") if "-fabric-" in r.name]
        assert installers
        for step in (namespace, *installers, *stack.kind("ClusterTrainingRuntime")):
            assert_first(stack, gpu_pools(stack), step)

    def test_controllers_do_not_wait_for_gpu_nodes(self, stack: Recording) -> None:
        """GPU nodes may take an hour, or never come; Kueue and its like run on the system pool."""
        for release in stack.of_type("kubernetes:helm.sh/v3:Release"):
            if release.inputs["name"] in ("kueue", "jobset", "kubeflow-trainer"):
                assert not {p.urn for p in gpu_pools(stack)} & before(stack, release.urn)

    def test_a_network_has_its_parameters(self, stack: Recording) -> None:
        """GKE documentation, multi-network support for Pods: a Network refers to them; GKE holds
        parameters that a Network refers to. Pools and Networks need no order: cluster-toolkit,
        modules/scheduler/gke-cluster and modules/compute/gke-node-pool have both wait for the
        cluster alone.
        """
        for network in stack.kind("Network"):
            name = network.inputs["metadata"]["name"]
            assert_first(stack, [stack.one("GKENetworkParamSet", name)], network)

    def test_what_asks_for_rails_comes_after_them(self, stack: Recording) -> None:
        """The annotation networking.gke.io/interfaces names Network objects that are there."""
        for runtime in stack.kind("ClusterTrainingRuntime"):
            assert_first(stack, stack.kind("Network"), runtime)

    def test_researchers_get_in_until_their_jobs_are_gone(self, stack: Recording) -> None:
        """A running job ends `destroy` in its first turn (docs/editing.md); they are to end it."""
        for grant in (m for m in stack.of_type(MEMBER) if "-researchers-" in m.name):
            for step in inside(stack):
                assert_first(stack, [grant], step)


class TestStorage:
    def test_lustre_has_its_connection_and_its_way_back(self, stack: Recording) -> None:
        """Managed Lustre documentation, create an instance: private services access first, and a
        rule for TCP 988. VPC documentation: a connection's range is allocated before it.
        """
        for lustre in stack.of_type(LUSTRE):
            assert_first(stack, stack.of_type(CONNECTION), lustre)
            rules = [f for f in stack.of_type(FIREWALL) if f.name.endswith("-access-lustre")]
            assert_first(stack, rules, lustre)
        for connection in stack.of_type(CONNECTION):
            assert_first(stack, stack.of_type(RANGE), connection)

    def test_a_file_system_has_its_network(self, stack: Recording) -> None:
        """Filestore and Lustre documentation: the VPC is there, and goes after the instance."""
        vpc = [n for n in stack.of_type(NETWORK) if n.name.endswith("-network-vpc")]
        for instance in (*stack.of_type(LUSTRE), *stack.of_type(FILESTORE)):
            assert_first(stack, vpc, instance)

    def test_filestore_takes_addresses_last(self, stack: Recording) -> None:
        """file.v1, NetworkConfig.reservedIpRange: an instance's range, which Google chooses here,
        overlaps no subnet that is there, and no subnet may come into it later.
        """
        subnets = [s for s in stack.of_type(SUBNETWORK) if s.name.endswith("-network-subnet")]
        assert subnets
        for instance in stack.of_type(FILESTORE):
            assert_first(stack, subnets, instance)

    def test_bucket_grants_follow_the_identity_pool(self, stack: Recording) -> None:
        """GKE documentation, workload identity: PROJECT.svc.id.goog comes with the project's first
        cluster that has it; until then IAM answers "Identity Pool does not exist".
        """
        for grant in stack.of_type(GRANT):
            assert_first(stack, stack.of_type(CLUSTER), grant)
            assert_first(stack, stack.of_type(BUCKET), grant)

    def test_pods_that_mount_a_bucket_have_the_right_to_it(self, stack: Recording) -> None:
        """Cloud Storage FUSE documentation: the sidecar mounts by name, with the pod's rights."""
        for volume in stack.kind("PersistentVolume"):
            if volume.inputs["spec"]["csi"]["driver"] != "gcsfuse.csi.storage.gke.io":
                continue
            assert_first(stack, stack.of_type(GRANT), volume)
            assert_first(stack, stack.of_type(RECORD), volume)

    def test_full_bucket_keeps_nothing_dear(self, stack: Recording) -> None:
        """The provider does not delete a bucket with objects, and `destroy` ends in that turn."""
        turn = turns(stack)
        for bucket in stack.of_type(BUCKET):
            for dear in (*gpu_pools(stack), *stack.of_type(LUSTRE), *stack.of_type(FILESTORE)):
                assert turn[dear.urn] < turn[bucket.urn], dear.name

    def test_pods_mount_what_is_there(self, stack: Recording) -> None:
        """A claim binds to the volume that waits for it; jobs come after the claims."""
        for claim in stack.kind("PersistentVolumeClaim"):
            meta = claim.inputs["metadata"]
            volume = stack.one("PersistentVolume", f"{meta['namespace']}-{meta['name']}")
            assert_first(stack, [volume], claim)


def test_an_order_that_is_not_there_is_found() -> None:
    mega = recorded("gcp-a3-mega")
    (cluster,) = mega.of_type(CLUSTER)
    with pytest.raises(AssertionError, match="may run without"):
        assert_first(mega, gpu_pools(mega), cluster)
    with pytest.raises(AssertionError, match="is there at all"):
        assert_first(mega, mega.of_type(LUSTRE), cluster)
