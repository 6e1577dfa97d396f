"""InfiniBand."""

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

_AZURE = (
    "Azure/ai-infrastructure-on-azure of 2026-04-22, infrastructure_validations: "
    "aks/NCCL/helm/nccl-test/values.yaml and slurm/NCCL/configs/hopper.conf"
)
_NDV5 = ("Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5")

_ADDITIONS = (
    Addition(
        machines=_NDV5,
        environment=(
            vendor(
                "NCCL_TOPO_FILE",
                "/opt/microsoft/ndv5-topo.xml",
                "the hypervisor hides which NIC is near which GPU; Azure's VM images have the file "
                "there, a training image has it only if someone copied it in, from "
                "azhpc-images' topology/ (fabric.topology_file says where)",
                _AZURE,
            ),
            vendor("NCCL_IB_QPS_PER_CONNECTION", "4", "several paths for each connection", _AZURE),
        ),
    ),
)


FABRIC = FabricKind(
    name="infiniband",
    rdma=True,
    devices=(
        DeviceResource(
            name="rdma/ib",
            per_pod=1,
            per_node=63,
            source="the lab's stand-in only; the name is CoreWeave's and Azure's for a share",
        ),
    ),
    environment=(*BOOTSTRAP, pinned("IB"), HCAS),
    userspace=("rdma-core: libibverbs.so.1 and libmlx5 of a version not older than the driver's",),
    proofs=(r"NET/IB : Using .*:\d+/IB", r"via NET/IB(?:ext)?[^/ ]*/\d+"),
    gpudirect=GDRDMA,
    not_set=MappingProxyType(
        ITSELF
        | {
            "NCCL_IB_GID_INDEX": "InfiniBand routes by LID within a subnet; NCCL needs no GID",
            "NCCL_COLLNET_ENABLE": "SHARP needs an aggregation manager in the fabric and NVIDIA's "
            "plugin in the image; a site that has both sets it in fabric.environment and names the "
            "plugin's network in fabric.nccl_net, since NCCL takes CollNet from the plugin that it "
            "selects (src/plugin/net.cc)",
            "NCCL_IB_ADAPTIVE_ROUTING": "on by default on InfiniBand",
            "NCCL_PXN_DISABLE": "Azure's values for nccl-tests set 1, for an all_reduce; jobs "
            "whose ranks send across rails want the relay through a neighbour's GPU",
            "NCCL_MIN_NCHANNELS": "Azure's values for nccl-tests set 32, which takes more of each "
            "GPU from the computation",
            "NCCL_P2P_NET_CHUNKSIZE": "Azure's two profiles disagree (524288 and 2097152)",
            "NCCL_IGNORE_CPU_AFFINITY": "Azure's values for nccl-tests set 1 beside masks of "
            "mpirun, which jobs have not",
        }
    ),
    link_layer="InfiniBand",
    additions=_ADDITIONS,
    source="CoreWeave's and Azure's published manifests; NCCL source",
)
