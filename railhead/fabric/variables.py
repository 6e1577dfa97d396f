"""Variables that several fabrics share, each with its reason."""

from __future__ import annotations

from railhead.catalog.parts import Variable

ENV_RST = "NCCL user guide, env.rst"
NET_CC = "NCCL source, src/plugin/net.cc: only the named network is tried"
# 2.26 and newer add how: `/GDRDMA(PCI)`.
GDRDMA = r"via NET/.*/GDRDMA(?:\(PCI\))?"

BOOTSTRAP = (
    Variable(
        name="NCCL_SOCKET_IFNAME",
        value="={bootstrap}",
        reason="NCCL's bootstrap must take an interface that reaches every peer, not the first it "
        "finds; `=` makes the list exact, without it net1 would also match net10",
        source=f"{ENV_RST}: a list of prefixes unless it starts with `=`",
    ),
    Variable(
        name="GLOO_SOCKET_IFNAME",
        value="{gloo}",
        reason="gloo, PyTorch's CPU collectives, takes the interface of the host's name unless "
        "it is named, which may be one that peers do not reach; of several, each process would "
        "connect to all others on each",
        source="PyTorch distributed documentation, common environment variables; "
        "its ProcessGroupGloo.cpp: a full mesh for every device",
    ),
)

HCAS = Variable(
    name="NCCL_IB_HCA",
    value="={hcas}",
    reason="a pod may see RDMA devices that are not the training fabric's (storage, management); "
    "`=` makes the list exact, without it mlx5_1 would also match mlx5_10",
    source=f"{ENV_RST}: a list of prefixes unless it starts with `=`",
)

# What NCCL gets right by itself, whatever the fabric; a test keeps rows from setting one.
ITSELF = {
    "NCCL_IB_TIMEOUT": "20 by default since 2.23, about 30 s with 7 retries",
    "NCCL_IB_RETRY_CNT": "7 by default, which is also the maximum",
    "NCCL_IB_PCI_RELAXED_ORDERING": "automatic since 2.12",
    "NCCL_DMABUF_ENABLE": "on by default since 2.13; it turns itself off where unsupported",
    "NCCL_IB_DISABLE": "a debugging switch; left behind it is TCP for good",
    "NCCL_P2P_DISABLE": "a debugging switch",
    "NCCL_SHM_DISABLE": "a debugging switch",
}


def pinned(value: str, source: str = NET_CC) -> Variable:
    """Return ``NCCL_NET`` with the one network that a job may use."""
    return Variable(
        name="NCCL_NET",
        value=value,
        reason="a named network removes the fallback: without RDMA the job errors at once "
        "instead of crawling over TCP",
        source=source,
    )


def vendor(name: str, value: str, reason: str, source: str) -> Variable:
    """Return a variable of a vendor's own profile."""
    return Variable(name=name, value=value, reason=reason, source=source)
