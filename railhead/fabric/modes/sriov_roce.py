"""A virtual function of each rail's NIC in every pod."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from railhead.fabric.mode import NETWORKS_NAMESPACE, Mode
from railhead.fabric.railed import IPC_LOCK, OPERATOR, FunctionRail, Ipam, one_a_rail
from railhead.fabric.sriov import SriovFabric


class SriovRoceFabric(SriovFabric):
    """A virtual function of each rail's NIC in every pod."""

    row: ClassVar[Mode] = Mode(
        name="sriov-roce",
        fabrics=frozenset({"roce"}),
        needs="operator",
        summary="a virtual function of each rail's NIC moves into the pod, its RDMA device with it",
        attachment="multus",
        bootstrap="rails",
        devices=(
            one_a_rail(
                f"{OPERATOR}SriovNetworkNodePolicy: the SR-IOV device plugin advertises "
                "nvidia.com/<resourceName>, one for each virtual function"
            ),
        ),
        capabilities=(IPC_LOCK,),
        operators=("network", "sriov"),
        source=f"{OPERATOR}SR-IOV network with RDMA",
    )
    link_type: ClassVar[Literal["eth", "ib"]] = "eth"

    mode: Literal["sriov-roce"]
    rails: tuple[FunctionRail, ...] = Field(min_length=1)
    ipam: Ipam

    @property
    def networks_namespace(self) -> str | None:
        """The namespace in which the SR-IOV operator makes the networks."""
        return NETWORKS_NAMESPACE


CONFIG = SriovRoceFabric
