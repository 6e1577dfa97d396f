"""Plain Ethernet: TCP over the pod network."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.parts import Variable
from railhead.fabric.kind import FabricKind
from railhead.fabric.variables import (
    BOOTSTRAP,
    NET_CC,
)

FABRIC = FabricKind(
    name="ethernet",
    rdma=False,
    environment=(
        *BOOTSTRAP,
        Variable(
            name="NCCL_NET",
            value="Socket",
            reason="TCP is what this fabric is, and says so: no RDMA device that a pod happens to "
            "see makes ranks disagree on the transport",
            source=NET_CC,
        ),
    ),
    proofs=(r"via NET/Socket/\d+",),
    not_set=MappingProxyType(
        {
            "NCCL_IB_DISABLE": "NCCL_NET=Socket says it without a switch that hides devices",
            "NCCL_NSOCKS_PERTHREAD": "NCCL chooses by the NIC and the cloud",
        }
    ),
    universal=True,
    source="NCCL source",
)
