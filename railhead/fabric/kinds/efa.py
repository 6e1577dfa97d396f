"""AWS' Elastic Fabric Adapter."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.parts import DeviceResource
from railhead.fabric.kind import FabricKind
from railhead.fabric.variables import (
    BOOTSTRAP,
    GDRDMA,
    pinned,
)

_PLUGIN_NAMES = (
    "aws-ofi-nccl pull request 530: the plugin answers to `AWS Libfabric` in every version, to "
    "`Libfabric` and `OFI` only since 1.12"
)


FABRIC = FabricKind(
    name="efa",
    rdma=True,
    devices=(
        DeviceResource(
            name="vpc.amazonaws.com/efa",
            per_pod=1,
            per_node=32,
            source="the lab's stand-in only, with the count of a p5.48xlarge",
        ),
    ),
    environment=(
        *BOOTSTRAP,
        pinned("AWS Libfabric", _PLUGIN_NAMES),
    ),
    userspace=(
        "libfabric with the EFA provider, one copy only (/opt/amazon/efa)",
        "aws-ofi-nccl on the library path (/opt/amazon/ofi-nccl)",
    ),
    proofs=(
        r"(?i)NET/OFI Selected provider is efa",
        r"via NET/(?:AWS )?Libfabric/\d+",
    ),
    gpudirect=GDRDMA,
    not_set=MappingProxyType(
        {
            "FI_PROVIDER": "needed by aws-ofi-nccl up to 1.5.0 only",
            "FI_EFA_USE_DEVICE_RDMA": "libfabric 1.18 and aws-ofi-nccl 1.7 decide by platform",
            "FI_EFA_FORK_SAFE": "no effect on kernels from 5.15",
            "FI_EFA_USE_HUGE_PAGE": "only for os.fork() failing with `Cannot allocate memory`",
            "RDMAV_FORK_SAFE": "never: it breaks registration of GPU memory",
            "NCCL_PROTO": "needed by aws-ofi-nccl up to 1.5.0 only; the tuner chooses",
            "NCCL_BUFFSIZE": "the plugin sets it by instance type",
            "NCCL_P2P_NET_CHUNKSIZE": "the plugin sets it by instance type",
            "NCCL_TOPO_FILE": "the plugin writes the instance's topology where one is needed",
            "NCCL_IB_HCA": "read by NCCL's own InfiniBand transport only, which EFA does not use",
        }
    ),
    # aws-efa-k8s-device-plugin counts what is bound to it; other NICs of an instance are ena.
    driver="efa",
    source="aws-ofi-nccl v1.21.1, src/platform-aws.cpp; awsome-distributed-training",
)
