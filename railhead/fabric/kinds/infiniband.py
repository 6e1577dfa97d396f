"""InfiniBand."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.parts import DeviceResource, Variable
from railhead.fabric.kind import Addition, FabricKind
from railhead.fabric.topology import NumaNode, Topology
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
_NDV4 = ("Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4")
_AKS = "Azure/aks-rdma-infiniband 700dabb, tests/scenarios/nvidia-topology"


def _nics(first: int, last: int) -> tuple[str, ...]:
    """Return the addresses of a machine's NICs, which Azure numbers from 1."""
    return tuple(f"01{number:02x}:00:00.0" for number in range(first, last + 1))


def _gpus(*domains: int) -> tuple[str, ...]:
    return tuple(f"{domain:04x}:00:00.0" for domain in domains)


_NDV5_TOPOLOGY = Topology(
    file="ndv5-topo.xml",
    cpu=("GenuineIntel", 6, 143),
    link_speed="32.0 GT/s PCIe",
    nodes=(
        NumaNode(
            affinity="00000000,0000ffff,ffffffff",
            switches=tuple(
                (_gpus(gpu), _nics(nic, nic)) for nic, gpu in enumerate((1, 2, 3, 8), start=1)
            ),
        ),
        NumaNode(
            affinity="ffffffff,ffff0000,00000000",
            switches=tuple(
                (_gpus(gpu), _nics(nic, nic)) for nic, gpu in enumerate((9, 10, 11, 12), start=5)
            ),
        ),
    ),
    source=f"{_AKS}/ndv5-topo.xml",
)
_NDV4_TOPOLOGY = Topology(
    file="ndv4-topo.xml",
    cpu=("AuthenticAMD", 23, 49),
    link_speed="16 GT/s",
    nodes=(
        NumaNode(affinity="00000000,00000000,00ffffff", switches=((_gpus(3, 4), _nics(3, 4)),)),
        NumaNode(affinity="00000000,0000ffff,ff000000", switches=((_gpus(1, 2), _nics(1, 2)),)),
        NumaNode(affinity="000000ff,ffff0000,00000000", switches=((_gpus(13, 14), _nics(7, 8)),)),
        NumaNode(affinity="ffffff00,00000000,00000000", switches=((_gpus(11, 12), _nics(5, 6)),)),
    ),
    source=f"{_AKS}/ndv4-topo.xml",
)


def _topology(source: str) -> Variable:
    return vendor(
        "NCCL_TOPO_FILE",
        "{topology}",
        "the hypervisor hides which NIC is near which GPU, and NCCL goes on without a word where "
        "the file is missing (src/graph/xml.cc); images do not have Azure's, so that the stack "
        "brings it into each training namespace",
        source,
    )


_ADDITIONS = (
    Addition(
        machines=_NDV5,
        environment=(
            _topology(_NDV5_TOPOLOGY.source),
            vendor("NCCL_IB_QPS_PER_CONNECTION", "4", "several paths for each connection", _AZURE),
        ),
        topology=_NDV5_TOPOLOGY,
    ),
    Addition(
        machines=_NDV4,
        environment=(_topology(_NDV4_TOPOLOGY.source),),
        topology=_NDV4_TOPOLOGY,
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
