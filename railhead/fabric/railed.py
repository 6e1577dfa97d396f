"""Modes whose rails are Multus networks: their rails and addresses, and checks of them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from railhead.base.fields import (
    AbsolutePath,
    Interface,
    IpAddress,
    IpNetwork,
    Model,
    Name,
    Positive,
    Variable,
    matching,
    problem,
)
from railhead.base.sections import each, knowing, known, told
from railhead.catalog.parts import Capability, DeviceResource
from railhead.fabric.kinds import FABRICS
from railhead.fabric.mode import (
    BaseFabric,
    Hca,
    NicOperator,
    RailInterface,
    Resource,
)
from railhead.fabric.site import Check, FabricSite, Network, Problem, SitePool
from railhead.machines.machine import Machine

ShortResource = Annotated[
    str, matching(r"^[a-z0-9_]+$", "a resource's name without prefix, such as 'rail_0'")
]
# What follows the slash of a resource; the RDMA shared device plugin ends at any other (v1.5.3,
# pkg/resources/resources_manager.go, validResourceName).
_SHARED = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_]*[A-Za-z0-9])?")
NodeName = Annotated[
    str,
    matching(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "a node's name, such as 'gpu-12'", longest=253),
]
Mtu = Annotated[int, Field(strict=True, ge=576, le=9216)]
# Names that rdma-core gives to RDMA devices, and that no interface has.
_DEVICE = re.compile(r"(mlx[45]|bnxt_re|irdma|rdmap)_?[0-9]+.*")
# Linux's usual names of VLANs and bonds, and the kernel's of partitions (``ib0.8001``).
_UPPER = re.compile(r".+\.[0-9a-f]{1,4}|(bond|team|vlan)[-_]?[0-9]+")
# The prefix that the SR-IOV device plugin puts before the resources that policies name.
DEVICE_PREFIX = "nvidia.com"
OPERATOR = "NVIDIA network operator documentation, 26.4: "

IPC_LOCK = Capability(
    name="IPC_LOCK",
    reason="registering memory with the HCA pins it, and a pod cannot raise its memlock "
    "limit; not needed where the container runtime's limit is infinite",
    source="what published RoCE and InfiniBand manifests add, such as Azure's MPIJob chart",
)


def one_a_rail(source: str) -> DeviceResource:
    """Return a device with one resource per rail."""
    return DeviceResource(name="{resource}", scope="rail", per_pod=1, per_node=0, source=source)


class Addresses(Model):
    """A rail's name and the addresses that pods get on it.

    ``range_start`` and ``range_end`` keep pods off the addresses that nodes use in ``subnet``.
    ``gateway`` is the rail's router if rails are routed; traffic that leaves the rail's subnet then
    goes through it, from the rail's own address only. ``node_prefixes`` is node -> its part of the
    subnet, with nv-ipam's pool ``prefix``, if the switches' ports have these already; a node that
    is not listed gets a free part.
    """

    name: Name
    subnet: IpNetwork | None
    range_start: IpAddress | None = None
    range_end: IpAddress | None = None
    gateway: IpAddress | None = None
    node_prefixes: dict[NodeName, IpNetwork] = Field(default_factory=dict)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The nodes' interfaces of the rail."""
        return ()


class Rail(Addresses):
    """One rail on the nodes' interface ``master``."""

    subnet: IpNetwork
    master: Interface

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The nodes' interface of the rail."""
        return (self.master,)


class NicRail(Addresses):
    """One rail on the NIC of the nodes' interfaces ``pf_names``, or on its virtual functions.

    ``pf_names`` has the name of the rail's NIC on each kind of machine; a node must have one of
    them.
    ``resource`` is the short name under which the SR-IOV device plugin advertises them; None
    derives it from the rail's name. Verbs need no address on InfiniBand; ``subnet`` gives the
    interface one.
    """

    subnet: IpNetwork | None = None
    pf_names: tuple[Interface, ...] = Field(min_length=1)
    resource: ShortResource | None = None

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The nodes' interfaces of the rail."""
        return self.pf_names

    @property
    def short_resource(self) -> str:
        """The SR-IOV device plugin's name of the rail, without prefix."""
        return self.resource or self.name.replace("-", "_")


class FunctionRail(NicRail):
    """One rail on virtual functions; Ethernet needs addresses."""

    subnet: IpNetwork


class HostLocalIpam(Model):
    """The host-local CNI plugin. ``data_dir`` must be shared by the nodes, or leases collide."""

    kind: Literal["host-local"]
    data_dir: AbsolutePath


class NvIpam(Model):
    """NVIDIA's nv-ipam, which the network operator installs: each node gets a block of a rail.

    ``pool`` is ``block`` for rails that are one broadcast domain (IPPool), ``prefix`` for rails
    that are routed, with a subnet per node (CIDRPool). ``per_node`` is how many addresses a node
    gets; None takes twice what its pods can use at once, since pods of a new gang may start before
    those of the last one have given their addresses back.
    """

    kind: Literal["nv-ipam"]
    pool: Literal["block", "prefix"] = "block"
    per_node: Positive | None = None

    def addresses(self, pods: int) -> int:
        """Return the number of pod addresses of a node that runs ``pods`` at once."""
        return self.per_node or 2 * pods

    def part(self, pods: int) -> int:
        """Return the number of addresses in a node's part of a rail, before a gateway's."""
        each = self.addresses(pods)
        return each if self.pool == "block" else 1 << (each + 2).bit_length()

    def prefix_length(self, network: Network, pods: int) -> int:
        """Return the prefix length of a node's part: addresses, network, gateway, broadcast."""
        return network.max_prefixlen - (self.addresses(pods) + 2).bit_length()


Ipam = Annotated[HostLocalIpam | NvIpam, Field(discriminator="kind")]


def _may_hold_services(entry: str) -> bool:
    """Return whether an entry of ``no_proxy`` may hold a service's address, as Go reads it.

    It takes an address with a port, too (golang.org/x/net v0.58.0, http/httpproxy, config.init).
    """
    text = entry.strip()
    if text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return not ipaddress.ip_network(text, strict=False).is_loopback
    except ValueError:
        return text == "*"


class OfedConfig(Model):
    """The NIC's driver, DOCA-OFED, in a container; absent if the host has its own.

    ``upgrade`` is ``manual``: a new version reaches a node only when an administrator starts it,
    since an upgrade unloads the driver under every job there. ``rolling`` upgrades node by node,
    and waits for training pods to end before it touches a node. ``safe_load`` also cordons and
    drains a node before the driver is loaded after a boot; only with ``rolling``
    (nicpolicy_webhook.go). ``environment`` is the container's, such as ``UNLOAD_STORAGE_MODULES``:
    without it, a node whose own modules use the driver's cannot load the container's
    (docs/mofed-container-env-vars.md, 26.4.1).

    ``version`` is the driver container's version; None takes the catalogue's.
    """

    version: str | None = Field(default=None, min_length=1)
    upgrade: Literal["manual", "rolling"] = "manual"
    safe_load: bool = False
    environment: dict[Variable, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _loads_safely_by_itself(self) -> OfedConfig:
        if self.safe_load and self.upgrade != "rolling":
            raise problem("safe_load needs upgrade 'rolling'")
        return self

    @model_validator(mode="after")
    def _reaches_the_api_server(self) -> OfedConfig:
        """Refuse a proxy between the driver's init container and the API server.

        It has the driver's variables since 26.4.0, and asks the API server at each start
        (network-operator v26.4.1, manifests/state-ofed-driver).
        """
        given = {name.lower(): value for name, value in self.environment.items()}
        spared = given.get("no_proxy", "").split(",")
        if "https_proxy" in given and not any(map(_may_hold_services, spared)):
            raise problem(
                "environment has https_proxy, by which the driver's init container would ask the "
                "API server, and no driver would load: give no_proxy the addresses of the "
                "cluster's services, such as '10.96.0.0/12'; see `kubectl get service kubernetes`"
            )
        return self


class NetworkOperatorConfig(NicOperator):
    """NVIDIA's network operator, installed by the stack; absent if the cluster has its parts.

    ``nfd``: with ``operator`` it labels the nodes, which its own policy and the GPU operator's
    both wait for; with ``existing`` the cluster has Node Feature Discovery already. Exactly one
    must run: beside this operator the GPU operator never brings its own.
    """

    ofed: OfedConfig | None = None

    @property
    def loads_driver(self) -> bool:
        """True if it loads the NICs' driver."""
        return self.ofed is not None


class RailedFabric(BaseFabric):
    """The fields of every mode with Multus networks.

    ``mtu`` is in bytes; None takes the catalogue's for the machine. ``cluster_ranges`` are the
    cluster's own networks, nodes, pods and services, which no rail may overlap; on a cloud they are
    read from the platform, in the lab they are known. ``pods_per_node`` is how many training pods a
    node may run at once; None takes one per GPU. ``bootstrap``: whether NCCL's bootstrap and gloo
    use the rails or the pod network; None takes the mode's, or the pod network if rails are routed.
    """

    mtu: Mtu | None = None
    cluster_ranges: tuple[IpNetwork, ...] = ()
    pods_per_node: Positive | None = None
    bootstrap: Literal["pod", "rails"] | None = None
    network_operator: NetworkOperatorConfig | None = None

    # Each mode has its own kind of rail, and says whether it can do without addresses.
    rails: tuple[Any, ...] = ()
    ipam: Ipam | None = None

    @property
    def lanes(self) -> Sequence[Addresses]:
        """The rails, typed as the base of all kinds of rails."""
        return self.rails

    @property
    def nic_operator(self) -> NicOperator | None:
        """NVIDIA's network operator, if the stack installs it."""
        return self.network_operator

    @property
    def brings_multus(self) -> bool:
        """True if the stack installs the network operator, and pods get networks."""
        return self.network_operator is not None and bool(self.rails)

    @property
    def node_mtu(self) -> int | None:
        """The MTU of the rails in bytes: the stack's, or that of the fabric's row."""
        return self.mtu or FABRICS[self.kind].mtu

    @property
    def gid_family(self) -> str:
        """``AF_INET6`` on rails of IPv6: by default NCCL looks for a GID of IPv4."""
        versions = {ipaddress.ip_network(r.subnet).version for r in self.lanes if r.subnet}
        return "AF_INET6" if versions == {6} else ""

    @property
    def cross_nic(self) -> str:
        """``0`` unless every rail has a router: a pod's only way to the addresses of another.

        Empty on InfiniBand, where ports of one subnet reach each other by LID, whatever their
        addresses.
        """
        apart = any(rail.subnet and not rail.gateway for rail in self.lanes)
        lids = FABRICS[self.kind].link_layer == "InfiniBand"
        return "0" if apart and len(self.lanes) > 1 and not lids else ""

    @property
    def flat(self) -> bool:
        """True if every rail has addresses that reach each other without a router."""
        return bool(self.rails) and all(rail.subnet and not rail.gateway for rail in self.lanes)

    def addons(self) -> tuple[str, ...]:
        """Return the network operator, if the stack installs it."""
        return ("network-operator",) if self.network_operator is not None else ()

    def rail_interfaces(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of each rail's interface: one, or several where machines differ."""
        return tuple(rail.interfaces for rail in self.lanes)

    def pod_rails(self) -> tuple[RailInterface, ...]:
        """Return one interface per rail, from ``net1`` on."""
        return tuple(
            RailInterface(
                network=rail.name,
                rail=index,
                interface=f"net{index + 1}",
                namespace=self.networks_namespace,
            )
            for index, rail in enumerate(self.lanes)
        )

    def bootstrap_interfaces(self) -> tuple[str, ...]:
        """Return the rails, or the pod network's interface.

        Unbound sockets cannot use a routed rail, whose routes are looked up by source address, nor
        a rail without addresses.
        """
        if (self.bootstrap or self.row.bootstrap) == "rails" and self.flat:
            return tuple(rail.interface for rail in self.pod_rails())
        return (self.pod_interface,)

    def pods_at_once(self, most: int) -> int:
        """Return the stack's number, or one pod per GPU."""
        return self.pods_per_node or most

    def taken_down_for(self, most_gpus: int) -> dict[str, Any]:
        """Return who loads the NICs' driver, and what nv-ipam cuts the nodes' parts by.

        A container's first start unloads the host's driver below every pod, on all nodes at once
        (doca-driver-build, entrypoint/internal/driver/driver.go: Load; the operator's DaemonSet).

        A changed size or subnet makes it drop every part and cut new ones, by sorted names, while
        pods still hold addresses of the old ones: two pods then have one address
        (nvidia-k8s-ipam v0.4.0, pkg/ipam-controller/allocator, checkAllocation).
        """
        result: dict[str, Any] = {}
        if (operator := self.network_operator) is not None:
            driver = "a container's" if operator.ofed else "the host's"
            result["NICs' driver (fabric.network_operator.ofed)"] = driver
        if isinstance(self.ipam, NvIpam):
            part = self.ipam.part(self.pods_at_once(most_gpus))
            result["fabric.ipam.pool"] = self.ipam.pool
            result["addresses of a node on each rail (fabric.ipam.per_node)"] = part
            result |= {
                f"subnet of rail {rail.name}": f"{rail.subnet}{' by a router' * bool(rail.gateway)}"
                for rail in self.lanes
                if rail.subnet is not None
            }
        return result

    def checks(self) -> tuple[Check, ...]:
        """Return the checks of rails and addresses."""
        return (
            self._rails,
            self._addresses,
            self._blocks,
            self._parts,
            self._overlaps,
            self._one_family,
            self._bootstrap,
            self._frames,
        )

    def _rails(self, site: FabricSite) -> Iterator[Problem]:
        """Yield a problem unless each rail has its own NIC, and addresses have an IPAM."""
        for field in ("name", "master"):
            seen: dict[str, str] = {}
            rails = [known(getattr, rail, field, None) for rail in self.rails]
            for path, value in each(rails, "fabric.rails"):
                if value is not None and seen.setdefault(value, path) != path:
                    yield f"{path}.{field}", f"{value!r} is there twice"
        taken: dict[str, str] = {}
        for path, rail in each(self.rails, "fabric.rails"):
            for name in known(getattr, rail, "pf_names", ()) or ():
                if taken.setdefault(name, path) != path:
                    yield f"{path}.pf_names", f"{name!r} is of {taken[name]} already"
            for name in known(lambda: rail.interfaces) or ():  # noqa: B023 - read at once
                if name == "lo" or _DEVICE.fullmatch(name):
                    yield (
                        path,
                        f"{name!r} is no network interface of a NIC; name it as `ip link` does, "
                        "which `ibdev2netdev` prints beside its RDMA device",
                    )
        yield from one_rail_a_nic(len(self.rails), site)
        if self.ipam is None and any(rail.subnet is not None for rail in self.lanes):
            yield "fabric.ipam", "is missing: the rails have subnets, and nothing hands them out"

    def _span(self, rail: Addresses, network: Network) -> tuple[int, int]:
        """Return the first and the last address for pods; empty if last is before first."""
        # host-local keeps the first address for a gateway; blocks begin after the network's own.
        start = int(network.network_address) + (1 if isinstance(self.ipam, NvIpam) else 2)
        low = int(ipaddress.ip_address(rail.range_start)) if rail.range_start else start
        last = int(network.broadcast_address) - 1
        return low, int(ipaddress.ip_address(rail.range_end)) if rail.range_end else last

    def _room(self, rail: Addresses, network: Network, pods: int) -> tuple[int, int]:
        """Return the number of addresses for pods, and how many of them one node takes."""
        low, high = self._span(rail, network)
        have = max(high - low + 1, 0)
        if not isinstance(self.ipam, NvIpam):
            return have, pods
        each = self.ipam.addresses(pods)
        if self.ipam.pool == "prefix":
            length = self.ipam.prefix_length(network, pods)
            return network.num_addresses, 1 << (network.max_prefixlen - length)
        return have, each + (1 if rail.gateway else 0)

    def _addresses(self, site: FabricSite) -> Iterator[Problem]:
        """Yield a problem unless each rail's range is in its subnet and fits every pod."""
        for path, rail in each(self.lanes, "fabric.rails"):
            yield from told(self._range, path, rail, site)

    def _range(self, path: str, rail: Addresses, site: FabricSite) -> Iterator[Problem]:
        if rail.subnet is None:
            return
        network = ipaddress.ip_network(rail.subnet)
        outside = False
        for field in ("range_start", "range_end", "gateway"):
            value = getattr(rail, field)
            if value and ipaddress.ip_address(value) not in network:
                outside = True
                yield f"{path}.{field}", f"{value!r} is not in subnet {rail.subnet!r}"
        if outside or not site.nodes:
            return
        low, high = self._span(rail, network)
        have, own = self._room(rail, network, self.pods_at_once(site.most_gpus))
        if high < low and rail.range_end:
            yield f"{path}.range_end", f"{rail.range_end!r} comes before the range's start"
        elif have < site.nodes * own:
            yield (
                f"{path}.subnet",
                f"{have} addresses for pods on {site.nodes} nodes, which need {site.nodes * own}: "
                f"{own} a node; widen it or its range, or lower fabric.pods_per_node",
            )

    def _blocks(self, _: FabricSite) -> Iterator[Problem]:
        """Yield what nv-ipam cannot do with a rail's range."""
        if isinstance(self.ipam, NvIpam):
            prefix = self.ipam.pool == "prefix"
            for path, rail in each(self.lanes, "fabric.rails"):
                yield from told(_uncuttable, path, rail, prefix=prefix)

    def _parts(self, site: FabricSite) -> Iterator[Problem]:
        """Yield a problem unless nodes' own parts of a rail are as nv-ipam would cut them."""
        for path, rail in each(self.lanes, "fabric.rails"):
            yield from told(self._own_parts, f"{path}.node_prefixes", rail, site)

    def _own_parts(self, path: str, rail: Addresses, site: FabricSite) -> Iterator[Problem]:
        if not rail.node_prefixes or rail.subnet is None:
            return
        if not isinstance(self.ipam, NvIpam) or self.ipam.pool != "prefix":
            yield path, "needs ipam {kind: nv-ipam, pool: prefix}: else nodes have no parts"
            return
        subnet, taken = ipaddress.ip_network(rail.subnet), dict[Network, str]()
        length = self.ipam.prefix_length(subnet, self.pods_at_once(site.most_gpus))
        for node, text in rail.node_prefixes.items():
            part = ipaddress.ip_network(text)
            if part.version != subnet.version or not subnet.supernet_of(part):  # type: ignore[arg-type]
                yield f"{path}.{node}", f"{text!r} is not in subnet {rail.subnet!r}"
            elif part.prefixlen != length:
                yield (
                    f"{path}.{node}",
                    f"{text!r} is not a /{length}, which is what a node gets; "
                    "fabric.ipam.per_node says how large that is",
                )
            elif part in taken:
                yield f"{path}.{node}", f"{text!r} is {taken[part]!r}'s already"
            taken[part] = node

    def _frames(self, site: FabricSite) -> Iterator[Problem]:
        """Yield a problem if the MTU is larger than a provider's own interfaces allow."""
        for pool in site.pools:
            most = pool.machine.rail_mtu
            if self.rails and most is not None and (self.node_mtu or 0) > most:
                yield (
                    "fabric.mtu",
                    f"{self.node_mtu} is more than the {most} of the interfaces of "
                    f"{pool.machine.name!r} (pools[{pool.index}]); say {most}",
                )

    def _overlaps(self, site: FabricSite) -> Iterator[Problem]:
        ranges = knowing(self.cluster_ranges, "fabric.cluster_ranges", ipaddress.ip_network)
        taken = [*site.networks, *((path, network) for path, _, network in ranges)]
        subnets = knowing(self.lanes, "fabric.rails", lambda rail: rail.subnet)
        railed = [(path, subnet) for path, _, subnet in subnets if subnet is not None]
        for path, subnet in railed:
            network = ipaddress.ip_network(subnet)
            for where, other in taken:
                if network.version == other.version and network.overlaps(other):
                    yield (
                        f"{path}.subnet",
                        f"{str(network)!r} overlaps {str(other)!r} of {where}; packets for one "
                        "would leave by the other",
                    )
            taken.append((path, network))
        if railed and not site.knows_networks and not self.cluster_ranges:
            yield (
                "fabric.cluster_ranges",
                "is missing: list the networks of the cluster's nodes, pods and services, so that "
                "no rail is given an address of theirs",
            )

    def _one_family(self, _: FabricSite) -> Iterator[Problem]:
        """Yield rails whose addresses, and so GIDs, are of another family than the first's."""
        if self.kind != "roce":
            return
        subnets = knowing(self.lanes, "fabric.rails", lambda rail: rail.subnet)
        railed = [(path, ipaddress.ip_network(subnet)) for path, _, subnet in subnets if subnet]
        for path, network in railed[1:]:
            if network.version != railed[0][1].version:
                yield (
                    f"{path}.subnet",
                    f"{str(network)!r} is IPv{network.version} and {str(railed[0][1])!r} is not: "
                    "NCCL looks for GIDs of one family on all rails",
                )

    def _bootstrap(self, _: FabricSite) -> Iterator[Problem]:
        if self.pod_interface in [rail.interface for rail in self.pod_rails()]:
            yield (
                "fabric.pod_interface",
                f"{self.pod_interface!r} is a rail's; the pod network's is another, mostly eth0",
            )
        if self.bootstrap != "rails":
            return
        for index, rail in enumerate(self.lanes):
            if rail.gateway is not None:
                yield (
                    "fabric.bootstrap",
                    f"'rails' cannot be with fabric.rails[{index}].gateway: NCCL's sockets are not "
                    "bound to an address, and on a routed rail only those find their way; use "
                    "'pod'",
                )
                return
            if rail.subnet is None:
                yield (
                    "fabric.bootstrap",
                    f"'rails' needs addresses, and fabric.rails[{index}] has no subnet; use 'pod'",
                )
                return


def _uncuttable(path: str, rail: Addresses, *, prefix: bool) -> Iterator[Problem]:
    if rail.range_start is not None:
        yield (
            f"{path}.range_start",
            "cannot be with nv-ipam, which cuts the nodes' blocks from the subnet's start: a block "
            "before it would be empty; keep the nodes' own addresses at the end, after range_end",
        )
    if prefix and rail.range_end is not None:
        yield f"{path}.range_end", "cannot be with pool 'prefix': every node gets a whole part"
    if prefix and rail.gateway is not None:
        yield f"{path}.gateway", "cannot be with pool 'prefix': each part has its own, its first"


def one_rail_a_nic(rails: int, site: FabricSite) -> Iterator[Problem]:
    """Yield a problem unless there are as many rails as NICs, except on a stand-in."""
    for pool in site.pools:
        nics = len(pool.machine.nics)
        if rails and rails != nics and not pool.machine.stand_in:
            yield (
                "fabric.rails",
                f"{rails} rails for the {nics} NICs of {pool.machine.name!r} "
                f"(pools[{pool.index}]); there is one rail a NIC",
            )


class SharedDevices(RailedFabric):
    """Pods that open the node's own HCAs, through the RDMA shared device plugin.

    ``resource`` is what the plugin advertises, ``shares`` how many pods of a node may hold one.
    ``hcas`` are the node's RDMA devices of this fabric, which pods see among all others; None
    takes the catalogue's. ``hcas_by_machine`` is instance type -> those of such nodes, where they
    differ from ``hcas``.
    """

    resource: Resource = "rdma/rdma_shared_device_a"
    shares: Positive = 63
    hcas: tuple[Hca, ...] | None = Field(default=None, min_length=1)
    hcas_by_machine: dict[str, tuple[Hca, ...]] = Field(default_factory=dict)

    def device_names(self, device: DeviceResource) -> tuple[str, ...]:  # noqa: ARG002 - the one
        """Return the plugin's one resource."""
        return (self.resource,)

    @property
    def rdma_netns(self) -> str | None:
        """``shared``: pods use the node's own devices, which exclusive namespaces would hide."""
        return "shared"

    def per_node(self, device: DeviceResource, machine: Machine) -> int:  # noqa: ARG002
        """Return the stack's number of shares."""
        return self.shares

    def nccl_hcas(self, machine: Machine) -> tuple[str, ...]:
        """Return the stack's list, or the catalogue's."""
        return self.hcas_by_machine.get(machine.name) or self.hcas or machine.hcas

    def checks(self) -> tuple[Check, ...]:
        """Return the checks: names of resource and NICs, an HCA per NIC, shares for every pod."""
        return (*super().checks(), self._advertised, self._listed, self._shares, self._of_nics)

    def _of_nics(self, _: FabricSite) -> Iterator[Problem]:
        """Yield rails on a VLAN, bond or partition, whose interface the plugin does not know.

        It knows those below a PCI device alone (k8s-rdma-shared-dev-plugin v1.5.3, pkg/utils,
        GetNetNames).
        """
        for path, rail in each(self.rails if self.network_operator else (), "fabric.rails"):
            master = known(getattr, rail, "master", "") or ""
            if _UPPER.fullmatch(master):
                yield (
                    f"{path}.master",
                    f"{master!r} is a VLAN, a partition or a bond: nodes would offer no device, "
                    "and no pod start; name the NIC's own interface, whose switch port has that "
                    "VLAN untagged, or the subnet manager that partition at its first index. "
                    "Bonds need a plugin of yours, by their ports' names, and no network_operator",
                )

    def _advertised(self, _: FabricSite) -> Iterator[Problem]:
        """Yield a name that the plugin does not take, if the stack brings the plugin."""
        if self.network_operator and not _SHARED.fullmatch(self.resource.partition("/")[2]):
            yield (
                "fabric.resource",
                f"{self.resource!r}: the RDMA shared device plugin takes letters, digits and "
                "underscores after the slash, as in 'rdma/rdma_shared_device_a'",
            )

    def _listed(self, site: FabricSite) -> Iterator[Problem]:
        yield from listed_hcas(self.hcas, self.hcas_by_machine, site)

    def _shares(self, _: FabricSite) -> Iterator[Problem]:
        if self.pods_per_node is not None and self.pods_per_node > self.shares:
            yield (
                "fabric.pods_per_node",
                f"{self.pods_per_node} is more than the {self.shares} of fabric.shares",
            )


def listed_hcas(
    common: tuple[str, ...] | None, by_machine: Mapping[str, tuple[str, ...]], site: FabricSite
) -> Iterator[Problem]:
    """Yield a problem unless the fabric's RDMA devices are named, as pods see all of a node."""
    lists = {"fabric.hcas": common or ()}
    lists |= {f"fabric.hcas_by_machine.{name}": names for name, names in by_machine.items()}
    for path, names in lists.items():
        for index, name in enumerate(names):
            if name in names[:index]:
                yield f"{path}[{index}]", f"{name!r} is there twice"
    machines = {pool.machine.name for pool in site.pools}
    for name in by_machine:
        if machines and name not in machines:
            yield (
                f"fabric.hcas_by_machine.{name}",
                f"{name!r} is no instance type of a pool; these are: {', '.join(sorted(machines))}",
            )
    for pool in site.pools:
        given = by_machine.get(pool.machine.name, common)
        if given is not None:
            if len(given) != len(pool.machine.nics):
                own = pool.machine.name in by_machine
                path = f"fabric.hcas_by_machine.{pool.machine.name}" if own else "fabric.hcas"
                yield path, _miscounted(given, pool)
        # A lab's bridge has no rate and no device.
        elif any(nic.rate_gbps for nic in pool.machine.nics) and not pool.machine.hcas:
            yield (
                "fabric.hcas",
                f"is missing: pods see every RDMA device of the node, and the catalogue has no "
                f"names for {pool.machine.name!r} (pools[{pool.index}]); list its "
                f"{len(pool.machine.nics)}, as `ibv_devices` prints them on a node",
            )


def _miscounted(given: tuple[str, ...], pool: SitePool) -> str:
    return (
        f"{len(given)} HCAs for the {len(pool.machine.nics)} NICs of {pool.machine.name!r} "
        f"(pools[{pool.index}]); list each NIC of the training fabric, and no other"
    )


def shared_device() -> DeviceResource:
    """Return a share of the RDMA shared device plugin, which opens every HCA behind it."""
    return DeviceResource(
        name="{resource}",
        per_pod=1,
        per_node=63,
        source="RDMA shared device plugin: name and rdmaHcaMax 63 of NVIDIA network operator's "
        "sample NicClusterPolicy; one share opens every HCA behind it",
    )


class RailDevices(RailedFabric):
    """Pods that get a device of each rail's NIC from the SR-IOV device plugin."""

    def device_names(self, device: DeviceResource) -> tuple[str, ...]:  # noqa: ARG002 - one a rail
        """Return one resource per rail."""
        return tuple(f"{DEVICE_PREFIX}/{rail.short_resource}" for rail in self.rails)

    def checks(self) -> tuple[Check, ...]:
        """Return the checks, one of which is that each rail has a resource of its own."""
        return (*super().checks(), self._apart)

    def _apart(self, _: FabricSite) -> Iterator[Problem]:
        """Yield a problem if two rails share a resource: a pod requests it once for both."""
        taken: dict[str, str] = {}
        for path, rail in each(self.rails, "fabric.rails"):
            name = known(getattr, rail, "short_resource", None)
            if name is not None and taken.setdefault(name, path) != path:
                yield f"{path}.resource", f"{name!r} is of {taken[name]} already"
