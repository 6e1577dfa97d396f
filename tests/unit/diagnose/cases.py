"""Every cause from both sides: what must raise it, and a similar run that must not.

Lines are written from the formats of the named sources; hosts and addresses are made up.
"""

from __future__ import annotations

from dataclasses import dataclass

from railhead.framework.programs.world import wrong_launch, wrong_meeting, wrong_world


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A log and what else was observed."""

    log: str = ""
    observed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """``named`` says whether ``fires`` must be sure enough to be called the cause."""

    fires: Seen
    silent: Seen
    named: bool = True


# A healthy run over InfiniBand with GPUDirect, two hosts.
IB_OK = """\
worker-0:21:21 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
worker-0:21:21 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.10<0>
worker-1:21:21 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.11<0>
worker-0:21:21 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
worker-0:21:21 [0] NCCL INFO NCCL version 2.23.4+cuda12.4
worker-1:21:21 [0] NCCL INFO NCCL version 2.23.4+cuda12.4
worker-0:21:30 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.10<0>
worker-0:21:30 [0] NCCL INFO Using network IB
worker-0:21:30 [0] NCCL INFO DMA-BUF is available on GPU device 0
worker-0:21:30 [0] NCCL INFO GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 4), read 1
worker-0:21:30 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 7 > 4)
worker-0:21:30 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
worker-0:21:30 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
worker-1:21:30 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA
worker-1:21:30 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0/GDRDMA
worker-0:21:30 [0] NCCL INFO Connected all rings
worker-0:21:30 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 18000 commId 0x9 - Init COMPLETE
worker-1:21:30 [0] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 18000 commId 0x9 - Init COMPLETE
"""  # noqa: E501 - lines of logs are as long as they are
# A healthy run on one host of a cluster without RDMA: everything goes over NVLink.
ONE_NODE_OK = """\
gpu-1:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.10<0>
gpu-1:7:7 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
gpu-1:7:7 [0] NCCL INFO Failed to open libibverbs.so[.1]
gpu-1:7:7 [0] NCCL INFO NET/IB : No device found.
gpu-1:7:7 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.10<0>
gpu-1:7:7 [0] NCCL INFO Using network Socket
gpu-1:7:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
gpu-1:7:9 [1] NCCL INFO comm 0x2 rank 1 nRanks 2 nNodes 1 localRanks 2 localRank 1 MNNVL 0
gpu-1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
gpu-1:7:9 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM
gpu-1:7:9 [0] NCCL INFO Connected all rings
gpu-1:7:9 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 18000 - Init COMPLETE
"""  # noqa: E501 - lines of logs are as long as they are
EFA_OK = """\
w-0:21:21 [0] NCCL INFO Bootstrap : Using eth0:10.11.13.106<0>
w-0:21:21 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.0
w-0:21:21 [0] NCCL INFO NET/OFI Using Libfabric version 1.22
w-0:21:21 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)
w-0:21:21 [0] NCCL INFO Using network Libfabric
w-0:21:30 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
w-0:21:30 [0] NCCL INFO Connected all rings
"""
TCPXO_OK = """\
a3-0:1:1 [0] NCCL INFO NET/FasTrak plugin: Initializing network FasTrak, version 1.0.9
a3-0:1:1 [0] NCCL INFO NET/IB : No device found.
a3-0:1:1 [0] NCCL INFO Using network FasTrak
a3-0:1:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/FasTrak/0/GDRDMA
a3-0:1:9 [0] NCCL INFO Connected all rings
"""
TORCH_OK = """\
[W socket.cpp:436] [c10d] The IPv6 network addresses of (worker-0, 29500) cannot be retrieved (gai error: -2 - Name or service not known).
[W socket.cpp:697] [c10d] The client socket cannot be initialized to connect to [worker-0]:29500 (errno: 97 - Address family not supported by protocol).
[rank0]:[W ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 0] using GPU 0 to perform barrier as devices used by this process are currently unknown.
step 100 loss 2.31
[rank0]:[W ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL.
"""  # noqa: E501 - lines of logs are as long as they are
WATCHDOG = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
    "Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, "
    "NumelOut={numel}, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
)
REFUSED = (
    "include/socket.h:403 NCCL WARN Connect to 10.148.3.247<56821> failed : Connection refused"
)
RETRY = (
    "transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with "
    "error "
    "12, opcode 0, len 0, vendor err 129 (Recv)"
)
TABLE = """\
#  Rank  0 Group  0 Pid     21 on worker-0 device  0 [0x3e] NVIDIA L4
#  Rank  1 Group  0 Pid     21 on worker-1 device  0 [0x3c] NVIDIA L4
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  1073741824     268435456     float     sum      -1   6426.3  167.09  313.29      0   6426.1  167.09  313.29      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 52.9753
"""  # noqa: E501 - lines of logs are as long as they are


def watchdog(rank: int, seq: int = 7, op: str = "ALLREDUCE", numel: int = 1) -> str:
    return WATCHDOG.format(rank=rank, seq=seq, op=op, numel=numel)


def log(*lines: str) -> Seen:
    return Seen(log="\n".join(lines) + "\n")


def observed(*ids: str, log: str = "") -> Seen:
    return Seen(log=log, observed=ids)


OK = Seen(log=IB_OK)
ONE_NODE = Seen(log=ONE_NODE_OK)
TORCH = Seen(log=TORCH_OK)
EFA = Seen(log=EFA_OK)
SOCKET = """\
w-0:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
w-0:1:1 [0] NCCL INFO Using network Socket
w-0:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
"""

CASES: dict[str, Case] = {
    "rdma-device-not-in-container": Case(
        fires=log(
            "misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed",
            "NCCL INFO NET/IB : No device found.",
            "NCCL INFO Using network Socket",
        ),
        silent=ONE_NODE,
    ),
    "dev-infiniband-by-host-path": Case(
        fires=observed(
            "pod-dev-infiniband-host-path", log="NCCL WARN NET/IB : Unable to open device mlx5_0\n"
        ),
        silent=log("NCCL WARN NET/IB : Unable to open device mlx5_0"),
    ),
    "ib-disabled-by-environment": Case(
        fires=log("NCCL INFO NCCL_IB_DISABLE set by environment to 1.", SOCKET),
        silent=log("NCCL INFO NCCL_IB_DISABLE set by environment to 0.", SOCKET),
    ),
    "libibverbs-missing": Case(
        fires=log("NCCL INFO Failed to open libibverbs.so[.1]", SOCKET), silent=ONE_NODE
    ),
    "rdma-provider-abi-mismatch": Case(
        fires=log(
            "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 "
            "to 1) for device /sys/class/infiniband/bnxt_re0",
            "NCCL INFO NET/IB : No device found.",
        ),
        silent=log(
            "libibverbs: Warning: no userspace device-specific driver found for "
            "/sys/class/infiniband_verbs/uverbs9",
            IB_OK,
        ),
    ),
    "memlock-limit": Case(
        fires=log(
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
            "allocate memory"
        ),
        silent=log("max locked memory       (kbytes, -l) unlimited", IB_OK),
    ),
    "dev-shm-too-small": Case(
        fires=log(
            "misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Yab12c to "
            "33030532 "
            "bytes, error: No space left on device (28)"
        ),
        silent=log("tmpfs  64G  1.2G  63G  2% /dev/shm", ONE_NODE_OK),
    ),
    "shm-files-removed": Case(
        fires=log(
            "misc/shmutils.cc:152 NCCL WARN unlink shared memory /dev/shm/nccl-a1b2c3 failed, "
            "error: "
            "No such file or directory (2)"
        ),
        silent=ONE_NODE,
    ),
    "shm-not-shared": Case(
        fires=log(
            "misc/shmutils.cc:114 NCCL WARN Error while attaching to shared memory segment "
            "/dev/shm/nccl-aBcDeF (size 9637888), error: No such file or directory (2)"
        ),
        silent=ONE_NODE,
    ),
    "cumem-host-without-numa": Case(
        fires=log(
            "NCCL version 2.25.1+cuda12.8",
            "allocator.cc:40 NCCL WARN Cuda failure 1 'invalid argument'",
        ),
        silent=log("NCCL version 2.25.1+cuda12.8", ONE_NODE_OK),
    ),
    "open-files-limit": Case(
        fires=log("misc/socket.cc:392 NCCL WARN Call to accept failed : Too many open files"),
        silent=log("open files                          (-n) 1048576", IB_OK),
    ),
    "network-policy-or-firewall": Case(
        fires=observed(
            "netpol-blocks-peers",
            log="misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> "
            "failed "
            ": Connection timed out\n",
        ),
        silent=OK,
    ),
    "no-usable-socket-interface": Case(
        fires=log("bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found"),
        silent=log("NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0", IB_OK),
    ),
    "wrong-socket-interface": Case(
        fires=log(
            "w-0:1:1 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>",
            "misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 172.17.0.1<45763> failed "
            ": "
            "Connection refused",
        ),
        silent=log("w-0:1:1 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>", ONE_NODE_OK),
    ),
    "peer-refused-connection": Case(
        fires=log(REFUSED),
        silent=log("NCCL INFO Call to connect returned Connection refused, retrying", IB_OK),
    ),
    "service-mesh-sidecar": Case(
        fires=log(
            "2026-01-01T00:00:00.000000Z info Envoy proxy is ready",
            "w-0:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
            "w-1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>",
        ),
        silent=log("2026-01-01T00:00:00.000000Z info Envoy proxy is ready", IB_OK),
    ),
    "rendezvous-timeout": Case(
        fires=log(
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
            "1/2 "
            "clients joined."
        ),
        silent=TORCH,
    ),
    "master-address-is-localhost": Case(
        fires=log(
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
            "while "
            "trying to connect to (localhost, 29500)."
        ),
        silent=log(
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
            "while "
            "trying to connect to (worker-0, 29500)."
        ),
    ),
    "name-resolution": Case(
        fires=log("socket.gaierror: [Errno -2] Name or service not known"), silent=TORCH
    ),
    "port-in-use": Case(
        fires=log(
            "RuntimeError: The server socket has failed to listen on any local network address. "
            "The "
            "server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
        ),
        silent=TORCH,
    ),
    "gloo-advertises-loopback": Case(
        fires=log(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
            "[127.0.1.1]:27486: Connection refused"
        ),
        silent=log(
            "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peers is : 1"
        ),
    ),
    "ipv6-address-family": Case(
        fires=log(
            "w-0:1:1 [0] NCCL INFO Bootstrap : Using eth0:fe80::a00:27ff:fe4e:66a1%eth0<0>",
            "misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to "
            "fe80::a00:27ff:fe4e:66a2%eth0<45763> failed : Invalid argument",
        ),
        silent=TORCH,
    ),
    "rank-count-disagrees": Case(
        fires=log(
            "bootstrap.cc:127 NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 16"
        ),
        silent=OK,
    ),
    "ssh-launcher-failed": Case(
        fires=log("ssh: connect to host worker-1 port 22: Connection refused"),
        silent=log(
            "Warning: Permanently added 'worker-1' (ED25519) to the list of known hosts.", IB_OK
        ),
    ),
    "gid-index-wrong": Case(
        fires=log(
            "NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.",
            "misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, "
            "on "
            "dev mlx5_0:1, curr state INIT, next state RTR, local GID index 0",
        ),
        silent=log("NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.", IB_OK),
    ),
    "gid-table-unreadable": Case(
        fires=log(
            "transport/net_ib.cc:390 NCCL WARN NET/IB: read failed in ncclIbRoceGetVersionNum: "
            "Invalid argument"
        ),
        silent=log("NCCL INFO NCCL_IB_ROCE_VERSION_NUM set by environment to 2.", IB_OK),
    ),
    "gid-netdev-in-another-namespace": Case(
        fires=log("ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error No such device"),
        silent=log(
            "ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument"
        ),
    ),
    "rdma-peer-unreachable": Case(
        fires=log(
            "misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with error Network is "
            "unreachable"
        ),
        silent=OK,
    ),
    "network-not-cross-rail-connected": Case(
        fires=log(
            "misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed "
            "out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3",
            "NCCL INFO HINT: In many cases this error occurs when NICs are not cross-rail "
            "connected.",
        ),
        silent=log(
            "misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed "
            "out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3",
        ),
    ),
    "link-down-or-flapping": Case(
        fires=log(
            "transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error", RETRY
        ),
        silent=log(
            "SymbolErrorCounter:..............0",
            "LinkDownedCounter:...............0",
            "State: Active",
            IB_OK,
        ),
    ),
    "hca-fatal-error": Case(
        fires=log("NCCL WARN NET/IB : mlx5_3:1 async fatal event: local catastrophic error"),
        silent=log("NCCL WARN NET/IB : mlx5_3:1 Got async event : port active", IB_OK),
        named=False,
    ),
    "rdma-retry-exceeded": Case(
        fires=log(RETRY),
        silent=log("NCCL INFO NCCL_IB_RETRY_CNT set by environment to 7.", IB_OK),
        named=False,
    ),
    "rdma-receiver-not-ready": Case(
        fires=log(
            "NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with status=13 opcode=0 "
            "len=0 vendor err 135 (Send)"
        ),
        silent=log(RETRY),
    ),
    "rdma-remote-access-error": Case(
        fires=log(
            "NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with status="
            "IBV_WC_REM_ACCESS_ERR(10) opcode=IBV_WC_SEND(0) vendor_err=136"
        ),
        silent=log(RETRY),
        named=False,
    ),
    "acs-or-iommu": Case(
        fires=log(
            "NCCL WARN NET/IB : Got completion with error 4, opcode 0, len 32694, vendor err 81",
            "                ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+",
        ),
        silent=log(
            "                ACSCtl: SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd-", IB_OK
        ),
    ),
    "gpudirect-kernel-support-missing": Case(
        fires=log(
            "a:1:1 [0] NCCL INFO Channel 00/0 : 9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA",
            "b:1:1 [0] NCCL INFO Channel 00/0 : 9[1a000] -> 2[6b000] [receive] via NET/IB/1",
        ),
        # The default of NCCL_NET_GDR_READ on PCIe hosts: receiving with, sending without.
        silent=log(
            "a:1:1 [0] NCCL INFO Channel 00/0 : 9[1a000] -> 2[6b000] [send] via NET/IB/0",
            "b:1:1 [0] NCCL INFO Channel 00/0 : 9[1a000] -> 2[6b000] [receive] via NET/IB/1/GDRDMA",
        ),
    ),
    "gpu-nic-too-far": Case(
        fires=log("NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)"),
        silent=OK,
    ),
    "wrong-hca-selected": Case(
        fires=log(
            "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_bond_0:1/RoCE [RO]; "
            "OOB "
            "ib0:10.0.12.82<0>"
        ),
        silent=OK,
    ),
    "wrong-hca-filter": Case(
        fires=log(
            "NCCL INFO NCCL_IB_HCA set to mlx5_7",
            "NCCL INFO NET/IB : No device found.",
        ),
        silent=log("NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1", IB_OK),
        named=False,
    ),
    "topology-file-or-path": Case(
        fires=log(
            "graph/xml.cc:328 NCCL WARN Could not open XML topology file /etc/topo.xml : No such "
            "file "
            "or directory"
        ),
        silent=log("NCCL INFO NCCL_TOPO_FILE set by environment to /etc/topo.xml", IB_OK),
    ),
    "mtu-mismatch": Case(
        fires=log("ping: local error: message too long, mtu=1500"),
        silent=log("\t\t\tactive_mtu:\t\t4096 (5)", "\t\t\tactive_mtu:\t\t4096 (5)", IB_OK),
    ),
    "subnet-manager-missing": Case(
        fires=log("\t\tState: Initializing", "\t\tSM lid: 0"),
        silent=log("\t\tState: Active", "\t\tSM lid: 1", IB_OK),
    ),
    "wrong-plugin-on-infiniband": Case(
        fires=log("NCCL INFO NET/FastSocket : Using [0]ibs108:10.0.19.12<0>"),
        silent=log("NCCL INFO NET/FastSocket : Using [0]eth0:10.0.19.12<0>"),
    ),
    "efa-device-or-provider-missing": Case(
        fires=log(
            "NCCL WARN NET/OFI Could not find any optimal provider",
            "NCCL INFO Using network Socket",
        ),
        silent=EFA,
    ),
    "efa-security-group": Case(
        fires=log(
            "NCCL WARN NET/OFI Request 0x7f456c222f60 completed with error. RC: 103. Error: 4126 "
            "(Unresponsive receiver (reachable by EFA device but handshake failed)"
        ),
        silent=EFA,
    ),
    "efa-peer-lost": Case(
        fires=log(
            "NET/OFI Request 0x1 completed with error. RC: 103. Error: 13 (Unresponsive remote "
            "(was "
            "previously responsive))"
        ),
        silent=EFA,
    ),
    "efa-device-resources": Case(
        fires=log(
            "infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) comp_status 1 err -12"
        ),
        silent=EFA,
        named=False,
    ),
    "efa-without-gpudirect": Case(
        fires=log("NCCL WARN NET/OFI GDR disabled on GDR-supported instance type p5.48xlarge"),
        silent=EFA,
    ),
    "efa-libfabric-version": Case(
        fires=log("NCCL WARN NET/OFI EFA provider requires at least libfabric version 1.22.0."),
        silent=EFA,
    ),
    "efa-fork": Case(
        fires=log("OSError: os.fork(): Cannot allocate memory".replace("OSError: ", "")),
        silent=EFA,
    ),
    "ofi-plugin-on-tcp": Case(
        fires=log("NCCL INFO NET/OFI Selected Provider is tcp (found 2 nics)"), silent=EFA
    ),
    "plugin-not-found": Case(
        fires=log(
            "NCCL INFO NCCL_NET_PLUGIN set by environment to ofi",
            "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
            SOCKET,
        ),
        silent=OK,
    ),
    "plugin-does-not-load": Case(
        fires=log(
            "NCCL INFO NET/Plugin: Plugin load returned 11 : libfabric.so.1: cannot open shared "
            "object file: No such file or directory : when loading libnccl-net.so"
        ),
        silent=log(
            "NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared "
            "object file: No such file or directory : when loading libnccl-net.so",
            IB_OK,
        ),
    ),
    "forced-network-absent": Case(
        fires=log("net.cc:254 NCCL WARN Error: network AWS Libfabric not found."),
        silent=log("NCCL INFO NCCL_NET set by environment to IB", IB_OK),
    ),
    "gib-not-mounted": Case(
        fires=log("libibverbs: Warning: couldn't open config directory '/usr/local/gib/configs'."),
        silent=log("NCCL INFO NET/gIB : Initializing gIB v1.0.5", "NCCL INFO Using network gIB"),
    ),
    "gcp-settings-overridden": Case(
        fires=log("NCCL/NET (shim) Config Checker: mismatch: NCCL_CROSS_NIC expected 0, got 2"),
        silent=Seen(log=TCPXO_OK),
    ),
    "gpudirect-tcpx-stack": Case(
        fires=log(
            "tcpgpudmarxd: failed to open /dev/dmabuf_import_helper: No such file or directory"
        ),
        silent=Seen(log=TCPXO_OK),
    ),
    "driver-cuda-mismatch": Case(
        fires=log(
            "NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'"
        ),
        silent=log("NCCL INFO cudaDriverVersion 12040", IB_OK),
    ),
    "fabric-manager-not-ready": Case(
        fires=log("transport/nvls.cc:1 NCCL WARN Cuda failure 802 'system not yet initialized'"),
        silent=log("NCCL INFO NVLS multicast support is available on dev 0", IB_OK),
    ),
    "imex-not-configured": Case(
        fires=log(
            "mnnvl.cc:74 NCCL WARN MNNVL (cliqueSize 8) is available but not working on this "
            "system. "
            "Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels)."
        ),
        silent=log("NCCL INFO MNNVL 1 cliqueId 7ffe cliqueSize 8 cliqueRank 0", IB_OK),
    ),
    "gpu-not-in-container": Case(
        fires=log("RuntimeError: No CUDA GPUs are available"), silent=ONE_NODE
    ),
    "nccl-version-mismatch": Case(
        fires=log(
            "init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 0 version 22304 rank 1 "
            "version 22105"
        ),
        silent=OK,
    ),
    "duplicate-gpu": Case(
        fires=log(
            "init.cc:521 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device "
            "3e000"
        ),
        silent=ONE_NODE,
    ),
    "gpu-out-of-memory": Case(
        fires=log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        silent=log("# Reducing maxBytes to 7539021141 due to memory limitation", TABLE),
    ),
    "host-out-of-memory": Case(
        fires=log(
            "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:400000000kB"
        ),
        silent=TORCH,
    ),
    "xid-error": Case(
        fires=log("NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus."),
        silent=log("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", IB_OK),
    ),
    "cuda-program-fault": Case(
        fires=log("RuntimeError: CUDA error: an illegal memory access was encountered"),
        silent=TORCH,
    ),
    "gpu-peer-access": Case(
        fires=log(
            "transport/p2p.cc:240 NCCL WARN Cuda failure 'peer access is not supported between "
            "these "
            "two devices'"
        ),
        silent=ONE_NODE,
    ),
    "collective-mismatch": Case(
        fires=log(watchdog(0, op="ALLREDUCE", numel=4), watchdog(1, op="BROADCAST", numel=4)),
        silent=log(watchdog(0), watchdog(1)),
    ),
    "straggler": Case(
        fires=log("RuntimeError: Rank 1 failed to pass monitoredBarrier in 1800000 ms"),
        silent=log(watchdog(0), watchdog(1)),
    ),
    "a-rank-died-first": Case(
        fires=log(
            "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
            "w-1<57557>",
            "Root Cause (first observed failure):",
            "  exitcode  : -11 (pid: 4242)",
        ),
        silent=TORCH,
    ),
    "pytorch-watchdog-timeout": Case(
        fires=log(watchdog(0)),
        silent=TORCH,
        named=False,
    ),
    "stuck-with-all-ranks-present": Case(
        fires=observed("fr-stuck"),
        silent=observed("fr-stuck", "fr-missing-ranks"),
    ),
    "watchdog-thread-stuck": Case(
        fires=log(
            "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
            "monitoring enqueued collectives."
        ),
        silent=TORCH,
    ),
    "application-error": Case(
        fires=log(
            "ModuleNotFoundError: No module named 'transformers'",
            "Root Cause (first observed failure):",
            "  exitcode  : 1 (pid: 4242)",
        ),
        silent=TORCH,
    ),
    "preempted-or-cancelled": Case(
        fires=log(
            "slurmstepd: error: *** JOB 42 ON node-1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME "
            "LIMIT ***"
        ),
        silent=TORCH,
    ),
    "nccl-tests-without-mpi": Case(
        fires=log(
            "#   Rank  0 Pid   1320 on     node-b device  0 [0x00] Tesla V100-SXM2-16GB",
            "#   Rank  0 Pid   2066 on     node-a device  0 [0x00] Tesla V100-SXM2-16GB",
        ),
        silent=Seen(log=TABLE),
    ),
    "nccl-tests-single-rank": Case(
        fires=log(
            "#  Rank  0 Group  0 Pid    127 on nccl-job-worker-0 device  0 [0x00] NVIDIA A10G"
        ),
        silent=Seen(log=TABLE),
    ),
    "data-corruption": Case(fires=log("# Out of bounds values : 3 FAILED"), silent=Seen(log=TABLE)),
    "rails-unused": Case(
        fires=log(
            "w-0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB "
            "[3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "w-0:1:1 [0] NCCL INFO Using network IB",
            *(
                f"w-0:1:1 [{gpu}] NCCL INFO Channel {channel:02}/0 : {gpu}[{gpu}] -> {gpu + 8}"
                f"[{gpu}] [receive] via NET/IB/0/GDRDMA"
                for gpu in range(8)
                for channel in range(4)
            ),
        ),
        silent=log(
            "w-0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB "
            "eth0:10.0.0.1<0>",
            *(
                f"w-0:1:1 [{gpu}] NCCL INFO Channel {channel:02}/0 : {gpu}[{gpu}] -> {gpu + 8}"
                f"[{gpu}] [receive] via NET/IB/{gpu % 2}/GDRDMA"
                for gpu in range(8)
                for channel in range(4)
            ),
        ),
    ),
    "numa-nps1": Case(
        fires=log("NUMA nodes per socket: NPS1"),
        silent=log("NUMA nodes per socket: NPS4"),
        named=False,
    ),
    "gang-not-placed": Case(
        fires=log("0/4 nodes are available: 4 Insufficient rdma/rdma_shared_device_a."),
        silent=log("Successfully assigned training/demo-node-0-0 to gpu-1", IB_OK),
    ),
    "quota-not-available": Case(
        fires=log(
            "couldn't assign flavors to pod set node: insufficient unused quota for "
            "nvidia.com/gpu in "
            "flavor gpu, 8 more needed"
        ),
        silent=log("Quota reserved in ClusterQueue training, wait time since queued was 1s", IB_OK),
    ),
    "volume-not-mounted": Case(
        fires=log('Warning  FailedMount  MountVolume.SetUp failed for volume "data"'),
        silent=OK,
    ),
    "file-system-full": Case(
        fires=log("OSError: [Errno 28] No space left on device: '/checkpoints/run/epoch-0003'"),
        silent=log(
            "misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Yab12c to "
            "33030532 bytes, error: No space left on device (28)"
        ),
    ),
    "file-system-gone": Case(
        fires=log("OSError: [Errno 116] Stale file handle: '/checkpoints/run'"),
        silent=log("OSError: [Errno 107] Transport endpoint is not connected", IB_OK),
    ),
    "file-system-hangs": Case(
        fires=log(
            "railhead: claim checkpoints at /checkpoints does not answer since "
            "2026-01-02T03:04:05Z: whatever uses it waits"
        ),
        silent=log("railhead: claim checkpoints at /checkpoints is as it should be again", IB_OK),
    ),
    "pod-network-not-set-up": Case(
        fires=log(
            'Warning  FailedCreatePodSandBox  Failed to create pod sandbox: plugin type="multus" '
            "failed (add): cannot find a network-attachment-definition (rail-0)"
        ),
        silent=log(
            "Normal  AddedInterface  Add net1 [192.168.128.3/20] from training/rail-0", IB_OK
        ),
    ),
    "image-not-pulled": Case(
        fires=log('Back-off pulling image "registry.example/train:1": ImagePullBackOff'),
        silent=log('Normal  Pulled  Successfully pulled image "registry.example/train:1"', IB_OK),
    ),
    "container-keeps-failing": Case(
        fires=log(
            "Warning  BackOff  Back-off restarting failed container node in pod job-node-0-0"
        ),
        silent=OK,
    ),
    "node-lost": Case(
        fires=log("Warning  Evicted  The node was low on resource: ephemeral-storage."),
        silent=log("Normal  NodeReady  Node gpu-1 status is now: NodeReady", IB_OK),
    ),
}

# What else raises a cause: each rule that names an observation, one a line.
FURTHER: tuple[tuple[str, Seen, bool], ...] = (
    (
        "plugin-not-found",
        log(
            "NCCL INFO NCCL_NET_PLUGIN set by environment to ofi",
            "NCCL INFO NET/Plugin: Could not find: ofi libnccl-net-ofi.so",
            SOCKET,
        ),
        True,
    ),
    ("rdma-device-not-in-container", observed("pod-no-rdma-request", log=SOCKET), True),
    (
        "rdma-device-not-in-container",
        observed("node-rdma-zero", log="NCCL INFO NET/IB : No device found.\n"),
        True,
    ),
    ("rdma-device-not-in-container", observed("pod-no-rdma-request"), False),
    ("dev-shm-too-small", observed("pod-no-shm", log="  exitcode  : -7 (pid: 1)\n"), True),
    ("dev-shm-too-small", observed("pod-small-shm", log="  exitcode  : -7 (pid: 1)\n"), True),
    (
        "memlock-limit",
        observed("pod-no-ipc-lock", log="NCCL WARN Call to ibv_create_cq failed\n"),
        True,
    ),
    (
        "memlock-limit",
        log("EFA internal error: (4112) Failure to post internal receive buffers"),
        True,
    ),
    (
        "memlock-limit",
        log(
            "libfabric:1:2::efa:mr:efa_mr_regattr():632<warn> Unable to register MR: Cannot "
            "allocate memory"
        ),
        False,
    ),
    (
        "memlock-limit",
        log("ib_mlx5.c:92   UCX  ERROR mlx5dv_create_cq(cqe=1024) failed: Cannot allocate memory"),
        True,
    ),
    (
        "a-rank-died-first",
        log(
            "w-0:199:263 [2] process_err_completion:1562 NCCL WARN NET/OFI Request 0x7f08c0001d30 "
            "completed with error. RC: 5. Error: Invalid receiver queue pair number (QPN) My EFA "
            "addr: fi_addr_efa://[fe80::1]:0:657145598"
        ),
        False,
    ),
    (
        "gloo-advertises-loopback",
        log(
            "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/"
            "transport/tcp/pair.cc:152]",
            "  timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:14215",
        ),
        True,
    ),
    (
        "nccl-version-mismatch",
        log(
            "NCCL WARN ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) "
            "nor AF_INET6(10)"
        ),
        False,
    ),
    (
        "nccl-version-mismatch",
        log(
            "NCCL version 2.14.3+cuda11.7",
            "NCCL version 2.19.3+cuda12.3",
            "NCCL WARN ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) "
            "nor AF_INET6(10)",
        ),
        True,
    ),
    (
        "wrong-socket-interface",
        log(
            "n-1:1:1 [0] NCCL INFO Bootstrap : Using ib0:fe80::a288:c203:d2:aaf2%ib0<0>",
            "n-2:1:1 [0] NCCL INFO Bootstrap : Using bond0:10.7.44.2<0>",
        ),
        True,
    ),
    (
        "ipv6-address-family",
        log(
            "n-1:1:1 [0] NCCL INFO Bootstrap : Using eth0:fd00::12<0>",
            "n-2:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.7.44.2<0>",
        ),
        True,
    ),
    (
        "rank-count-disagrees",
        log("w-1:25:25 [0] init.cc:981 NCCL WARN Invalid rank requested : 2/2"),
        True,
    ),
    (
        "rank-count-disagrees",
        log(f"error: {wrong_world('2', '1', 0)}"),
        True,
    ),
    (
        "rank-count-disagrees",
        log(f"error: {wrong_launch([], '2', '1', '4')}"),
        True,
    ),
    (
        "rank-count-disagrees",
        log(f"error: {wrong_meeting(['--standalone'], {'PET_NNODES': '2', 'PET_NODE_RANK': '1'})}"),
        True,
    ),
    (
        "plugin-does-not-load",
        log(
            "n:1:1 [7] NCCL INFO NET/Plugin: Plugin load returned 2 : /lib/libc.so.6: version "
            "`GLIBC_2.32' not found (required by /usr/local/nvidia/lib64/libnccl-net.so) : when "
            "loading libnccl-net.so",
            "n:1:1 [5] net.cc:579 NCCL WARN Error: network gIB not found.",
        ),
        True,
    ),
    (
        "efa-security-group",
        log(
            "Unresponsive receiver. This error is typically caused by a peer hardware failure or "
            "incorrect inbound/outbound rules in the security group"
        ),
        False,
    ),
    ("network-policy-or-firewall", observed("netpol-blocks-peers"), False),
    ("service-mesh-sidecar", observed("pod-mesh-sidecar"), True),
    (
        "rendezvous-timeout",
        observed(
            "pods-missing",
            log="Timed out after 601 seconds waiting for clients. 1/2 clients joined.\n",
        ),
        True,
    ),
    (
        "port-in-use",
        observed("pod-host-network", log="(errno: 98 - Address already in use)\n"),
        True,
    ),
    ("efa-device-or-provider-missing", observed("pod-no-efa-request", log=SOCKET), True),
    ("gpudirect-tcpx-stack", observed("daemon-ended"), True),
    ("link-down-or-flapping", observed("node-link-condition"), True),
    ("host-out-of-memory", observed("pod-oom-killed"), True),
    ("xid-error", observed("node-gpu-unhealthy"), True),
    ("xid-error", observed("node-xid"), True),
    ("collective-mismatch", observed("fr-mismatch"), True),
    ("straggler", observed("fr-missing-ranks"), True),
    ("straggler", observed("fr-stuck", "fr-no-dump"), False),
    ("straggler", observed("ras-mismatch"), False),
    ("straggler", observed("inspector-slow-rank"), True),
    ("a-rank-died-first", observed("ras-missing-ranks"), True),
    ("a-rank-died-first", observed("pod-ended-early", log=watchdog(0) + "\n"), True),
    ("gang-not-placed", observed("event-failed-scheduling"), True),
    ("gang-not-placed", observed("node-tainted", "pods-missing"), True),
    ("quota-not-available", observed("kueue-not-admitted"), True),
    ("volume-not-mounted", observed("event-failed-mount"), True),
    ("pod-network-not-set-up", observed("event-network"), True),
    (
        "pod-network-not-set-up",
        observed("pod-no-rail-networks", log="NCCL INFO NET/IB : No device found.\n"),
        True,
    ),
    ("image-not-pulled", observed("event-image-pull"), True),
    ("container-keeps-failing", observed("event-crash-loop"), True),
    ("node-lost", observed("node-not-ready"), True),
    ("node-lost", observed("event-evicted"), True),
)

# Lines that only look like a cause, each a log of its own.
LOOK_ALIKES: tuple[tuple[str, str], ...] = (
    (
        "wrong-socket-interface",
        "NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\n"
        "NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
        "NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 busId 60 - Init COMPLETE\n"
        + watchdog(0),
    ),
    # The line is the same for whatever sends the signal.
    ("host-out-of-memory", "  exitcode  : -9 (pid: 4242)\n"),
    (
        "gpudirect-kernel-support-missing",
        "NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'enp1s0f0'\n",
    ),
    (
        "name-resolution",
        "HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded: Failed to "
        "resolve 'huggingface.co' ([Errno -2] Name or service not known)\n",
    ),
    (
        "peer-refused-connection",
        "NCCL INFO Call to connect returned Connection refused, retrying\n",
    ),
    ("a-rank-died-first", watchdog(0) + "\n  exitcode  : -6 (pid: 4242)\n"),
    (
        "preempted-or-cancelled",
        "Received Signals.SIGTERM death signal, shutting down workers\n",
    ),
    (
        "subnet-manager-missing",
        "\t\tState: Active\n\t\tSM lid: 0\n\t\tLink layer: Ethernet\n",
    ),
    (
        "wrong-hca-selected",
        RETRY + "\nNCCL INFO NET/IB : Using [0]ib0:1/IB [1]rdma0:1/RoCE [RO]\n",
    ),
    (
        "no-usable-socket-interface",
        IB_OK + "connecting to address  with family 0 is neither AF_INET(2)\n",
    ),
    (
        "libibverbs-missing",
        "NCCL WARN Failed to open libibverbs.so[.1]\nNCCL INFO Using network Socket\n",
    ),
)

HEALTHY = {
    "ib": IB_OK,
    "one-node": ONE_NODE_OK,
    "efa": EFA_OK,
    "tcpxo": TCPXO_OK,
    "torch": TORCH_OK,
    "table": TABLE,
}
