"""The wiring of a training pod on the configured fabric, as every runtime and launcher uses it.

:func:`wiring` is the only place that turns a stack's fabric into what a pod requests, joins, mounts
and sets. It is pure data: no Pulumi in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from railhead.base.names import NVLINK_CLAIM
from railhead.base.quantity import parse
from railhead.catalog.digests import exact
from railhead.catalog.parts import HostPath
from railhead.catalog.switches import SWITCHES
from railhead.fabric.kinds import FABRICS
from railhead.fabric.mode import NETWORKS_ANNOTATION, RailInterface
from railhead.fabric.plugin import PluginDaemon
from railhead.machines import MACHINES, Machine
from railhead.model.capacity import HUGEPAGES
from railhead.model.cluster import Cluster, Pool

# A claim of the pod, by which its container asks for the NICs.
CLAIM = "rdma"
# The ComputeDomain of each training namespace, and the template that NVIDIA's driver makes for it.
NVLINK_DOMAIN = "railhead-nvlink"
# Where a pod has the fabric's profile.
PROFILE_DIRECTORY = "/etc/railhead/nccl"


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The fabric as a pod meets it.

    Args:
        mode: how the fabric enters the pod.
        gpus: GPUs of the pod.
        devices: count of each extended resource that a pod requests.
        environment: the trainer container's variables.
        capabilities: what that container needs to lock memory.
        rails: interfaces beside the pod network's.
        annotations: of the pod; they bring the interfaces.
        claims: claim of the pod -> its ResourceClaimTemplate: the NICs', the NVLink domain's.
        host_paths: what of the node's file system the pod mounts, per container.
        hugepages_mib: 2 MiB huge pages that the pod requests, in MiB.
        host_network: whether the pod must be in the node's network namespace.
        line_rate_gbps: a NIC's nominal rate in Gbit/s, 0 for none.
        nics_per_node: NICs of the training fabric of one node.
        sidecar: what must run beside the trainer, or None.
    """

    mode: str
    gpus: int
    devices: Mapping[str, int]
    environment: Mapping[str, str]
    capabilities: tuple[str, ...]
    rails: tuple[RailInterface, ...]
    annotations: Mapping[str, str]
    claims: Mapping[str, str]
    host_paths: tuple[HostPath, ...]
    hugepages_mib: int
    host_network: bool
    line_rate_gbps: int
    nics_per_node: int
    sidecar: PluginDaemon | None = None

    def networks_annotation(self) -> str:
        """Value of :data:`NETWORKS_ANNOTATION` for the pod; an empty list without rails."""
        return self.annotations.get(NETWORKS_ANNOTATION, "[]")

    def requests(self) -> dict[str, str]:
        """Return the extended resources and huge pages of one pod, as Kubernetes quantities."""
        counted = {name: str(count) for name, count in self.devices.items()}
        return counted | ({HUGEPAGES: f"{self.hugepages_mib}Mi"} if self.hugepages_mib else {})


def wiring(cluster: Cluster, pool: Pool | None = None, gpus: int | None = None) -> Wiring:
    """Return the wiring of a pod with ``gpus`` GPUs of a node of ``pool``.

    None for ``pool`` is the cluster's first, None for ``gpus`` all of a node's.
    """
    fabric = cluster.fabric
    mode, plugin = fabric.row, fabric.node_plugin
    pool = pool or cluster.pools[0]
    machine = MACHINES[pool.instance_type]
    nics = share(machine, gpus)
    machines = [MACHINES[p.instance_type] for p in cluster.pools]
    return Wiring(
        mode=mode.name,
        gpus=machine.gpus if gpus is None else gpus,
        devices=MappingProxyType(fabric.pod_devices(nics)),
        environment=MappingProxyType(_environment(cluster, machine)),
        capabilities=tuple(c.name for c in mode.capabilities_on(fabric.kind))
        if fabric.lock_memory
        else (),
        rails=fabric.attached(nics),
        annotations=MappingProxyType(fabric.annotations(nics)),
        claims=MappingProxyType(_claims(cluster, machine, gpus)),
        host_paths=mode.host_paths_on(fabric.kind),
        hugepages_mib=mode.hugepages_mib * nics,
        host_network=fabric.node_network is not None,
        # The slowest NIC of a collective sets its pace.
        line_rate_gbps=min((nic.rate_gbps for m in machines for nic in m.nics), default=0),
        nics_per_node=min(len(machine.nics) for machine in machines),
        sidecar=_mirrored(cluster, plugin.daemon if plugin else None),
    )


def share(machine: Machine, gpus: int | None) -> int:
    """Return the NICs that go with ``gpus`` of a machine's GPUs, at least one; None takes all."""
    if gpus is None or gpus >= machine.gpus:
        return len(machine.nics)
    return max(1, len(machine.nics) * gpus // machine.gpus)


def _environment(cluster: Cluster, machine: Machine) -> dict[str, str]:
    fabric = cluster.fabric
    traffic_class = cluster.gate.traffic_class(machine)
    topology = FABRICS[fabric.kind].topology_on(machine.name)
    placeholders = {
        "gid_family": fabric.gid_family,
        "cross_nic": fabric.cross_nic,
        "traffic_class": "" if traffic_class is None else str(traffic_class),
        "bootstrap": ",".join(fabric.bootstrap_interfaces()),
        "gloo": fabric.bootstrap_interfaces()[0],
        "rails": ",".join(rail.interface for rail in fabric.pod_rails()),
        "hcas": ",".join(fabric.nccl_hcas(machine)),
        "topology": f"{PROFILE_DIRECTORY}/{topology.file}" if topology else "",
    }
    placeholders |= {f"rail{rail.rail}": rail.interface for rail in fabric.pod_rails()}
    empty = [f"{{{key}}}" for key, value in placeholders.items() if not value]
    variables = {
        variable.name: variable.value.format(**placeholders)
        for variable in FABRICS[fabric.kind].environment_on(machine.name)
        if not any(key in variable.value for key in empty)
    }
    if fabric.topology_file is not None:
        variables["NCCL_TOPO_FILE"] = fabric.topology_file
    if fabric.nccl_net is not None:
        variables["NCCL_NET"] = fabric.nccl_net
    return variables | dict(fabric.environment)


def chosen(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Return what the fabric sets of the variables that choose a network: every pool's values."""
    values_of: dict[str, list[str]] = {}
    for pool in cluster.pools:
        for name, value in wiring(cluster, pool).environment.items():
            if name in SWITCHES and value not in values_of.setdefault(name, []):
                values_of[name].append(value)
    return {name: tuple(values) for name, values in values_of.items()}


def claim_of(cluster: Cluster, nics: int) -> str | None:
    """Return the ResourceClaimTemplate of ``nics`` NICs in each training namespace; or None."""
    return f"railhead-nics-{nics}" if cluster.fabric.nic_claim() is not None else None


def joins_nvlink(cluster: Cluster, machine: Machine) -> bool:
    """Return whether pods on the machine reach GPU memory of other nodes over NVLink."""
    operator = cluster.gpu_operator
    return operator is not None and operator.compute_domains and machine.spans_nodes


def _claims(cluster: Cluster, machine: Machine, gpus: int | None) -> dict[str, str]:
    """Return the claims of a pod with ``gpus`` of a machine's GPUs, None for all of them.

    A node has one channel for one pod (dra-driver-nvidia-gpu v0.4.1, compute-domain-kubelet-plugin,
    assertImexChannelNotAllocated): a second one on it would wait for ever.
    """
    nics = claim_of(cluster, share(machine, gpus))
    whole = gpus is None or gpus >= machine.gpus
    return ({CLAIM: nics} if nics is not None else {}) | (
        {NVLINK_CLAIM: NVLINK_DOMAIN} if whole and joins_nvlink(cluster, machine) else {}
    )


def shared_memory_gib(machine: Machine, gpus: int) -> int:
    """Return the GiB of a pod's ``/dev/shm``: half of the memory that goes with its GPUs.

    It is a limit, not a reservation: what is not used is not taken.
    """
    return max(1, machine.schedulable_memory_gib * min(gpus, machine.gpus) // machine.gpus // 2)


def memory_limit(pool: Pool, gpus: int, requested: str) -> str:
    """Return the memory at which the kernel ends a container: what goes with its GPUs.

    A twentieth of what pods can request on a node stays for pods of daemons, which the kernel ends
    first once all pods together are out of memory, and for the kubelet's threshold of eviction
    (kubernetes v1.35, pkg/kubelet/qos/policy.go and cm/node_container_manager_linux.go).
    The page cache of its files counts too, and the kernel takes it back first. A runtime that
    requests more has its request as limit.
    """
    machine, (_, schedulable) = MACHINES[pool.instance_type], pool.schedulable_resources
    gib = schedulable * min(gpus, machine.gpus) * 19 // machine.gpus // 20
    return requested if parse(requested) >= gib << 30 else f"{gib}Gi"


def _mirrored(cluster: Cluster, daemon: PluginDaemon | None) -> PluginDaemon | None:
    if daemon is None:
        return None
    tag = exact(daemon.image.reference).removeprefix(f"{daemon.image.repository}:")
    image = replace(daemon.image, tag=tag).through(cluster.registry_mirrors)
    return replace(daemon, image=image)
