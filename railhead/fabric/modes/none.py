"""The pod network without a fabric."""

from __future__ import annotations

from typing import ClassVar, Literal

from railhead.fabric.mode import BaseFabric, Mode


class NoFabric(BaseFabric):
    """The pod network without a fabric."""

    row: ClassVar[Mode] = Mode(
        name="none",
        fabrics=frozenset({"ethernet"}),
        needs=None,
        summary="no fabric beside the pod network: TCP, said openly",
        attachment="none",
        bootstrap="pod",
        unprivileged="sockets lock no memory",
        source="NCCL source",
    )

    mode: Literal["none"]


CONFIG = NoFabric
