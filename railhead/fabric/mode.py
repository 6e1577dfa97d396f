"""What a mode of a fabric is: its row, and the questions that its section of a stack answers.

A mode is one file of :mod:`railhead.fabric.modes`: a row, and a subclass of :class:`BaseFabric`
that answers what differs from the defaults here. Nothing else names a mode: everybody asks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from railhead.base.fields import AbsolutePath, Interface, Model, Variable, catalogue, matching
from railhead.catalog.machine import Machine
from railhead.catalog.parts import Capability, DeviceResource, HostPath
from railhead.fabric.kinds import FABRICS
from railhead.fabric.site import Check

NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks"
GKE_INTERFACES = "networking.gke.io/interfaces"
GKE_DEFAULT_INTERFACE = "networking.gke.io/default-interface"
# The network that every GKE pod has anyway; the annotation must list it with the others.
GKE_POD_NETWORK = "default"
# Where an operator's networks live: each of its objects makes one network, in one namespace.
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
        name: what a stack's ``fabric.mode`` says.
        fabrics: names of the fabrics that it serves.
        needs: what a platform must offer for it: ``multus`` networks of the stack's own,
            NVIDIA's network ``operator``, ``efa`` devices, ``gke`` multi-networking, ``nic-claims``
            of DRA drivers, ``provider`` devices that are there; None for nothing.
        summary: what a pod gets by it, in one sentence.
        attachment: how the interfaces come: ``multus`` annotations, ``gke`` annotations, a DRA
            ``claim``, or ``none`` beside what the device plugin injects.
        bootstrap: where NCCL's bootstrap and gloo are pinned unless the stack says otherwise: the
            pod's own network, or the rails.
        devices: extended resources of each training pod.
        capabilities: what memory registration needs where the runtime's memlock limit is finite.
        unprivileged: why no capability is needed, where none is.
        operators: which operators must be in the cluster for it.
        hcas: whether the pod sees RDMA devices that are not its own, so that NCCL needs the list.
        moves: whether a pod takes a NIC out of the node's sight while it runs: the interface
            moves, and with it the RDMA device where the node's RDMA namespaces are exclusive.
        whole_nodes: whether a pod takes every NIC of its node, and so must take every GPU.
        hugepages_mib: 2 MiB huge pages a pod requests for each NIC it gets, in MiB.
        host_network: why pods must be in the node's network namespace, or None.
        host_paths: what of the node's file system a pod must have.
        never: variables, beside the catalogue's, that a stack must not set in this mode.
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
        """Whether it can be on a platform that offers these."""
        return self.needs is None or self.needs in offers

    def capabilities_on(self, fabric: str) -> tuple[Capability, ...]:
        """The capabilities that pods on one of its fabrics need."""
        return tuple(c for c in self.capabilities if not c.fabrics or fabric in c.fabrics)

    def host_paths_on(self, fabric: str) -> tuple[HostPath, ...]:
        """The node's directories that pods on one of its fabrics need."""
        return tuple(p for p in self.host_paths if not p.fabrics or fabric in p.fabrics)


class NicOperator(Model):
    """NVIDIA's network operator, as far as others must know: whose Node Feature Discovery runs."""

    nfd: Literal["operator", "existing"] = "operator"

    @property
    def loads_driver(self) -> bool:
        """Whether it loads the NICs' driver."""
        return False


class BaseFabric(Model):
    """What every mode has.

    ``lock_memory`` adds the mode's capabilities (IPC_LOCK) to training containers; false only where
    nothing registers memory with a NIC, or the nodes' container runtime has no memlock limit.
    ``pod_interface`` is the pod network's interface inside a pod. ``environment`` is what this
    site's fabric needs beside the catalogue's, such as NCCL_IB_TC; it cannot change what the
    catalogue pins. ``topology_file`` is the path, inside the image, of NCCL's topology for machines
    whose hypervisor hides it. ``nccl_net`` is what NCCL_NET says in place of NCCL's own InfiniBand
    transport, where the image has NVIDIA's plugin for it: SHARP needs that, since NCCL takes
    CollNet from the plugin that it selects and from no other.

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
        """The extended resources that a device of the row stands for in this stack."""
        return (device.name,)

    def per_node(self, device: DeviceResource, machine: Machine) -> int:
        """How many of a device's resource one node advertises."""
        return len(machine.nics) if device.scope == "nic" else device.per_node or 1

    def pod_devices(self, nics: int) -> dict[str, int]:
        """Resource -> count, for a pod that gets ``nics`` of its node's NICs."""
        return {
            name: device.per_pod * (nics if device.scope == "nic" else 1)
            for device in self.row.devices
            for name in self.device_names(device)
        }

    def node_devices(self, machine: Machine) -> dict[str, int]:
        """Resource -> count that one node advertises."""
        return {
            name: self.per_node(device, machine)
            for device in self.row.devices
            for name in self.device_names(device)
        }

    def pod_rails(self) -> tuple[RailInterface, ...]:
        """The interfaces that a pod gets beside its pod network's, in the rails' order."""
        return ()

    def annotations(self) -> dict[str, str]:
        """What brings these interfaces into a pod."""
        rails = self.pod_rails()
        if self.row.attachment == "gke":
            listed = [{"interfaceName": "eth0", "network": GKE_POD_NETWORK}]
            listed += [{"interfaceName": r.interface, "network": r.network} for r in rails]
            return {
                GKE_DEFAULT_INTERFACE: "eth0",
                GKE_INTERFACES: json.dumps(listed, separators=(",", ":")),
            }
        if self.row.attachment != "multus" or not rails:
            return {}
        networks = [
            {"name": rail.network}
            | ({"namespace": rail.namespace} if rail.namespace else {})
            | {"interface": rail.interface}
            for rail in rails
        ]
        return {NETWORKS_ANNOTATION: json.dumps(networks, separators=(",", ":"))}

    def bootstrap_interfaces(self) -> tuple[str, ...]:
        """Where NCCL's bootstrap and gloo are pinned."""
        return (self.pod_interface,)

    def nic_claim(self) -> NicClaim | None:
        """How a ResourceClaim asks for NICs; None where pods get them otherwise."""
        return None

    def nccl_hcas(self, machine: Machine) -> tuple[str, ...]:  # noqa: ARG002 - each mode's own
        """RDMA devices that NCCL must be held to; empty where a pod sees its own only."""
        return ()

    def pods_at_once(self, most: int) -> int:
        """Training pods that a node may run at once, where its GPUs would let it run ``most``."""
        return most

    @property
    def node_network(self) -> str | None:
        """Why pods must be in the node's network namespace; None where they have their own."""
        return self.row.host_network

    @property
    def whole_nodes(self) -> bool:
        """Whether a pod takes what its node has once, and so must take every GPU."""
        return self.row.whole_nodes

    # -- what nodes have and prove ----------------------------------------------------------------

    def node_interfaces(self) -> tuple[str, ...]:
        """The nodes' interfaces that rails hang on."""
        return ()

    @property
    def node_mtu(self) -> int | None:
        """MTU of those interfaces in bytes; None leaves them alone."""
        return None

    def taken_down_for(self) -> dict[str, Any]:
        """What its operator changes on nodes only after whatever runs there is gone."""
        return {}

    @property
    def rdma_netns(self) -> str | None:
        """What RDMA devices of its nodes must be to network namespaces, ``shared`` or not."""
        return None

    @property
    def networks_namespace(self) -> str | None:
        """Where an operator makes the networks; None where each training namespace has its own."""
        return None

    @property
    def nic_operator(self) -> NicOperator | None:
        """NVIDIA's network operator, where the stack installs it."""
        return None

    def addons(self) -> tuple[str, ...]:
        """Names of the catalogue's add-ons that the stack installs for it."""
        return ()

    # -- what is wrong with it --------------------------------------------------------------------

    def checks(self) -> tuple[Check, ...]:
        """What looks for (path, message) of whatever does not go together with the stack."""
        return ()
