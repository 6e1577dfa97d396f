"""Google's GPUDirect RDMA, with gIB."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.parts import Variable
from railhead.catalog.versions import PARTS
from railhead.fabric.kind import Addition, FabricKind
from railhead.fabric.plugin import NodePlugin, Qualified
from railhead.fabric.variables import (
    BOOTSTRAP,
    GDRDMA,
    ITSELF,
    pinned,
    vendor,
)

_GIB = (
    "Google Cloud documentation, the variables that set_nccl_env.sh of gIB sets; gIB's config "
    "checker warns or ends the job when one differs"
)
_INSTALLER = (
    "container-engine-accelerators, gpudirect-rdma/nccl-rdma-installer.yaml at 2da1c92f, which no "
    "longer installs an NCCL (#606), and bdd28b0f, which no longer sets log_martians; tag of the "
    "diagnostic image in nccl-test-managed-rdma.yaml"
)
_LIBRARIES = Variable(
    name="LD_LIBRARY_PATH",
    value="/usr/local/gib/lib64:/usr/local/nvidia/lib64",
    reason="gIB and the driver's libraries are the node's, mounted; NCCL is the image's own",
    source="Google Cloud documentation, GPUDirect RDMA on GKE",
)

_TUNER = "the tables that Google tuned for this machine"
_ADDITIONS = (
    Addition(
        machines=("a3-ultragpu-8g",),
        environment=(
            vendor(
                "NCCL_TUNER_CONFIG_PATH",
                "/usr/local/gib/configs/tuner_config_a3u.txtpb",
                _TUNER,
                _GIB,
            ),
        ),
    ),
    Addition(
        machines=("a4-highgpu-8g",),
        environment=(
            vendor(
                "NCCL_TUNER_CONFIG_PATH",
                "/usr/local/gib/configs/tuner_config_a4.txtpb",
                _TUNER,
                _GIB,
            ),
        ),
    ),
)

PLUGIN = NodePlugin(
    name="gcp-rdma",
    installer=PARTS["nccl-gib"].images[0],
    accelerators=("nvidia-h200-141gb", "nvidia-b200"),
    qualified=Qualified(
        plugin="v1.1.2",
        daemon=None,
        driver=None,
        # Google names no CUDA; the NCCL is the image's own.
        cuda=None,
        nccl="the image's",
        source=_INSTALLER,
    ),
    script="""/scripts/container_entry.sh install
mkdir -p /host/nvidia/lib64 /host/gib
cp -r --remove-destination /var/lib/gib/lib64/. /host/nvidia/lib64
cp -r --remove-destination /var/lib/gib/. /host/gib
""",
    prepare="",
    mounts=(
        ("/home/kubernetes/bin/nvidia/lib64", "/host/nvidia/lib64"),
        ("/home/kubernetes/bin/gib", "/host/gib"),
    ),
    daemon=None,
    injector=False,
    libraries=("gib/lib64/libnccl-net.so", "gib/configs"),
    source=_INSTALLER,
)


FABRIC = FabricKind(
    name="gcp-rdma",
    rdma=True,
    environment=(
        *BOOTSTRAP,
        _LIBRARIES,
        pinned("gIB", _GIB),
        vendor("NCCL_CROSS_NIC", "0", "rails do not reach each other on one hop", _GIB),
        vendor("NCCL_NET_GDR_LEVEL", "PIX", "each GPU has its NIC below the same switch", _GIB),
        vendor("NCCL_P2P_NET_CHUNKSIZE", "131072", "what gIB was tuned with", _GIB),
        vendor("NCCL_NVLS_CHUNKSIZE", "524288", "what gIB was tuned with", _GIB),
        vendor("NCCL_IB_ADAPTIVE_ROUTING", "1", "the fabric reorders packets", _GIB),
        vendor("NCCL_IB_QPS_PER_CONNECTION", "4", "several paths for each connection", _GIB),
        vendor("NCCL_IB_TC", "52", "the traffic class that Google's fabric treats as RDMA", _GIB),
        vendor("NCCL_IB_FIFO_TC", "84", "the class of NCCL's own control messages", _GIB),
    ),
    userspace=(
        "libibverbs.so.1 and libmlx5 (rdma-core), which gIB opens at run time",
        "gIB, mounted from the node at /usr/local/gib",
    ),
    proofs=(r"NET/gIB : Initializing gIB", r"via NET/gIB/\d+"),
    gpudirect=GDRDMA,
    not_set=MappingProxyType(
        {
            "NCCL_IB_GID_INDEX": "NCCL >= 2.21 finds the GID itself",
            "NCCL_IB_HCA": "a pod has the eight RDMA networks of its annotation and no other",
            "NCCL_DMABUF_ENABLE": ITSELF["NCCL_DMABUF_ENABLE"],
        }
    ),
    link_layer="Ethernet",
    additions=_ADDITIONS,
    plugin=PLUGIN,
    source="Google Cloud documentation, AI Hypercomputer: NCCL/gIB; gpu-recipes training/a3ultra",
)
