"""The RDMA shared device plugin with an IPoIB interface per rail."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from railhead.fabric.mode import Mode
from railhead.fabric.railed import IPC_LOCK, OPERATOR, Ipam, Rail, SharedDevices, shared_device


class IpoibFabric(SharedDevices):
    """The RDMA shared device plugin with an IPoIB interface per rail."""

    row: ClassVar[Mode] = Mode(
        name="ipoib",
        fabrics=frozenset({"infiniband"}),
        needs="operator",
        summary="every pod opens the node's HCAs through the RDMA shared device plugin; an IPoIB "
        "interface a rail gives it addresses on the fabric",
        attachment="multus",
        bootstrap="rails",
        devices=(shared_device(),),
        capabilities=(IPC_LOCK,),
        operators=("network",),
        hcas=True,
        source=f"{OPERATOR}IP over InfiniBand with RDMA shared device plugin",
    )

    mode: Literal["ipoib"]
    rails: tuple[Rail, ...] = Field(min_length=1)
    ipam: Ipam


CONFIG = IpoibFabric
