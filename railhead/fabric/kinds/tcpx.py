"""Google's GPUDirect-TCPX."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.versions import PARTS
from railhead.fabric.kind import FabricKind
from railhead.fabric.plugin import NodePlugin, PluginDaemon, Qualified
from railhead.fabric.variables import (
    BOOTSTRAP,
    pinned,
    vendor,
)

_TCPX = "container-engine-accelerators, gpudirect-tcpx/README.md, Jun 22, 2026"
PLUGIN = NodePlugin(
    name="tcpx",
    installer=PARTS["nccl-tcpx"].images[0],
    accelerators=("nvidia-h100-80gb",),
    qualified=Qualified(
        plugin="v3.1.12",
        daemon="v2.0.15",
        # elideng-sg/hypercomputer-internode-deepdive, lab-18, ran it on 580.159.04; Google names
        # no branch.
        driver=None,
        # No run with CUDA 13 is known.
        cuda=12,
        nccl="2.19.4",
        source=_TCPX,
    ),
    # Without the NCCL 2.19 that comes with it: found before the image's own, it lacks what programs
    # that were built with 2.23 and newer ask for (ncclCommInitRankScalable), and they do not load.
    # The image's NCCL loads the plugin by its interface v7 (NVIDIA/nccl, src/plugin/net/
    # net_v7.cc); a public log of such nodes has it under NCCL 2.28, with 16.7 GB/s between two.
    script="""/scripts/container_entry.sh install --install-nccl
rm -f /var/lib/tcpx/lib64/libnccl.so*
mkdir -p /usr/local/nvidia/lib64
cp -r --remove-destination /var/lib/tcpx/lib64/. /usr/local/nvidia/lib64
""",
    # Where an earlier version left it.
    prepare="rm -f /home/kubernetes/bin/nvidia/lib64/libnccl.so*",
    mounts=(("/var/lib", "/var/lib"), ("/home/kubernetes/bin", "/usr/local")),
    daemon=PluginDaemon(
        name="tcpx-daemon",
        image=PARTS["nccl-tcpx"].images[1],
        command=(
            "/tcpgpudmarxd/build/app/tcpgpudmarxd",
            "--gpu_nic_preset",
            "a3vm",
            "--gpu_shmem_type",
            "fd",
            "--uds_path",
            "/run/tcpx",
            "--setup_param",
            "--verbose 128 2 0 ",
        ),
        capabilities=("NET_ADMIN",),
        devices=(),
        shared=(("tcpx-socket", "/run/tcpx"),),
        # The last that it opens, after those of the GPUs (google/tcpgpudmarxd, app/tcpgpudmarxd.cu
        # and src/rx_rule_manager.cc, v2.0.14). A rank that comes before ends: the plugin asks once
        # (google/nccl-plugin-gpudirecttcpx, src/gpu/cuda_wrapper.cu: gpu_rx_init_internal).
        started=("test", "-S", "/run/tcpx/rx_rule_manager"),
        source="container-engine-accelerators, gpudirect-tcpx/"
        "nccl-test-unprivileged-without-hostnetwork.yaml",
    ),
    injector=True,
    libraries=("nvidia/lib64/libnccl-net.so",),
    # The first left an NCCL.
    revision=2,
    source="container-engine-accelerators, gpudirect-tcpx/nccl-tcpx-installer.yaml; v3.1.12 and "
    "not `latest`, which is of 2023",
)


FABRIC = FabricKind(
    name="tcpx",
    rdma=False,
    counted=True,
    environment=(
        *BOOTSTRAP,
        vendor(
            "LD_LIBRARY_PATH",
            "/usr/local/nvidia/lib64",
            "the plugin is the node's, mounted",
            _TCPX,
        ),
        pinned(
            "GPUDirectTCPX_v7",
            "the network's name as plugin 3.1 reports it (`Using network GPUDirectTCPX_v7`)",
        ),
        vendor(
            "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "{rails}", "the four GPU NICs and no other", _TCPX
        ),
        vendor("NCCL_GPUDIRECTTCPX_CTRL_DEV", "{bootstrap}", "control stays off the rails", _TCPX),
        vendor(
            "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX",
            "/run/tcpx",
            "where the receive daemon beside the container listens",
            _TCPX,
        ),
        vendor(
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
            "500000",
            "flow steering is programmed before data flows",
            _TCPX,
        ),
        vendor("NCCL_CROSS_NIC", "0", "one VPC a rail: rails do not reach each other", _TCPX),
        vendor("NCCL_ALGO", "Ring,Tree", "what the plugin was validated with", _TCPX),
        vendor("NCCL_PROTO", "Simple", "the LL protocols need ordering TCPX has not", _TCPX),
        vendor("NCCL_BUFFSIZE", "4194304", "what the plugin was tuned with", _TCPX),
        vendor(
            "NCCL_GPUDIRECTTCPX_TX_BINDINGS",
            "{rail0}:8-21,112-125;{rail1}:8-21,112-125;{rail2}:60-73,164-177;{rail3}:60-73,164-177",
            "cores of the NIC's own socket send",
            _TCPX,
        ),
        vendor(
            "NCCL_GPUDIRECTTCPX_RX_BINDINGS",
            "{rail0}:22-35,126-139;{rail1}:22-35,126-139;{rail2}:74-87,178-191;{rail3}:74-87,178-191",
            "cores of the NIC's own socket receive",
            _TCPX,
        ),
        vendor("NCCL_NSOCKS_PERTHREAD", "4", "what the plugin was tuned with", _TCPX),
        vendor("NCCL_SOCKET_NTHREADS", "1", "what the plugin was tuned with", _TCPX),
        vendor("NCCL_DYNAMIC_CHUNK_SIZE", "524288", "what the plugin was tuned with", _TCPX),
        vendor("NCCL_P2P_NET_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPX),
        vendor("NCCL_P2P_PCI_CHUNKSIZE", "524288", "what the plugin was tuned with", _TCPX),
        vendor("NCCL_P2P_NVL_CHUNKSIZE", "1048576", "what the plugin was tuned with", _TCPX),
        vendor("NCCL_NET_GDR_LEVEL", "PIX", "a GPU uses the NIC below its own switch", _TCPX),
        vendor("NCCL_P2P_PXN_LEVEL", "0", "no relay through a neighbour's NIC", _TCPX),
    ),
    userspace=("the TCPX plugin, mounted from the node at /usr/local/nvidia/lib64",),
    proofs=(r"NET/GPUDirectTCPX", r"via NET/GPUDirectTCPX[^/ ]*/\d+"),
    not_set=MappingProxyType(
        {
            "NCCL_GPUDIRECTTCPX_FORCE_ACK": "of profiles before 3.1.12",
            "NCCL_MIN_NCHANNELS": "of profiles before 3.1.12, which disagree (8 and 12)",
        }
    ),
    plugin=PLUGIN,
    source=_TCPX,
)
