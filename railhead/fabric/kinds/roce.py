"""RoCE: RDMA over Ethernet."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.parts import DeviceResource
from railhead.fabric.kind import Addition, FabricKind
from railhead.fabric.variables import (
    BOOTSTRAP,
    GDRDMA,
    HCAS,
    ITSELF,
    pinned,
    vendor,
)

_OCI = (
    "oracle-quickstart/oci-hpc-oke of 2026-08-20, "
    "docs/recommended-nccl-rccl-parameters-by-shape.md, which also sets NCCL_IB_GID_INDEX=3, "
    "against NVIDIA's advice for NCCL >= 2.21, and NCCL_IB_SL=0, which is NCCL's own"
)
_OCI_SHAPES = (
    "BM.GPU4.8",
    "BM.GPU.B4.8",
    "BM.GPU.A100-v2.8",
    "BM.GPU.H100.8",
    "BM.GPU.H200.8",
    "BM.GPU.B200.8",
    "BM.GPU.B300.8",
    "BM.GPU.GB200-v3.4",
    "BM.GPU.GB300.4",
)
_OCI_HOPPER = ("BM.GPU.H100.8", "BM.GPU.H200.8", "BM.GPU.B200.8", "BM.GPU.B300.8")
_OCI_PATHS = ("BM.GPU4.8", "BM.GPU.B4.8", "BM.GPU.A100-v2.8", "BM.GPU.GB300.4")
_ADDITIONS = (
    Addition(
        machines=_OCI_SHAPES,
        environment=(
            vendor("NCCL_IB_TC", "41", "the class that OCI's switches carry as RDMA", _OCI),
            vendor("NCCL_IB_SPLIT_DATA_ON_QPS", "0", "whole messages on each queue pair", _OCI),
            vendor(
                "NCCL_IB_TIMEOUT",
                "22",
                "a peer's NIC may be silent four times as long as by NCCL's own 20",
                _OCI,
            ),
        ),
    ),
    Addition(
        machines=_OCI_HOPPER,
        environment=(
            vendor("NCCL_CUMEM_ENABLE", "0", "the vendor's profile of these shapes", _OCI),
            vendor("NCCL_IGNORE_CPU_AFFINITY", "1", "NCCL's threads go where GPUs are", _OCI),
        ),
    ),
    Addition(
        machines=_OCI_PATHS,
        environment=(
            vendor("NCCL_IB_QPS_PER_CONNECTION", "4", "several paths for each connection", _OCI),
        ),
    ),
    Addition(
        machines=("BM.GPU.GB200-v3.4", "BM.GPU.GB300.4"),
        environment=(
            vendor("NCCL_NET_GDR_C2C", "1", "NICs reach GPU memory through Grace's C2C link", _OCI),
        ),
    ),
    Addition(
        machines=("BM.GPU.GB300.4",),
        environment=(
            vendor("NCCL_BUFFSIZE", "16777216", "the vendor's profile of this shape", _OCI),
        ),
    ),
)

_CLASS = vendor(
    "NCCL_IB_TC",
    "{traffic_class}",
    "packets carry the DSCP that NICs and switches sort into the priority that pauses (gate.dscp "
    "says which); NCCL's own is 0, which drops",
    "NCCL source, src/transport/net_ib/connect.cc: IB_TC is 0 unless set, and goes into the global "
    "route header's traffic class as it is",
)

_FAMILY = vendor(
    "NCCL_IB_ADDR_FAMILY",
    "{gid_family}",
    "the rails have IPv6; NCCL's own is AF_INET, by which it stays at the first GID, a link-local "
    "one of RoCE v1 that is not even the pod's under macvlan",
    "NCCL source, src/transport/net_ib/connect.cc: envIbAddrFamily and ncclUpdateGidIndex",
)

_APART = vendor(
    "NCCL_CROSS_NIC",
    "{cross_nic}",
    "no rail has a router, so that a pod reaches no other rail; by its own 2 NCCL may connect NICs "
    "of two, and the job ends at ibv_modify_qp",
    "NCCL source, src/misc/ibvwrap.cc: printIbModifyQpHint; NVIDIA/nccl #2013, #1933",
)

FABRIC = FabricKind(
    name="roce",
    rdma=True,
    devices=(
        DeviceResource(
            name="rdma/rdma_shared_device_a",
            per_pod=1,
            per_node=63,
            source="RDMA shared device plugin: name and rdmaHcaMax 63 of NVIDIA network operator's "
            "sample NicClusterPolicy; one share opens every HCA behind it",
        ),
    ),
    environment=(*BOOTSTRAP, pinned("IB"), HCAS, _CLASS, _FAMILY, _APART),
    userspace=(
        "rdma-core: libibverbs.so.1 and the provider of the NIC, not older than the driver",
    ),
    proofs=(r"NET/IB : Using .*:\d+/RoCE", r"via NET/IB(?:ext)?[^/ ]*/\d+"),
    gpudirect=GDRDMA,
    not_set=MappingProxyType(
        ITSELF
        | {
            "NCCL_IB_TIMEOUT": f"{ITSELF['NCCL_IB_TIMEOUT']}; where the profile of a provider's "
            "machine says another, that is set",
            "NCCL_IB_GID_INDEX": "NCCL >= 2.21 finds the RoCE v2 IPv4 GID itself; under "
            "macvlan the index differs from pod to pod, and NCCL >= 2.26 is needed (nccl #1573)",
        }
    ),
    qos=True,
    link_layer="Ethernet",
    # RDMA packets of 4096 bytes, the largest, need jumbo frames below them.
    mtu=9000,
    additions=_ADDITIONS,
    source="NVIDIA network operator's documentation; NCCL source",
)
