"""The expectation of a pool's nodes; the stack derives it, the node reads it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface of the node for a rail; ``mtu`` is the least, in bytes.

    ``others`` are names that it has on other machines of the stack: of all, one must be there.
    """

    name: str
    mtu: int = 0
    others: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Qos:
    """Lossless Ethernet: the priority that carries RoCE has PFC and, if required, ECN.

    ``trust_dscp``: packets are sorted by their DSCP, as routed RoCE v2 needs. ``dscp`` is the DSCP
    of NCCL's packets, which must be sorted into this priority; None accepts any that is.
    """

    priority: int
    trust_dscp: bool = True
    dscp: int | None = None
    ecn: bool = True


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A vendor's NCCL plugin, as its installer leaves it on a node.

    Args:
        name: of the file below ``railhead/`` into which the installer writes its version.
        version: the content of that file; None if the stack does not install the plugin.
        libraries: files that must exist below the node's directory of plugins.
        apertures: how many NICs' apertures must be bound below /dev/aperture_devices.
        devices: files that must exist in /dev, for the plugin's daemon.
        driver: the branch of NVIDIA's driver that this version needs; None for any.
    """

    name: str
    version: str | None
    libraries: tuple[str, ...] = ()
    apertures: int = 0
    devices: tuple[str, ...] = ()
    driver: str | None = None


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """The properties that a node must prove.

    Args:
        fabric: its name, for messages.
        nics: how many RDMA devices must pass, if neither names nor interfaces are given.
        devices: names of RDMA devices that must all pass; empty if names are not known.
        interfaces: network interfaces that must be up; the RDMA devices behind them must pass.
        driver: the driver of the RDMA devices (``efa``); None for any.
        link_layer: of their ports, ``InfiniBand`` or ``Ethernet``; None is not checked.
        rate_gbps: the least rate of each port, in Gbit/s; 0 is not checked.
        verbs: whether RDMA devices are expected at all, with their files below /dev/infiniband.
        gpudirect: ``any`` of DMA-BUF and nvidia-peermem, one of them by name, or None.
        qos: the settings of lossless Ethernet, or None.
        resources: extended resources that the node must offer, with the least count of each.
        movable: whether NICs move into pods, so that a missing one may just be in use.
        rdma_netns: whether RDMA devices are ``shared`` among network namespaces or ``exclusive``
            to one; None is not checked.
        pcie: whether PCIe links are checked: a hypervisor's guest does not see the machine's own.
        iommu: whether NICs must not be behind an IOMMU that translates.
        plugin: the NCCL plugin that must be on the node, or None.
        lustre_efa: how many EFA devices must carry Lustre; 0 is not checked.
        lasting_tokens: whether tokens of pods must outlive the hour, as Multus keeps its first.
    """

    fabric: str
    nics: int = 0
    devices: tuple[str, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    driver: str | None = None
    link_layer: str | None = None
    rate_gbps: int = 0
    verbs: bool = False
    gpudirect: str | None = None
    qos: Qos | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    movable: bool = False
    rdma_netns: str | None = None
    pcie: bool = False
    iommu: bool = False
    plugin: Plugin | None = None
    lustre_efa: int = 0
    lasting_tokens: bool = False

    def to_json(self) -> str:
        """Return the canonical text, so that an unchanged expectation changes no object."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Expectation:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: it is something else.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            data["interfaces"] = tuple(
                Interface(**(i | {"others": tuple(i.get("others", ()))}))
                for i in data.get("interfaces", ())
            )
            data["devices"] = tuple(data.get("devices", ()))
            if plugin := data.get("plugin"):
                lists = {key: tuple(plugin.get(key, ())) for key in ("libraries", "devices")}
                data["plugin"] = Plugin(**(plugin | lists))
            data["qos"] = Qos(**data["qos"]) if data.get("qos") else None
            return cls(**data)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not a gate's expectation: {error}") from None
