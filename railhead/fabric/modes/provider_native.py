"""Devices that the provider's own cluster hands out: one resource, and no networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from railhead.base.fields import Positive, matching
from railhead.catalog.parts import DeviceResource
from railhead.fabric.mode import BaseFabric, Hca, Mode, RailInterface, Resource
from railhead.fabric.railed import IPC_LOCK, listed_hcas
from railhead.fabric.site import Check, FabricSite, Problem
from railhead.machines.machine import Machine

NetworkName = Annotated[
    str,
    matching(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        "a network's namespace and name, such as 'default/rdma-vf'",
        longest=317,
    ),
]
# The resource of OKE's virtual functions, which only its network moves into a pod.
_OKE_FUNCTIONS = "nvidia.com/rdma-vf"
_OKE = "oracle-quickstart/oci-hpc-oke, manifests/nccl-tests"
_COREWEAVE = "SkyPilot's CoreWeave example: network_tier best requests `rdma/ib: 1`"


class ProviderFabric(BaseFabric):
    """One extended resource of the provider's device plugin; the stack creates nothing for it.

    ``resource`` is what its nodes advertise: ``rdma/ib`` on CoreWeave, ``nvidia.com/rdma-vf`` for
    virtual functions on OKE. ``network`` is the provider's Multus network that moves them into a
    pod, once for each device that the pod requests (``default/rdma-vf`` on OKE); None if the
    devices come without one. ``devices`` is how many a node has, None one for each NIC.
    ``per_pod`` is what every pod requests if one device opens all NICs; None gives a pod its
    share, by its GPUs. ``hcas`` are the node's RDMA devices of this fabric, None the catalogue's,
    if pods see those of the whole node; ``hcas_by_machine`` is instance type -> those of such
    nodes, where they differ. ``host_network`` puts pods into the node's network
    namespace, if the NICs have addresses only there and the nodes advertise ``resource`` all the
    same: ``pod_interface`` is then the node's, and network policies do not apply to pods.
    """

    row: ClassVar[Mode] = Mode(
        name="provider-native",
        fabrics=frozenset({"roce", "infiniband"}),
        needs="provider",
        summary="the provider's own device plugin gives the pod RDMA devices; no networks of their "
        "own, the provider's, or the node's",
        attachment="none",
        bootstrap="pod",
        devices=(
            DeviceResource(
                name="{resource}",
                scope="nic",
                per_pod=1,
                per_node=0,
                source=f"`nvidia.com/rdma-vf: 16` of {_OKE}/kueue/virtual-functions; {_COREWEAVE}",
            ),
        ),
        capabilities=(IPC_LOCK,),
        hcas=True,
        source=f"{_OKE}/kueue/virtual-functions; {_COREWEAVE}",
    )

    mode: Literal["provider-native"]
    resource: Resource
    network: NetworkName | None = None
    devices: Positive | None = None
    per_pod: Positive | None = None
    hcas: tuple[Hca, ...] | None = Field(default=None, min_length=1)
    hcas_by_machine: dict[str, tuple[Hca, ...]] = Field(default_factory=dict)
    host_network: bool = False

    def device_names(self, device: DeviceResource) -> tuple[str, ...]:  # noqa: ARG002 - the one
        """Return the provider's one resource."""
        return (self.resource,)

    def pod_devices(self, nics: int) -> dict[str, int]:
        """Return what every pod requests: the stack's number, or one per NIC."""
        return {self.resource: self.per_pod or nics}

    def per_node(self, device: DeviceResource, machine: Machine) -> int:  # noqa: ARG002
        """Return the stack's number, or one for each NIC."""
        return self.devices or len(machine.nics)

    @property
    def attachment(self) -> Literal["multus", "gke", "claim", "none"]:
        """Multus for the provider's network; none without one."""
        return "none" if self.network is None else "multus"

    @property
    def networks_namespace(self) -> str | None:
        """The namespace of the provider's network, if there is one."""
        return self.network.partition("/")[0] if self.network else None

    def attached(self, nics: int) -> tuple[RailInterface, ...]:
        """Return one interface for each device of the pod: the same network again and again."""
        if self.network is None:
            return ()
        namespace, _, name = self.network.partition("/")
        return tuple(
            RailInterface(network=name, rail=at, interface=f"net{at + 1}", namespace=namespace)
            for at in range(self.per_pod or nics)
        )

    def nccl_hcas(self, machine: Machine) -> tuple[str, ...]:
        """Return the list, if a pod sees the devices of its whole node."""
        given = self.hcas_by_machine.get(machine.name) or self.hcas
        return given or (machine.hcas if self._sees_all else ())

    @property
    def _sees_all(self) -> bool:
        return self.host_network or self.per_pod is not None

    @property
    def node_network(self) -> str | None:
        """The reason that pods use the node's network namespace, if they do."""
        return "the provider's NICs have addresses on the node alone" if self.host_network else None

    @property
    def whole_nodes(self) -> bool:
        """True in the node's network namespace, where two pods would take each other's ports."""
        return self.host_network

    def checks(self) -> tuple[Check, ...]:
        """Return the checks: devices for each pod, and names for the devices that it sees."""
        return (self._devices, self._names, self._moved)

    def _devices(self, site: FabricSite) -> Iterator[Problem]:
        for pool in site.pools:
            have, nics = self.devices or len(pool.machine.nics), len(pool.machine.nics)
            asked = self.per_pod or nics
            if asked > have:
                field = "per_pod" if self.per_pod else "devices"
                yield (
                    f"fabric.{field}",
                    f"a pod asks for {asked} {self.resource!r} of the {have} of a "
                    f"{pool.machine.name!r} (pools[{pool.index}]): it would never start; "
                    "allowed: as many as a node has",
                )

    def _moved(self, _: FabricSite) -> Iterator[Problem]:
        """Yield a problem unless the provider's network, if it needs one, moves the devices."""
        if self.network is not None and self.host_network:
            yield "fabric.network", "cannot be with host_network: Multus leaves such pods alone"
        elif self.network is None and self.resource == _OKE_FUNCTIONS:
            yield (
                "fabric.network",
                f"is missing: {_OKE_FUNCTIONS!r} only reserves OKE's functions, and its network "
                "moves them into the pod with their addresses; say default/rdma-vf",
            )

    def _names(self, site: FabricSite) -> Iterator[Problem]:
        if self._sees_all or self.hcas is not None or self.hcas_by_machine:
            yield from listed_hcas(self.hcas, self.hcas_by_machine, site)


CONFIG = ProviderFabric
