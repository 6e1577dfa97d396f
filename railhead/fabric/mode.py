"""Modes of a fabric: the type of their rows, and the questions that their section answers.

A mode is one file of :mod:`railhead.fabric.modes`: a row, and a subclass of :class:`BaseFabric`
that answers what differs from the defaults here. No other code names a mode: it asks the section.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from railhead.base.fields import AbsolutePath, Interface, Model, Variable, catalogue, matching
from railhead.catalog.parts import Capability, DeviceResource, HostPath
from railhead.fabric.kinds import FABRICS
from railhead.fabric.plugin import NodePlugin
from railhead.fabric.site import Check
from railhead.machines.machine import Machine

NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks"
GKE_INTERFACES = "networking.gke.io/interfaces"
GKE_DEFAULT_INTERFACE = "networking.gke.io/default-interface"
# The network that every GKE pod has anyway; the annotation must list it with the others.
GKE_POD_NETWORK = "default"
# The namespace of an operator's networks: each of its objects makes one network there.
NETWORKS_NAMESPACE = "railhead-fabric"

Resource = Annotated[
    str,
    matching(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "an extended resource's name, such as 'rdma/rdma_shared_device_a'",
        longest=316,
    ),
]
# nccl-rdma-sharp-plugins, src/ib_plugin.c: one name for each version of NCCL's network interface.
IbPlugin = Annotated[
    str, matching(r"^IBext_v[0-9]+$", "a network of NVIDIA's plugin, such as 'IBext_v10'")
]
Hca = Annotated[str, matching(r"^[A-Za-z][A-Za-z0-9_]*$", "an RDMA device, such as 'mlx5_0'")]


@dataclass(frozen=True, kw_only=True)
class RailInterface:
    """One rail in a pod: its network's name, its index, and the interface it becomes.

    ``namespace`` is the network's, None where it is each training namespace's own.
    """

    network: str
    rail: int
    interface: str
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True)
class NicClaim:
    """NICs by ResourceClaim: the DeviceClass, and a CEL expression that picks among its devices."""

    device_class: str
    selector: str | None = None


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A way to bring a fabric into pods.

    Args:
        name: as in a stack's ``fabric.mode``.
        fabrics: names of the fabrics that it serves.
        needs: what a platform must offer for it: ``multus`` networks of the stack's own,
            NVIDIA's network ``operator``, ``efa`` devices, ``gke`` multi-networking, ``nic-claims``
            of DRA drivers, ``provider`` devices that exist already; None for nothing.
        summary: what a pod gets from it, in one sentence.
        attachment: how the interfaces come: ``multus`` annotations, ``gke`` annotations, a DRA
            ``claim``, or ``none`` except what the device plugin injects.
        bootstrap: the interfaces of NCCL's bootstrap and gloo unless the stack chooses: the pod's
            own network, or the rails.
        devices: extended resources of each training pod.
        capabilities: what memory registration needs where the runtime's memlock limit is finite.
        unprivileged: why it needs no capability, if it needs none.
        operators: the operators that it needs in the cluster.
        hcas: whether the pod sees RDMA devices that are not its own, so that NCCL needs the list.
        moves: whether a NIC disappears from the node while a pod uses it: the interface moves,
            and with it the RDMA device if its plugin moves that too.
        whole_nodes: whether a pod takes every NIC of its node, and so must take every GPU.
        hugepages_mib: 2 MiB huge pages a pod requests for each NIC it gets, in MiB.
        host_network: why pods must be in the node's network namespace, or None.
        host_paths: directories of the node that a pod must have.
        never: further variables that a stack must not set in this mode.
        source: where it was read.
    """

    name: str
    fabrics: frozenset[str]
    needs: str | None
    summary: str
    attachment: Literal["multus", "gke", "claim", "none"]
    bootstrap: Literal["pod", "rails"]
    devices: tuple[DeviceResource, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    unprivileged: str = ""
    operators: tuple[str, ...] = ()
    hcas: bool = False
    moves: bool = False
    whole_nodes: bool = False
    hugepages_mib: int = 0
    host_network: str | None = None
    host_paths: tuple[HostPath, ...] = ()
    never: tuple[str, ...] = ()
    source: str

    def on(self, offers: frozenset[str]) -> bool:
        """Return whether it works on a platform with these offers."""
        return self.needs is None or self.needs in offers

    def capabilities_on(self, fabric: str) -> tuple[Capability, ...]:
        """Return the capabilities that pods on one of its fabrics need."""
        return tuple(c for c in self.capabilities if not c.fabrics or fabric in c.fabrics)

    def host_paths_on(self, fabric: str) -> tuple[HostPath, ...]:
        """Return the node's directories that pods on one of its fabrics need."""
        return tuple(p for p in self.host_paths if not p.fabrics or fabric in p.fabrics)


class NicOperator(Model):
    """NVIDIA's network operator, as far as other modules must know it."""

    nfd: Literal["operator", "existing"] = "operator"

    @property
    def loads_driver(self) -> bool:
        """True if it loads the NICs' driver."""
        return False


class BaseFabric(Model):
    """The fields of every mode.

    ``lock_memory`` adds the mode's capabilities (IPC_LOCK) to training containers; false only if
    nothing registers memory with a NIC, or the nodes' container runtime has no memlock limit.
    ``pod_interface`` is the pod network's interface inside a pod. ``environment`` has the variables
    that this site's fabric needs in addition to the catalogue's, such as NCCL_IB_TC; it cannot
    change what the catalogue pins. ``topology_file`` is the path, inside the image, of NCCL's
    topology for machines whose hypervisor hides it. ``nccl_net`` replaces NCCL's own InfiniBand
    transport in NCCL_NET, if the image has NVIDIA's plugin for it: SHARP needs that, since NCCL
    takes CollNet only from the plugin that it selects.

    ``kind`` is a row of the catalogue.
    """

    row: ClassVar[Mode]

    kind: Annotated[str, catalogue(FABRICS, " of fabrics")]
    mode: str
    lock_memory: bool = True
    pod_interface: Interface = "eth0"
    environment: dict[Variable, str] = Field(default_factory=dict)
    topology_file: AbsolutePath | None = None
    nccl_net: IbPlugin | None = None

    # -- what pods get ----------------------------------------------------------------------------

    def device_names(self, device: DeviceResource) -> tuple[str, ...]:
        """Return the extended resources that a device of the row stands for in this stack."""
        return (device.name,)

    def per_node(self, device: DeviceResource, machine: Machine) -> int:
        """Return how many of a device's resource one node advertises."""
        return len(machine.nics) if device.scope == "nic" else device.per_node or 1

    def pod_devices(self, nics: int) -> dict[str, int]:
        """Return resource -> count for a pod that gets ``nics`` of its node's NICs."""
        return {
            name: device.per_pod * (nics if device.scope == "nic" else 1)
            for device in self.row.devices
            for name in self.device_names(device)
        }

    def node_devices(self, machine: Machine) -> dict[str, int]:
        """Return resource -> count that one node advertises."""
        return {
            name: self.per_node(device, machine)
            for device in self.row.devices
            for name in self.device_names(device)
        }

    def pod_rails(self) -> tuple[RailInterface, ...]:
        """Return the interfaces that a pod gets in addition to its pod network's, by rail."""
        return ()

    @property
    def node_plugin(self) -> NodePlugin | None:
        """The vendor's NCCL plugin on nodes, of the version that the stack uses; None for none."""
        return FABRICS[self.kind].plugin

    @property
    def attachment(self) -> Literal["multus", "gke", "claim", "none"]:
        """Way in which these interfaces come, as :class:`Mode` has it."""
        return self.row.attachment

    def attached(self, nics: int) -> tuple[RailInterface, ...]:  # noqa: ARG002 - each mode's own
        """Return the interfaces of a pod that gets ``nics`` of its node's NICs."""
        return self.pod_rails()

    def annotations(self, nics: int) -> dict[str, str]:
        """Return the annotations that bring the interfaces of ``nics`` NICs into a pod."""
        rails = self.attached(nics)
        if self.attachment == "gke":
            listed = [{"interfaceName": "eth0", "network": GKE_POD_NETWORK}]
            listed += [{"interfaceName": r.interface, "network": r.network} for r in rails]
            return {
                GKE_DEFAULT_INTERFACE: "eth0",
                GKE_INTERFACES: json.dumps(listed, separators=(",", ":")),
            }
        if self.attachment != "multus" or not rails:
            return {}
        networks = [
            {"name": rail.network}
            | ({"namespace": rail.namespace} if rail.namespace else {})
            | {"interface": rail.interface}
            for rail in rails
        ]
        return {NETWORKS_ANNOTATION: json.dumps(networks, separators=(",", ":"))}

    def bootstrap_interfaces(self) -> tuple[str, ...]:
        """Return the interfaces that NCCL's bootstrap and gloo use."""
        return (self.pod_interface,)

    def nic_claim(self) -> NicClaim | None:
        """Return the request of a ResourceClaim for NICs; None if pods get them another way."""
        return None

    def nccl_hcas(self, machine: Machine) -> tuple[str, ...]:  # noqa: ARG002 - each mode's own
        """Return the RDMA devices that NCCL may use; empty if a pod sees only its own."""
        return ()

    def pods_at_once(self, most: int) -> int:
        """Return how many training pods a node may run at once; its GPUs allow ``most``."""
        return most

    @property
    def node_network(self) -> str | None:
        """The reason that pods must use the node's network namespace; None if they do not."""
        return self.row.host_network

    @property
    def whole_nodes(self) -> bool:
        """True if a pod takes something that its node has once, and so must take every GPU."""
        return self.row.whole_nodes

    # -- what nodes have and prove ----------------------------------------------------------------

    def rail_interfaces(self) -> tuple[tuple[str, ...], ...]:
        """Return the names that each rail's interface may have on a node, by rail."""
        return ()

    def node_interfaces(self) -> tuple[str, ...]:
        """Return the nodes' interfaces of the rails, by every name."""
        return tuple(dict.fromkeys(name for names in self.rail_interfaces() for name in names))

    @property
    def node_mtu(self) -> int | None:
        """The MTU of those interfaces in bytes; None leaves them alone."""
        return None

    @property
    def gid_family(self) -> str:
        """The rails' family of addresses as NCCL says it; empty where NCCL takes it by itself."""
        return ""

    @property
    def cross_nic(self) -> str:
        """``0`` where a pod's rails do not reach each other, as NCCL says it; empty elsewhere."""
        return ""

    def taken_down_for(self, most_gpus: int) -> dict[str, Any]:  # noqa: ARG002 - each mode's own
        """Return the settings whose change ends the jobs of nodes, or takes their network.

        ``most_gpus`` are those of the largest machine.
        """
        return {}

    @property
    def rdma_netns(self) -> str | None:
        """The required RDMA mode of its nodes' network namespaces, such as ``shared``."""
        return None

    @property
    def networks_namespace(self) -> str | None:
        """The namespace of an operator's networks; None if each training namespace has its own."""
        return None

    @property
    def nic_operator(self) -> NicOperator | None:
        """NVIDIA's network operator, if the stack installs it."""
        return None

    @property
    def brings_multus(self) -> bool:
        """True if the network operator puts Multus on nodes: where pods get networks."""
        return False

    def addons(self) -> tuple[str, ...]:
        """Names of the catalogue's add-ons that the stack installs for it."""
        return ()

    # -- what is wrong with it --------------------------------------------------------------------

    def checks(self) -> tuple[Check, ...]:
        """Return the checks, which yield (path, message) of conflicts with the stack."""
        return ()
