"""Variables that can take a job off its network, or hide part of it, while it still completes.

This is the only list: checks of stacks and jobs, the policies and the API server's guards all use
it. A job may set them only if it asks for no fabric. The fabric itself may set them.

Not in it: ``LD_PRELOAD`` and ``LD_LIBRARY_PATH``, which allocators and images need, and what a
process sets for itself. NCCL's log shows what came of those (:mod:`railhead.nccl`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from railhead.base.switching import changed


@dataclass(frozen=True, kw_only=True)
class Switch:
    """A variable that chooses the network.

    Args:
        name: of the variable.
        reason: what it does to a job.
        source: where that was read.
        site: whether a stack's ``fabric.environment`` may set it, for all jobs alike, if the
            catalogue does not; it then counts as the fabric's own.
    """

    name: str
    reason: str
    source: str
    site: bool = False


_NCCL = "NCCL v2.30.7"
_ENV = f"{_NCCL}, docs/userguide/source/env.rst"
_LIBFABRIC = "libfabric v2.3.1"
_TCPXO = "container-engine-accelerators, gpudirect-tcpxo: the profile of the fabric's row"
_TCPX = "container-engine-accelerators, gpudirect-tcpx: the profile of the fabric's row"

_ROWS = (
    Switch(
        name="NCCL_NET",
        reason="NCCL takes the network of this name and no other: `Socket` is TCP",
        source=f"{_NCCL}, src/init.cc and src/plugin/net.cc",
    ),
    Switch(
        name="NCCL_NET_PLUGIN",
        reason="which libraries NCCL looks for networks in; `none` leaves it without the fabric's",
        source=f"{_NCCL}, src/plugin/net.cc, initPluginLibsOnceFunc",
        site=True,
    ),
    Switch(
        name="NCCL_ENV_PLUGIN",
        reason="a library that answers for every other variable of NCCL",
        source="NCCL v2.28.9 and newer, src/plugin/env.cc",
    ),
    Switch(
        name="NCCL_CONF_FILE",
        reason="a file with more of NCCL's variables, which nothing outside the job reads",
        source="NCCL v2.23.4 and newer, src/misc/param.cc",
    ),
    Switch(
        name="NCCL_SOCKET_IFNAME",
        reason="which interfaces NCCL's sockets take, and where its ranks meet",
        source=f"{_NCCL}, src/misc/socket.cc",
    ),
    Switch(
        name="NCCL_OOB_NET_IFNAME",
        reason="which interfaces NCCL's ranks meet by where its bootstrap uses a network",
        source=f"{_NCCL}, src/bootstrap.cc",
    ),
    Switch(
        name="NCCL_IB_DISABLE",
        reason="no InfiniBand and no RoCE: a debugging switch; left behind it is TCP for good",
        source=f"{_NCCL}, src/transport/net_ib/init.cc, IbDisable",
    ),
    Switch(
        name="NCCL_IB_HCA",
        reason="which RDMA devices NCCL uses: a shorter list is half of the fabric, or another's",
        source=f"{_NCCL}, src/transport/net_ib/init.cc",
        site=True,
    ),
    Switch(
        name="NCCL_IB_TC",
        reason="which class of the switches packets are in: another than the fabric's may drop",
        source=f"{_ENV}; gate.dscp and docs/fabric.md, traffic class",
        site=True,
    ),
    Switch(
        name="NCCL_NETDEVS_POLICY",
        reason="how many of its NICs a GPU uses: `MAX:1` is a part of them",
        source=f"{_ENV}, since 2.28",
        site=True,
    ),
    Switch(
        name="NCCL_TOPO_FILE",
        reason="what NCCL believes of the machine: a NIC may be missing, or far from its GPU",
        source=f"{_NCCL}, src/graph/topo.cc, ncclTopoGetSystem",
    ),
    Switch(
        name="NCCL_GRAPH_FILE",
        reason="which NICs and links each channel takes, in place of NCCL's own search",
        source=f"{_NCCL}, src/graph/search.cc",
    ),
    Switch(
        name="NCCL_P2P_LEVEL",
        reason="how far apart GPUs may be that reach each other: `LOC` or 0 is NCCL_P2P_DISABLE",
        source=f"{_NCCL}, src/graph/paths.cc, ncclGetUserP2pLevel",
        site=True,
    ),
    Switch(
        name="NCCL_P2P_DISABLE",
        reason="no NVLink between a node's GPUs: a debugging switch",
        source=_ENV,
    ),
    Switch(
        name="NCCL_SHM_DISABLE",
        reason="a node's own ranks talk over the network: a debugging switch",
        source=_ENV,
    ),
    Switch(
        name="GLOO_SOCKET_IFNAME",
        reason="which interface gloo, PyTorch's collectives on CPUs, takes",
        source="PyTorch, torch/csrc/distributed/c10d/init.cpp",
    ),
    Switch(
        name="TP_SOCKET_IFNAME",
        reason="which interface PyTorch's RPC takes",
        source="PyTorch, torch/csrc/distributed/rpc/tensorpipe_agent.cpp",
    ),
    Switch(
        name="FI_PROVIDER",
        reason="libfabric offers this provider and no other: `tcp` or `sockets` is TCP",
        source=f"{_LIBFABRIC}, src/fabric.c: provider",
    ),
    Switch(
        name="FI_PROVIDER_PATH",
        reason="where libfabric looks for providers: one without EFA's leaves TCP",
        source=f"{_LIBFABRIC}, src/fabric.c: provider_path",
    ),
    Switch(
        name="FI_EFA_IFACE",
        reason="which EFA devices libfabric uses: a shorter list is half of the fabric",
        source="libfabric v2.6.0, man/fi_efa.7.md and prov/efa/src/efa_device.c",
        site=True,
    ),
    Switch(
        name="OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK",
        reason="goes on without GPUDirect RDMA where the machine has it, slowly and without a word",
        source="aws-ofi-nccl v1.21.1, include/nccl_ofi_param.h",
    ),
    Switch(
        name="OFI_NCCL_FORCE_NUM_RAILS",
        reason="how many NICs a GPU's messages are spread over: 1 is a part of them",
        source="aws-ofi-nccl v1.21.1, include/nccl_ofi_param.h",
        site=True,
    ),
    Switch(
        name="NCCL_FASTRAK_IFNAME",
        reason="which NICs the TCPXO plugin uses",
        source=_TCPXO,
    ),
    Switch(
        name="NCCL_FASTRAK_CTRL_DEV",
        reason="which interface the TCPXO plugin's control takes",
        source=_TCPXO,
    ),
    Switch(
        name="NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
        reason="which NICs the TCPX plugin uses",
        source=_TCPX,
    ),
    Switch(
        name="NCCL_GPUDIRECTTCPX_CTRL_DEV",
        reason="which interface the TCPX plugin's control takes",
        source=_TCPX,
    ),
    Switch(
        name="UCX_TLS",
        reason="which transports UCX, and so MPI, may take: `tcp` is TCP",
        source="OpenUCX documentation, running UCX: environment variables",
        site=True,
    ),
    Switch(
        name="UCX_NET_DEVICES",
        reason="which devices UCX, and so MPI, may take",
        source="NVIDIA DOCA documentation, UCX: UCX_NET_DEVICES",
        site=True,
    ),
)

#: Name -> variable.
SWITCHES: Mapping[str, Switch] = MappingProxyType({row.name: row for row in _ROWS})


def in_mapping() -> str:
    """Return a regular expression (RE2) that finds one of them as a key of a YAML or JSON text."""
    return rf"(?:^|[^A-Za-z0-9_])(?:{'|'.join(SWITCHES)})[\"']?\s*:"


def in_words(pinned: Iterable[str]) -> str:
    """Return an expression for a command that sets one of them, or removes a pinned one."""
    return changed(SWITCHES, pinned)
