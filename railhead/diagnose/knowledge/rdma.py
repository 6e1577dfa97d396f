"""Causes on InfiniBand and RoCE: GIDs, routes, links, completions, HCAs, GPUDirect."""

from __future__ import annotations

from railhead.diagnose.model import Cause, Clue, Observation, Rule, Setting

FAMILY = "InfiniBand, RoCE and GPUDirect"
IBVWRAP = "NVIDIA/nccl src/misc/ibvwrap.cc"

CLUES = (
    Clue(
        id="ib-using",
        pattern=rb"NET/IB[A-Za-z]* ?: Using \[0\]",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/transport/net_ib/init.cc",
        example="NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    ),
    Clue(
        id="ib-mixed-link-layers",
        pattern=rb"NET/IB[A-Za-z]* ?: Using .*:\d+/IB\b.*:\d+/RoCE|"
        rb"NET/IB[A-Za-z]* ?: Using .*:\d+/RoCE.*:\d+/IB\b",
        literal=b"/RoCE",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/transport/net_ib/init.cc; stas00/ml-engineering network/debug",
        example="NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB "
        "ibp25s0:10.0.12.82<0>",
    ),
    Clue(
        id="ib-bond-beside",
        pattern=rb"NET/IB[A-Za-z]* ?: Using .*bond\w*:\d+/RoCE",
        seen="NCCL, all versions",
        source="stas00/ml-engineering network/debug",
        example="NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB "
        "ibp25s0:10.0.12.82<0>",
        literal=b"/RoCE",
    ),
    Clue(
        id="ib-incompatible-devices",
        pattern=rb"NET/IB ?: (?:Attempted to (?:connect|merge) incompatible devices|"
        rb"Remote \S+ device is incompatible with the local)",
        seen="NCCL 2.21 and newer",
        source="NVIDIA/nccl src/transport/net_ib/connect.cc",
        example="transport/net_ib.cc:1012 NCCL WARN NET/IB : Remote RoCE device is incompatible "
        "with "
        "the local [0]mlx5_0:1/IB. Try selecting NICs of only one link type using NCCL_IB_HCA",
    ),
    Clue(
        id="fastsocket-on-ib",
        pattern=rb"NET/FastSocket ?: Using \[0\]ib",
        seen="google/nccl-fastsocket",
        source="stas00/ml-engineering network/debug",
        example="NCCL INFO NET/FastSocket : Using [0]ibs108:10.0.19.12<0> [1]ibs109:10.0.19.13<0>",
    ),
    Clue(
        id="modify-qp-einval",
        pattern=rb"Call to ibv_modify_qp failed with (?:error )?(?:22 )?Invalid argument",
        seen="NCCL: `with error` to 2.23, number and GIDs from 2.24",
        source=IBVWRAP,
        example="misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with 22 Invalid "
        "argument, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3",
    ),
    Clue(
        id="modify-qp-enodata",
        pattern=rb"Call to ibv_modify_qp failed with (?:error )?(?:61 )?No data available",
        seen="NCCL, all versions",
        source=IBVWRAP,
        example="misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with error No data "
        "available",
    ),
    Clue(
        id="modify-qp-enodev",
        pattern=rb"Call to ibv_modify_qp failed with (?:error )?(?:19 )?No such device",
        seen="NCCL, all versions",
        source=IBVWRAP + "; #925",
        example="ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error No such device",
    ),
    Clue(
        id="modify-qp-unreachable",
        pattern=rb"Call to ibv_modify_qp failed with (?:error )?(?:101 )?"
        rb"(?:Network is unreachable|No route to host)",
        seen="NCCL, all versions",
        source=IBVWRAP,
        example="misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with error Network is "
        "unreachable",
    ),
    Clue(
        id="modify-qp-timeout",
        pattern=rb"Call to ibv_modify_qp failed with (?:error )?(?:110 )?Connection timed out",
        seen="NCCL, all versions",
        source=IBVWRAP,
        example="misc/ibvwrap.cc:291 NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
        "timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3",
    ),
    Clue(
        id="gid-index-set",
        pattern=rb"NCCL_IB_GID_INDEX set by environment to (?P<index>-?\d+)",
        seen="NCCL, all versions",
        source="NVIDIA/nccl NCCL_PARAM(IbGidIndex)",
        example="NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.",
    ),
    Clue(
        id="gid-link-local",
        pattern=rb"(?:localGid|local GID|remoteGids?|remote GID) ?fe80:|"
        rb"GID index \d+, local GID fe80:",
        seen="NCCL 2.20 and newer",
        source="NVIDIA/nccl src/transport/net_ib/p2p.cc",
        example="NCCL WARN NET/IB: Got completion from peer 10.0.0.1<4> with status=12 opcode=0 "
        "len=0 vendor err 129 (Send) localGid fe80::1 remoteGidsfe80::2",
    ),
    Clue(
        id="hint-gid",
        pattern=rb"HINT: In many cases this error occurs when the incorrect GID index is forced",
        seen="NCCL 2.30.7, subsystem NET",
        source=IBVWRAP,
        example="NCCL INFO HINT: In many cases this error occurs when the incorrect GID index is "
        "forced by NCCL_IB_GID_INDEX",
    ),
    Clue(
        id="hint-cross-rail",
        pattern=rb"HINT: In many cases this error occurs when NICs are not cross-rail connected",
        seen="NCCL 2.30.7, subsystem NET",
        source=IBVWRAP,
        example="NCCL INFO HINT: In many cases this error occurs when NICs are not cross-rail "
        "connected.",
    ),
    Clue(
        id="hint-acs",
        pattern=rb"HINT: In many cases this error occurs when ACS is enabled",
        seen="NCCL 2.30.7, subsystem NET",
        source="NVIDIA/nccl src/transport/net_ib/common.h",
        example="NCCL INFO HINT: In many cases this error occurs when ACS is enabled which would "
        "break GPU Direct RDMA protocol.",
    ),
    Clue(
        id="wc-retry",
        pattern=rb"Got completion.*(?:with error 12\b|status=12\b|IBV_WC_RETRY_EXC_ERR)",
        seen="NCCL: `with error 12` to 2.19, `status=12` from 2.20, the name from 2.28",
        source="NVIDIA/nccl src/transport/net_ib/p2p.cc",
        example="transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer "
        "10.2.0.5<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)",
    ),
    Clue(
        id="wc-rnr",
        pattern=rb"Got completion.*(?:with error 13\b|status=13\b|IBV_WC_RNR_RETRY_EXC_ERR)",
        seen="NCCL, as for error 12",
        source="NVIDIA/nccl src/transport/net_ib/p2p.cc; rdma-core verbs.h",
        example="NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 13, opcode "
        "0, len 0, vendor err 135",
    ),
    Clue(
        id="wc-local-protection",
        pattern=rb"Got completion.*(?:with error 4\b|status=4\b|IBV_WC_LOC_PROT_ERR)",
        seen="NCCL, as for error 12",
        source="NVIDIA/nccl src/transport/net_ib/p2p.cc; rdma-core verbs.h",
        example="NCCL WARN NET/IB : Got completion with error 4, opcode 0, len 32694, vendor err "
        "81",
    ),
    Clue(
        id="wc-local-length",
        pattern=rb"Got completion.*(?:with error [12]\b|status=[12]\b|IBV_WC_LOC_LEN_ERR|"
        rb"IBV_WC_LOC_QP_OP_ERR)",
        seen="NCCL, as for error 12",
        source="NVIDIA/nccl src/transport/net_ib/p2p.cc; rdma-core verbs.h",
        example="NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 1, opcode "
        "0, "
        "len 0, vendor err 105",
    ),
    Clue(
        id="wc-flush",
        pattern=rb"Got completion.*(?:with error 5\b|status=5\b|IBV_WC_WR_FLUSH_ERR)",
        seen="NCCL, as for error 12; always after another error",
        source="rdma-core verbs.h",
        example="NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 5, opcode "
        "0, "
        "len 0, vendor err 249",
    ),
    Clue(
        id="wc-remote-access",
        pattern=rb"Got completion.*(?:with error (?:9|10)\b|status=(?:9|10)\b|"
        rb"IBV_WC_REM_(?:ACCESS|INV_REQ)_ERR)",
        seen="NCCL, as for error 12",
        source="rdma-core verbs.h",
        example="NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 10, opcode "
        "0, len 0, vendor err 136",
    ),
    Clue(
        id="wc-remote-operation",
        pattern=rb"Got completion.*(?:with error 11\b|status=11\b|IBV_WC_REM_OP_ERR)",
        seen="NCCL, as for error 12",
        source="rdma-core verbs.h",
        example="NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 11, opcode "
        "0, len 0, vendor err 137",
    ),
    Clue(
        id="acs-on-bridge",
        pattern=rb"ACSCtl:\s*SrcValid\+|ACSCtl:.*(?:ReqRedir|CmpltRedir|UpstreamFwd)\+",
        seen="lspci -vvv",
        source="NVIDIA/nccl troubleshooting page, PCI Access Control Services; #523",
        example="                ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+",
    ),
    Clue(
        id="iommu-fault",
        pattern=rb"DMAR: (?:\[DMA|DRHD: handling fault)|AMD-Vi: Event logged \[IO_PAGE_FAULT|"
        rb"arm-smmu.*(?:fault|event 0x10)",
        seen="the kernel's log",
        source="Linux drivers/iommu",
        example="DMAR: [DMA Read] Request device [3b:00.0] fault addr 387fff000 [fault reason 06] "
        "PTE Read access is not set",
    ),
    Clue(
        id="port-error-event",
        pattern=rb"Got (?:non-fatal )?async event ?: (?:port error|lid change|client reregist)|"
        rb"Got (?:non-fatal )?async event ?: .*IBV_EVENT_PORT_ERR",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/transport/net_ib/common.cc",
        example="transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error",
    ),
    Clue(
        id="async-fatal",
        pattern=rb"async fatal event|Got async event ?: (?:local catastrophic error|device fatal)",
        seen="NCCL: named from 2.24",
        source="NVIDIA/nccl src/transport/net_ib/common.cc",
        example="NCCL WARN NET/IB : mlx5_3:1 async fatal event: local catastrophic error",
    ),
    Clue(
        id="link-down",
        pattern=rb"mlx5_core \S+ \S+: Link down|mlx5_core.*Port module event.*: (?:module \d+, )?"
        rb"Cable unplugged|infiniband \w+: .*(?:link|port) (?:is )?down|"
        rb"ibp?\d*\w*: link becomes? (?:not ready|down)|State:\s+Down\b|"
        rb"port_state:?\s+PORT_DOWN|Physical state:\s+(?:Polling|Disabled|LinkErrorRec)",
        seen="the kernel's log, ibstat, ibv_devinfo",
        source="Linux drivers/net/ethernet/mellanox/mlx5; infiniband-diags; rdma-core",
        example="mlx5_core 0000:5e:00.0 ens5f0np0: Link down",
    ),
    Clue(
        id="port-initializing",
        pattern=rb"State:\s+Initializing\b|PORT_INIT\b",
        seen="ibstat, ibv_devinfo",
        source="infiniband-diags; rdma-core",
        example="\t\tState: Initializing",
    ),
    Clue(
        id="gid-table-unreadable",
        pattern=rb"NET/IB ?: read failed in ncclIbRoceGetVersionNum|"
        rb"Call to (?:wrap_)?ibv_query_gid(?:_ex)? failed",
        seen="NCCL 2.21 to 2.25",
        source="NVIDIA/nccl #1573, #1538",
        example="transport/net_ib.cc:390 NCCL WARN NET/IB: read failed in ncclIbRoceGetVersionNum: "
        "Invalid argument",
    ),
    Clue(
        id="link-counters",
        pattern=rb"(?:SymbolErrorCounter|LinkDownedCounter|LinkErrorRecoveryCounter|"
        rb"PortRcvErrors|LocalLinkIntegrityErrors):\.*[1-9]|"
        rb"(?:symbol_error|link_downed|link_error_recovery|port_rcv_errors)(?:_counter)?"
        rb"[:= ]+[1-9]",
        seen="perfquery, /sys/class/infiniband/*/ports/*/counters",
        source="linux-rdma/rdma-core infiniband-diags/perfquery",
        example="SymbolErrorCounter:..............42",
    ),
    Clue(
        id="mtu-too-big",
        pattern=rb"[Ff]rag(?:mentation)? needed|Message too long|EMSGSIZE|local error: message too "
        rb"long",
        seen="ping -M do, tracepath, gloo, kernel",
        source="errno 90; iputils",
        example="ping: local error: message too long, mtu=1500",
    ),
    Clue(
        id="active-mtu",
        pattern=rb"active_mtu:\s+(?P<mtu>\d+)",
        seen="ibv_devinfo",
        source="linux-rdma/rdma-core libibverbs/examples/devinfo.c",
        example="\t\t\tactive_mtu:\t\t1024 (3)",
    ),
    Clue(
        id="queue-mtu",
        pattern=rb"IbDev \d+ Port \d+ qpn \d+ mtu (?P<mtu>\d)\b",
        seen="NCCL 2.20 and newer, subsystem NET: 3 is 1024 bytes, 5 is 4096",
        source="NVIDIA/nccl src/transport/net_ib/connect.cc",
        example="NCCL INFO NET/IB: IbDev 0 Port 1 qpn 310 mtu 3 GID 3 (0/1F07140AFFFF0000)",
    ),
    Clue(
        id="link-mtu",
        pattern=rb"^\d+: (?P<interface>(?:eth|net|ens|enp|eno|ib|rdma|bond)\w*)(?:@\w+)?: <\S+> "
        rb"mtu "
        rb"(?P<mtu>\d+)",
        seen="ip link, ip address",
        source="iproute2",
        example="4: net1@if17: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP",
    ),
    Clue(
        id="gdr-disabled-distance",
        pattern=rb"GPU Direct RDMA Disabled for GPU (?P<gpu>\w+) .*\(distance \d+ >",
        seen="NCCL to 2.29, subsystems NET or GRAPH",
        source="NVIDIA/nccl src/graph/paths.cc",
        example="NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)",
    ),
    Clue(
        id="gdr-enabled-distance",
        pattern=rb"GPU Direct RDMA Enabled for GPU (?P<gpu>\w+) .*\(distance \d+ <=",
        seen="NCCL to 2.29, subsystems NET or GRAPH",
        source="NVIDIA/nccl src/graph/paths.cc",
        example="NCCL INFO GPU Direct RDMA Enabled for GPU ca000 / HCA 0 (distance 4 <= 4), read 1",
    ),
    Clue(
        id="gdr-disabled-hca",
        pattern=rb"NET/IB\w* ?: GPU Direct RDMA Disabled for HCA",
        seen="NCCL, all versions, subsystem NET; NET/Socket says it always, and means nothing",
        source="NVIDIA/nccl src/graph/topo.cc: neither peermem nor DMA-BUF for this NIC",
        example="NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
    ),
    Clue(
        id="gdr-no-module",
        pattern=rb"GPU Direct RDMA Disabled for HCA .*\(no module\)",
        seen="nccl-rdma-sharp-plugin",
        source="Mellanox/nccl-rdma-sharp-plugins src/p2p_plugin.c",
        example="NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
    ),
    Clue(
        id="send-gdr",
        pattern=rb"-> \d+.* \[send\] +via NET/[^/]+/\S*/GDRDMA",
        literal=b"via NET/",
        seen="NCCL 2.5 and newer",
        source="NVIDIA/nccl src/transport/net.cc",
        example="NCCL INFO Channel 00/0 : 9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA",
    ),
    Clue(
        id="receive-gdr",
        pattern=rb"-> \d+.* \[receive\] +via NET/[^/]+/\S*/GDRDMA",
        literal=b"via NET/",
        seen="NCCL 2.5 and newer",
        source="NVIDIA/nccl src/transport/net.cc",
        example="NCCL INFO Channel 00/0 : 9[1a000] -> 2[6b000] [receive] via NET/IB/0/GDRDMA",
    ),
    Clue(
        id="receive-no-gdr",
        pattern=rb"-> \d+.* \[receive\] +via NET/IB/[\d()]+(?:/Shared)?$",
        literal=b"via NET/",
        seen="NCCL 2.5 and newer",
        source="NVIDIA/nccl src/transport/net.cc",
        example="NCCL INFO Channel 00/0 : 9[1a000] -> 2[6b000] [receive] via NET/IB/1",
    ),
    Clue(
        id="reg-gpu-memory-failed",
        pattern=rb"Call to ibv_reg_(?:mr\w*|dmabuf_mr) failed with error (?:Bad address|"
        rb"Operation not supported|Invalid argument)|"
        rb"NET/OFI Unable to register memory \(type = 2\)|"
        rb"peer memory.*(?:not (?:registered|loaded|found)|missing)",
        seen="NCCL, aws-ofi-nccl",
        source=IBVWRAP + "; aws-ofi-nccl src/nccl_ofi_sendrecv.cpp",
        example="misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad "
        "address",
    ),
    Clue(
        id="peermem-missing",
        pattern=rb"modprobe: (?:FATAL|ERROR): .*nvidia[-_]peermem|"
        rb"could not insert 'nvidia[-_]peermem'|"
        rb"nvidia[-_]peermem.*(?:Invalid argument|Unknown symbol|not found|disagrees)|"
        rb"nv_peer_mem.*(?:not loaded|failed|Unknown symbol)",
        seen="modprobe, the kernel's log, GPU operator",
        source="NVIDIA driver documentation, GPUDirect RDMA",
        example="modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
    ),
    Clue(
        id="topology-no-nic",
        pattern=rb"Could not find any local path from gpu|"
        rb"Could not find NET with id|Attribute \w+ of node \w+ not found|"
        rb"Could not open XML (?:topology|graph) file|XML (?:Import|Topology) .*(?:not found|wrong "
        rb"version)",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/graph/search.cc, xml.cc",
        example="graph/xml.cc:328 NCCL WARN Could not open XML topology file /etc/topo.xml : No "
        "such "
        "file or directory",
    ),
    Clue(
        id="net-count-mismatch",
        pattern=rb"Detected mixed local (?:Net|CollNet) device counts across ranks",
        seen="NCCL 2.30 and newer",
        source="NVIDIA/nccl src/init.cc",
        example="init.cc:1 NCCL WARN Detected mixed local Net device counts across ranks (min 1, "
        "max "
        "2). Set NCCL_IGNORE_NET_MISMATCH=1 to ignore",
    ),
    Clue(
        id="sm-missing",
        pattern=rb"SM lid:\s+0$|sm_lid:\s+0$|No SM found|No subnet manager",
        seen="ibstat, ibv_devinfo",
        source="infiniband-diags; NVIDIA/nccl troubleshooting page",
        example="\t\tSM lid: 0",
    ),
)

OBSERVATIONS = (
    Observation(
        id="node-rdma-zero", title="a node of the job advertises no RDMA device, or none healthy"
    ),
    Observation(id="node-link-condition", title="a condition of the node names a link or a NIC"),
)

ERROR_12_APART = {
    "gid-index-wrong": "NCCL_IB_GID_INDEX is set, or the GID in the line is link-local",
    "link-down-or-flapping": "a port event or counters that grow",
    "network-not-cross-rail-connected": "it fails only between different rails",
    "mtu-mismatch": "small messages pass and large ones do not",
}

CAUSES = (
    Cause(
        id="gid-index-wrong",
        title="The GID index (or RoCE version) is wrong for this network",
        family=FAMILY,
        rules=(
            Rule(
                needs=("hint-gid", "gid-index-set"),
                confidence=0.9,
                because="NCCL refuses the queue pair, an index is forced, and NCCL's own hint "
                "says so",
            ),
            Rule(
                needs=("modify-qp-einval", "gid-index-set"),
                confidence=0.85,
                because="the queue pair is refused and an index is forced",
            ),
            Rule(
                needs=("modify-qp-enodata",),
                confidence=0.75,
                because="there is no GID at the index used",
            ),
            Rule(
                needs=("hint-gid",),
                confidence=0.7,
                because="NCCL's own hint says so",
            ),
            Rule(
                needs=("wc-retry", "gid-link-local"),
                confidence=0.65,
                because="retries run out between link-local GIDs, which no router passes on",
            ),
            Rule(
                needs=("modify-qp-einval",),
                confidence=0.6,
                because="the queue pair is refused as invalid, most often for its GID",
            ),
            Rule(
                needs=("wc-retry", "gid-index-set"),
                confidence=0.5,
                because="retries run out and an index is forced",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="env",
            text="take NCCL_IB_GID_INDEX out: NCCL 2.21 and newer finds RoCE v2 over IPv4 itself",
        ),
        by_hand="unset NCCL_IB_GID_INDEX (NCCL >= 2.21); older: the index of the RoCE v2 IPv4 GID "
        "in "
        "`show_gids`, which is 3 on many hosts",
        confirm="`show_gids` on both hosts: the index holds a RoCE v2 address of the rail's subnet",
        apart={
            "gid-netdev-in-another-namespace": "the error is No such device",
            "rdma-peer-unreachable": "the GIDs are right and the fabric does not connect them",
        },
        source="NVIDIA/nccl #426, src/misc/ibvwrap.cc hints; pytorch/pytorch #81628",
    ),
    Cause(
        id="gid-table-unreadable",
        title="NCCL cannot read the GID table in the container (empty entries of macvlan or "
        "SR-IOV)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("gid-table-unreadable",),
                confidence=0.82,
                because="NCCL stops at an entry that the container may not read",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="runtimes[].image",
            text="an image with NCCL 2.26 or newer, which passes over such entries",
        ),
        by_hand="NCCL 2.26 or newer; before that NCCL_IB_GID_INDEX to the pod's own RoCE v2 index",
        confirm="`cat /sys/class/infiniband/*/ports/1/gid_attrs/types/*` in the pod: Invalid "
        "argument",
        apart={"gid-index-wrong": "the queue pair is refused, not the table"},
        source="NVIDIA/nccl #1573, #1538, #1427",
    ),
    Cause(
        id="gid-netdev-in-another-namespace",
        title="The GID's network device is in another network namespace (shared RDMA with macvlan)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("modify-qp-enodev",),
                confidence=0.72,
                because="the kernel finds no network device for the GID in this namespace",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.mode",
            text="a mode whose rails lie in the pod's namespace together with the device (SR-IOV, "
            "or "
            "host network)",
        ),
        by_hand="`rdma system set netns exclusive` with SR-IOV or host-device networks, or "
        "hostNetwork",
        confirm="in the pod: `show_gids` lists the rail's own address",
        apart={"gid-index-wrong": "the error is Invalid argument or No data available"},
        source="NVIDIA/nccl #925",
    ),
    Cause(
        id="rdma-peer-unreachable",
        title="The peer's RDMA address cannot be reached (route, partition, subnet or rail)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("modify-qp-unreachable",),
                confidence=0.75,
                because="there is no route to the peer's GID",
            ),
            Rule(
                needs=("modify-qp-timeout",),
                unless=("hint-cross-rail", "port-initializing"),
                confidence=0.6,
                because="the peer's GID does not resolve in time",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.rails",
            text="one subnet a rail, addresses from the rail's range, routes between the rails "
            "when "
            "they are to talk to each other",
        ),
        by_hand="route the rails to each other or set NCCL_CROSS_NIC=0; on InfiniBand check the "
        "partition key and that both are on one fabric",
        confirm="`rping` or `ib_write_bw -d DEV -x INDEX PEER` between the two addresses",
        apart={
            "network-not-cross-rail-connected": "same rail works, different rails do not",
            "gid-index-wrong": "the error is Invalid argument",
        },
        source="NVIDIA/nccl src/misc/ibvwrap.cc",
    ),
    Cause(
        id="network-not-cross-rail-connected",
        title="NICs of different rails are asked to talk and the fabric does not connect them",
        family=FAMILY,
        rules=(
            Rule(
                needs=("hint-cross-rail",),
                confidence=0.75,
                because="NCCL's own hint for the timeout says so",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job", path="env", text="NCCL_CROSS_NIC: 0 for a fabric of separate rails"
        ),
        by_hand="NCCL_CROSS_NIC=0",
        confirm="with NCCL_CROSS_NIC=0 the same job runs",
        apart={"rdma-peer-unreachable": "even the same rail does not connect"},
        source="NVIDIA/nccl 2.30.7 src/misc/ibvwrap.cc",
    ),
    Cause(
        id="link-down-or-flapping",
        title="A link is down, flaps or has symbol errors",
        family=FAMILY,
        rules=(
            Rule(
                needs=("port-error-event",),
                any_of=("wc-retry", "watchdog-timeout", "async-fatal"),
                confidence=0.88,
                because="NCCL saw the port go down and transfers then failed",
            ),
            Rule(
                needs=("port-error-event",),
                confidence=0.75,
                because="NCCL saw the port go down",
            ),
            Rule(
                needs=("link-down",),
                any_of=("wc-retry", "ib-no-device", "async-fatal", "watchdog-timeout"),
                confidence=0.8,
                because="a link is down and transfers fail",
            ),
            Rule(
                needs=("link-counters",),
                any_of=("wc-retry", "watchdog-timeout"),
                confidence=0.72,
                because="error counters of a port are not zero and transfers fail",
            ),
            Rule(
                needs=("link-down",),
                confidence=0.35,
                because="a port is down, which for an unused one is normal",
            ),
            Rule(needs=("link-counters",), confidence=0.4, because="error counters are not zero"),
            Rule(
                needs=("node-link-condition",),
                confidence=0.7,
                because="the node itself reports it",
            ),
        ),
        verdict="timeout",
        fix=Setting(
            where="none",
            path="",
            text="the node gate keeps a node with a bad link out until its counters stay quiet",
        ),
        by_hand="cordon the node, reseat or replace the cable or transceiver",
        confirm="`perfquery -x`, `mlxlink -d DEV --show_module`, /sys/class/infiniband/*/ports/*/"
        "counters/{symbol_error,link_downed} twice, a minute apart",
        apart={"mtu-mismatch": "small messages pass and large ones do not"},
        source="NVIDIA/nccl src/transport/net_ib/common.cc",
        explains=("rdma-retry-exceeded", "pytorch-watchdog-timeout", "a-rank-died-first"),
    ),
    Cause(
        id="hca-fatal-error",
        title="The NIC or its driver reported a fatal error",
        family=FAMILY,
        rules=(
            Rule(
                needs=("async-fatal",),
                unless=("port-error-event",),
                confidence=0.57,
                because="NCCL received a fatal asynchronous event of the device",
            ),
        ),
        verdict="other",
        fix=Setting(where="none", path="", text="take the node out; nothing in the stack helps"),
        by_hand="read the kernel's log of that node (mlx5_core health, PCIe AER), reset or replace "
        "the NIC",
        confirm="`dmesg | grep -E 'mlx5|AER'` at that time",
        source="NVIDIA/nccl src/transport/net_ib/common.cc",
    ),
    Cause(
        id="rdma-retry-exceeded",
        title="Completion error 12: the peer's NIC stopped answering (retries ran out)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("wc-retry",),
                confidence=0.55,
                because="vendor error 129 says that no acknowledgement came; why, the line does "
                "not "
                "say",
            ),
        ),
        verdict="timeout",
        fix=Setting(
            where="job",
            path="env",
            text="NCCL_IB_TIMEOUT: 22 while you look for the reason; it hides short outages",
        ),
        by_hand="at the start of a run: GID, routes, rails, nodes of different fabrics; in the "
        "middle: "
        "link flap, a dead peer, congestion without flow control (RoCE needs PFC or ECN)",
        confirm="`ib_write_bw` between exactly the two GIDs of the line, on that HCA",
        apart=ERROR_12_APART,
        source="rdma-core verbs.h IBV_WC_RETRY_EXC_ERR",
    ),
    Cause(
        id="rdma-receiver-not-ready",
        title="Completion error 13: the receiver posted no buffer in time",
        family=FAMILY,
        rules=(
            Rule(
                needs=("wc-rnr",),
                confidence=0.62,
                because="IBV_WC_RNR_RETRY_EXC_ERR says that the receiver was not ready",
            ),
        ),
        verdict="timeout",
        fix=Setting(where="none", path="", text="look at the rank behind the peer's address first"),
        by_hand="the receiving process is stalled or gone: its stack, its log, its CPU limit",
        confirm="py-spy or the kernel's log on the receiver at that time",
        source="rdma-core verbs.h IBV_WC_RNR_RETRY_EXC_ERR",
    ),
    Cause(
        id="rdma-remote-access-error",
        title="Completion errors 9, 10 and 11: the peer's NIC refused the request",
        family=FAMILY,
        rules=(
            Rule(
                needs=("wc-remote-access",),
                confidence=0.5,
                because="the peer's memory is not registered, or no longer: the peer aborted, or "
                "memory was freed in flight",
            ),
            Rule(
                needs=("wc-remote-operation",),
                confidence=0.5,
                because="the peer's NIC could not carry it out",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="job", path="env", text="NCCL_LOCAL_REGISTER: 0 where buffers are registered"
        ),
        by_hand="the peer's log first: what it says before this moment is the reason",
        confirm="the earliest error over all ranks, by time",
        source="rdma-core verbs.h",
    ),
    Cause(
        id="acs-or-iommu",
        title="PCIe ACS or the IOMMU redirects GPUDirect traffic",
        family=FAMILY,
        rules=(
            Rule(
                needs=("wc-local-protection", "acs-on-bridge"),
                confidence=0.85,
                because="local protection errors, and ACS is on for some bridges",
            ),
            Rule(
                needs=("hint-acs",),
                confidence=0.75,
                because="NCCL's own hint for the error says so",
            ),
            Rule(
                needs=("iommu-fault",),
                confidence=0.8,
                because="the IOMMU refused a device's access",
            ),
            Rule(
                needs=("wc-local-protection", "gdr-in-use"),
                confidence=0.55,
                because="local protection errors on GPUDirect transfers, for which ACS is the "
                "usual "
                "reason",
            ),
            Rule(
                needs=("wc-local-protection",),
                confidence=0.5,
                because="local protection errors, for which ACS is the usual reason",
            ),
            Rule(
                needs=("acs-on-bridge",),
                confidence=0.4,
                because="ACS is on for some bridges",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="none",
            path="",
            text="set on the node (BIOS, kernel command line), not by the stack; virtual machines "
            "need ATS instead",
        ),
        by_hand="bare metal: ACS off on every bridge (setpci -s BDF ECAP_ACS+0x6.w=0000) and "
        "iommu=pt or off; test with NCCL_NET_GDR_LEVEL=LOC",
        confirm="`lspci -vvv | grep ACSCtl` shows no SrcValid+",
        apart={
            "gpudirect-kernel-support-missing": "GPUDirect is not used at all",
        },
        source="NVIDIA/nccl troubleshooting page, PCI Access Control Services; #523, #707",
    ),
    Cause(
        id="gpudirect-kernel-support-missing",
        title="Neither nvidia-peermem nor DMA-BUF is usable, so GPUDirect RDMA is off",
        family=FAMILY,
        rules=(
            Rule(
                needs=("peermem-missing",),
                confidence=0.9,
                because="the module does not load",
            ),
            Rule(
                needs=("receive-no-gdr", "send-gdr"),
                unless=("receive-gdr",),
                confidence=0.7,
                because="only one side of the same connection uses GPUDirect, so one node lacks it",
            ),
            Rule(
                needs=("gdr-differs-by-node",),
                confidence=0.7,
                because="some nodes use GPUDirect and others do not",
            ),
            Rule(
                needs=("reg-gpu-memory-failed",),
                confidence=0.6,
                because="registering GPU memory with the NIC fails",
            ),
            Rule(
                needs=("receive-no-gdr",),
                unless=("gdr-in-use", "gdr-disabled-distance"),
                confidence=0.45,
                because="no connection over the network uses GPUDirect; why, the log does not say",
            ),
            Rule(
                needs=("gdr-no-module",),
                confidence=0.85,
                because="the plugin says that the kernel module is not there",
            ),
            Rule(
                needs=("gdr-disabled-hca",),
                unless=("send-gdr", "receive-gdr"),
                confidence=0.62,
                because="NCCL finds neither nvidia-peermem nor DMA-BUF usable for the NIC",
            ),
        ),
        verdict="low-bandwidth",
        fix=Setting(
            where="stack",
            path="fabric.kind",
            text="the fabric's operators load the module or use DMA-BUF; a node that lacks it is "
            "not let in by the node gate",
        ),
        by_hand="`modprobe nvidia-peermem` on every node (built against the installed OFED), or "
        "the "
        "open GPU driver with a recent kernel for DMA-BUF",
        confirm="channel lines end in /GDRDMA on every rank; `lsmod | grep nvidia_peermem`",
        apart={
            "gpu-nic-too-far": "the line gives a distance",
            "acs-or-iommu": "GPUDirect is used and fails",
        },
        source="NVIDIA/nccl #897, #1343, #1676, #1939 (#1537 is open); src/graph/topo.cc",
    ),
    Cause(
        id="gpu-nic-too-far",
        title="GPU and NIC are too far apart in the PCI tree for GPUDirect RDMA",
        family=FAMILY,
        rules=(
            Rule(
                needs=("gdr-disabled-distance",),
                unless=("gdr-enabled-distance", "gdr-in-use"),
                confidence=0.85,
                because="NCCL prints the distance and the limit, and no GPU is near enough",
            ),
            Rule(
                needs=("gpu-without-near-nic",),
                unless=("gdr-in-use",),
                confidence=0.64,
                because="some GPUs are near enough to a NIC and others to none",
            ),
            Rule(
                needs=("gdr-disabled-distance", "receive-no-gdr"),
                unless=("gdr-in-use",),
                confidence=0.7,
                because="NCCL prints the distance, and the connections do without",
            ),
        ),
        verdict="low-bandwidth",
        fix=Setting(
            where="job",
            path="env",
            text="NCCL_NET_GDR_LEVEL: SYS to force it (not always faster); in a virtual machine a "
            "NCCL_TOPO_FILE with the real tree",
        ),
        by_hand="NCCL_NET_GDR_LEVEL=PHB or SYS, or put NIC and GPU under one PCIe switch",
        confirm="`nvidia-smi topo -m`: PIX or PXB between the GPU and its NIC",
        apart={"gpudirect-kernel-support-missing": "the line names the HCA without a distance"},
        source="NVIDIA/nccl #1151, src/graph/paths.cc",
    ),
    Cause(
        id="wrong-hca-selected",
        title="An HCA that does not belong to the training fabric is in use",
        family=FAMILY,
        rules=(
            Rule(
                needs=("ib-incompatible-devices",),
                confidence=0.9,
                because="NCCL says that the devices' link types differ",
            ),
            Rule(
                needs=("ib-mixed-link-layers", "ib-bond-beside"),
                unless=("wc-any", "modify-qp-any", "fatal-other"),
                confidence=0.68,
                because="a bonded Ethernet port, as hosts have for management, is used beside "
                "InfiniBand",
            ),
            Rule(
                needs=("ib-mixed-link-layers",),
                unless=("wc-any", "modify-qp-any", "fatal-other"),
                confidence=0.52,
                because="InfiniBand and RoCE ports are used side by side",
            ),
            Rule(
                needs=("ib-mixed-link-layers",),
                confidence=0.45,
                because="InfiniBand and RoCE ports are used side by side",
            ),
            Rule(
                needs=("net-count-mismatch",),
                confidence=0.7,
                because="NCCL says that the ranks see different numbers of NICs",
            ),
        ),
        verdict="low-bandwidth",
        fix=Setting(
            where="stack",
            path="fabric.rails",
            text="name the rails only: NCCL_IB_HCA follows from the fabric and is exact",
        ),
        by_hand="NCCL_IB_HCA to an exact list (`=mlx5_0,mlx5_1`) or exclude one (`^mlx5_bond_0`)",
        confirm="the `NET/IB : Using` line lists the rails and nothing else, alike on every rank",
        apart={"wrong-hca-filter": "the filter leaves no device at all"},
        source="stas00/ml-engineering network/debug",
    ),
    Cause(
        id="wrong-hca-filter",
        title="NCCL_IB_HCA names no device that exists here",
        family=FAMILY,
        rules=(
            Rule(
                needs=("ib-hca-set", "ib-no-device"),
                unless=("ibv-open-device-failed", "ib-using", "ib-disabled-by-env"),
                confidence=0.55,
                because="the filter is set and no device is left",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="job",
            path="env",
            text="take NCCL_IB_HCA out: the fabric's own value fits the instance type",
        ),
        by_hand="NCCL_IB_HCA to names that `ibv_devinfo -l` shows in the pod (a prefix list; `=` "
        "makes it exact)",
        confirm="in the pod: `ibv_devinfo -l`",
        apart={"rdma-device-not-in-container": "the pod has no device at all"},
        source="NVIDIA/nccl env.rst, NCCL_IB_HCA",
    ),
    Cause(
        id="topology-file-or-path",
        title="NCCL's picture of the PCI topology is missing or wrong",
        family=FAMILY,
        rules=(
            Rule(
                needs=("topology-no-nic",),
                unless=("init-complete",),
                confidence=0.75,
                because="NCCL says that it finds no path or no topology file",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="env",
            text="take NCCL_TOPO_FILE out, or mount the file where it points",
        ),
        by_hand="a NCCL_TOPO_FILE that exists in the pod; /sys of the host visible in the "
        "container",
        confirm="NCCL_TOPO_DUMP_FILE=topo.xml shows GPUs and NICs under the same switches as "
        "`lspci -tv`",
        source="NVIDIA/nccl src/graph/xml.cc",
    ),
    Cause(
        id="mtu-mismatch",
        title="The MTU differs along the path",
        family=FAMILY,
        rules=(
            Rule(
                needs=("mtu-too-big",),
                confidence=0.75,
                because="a packet was too long for the path",
            ),
            Rule(
                needs=("mtu-differs",),
                any_of=("wc-retry", "wc-local-length", "watchdog-timeout"),
                confidence=0.7,
                because="ports of the job have different MTUs and transfers fail",
            ),
            Rule(
                needs=("mtu-differs",),
                confidence=0.5,
                because="ports of the job have different MTUs",
            ),
        ),
        verdict="hang",
        fix=Setting(
            where="stack",
            path="fabric.mtu",
            text="the MTU of the switches; every rail's interface and pod network gets it",
        ),
        by_hand="one MTU on NICs, pod networks and switches (RoCE: 4200 or 9000 on the Ethernet "
        "side for an RDMA MTU of 4096)",
        confirm="`ping -M do -s 8972 PEER` over the rail; `ibv_devinfo | grep active_mtu` alike on "
        "every node",
        apart={"rdma-retry-exceeded": "small messages fail as well"},
        source="rdma-core devinfo; errno 90; NVIDIA RoCE documentation on MTU",
    ),
    Cause(
        id="subnet-manager-missing",
        title="No InfiniBand subnet manager runs",
        family=FAMILY,
        rules=(
            Rule(
                needs=("sm-missing", "port-initializing"),
                confidence=0.85,
                because="the port stays in Initializing and knows no subnet manager",
            ),
            Rule(
                needs=("port-initializing",),
                any_of=("modify-qp-timeout", "wc-retry", "ib-no-device"),
                confidence=0.75,
                because="a port stays in Initializing, and connecting over it fails",
            ),
            Rule(
                needs=("port-initializing",),
                unless=("init-complete",),
                confidence=0.55,
                because="a port stays in Initializing, as without a subnet manager",
            ),
        ),
        verdict="init-failure",
        fix=Setting(where="none", path="", text="runs on a switch or a host outside the cluster"),
        by_hand="start opensm on one host or the switch's own",
        confirm="`sminfo`; `ibstat` shows State: Active and an SM lid",
        source="NVIDIA/nccl troubleshooting page, InfiniBand",
    ),
    Cause(
        id="wrong-plugin-on-infiniband",
        title="A TCP plugin (FastSocket) is active over InfiniBand interfaces",
        family=FAMILY,
        rules=(
            Rule(
                needs=("fastsocket-on-ib",),
                confidence=0.75,
                because="FastSocket, which is TCP, uses interfaces named ib*",
            ),
        ),
        verdict="low-bandwidth",
        fix=Setting(
            where="stack",
            path="fabric.kind",
            text="the fabric's kind pins NCCL_NET, so another plugin cannot take over",
        ),
        by_hand="take the plugin out of the image or set NCCL_NET=IB",
        confirm="`Using network IB` in the next run",
        source="stas00/ml-engineering network/debug",
    ),
)
