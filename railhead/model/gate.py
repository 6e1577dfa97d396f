"""The node gate in a stack's file: what nodes must prove, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.base.fields import Model


class GateConfig(Model):
    """What nodes prove before jobs are placed on them.

    Devices, links, rates and resources follow from instance type and fabric; this is what only the
    site knows. ``image`` is any image with Python 3.10 or newer, None the catalogue's.
    ``gpudirect``: which way NICs must reach GPU memory, ``any`` of them, or ``none``. With
    ``lossless`` on RoCE, ``priority`` carries it and must have PFC; ``trust_dscp`` and ``ecn`` say
    what else is demanded of the NIC (``ecn`` can be read with DOCA-OFED's driver only).
    ``period_seconds`` is the time between two looks.
    """

    enabled: bool = True
    image: str | None = Field(default=None, min_length=1)
    period_seconds: Annotated[int, Field(strict=True, ge=1, le=3600)] = 30
    gpudirect: Literal["any", "dmabuf", "peermem", "none"] = "any"
    lossless: bool = True
    priority: Annotated[int, Field(strict=True, ge=0, le=7)] = 3
    trust_dscp: bool = True
    ecn: bool = True
