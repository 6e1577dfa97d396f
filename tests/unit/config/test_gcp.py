"""Mistakes in a stack on GCP, each by the field that holds it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead import config
from railhead.base.errors import InputError
from railhead.base.sections import read
from railhead.machines import GKE_MACHINES, MACHINES
from railhead.platform.gcp.checks import given_by_gke, problems
from railhead.platform.gcp.facts import node_networks
from railhead.platform.gcp.model import GcpCluster
from railhead.resolve.queues import queues
from railhead.resolve.queues import settings as kueue_settings
from tests.shipped import GCP_NETWORK, stack

ULTRA, MEGA = stack("gcp-a3-ultra"), stack("gcp-a3-mega")
GONE = object()


def changed(raw: Mapping[str, Any], *changes: tuple[str, Any]) -> dict[str, Any]:
    """Return a copy with values at dotted paths, numbers for list places; GONE takes one away."""
    result: dict[str, Any] = copy.deepcopy(dict(raw))
    for path, value in changes:
        *folders, last = path.split(".")
        at: Any = result
        for folder in folders:
            at = at[int(folder)] if isinstance(at, list) else at[folder]
        key: Any = int(last) if isinstance(at, list) else last
        if value is GONE:
            del at[key]
        else:
            at[key] = value
    return result


def rails(*subnetworks: str, host: str = "host") -> dict[str, Any]:
    """Return GPU networks that are there, of an A3 Ultra: a VPC, and one of all rails."""
    networks = [{"network": host, "subnetwork": "host"}]
    networks += [{"network": "rdma", "subnetwork": name} for name in subnetworks]
    return {"kind": "existing", "networks": networks}


EIGHT = [f"rail-{index}" for index in range(8)]


def mistakes(raw: Mapping[str, Any]) -> str:
    try:
        config.parse(raw, where="x.yaml")
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["gcp-a3-ultra", "gcp-a3-mega"])
def test_the_stacks_are_without_mistakes(name: str) -> None:
    cluster = config.parse(stack(name), where="x.yaml")
    assert isinstance(cluster, GcpCluster)


COMPACT = {"kind": "compact"}
ANOTHER_LUSTRE = {
    "kind": "lustre",
    "name": "scratch",
    "capacity_gib": 180000,
    "throughput": 500,
    "filesystem": "scratch",
}
FLEX = {"kind": "flex-start"}
BY_KUEUE: list[tuple[str, Any]] = [
    ("pools.0.capacity", FLEX),
    (
        "pools.0.tolerations",
        [{"key": "nvidia.com/gpu"}, {"key": "cloud.google.com/gke-queued"}],
    ),
]
UNQUEUED = {**FLEX, "queued": False}
VOLCANO: list[tuple[str, Any]] = [
    ("queueing", {"scheduler": "volcano"}),
    ("ready_timeout_seconds", GONE),
    # MPI's, which Volcano cannot start.
    ("runtimes.2", GONE),
]

WRONG: list[tuple[Mapping[str, Any], list[tuple[str, Any]], str, str]] = [
    (ULTRA, [("platform.zone", "us-east5-a")], "platform.zone", "not in region 'europe-west1'"),
    (ULTRA, [("platform.zone", "europe-west1")], "platform.zone", "is not a zone"),
    (ULTRA, [("platform.project", "x")], "platform.project", "is not a project's id"),
    (
        ULTRA,
        [("platform.system_pool.zones", ["europe-west1-b", "europe-west4-a"])],
        "platform.system_pool.zones[1]",
        "not in region",
    ),
    (
        ULTRA,
        [("platform.system_pool.max_nodes", 1)],
        "platform.system_pool.max_nodes",
        "1 is less than min_nodes, 2",
    ),
    (MEGA, [("gpu_operator", {})], "gpu_operator", "does not run on nodes of Container-Optimized"),
    (
        MEGA,
        [("gpu_operator", {"driver": "host", "toolkit": "host"}), ("pools.0.driver", "disabled")],
        "gpu_operator",
        "remove it",
    ),
    (
        ULTRA,
        [("platform.endpoint", {"kind": "open"})],
        "platform.endpoint.kind",
        "'open' is not known",
    ),
    (
        ULTRA,
        [("platform.endpoint", {"kind": "public", "authorized_networks": []})],
        "platform.endpoint.authorized_networks",
        "is empty",
    ),
    (ULTRA, [("platform.groups", GONE)], "platform.groups", "ml-researchers@example.com"),
    (ULTRA, [("researchers", "ml-researchers")], "researchers", "is no group's address"),
    (
        ULTRA,
        [
            (
                "platform.network",
                {
                    "kind": "existing",
                    "network": "n",
                    "subnetwork": "s",
                    "pods_range": "p",
                    "services_range": "v",
                    "service_connection": True,
                },
            )
        ],
        "platform.network.storage_names",
        "pods reach the bucket of platform.storage[1] only at the addresses",
    ),
    (
        MEGA,
        [
            (
                "platform.network",
                {
                    "kind": "existing",
                    "project": "network-host",
                    "network": "n",
                    "subnetwork": "s",
                    "pods_range": "p",
                    "services_range": "v",
                },
            )
        ],
        "platform.storage[0].kind",
        "'filestore' is not to be had in a network of project 'network-host'",
    ),
    (
        ULTRA,
        [("platform.storage.1.cache_gib", 10608)],
        "platform.storage[1].cache_gib",
        "10608 is more than the 10607 GiB of local SSDs that pods may fill on a 'a3-ultragpu-8g'",
    ),
    (
        ULTRA,
        [("platform.storage.1.cache_gib", 0)],
        "platform.storage[1].cache_gib",
        "greater than or equal to 1",
    ),
    (ULTRA, [("platform.groups", "people@example.com")], "platform.groups", "gke-security-groups@"),
    (
        MEGA,
        [("runtimes.0.image", "nvcr.io/nvidia/pytorch:25.10-py3")],
        "runtimes[0].image",
        "has CUDA 13, but plugin v1.0.16 of fabric 'tcpxo' goes with CUDA 12",
    ),
    (ULTRA, [("pools.0.name", "system")], "pools[0].name", "is the pool of the controllers"),
    (
        MEGA,
        [("platform.endpoint.authorized_networks.1", "0.0.0.0/0")],
        "platform.endpoint.authorized_networks[1]",
        "is the whole internet",
    ),
    (
        ULTRA,
        [("platform.network.google_services", GONE)],
        "platform.network.google_services",
        "platform.storage[0] gets its addresses from it",
    ),
    (
        ULTRA,
        [("platform.network.google_services", "10.8.0.0/28")],
        "platform.network.google_services",
        "has no /24 for each Lustre file system (1)",
    ),
    (
        ULTRA,
        [
            ("platform.network.google_services", "10.8.0.0/24"),
            ("platform.storage.1", ANOTHER_LUSTRE),
            ("checkpoints.1.storage_class", "scratch"),
        ],
        "platform.network.google_services",
        "has no /24 for each Lustre file system (2)",
    ),
    (
        ULTRA,
        [("platform.network.google_services", "10.4.0.0/20")],
        "platform.network.google_services",
        "overlaps '10.4.0.0/14'",
    ),
    (
        ULTRA,
        [("platform.labels", {"Team": "x"})],
        "platform.labels.Team",
        "is not a resource label",
    ),
    # Capacity.
    (
        ULTRA,
        [("pools.0.capacity", {"kind": "reserved"})],
        "pools[0].capacity.kind",
        "did you mean 'reservation'?",
    ),
    (
        ULTRA,
        [("pools.0.capacity", {"kind": "reservation", "name": "r", "subblock": "s"})],
        "pools[0].capacity.subblock",
        "name its block as well",
    ),
    (
        ULTRA,
        [("pools.0.capacity", FLEX), ("pools.0.min_nodes", 2)],
        "pools[0].min_nodes",
        "leave it out or set 0",
    ),
    (ULTRA, [("pools.0.min_nodes", 17)], "pools[0].min_nodes", "17 is more than nodes, 16"),
    (
        ULTRA,
        [("pools.0.capacity", {"kind": "spot"}), ("pools.0.min_nodes", 0)],
        "pools[0].min_nodes",
        "0: the pool begins with so many nodes and never grows",
    ),
    (
        ULTRA,
        [("pools.0.capacity", {**FLEX, "max_run_seconds": 604801})],
        "pools[0].capacity.max_run_seconds",
        "less than or equal to 604800",
    ),
    (
        MEGA,
        [
            *BY_KUEUE,
            ("pools.0.capacity", {**FLEX, "max_run_seconds": 3600}),
            ("pools.0.placement", {"kind": "none"}),
        ],
        "pools[1].capacity.max_run_seconds",
        "604800 is not the 3600 of pools[0]: Kueue asks for the nodes of all queued pools",
    ),
    (
        ULTRA,
        [("pools.0.image_cache", "projects/railhead-training/global/images/training-images")],
        "pools[0].image_cache",
        "set image_streaming to true",
    ),
    *(
        (
            ULTRA,
            [("pools.0.image_streaming", True), ("pools.0.image_cache", image)],
            "pools[0].image_cache",
            "is not a disk image",
        )
        for image in ("training-images", "projects/railhead-training/images/training-images")
    ),
    # Placement.
    (
        ULTRA,
        [*BY_KUEUE, ("pools.0.placement", COMPACT)],
        "pools[0].placement.kind",
        "'compact' does not go with queued flex-start",
    ),
    (
        ULTRA,
        [*BY_KUEUE, ("pools.0.placement", {"kind": "workload-policy"})],
        "pools[0].placement.kind",
        "'workload-policy' does not go with queued flex-start",
    ),
    (
        MEGA,
        [("pools.0.capacity", UNQUEUED), ("pools.0.placement", {"kind": "workload-policy"})],
        "pools[0].placement.kind",
        "'workload-policy' does not go with flex-start on 'a3-megagpu-8g'; it does on:",
    ),
    (
        MEGA,
        [("pools.1.tolerations", [{"key": "nvidia.com/gpu"}])],
        "pools[1].tolerations",
        "add {key: cloud.google.com/gke-queued, operator: Exists}",
    ),
    (
        ULTRA,
        [("pools.0.capacity", UNQUEUED)],
        "pools[0].capacity.queued",
        "none would ever start; leave it out, or take `scheduler: volcano`",
    ),
    *(
        (
            MEGA,
            [("pools.0.capacity", {"kind": kind}), ("pools.0.placement", {"kind": "none"})],
            "pools[0].placement.kind",
            "have no label 'cloud.google.com/gce-topology-block'",
        )
        for kind in ("on-demand", "spot")
    ),
    (
        MEGA,
        [("pools.0.nodes", 97)],
        "pools[0].nodes",
        "97 are more than the 96 of 'a3-megagpu-8g' that one placement policy holds",
    ),
    (
        ULTRA,
        [("pools.0.nodes", 97), ("pools.0.placement", {"kind": "workload-policy"})],
        "pools[0].nodes",
        "97 are more than the 96 of 'a3-ultragpu-8g' that one placement policy holds",
    ),
    (
        ULTRA,
        [("pools.0.disk_type", "pd-ssd")],
        "pools[0].disk_type",
        "'pd-ssd': nodes of 'a3-ultragpu-8g' do not boot from it, but from: hyperdisk-balanced",
    ),
    (
        MEGA,
        [
            ("pools.1.capacity", UNQUEUED),
            ("pools.1.placement", COMPACT),
        ],
        "pools[1].placement.kind",
        "it does on: a3-ultragpu-8g, a4-highgpu-8g",
    ),
    (
        MEGA,
        [
            ("pools.1.instance_type", "a3-highgpu-8g"),
            ("pools.1.placement", {**COMPACT, "max_distance": 1}),
        ],
        "pools[1].placement.max_distance",
        "1 fails on 'a3-highgpu-8g' (dstackai/dstack#2586",
    ),
    (
        MEGA,
        [("pools.0.placement.max_distance", 2)],
        "pools[0].placement.max_distance",
        "is the policy's own",
    ),
    (
        ULTRA,
        [("pools.0.placement", {"kind": "workload-policy", "accelerator_topology": "1x72"})],
        "pools[0].placement.accelerator_topology",
        "has no accelerator topology",
    ),
    (
        ULTRA,
        [("pools.0.instance_type", "a4x-highgpu-4g")],
        "pools[0].instance_type",
        "is not made here: its plugin for arm64, the IMEX domains",
    ),
    (
        ULTRA,
        [("pools.0.instance_type", "a4x-highgpu-4g")],
        "pools[0].placement",
        "accelerator_topology '1x72'",
    ),
    # Networks.
    (
        ULTRA,
        [("platform.gpu_networks", GONE)],
        "platform.gpu_networks",
        "9 further interfaces: gvnic-1, rdma-0",
    ),
    (
        ULTRA,
        [
            (
                "platform.gpu_networks",
                {"kind": "existing", "networks": [{"network": "a", "subnetwork": "a"}]},
            )
        ],
        "platform.gpu_networks.networks",
        "1 networks for the 9 further interfaces",
    ),
    (
        ULTRA,
        [("platform.gpu_networks", rails(*EIGHT[:7], "rail-0"))],
        "platform.gpu_networks.networks[8].subnetwork",
        "'rail-0' is platform.gpu_networks.networks[1]'s as well",
    ),
    (
        ULTRA,
        [("platform.network", GCP_NETWORK), ("platform.gpu_networks", rails(*EIGHT, host="net"))],
        "platform.gpu_networks.networks[0].network",
        "'net' is platform.network's, of which GKE gives pods no interface",
    ),
    (
        ULTRA,
        [("platform.network", GCP_NETWORK | {"project": "network-host"})],
        "pools[0].networking",
        "no pod would get one; take a `network` of the cluster's own project",
    ),
    (
        MEGA,
        [("platform.network", GCP_NETWORK | {"project": "network-host"})],
        "pools[1].networking",
        "no pod would get one; take a `network` of the cluster's own project",
    ),
    (
        ULTRA,
        [("pools.0.networking", "dranet"), ("fabric", {"kind": "gcp-rdma", "mode": "gcp-rdma"})],
        "pools[0].networking",
        "set it to 'additional-networks', or fabric.mode to 'dranet'",
    ),
    (
        ULTRA,
        [("pools.0.networking", "dranet")],
        "platform.gpu_networks",
        "no pool uses it",
    ),
    (
        ULTRA,
        [
            *BY_KUEUE,
            ("pools.0.networking", "dranet"),
            ("platform.gpu_networks", GONE),
            ("fabric", {"kind": "gcp-rdma", "mode": "dranet", "driver": "managed"}),
        ],
        "pools[0].capacity.queued",
        "set fabric.mode to 'gcp-rdma' and every pool's networking to 'additional-networks'",
    ),
    (
        ULTRA,
        [("pools.0.networking", "dranet"), ("platform.kubernetes", "1.34.1-gke.1431000")],
        "platform.kubernetes",
        "it needs 1.34.1-gke.1829001",
    ),
    (
        ULTRA,
        [("pools.0.networking", "dranet"), ("platform.kubernetes", "1.33")],
        "platform.kubernetes",
        "it needs 1.34.1",
    ),
    (
        MEGA,
        [("pools.0.networking", "dranet")],
        "pools[0].networking",
        "not to be had for 'a3-megagpu-8g'",
    ),
    (
        ULTRA,
        [
            ("pools.0.networking", "dranet"),
            ("platform.gpu_networks", GONE),
            ("fabric", {"kind": "gcp-rdma", "mode": "dranet", "driver": "install"}),
        ],
        "fabric.driver",
        "write 'managed'",
    ),
    (
        ULTRA,
        [("fabric", {"kind": "gcp-rdma", "mode": "dranet", "driver": "managed"})],
        "pools[0].networking",
        "must be 'dranet'",
    ),
    (
        MEGA,
        [("pools.1.instance_type", "a3-ultragpu-8g")],
        "pools[1].instance_type",
        "other network interfaces than the pools before it",
    ),
    (
        ULTRA,
        [
            (
                "fabric",
                {
                    "kind": "gcp-rdma",
                    "mode": "gcp-rdma",
                    "rails": [{"network": "rdma0", "interface": "eth2"}],
                },
            )
        ],
        "fabric.rails[0].network",
        "did you mean 'rdma-0'?",
    ),
    (
        ULTRA,
        [("platform.network.services", "10.5.0.0/20")],
        "platform.network.services",
        "overlaps '10.4.0.0/14' of platform.network.pods",
    ),
    (
        ULTRA,
        [("platform.gpu_networks.cidr", "10.0.0.0/16")],
        "platform.gpu_networks.cidr",
        "overlaps '10.0.0.0/20' of platform.network.nodes",
    ),
    (
        ULTRA,
        [("platform.network.nodes", "10.0.0.0/28")],
        "platform.network.nodes",
        "12 addresses for 23 nodes",
    ),
    (
        ULTRA,
        [("platform.network.pods", "10.4.0.0/20")],
        "platform.network.pods",
        "room for 16 nodes",
    ),
    (
        ULTRA,
        [("platform.gpu_networks.cidr", "192.168.0.0/24")],
        "platform.gpu_networks.cidr",
        "12 addresses in each for 16 GPU nodes",
    ),
    (ULTRA, [("platform.network.pods", "fd00::/48")], "platform.network.pods", "is IPv6"),
    (
        ULTRA,
        [("platform.gpu_networks.cidr", "fd00::/48")],
        "platform.gpu_networks.cidr",
        "is IPv6",
    ),
    (
        ULTRA,
        [("platform.network.services", "10.16.0.0/15")],
        "platform.network.services",
        "wider than the /16 that GKE takes",
    ),
    (
        MEGA,
        [("platform.network.nodes", "100.64.0.0/20")],
        "platform.network.nodes",
        "Filestore lets no other node in",
    ),
    (ULTRA, [("platform.network.mtu", 9000)], "platform.network.mtu", "less than or equal to 8896"),
    # Storage.
    (
        ULTRA,
        [("platform.project_number", GONE)],
        "platform.project_number",
        "platform.storage[1] name it",
    ),
    (
        ULTRA,
        [("platform.storage.0.capacity_gib", 20000)],
        "platform.storage[0].capacity_gib",
        "not to be had at 500 MB/s a TiB, but from 18000 to 20016000 GiB in steps of 18000",
    ),
    (
        ULTRA,
        [("platform.storage.0.filesystem", "lustre-fs")],
        "platform.storage[0].filesystem",
        "letters and digits, at most 8 characters",
    ),
    (
        MEGA,
        [("platform.storage.0.capacity_gib", 1000)],
        "platform.storage[0].capacity_gib",
        "1000 is not to be had, but from 1024 to 9984 GiB in steps of 256",
    ),
    # One that wants custom performance.
    (
        MEGA,
        [("platform.storage.0.tier", "regional"), ("platform.storage.0.capacity_gib", 1023)],
        "platform.storage[0].capacity_gib",
        "1023 is not to be had, but from 1024 to 10239 GiB or from 10240",
    ),
    # A step of the smaller range in the larger one.
    (
        MEGA,
        [("platform.storage.0.capacity_gib", 10496)],
        "platform.storage[0].capacity_gib",
        "from 10240 to 102400 GiB in steps of 2560",
    ),
    (
        ULTRA,
        [
            (
                "platform.storage.1",
                {"kind": "lustre", "name": "b", "capacity_gib": 36000, "throughput": 500},
            )
        ],
        "platform.storage[1].filesystem",
        "'lustrefs' is platform.storage[0]'s as well",
    ),
    (
        ULTRA,
        [("platform.storage.1.name", "lustre")],
        "platform.storage[1].name",
        "is taken by platform.storage[0]",
    ),
    (
        ULTRA,
        [("platform.storage.1.name", "standard-rwx")],
        "platform.storage[1].name",
        "a storage class of GKE's own",
    ),
    (
        ULTRA,
        [
            (
                "platform.network",
                {
                    "kind": "existing",
                    "network": "n",
                    "subnetwork": "s",
                    "pods_range": "p",
                    "services_range": "v",
                },
            )
        ],
        "platform.network.service_connection",
        "private services access",
    ),
    (
        ULTRA,
        [("checkpoints.0.storage_class", "luster")],
        "checkpoints[0].storage_class",
        "did you mean 'lustre'?",
    ),
    (
        ULTRA,
        [("checkpoints.1.storage_class", "zonal-rwx")],
        "checkpoints[1].storage_class",
        "made, and paid for, in the VPC 'default', where no node of this cluster reaches them",
    ),
    (
        MEGA,
        [("checkpoints.0.size", "21Ti")],
        "checkpoints[0].size",
        "more than the 20480 GiB of storage 'filestore'",
    ),
    *(
        (
            MEGA,
            [("platform.storage.0.addresses", block)],
            "platform.storage[0].addresses",
            f"'{block}' is no IPv4 block that Filestore takes: /26 of",
        )
        for block in ("10.8.0.0/29", "fd00::/26", "100.64.0.0/26", "172.17.0.64/26")
    ),
    (
        MEGA,
        [("platform.storage.0.addresses", "192.168.7.0/24")],
        "platform.storage[0].addresses",
        "overlaps '192.168.0.0/16' of platform.gpu_networks.cidr",
    ),
    *(
        (
            MEGA,
            [("platform.storage.0.name", name), ("checkpoints.0.storage_class", name)],
            "platform.storage[0].name",
            f"'{name}' is a storage class of GKE's own",
        )
        for name in ("zonal-rwx", "standard", "gcsfusecsi-training")
    ),
    # Nodes as Kubernetes sees them.
    (
        ULTRA,
        [("pools.0.node_selector", {"cloud.google.com/gke-nodepool": "gpu"})],
        "pools[0].node_selector.cloud.google.com/gke-nodepool",
        "GKE gives the pool's nodes 'h200'",
    ),
    (
        ULTRA,
        [("pools.0.node_selector", {"cloud.google.com/own": "x"})],
        "pools[0].node_selector.cloud.google.com/own",
        "use a label of your own",
    ),
    (
        ULTRA,
        [("pools.0.labels", {"kubernetes.io/role": "gpu"})],
        "pools[0].labels.kubernetes.io/role",
        "only GKE gives labels",
    ),
    (
        ULTRA,
        [("pools.0.tolerations", [])],
        "pools[0].tolerations",
        "tolerates 'nvidia.com/gpu'='present':NoSchedule",
    ),
    (
        ULTRA,
        [("pools.0.taints", [{"key": "team", "value": "a", "effect": "NoSchedule"}])],
        "pools[0].taints[0]",
        "add {key: team, operator: Exists}",
    ),
    (
        ULTRA,
        [("platform.maintenance.end", "2026-11-28T04:00:00Z")],
        "platform.maintenance.end",
        "less than 4 hours",
    ),
    (
        ULTRA,
        [("platform.maintenance.recurrence", "FREQ=WEEKLY;BYDAY=SA")],
        "platform.maintenance.recurrence",
        "with 8 hours a window leaves 32 hours in 32 days and GKE wants 48 hours",
    ),
    (
        ULTRA,
        [("platform.maintenance.recurrence", "FREQ=HOURLY")],
        "platform.maintenance.recurrence",
        "has no frequency that GKE takes",
    ),
    (
        ULTRA,
        [("platform.maintenance.start", "2026-11-28T02:00:00")],
        "platform.maintenance.start",
        "has no time zone",
    ),
    (
        ULTRA,
        [("platform.maintenance.start", "0001-01-01T00:00:00+14:00")],
        "platform.maintenance.start",
        "is no time that UTC has",
    ),
]


@pytest.mark.parametrize(("raw", "changes", "path", "message"), WRONG)
def test_a_mistake_is_named(
    raw: Mapping[str, Any], changes: list[tuple[str, Any]], path: str, message: str
) -> None:
    lines = mistakes(changed(raw, *changes)).splitlines()
    assert any(line.startswith(f"x.yaml: {path}: ") and message in line for line in lines), lines


def test_requests_ask_for_the_time_of_the_pool() -> None:
    """GKE asks for seven days, whatever the pool says, unless the request says less."""
    for seconds, parameters in ((604800, None), (3600, {"maxRunDurationSeconds": "3600"})):
        capacity = {**FLEX, "max_run_seconds": seconds}
        raw = changed(ULTRA, *BY_KUEUE, ("pools.0.capacity", capacity))
        provisioning = queues(config.parse(raw, where="x.yaml")).provisioning
        assert provisioning is not None
        assert provisioning.spec.get("parameters") == parameters


def test_mistakes_of_all_kinds_come_at_once() -> None:
    text = mistakes(
        changed(
            ULTRA,
            ("platform.zone", "us-east5-a"),
            ("platform.network.pods", "10.4.0.0/20"),
            ("pools.0.instance_type", "a3-ultragpu-8"),
            ("platform.endpoint", {"kind": "dnss"}),
        )
    )
    assert "did you mean 'a3-ultragpu-8g'?" in text
    assert "did you mean 'dns'?" in text
    assert "platform.zone" in text
    assert "platform.network.pods" in text


RIGHT: list[tuple[Mapping[str, Any], list[tuple[str, Any]]]] = [
    (ULTRA, [("platform.network.services", "10.16.0.0/16")]),
    # Without a Filestore.
    (ULTRA, [("platform.network.nodes", "100.64.0.0/20")]),
    (ULTRA, BY_KUEUE),
    (ULTRA, [*VOLCANO, ("pools.0.capacity", UNQUEUED), ("pools.0.placement", COMPACT)]),
    (ULTRA, [("pools.0.capacity", {"kind": "on-demand"})]),
    (
        MEGA,
        [
            ("pools.0.capacity", {"kind": "spot"}),
            ("pools.0.placement", {"kind": "none"}),
            ("topology", ["kubernetes.io/hostname"]),
        ],
    ),
    (ULTRA, [*VOLCANO, ("pools.0.capacity", {"kind": "spot"}), ("pools.0.min_nodes", 0)]),
    (ULTRA, [("pools.0.min_nodes", 16)]),
    (ULTRA, [("platform.network", GCP_NETWORK), ("platform.gpu_networks", rails(*EIGHT))]),
    (ULTRA, [("platform.network", GCP_NETWORK | {"project": ULTRA["platform"]["project"]})]),
    (
        ULTRA,
        [
            ("platform.network", GCP_NETWORK | {"project": "network-host"}),
            ("fabric", {"kind": "ethernet", "mode": "none"}),
        ],
    ),
    (ULTRA, [("pools.0.placement", {"kind": "workload-policy"})]),
    (
        ULTRA,
        [
            ("pools.0.networking", "dranet"),
            ("platform.gpu_networks", GONE),
            ("fabric", {"kind": "gcp-rdma", "mode": "dranet", "driver": "managed"}),
        ],
    ),
    # Pods of this mode claim nothing, so that GKE finds room for them.
    (
        ULTRA,
        [
            *BY_KUEUE,
            ("pools.0.networking", "dranet"),
            ("platform.gpu_networks", GONE),
            ("fabric", {"kind": "ethernet", "mode": "none"}),
        ],
    ),
    (ULTRA, [("platform.endpoint", {"kind": "private"})]),
    (ULTRA, [("platform.storage.1.cache_gib", 10607)]),
    (ULTRA, [("platform.storage.0.throughput", 125), ("platform.storage.0.capacity_gib", 72000)]),
    # GKE's own classes make their instances in this VPC.
    (
        ULTRA,
        [
            (
                "platform.network",
                {
                    "kind": "existing",
                    "network": "default",
                    "subnetwork": "s",
                    "pods_range": "p",
                    "services_range": "v",
                    "service_connection": True,
                    "storage_names": True,
                },
            ),
            ("checkpoints.1.storage_class", "zonal-rwx"),
        ],
    ),
    (
        ULTRA,
        [
            (
                "pools.0.node_selector",
                {
                    "cloud.google.com/gke-nodepool": "h200",
                    "cloud.google.com/gke-accelerator": "nvidia-h200-141gb",
                },
            )
        ],
    ),
    (ULTRA, [("pools.0.instance_type", "a4-highgpu-8g"), ("runtimes.0.cpu", "180")]),
]


@pytest.mark.parametrize(("raw", "changes"), RIGHT)
def test_valid_values_are_accepted(raw: Mapping[str, Any], changes: list[tuple[str, Any]]) -> None:
    assert mistakes(changed(raw, *changes)) == ""


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=5,
)
PLACES = [
    *(f"platform.{field}" for field in ULTRA["platform"]),
    *(f"platform.network.{field}" for field in ULTRA["platform"]["network"]),
    *(f"pools.0.{field}" for field in ULTRA["pools"][0]),
    "platform.storage.0.capacity_gib",
    "platform.maintenance.start",
    "pools.0.capacity.kind",
    "checkpoints.0.size",
    "fabric.rails",
]


@pytest.mark.slow
@given(st.sampled_from(PLACES), ANYTHING)
def test_any_value_anywhere_is_taken_or_named(place: str, value: Any) -> None:
    raw = changed(ULTRA, ("fabric.rails", []), (place, value))
    list(problems(read(GcpCluster, raw)))
    mistakes(raw)


DRANET_MODE: list[tuple[str, Any]] = [
    ("pools.0.networking", "dranet"),
    ("platform.gpu_networks", GONE),
    ("platform.kubernetes", "1.34.1-gke.1829001"),
    ("fabric", {"kind": "gcp-rdma", "mode": "dranet", "driver": "managed"}),
]


@pytest.mark.parametrize(
    ("raw", "changes", "excluded"),
    [
        (MEGA, [("pod_groups", True)], ["networking.gke.io.networks/"]),
        (ULTRA, [("pod_groups", True)], ["networking.gke.io.networks/"]),
        # Of jobs Kueue reads the templates, which GKE's webhook leaves alone.
        (MEGA, [], None),
        (ULTRA, [("pod_groups", True), *DRANET_MODE], None),
    ],
)
def test_kueue_charges_no_network_of_an_own_pod(
    raw: Mapping[str, Any], changes: list[tuple[str, Any]], excluded: list[str] | None
) -> None:
    settings = kueue_settings(config.parse(changed(raw, *changes), where="x.yaml"))
    assert settings.get("resources", {}).get("excludeResourcePrefixes") == excluded


def test_every_gcp_machine_has_a_row_for_gke() -> None:
    of_gcp = {name for name, machine in MACHINES.items() if "gcp" in machine.platforms}
    assert of_gcp == set(GKE_MACHINES)


@pytest.mark.parametrize("name", GKE_MACHINES)
def test_networks_follow_the_catalogues_nics(name: str) -> None:
    machine, row = MACHINES[name], GKE_MACHINES[name]
    networks = node_networks(machine)
    assert len(networks) == len(machine.nics) + len(machine.host_nics) - 1
    assert len({n.name for n in networks}) == len(networks)
    # GKE documentation: a Network of type Device has a name of at most 41 characters.
    assert all(len(n.name) <= 41 for n in networks)
    rdma = [n for n in networks if n.device == "RDMA"]
    assert len(rdma) == sum(nic.interface == "mrdma" for nic in machine.nics)
    assert (row.network_profile is not None) == bool(rdma)


@pytest.mark.parametrize("name", GKE_MACHINES)
def test_every_figure_of_a_row_has_a_source(name: str) -> None:
    row = GKE_MACHINES[name]
    fields = {"accelerator", "mtu", "local_ssds", "compact", "least_max_distance"}
    fields |= {"flex_start_compact", "dranet", "compact_nodes", "labelled", "boot_disks"}
    fields |= {"network_profile"} if row.network_profile else set()
    fields |= {"accelerator_topology"} if row.accelerator_topology else set()
    assert set(row.sources) == fields


@pytest.mark.parametrize(
    ("key", "own"),
    [
        ("railhead.dev/pool", False),
        ("pool", False),
        ("notkubernetes.io/x", False),
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/x", True),
        ("cloud.google.com/gke-nodepool", True),
    ],
)
def test_labels_that_gke_gives(key: str, own: bool) -> None:
    assert given_by_gke(key) is own
