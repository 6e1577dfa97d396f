"""Doubts: values in a stack's file that are possible but probably wrong; reported, not refused."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import datetime

from railhead.base import quantity
from railhead.base.sections import Problem, each
from railhead.base.tags import MOVING
from railhead.base.wide import private
from railhead.catalog.versions import COMBINATIONS, ModuleChart
from railhead.framework import FRAMEWORKS
from railhead.machines import MACHINES
from railhead.machines.machine import Machine
from railhead.model.borrowing import borrowable, sources
from railhead.model.capacity import beside
from railhead.model.cluster import HOSTNAME_LEVEL, Cluster
from railhead.model.restarts import lasting
from railhead.platform.registry import PLATFORMS

GIB = 2**30
# Kubernetes is tested up to so many (kubernetes.io, Considerations for large clusters).
_TESTED_NODES = 5000
# Tags that are moved from image to image.
# Tags that are moved too, beside those that no image may have (railhead.base.tags).
_MOVING = re.compile(r"(latest|nightly)[-_.].*|current")
_FOR_CPUS = re.compile(r"(.*[-_.])?cpu([-_.].*)?")
# What no NVIDIA GPU runs, and which CPU an image is for.
_FOR_OTHERS = re.compile(r"(?:^|[-_./:])(rocm|neuronx?|gaudi|habana|xpu|tpu|windows)")
_FOR_ARCHITECTURE = re.compile(r"(?:^|[-_.])(arm64|aarch64|amd64|x86_64)(?:$|[-_.])")
_ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
# Labels of every node, or of every node of an architecture.
_OF_ALL_NODES = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})
# Classes of volumes that one node mounts, as their makers call them.
_OF_ONE_NODE = frozenset(
    {"gp2", "gp3", "hostpath", "local-path", "local-storage", "premium-rwo", "standard-rwo"}
)
# Where an image's own programs keep caches, keys and sockets.
_HOMES = frozenset({"/home", "/opt", "/root", "/tmp", "/var", "/var/lib"})  # noqa: S108 - no file of ours
# An image of 20 GiB takes minutes to pull; nobody waits hours for a gang whose pods do not start.
_SHORT_WAIT, _LONG_WAIT = 180, 4 * 3600
_SHORT_GRACE = 10
_SHORT_RECOVERY = 60
# NCCL v2.30.7, src/debug.cc.
_NCCL_DEBUG = ("NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE")
# Where every cloud's machines ask for credentials, over HTTP.
_METADATA = ipaddress.IPv4Address("169.254.169.254")
# A frame that holds RDMA's largest packet, of 4096 bytes, with its headers.
_WHOLE_PACKETS = 4200


def doubts(cluster: Cluster, now: datetime) -> Iterator[Problem]:
    """Yield every (path, message) of what may be meant and mostly is not, of a correct cluster."""
    for check in _CHECKS:
        yield from check(cluster)
    yield from PLATFORMS[cluster.platform.kind].doubts(cluster, now)


def _pools(cluster: Cluster) -> Iterator[Problem]:
    queued = {pool for queue in cluster.local_queues for pool in queue.pools}
    used = {runtime.pool for runtime in cluster.runtimes}
    for path, pool in each(cluster.pools, "pools"):
        if pool.name not in queued:
            yield f"{path}.name", f"no queue covers pool {pool.name!r}: no job gets its GPUs"
        elif pool.name not in used:
            yield f"{path}.name", f"no runtime uses pool {pool.name!r}: no job gets its GPUs"
        if any(row.key is None for row in pool.tolerations):
            yield (
                f"{path}.tolerations",
                "one without a key bears every taint: jobs are placed on nodes that fail as well",
            )
        if set(pool.node_selector) <= _OF_ALL_NODES:
            yield f"{path}.node_selector", "is on all nodes of the cluster, not on the pool's alone"
    if (nodes := sum(pool.nodes for pool in cluster.pools)) > _TESTED_NODES:
        yield "pools", f"{nodes} nodes; Kubernetes is tested up to {_TESTED_NODES}"


def _runtimes(cluster: Cluster) -> Iterator[Problem]:
    platform = PLATFORMS[cluster.platform.kind]
    machines = _machines(cluster)
    pools = {pool.name: pool for pool in cluster.pools}
    for path, runtime in each(cluster.runtimes, "runtimes"):
        tag = runtime.image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        if runtime.grace_seconds < _SHORT_GRACE:
            yield (
                f"{path}.grace_seconds",
                f"is {runtime.grace_seconds}: a job that ends has no moment to save anything",
            )
        gpus = machines[runtime.pool].gpus * pools[runtime.pool].nodes
        if 0 < (gang := runtime.restarts.gang or 0) < (wanted := lasting(gpus)):
            yield (
                f"{path}.restarts.gang",
                f"is {gang}: of jobs on all {gpus} GPUs of the pool one in a "
                f"hundred and more is interrupted more often within 30 days; {wanted} is enough "
                "for the others",
            )
        if "@" not in runtime.image and (tag.lower() in MOVING or _MOVING.fullmatch(tag.lower())):
            yield f"{path}.image", f"tag {tag!r} is moved from image to image; take a version"
        if _FOR_CPUS.fullmatch(tag) and not machines[runtime.pool].stand_in:
            yield f"{path}.image", f"tag {tag!r} says that it is built for CPUs alone"
        yield from _made_for(f"{path}.image", runtime.image, tag, machines[runtime.pool])
        if runtime.image.startswith("railhead.local/") and not platform.built_here:
            yield f"{path}.image", "is made by the lab, and on nodes of the lab alone"


def _made_for(path: str, image: str, tag: str, machine: Machine) -> Iterator[Problem]:
    """Yield what an image's name says that it is for, if the pool's machines differ."""
    if machine.stand_in:
        return
    if match := _FOR_OTHERS.search(image):
        yield (
            path,
            f"{match[1]!r} in its name is not for GPUs of NVIDIA, which {machine.name!r} has",
        )
    if match := _FOR_ARCHITECTURE.search(tag):
        is_for = _ARCHITECTURES.get(match[1], match[1])
        if is_for != machine.architecture:
            yield (
                path,
                f"tag {tag!r} is for {is_for}, and {machine.name!r} is {machine.architecture}",
            )
    if image.startswith(("localhost:", "localhost/", "127.")):
        yield path, "its registry is each node itself; name it as nodes reach it"


def _locked(cluster: Cluster) -> Iterator[Problem]:
    """Yield runtimes of a user that gets no capability to lock memory (kubernetes #56374)."""
    fabric, machines = cluster.fabric, _machines(cluster)
    if not fabric.lock_memory or not fabric.row.capabilities_on(fabric.kind):
        return
    for path, runtime in each(cluster.runtimes, "runtimes"):
        framework = FRAMEWORKS.get(runtime.framework)
        user = framework.user if framework else None
        if user is not None and not machines[runtime.pool].stand_in:
            yield (
                f"{path}.framework",
                f"{runtime.framework!r}: its pods run as user {user}, to whom Kubernetes gives no "
                "IPC_LOCK, and verbs fail where the nodes' container runtime limits locked memory; "
                "set LimitMEMLOCK=infinity there, and `fabric.lock_memory: false`",
            )


def _gpus(cluster: Cluster) -> Iterator[Problem]:
    if cluster.gpu_operator is not None and cluster.gpu_operator.allocation == "dra":
        yield (
            "gpu_operator.allocation",
            "'dra': Kueue places gangs by what nodes list as allocatable, and GPUs by claim are "
            "not (kueue #10548, open), so that jobs may wait for ever; take 'device-plugin'",
        )


def _parts(cluster: Cluster) -> Iterator[Problem]:
    operator = cluster.gpu_operator
    if operator is None:
        return
    spans = any(machine.spans_nodes for machine in _machines(cluster).values())
    if operator.compute_domains and not spans:
        yield (
            "gpu_operator.compute_domains",
            "true: no pool's machines share an NVLink domain with others; leave it out",
        )
    if spans and not operator.compute_domains:
        yield (
            "gpu_operator.compute_domains",
            "false: pods reach the other machines of their NVLink domain by the NICs alone; with "
            "true each gets a channel",
        )
    if operator.mig != "none":
        yield (
            "gpu_operator.mig",
            f"{operator.mig!r}: parts of GPUs reach each other neither over NVLink nor "
            "PCIe (MIG user guide), and quotas here count whole ones",
        )


def _charts(cluster: Cluster) -> Iterator[Problem]:
    platform = PLATFORMS[cluster.platform.kind]
    combination = COMBINATIONS[cluster.versions]
    if not platform.built_here and isinstance(combination.kueue.chart, ModuleChart):
        yield "versions", f"{cluster.versions!r} takes its charts from the lab's own build"


def _mounted(cluster: Cluster) -> Iterator[Problem]:
    claims = [(path, row.mount_path) for path, row in each(cluster.checkpoints, "checkpoints")]
    sets = [(path, row.mount_path) for path, row in each(cluster.datasets, "datasets")]
    for path, at in (*claims, *sets):
        if at in _HOMES:
            yield f"{path}.mount_path", f"{at!r} hides what the image has there; mount it elsewhere"
    for path, claim in each(cluster.checkpoints, "checkpoints"):
        if quantity.parse(claim.size) < GIB:
            yield f"{path}.size", f"{claim.size!r} is less than one checkpoint of any model's size"
        if claim.storage_class in _OF_ONE_NODE:
            yield (
                f"{path}.storage_class",
                f"{claim.storage_class!r} is mostly a class of volumes that one node mounts; a "
                "gang's pods are on several",
            )


def _frames(cluster: Cluster) -> Iterator[Problem]:
    mtu = getattr(cluster.fabric, "mtu", None)
    real = [machine for machine in _machines(cluster).values() if not machine.stand_in]
    if real and mtu is not None and mtu < _WHOLE_PACKETS:
        yield "fabric.mtu", f"{mtu} cuts RDMA's packets of 4096 bytes; {_WHOLE_PACKETS} hold one"


def _waits(cluster: Cluster) -> Iterator[Problem]:
    seconds = cluster.ready_timeout_seconds
    if all(machine.stand_in for machine in _machines(cluster).values()):
        return
    if 0 < (cluster.requeue.recovery_seconds or 0) < _SHORT_RECOVERY:
        yield (
            "requeue.recovery_seconds",
            f"{cluster.requeue.recovery_seconds}: a gang that starts again loses its place before "
            "its pods can be ready",
        )
    if seconds < _SHORT_WAIT:
        yield (
            "ready_timeout_seconds",
            f"{seconds}: a gang is put back before its nodes can have pulled a large image",
        )
    elif seconds > _LONG_WAIT:
        yield (
            "ready_timeout_seconds",
            f"{seconds}: a gang whose pods do not start keeps its nodes from others for "
            f"{seconds / 3600:.0f} hours",
        )


def _defaults(cluster: Cluster) -> Iterator[Problem]:
    for namespace in cluster.training_namespaces if cluster.default_queue else ():
        names = [queue.name for queue in cluster.local_queues if queue.namespace == namespace]
        if len(names) > 1:
            yield (
                "default_queue",
                f"namespace {namespace!r} has several queues ({', '.join(names)}): jobs that "
                "name none get none there",
            )


def _machines(cluster: Cluster) -> dict[str, Machine]:
    """Return pool -> the machine that its nodes are."""
    return {pool.name: MACHINES[pool.instance_type] for pool in cluster.pools}


def _small_shares(cluster: Cluster) -> Iterator[Problem]:
    machines = _machines(cluster)
    for path, runtime in each(cluster.runtimes, "runtimes"):
        if machines[runtime.pool].stand_in:
            continue
        if (idle := machines[runtime.pool].gpus % (runtime.gpus_per_node or 1)) > 0:
            yield f"{path}.gpus_per_node", f"{runtime.gpus_per_node} leaves {idle} of a node idle"
        if runtime.shared_memory and quantity.parse(runtime.shared_memory) < GIB:
            yield (
                f"{path}.shared_memory",
                f"{runtime.shared_memory!r} is less than the 1Gi that NCCL's user guide asks for",
            )
        if quantity.parse(runtime.memory) < machines[runtime.pool].gpus * GIB:
            yield f"{path}.memory", f"{runtime.memory!r} is less than 1Gi for each GPU"
        if quantity.parse(runtime.cpu) < (runtime.gpus_per_node or machines[runtime.pool].gpus):
            yield f"{path}.cpu", f"{runtime.cpu!r} is less than a CPU for each GPU's process"


def _rails_apart(cluster: Cluster) -> Iterator[Problem]:
    """Yield pods with part of a node's GPUs where no way leads from rail to rail (nccl #836)."""
    fabric, machines = cluster.fabric, _machines(cluster)
    if not fabric.cross_nic or "NCCL_CROSS_NIC" in fabric.environment:
        return
    for path, runtime in each(cluster.runtimes, "runtimes"):
        machine = machines[runtime.pool]
        if 0 < (runtime.gpus_per_node or 0) < machine.gpus and not machine.stand_in:
            yield (
                f"{path}.gpus_per_node",
                f"{runtime.gpus_per_node} of {machine.gpus}: NCCL takes the NICs near a pod's "
                "GPUs, and pods of a job may have GPUs of other rails, which no router connects: "
                "such jobs end at ibv_modify_qp; take whole nodes, give rails a `gateway`, or "
                "where switches connect them say NCCL_CROSS_NIC in fabric.environment",
            )


def _borrowed(cluster: Cluster) -> Iterator[Problem]:
    pools = {pool.name: pool for pool in cluster.pools}
    for path, team in each(cluster.teams, "teams"):
        if team.weight != 1 and not cluster.fair.sharing:
            yield f"{path}.weight", f"{team.weight} has no effect without `sharing` under `fair`"
        for where, share in each(team.shares, f"{path}.shares"):
            most = sum(sources(cluster, team, pools[share.pool]).values())
            if share.nodes == 0 and share.borrow == 0:
                yield where, f"is nothing, promised or borrowed: no job gets pool {share.pool!r}"
            if share.borrow is not None and share.borrow > most:
                yield (
                    f"{where}.borrow",
                    f"{share.borrow} is no limit: beside its own {share.nodes} nodes others lend "
                    f"{most:g} of pool {share.pool!r}; leave it out if none is meant",
                )


def _too_little(cluster: Cluster) -> Iterator[Problem]:
    """Yield shares that fit no pod of any runtime, however much is borrowed."""
    pools = {pool.name: pool for pool in cluster.pools}
    for path, team in each(cluster.teams, "teams"):
        for where, share in each(team.shares, f"{path}.shares"):
            pool, gpu = pools[share.pool], MACHINES[pools[share.pool].instance_type].gpu_resource
            most = beside(cluster, share, pool, int(borrowable(cluster, team, share)))[gpu]
            asked = [
                runtime.gpus_per_node or MACHINES[pool.instance_type].gpus
                for runtime in cluster.runtimes
                if runtime.pool == pool.name
            ]
            if gpu in share.quota and asked and quantity.parse(most) < min(asked):
                yield (
                    f"{where}.quota.{gpu}",
                    f"{share.quota[gpu]!r}: with all that it may borrow the team has {most}, and "
                    f"each node of a job takes {min(asked)}",
                )


def _levels_of_logs(cluster: Cluster) -> Iterator[Problem]:
    for path, runtime in each(cluster.runtimes, "runtimes"):
        level = runtime.environment.get("NCCL_DEBUG")
        if level is not None and level.upper() not in _NCCL_DEBUG:
            yield (
                f"{path}.environment.NCCL_DEBUG",
                f"{level!r} is not one of NCCL's: {', '.join(_NCCL_DEBUG)}",
            )


def _addresses(cluster: Cluster) -> Iterator[Problem]:
    callers = "platform.endpoint."
    networks = list(PLATFORMS[cluster.platform.kind].networks(cluster))
    for path, network in networks:
        if network.is_global and not path.startswith(callers):
            yield (
                path,
                f"{str(network)!r} is others' on the internet, and nothing here reaches them",
            )
    let_in = [row for row in networks if row[0].startswith(callers)]
    public = getattr(getattr(cluster.platform, "endpoint", None), "kind", None) == "public"
    if public and let_in and all(private(network) for _, network in let_in):
        yield let_in[0][0], "is private, as all are: nobody comes to a public address from there"


def _reached(cluster: Cluster) -> Iterator[Problem]:
    for path, to in each(cluster.network_policy.egress, "network_policy.egress"):
        if to.cidr and not to.ports and ipaddress.ip_network(to.cidr).prefixlen == 0:
            yield path, f"jobs may connect to any port of {to.cidr}; name ports, such as 443"
        elif to.cidr and _METADATA in ipaddress.ip_network(to.cidr) and 80 in (to.ports or (80,)):
            yield path, f"lets jobs ask {_METADATA} for the credentials of their node"
    if not cluster.network_policy.enabled:
        yield "network_policy.enabled", "is false: jobs reach, and are reached from, everywhere"


def _nobody_labels(cluster: Cluster) -> Iterator[Problem]:
    """Yield topology levels that nothing puts on a cloud's nodes as labels."""
    platform = PLATFORMS[cluster.platform.kind]
    if not platform.label_domains:
        return
    own = {key for pool in cluster.pools for key in pool.node_selector}
    own |= {key for pool in cluster.pools for key in getattr(pool, "labels", ())}
    known_labels = {*own, *platform.levels, HOSTNAME_LEVEL}
    for path, label in each(cluster.topology, "topology"):
        if label not in known_labels and not label.startswith("nvidia.com/"):
            yield path, f"nothing puts {label!r} on nodes, and no job is placed without it"


_CHECKS: tuple[Callable[[Cluster], Iterator[Problem]], ...] = (
    _pools,
    _runtimes,
    _locked,
    _gpus,
    _parts,
    _small_shares,
    _rails_apart,
    _borrowed,
    _too_little,
    _levels_of_logs,
    _charts,
    _mounted,
    _frames,
    _waits,
    _defaults,
    _addresses,
    _reached,
    _nobody_labels,
)
