"""Fabrics and the modes that bring them into pods, with a reason and a source for each fact.

A new fabric is one row of :data:`FABRICS`, a new way into pods one of :data:`MODES`; where it needs
objects of its own it is one file in `components/` as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from railhead.catalog.parts import Capability, DeviceResource, HostPath, Variable

Platform = Literal["lab", "existing", "aws", "gcp"]


class ModeName(StrEnum):
    """What a stack's ``fabric.mode`` may say."""

    RDMA_SHARED = "rdma-shared"
    SRIOV_ROCE = "sriov-roce"
    SRIOV_IB = "sriov-ib"
    HOST_DEVICE = "host-device"
    IPOIB = "ipoib"
    EFA = "efa"
    GCP_RDMA = "gcp-rdma"
    TCPXO = "tcpxo"
    TCPX = "tcpx"
    DRANET = "dranet"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """A training fabric.

    Args:
        name: what a stack's ``fabric.kind`` says.
        rdma: whether NCCL reaches GPU memory of another node without the kernel's TCP stack.
        devices: extended resources a lab's stand-in plugin advertises for it; real nodes get
            theirs from the mode.
        environment: variables of each training pod.
        userspace: what the image, or a mounted directory, must hold.
        proofs: regular expressions on NCCL's log; each of them must match on every rank of a job
            of several nodes, or the transport is not proven.
        gpudirect: what ends the line of a channel that goes from GPU memory to the NIC directly,
            per rank and direction; None where NCCL's log does not say it.
        not_set: variables left alone on purpose, with the reason.
        qos: whether the node gate must find PFC, ECN and DSCP trust configured (lossless).
        link_layer: ``link_layer`` of its ports in sysfs; None where it has none.
        mtu: of the rails in bytes unless the stack says otherwise; None leaves interfaces alone.
        source: where the row as a whole was read.
    """

    name: str
    rdma: bool
    devices: tuple[DeviceResource, ...]
    environment: tuple[Variable, ...]
    userspace: tuple[str, ...]
    proofs: tuple[str, ...]
    gpudirect: str | None = None
    not_set: Mapping[str, str]
    qos: bool
    link_layer: Literal["Ethernet", "InfiniBand"] | None
    mtu: int | None = None
    source: str

    @property
    def modes(self) -> frozenset[str]:
        """The modes that can bring it into pods, on any platform."""
        return frozenset(m.name.value for m in MODES.values() if self.name in m.fabrics)


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A way to bring a fabric into pods.

    Args:
        fabrics: names of the fabrics that it serves.
        platforms: where it can be.
        summary: what a pod gets by it, in one sentence.
        attachment: how the interfaces come: ``multus`` annotations, ``gke`` annotations, a DRA
            ``claim``, or ``none`` beside what the device plugin injects.
        bootstrap: where NCCL's bootstrap and gloo are pinned unless the stack says otherwise: the
            pod's own network, or the rails.
        devices: extended resources of each training pod.
        capabilities: what memory registration needs where the runtime's memlock limit is finite.
        unprivileged: why no capability is needed, where none is.
        operators: which operators must be in the cluster for it.
        hcas: whether the pod sees RDMA devices that are not its own, so that NCCL needs the list.
        hugepages_mib: 2 MiB huge pages a pod requests for each NIC it gets, in MiB.
        host_network: why pods must be in the node's network namespace, or None.
        host_paths: what of the node's file system a pod must have.
        source: where it was read.
    """

    name: ModeName
    fabrics: frozenset[str]
    platforms: frozenset[Platform]
    summary: str
    attachment: Literal["multus", "gke", "claim", "none"]
    bootstrap: Literal["pod", "rails"]
    devices: tuple[DeviceResource, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    unprivileged: str = ""
    operators: tuple[Literal["network", "sriov", "efa", "gke", "dranet"], ...] = ()
    hcas: bool = False
    hugepages_mib: int = 0
    host_network: str | None = None
    host_paths: tuple[HostPath, ...] = ()
    source: str

    def capabilities_on(self, fabric: str) -> tuple[Capability, ...]:
        """The capabilities that pods on one of its fabrics need."""
        return tuple(c for c in self.capabilities if not c.fabrics or fabric in c.fabrics)

    def host_paths_on(self, fabric: str) -> tuple[HostPath, ...]:
        """The node's directories that pods on one of its fabrics need."""
        return tuple(p for p in self.host_paths if not p.fabrics or fabric in p.fabrics)


# 2.26 and newer add how: `/GDRDMA(PCI)`.
_GDRDMA = r"via NET/.*/GDRDMA(?:\(PCI\))?"
_ENV_RST = "NCCL user guide, env.rst"
_NET_CC = "NCCL source, src/plugin/net.cc: only the named network is tried"
_RECIPES = "what published RoCE and InfiniBand manifests add, such as Azure's MPIJob chart"

_BOOTSTRAP = (
    Variable(
        name="NCCL_SOCKET_IFNAME",
        value="={bootstrap}",
        reason="NCCL's bootstrap must take an interface that reaches every peer, not the first it "
        "finds; `=` makes the list exact, without it net1 would also match net10",
        source=f"{_ENV_RST}: a list of prefixes unless it starts with `=`",
    ),
    Variable(
        name="GLOO_SOCKET_IFNAME",
        value="{bootstrap}",
        reason="gloo, PyTorch's CPU collectives, takes the interface of the host's name unless "
        "it is named, which may be one that peers do not reach",
        source="PyTorch distributed documentation, common environment variables",
    ),
)


def _pinned(value: str, source: str = _NET_CC) -> Variable:
    return Variable(
        name="NCCL_NET",
        value=value,
        reason="a named network removes the fallback: without RDMA the job errors at once "
        "instead of crawling over TCP",
        source=source,
    )


_HCAS = Variable(
    name="NCCL_IB_HCA",
    value="={hcas}",
    reason="a pod may see RDMA devices that are not the training fabric's (storage, management); "
    "`=` makes the list exact, without it mlx5_1 would also match mlx5_10",
    source=f"{_ENV_RST}: a list of prefixes unless it starts with `=`",
)

# What NCCL gets right by itself, whatever the fabric; a test keeps rows from setting one.
_ITSELF = {
    "NCCL_IB_TIMEOUT": "20 by default since 2.23, about 30 s with 7 retries",
    "NCCL_IB_RETRY_CNT": "7 by default, which is also the maximum",
    "NCCL_IB_PCI_RELAXED_ORDERING": "automatic since 2.12",
    "NCCL_DMABUF_ENABLE": "on by default since 2.13; it turns itself off where unsupported",
    "NCCL_IB_DISABLE": "a debugging switch; left behind it is TCP for good",
    "NCCL_P2P_DISABLE": "a debugging switch",
    "NCCL_SHM_DISABLE": "a debugging switch",
}

INFINIBAND = Fabric(
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
    environment=(*_BOOTSTRAP, _pinned("IB"), _HCAS),
    userspace=("rdma-core: libibverbs.so.1 and libmlx5 of a version not older than the driver's",),
    proofs=(r"NET/IB : Using .*:\d+/IB", r"via NET/IB(?:ext)?[^/ ]*/\d+"),
    gpudirect=_GDRDMA,
    not_set=MappingProxyType(
        _ITSELF
        | {
            "NCCL_IB_GID_INDEX": "InfiniBand routes by LID within a subnet; NCCL needs no GID",
            "NCCL_COLLNET_ENABLE": "SHARP needs an aggregation manager in the fabric; a site that "
            "has one sets it in fabric.environment",
            "NCCL_IB_ADAPTIVE_ROUTING": "on by default on InfiniBand",
        }
    ),
    qos=False,
    link_layer="InfiniBand",
    source="CoreWeave's and Azure's published manifests; NCCL source",
)

ROCE = Fabric(
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
    environment=(*_BOOTSTRAP, _pinned("IB"), _HCAS),
    userspace=(
        "rdma-core: libibverbs.so.1 and the provider of the NIC, not older than the driver",
    ),
    proofs=(r"NET/IB : Using .*:\d+/RoCE", r"via NET/IB(?:ext)?[^/ ]*/\d+"),
    gpudirect=_GDRDMA,
    not_set=MappingProxyType(
        _ITSELF
        | {
            "NCCL_IB_GID_INDEX": "NCCL >= 2.21 finds the RoCE v2 IPv4 GID itself, and under "
            "macvlan the index differs from pod to pod (nccl #1573)",
            "NCCL_IB_TC": "the traffic class is the switches' configuration; a site that needs one "
            "sets it in fabric.environment",
        }
    ),
    qos=True,
    link_layer="Ethernet",
    # RDMA packets of 4096 bytes, the largest, need jumbo frames below them.
    mtu=9000,
    source="NVIDIA network operator's documentation; NCCL source",
)

_PLUGIN_NAMES = (
    "aws-ofi-nccl pull request 530: the plugin answers to `AWS Libfabric` in every version, to "
    "`Libfabric` and `OFI` only since 1.12"
)

EFA = Fabric(
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
        *_BOOTSTRAP,
        _pinned("AWS Libfabric", _PLUGIN_NAMES),
    ),
    userspace=(
        "libfabric with the EFA provider, one copy only (/opt/amazon/efa)",
        "aws-ofi-nccl on the library path (/opt/amazon/ofi-nccl)",
    ),
    proofs=(
        r"(?i)NET/OFI Selected provider is efa",
        r"via NET/(?:AWS )?Libfabric/\d+",
    ),
    gpudirect=_GDRDMA,
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
    qos=False,
    link_layer=None,
    source="aws-ofi-nccl v1.21.1, src/platform-aws.cpp; awsome-distributed-training",
)

_GIB = (
    "Google Cloud documentation, the variables that set_nccl_env.sh of gIB sets; gIB's config "
    "checker warns or ends the job when one differs"
)
_TCPX = "container-engine-accelerators, gpudirect-tcpx/nccl-config-latest.yaml"
_TCPXO = (
    "nccl-env-profile.sh of the TCPXO plugin, as AI-Hypercomputer/gpu-recipes' a3mega charts source"
    " it"
)


def _vendor(name: str, value: str, reason: str, source: str) -> Variable:
    return Variable(name=name, value=value, reason=reason, source=source)


_LIBRARIES = Variable(
    name="LD_LIBRARY_PATH",
    value="/usr/local/gib/lib64:/usr/local/nvidia/lib64",
    reason="gIB, its NCCL and the driver's libraries are the node's, mounted; no image has them",
    source="Google Cloud documentation, GPUDirect RDMA on GKE",
)

GCP_RDMA = Fabric(
    name="gcp-rdma",
    rdma=True,
    devices=(),
    environment=(
        *_BOOTSTRAP,
        _LIBRARIES,
        _pinned("gIB", _GIB),
        _vendor("NCCL_CROSS_NIC", "0", "rails do not reach each other on one hop", _GIB),
        _vendor("NCCL_NET_GDR_LEVEL", "PIX", "each GPU has its NIC below the same switch", _GIB),
        _vendor("NCCL_P2P_NET_CHUNKSIZE", "131072", "what gIB was tuned with", _GIB),
        _vendor("NCCL_NVLS_CHUNKSIZE", "524288", "what gIB was tuned with", _GIB),
        _vendor("NCCL_IB_ADAPTIVE_ROUTING", "1", "the fabric reorders packets", _GIB),
        _vendor("NCCL_IB_QPS_PER_CONNECTION", "4", "several paths for each connection", _GIB),
        _vendor("NCCL_IB_TC", "52", "the traffic class that Google's fabric treats as RDMA", _GIB),
        _vendor("NCCL_IB_FIFO_TC", "84", "the class of NCCL's own control messages", _GIB),
    ),
    userspace=(
        "libibverbs.so.1 and libmlx5 (rdma-core), which gIB opens at run time",
        "gIB, mounted from the node at /usr/local/gib",
    ),
    proofs=(r"NET/gIB : Initializing gIB", r"via NET/gIB/\d+"),
    gpudirect=_GDRDMA,
    not_set=MappingProxyType(
        {
            "NCCL_IB_GID_INDEX": "NCCL >= 2.21 finds the GID itself",
            "NCCL_IB_HCA": "a pod has the eight RDMA networks of its annotation and no other",
            "NCCL_DMABUF_ENABLE": _ITSELF["NCCL_DMABUF_ENABLE"],
        }
    ),
    qos=False,
    link_layer="Ethernet",
    source="Google Cloud documentation, AI Hypercomputer: NCCL/gIB; gpu-recipes training/a3ultra",
)

TCPX = Fabric(
    name="tcpx",
    rdma=False,
    devices=(),
    environment=(
        *_BOOTSTRAP,
        _vendor(
            "LD_LIBRARY_PATH",
            "/usr/local/nvidia/lib64",
            "the plugin and its NCCL are the node's, mounted",
            _TCPX,
        ),
        _pinned(
            "GPUDirectTCPX_v7",
            "the network's name as plugin 3.1 reports it (`Using network GPUDirectTCPX_v7`)",
        ),
        _vendor(
            "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "{rails}", "the four GPU NICs and no other", _TCPX
        ),
        _vendor("NCCL_GPUDIRECTTCPX_CTRL_DEV", "{bootstrap}", "control stays off the rails", _TCPX),
        _vendor(
            "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX",
            "/run/tcpx",
            "where the receive daemon beside the container listens",
            _TCPX,
        ),
        _vendor("NCCL_GPUDIRECTTCPX_FORCE_ACK", "0", "what the plugin was tuned with", _TCPX),
        _vendor(
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
            "1000000",
            "flow steering is programmed before data flows",
            _TCPX,
        ),
        _vendor("NCCL_CROSS_NIC", "0", "one VPC a rail: rails do not reach each other", _TCPX),
        _vendor(
            "NCCL_ALGO", "Ring", "the only algorithm that the plugin was validated with", _TCPX
        ),
        _vendor("NCCL_PROTO", "Simple", "the LL protocols need ordering TCPX has not", _TCPX),
        _vendor("NCCL_NSOCKS_PERTHREAD", "4", "what the plugin was tuned with", _TCPX),
        _vendor("NCCL_SOCKET_NTHREADS", "1", "what the plugin was tuned with", _TCPX),
        _vendor("NCCL_DYNAMIC_CHUNK_SIZE", "524288", "what the plugin was tuned with", _TCPX),
        _vendor("NCCL_P2P_NET_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPX),
        _vendor("NCCL_P2P_PCI_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPX),
        _vendor("NCCL_P2P_NVL_CHUNKSIZE", "1048576", "what the plugin was tuned with", _TCPX),
        _vendor("NCCL_NET_GDR_LEVEL", "PIX", "a GPU uses the NIC below its own switch", _TCPX),
        _vendor("NCCL_P2P_PXN_LEVEL", "0", "no relay through a neighbour's NIC", _TCPX),
    ),
    userspace=("the TCPX plugin, mounted from the node at /usr/local/nvidia/lib64",),
    proofs=(r"NET/GPUDirectTCPX", r"via NET/GPUDirectTCPX[^/ ]*/\d+"),
    not_set=MappingProxyType(
        {
            "NCCL_GPUDIRECTTCPX_TX_BINDINGS": "core numbers of one VM shape; unverified here, and "
            "the plugin runs without",
            "NCCL_GPUDIRECTTCPX_RX_BINDINGS": "core numbers of one VM shape; unverified here, and "
            "the plugin runs without",
            "NCCL_MIN_NCHANNELS": "published files disagree (8 and 12); measure on the cluster",
        }
    ),
    qos=False,
    link_layer=None,
    source="container-engine-accelerators, gpudirect-tcpx",
)

TCPXO = Fabric(
    name="tcpxo",
    rdma=False,
    devices=(),
    environment=(
        *_BOOTSTRAP,
        _vendor(
            "LD_LIBRARY_PATH",
            "/usr/local/nvidia/lib64",
            "the plugin and its NCCL are the node's, mounted",
            _TCPXO,
        ),
        _pinned("FasTrak", "the network's name as the plugin reports it (`Using network FasTrak`)"),
        _vendor("NCCL_FASTRAK_CTRL_DEV", "{bootstrap}", "control stays off the rails", _TCPXO),
        _vendor("NCCL_FASTRAK_IFNAME", "{rails}", "the eight GPU NICs and no other", _TCPXO),
        _vendor(
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY",
            "/dev/aperture_devices",
            "where the apertures of the NICs are mounted",
            "container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml",
        ),
        _vendor("NCCL_FASTRAK_NUM_FLOWS", "2", "what the plugin was tuned with", _TCPXO),
        _vendor("NCCL_FASTRAK_USE_SNAP", "1", "the offload engine instead of kernel TCP", _TCPXO),
        _vendor("NCCL_FASTRAK_USE_LLCM", "1", "low-latency messages by the aperture", _TCPXO),
        _vendor(
            "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0", "what the plugin was tuned with", _TCPXO
        ),
        _vendor(
            "NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS",
            "600000",
            "peers' pods may start minutes apart",
            _TCPXO,
        ),
        _vendor("NCCL_CROSS_NIC", "0", "one VPC a rail: rails do not reach each other", _TCPXO),
        _vendor("NCCL_ALGO", "Ring,Tree", "NVLS is not supported by the plugin", _TCPXO),
        _vendor("NCCL_PROTO", "Simple", "the profile without LL128", _TCPXO),
        _vendor("NCCL_NVLS_ENABLE", "0", "NVLS is not supported by the plugin", _TCPXO),
        _vendor("NCCL_MIN_NCHANNELS", "4", "what the plugin was tuned with", _TCPXO),
        _vendor("NCCL_DYNAMIC_CHUNK_SIZE", "524288", "what the plugin was tuned with", _TCPXO),
        _vendor("NCCL_P2P_NET_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPXO),
        _vendor("NCCL_P2P_PCI_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPXO),
        _vendor("NCCL_P2P_NVL_CHUNKSIZE", "1048576", "what the plugin was tuned with", _TCPXO),
        _vendor("NCCL_BUFFSIZE", "8388608", "what the plugin was tuned with", _TCPXO),
        _vendor("NCCL_NET_GDR_LEVEL", "PIX", "a GPU uses the NIC below its own switch", _TCPXO),
        _vendor(
            "NCCL_TUNER_PLUGIN",
            "libnccl-tuner.so",
            "the tables of this network's own tuner",
            _TCPXO,
        ),
        _vendor(
            "NCCL_TUNER_CONFIG_PATH",
            "/usr/local/nvidia/lib64/a3plus_tuner_config.textproto",
            "the tables of this network's own tuner",
            _TCPXO,
        ),
        _vendor(
            "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
            "/usr/local/nvidia/lib64/a3plus_guest_config.textproto",
            "the plugin's own check that these variables belong together",
            _TCPXO,
        ),
    ),
    userspace=("the TCPXO plugin, mounted from the node at /usr/local/nvidia/lib64",),
    proofs=(r"NET/FasTrak", r"via NET/FasTrak/\d+"),
    not_set=MappingProxyType(
        {"NCCL_IB_HCA": "the NICs are no RDMA devices; `NET/IB : No device found` is normal here"}
    ),
    qos=False,
    link_layer=None,
    source="container-engine-accelerators, gpudirect-tcpxo; gpu-recipes",
)

ETHERNET = Fabric(
    name="ethernet",
    rdma=False,
    devices=(),
    environment=(
        *_BOOTSTRAP,
        Variable(
            name="NCCL_NET",
            value="Socket",
            reason="TCP is what this fabric is, and says so: no RDMA device that a pod happens to "
            "see makes ranks disagree on the transport",
            source=_NET_CC,
        ),
    ),
    userspace=(),
    proofs=(r"via NET/Socket/\d+",),
    not_set=MappingProxyType(
        {
            "NCCL_IB_DISABLE": "NCCL_NET=Socket says it without a switch that hides devices",
            "NCCL_NSOCKS_PERTHREAD": "NCCL chooses by the NIC and the cloud",
        }
    ),
    qos=False,
    link_layer=None,
    source="NCCL source",
)

FABRICS: Mapping[str, Fabric] = MappingProxyType(
    {f.name: f for f in (INFINIBAND, ROCE, EFA, GCP_RDMA, TCPX, TCPXO, ETHERNET)}
)

_IPC_LOCK = Capability(
    name="IPC_LOCK",
    reason="registering memory with the HCA pins it, and a pod cannot raise its memlock "
    "limit; not needed where the container runtime's limit is infinite",
    source=_RECIPES,
)
_NO_VERBS = "the plugin registers no memory through verbs: nothing in the pod is locked"
_OPERATOR = "NVIDIA network operator documentation, 26.4: "


def _virtual_function(source: str) -> DeviceResource:
    return DeviceResource(name="{resource}", scope="rail", per_pod=1, per_node=0, source=source)


def _nvidia(mount: str, container: str, source: str) -> HostPath:
    return HostPath(
        name="nvidia",
        host="/home/kubernetes/bin/nvidia/lib64",
        mount=mount,
        container=container,
        read_only=True,
        reason="GKE keeps the driver's libraries and the NCCL plugin on the node",
        source=source,
    )


_GIB_PATH = HostPath(
    name="gib",
    host="/home/kubernetes/bin/gib",
    mount="/usr/local/gib",
    container="trainer",
    read_only=True,
    reason="the plugin is installed on the node and belongs to its driver",
    source="container-engine-accelerators, gpudirect-rdma/nccl-test.yaml",
)
_RDMA_TEST = "container-engine-accelerators, gpudirect-rdma/nccl-test.yaml"
_MANAGED_TEST = "container-engine-accelerators, gpudirect-rdma/nccl-test-managed-rdma.yaml"
_TCPX_TEST = (
    "container-engine-accelerators, gpudirect-tcpx/nccl-test-unprivileged-without-hostnetwork.yaml"
)
_TCPXO_TEST = "container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml"


def _daemon_paths(daemon: str, source: str) -> tuple[HostPath, ...]:
    reason = "the daemon reads the NICs' queues and settings of the node"
    return (
        _nvidia("/usr/local/nvidia/lib64", daemon, source),
        HostPath(
            name="sys",
            host="/sys",
            mount="/hostsysfs",
            container=daemon,
            read_only=False,
            reason=reason,
            source=source,
        ),
        HostPath(
            name="proc-sys",
            host="/proc/sys",
            mount="/hostprocsysfs",
            container=daemon,
            read_only=False,
            reason=reason,
            source=source,
        ),
    )


_MODES = (
    Mode(
        name=ModeName.RDMA_SHARED,
        fabrics=frozenset({"roce", "infiniband"}),
        platforms=frozenset({"lab", "existing"}),
        summary="every pod opens the node's HCAs through the RDMA shared device plugin; on RoCE a "
        "macvlan interface a rail gives it addresses, and so GIDs, of its own",
        attachment="multus",
        bootstrap="rails",
        devices=(
            DeviceResource(
                name="{resource}",
                per_pod=1,
                per_node=63,
                source=ROCE.devices[0].source,
            ),
        ),
        capabilities=(_IPC_LOCK,),
        operators=("network",),
        hcas=True,
        source=f"{_OPERATOR}RDMA shared device plugin with macvlan",
    ),
    Mode(
        name=ModeName.SRIOV_ROCE,
        fabrics=frozenset({"roce"}),
        platforms=frozenset({"existing"}),
        summary="a virtual function of each rail's NIC moves into the pod, its RDMA device with it",
        attachment="multus",
        bootstrap="rails",
        devices=(
            _virtual_function(
                f"{_OPERATOR}SriovNetworkNodePolicy: the SR-IOV device plugin advertises "
                "nvidia.com/<resourceName>, one for each virtual function"
            ),
        ),
        capabilities=(_IPC_LOCK,),
        operators=("network", "sriov"),
        source=f"{_OPERATOR}SR-IOV network with RDMA",
    ),
    Mode(
        name=ModeName.SRIOV_IB,
        fabrics=frozenset({"infiniband"}),
        platforms=frozenset({"existing"}),
        summary="a virtual function of each rail's HCA moves into the pod, with a GUID of its own",
        attachment="multus",
        bootstrap="pod",
        devices=(
            _virtual_function(
                f"{_OPERATOR}SriovNetworkNodePolicy with linkType ib: nvidia.com/<resourceName>"
            ),
        ),
        capabilities=(_IPC_LOCK,),
        operators=("network", "sriov"),
        source=f"{_OPERATOR}SR-IOV InfiniBand network with RDMA",
    ),
    Mode(
        name=ModeName.HOST_DEVICE,
        fabrics=frozenset({"roce", "infiniband"}),
        platforms=frozenset({"lab", "existing"}),
        summary="the whole NIC of each rail moves into the pod: one pod a node, nothing in between",
        attachment="multus",
        bootstrap="pod",
        devices=(
            _virtual_function(
                f"{_OPERATOR}HostDeviceNetwork: the SR-IOV device plugin advertises "
                "nvidia.com/<resourceName>, one for each device that its selector matches"
            ),
        ),
        capabilities=(_IPC_LOCK,),
        operators=("network",),
        source=f"{_OPERATOR}HostDevice network",
    ),
    Mode(
        name=ModeName.IPOIB,
        fabrics=frozenset({"infiniband"}),
        platforms=frozenset({"existing"}),
        summary="every pod opens the node's HCAs through the RDMA shared device plugin; an IPoIB "
        "interface a rail gives it addresses on the fabric",
        attachment="multus",
        bootstrap="rails",
        devices=(
            DeviceResource(
                name="{resource}",
                per_pod=1,
                per_node=63,
                source=ROCE.devices[0].source,
            ),
        ),
        capabilities=(_IPC_LOCK,),
        operators=("network",),
        hcas=True,
        source=f"{_OPERATOR}IP over InfiniBand with RDMA shared device plugin",
    ),
    Mode(
        name=ModeName.EFA,
        fabrics=frozenset({"efa"}),
        platforms=frozenset({"aws", "existing"}),
        summary="the EFA device plugin, or AWS' DRA driver, gives the pod its share of the "
        "instance's EFA devices; they need no address",
        attachment="none",
        bootstrap="pod",
        devices=(
            DeviceResource(
                name="vpc.amazonaws.com/efa",
                scope="nic",
                per_pod=1,
                per_node=0,
                source="aws-efa-k8s-device-plugin: one for each EFA device of the instance",
            ),
        ),
        unprivileged="EKS's node images set the container runtime's memlock limit to unlimited, and"
        " the published EFA manifests add no capability",
        operators=("efa",),
        # libfabric's EFA provider takes 2 MiB pages for the bounce buffers of each device.
        hugepages_mib=160,
        source="Amazon EKS user guide, machine learning training with EFA: hugepages-2Mi 5120Mi "
        "beside the 32 devices of a p5.48xlarge, which is 160 MiB a device",
    ),
    Mode(
        name=ModeName.GCP_RDMA,
        fabrics=frozenset({"gcp-rdma"}),
        platforms=frozenset({"gcp", "existing"}),
        summary="GKE's multi-networking moves the node's RDMA interfaces into the pod, one a rail",
        attachment="gke",
        bootstrap="pod",
        unprivileged="the pod has the devices to itself and GKE's runtime sets no memlock limit; "
        "the published A4 test manifest dropped the capability (container-engine-accelerators "
        "#467)",
        operators=("gke",),
        host_paths=(
            _nvidia("/usr/local/nvidia/lib64", "trainer", _RDMA_TEST),
            _GIB_PATH,
        ),
        source=_RDMA_TEST,
    ),
    Mode(
        name=ModeName.TCPXO,
        fabrics=frozenset({"tcpxo"}),
        platforms=frozenset({"gcp", "existing"}),
        summary="a daemon beside the trainer receives into GPU memory over eight gVNIC networks",
        attachment="gke",
        bootstrap="pod",
        unprivileged=_NO_VERBS,
        operators=("gke",),
        host_paths=(
            _nvidia("/usr/local/nvidia/lib64", "trainer", _TCPXO_TEST),
            HostPath(
                name="aperture-devices",
                host="/dev/aperture_devices",
                mount="/dev/aperture_devices",
                container="trainer",
                read_only=False,
                reason="the plugin writes to the NICs' apertures directly",
                source=_TCPXO_TEST,
            ),
            *_daemon_paths("tcpxo-daemon", _TCPXO_TEST),
        ),
        source=_TCPXO_TEST,
    ),
    Mode(
        name=ModeName.TCPX,
        fabrics=frozenset({"tcpx"}),
        platforms=frozenset({"gcp", "existing"}),
        summary="a daemon beside the trainer receives into GPU memory over four gVNIC networks",
        attachment="gke",
        bootstrap="pod",
        capabilities=(
            Capability(
                name="IPC_LOCK",
                reason="the plugin pins the buffers that it shares with the daemon",
                source=_TCPX_TEST,
            ),
        ),
        operators=("gke",),
        host_paths=(
            _nvidia("/usr/local/nvidia/lib64", "trainer", _TCPX_TEST),
            *_daemon_paths("tcpx-daemon", _TCPX_TEST),
        ),
        source=_TCPX_TEST,
    ),
    Mode(
        name=ModeName.DRANET,
        fabrics=frozenset({"gcp-rdma", "roce", "infiniband"}),
        platforms=frozenset({"gcp", "existing"}),
        summary="a ResourceClaim moves the NICs into the pod: GKE's managed DRANET, or the dranet "
        "driver on any other cluster",
        attachment="claim",
        bootstrap="pod",
        # GKE's runtime sets no memlock limit; other clusters' may.
        capabilities=(replace(_IPC_LOCK, fabrics=frozenset({"roce", "infiniband"})),),
        operators=("dranet",),
        host_paths=(
            replace(
                _nvidia("/usr/local/nvidia/lib64", "trainer", _MANAGED_TEST),
                fabrics=frozenset({"gcp-rdma"}),
            ),
            replace(_GIB_PATH, fabrics=frozenset({"gcp-rdma"}), source=_MANAGED_TEST),
        ),
        source="container-engine-accelerators, gpudirect-rdma/nccl-test-managed-rdma.yaml; dranet "
        "1.4, the driver's own documentation",
    ),
    Mode(
        name=ModeName.NONE,
        fabrics=frozenset({"ethernet"}),
        platforms=frozenset({"lab", "existing", "aws", "gcp"}),
        summary="no fabric beside the pod network: TCP, said openly",
        attachment="none",
        bootstrap="pod",
        unprivileged="sockets lock no memory",
        source="NCCL source",
    ),
)

MODES: Mapping[str, Mode] = MappingProxyType({m.name.value: m for m in _MODES})


@dataclass(frozen=True, kw_only=True)
class Addition:
    """What some instance types need beside their fabric's environment."""

    fabric: str
    machines: tuple[str, ...]
    environment: tuple[Variable, ...]


_TUNER = "the tables that Google tuned for this machine"
_OCI = (
    "oracle-quickstart/oci-hpc-oke, docs/recommended-nccl-rccl-parameters-by-shape.md, which also "
    "sets NCCL_IB_GID_INDEX=3, against NVIDIA's advice for NCCL >= 2.21"
)
_AZURE = "Azure/ai-infrastructure-on-azure, infrastructure_validations: hopper.conf, AKS chart"
_OCI_SHAPES = (
    "BM.GPU4.8",
    "BM.GPU.B4.8",
    "BM.GPU.A100-v2.8",
    "BM.GPU.H100.8",
    "BM.GPU.H200.8",
    "BM.GPU.B200.8",
)
_OCI_A100 = ("BM.GPU4.8", "BM.GPU.B4.8", "BM.GPU.A100-v2.8")
_NDV5 = ("Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5")

#: By instance type; a machine that the catalogue does not have is not harmed by a row.
ADDITIONS: tuple[Addition, ...] = (
    Addition(
        fabric="gcp-rdma",
        machines=("a3-ultragpu-8g",),
        environment=(
            _vendor(
                "NCCL_TUNER_CONFIG_PATH",
                "/usr/local/gib/configs/tuner_config_a3u.txtpb",
                _TUNER,
                _GIB,
            ),
        ),
    ),
    Addition(
        fabric="gcp-rdma",
        machines=("a4-highgpu-8g",),
        environment=(
            _vendor(
                "NCCL_TUNER_CONFIG_PATH",
                "/usr/local/gib/configs/tuner_config_a4.txtpb",
                _TUNER,
                _GIB,
            ),
        ),
    ),
    Addition(
        fabric="roce",
        machines=_OCI_SHAPES,
        environment=(
            _vendor("NCCL_IB_TC", "41", "the class that OCI's switches carry as RDMA", _OCI),
            _vendor("NCCL_IB_SPLIT_DATA_ON_QPS", "0", "whole messages on each queue pair", _OCI),
        ),
    ),
    Addition(
        fabric="roce",
        machines=_OCI_A100,
        environment=(
            _vendor("NCCL_IB_QPS_PER_CONNECTION", "4", "several paths for each connection", _OCI),
        ),
    ),
    Addition(
        fabric="infiniband",
        machines=_NDV5,
        environment=(
            _vendor(
                "NCCL_TOPO_FILE",
                "/opt/microsoft/ndv5-topo.xml",
                "the hypervisor hides which NIC is near which GPU; Azure's images have the file, "
                "others need it copied in (fabric.topology_file says where)",
                _AZURE,
            ),
            _vendor("NCCL_IB_QPS_PER_CONNECTION", "4", "several paths for each connection", _AZURE),
        ),
    ),
)


def environment_of(fabric: str, machine: str) -> tuple[Variable, ...]:
    """The variables of a fabric on an instance type, the machine's own last."""
    own = tuple(
        variable
        for addition in ADDITIONS
        if addition.fabric == fabric and machine in addition.machines
        for variable in addition.environment
    )
    return FABRICS[fabric].environment + own


def modes_of(fabrics: frozenset[str], platform: str) -> tuple[str, ...]:
    """The modes that a machine with these fabrics can be used with on a platform."""
    return tuple(
        mode.name.value
        for mode in MODES.values()
        if mode.fabrics & fabrics and platform in mode.platforms
    )
