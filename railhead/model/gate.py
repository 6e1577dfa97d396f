"""The node gate in a stack's file: what nodes must prove, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.base.fields import ImageReference, Model
from railhead.machines.machine import Machine

# By default a NIC that trusts DSCP sorts 24 to 31 into priority 3, and NVIDIA's RoCE recipes send
# with 26: their traffic class is 106.
_DSCP = 26


class GateConfig(Model):
    """The gate: what nodes must prove before jobs are placed on them.

    Devices, links, rates and resources follow from instance type and fabric; this is what only the
    site knows. ``image`` is any image with Python 3.10 or newer, None the catalogue's.
    ``gpudirect``: which way NICs must reach GPU memory, ``any`` of them, or ``none``. With
    ``lossless`` on RoCE, ``priority`` carries it and must have PFC; ``trust_dscp`` and ``ecn`` say
    what else is demanded of the NIC (``ecn`` can be read with DOCA-OFED's driver only). None for
    ``lossless`` demands it of metal, and not where a provider owns NICs and switches. ``dscp`` is
    what NCCL's packets carry, by NCCL_IB_TC, and what the NIC must sort into ``priority``; None
    takes 26 where the fabric is lossless. ``pcie``: whether metal proves its PCIe links and an
    IOMMU that does not translate. ``period_seconds`` is the time between two checks.

    ``enabled`` false places jobs on nodes that proved nothing.
    """

    enabled: bool = True
    image: ImageReference | None = None
    period_seconds: Annotated[int, Field(strict=True, ge=1, le=3600)] = 30
    gpudirect: Literal["any", "dmabuf", "peermem", "none"] = "any"
    lossless: bool | None = None
    priority: Annotated[int, Field(strict=True, ge=0, le=7)] = 3
    trust_dscp: bool = True
    ecn: bool = True
    dscp: Annotated[int, Field(strict=True, ge=0, le=63)] | None = None
    pcie: bool = True

    def demands_lossless(self, machine: Machine) -> bool:
        """Return whether the Ethernet of a machine must be lossless."""
        return machine.provider == "metal" if self.lossless is None else self.lossless

    def traffic_class(self, machine: Machine) -> int | None:
        """Return the traffic class of NCCL's packets, by NCCL_IB_TC; None leaves it at 0.

        The DSCP and, below it, ECT(0): without it switches drop instead of marking.
        """
        lossless = self.demands_lossless(machine)
        dscp = _DSCP if self.dscp is None and lossless else self.dscp
        return None if dscp is None else dscp * 4 + 2
