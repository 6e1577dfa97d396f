"""Mistakes in a stack on GCP that span several fields, found before anything is registered.

Like :mod:`railhead.config.checks`, they read the cluster as far as it is well-formed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from railhead.base import quantity
from railhead.base.errors import choices
from railhead.base.sections import Problem, each, knowing, taken, told, told_each
from railhead.base.wide import PRIVATE, private
from railhead.fabric.modes import MODES
from railhead.machines import GKE_MACHINES, MACHINES
from railhead.machines.machine import GkeMachine
from railhead.model import namespaces
from railhead.model.queueing import KueueConfig
from railhead.platform.gcp import maintenance
from railhead.platform.gcp.facts import STANDARD_SUPPORT_ENDS, node_networks
from railhead.platform.gcp.model import (
    BucketStorage,
    CompactPlacement,
    DnsEndpoint,
    ExistingGpuNetworks,
    FilestoreStorage,
    FlexStart,
    GcpCluster,
    GcpExistingNetwork,
    GcpNewNetwork,
    GcpPool,
    GcpStorage,
    LustreStorage,
    NewGpuNetworks,
    NoPlacement,
    OnDemand,
    Reservation,
    Spot,
    Taint,
    WorkloadPolicy,
)

# The name of the node pool for controllers, in every cluster.
SYSTEM_POOL = "system"
# GKE documentation: the alias range of a node with the default of 110 pods.
POD_PREFIX = 24
# VPC documentation: the first two and the last two addresses of a subnet's primary range.
_RESERVED_ADDRESSES = 4
# GKE documentation, Allocate network resources by using GKE managed DRANET.
_DRANET_VERSION = "1.34.1-gke.1829001"
# Filestore documentation, service-tiers-zonal and service-tiers-regional, two ranges each: GiB of
# the smallest, the largest, and between sizes. From 10 TiB on the steps are 2.5 TiB. The regional
# tier's lower range ends at 10,239 GiB, which is a multiple of one GiB alone; it begins at 100, but
# below 1024 it wants custom performance (Create an instance), which the stack leaves to Google.
_FILESTORE = {
    "zonal": ((1024, 9984, 256), (10240, 102400, 2560)),
    "regional": ((1024, 10239, 1), (10240, 102400, 2560)),
}
# Managed Lustre documentation, performance tiers: MB/s a TiB -> GiB of the smallest and the
# largest, and steps up to a size.
_LUSTRE = {
    1000: (9000, 10008000, ((1530000, 9000), (10008000, 72000))),
    500: (18000, 20016000, ((3060000, 18000), (20016000, 144000))),
    250: (36000, 40032000, ((6120000, 36000), (40032000, 288000))),
    125: (72000, 12240000, ((12240000, 72000),)),
}
# Of an instance's block: zonal and regional ones want 26 (Filestore documentation, Create an
# instance; gcp-filestore-csi-driver #403, #1292). It was 24, as gcloud's help still says.
_FILESTORE_PREFIX, _FILESTORE_PREFIX_ONCE = 26, 24
# Reserved for Filestore's own components (Create an instance).
_NOT_FILESTORE = ipaddress.ip_network("172.17.0.0/16")
# What a network of the cluster's own has addresses for.
_FIELDS = ("nodes", "pods", "services", "google_services")
# Of google_services, for each Lustre instance: a contiguous block (Managed Lustre documentation,
# Configure a VPC network). It was a /24, which was too little for Google's own blueprint
# (GoogleCloudPlatform/cluster-toolkit #5306, 2026-03), and is a /23.
_LUSTRE_PREFIX, _LUSTRE_PREFIX_ONCE = 23, 24
# GKE answers "Services CIDR range is smaller than minimum (14 < 16)" (rancher/rancher #32207).
WIDEST_SERVICES = 16
# Compute Engine documentation, local SSDs: each disk has 375 GiB. Of three and more GKE keeps 100
# for itself, and the kubelet evicts pods at the last tenth (GoogleCloudPlatform/cluster-autoscaler,
# pkg/cloudprovider/gke/reserved.go: PredictEphemeralLocalSsdKubeReservedEphemeralStorage), of what
# the file system leaves: it took 50.4 GiB of 16 disks, 75.1 of 24 (kubernetes/autoscaler,
# cloudprovider/gce/reserved.go: ephemeralStorageOnLocalSSDFilesystemOverheadInKiBByOSAndDiskCount).
_LOCAL_SSD_GIB, _LOCAL_SSDS_KEPT_GIB, _OF_FILE_SYSTEM_GIB = 375, 100, 3.2
# Storage classes that GKE's Filestore driver brings. Without a parameter `network`, as they are, it
# makes the instance in the VPC `default` (kubernetes-sigs/gcp-filestore-csi-driver, pkg/csi_driver/
# controller.go: generateNewFileInstance; README, network).
_GKE_CLASSES = ("standard-rwx", "premium-rwx", "zonal-rwx", "enterprise-rwx")
# And further ones of GKE's, of disks, of shares, and of GCS FUSE (its driver, deploy/base/setup/
# storageclass.yaml): `up` ends at a second class of one name.
_TAKEN_CLASSES = (
    "standard",
    "standard-rwo",
    "premium-rwo",
    "enterprise-multishare-rwx",
    "gcsfusecsi-checkpointing",
    "gcsfusecsi-serving",
    "gcsfusecsi-training",
)
# GKE documentation, managed namespaces; Managed Service for Prometheus' are gmp-system, gmp-public.
_GKE_NAMESPACES = ("gke-managed-", "gke-gmp-", "gmp-")
# Resource Manager documentation, requirements for labels: of one resource.
_LABELS = 64
# How long before its support ends a minor is doubted: long enough to plan an upgrade of GPU nodes.
_SOON = timedelta(days=60)
# Sizes of at most 4 GiB (Compute Engine, shared-core machine types).
_SMALL = ("micro", "small", "medium")
# Levels of a node's place in the fabric, as Compute Engine reports it.
_PLACE = "cloud.google.com/gce-topology-"
# What GKE puts on every GPU node.
_GPU_TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
# And on those of queued pools, which its webhooks make no pod tolerate (GoogleCloudPlatform/
# cluster-autoscaler, pkg/provisioningrequests/pods/pods.go; cluster-toolkit, docs/
# gke-consumption-options.md).
_QUEUED_TAINT = Taint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")


def _pools(cluster: GcpCluster) -> Iterator[tuple[str, GcpPool, GkeMachine]]:
    """Yield the pools whose machine type is known and GKE's."""
    for path, pool, name in knowing(cluster.pools, "pools", lambda pool: pool.instance_type):
        if machine := GKE_MACHINES.get(name):
            yield path, pool, machine


def _interfaces(pool: GcpPool) -> list[str]:
    """Return the names of the further networks of a pool's nodes."""
    return [network.name for network in node_networks(MACHINES[pool.instance_type])]


def _gpu_operator(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield the GPU operator, which has nothing to bring to these nodes and does not run on them.

    They boot Container-Optimized OS (gpu_pool.py), where the operator loads no driver (NVIDIA,
    cloud-native-docs, gpu-operator/google-gke.rst: of Ubuntu alone) and finds Google's only with
    hostPaths and a node label that its release here has not; its toolkit then waits for a driver,
    and its pods for the runtime `nvidia` (NVIDIA/gpu-operator issue 1679).
    """
    if cluster.gpu_operator is not None:
        yield (
            "gpu_operator",
            "does not run on nodes of Container-Optimized OS, where GKE brings driver, device "
            "plugin and DCGM's metrics itself; remove it, and choose the driver by a pool's "
            "`driver`",
        )


def _zone(cluster: GcpCluster) -> Iterator[Problem]:
    region, zone = cluster.platform.region, cluster.platform.zone
    if zone.rpartition("-")[0] != region:
        yield "platform.zone", f"{zone!r} is not in region {region!r}"


def _system_zones(cluster: GcpCluster) -> Iterator[Problem]:
    region, zones = cluster.platform.region, cluster.platform.system_pool.zones
    for path, _, zone in knowing(zones, "platform.system_pool.zones", str):
        if zone.rpartition("-")[0] != region:
            yield path, f"{zone!r} is not in region {region!r}"


def _system_nodes(cluster: GcpCluster) -> Iterator[Problem]:
    pool = cluster.platform.system_pool
    if pool.min_nodes > pool.max_nodes:
        yield (
            "platform.system_pool.max_nodes",
            f"{pool.max_nodes} is less than min_nodes, {pool.min_nodes}",
        )


def _system_machine(cluster: GcpCluster) -> Iterator[Problem]:
    kind = cluster.platform.system_pool.machine_type
    if kind in MACHINES:
        yield (
            "platform.system_pool.machine_type",
            f"{kind!r} has GPUs, and is for a pool; the controllers need none",
        )


def _endpoint(cluster: GcpCluster) -> Iterator[Problem]:
    networks = getattr(cluster.platform.endpoint, "authorized_networks", ())
    for path, _, text in knowing(networks, "platform.endpoint.authorized_networks", str):
        if ipaddress.ip_network(text).prefixlen == 0:
            yield (
                path,
                f"{text!r} is the whole internet; name networks, or take the endpoint 'dns', "
                "which IAM guards",
            )


def _of_pools(cluster: GcpCluster) -> Iterator[Problem]:
    yield from told_each(_POOL_CHECKS, cluster.pools, "pools")
    for path, pool, machine in _pools(cluster):
        for check in _MACHINE_CHECKS:
            yield from told(check, path, pool, machine)


def _pool_name(path: str, pool: GcpPool) -> Iterator[Problem]:
    if pool.name == SYSTEM_POOL:
        yield f"{path}.name", f"{SYSTEM_POOL!r} is the pool of the controllers"


def _capacity(path: str, pool: GcpPool) -> Iterator[Problem]:
    capacity, least = pool.capacity, pool.min_nodes
    if isinstance(capacity, FlexStart) and least:
        yield (
            f"{path}.min_nodes",
            f"{least}: flex-start gives nodes to waiting jobs only; leave it out or set 0",
        )
    elif least is not None and least > pool.nodes:
        yield f"{path}.min_nodes", f"{least} is more than nodes, {pool.nodes}"


def _reservation(path: str, pool: GcpPool) -> Iterator[Problem]:
    reservation = pool.capacity
    if isinstance(reservation, Reservation) and reservation.subblock and not reservation.block:
        yield f"{path}.capacity.subblock", "names a part of a block; name its block as well"


def _policy(path: str, pool: GcpPool) -> Iterator[Problem]:
    placement = pool.placement
    if isinstance(placement, NoPlacement) or placement.policy is None:
        return
    for field in ("max_distance", "max_topology_distance", "accelerator_topology"):
        if getattr(placement, field, None) is not None:
            yield f"{path}.placement.{field}", "is the policy's own; leave it or policy out"


def _queued_claims(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield queued pools whose pods claim their NICs.

    GKE's autoscaler looks for room with pods of its own, made of the request's templates, and for
    their claims, which nobody makes (GoogleCloudPlatform/cluster-autoscaler, pkg/
    provisioningrequests/pods/pods.go; kubernetes/autoscaler, issue 10065).
    """
    if cluster.fabric.row.attachment != "claim":
        return
    for path, _, capacity in knowing(cluster.pools, "pools", lambda pool: pool.capacity):
        if isinstance(capacity, FlexStart) and capacity.queued:
            by_name = ", ".join(
                name
                for name, row in sorted(MODES.items())
                if row.attachment == "gke" and cluster.fabric.kind in row.fabrics
            )
            yield (
                f"{path}.capacity.queued",
                f"does not go with fabric.mode {cluster.fabric.mode!r}: GKE finds no room for pods "
                "that claim their NICs, so that no node would ever come; buy the pool otherwise, "
                f"or set fabric.mode to {by_name!r} and every pool's networking to "
                "'additional-networks'",
            )


def _image_cache(path: str, pool: GcpPool) -> Iterator[Problem]:
    # The provider's documentation, container.NodePool: secondary_boot_disks want gcfs_config.
    if pool.image_cache is not None and not pool.image_streaming:
        yield (
            f"{path}.image_cache",
            "needs image streaming, by which GKE reads it; set image_streaming to true",
        )


def _arm(path: str, pool: GcpPool) -> Iterator[Problem]:
    if pool.instance_type in GKE_MACHINES and MACHINES[pool.instance_type].architecture == "arm64":
        yield (
            f"{path}.instance_type",
            f"{pool.instance_type!r} is not made here: its plugin for arm64, the IMEX domains of "
            "its NVLink and a pool per 18 nodes are not there (docs/gcp.md, A4X); take an a4-"
            "highgpu-8g, or make the cluster yourself and name it as platform 'existing'",
        )


def _accelerator_topology(path: str, pool: GcpPool, machine: GkeMachine) -> Iterator[Problem]:
    name, placement = pool.instance_type, pool.placement
    workload = placement if isinstance(placement, WorkloadPolicy) else None
    topology = workload.accelerator_topology if workload else None
    named = workload is not None and workload.policy is not None
    wanted = machine.accelerator_topology
    if wanted and not named and topology != wanted:
        yield (
            f"{path}.placement",
            f"{name!r} needs a workload-policy with accelerator_topology {wanted!r}, which makes "
            "its NVLink domain one",
        )
    elif topology and not wanted:
        yield (
            f"{path}.placement.accelerator_topology",
            f"{topology!r}: {name!r} has no accelerator topology; leave it out",
        )


def _compact(path: str, pool: GcpPool, machine: GkeMachine) -> Iterator[Problem]:
    name, placement = pool.instance_type, pool.placement
    if not isinstance(placement, CompactPlacement):
        return
    if not machine.compact and not machine.accelerator_topology:
        yield f"{path}.placement.kind", f"'compact' is not to be had for {name!r}"
    distance = placement.max_distance
    if distance is not None and distance < machine.least_max_distance:
        yield (
            f"{path}.placement.max_distance",
            f"{distance} fails on {name!r} ({machine.sources['least_max_distance']}); "
            f"the least is {machine.least_max_distance}",
        )


def _placed_nodes(path: str, pool: GcpPool, machine: GkeMachine) -> Iterator[Problem]:
    # cluster-autoscaler of GoogleCloudPlatform, gke/placement/placement.go, MaxNodes:
    # of a policy of either kind, and of any owner, unless it has an accelerator topology.
    if isinstance(pool.placement, NoPlacement) or not machine.compact:
        return
    if pool.nodes > machine.compact_nodes:
        yield (
            f"{path}.nodes",
            f"{pool.nodes} are more than the {machine.compact_nodes} of {pool.instance_type!r} "
            "that one placement policy holds; make it several pools",
        )


def _placed_flex_start(path: str, pool: GcpPool, machine: GkeMachine) -> Iterator[Problem]:
    # GoogleCloudPlatform/cluster-toolkit, docs/gke-consumption-options.md.
    if isinstance(pool.placement, NoPlacement) or not isinstance(pool.capacity, FlexStart):
        return
    kind = pool.placement.kind
    if pool.capacity.queued:
        yield (
            f"{path}.placement.kind",
            f"{kind!r} does not go with queued flex-start; set placement to none",
        )
    elif not machine.flex_start_compact:
        can = ", ".join(sorted(m for m, row in GKE_MACHINES.items() if row.flex_start_compact))
        yield (
            f"{path}.placement.kind",
            f"{kind!r} does not go with flex-start on {pool.instance_type!r}; it does on: {can}",
        )


def _boot_disk(path: str, pool: GcpPool, machine: GkeMachine) -> Iterator[Problem]:
    if pool.disk_type not in (None, *machine.boot_disks):
        yield (
            f"{path}.disk_type",
            f"{pool.disk_type!r}: nodes of {pool.instance_type!r} do not boot from it, but from: "
            f"{', '.join(machine.boot_disks)}",
        )


def _unqueued(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield pools whose nodes come for pods that wait, of which Kueue makes none.

    Kueue places gangs on nodes that are there (v0.16.2, pkg/cache/scheduler/tas_flavor.go).
    """
    if not isinstance(cluster.queueing, KueueConfig):
        return
    sizes = knowing(cluster.pools, "pools", lambda p: (p.min_nodes, p.nodes, p.capacity))
    for path, _, (least, nodes, capacity) in sizes:
        if least is not None and least < nodes and not isinstance(capacity, FlexStart):
            yield (
                f"{path}.min_nodes",
                f"{least}: the pool begins with so many nodes and never grows, since GKE adds one "
                "for a pod that waits, and Kueue makes the pods of a job once there are nodes for "
                "them; leave it out, or take `scheduler: volcano` under `queueing`",
            )
    for path, _, capacity in knowing(cluster.pools, "pools", lambda pool: pool.capacity):
        if isinstance(capacity, FlexStart) and not capacity.queued:
            yield (
                f"{path}.capacity.queued",
                "false: GKE adds a node of such a pool for a pod that waits, and Kueue makes the "
                "pods of a job once there are nodes for them, so that none would ever start; "
                "leave it out, or take `scheduler: volcano` under `queueing`",
            )


def _run_times(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield queued pools with another time than the first: Kueue asks for one (its request's)."""
    first: tuple[str, int] | None = None
    for path, _, capacity in knowing(cluster.pools, "pools", lambda pool: pool.capacity):
        if not isinstance(capacity, FlexStart) or not capacity.queued:
            continue
        first = first or (path, capacity.max_run_seconds)
        if capacity.max_run_seconds != first[1]:
            yield (
                f"{path}.capacity.max_run_seconds",
                f"{capacity.max_run_seconds} is not the {first[1]} of {first[0]}: Kueue asks for "
                "the nodes of all queued pools with one time; write the same",
            )


def _by_place(cluster: GcpCluster) -> list[str]:
    """Return the levels by which Kueue places jobs in Google's fabric; none under Volcano."""
    kueue = isinstance(cluster.queueing, KueueConfig)
    return [level for level in cluster.topology if kueue and level.startswith(_PLACE)]


def _unlabelled(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield pools whose nodes lack levels of the topology, so that Kueue never sees them."""
    levels = _by_place(cluster)
    if not levels:
        return
    for path, pool, machine in _pools(cluster):
        plain = isinstance(pool.placement, NoPlacement) and not machine.labelled
        if plain and isinstance(pool.capacity, OnDemand | Spot):
            yield (
                f"{path}.placement.kind",
                f"'none': nodes of {pool.instance_type!r} then have no label {levels[0]!r}, a "
                "level of `topology` without which Kueue places nothing on them; set placement to "
                "compact, or leave such levels out of `topology`",
            )


def _with_nics(cluster: GcpCluster) -> list[tuple[str, GcpPool]]:
    """Return the pools whose nodes have a network interface a NIC."""
    pools = knowing(cluster.pools, "pools", lambda p: (p.instance_type, p.networking))
    return [
        (path, pool)
        for path, pool, (name, networking) in pools
        if name in GKE_MACHINES and networking == "additional-networks"
    ]


def _layout(cluster: GcpCluster) -> Iterator[Problem]:
    layout: list[str] = []
    for path, pool in _with_nics(cluster):
        names = _interfaces(pool)
        layout = layout or names
        if layout != names:
            yield (
                f"{path}.instance_type",
                f"{pool.instance_type!r} has other network interfaces than the pools "
                "before it; give it a cluster of its own",
            )


def _gpu_networks(cluster: GcpCluster) -> Iterator[Problem]:
    networks, pools = cluster.platform.gpu_networks, _with_nics(cluster)
    for path, pool in pools:
        names = _interfaces(pool)
        if networks is None:
            yield (
                "platform.gpu_networks",
                f"is missing; nodes of {path} have {len(names)} further interfaces: "
                f"{', '.join(names)}",
            )
        if isinstance(networks, ExistingGpuNetworks) and len(networks.networks) != len(names):
            yield (
                "platform.gpu_networks.networks",
                f"{len(networks.networks)} networks for the {len(names)} further interfaces of a "
                f"{pool.instance_type!r}: {', '.join(names)}",
            )
    used = any(p.networking != "dranet" and _interfaces(p) for p in cluster.pools)
    if networks is not None and cluster.pools and not used:
        yield "platform.gpu_networks", "no pool uses it: with dranet GKE makes the networks itself"


def _gpu_networks_apart(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield networks of further interfaces that GKE gives to no pod.

    Not the cluster's own, by its name alone, and no subnet twice (kubernetes/cloud-provider-gcp,
    pkg/controller/gkenetworkparamset/gnpcontroller_validations.go: DeviceModeCantUseDefaultVPC,
    DeviceModeSubnetAlreadyInUse).
    """
    networks, own = cluster.platform.gpu_networks, cluster.platform.network
    if not isinstance(networks, ExistingGpuNetworks):
        return
    path = "platform.gpu_networks.networks"
    seen: dict[str, str] = {}
    for where, _, (network, subnetwork) in knowing(
        networks.networks, path, lambda ref: (ref.network, ref.subnetwork)
    ):
        if isinstance(own, GcpExistingNetwork) and network == own.network:
            yield (
                f"{where}.network",
                f"{network!r} is platform.network's, of which GKE gives pods no interface; name "
                "another VPC",
            )
        if seen.setdefault(subnetwork, where) != where:
            yield (
                f"{where}.subnetwork",
                f"{subnetwork!r} is {seen[subnetwork]}'s as well, and GKE gives pods one interface "
                "of a subnet; name another",
            )


def _dranet(path: str, pool: GcpPool, machine: GkeMachine) -> Iterator[Problem]:
    if pool.networking == "dranet" and not machine.dranet:
        can = ", ".join(sorted(m for m, row in GKE_MACHINES.items() if row.dranet))
        yield (
            f"{path}.networking",
            f"'dranet' is not to be had for {pool.instance_type!r}; it is for: {can}",
        )


def _dranet_version(cluster: GcpCluster) -> Iterator[Problem]:
    version = cluster.platform.kubernetes
    if version is None:
        return
    given, least = (
        [int(number) for number in re.findall(r"[0-9]+", text)]
        for text in (version, _DRANET_VERSION)
    )
    # A shorter one is the newest that begins so.
    if given >= least[: len(given)]:
        return
    for path, _, networking in knowing(cluster.pools, "pools", lambda pool: pool.networking):
        if networking == "dranet":
            yield (
                "platform.kubernetes",
                f"{version!r} is too old for the dranet of {path}; it needs {_DRANET_VERSION}",
            )


def _claims_driver(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield a driver of claimed NICs that the stack would bring beside GKE's.

    Both are `dra.net` (GoogleCloudPlatform/cluster-autoscaler, pkg/cloudprovider/gke/
    dynamicresources/network.go; dranet v1.4.0, cmd/dranet/app.go): one socket of the kubelet's, and
    one pool of devices a node, whose slices each deletes that it did not publish.
    """
    if cluster.fabric.row.attachment == "claim" and cluster.fabric.addons():
        yield (
            "fabric.driver",
            "'install' brings a second driver beside GKE's, which is on where networking is "
            "'dranet': both have one name, and take sockets and devices from each other; write "
            "'managed'",
        )


def _fabric(cluster: GcpCluster) -> Iterator[Problem]:
    mode = cluster.fabric.row
    for path, pool, networking in knowing(cluster.pools, "pools", lambda pool: pool.networking):
        if mode.attachment == "claim" and networking != "dranet":
            yield f"{path}.networking", f"must be 'dranet' for fabric.mode {cluster.fabric.mode!r}"
        elif mode.attachment == "gke" and networking == "dranet":
            yield (
                f"{path}.networking",
                f"'dranet' gives pods no networks by name, which fabric.mode "
                f"{cluster.fabric.mode!r} asks for; set it to 'additional-networks', or "
                "fabric.mode to 'dranet'",
            )
        elif mode.attachment == "gke":
            yield from told(_rails, pool, cluster)


def _rails(pool: GcpPool, cluster: GcpCluster) -> Iterator[Problem]:
    names, rails = _interfaces(pool), getattr(cluster.fabric, "rails", ())
    for path, _, name in knowing(rails, "fabric.rails", lambda rail: rail.network):
        if name not in names:
            listed = choices(name, names)
            yield f"{path}.network", f"{name!r} is no network of a {pool.instance_type!r}{listed}"


def _network_fields(cluster: GcpCluster) -> Iterator[tuple[str, str]]:
    """Yield the addresses of the network that the stack makes, as far as they are well-formed."""
    network = cluster.platform.network
    if isinstance(network, GcpNewNetwork):
        for _, field, text in knowing(_FIELDS, "", lambda field: getattr(network, field)):
            if text is not None:
                yield f"platform.network.{field}", text


def _gpu_range(cluster: GcpCluster) -> Iterator[tuple[str, str]]:
    if isinstance(networks := cluster.platform.gpu_networks, NewGpuNetworks):
        yield "platform.gpu_networks.cidr", networks.cidr


def _filestore_ranges(cluster: GcpCluster) -> Iterator[tuple[str, str]]:
    rows = cluster.platform.storage
    for path, _, text in knowing(rows, "platform.storage", lambda r: getattr(r, "addresses", None)):
        if text is not None:
            yield f"{path}.addresses", text


def _ranges(cluster: GcpCluster) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    for field in (_network_fields, _gpu_range, _filestore_ranges):
        for path, text in told(field, cluster):
            network = ipaddress.ip_network(text)
            if isinstance(network, ipaddress.IPv4Network):
                yield path, network


def _ipv6(cluster: GcpCluster) -> Iterator[Problem]:
    for field in (_network_fields, _gpu_range):
        for path, text in told(field, cluster):
            if ":" in text:
                yield path, f"{text!r} is IPv6; GKE takes IPv4 here"


def _service_range(cluster: GcpCluster) -> Iterator[Problem]:
    services = dict(_ranges(cluster)).get("platform.network.services")
    if services is not None and services.prefixlen < WIDEST_SERVICES:
        yield (
            "platform.network.services",
            f"{str(services)!r} is wider than the /{WIDEST_SERVICES} that GKE takes; narrow it",
        )


def _overlaps(cluster: GcpCluster) -> Iterator[Problem]:
    seen: list[tuple[str, ipaddress.IPv4Network]] = []
    for path, network in _ranges(cluster):
        for other_path, other in seen:
            if network.overlaps(other):
                yield path, f"{str(network)!r} overlaps {str(other)!r} of {other_path}"
        seen.append((path, network))


def _nodes_fit(cluster: GcpCluster) -> Iterator[Problem]:
    nodes, ranges = most_nodes(cluster), dict(_ranges(cluster))
    if network := ranges.get("platform.network.nodes"):
        have = node_addresses(network)
        if have < nodes:
            yield "platform.network.nodes", f"{have} addresses for {nodes} nodes; widen it"
    if network := ranges.get("platform.network.pods"):
        have = pod_ranges(network)
        if have < nodes:
            yield (
                "platform.network.pods",
                f"room for {have} nodes of a /{POD_PREFIX} each, but there may be {nodes}; "
                "widen it",
            )


def most_nodes(cluster: GcpCluster) -> int:
    """Return how many nodes there may be; a surge upgrade of the system pool adds one."""
    return _gpu_nodes(cluster) + cluster.platform.system_pool.max_nodes + 1


def node_addresses(block: ipaddress.IPv4Network) -> int:
    """Return how many nodes the primary range of a subnet has addresses for."""
    return max(block.num_addresses - _RESERVED_ADDRESSES, 0)


def pod_ranges(block: ipaddress.IPv4Network) -> int:
    """Return how many nodes a range for pods has a part for."""
    return block.num_addresses >> (32 - POD_PREFIX)


def _gpu_nodes(cluster: GcpCluster) -> int:
    """Return the least number of GPU nodes: that of the pools whose count is known."""
    return sum(nodes for _, _, nodes in knowing(cluster.pools, "", lambda pool: pool.nodes))


def _gpu_nodes_fit(cluster: GcpCluster) -> Iterator[Problem]:
    network = dict(_ranges(cluster)).get("platform.gpu_networks.cidr")
    nodes = _gpu_nodes(cluster)
    if network is None:
        return
    for path, pool in _with_nics(cluster):
        subnets = len(_interfaces(pool))
        have = (network.num_addresses >> (max(subnets, 1) - 1).bit_length()) - _RESERVED_ADDRESSES
        if have < nodes:
            yield (
                "platform.gpu_networks.cidr",
                f"{str(network)!r} in {subnets} subnets leaves {max(have, 0)} addresses in each "
                f"for {nodes} GPU nodes ({path}); widen it",
            )


def _storage(cluster: GcpCluster) -> Iterator[Problem]:
    rows = cluster.platform.storage
    yield from taken(rows, "platform.storage", lambda row: (row.name,))
    for path, _, name in knowing(rows, "platform.storage", lambda row: row.name):
        if name in (*_GKE_CLASSES, *_TAKEN_CLASSES):
            yield f"{path}.name", f"{name!r} is a storage class of GKE's own; choose another"


def _storage_sizes(cluster: GcpCluster) -> Iterator[Problem]:
    yield from told_each((_size,), cluster.platform.storage, "platform.storage")


def lustre_steps(row: LustreStorage) -> tuple[int, int]:
    """Return up to which size a Lustre file system grows, and its step, both in GiB.

    One that was created below the size at which a tier's steps change stays there (Managed Lustre
    documentation, Increase the capacity: limitations).
    """
    _, most, steps = _LUSTRE[row.throughput]
    return next((limit for limit in steps if row.capacity_gib <= limit[0]), (most, steps[-1][1]))


def _size(path: str, row: GcpStorage) -> Iterator[Problem]:
    ranges: tuple[tuple[int, int, int], ...]
    if isinstance(row, FilestoreStorage):
        ranges, at = _FILESTORE[row.tier], ""
    elif isinstance(row, LustreStorage):
        least, most, _ = _LUSTRE[row.throughput]
        _, step = lustre_steps(row)
        ranges = ((least, most, step),)
        at = f" at {row.throughput} MB/s a TiB"
    else:
        return
    size = row.capacity_gib
    if not any(least <= size <= most and not size % step for least, most, step in ranges):
        listed = " or ".join(
            f"from {least} to {most} GiB" + (f" in steps of {step}" if step > 1 else "")
            for least, most, step in ranges
        )
        yield f"{path}.capacity_gib", f"{size} is not to be had{at}, but {listed}"


def _filestore_prefixes(cluster: GcpCluster) -> Iterator[Problem]:
    for path, text in _filestore_ranges(cluster):
        network = ipaddress.ip_network(text)
        taken = network.prefixlen in (_FILESTORE_PREFIX, _FILESTORE_PREFIX_ONCE)
        if not taken or not private(network) or network.overlaps(_NOT_FILESTORE):
            yield (
                path,
                f"{text!r} is no IPv4 block that Filestore takes: /{_FILESTORE_PREFIX} of "
                f"{PRIVATE}, and not of {_NOT_FILESTORE}",
            )


def _filestore_clients(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield addresses of nodes that Filestore lets in only if an instance names them.

    Filestore documentation, Network configuration and IP resource requirements: clients outside RFC
    1918 get in by access control based on IP addresses, which the stack leaves to Google.
    """
    path = "platform.network.nodes"
    nodes = dict(_ranges(cluster)).get(path)
    filestore = any(isinstance(row, FilestoreStorage) for row in cluster.platform.storage)
    if filestore and nodes is not None and not private(nodes):
        yield (
            path,
            f"{str(nodes)!r} is not of {PRIVATE}: Filestore lets no other node in, and no pod "
            "would mount it; choose such addresses",
        )


def _file_systems(cluster: GcpCluster) -> Iterator[Problem]:
    # lustre-csi-driver v0.6.9, pkg/csi_driver/node.go: NodeStageVolume refuses a second mount of
    # a name.
    seen: dict[str, str] = {}
    rows = knowing(
        cluster.platform.storage, "platform.storage", lambda r: getattr(r, "filesystem", None)
    )
    for path, _, name in rows:
        if name is not None and seen.setdefault(name, path) != path:
            yield (
                f"{path}.filesystem",
                f"{name!r} is {seen[name]}'s as well, and a node mounts no two Lustre file systems "
                "of one name; give each its own",
            )


def _bucket_names(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield names that no bucket may have (Cloud Storage documentation, bucket names)."""
    names = knowing(
        cluster.platform.storage, "platform.storage", lambda r: getattr(r, "bucket", "")
    )
    for path, _, name in names:
        if name.startswith("goog") or "google" in name:
            yield (
                f"{path}.bucket",
                f"{name!r}: Cloud Storage takes no name that starts with 'goog' or has 'google' in "
                "it",
            )


def _bucket_rights(cluster: GcpCluster) -> Iterator[Problem]:
    number = cluster.platform.project_number
    for path, row, _ in knowing(cluster.platform.storage, "platform.storage", lambda r: r.kind):
        if isinstance(row, BucketStorage) and number is None:
            yield (
                "platform.project_number",
                f"is missing; the rights on the bucket of {path} name it "
                "(`gcloud projects describe` shows it)",
            )


def _service_access(cluster: GcpCluster) -> Iterator[Problem]:
    network = cluster.platform.network
    for path, row, _ in knowing(cluster.platform.storage, "platform.storage", lambda r: r.kind):
        if not isinstance(row, LustreStorage):
            continue
        if isinstance(network, GcpExistingNetwork) and not network.service_connection:
            yield (
                "platform.network.service_connection",
                f"is not true, but {path} is reached through the network's private services "
                "access; set that up (docs/gcp.md), then say so here",
            )
        if isinstance(network, GcpNewNetwork) and network.google_services is None:
            yield (
                "platform.network.google_services",
                f"is missing; {path} gets its addresses from it, such as '10.8.0.0/20'",
            )


def _host_project(cluster: GcpCluster) -> str | None:
    """Return the host project of a Shared VPC; None where the cluster's project has the network."""
    network = cluster.platform.network
    host = network.project if isinstance(network, GcpExistingNetwork) else None
    return None if host == cluster.platform.project else host


def _shared_rails(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield pools in a Shared VPC whose pods ask for networks by name.

    GKE looks for the subnet of a network's parameters in the host project, by its name, and so
    finds no network of the cluster's own project ready (kubernetes/cloud-provider-gcp,
    providers/gce/support.go: ProjectID; pkg/controller/gkenetworkparamset/
    gnpcontroller_validations.go: getAndValidateSubnet; its commit b91cec7d). Its documentation says
    so of all of a node's interfaces (Set up multi-network support for Pods, general limitations).
    """
    host = _host_project(cluster)
    if host is None or cluster.fabric.row.attachment != "gke":
        return
    for path, _ in _with_nics(cluster):
        yield (
            f"{path}.networking",
            f"'additional-networks' is not to be had in a network of project {host!r}: GKE looks "
            "for the interfaces' subnets there, and no pod would get one; take a `network` of the "
            "cluster's own project",
        )


def _shared_network(cluster: GcpCluster) -> Iterator[Problem]:
    host = _host_project(cluster)
    if host is None:
        return
    for path, row, _ in knowing(cluster.platform.storage, "platform.storage", lambda r: r.kind):
        if isinstance(row, FilestoreStorage):
            yield (
                f"{path}.kind",
                f"'filestore' is not to be had in a network of project {host!r}: a service "
                "project cannot make an instance in a Shared VPC (Filestore documentation, "
                "architecture); take 'lustre' or 'bucket'",
            )


def _cache_rooms(cluster: GcpCluster) -> dict[str, int]:
    """Return machine type -> the GiB of local SSDs that pods may fill on a node of it."""
    return {
        pool.instance_type: int(
            machine.local_ssds * (_LOCAL_SSD_GIB - _OF_FILE_SYSTEM_GIB) * 0.9 - _LOCAL_SSDS_KEPT_GIB
        )
        for _, pool, machine in _pools(cluster)
        if machine.local_ssds
    }


def _cache_sizes(cluster: GcpCluster) -> Iterator[Problem]:
    rooms = _cache_rooms(cluster)
    for path, _, size in knowing(
        cluster.platform.storage, "platform.storage", lambda r: getattr(r, "cache_gib", None)
    ):
        for machine, room in rooms.items():
            if size is not None and size > room:
                yield (
                    f"{path}.cache_gib",
                    f"{size} is more than the {room} GiB of local SSDs that pods may fill on a "
                    f"{machine!r}, before the kubelet evicts them",
                )


def _storage_names(cluster: GcpCluster) -> Iterator[Problem]:
    network = cluster.platform.network
    if not isinstance(network, GcpExistingNetwork) or network.storage_names:
        return
    for path, row, _ in knowing(cluster.platform.storage, "platform.storage", lambda r: r.kind):
        if isinstance(row, BucketStorage) and cluster.network_policy.enabled:
            yield (
                "platform.network.storage_names",
                f"is not true, but pods reach the bucket of {path} only at the addresses of "
                "private.googleapis.com; make a private zone that answers storage.googleapis.com "
                "with them (docs/gcp.md), then say so here",
            )


def _service_addresses(cluster: GcpCluster) -> Iterator[Problem]:
    for path, text in _no_room_for_lustre(cluster, _LUSTRE_PREFIX_ONCE):
        yield path, f"{text}, which Google takes; widen it"


def _no_room_for_lustre(cluster: GcpCluster, prefix: int) -> Iterator[Problem]:
    """Yield addresses of Google's services that lack a block for each Lustre file system."""
    path = "platform.network.google_services"
    given = dict(_ranges(cluster)).get(path)
    count = sum(isinstance(row, LustreStorage) for row in cluster.platform.storage)
    if given is not None and given.num_addresses < count << (32 - prefix):
        yield path, f"{str(given)!r} has no /{prefix} for each Lustre file system ({count})"


def _claims(cluster: GcpCluster) -> Iterator[Problem]:
    own = [row.name for row in cluster.platform.storage]
    network, project = cluster.platform.network, cluster.platform.project
    default = (
        isinstance(network, GcpExistingNetwork)
        and network.network == "default"
        and network.project in (None, project)
    )
    names = [*own, *_GKE_CLASSES] if default else own
    for path, _, name in knowing(cluster.checkpoints, "checkpoints", lambda c: c.storage_class):
        if name in _GKE_CLASSES and not default:
            yield (
                f"{path}.storage_class",
                f"{name!r} is a class of GKE's own, whose instances are made, and paid for, in the "
                "VPC 'default', where no node of this cluster reaches them; name one of "
                "platform.storage, such as a filestore of its own",
            )
        elif name not in names:
            listed = choices(name, names)
            yield f"{path}.storage_class", f"{name!r} is not one of platform.storage{listed}"


def _claim_sizes(cluster: GcpCluster) -> Iterator[Problem]:
    rows = knowing(
        cluster.platform.storage, "", lambda r: (r.name, getattr(r, "capacity_gib", None))
    )
    capacities = dict(known for _, _, known in rows)
    claims = knowing(cluster.checkpoints, "checkpoints", lambda c: (c.storage_class, c.size))
    for path, _, (name, size) in claims:
        capacity = capacities.get(name)
        if capacity is not None and quantity.parse(size) > capacity << 30:
            yield f"{path}.size", f"{size!r} is more than the {capacity} GiB of storage {name!r}"


def _selector(cluster: GcpCluster) -> Iterator[Problem]:
    for path, pool, _ in _pools(cluster):
        for key in pool.node_selector:
            if given_by_gke(key):
                yield from told(_given, f"{path}.node_selector.{key}", key, pool, cluster)


def _given(path: str, key: str, pool: GcpPool, cluster: GcpCluster) -> Iterator[Problem]:
    given: dict[str, Callable[[], str]] = {
        "cloud.google.com/gke-nodepool": lambda: pool.name,
        "cloud.google.com/gke-accelerator": lambda: GKE_MACHINES[pool.instance_type].accelerator,
        "node.kubernetes.io/instance-type": lambda: pool.instance_type,
        "topology.kubernetes.io/zone": lambda: cluster.platform.zone,
        "topology.kubernetes.io/region": lambda: cluster.platform.region,
    }
    if key not in given:
        yield (
            path,
            "is in a domain where GKE gives labels, and it gives none that are known beforehand "
            f"but: {', '.join(given)}; use a label of your own",
        )
    elif pool.node_selector[key] != (value := given[key]()):
        yield path, f"{pool.node_selector[key]!r}: GKE gives the pool's nodes {value!r}"


def _labels(path: str, pool: GcpPool) -> Iterator[Problem]:
    for key in pool.labels:
        if given_by_gke(key):
            yield f"{path}.labels.{key}", "is in a domain where only GKE gives labels"


def given_by_gke(key: str) -> bool:
    """Return whether a node label is in a domain that GKE keeps for itself."""
    domain, slash, _ = key.rpartition("/")
    own = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io")
    return bool(slash) and any(domain == d or domain.endswith(f".{d}") for d in own)


def _taints(path: str, pool: GcpPool) -> Iterator[Problem]:
    for where, taint, effect in knowing(pool.taints, f"{path}.taints", lambda t: t.effect):
        if effect != "PreferNoSchedule":
            yield from told(_taint, where, path, taint, pool)


def _gke_taints(path: str, pool: GcpPool) -> Iterator[Problem]:
    yield from _taint(f"{path}.tolerations", path, _GPU_TAINT, pool)
    if isinstance(pool.capacity, FlexStart) and pool.capacity.queued:
        yield from _taint(f"{path}.tolerations", path, _QUEUED_TAINT, pool)


def _taint(where: str, path: str, taint: Taint, pool: GcpPool) -> Iterator[Problem]:
    if not any(t.tolerates(taint.key, taint.value, taint.effect) for t in pool.tolerations):
        yield (
            where,
            f"nothing in {path}.tolerations tolerates {taint.key!r}={taint.value!r}:"
            f"{taint.effect}, so no job would ever run there; add {{key: {taint.key}, operator: "
            "Exists}",
        )


def _resource_labels(cluster: GcpCluster) -> Iterator[Problem]:
    labels = cluster.platform.labels
    # The stack, the provider and GKE add a few of their own.
    if len(labels) > _LABELS - 10:
        yield "platform.labels", f"{len(labels)} are more than {_LABELS - 10}"
    for key in labels:
        if key.startswith("goog-"):
            yield f"platform.labels.{key}", "keys that start 'goog-' are Google's own"


def _namespaces(cluster: GcpCluster) -> Iterator[Problem]:
    for path, name in namespaces.said(cluster):
        if name.startswith(_GKE_NAMESPACES):
            yield path, f"{name!r} is GKE's own; jobs need a namespace of their own"


def _researchers(cluster: GcpCluster) -> Iterator[Problem]:
    why = ""
    if isinstance(cluster.platform.endpoint, DnsEndpoint):
        why = "the endpoint 'dns' lets in whom IAM knows"
    elif cluster.platform.groups is not None:
        why = "with platform.groups GKE knows groups by their addresses alone"
    for path, group in cluster.groups if why else ():
        if "@" not in group:
            yield (
                path,
                f"{group!r} is no group's address, and {why}; name a group such as "
                "'researchers@your-domain.com'",
            )


def _people(cluster: GcpCluster) -> Iterator[Problem]:
    named = [group for _, group in cluster.groups if "@" in group]
    if named and cluster.platform.groups is None:
        yield (
            "platform.groups",
            f"is missing; GKE knows the group {named[0]!r} only through "
            "Google Groups for RBAC, a 'gke-security-groups@your-domain.com' that it is a member "
            "of",
        )


def _maintenance(cluster: GcpCluster) -> Iterator[Problem]:
    window = cluster.platform.maintenance
    if window is None:
        return
    length, rule = window.end - window.start, window.recurrence
    if length < maintenance.CONTIGUOUS:
        yield "platform.maintenance.end", "is less than 4 hours after start, GKE's least window"
        return
    if maintenance.frequency(rule) in ("", *maintenance.NOT_FREQUENCIES):
        yield (
            "platform.maintenance.recurrence",
            f"{rule!r} has no frequency that GKE takes; write a rule such as "
            "'FREQ=WEEKLY;BYDAY=SA,SU'",
        )
        return
    room = maintenance.availability(window.start, window.end, rule)
    if room is not None and room < maintenance.LEAST:
        yield (
            "platform.maintenance.recurrence",
            f"{rule!r} with {_hours(length)} a window leaves {_hours(room)} in 32 days and GKE "
            f"wants {_hours(maintenance.LEAST)} at least; add days, or move end",
        )


def _hours(time: timedelta) -> str:
    return f"{time / timedelta(hours=1):g} hours"


_CHECKS: tuple[Callable[[GcpCluster], Iterator[Problem]], ...] = (
    _zone,
    _system_zones,
    _system_nodes,
    _system_machine,
    _gpu_operator,
    _endpoint,
    _of_pools,
    _unqueued,
    _queued_claims,
    _run_times,
    _unlabelled,
    _layout,
    _gpu_networks,
    _gpu_networks_apart,
    _dranet_version,
    _claims_driver,
    _fabric,
    _ipv6,
    _service_range,
    _overlaps,
    _nodes_fit,
    _gpu_nodes_fit,
    _storage,
    _storage_sizes,
    _filestore_prefixes,
    _filestore_clients,
    _file_systems,
    _bucket_names,
    _bucket_rights,
    _service_access,
    _shared_network,
    _shared_rails,
    _cache_sizes,
    _storage_names,
    _service_addresses,
    _claims,
    _claim_sizes,
    _selector,
    _resource_labels,
    _namespaces,
    _researchers,
    _people,
    _maintenance,
)
_POOL_CHECKS: tuple[Callable[[str, GcpPool], Iterator[Problem]], ...] = (
    _pool_name,
    _image_cache,
    _arm,
    _capacity,
    _reservation,
    _policy,
    _labels,
    _taints,
    _gke_taints,
)
_MACHINE_CHECKS: tuple[Callable[[str, GcpPool, GkeMachine], Iterator[Problem]], ...] = (
    _accelerator_topology,
    _compact,
    _placed_nodes,
    _placed_flex_start,
    _boot_disk,
    _dranet,
)


def problems(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield every (path, message) of a cluster on GCP, as far as it is well-formed."""
    for check in _CHECKS:
        yield from told(check, cluster)


def _supported(cluster: GcpCluster, now: datetime) -> Iterator[Problem]:
    """Yield a minor whose standard support ends soon, or has ended.

    GKE documentation, GKE versioning and support: automatic upgrades at the end of support.
    """
    minor = cluster.platform.kubernetes_minor
    ends = STANDARD_SUPPORT_ENDS.get(minor or "")
    if ends is None or now.date() < ends - _SOON:
        return
    when = f"GKE's standard support of {minor!r} ends on {ends.isoformat()}"
    if cluster.platform.release_channel == "extended":
        tells = f"{when}: from then on GKE charges more by the hour, for ten months or so"
    else:
        tells = (
            f"{when}: then it makes no cluster of it, and upgrades those that run, node after node "
            "under their jobs, whatever `maintenance` says: write a newer minor, of a running "
            "cluster the next one, and then upgrade its nodes (docs/gcp.md, Changing it), or "
            "`release_channel: extended`"
        )
    yield "platform.kubernetes", tells


def doubts(cluster: GcpCluster, now: datetime) -> Iterator[Problem]:
    """Yield every (path, message) of what may be meant and mostly is not, of a correct cluster."""
    yield from _supported(cluster, now)
    kind = cluster.platform.system_pool.machine_type
    if kind.rpartition("-")[2] in _SMALL:
        yield (
            "platform.system_pool.machine_type",
            f"{kind!r} is too small for the controllers and what watches them",
        )
    window = cluster.platform.maintenance
    if window is not None and (day := maintenance.other_day(window.start, window.recurrence)):
        # container.v1, RecurringMaintenanceWindow: "Days are measured in the UTC timezone"; that
        # RecurringTimeWindow, which the stack writes, does the same is inferred.
        yield (
            "platform.maintenance.recurrence",
            f"{window.recurrence!r} leaves out {day}, the day of start in UTC, as which GKE reads "
            "the rule's days: name it where the window should begin then",
        )
    if window is None or window.no_upgrades_from is None:
        yield (
            "platform.maintenance.no_upgrades_from",
            "is missing: GKE upgrades one node after another by itself, which ends the jobs on "
            "each; with a day that is over it leaves that to you until a version's support ends",
        )
    for path, text in _no_room_for_lustre(cluster, _LUSTRE_PREFIX):
        yield (
            path,
            f"{text}, which Google takes for new ones; widen it in a new stack, and leave one that "
            "runs",
        )
    for path, text in _filestore_ranges(cluster):
        if ipaddress.ip_network(text).prefixlen == _FILESTORE_PREFIX_ONCE:
            yield (
                path,
                f"{text!r} is a /{_FILESTORE_PREFIX_ONCE}, and Filestore wants a "
                f"/{_FILESTORE_PREFIX} for new ones; name one in a new stack, and leave one that "
                "runs",
            )
    if "dcgm" in (cluster.watching.sources or ()):
        # As scraped of GKE on H100s (elideng-sg/hypercomputer-internode-deepdive,
        # assets/lab-14/dcgm_xid_metric.txt).
        yield (
            "watching.sources",
            "names dcgm: GKE's own exporter has no Xids, remapped rows or PCIe replays, whose "
            "alerts would never come; run one of NVIDIA's with its default counters, or "
            "leave it out",
        )
    yield from _reservations(cluster)
    yield from _less_than_a_cache(cluster)
    yield from _caches_together(cluster)
    for path, pool, machine in _pools(cluster):
        yield from _nobody_drives(path, pool)
        networks = cluster.platform.gpu_networks
        mtu = networks.mtu if isinstance(networks, NewGpuNetworks) else None
        if mtu not in (None, machine.mtu):
            yield (
                "platform.gpu_networks.mtu",
                f"{mtu} is not the {machine.mtu} that Google gives the rails of a "
                f"{pool.instance_type!r}; leave it out",
            )
        yield from _frames(pool, machine, cluster)


def _frames(pool: GcpPool, machine: GkeMachine, cluster: GcpCluster) -> Iterator[Problem]:
    # cluster-toolkit, examples/gke-a3-highgpu and gke-a3-megagpu: mtu of network1 and of gpunets.
    network = cluster.platform.network
    mtu = network.mtu if isinstance(network, GcpNewNetwork) else machine.mtu
    if machine.network_profile is None and mtu != machine.mtu:
        yield (
            "platform.network.mtu",
            f"{mtu} is not the {machine.mtu} that Google gives all interfaces of a "
            f"{pool.instance_type!r}; write {machine.mtu} in a new stack, and leave one that runs",
        )


def _reservations(cluster: GcpCluster) -> Iterator[Problem]:
    seen: dict[tuple[str | None, ...], str] = {}
    for path, pool in each(cluster.pools, "pools"):
        if not isinstance(row := pool.capacity, Reservation):
            continue
        part = (row.project, row.name, row.block, row.subblock)
        if seen.setdefault(part, path) != path:
            yield (
                f"{path}.capacity.name",
                f"{row.name!r} is that of {seen[part]} as well: it must hold the nodes of both",
            )
        machine = GKE_MACHINES.get(pool.instance_type)
        bare = isinstance(pool.placement, NoPlacement) and not row.block
        if machine and not machine.labelled and bare and _by_place(cluster):
            yield (
                f"{path}.placement.kind",
                f"'none': unless {row.name!r} was made with a placement policy, its nodes have no "
                f"{_PLACE}* labels, and no job is placed on them; name that policy",
            )
        if row.block and isinstance(pool.placement, CompactPlacement):
            yield (
                f"{path}.placement.kind",
                f"block {row.block!r} of the reservation is a placement already, which a compact "
                "policy may contradict; write 'none'",
            )


def _less_than_a_cache(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield limits of pods' disk that the cache of a bucket exceeds, once it is full.

    It is a volume of the pod that mounts the bucket (gcs-fuse-csi-driver, pkg/webhook/
    sidecar_spec.go: gke-gcsfuse-cache), and one container's limit is all that its pod may have
    (kubernetes v1.35.8, pkg/kubelet/eviction/eviction_manager.go:
    podEphemeralStorageLimitEviction).
    """
    caches = {name: row.cache_gib for name, row in cluster.buckets.items() if row.cache_gib}
    for path, runtime in each(cluster.runtimes, "runtimes"):
        for name, gib in caches.items():
            if runtime.disk and quantity.parse(runtime.disk) < gib << 30:
                yield (
                    f"{path}.disk",
                    f"{runtime.disk!r} is less than the {gib} GiB of {name!r} that a pod which "
                    "mounts it keeps on its node: they count toward it, and the kubelet ends the "
                    "pod as they fill; raise it, or lower cache_gib",
                )


def _caches_together(cluster: GcpCluster) -> Iterator[Problem]:
    """Yield caches that a node holds one by one, and not those of a pod that mounts all of them.

    Each volume has a cache of its own, all in one emptyDir of the pod (gcs-fuse-csi-driver, pkg/
    sidecar_mounter/sidecar_mounter_config.go: CacheDir).
    """
    caches = {name: row.cache_gib for name, row in cluster.buckets.items() if row.cache_gib}
    for namespace in cluster.training_namespaces:
        claims = [c.storage_class for c in cluster.checkpoints if c.namespace == namespace]
        mounted = [name for name in caches if name in claims]
        gib = sum(caches[name] for name in mounted)
        for machine, room in _cache_rooms(cluster).items():
            if len(mounted) > 1 and gib > room:
                yield (
                    "platform.storage",
                    f"the caches of {' and '.join(mounted)} come to {gib} GiB, more than the "
                    f"{room} of local SSDs that pods may fill on a {machine!r}: a pod of "
                    f"{namespace!r} that mounts all of them is evicted as they fill; lower their "
                    "cache_gib",
                )


def _nobody_drives(path: str, pool: GcpPool) -> Iterator[Problem]:
    if pool.driver == "disabled":
        yield (
            f"{path}.driver",
            "'disabled': nobody installs one, and no node has a GPU to hand out, until you run "
            "Google's installer (container-engine-accelerators, nvidia-driver-installer)",
        )
