"""Questions to Google Cloud: quotas, capacity, networks, versions, names that are taken, rights."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from railhead.base.finding import Finding
from railhead.base.names import physical_name
from railhead.base.wide import PRIVATE, private
from railhead.config.served import unserved
from railhead.machines import GKE_MACHINES, MACHINES
from railhead.platform.gcp.checks import (
    POD_PREFIX,
    WIDEST_SERVICES,
    most_nodes,
    node_addresses,
    pod_ranges,
)
from railhead.platform.gcp.facts import node_networks
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
    LustreStorage,
    NewGpuNetworks,
    NoPlacement,
    OnDemand,
    Reservation,
    Spot,
)
from railhead.preflight.check import Asker, failed, ok, unknown
from railhead.preflight.ledger import data
from railhead.preflight.reading import Google, UnaskedError

# The family of a quota (`gpu_family` of the metric below, and in the names of regions' quotas).
_FAMILIES = {
    "nvidia-h100-80gb": "NVIDIA_H100",
    "nvidia-h100-mega-80gb": "NVIDIA_H100_MEGA",
    "nvidia-h200-141gb": "NVIDIA_H200",
    "nvidia-b200": "NVIDIA_B200",
    "nvidia-gb200": "NVIDIA_GB200",
}
_BY_FAMILY = "compute.googleapis.com/gpus_per_gpu_family"
# Type of a boot disk -> the quota of the region that it draws (terraform-google-kubernetes-engine,
# issue 1795; Compute Engine API, Quota.metric).
_DISKS = {
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "hyperdisk-balanced": "HDB_TOTAL_GB",
}
# Machine types of these draw one quota of CPUs, of others one of their series (cluster-toolkit,
# pkg/validators/quota.go: addCPUMetrics; machines with GPUs of A3 and newer draw none).
_SHARED_CPUS = ("e2", "n1")
# Resource Manager's limit of a call (projects.testIamPermissions).
_PERMISSIONS_AT_ONCE = 100
_ALWAYS = ("compute", "container", "iam", "cloudresourcemanager")


@contextmanager
def opened(cluster: GcpCluster) -> Iterator[Google]:  # noqa: ARG001 - others name a place
    """Yield a client of Google Cloud for a stack.

    Raises:
        PrerequisiteError: there are no credentials, or Google does not accept them.
    """
    google = Google()
    google.headers()
    yield google


def _compute(
    google: Google, cluster: GcpCluster, path: str, project: str | None = None
) -> dict[str, Any] | None:
    owner = project or cluster.platform.project
    return google.get("compute", f"compute/v1/projects/{owner}{path}")


def project(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Compare the project with the stack's."""
    name, number = cluster.platform.project, cluster.platform.project_number
    there = google.get("cloudresourcemanager", f"v3/projects/{name}")
    if there is None:
        yield failed(f"there is no project {name}, or these credentials may not see it")
        return
    real = there["name"].rpartition("/")[2]
    if there.get("state") != "ACTIVE":
        yield failed(f"project {name} is {there.get('state')}")
    elif number is not None and number != real:
        yield failed(f"project {name} has the number {real}, not {number}")
    else:
        yield ok(f"project {name} is active, its number is {real}")


def apis(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Ask whether the APIs are enabled that the stack calls."""
    name, wanted = cluster.platform.project, services(cluster)
    parent = f"projects/{name}"
    answer = google.get(
        "serviceusage",
        f"v1/{parent}/services:batchGet",
        names=[f"{parent}/services/{service}" for service in wanted],
    )
    enabled = {
        service["name"].rpartition("/")[2]
        for service in (answer or {}).get("services", ())
        if service.get("state") == "ENABLED"
    }
    if off := [service for service in wanted if service not in enabled]:
        command = f"gcloud services enable {' '.join(off)} --project {name}"
        yield failed(f"not enabled: {', '.join(off)}", f"`{command}`")
    else:
        yield ok(f"{len(wanted)} APIs are enabled")


def services(cluster: GcpCluster) -> list[str]:
    """Return the APIs that a stack calls."""
    parts = _parts(cluster)
    needs = {
        "file": parts["filestore"],
        "lustre": parts["lustre"],
        "servicenetworking": parts["service-access"],
        "storage": parts["bucket"],
        "dns": parts["storage-names"],
        "containerfilesystem": any(pool.image_streaming for pool in cluster.pools),
    }
    named = [*_ALWAYS, *(service for service, needed in needs.items() if needed)]
    return [f"{service}.googleapis.com" for service in named]


def _parts(cluster: GcpCluster) -> dict[str, bool]:
    """Return which parts of the table of permissions a stack needs."""
    platform = cluster.platform
    network, kinds = platform.network, {type(row) for row in platform.storage}
    own = isinstance(network, GcpNewNetwork)
    return {
        "always": True,
        "dns-endpoint": isinstance(platform.endpoint, DnsEndpoint),
        "network": own,
        "gpu-networks": isinstance(platform.gpu_networks, NewGpuNetworks),
        "placement": any(_own_policy(pool) for pool in cluster.pools),
        "service-access": isinstance(network, GcpNewNetwork)
        and network.google_services is not None,
        "filestore": FilestoreStorage in kinds,
        "lustre": LustreStorage in kinds,
        "bucket": BucketStorage in kinds,
        "storage-names": own and BucketStorage in kinds and cluster.network_policy.enabled,
    }


def _own_policy(pool: GcpPool) -> bool:
    return not isinstance(pool.placement, NoPlacement) and pool.placement.policy is None


def rights(cluster: GcpCluster) -> list[str]:
    """Return the permissions that `up` and `destroy` of a stack need."""
    table: Mapping[str, list[str]] = data("gcp.rights")
    parts = _parts(cluster)
    return sorted({right for part, wanted in parts.items() if wanted for right in table[part]})


def permissions(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Test the permissions that `up` and `destroy` need."""
    wanted = rights(cluster)
    have: set[str] = set()
    for at in range(0, len(wanted), _PERMISSIONS_AT_ONCE):
        have |= google.may(cluster.platform.project, wanted[at : at + _PERMISSIONS_AT_ONCE])
    if lacking := [right for right in wanted if right not in have]:
        yield failed(f"these credentials lack {', '.join(lacking)}")
    else:
        yield ok(f"these credentials have all {len(wanted)} permissions")


def quota(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Compare quotas with the GPUs that no reservation holds, the controllers' CPUs, disks."""
    on_demand = _gpus(cluster, OnDemand)
    if on_demand:
        yield from _by_family(google, cluster, on_demand)
    quotas = _quotas(google, cluster, f"/regions/{cluster.platform.region}")
    # Flex-start draws the preemptible quota too.
    for family, need in _gpus(cluster, Spot, FlexStart).items():
        yield _room(f"PREEMPTIBLE_{family}_GPUS", quotas, need)
    cpus = _system_cpus(google, cluster)
    caches = yield from _image_caches(google, cluster)
    for metric, need in (_disks(cluster, caches) | cpus).items():
        yield _room(metric, quotas, need)
    yield from _of_all_regions(google, cluster, sum(cpus.values()))


def _quotas(google: Google, cluster: GcpCluster, path: str) -> dict[str, Mapping[str, Any]]:
    """Return metric -> its quota, of a region or of the whole project."""
    there = _compute(google, cluster, path) or {}
    return {row["metric"]: row for row in there.get("quotas", ())}


def _of_all_regions(google: Google, cluster: GcpCluster, cpus: int) -> Iterator[Finding]:
    """Yield quotas of all regions together, beside each region's; projects without have no limit.

    New projects have 12 CPUs or 32 of them, where a region has 24 to 200: "Quota 'CPUS_ALL_REGIONS'
    exceeded. Limit: 32.0 globally."
    """
    gpus = sum(_gpus(cluster, OnDemand, Spot, FlexStart).values())
    quotas = _quotas(google, cluster, "")
    for metric, need in {"GPUS_ALL_REGIONS": gpus, "CPUS_ALL_REGIONS": cpus}.items():
        if need and metric in quotas:
            yield _room(metric, quotas, need)


def _system_cpus(google: Google, cluster: GcpCluster) -> dict[str, int]:
    """Return quota -> CPUs of the controllers' nodes; empty if the zone lacks their type."""
    system = cluster.platform.system_pool
    zone = (*system.zones, cluster.platform.zone)[0]
    there = _compute(google, cluster, f"/zones/{zone}/machineTypes/{system.machine_type}")
    series = system.machine_type.partition("-")[0]
    metric = "CPUS" if series in _SHARED_CPUS else f"{series.upper()}_CPUS"
    return {metric: there["guestCpus"] * system.max_nodes} if there else {}


def _image_caches(
    google: Google, cluster: GcpCluster
) -> Generator[Finding, None, Mapping[str, int]]:
    """Yield disk images that are not there; return disk image -> its GB."""
    sizes: dict[str, int] = {}
    for cache in sorted({pool.image_cache for pool in cluster.pools if pool.image_cache}):
        # Without a project it is the cluster's own.
        owner, _, name = cache.rpartition("global/images/")
        project = owner.removeprefix("projects/").rstrip("/")
        try:
            there = _compute(google, cluster, f"/global/images/{name}", project)
        except UnaskedError as error:
            yield unknown(f"how large the disk image {cache} is: {error.problem}", error.remedy)
            continue
        if there is None:
            yield failed(f"there is no disk image {cache}", "correct the pool's `image_cache`")
        else:
            sizes[cache] = int(there["diskSizeGb"])
    return sizes


def _disks(cluster: GcpCluster, caches: Mapping[str, int]) -> dict[str, int]:
    """Return quota -> GB of all nodes' boot disks and image caches; no reservation holds them.

    The disk of an image cache is of the boot disk's type, and as large as its image (GKE
    documentation, Use secondary boot disks to preload data or container images).
    """
    system = cluster.platform.system_pool
    # GKE's default of most machines without GPUs is pd-balanced.
    need = {_DISKS["pd-balanced"]: system.max_nodes * system.disk_size_gb}
    for pool in cluster.pools:
        metric = _DISKS[pool.disk_type or GKE_MACHINES[pool.instance_type].boot_disks[0]]
        size = pool.disk_size_gb + caches.get(pool.image_cache or "", 0)
        need[metric] = need.get(metric, 0) + pool.nodes * size
    return need


def _gpus(cluster: GcpCluster, *kinds: type) -> dict[str, int]:
    """Return family -> GPUs of the pools with such capacity."""
    need: dict[str, int] = {}
    for pool in cluster.pools:
        if isinstance(pool.capacity, kinds):
            family = _FAMILIES.get(GKE_MACHINES[pool.instance_type].accelerator, "of no family")
            need[family] = need.get(family, 0) + pool.nodes * MACHINES[pool.instance_type].gpus
    return need


def _room(metric: str, quotas: Mapping[str, Mapping[str, Any]], need: int) -> Finding:
    row = quotas.get(metric)
    if row is None:
        return unknown(f"{metric}: Google names no such quota here; look in the console")
    limit, used = int(row["limit"]), int(row["usage"])
    text = f"{metric}: {limit}, {used} in use, {need} to come"
    if used + need <= limit:
        return ok(text)
    return failed(text, f"request {used + need} of {metric} in the console, IAM & Admin, Quotas")


def _by_family(google: Google, cluster: GcpCluster, need: Mapping[str, int]) -> Iterator[Finding]:
    metric = quote(_BY_FAMILY, safe="")
    path = (
        f"v1beta1/projects/{cluster.platform.project}/services/compute.googleapis.com/"
        f"consumerQuotaMetrics/{metric}"
    )
    answer = google.get("serviceusage", path, view="FULL") or {}
    limits = {
        (bucket["dimensions"].get("region"), bucket["dimensions"].get("gpu_family")): bucket
        for limit in answer.get("consumerQuotaLimits", ())
        for bucket in limit.get("quotaBuckets", ())
        if "dimensions" in bucket
    }
    for family, gpus in need.items():
        bucket = limits.get((cluster.platform.region, family))
        if bucket is None:
            yield unknown(f"{_BY_FAMILY} of {family}: Google names none; look in the console")
            continue
        text = f"{_BY_FAMILY} of {family}: {bucket['effectiveLimit']}, {gpus} to come"
        if -1 < int(bucket["effectiveLimit"]) < gpus:
            yield failed(text, f"request {gpus} in the console, IAM & Admin, Quotas")
        else:
            yield ok(text)


def networks(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Compare the project's quotas of networks with what the stack makes."""
    wanted = wanted_names(cluster)
    need = {
        "NETWORKS": len(wanted["network"]),
        "SUBNETWORKS": len(wanted["subnetwork"]),
        "FIREWALLS": len(wanted["firewall rule"]),
        "ROUTERS": len(wanted["router"]),
    }
    quotas = _quotas(google, cluster, "")
    for metric, count in need.items():
        if count:
            yield _room(metric, quotas, count)


def zone(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Ask the zone for machine types and for the profile of RDMA networks."""
    place, system = cluster.platform.zone, cluster.platform.system_pool
    types = {(pool.instance_type, place) for pool in cluster.pools}
    types |= {(system.machine_type, where) for where in system.zones or (place,)}
    for kind, where in sorted(types):
        if _compute(google, cluster, f"/zones/{where}/machineTypes/{kind}") is None:
            yield failed(f"{where} has no {kind}")
        else:
            yield ok(f"{where} has {kind}")
    if not isinstance(cluster.platform.gpu_networks, NewGpuNetworks):
        return
    profiles = {GKE_MACHINES[pool.instance_type].network_profile for pool in cluster.pools}
    for profile in sorted(filter(None, profiles)):
        name = f"{place}-{profile}"
        if _compute(google, cluster, f"/global/networkProfiles/{name}") is None:
            yield failed(f"there is no network profile {name}: RDMA NICs get no network in {place}")
        else:
            yield ok(f"network profile {name} is there")


def reservation(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Compare each reservation with its pool."""
    for pool in cluster.pools:
        capacity = pool.capacity
        if not isinstance(capacity, Reservation):
            continue
        path = f"/zones/{cluster.platform.zone}/reservations/{capacity.name}"
        there = _compute(google, cluster, path, capacity.project)
        if there is None:
            yield failed(
                f"pool {pool.name}: there is no reservation {capacity.name} in "
                f"{cluster.platform.zone}"
            )
            continue
        nodes = _drawn(cluster, capacity, "project", "name")
        if wrong := _unfit(pool, nodes, there):
            yield failed(f"pool {pool.name}: reservation {capacity.name} {wrong}")
        else:
            count, ends = there["specificReservation"]["count"], there.get("deleteAtTime")
            text = f"pool {pool.name}: reservation {capacity.name} is ready, {count} machines"
            yield ok(f"{text}, until {ends}" if ends else text)
        yield from _parts_of(google, cluster, path, capacity)


def _parts_of(
    google: Google, cluster: GcpCluster, path: str, capacity: Reservation
) -> Iterator[Finding]:
    """Yield the block and the sub-block that are not there, or have too few free machines."""
    fields = ["project", "name"]
    for field, collection in (("block", "reservationBlocks"), ("subblock", "reservationSubBlocks")):
        if (name := getattr(capacity, field)) is None:
            return
        path += f"/{collection}/{name}"
        fields.append(field)
        there = _compute(google, cluster, path, capacity.project)
        nodes = _drawn(cluster, capacity, *fields)
        wrong = _short(nodes, there["resource"]) if there is not None else "is not there"
        if wrong:
            yield failed(f"{field} {name} of {capacity.name} {wrong}")


def _drawn(cluster: GcpCluster, capacity: Reservation, *fields: str) -> int:
    """Return how many nodes there are of all pools whose capacity has the same ``fields``."""
    rows = ((pool, pool.capacity) for pool in cluster.pools)
    return sum(
        pool.nodes
        for pool, row in rows
        if isinstance(row, Reservation)
        and all(getattr(row, field) == getattr(capacity, field) for field in fields)
    )


def _short(nodes: int, machines: Mapping[str, Any]) -> str:
    """Return why a reservation's or a block's free machines do not suffice for its nodes."""
    count, used = int(machines.get("count", 0)), int(machines.get("inUseCount", 0))
    if count - used < nodes:
        return f"has {count} machines, {used} in use, {nodes} are needed"
    return ""


def _unfit(pool: GcpPool, nodes: int, there: Mapping[str, Any]) -> str:
    specific = there.get("specificReservation") or {}
    kind = (specific.get("instanceProperties") or {}).get("machineType")
    if there["status"] != "READY":
        return f"is {there['status']}"
    if kind != pool.instance_type:
        return f"is of {kind}, and the pool of {pool.instance_type}"
    if not there.get("specificReservationRequired"):
        return "is open to all: make it with --require-specific-reservation"
    return _short(nodes, specific) or _policy(pool, there)


def _policy(pool: GcpPool, there: Mapping[str, Any]) -> str:
    """Return why the placement does not fit that with which the reservation was made.

    Google's controller for Slurm gives nodes the policy of their reservation, one of its own where
    a dense one has none, and else none (cluster-toolkit, schedmd-slurm-gcp-v6-controller,
    scripts/resume.py: update_reservation_props).
    """
    policies = there.get("resourcePolicies") or {}
    made_with = {policy.rpartition("/")[2] for policy in policies.values()}
    dense = there.get("deploymentType") == "DENSE"
    named = ", ".join(sorted(made_with)) or "no policy"
    if isinstance(pool.placement, NoPlacement):
        return f"was made with {named}, and the pool has none" if made_with and not dense else ""
    own = pool.placement.policy
    fits = own in made_with or (dense and not made_with)
    if isinstance(pool.placement, CompactPlacement) and not fits:
        return f"was made with {named}, and the pool has {own or 'a policy of its own'}"
    return ""


def placement(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Look for the placement policies that pools name."""
    for pool in cluster.pools:
        name = getattr(pool.placement, "policy", None)
        if name is None:
            continue
        path = f"/regions/{cluster.platform.region}/resourcePolicies/{name}"
        if _compute(google, cluster, path) is None:
            yield failed(f"pool {pool.name}: there is no placement policy {name}")
        else:
            yield ok(f"pool {pool.name}: placement policy {name} is there")


def subnets(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Compare networks that are there with what the stack takes from them."""
    platform = cluster.platform
    if isinstance(platform.network, GcpExistingNetwork):
        yield from _primary(google, cluster, platform.network)
    if isinstance(platform.gpu_networks, ExistingGpuNetworks):
        yield from _rails(google, cluster, platform.gpu_networks)


def _primary(google: Google, cluster: GcpCluster, network: GcpExistingNetwork) -> Iterator[Finding]:
    path = f"/regions/{cluster.platform.region}/subnetworks/{network.subnetwork}"
    there = _compute(google, cluster, path, network.project)
    if there is None:
        yield failed(f"there is no subnet {network.subnetwork} in {cluster.platform.region}")
        return
    if there["network"].rpartition("/")[2] != network.network:
        yield failed(f"subnet {network.subnetwork} is of {there['network']}")
    ranges = {row["rangeName"]: row["ipCidrRange"] for row in there.get("secondaryIpRanges", ())}
    for wanted in (network.pods_range, network.services_range):
        if wanted not in ranges:
            yield failed(f"subnet {network.subnetwork} has no range {wanted}")
    if not there.get("privateIpGoogleAccess"):
        yield failed(f"subnet {network.subnetwork} has no Private Google Access")
    yield from _overlapping(cluster, there)
    block = ipaddress.IPv4Network(there["ipCidrRange"])
    yield from _narrow(cluster, block, ranges.get(network.pods_range))
    services = ranges.get(network.services_range)
    if services and ipaddress.ip_network(services).prefixlen < WIDEST_SERVICES:
        yield failed(
            f"range {network.services_range} is {services}, wider than the /{WIDEST_SERVICES} that "
            "GKE takes",
            "name a narrower one",
        )
    kinds = {type(row) for row in cluster.platform.storage}
    if FilestoreStorage in kinds and not private(block):
        yield failed(
            f"subnet {network.subnetwork} is {block}, not of {PRIVATE}: Filestore lets none of its "
            "nodes in",
            "name another subnet, or another kind of storage",
        )
    yield ok(f"subnet {network.subnetwork} is {there['ipCidrRange']}")


def _narrow(
    cluster: GcpCluster, block: ipaddress.IPv4Network, pods: str | None
) -> Iterator[Finding]:
    """Yield ranges without room for the stack's nodes, whatever else has addresses there."""
    nodes = most_nodes(cluster)
    if (have := node_addresses(block)) < nodes:
        yield failed(f"{block} has {have} addresses for {nodes} nodes", "widen the subnet")
    if pods and (have := pod_ranges(ipaddress.IPv4Network(pods))) < nodes:
        yield failed(
            f"{pods} has room for the pods of {have} nodes, a /{POD_PREFIX} each, but there may be "
            f"{nodes}",
            "name a wider range",
        )


def _rails(google: Google, cluster: GcpCluster, networks: ExistingGpuNetworks) -> Iterator[Finding]:
    """Compare the networks of further interfaces with what nodes of the pools take."""
    pools = [pool for pool in cluster.pools if pool.networking == "additional-networks"]
    nodes, kind = sum(pool.nodes for pool in pools), pools[0].instance_type
    profile = f"{cluster.platform.zone}-{GKE_MACHINES[kind].network_profile}"
    for nic, ref in zip(node_networks(MACHINES[kind]), networks.networks, strict=True):
        path = f"/regions/{cluster.platform.region}/subnetworks/{ref.subnetwork}"
        there = _compute(google, cluster, path)
        if there is None or there["network"].rpartition("/")[2] != ref.network:
            yield failed(f"{nic.name}: {ref.network} has no subnet {ref.subnetwork}")
        elif (have := node_addresses(ipaddress.IPv4Network(there["ipCidrRange"]))) < nodes:
            yield failed(f"{nic.name}: {ref.subnetwork} has {have} addresses for {nodes} nodes")
        elif nic.device == "RDMA" and _profile(google, cluster, ref.network) != profile:
            yield failed(f"{nic.name}: {ref.network} is not of the network profile {profile}")
        else:
            yield ok(f"{nic.name}: subnet {ref.subnetwork} is {there['ipCidrRange']}")


def _profile(google: Google, cluster: GcpCluster, network: str) -> str:
    """Return the name of a VPC's network profile; empty without one."""
    there = _compute(google, cluster, f"/global/networks/{network}") or {}
    return str(there.get("networkProfile", "")).rpartition("/")[2]


def _overlapping(cluster: GcpCluster, subnet: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield ranges of a subnet that overlap those of GPU networks or of a Filestore.

    The same machines have NICs in both networks, and Google refuses an instance among a subnet's
    addresses (file.v1, reservedIpRange).
    """
    networks = cluster.platform.gpu_networks
    blocks = {
        f"addresses of {row.name}": row.addresses
        for row in cluster.platform.storage
        if isinstance(row, FilestoreStorage) and row.addresses is not None
    }
    if isinstance(networks, NewGpuNetworks):
        blocks["gpu_networks.cidr"] = networks.cidr
    for field, block in blocks.items():
        for row in (subnet, *subnet.get("secondaryIpRanges", ())):
            if ipaddress.ip_network(block).overlaps(ipaddress.ip_network(row["ipCidrRange"])):
                part = f"{row['ipCidrRange']} of subnet {subnet['name']}"
                remedy = f"choose another block for {field}"
                yield failed(f"{part} overlaps {field}, {block}", remedy)


def kubernetes(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Look for the stack's version among those of its channel."""
    platform = cluster.platform
    path = f"v1/projects/{platform.project}/locations/{_location(cluster)}/serverConfig"
    answer = google.get("container", path) or {}
    channel = platform.release_channel.upper()
    channels = {row["channel"]: row for row in answer.get("channels", ())}
    there = channels.get(channel) or {}
    served, default = there.get("validVersions", ()), there.get("defaultVersion", "")
    wanted = platform.kubernetes
    if not served:
        yield failed(f"GKE has no channel {channel} in {_location(cluster)}")
    elif wanted and not any(_begins(version, wanted) for version in served):
        yield failed(f"channel {channel} has no {wanted}; it has {', '.join(served)}")
    elif not (wanted or default):
        yield unknown(f"channel {channel} names no default", "set platform.kubernetes")
    elif not wanted and (wrong := unserved(cluster, ".".join(default.split(".")[:2]))):
        yield failed(f"channel {channel} begins with {default}: {wrong}", "set platform.kubernetes")
    else:
        yield ok(f"channel {channel} has {wanted or default}")


def _begins(version: str, wanted: str) -> bool:
    """Return whether GKE takes ``wanted`` for ``version``, as 1.34 and 1.34.1 for 1.34.1-gke.5."""
    parts, whole = re.split("[.-]", wanted), re.split("[.-]", version)
    return whole[: len(parts)] == parts


def _location(cluster: GcpCluster) -> str:
    platform = cluster.platform
    return platform.region if platform.availability == "regional" else platform.zone


def names(google: Google, cluster: GcpCluster) -> Iterator[Finding]:
    """Look for what has a name already that the stack gives."""
    for what, wanted in wanted_names(cluster).items():
        for name in wanted:
            try:
                taken = _there(google, cluster, what, name)
            except UnaskedError as error:
                # A bucket of another project is one of them.
                yield unknown(f"whether the {what} {name} is there: {error.problem}", error.remedy)
            else:
                yield failed(f"there is already the {what} {name}") if taken else ok(name)


def _there(google: Google, cluster: GcpCluster, what: str, name: str) -> bool:
    platform = cluster.platform
    account = f"{name}@{platform.project}.iam.gserviceaccount.com"
    own, region = f"projects/{platform.project}", f"/regions/{platform.region}"
    places = {
        "network": ("compute", f"compute/v1/{own}/global/networks/{name}"),
        "subnetwork": ("compute", f"compute/v1/{own}{region}/subnetworks/{name}"),
        "firewall rule": ("compute", f"compute/v1/{own}/global/firewalls/{name}"),
        "router": ("compute", f"compute/v1/{own}{region}/routers/{name}"),
        "address range": ("compute", f"compute/v1/{own}/global/addresses/{name}"),
        "placement policy": ("compute", f"compute/v1/{own}{region}/resourcePolicies/{name}"),
        "GKE cluster": ("container", f"v1/{own}/locations/{_location(cluster)}/clusters/{name}"),
        "service account": ("iam", f"v1/{own}/serviceAccounts/{account}"),
        "DNS zone": ("dns", f"dns/v1/{own}/managedZones/{name}"),
        "Lustre instance": ("lustre", f"v1/{own}/locations/{platform.zone}/instances/{name}"),
        "zonal Filestore": ("file", f"v1/{own}/locations/{platform.zone}/instances/{name}"),
        "regional Filestore": ("file", f"v1/{own}/locations/{platform.region}/instances/{name}"),
        "bucket": ("storage", f"storage/v1/b/{name}"),
    }
    return google.get(*places[what]) is not None


def wanted_names(cluster: GcpCluster) -> dict[str, list[str]]:
    """Return the names that a stack gives to what has one name in a project or in the world."""
    name, platform, parts = cluster.name, cluster.platform, _parts(cluster)
    filestores = [row for row in platform.storage if isinstance(row, FilestoreStorage)]
    zonal = [row for row in filestores if row.tier == "zonal"]
    regional = [row for row in filestores if row.tier == "regional"]
    lustres = [row for row in platform.storage if isinstance(row, LustreStorage)]
    own, access, gpu = parts["network"], parts["service-access"], _gpu_networks(cluster)

    def if_(condition: bool, *ends: str) -> list[str]:
        return [physical_name(name, end) for end in ends] if condition else []

    return {
        "GKE cluster": [physical_name(name, limit=40)],
        "service account": [physical_name(name, "nodes", limit=30)],
        "network": if_(own, "net") + gpu["network"],
        "subnetwork": if_(own, "nodes") + gpu["subnetwork"],
        "firewall rule": if_(own, "internal")
        + if_(access, "lustre")
        + [physical_name(name, row.name, "locks") for row in filestores if own and row.addresses]
        + gpu["firewall rule"],
        "router": if_(own, "router"),
        "address range": if_(access, "services"),
        "placement policy": [
            physical_name(name, pool.name, "placement")
            for pool in cluster.pools
            if _own_policy(pool)
        ],
        "DNS zone": if_(parts["storage-names"], "storage-names"),
        "Lustre instance": [physical_name(name, row.name) for row in lustres],
        "zonal Filestore": [physical_name(name, row.name) for row in zonal],
        "regional Filestore": [physical_name(name, row.name) for row in regional],
        "bucket": [row.bucket for row in platform.storage if isinstance(row, BucketStorage)],
    }


def _gpu_networks(cluster: GcpCluster) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {"network": [], "subnetwork": [], "firewall rule": []}
    pools = [pool for pool in cluster.pools if pool.networking == "additional-networks"]
    if not pools or not isinstance(cluster.platform.gpu_networks, NewGpuNetworks):
        return made
    nics = node_networks(MACHINES[pools[0].instance_type])
    for nic in nics:
        made["subnetwork"].append(physical_name(cluster.name, nic.name))
        if nic.device == "NetDevice":
            made["network"].append(physical_name(cluster.name, nic.name))
            made["firewall rule"].append(physical_name(cluster.name, nic.name, "internal"))
    if any(nic.device == "RDMA" for nic in nics):
        made["network"].append(physical_name(cluster.name, "rdma"))
    return made


ASKER = Asker(
    opened=opened,
    checks={
        "project": project,
        "apis": apis,
        "permissions": permissions,
        "quota": quota,
        "networks": networks,
        "zone": zone,
        "reservation": reservation,
        "placement": placement,
        "subnets": subnets,
        "kubernetes": kubernetes,
        "names": names,
    },
)
