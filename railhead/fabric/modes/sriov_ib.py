"""A virtual function of each rail's HCA in every pod."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from railhead.fabric.mode import Mode
from railhead.fabric.railed import IPC_LOCK, OPERATOR, NicRail, one_a_rail
from railhead.fabric.sriov import SriovFabric


class SriovIbFabric(SriovFabric):
    """A virtual function of each rail's HCA in every pod."""

    row: ClassVar[Mode] = Mode(
        name="sriov-ib",
        fabrics=frozenset({"infiniband"}),
        needs="operator",
        summary="a virtual function of each rail's HCA moves into the pod, with a GUID of its own",
        attachment="multus",
        bootstrap="pod",
        devices=(
            one_a_rail(
                f"{OPERATOR}SriovNetworkNodePolicy with linkType ib: nvidia.com/<resourceName>"
            ),
        ),
        capabilities=(IPC_LOCK,),
        operators=("network", "sriov"),
        source=f"{OPERATOR}SR-IOV InfiniBand network with RDMA",
    )
    link_type: ClassVar[Literal["eth", "ib"]] = "ib"

    mode: Literal["sriov-ib"]
    rails: tuple[NicRail, ...] = Field(min_length=1)


CONFIG = SriovIbFabric
