"""The training fabric in a stack's file: one model a mode, told apart by ``fabric.mode``.

``kind`` names the fabric, ``mode`` how it enters pods; both are rows of
:mod:`railhead.fabric.rows`. What spans several fields is in
:mod:`railhead.fabric.checks`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.base.fields import (
    AbsolutePath,
    Interface,
    IpAddress,
    IpNetwork,
    Model,
    Name,
    Positive,
    Variable,
    catalogue,
    matching,
)
from railhead.fabric.rows import FABRICS

Resource = Annotated[
    str,
    matching(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "an extended resource's name, such as 'rdma/rdma_shared_device_a'",
        longest=316,
    ),
]
ShortResource = Annotated[
    str, matching(r"^[a-z0-9_]+$", "a resource's name without prefix, such as 'rail_0'")
]
Hca = Annotated[str, matching(r"^[A-Za-z][A-Za-z0-9_]*$", "an RDMA device, such as 'mlx5_0'")]
Mtu = Annotated[int, Field(strict=True, ge=576, le=9216)]


class _Addresses(Model):
    """A rail's name and the addresses that pods get on it.

    ``range_start`` and ``range_end`` keep pods off the addresses that nodes use in ``subnet``.
    ``gateway`` is the rail's router where rails are routed; the pods' routes on the rail then go by
    it, from the rail's own address only.
    """

    name: Name
    subnet: IpNetwork
    range_start: IpAddress | None = None
    range_end: IpAddress | None = None
    gateway: IpAddress | None = None


class Rail(_Addresses):
    """One rail on the nodes' interface ``master``."""

    master: Interface


class FunctionRail(_Addresses):
    """One rail on virtual functions of the nodes' interfaces ``pf_names``.

    ``resource`` is the short name that the SR-IOV device plugin advertises them by; None derives it
    from the rail's name.
    """

    pf_names: tuple[Interface, ...] = Field(min_length=1)
    resource: ShortResource | None = None


class IbFunctionRail(Model):
    """One rail on virtual functions of the nodes' InfiniBand interfaces ``pf_names``.

    Verbs need no address on InfiniBand; ``subnet`` gives the interface one for IPoIB traffic.
    """

    name: Name
    pf_names: tuple[Interface, ...] = Field(min_length=1)
    resource: ShortResource | None = None
    subnet: IpNetwork | None = None
    range_start: IpAddress | None = None
    range_end: IpAddress | None = None
    gateway: IpAddress | None = None


class DeviceRail(IbFunctionRail):
    """One rail whose whole NIC, the nodes' interface ``pf_names``, moves into the pod."""


class HostLocalIpam(Model):
    """The host-local CNI plugin. ``data_dir`` must be shared by the nodes, or leases collide."""

    kind: Literal["host-local"]
    data_dir: AbsolutePath


class NvIpam(Model):
    """NVIDIA's nv-ipam, which the network operator installs: each node gets a block of a rail.

    ``pool`` is ``block`` for rails that are one broadcast domain (IPPool), ``prefix`` for rails
    that are routed, with a subnet a node (CIDRPool). ``per_node`` is how many addresses a node
    gets; None takes what the pods of one node can use at once.
    """

    kind: Literal["nv-ipam"]
    pool: Literal["block", "prefix"] = "block"
    per_node: Positive | None = None


Ipam = Annotated[HostLocalIpam | NvIpam, Field(discriminator="kind")]


class OfedConfig(Model):
    """The NIC's driver, DOCA-OFED, in a container; absent where the host has its own.

    ``upgrade`` is ``manual``: a new version reaches a node only when somebody says so, since its
    upgrade unloads the driver below every job there. ``rolling`` upgrades node by node, and waits
    for training pods to end before it touches a node.
    """

    version: str | None = Field(default=None, min_length=1)
    upgrade: Literal["manual", "rolling"] = "manual"


class NetworkOperatorConfig(Model):
    """NVIDIA's network operator, installed by the stack; absent where the cluster has its parts.

    ``nfd``: ``operator`` where it labels the nodes, which its own policy and the GPU operator's
    both wait for, ``existing`` where the cluster has Node Feature Discovery already. Exactly one
    does: beside this operator the GPU operator never brings its own.
    """

    ofed: OfedConfig | None = None
    nfd: Literal["operator", "existing"] = "operator"


class BaseFabric(Model):
    """What every mode has.

    ``lock_memory`` adds the mode's capabilities (IPC_LOCK) to training containers; false only where
    nothing registers memory with a NIC, or the nodes' container runtime has no memlock limit.
    ``pod_interface`` is the pod network's interface inside a pod. ``environment`` is what this
    site's fabric needs beside the catalogue's, such as NCCL_IB_TC; it cannot change what the
    catalogue pins. ``topology_file`` is the path, inside the image, of NCCL's topology for machines
    whose hypervisor hides it.
    """

    kind: Annotated[str, catalogue(FABRICS, " of fabrics")]
    mode: str
    lock_memory: bool = True
    pod_interface: Interface = "eth0"
    environment: dict[Variable, str] = Field(default_factory=dict)
    topology_file: AbsolutePath | None = None


class _Railed(BaseFabric):
    """What every mode with Multus networks has.

    ``mtu`` is in bytes; None takes the catalogue's for the machine. ``cluster_ranges`` are the
    cluster's own networks, nodes, pods and services, which no rail may overlap; on a cloud they are
    read from the platform, in the lab they are known. ``pods_per_node`` is how many training pods a
    node may run at once; None takes one a GPU. ``bootstrap``: whether NCCL's bootstrap and gloo use
    the rails or the pod network; None takes the mode's, or the pod network where rails are routed.
    """

    mtu: Mtu | None = None
    cluster_ranges: tuple[IpNetwork, ...] = ()
    pods_per_node: Positive | None = None
    bootstrap: Literal["pod", "rails"] | None = None
    network_operator: NetworkOperatorConfig | None = None


class RdmaSharedFabric(_Railed):
    """The RDMA shared device plugin; on RoCE with a macvlan interface a rail.

    ``resource`` is what the plugin advertises, ``shares`` how many pods of a node may hold one.
    ``hcas`` are the node's RDMA devices of this fabric, which pods see beside all others; None
    takes the catalogue's.
    """

    mode: Literal["rdma-shared"]
    rails: tuple[Rail, ...] = ()
    ipam: Ipam | None = None
    resource: Resource = "rdma/rdma_shared_device_a"
    shares: Positive = 63
    hcas: tuple[Hca, ...] | None = Field(default=None, min_length=1)


class SriovConfig(Model):
    """How the SR-IOV operator prepares nodes.

    ``vfs`` is the number of virtual functions a NIC. ``drain``: whether the operator drains a node
    to change it; a training fleet is not drained by surprise, so nodes are changed before jobs
    come. ``max_unavailable`` is how many nodes it may change at once.
    """

    vfs: Annotated[int, Field(strict=True, ge=1, le=127)] = 1
    rdma_mode: Literal["exclusive", "shared"] = "exclusive"
    drain: bool = False
    max_unavailable: Positive = 1


class SriovRoceFabric(_Railed):
    """A virtual function of each rail's NIC in every pod."""

    mode: Literal["sriov-roce"]
    rails: tuple[FunctionRail, ...] = Field(min_length=1)
    ipam: Ipam
    sriov: SriovConfig = SriovConfig()


class SriovIbFabric(_Railed):
    """A virtual function of each rail's HCA in every pod."""

    mode: Literal["sriov-ib"]
    rails: tuple[IbFunctionRail, ...] = Field(min_length=1)
    ipam: Ipam | None = None
    sriov: SriovConfig = SriovConfig()


class HostDeviceFabric(_Railed):
    """The whole NIC of each rail in the one pod of a node.

    ``resources``: whether a device plugin hands the NICs out, which the network operator
    configures. False takes the interface by its name, for clusters without one, such as the lab.
    """

    mode: Literal["host-device"]
    rails: tuple[DeviceRail, ...] = Field(min_length=1)
    ipam: Ipam | None = None
    resources: bool = True


class IpoibFabric(_Railed):
    """The RDMA shared device plugin with an IPoIB interface a rail."""

    mode: Literal["ipoib"]
    rails: tuple[Rail, ...] = Field(min_length=1)
    ipam: Ipam
    resource: Resource = "rdma/rdma_shared_device_a"
    shares: Positive = 63
    hcas: tuple[Hca, ...] | None = Field(default=None, min_length=1)


class EfaFabric(BaseFabric):
    """AWS' Elastic Fabric Adapter.

    ``allocation``: ``device-plugin``, which works with every kind of node, or ``dra``, AWS' DRA
    driver, which AWS recommends for managed node groups from Kubernetes 1.34 on. Never both.
    """

    mode: Literal["efa"]
    allocation: Literal["device-plugin", "dra"] = "device-plugin"
    install: bool = True


class GkeRail(Model):
    """One of GKE's networks: the name of its Network object, and its interface in the pod."""

    network: Name
    interface: Interface


class _Gke(BaseFabric):
    """What GKE's multi-networking modes have.

    ``rails`` are the Network objects, in the order of the NICs; the platform makes them, or they
    are there. ``install``: whether the stack installs Google's plugin on the nodes.
    """

    rails: tuple[GkeRail, ...] = Field(min_length=1)
    install: bool = True


class GcpRdmaFabric(_Gke):
    """GPUDirect RDMA of A3 Ultra and A4, with gIB."""

    mode: Literal["gcp-rdma"]
    rails: tuple[GkeRail, ...] = tuple(
        GkeRail(network=f"rdma-{i}", interface=f"eth{i + 2}") for i in range(8)
    )


class TcpxoFabric(_Gke):
    """GPUDirect-TCPXO of A3 Mega."""

    mode: Literal["tcpxo"]
    rails: tuple[GkeRail, ...] = tuple(
        GkeRail(network=f"vpc{i}", interface=f"eth{i}") for i in range(1, 9)
    )


class TcpxFabric(_Gke):
    """GPUDirect-TCPX of A3 High."""

    mode: Literal["tcpx"]
    rails: tuple[GkeRail, ...] = tuple(
        GkeRail(network=f"vpc{i}", interface=f"eth{i}") for i in range(1, 5)
    )


class DranetFabric(BaseFabric):
    """NICs by ResourceClaim.

    ``driver``: ``managed`` is GKE's own DRANET; ``install`` brings the dranet driver; ``existing``
    finds it there. ``selector`` is a CEL expression that picks the NICs among the driver's devices;
    None takes every RDMA device. ``install``: whether the stack installs Google's plugin on the
    nodes, on a fabric that needs it.
    """

    mode: Literal["dranet"]
    driver: Literal["managed", "install", "existing"]
    install: bool = True
    selector: str | None = Field(default=None, min_length=1)


class NoFabric(BaseFabric):
    """No fabric beside the pod network."""

    mode: Literal["none"]


RailedFabric = RdmaSharedFabric | SriovRoceFabric | SriovIbFabric | HostDeviceFabric | IpoibFabric
GkeFabric = GcpRdmaFabric | TcpxoFabric | TcpxFabric
AnyRail = Rail | FunctionRail | IbFunctionRail | DeviceRail

FabricConfig = Annotated[
    RdmaSharedFabric
    | SriovRoceFabric
    | SriovIbFabric
    | HostDeviceFabric
    | IpoibFabric
    | EfaFabric
    | GcpRdmaFabric
    | TcpxoFabric
    | TcpxFabric
    | DranetFabric
    | NoFabric,
    Field(discriminator="mode"),
]
AnyFabric = RailedFabric | EfaFabric | GkeFabric | DranetFabric | NoFabric


def rails_of(fabric: AnyFabric) -> tuple[AnyRail, ...]:
    """The Multus rails of a fabric; none where it has no such networks."""
    return fabric.rails if isinstance(fabric, _Railed) else ()
