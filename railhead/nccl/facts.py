"""Facts that NCCL, its plugins and nccl-tests print about a run: signs, and what is kept of each.

The wordings are those of NCCL 2.4 to 2.30, aws-ofi-nccl 1.0 to 1.21, nccl-rdma-sharp-plugins and
nccl-tests, read in their sources.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from railhead.nccl.lines import Line
from railhead.nccl.scan import Spot
from railhead.nccl.signs import MOST_KEPT, Evidence, Sign

MAX_ITEMS = 65_536
MAX_COMMUNICATORS = 4096
# Those of which lines are kept as evidence.
SHOWN_COMMUNICATORS = 6
MAX_VALUES = 64
DEVICE = re.compile(rb"\[(\d{1,4})\](?:\{\d+\} )?([^\s:]{1,200})(?::(\d{1,4}))?(?:/(\w+))?")

TYPES = b"float half double bfloat16 int8 int32 int64 uint8 uint32 uint64".split()

# Warnings of a way that was tried in vain, of a setting that could be better, or while closing.
HARMLESS = re.compile(
    r"libibverbs|Plugin|plugin|Could not find|No device found|Unable to open device|ibv_open_device"
    r"|mismatch recommended|iommu=pt|NUMA auto balancing|numa_balancing|AMD_SMI|GDR|gdr"
    r"|operation Close|Accept failed|Could not receive type|no socket interface found in|MNNVL|NVLS"
    r"|ignoring|deprecated|Missing|Setting |NET/Socket : no|affinity|PXN|tuner|profiler|env var",
)
# (id, pattern, literal where the longest one is not the best)
ROWS: tuple[tuple[str, bytes, bytes | tuple[bytes, ...] | None], ...] = (
    # The connections. The number after the net's name is the device; (n) is the proxy's rank, PXN.
    (
        "nccl.channel-net",
        rb"(?:(?P<src>\d{1,7})(?:\[[0-9a-f]{1,12}\])? -> (?P<dst>\d{1,7})(?:\[[0-9a-f]{1,12}\])?"
        rb"\s*(?:\[(?P<way>send|receive)\])?\s*)?via NET/(?P<net>[^/\n]{1,60})/(?P<dev>\d{1,5})"
        rb"(?:\((?P<proxy>\d{1,7})\))?(?P<gdr>/GDRDMA(?:\((?P<mode>\w{1,20})\))?)?",
        b"via NET/",
    ),
    (
        "nccl.channel-p2p",
        rb"(?:(?:Channel|Ring) (?P<channel>\d{1,4})(?:/\d{1,4})? : )?"
        rb"(?P<src>\d{1,7})(?:\[[0-9a-f]{1,12}\])? -> (?P<dst>\d{1,7})(?:\[[0-9a-f]{1,12}\])?"
        rb"\s+via (?P<how>P2P/[\w ]{1,20})",
        b"via P2P/",
    ),
    (
        "nccl.channel-shm",
        rb"(?:(?:Channel|Ring) (?P<channel>\d{1,4})(?:/\d{1,4})? : )?"
        rb"(?P<src>\d{1,7})(?:\[[0-9a-f]{1,12}\])? -> (?P<dst>\d{1,7})(?:\[[0-9a-f]{1,12}\])?"
        rb"\s+via (?P<how>SHM)",
        b"via SHM",
    ),
    (
        "nccl.channel-shm-old",
        rb"(?:(?:Channel|Ring) (?P<channel>\d{1,4})(?:/\d{1,4})? : )?"
        rb"(?P<src>\d{1,7})(?:\[[0-9a-f]{1,12}\])? -> (?P<dst>\d{1,7})(?:\[[0-9a-f]{1,12}\])?"
        rb"\s+via direct (?P<how>shared memory)",
        b"via direct shared memory",
    ),
    (
        "nccl.collnet",
        rb"via COLLNET/(?P<net>[^/\n]{1,60})/(?P<dev>\d{1,5})(?P<gdr>/GDRDMA)?",
        b"via COLLNET/",
    ),
    # Communicators.
    (
        "nccl.comm-nodes",
        rb"comm (?P<comm>0x[0-9a-fA-F]{1,16}) rank (?P<rank>\d{1,7}) n[rR]anks (?P<n>\d{1,7}) "
        rb"nNodes (?P<nodes>\d{1,6}) localRanks (?P<local>\d{1,4}) localRank \d{1,4}"
        rb"(?: MNNVL (?P<mnnvl>\d))?",
        b" nNodes ",
    ),
    *(
        (
            f"nccl.{name}",
            rb"comm (?P<comm>0x[0-9a-fA-F]{1,16}) rank (?P<rank>\d{1,7}) n[rR]anks (?P<n>\d{1,7})"
            rb"(?: cudaDev (?P<cuda>\d{1,4}))?(?: nvmlDev (?P<nvml>\d{1,4}))?"
            rb"(?: busId (?P<bus>[0-9a-fA-F]{1,16}))?(?: commId (?P<id>0x[0-9a-fA-F]{1,16}))?"
            rb"(?: parent 0x[0-9a-fA-F]{1,16}(?: splitCount (?P<split>-?\d{1,9}))?"
            rb" color (?P<color>-?\d{1,11}) key -?\d{1,11})?\s*- " + words,
            words,
        )
        for name, words in (
            ("init-start", b"Init START"),
            ("init-complete", b"Init COMPLETE"),
            ("abort", b"Abort COMPLETE"),
            ("destroy", b"Destroy COMPLETE"),
        )
    ),
    ("nccl.rings", rb"Connected all rings(?:, use ring PXN (?P<pxn>\d) GDR (?P<gdr>\d))?", None),
    ("nccl.trees", rb"Connected all trees", None),
    ("nccl.tree-plan", rb"NCCL INFO Trees? \[?\d", b"NCCL INFO Tree"),
    (
        "nccl.ring-order",
        rb"Channel \d{1,4}/\d{1,4} :\s+(?P<ring>\d{1,7}(?:\s+\d{1,7})*)\s*$",
        b" :  ",
    ),
    ("nccl.nvls-tree", rb"Connected NVLS tree", None),
    ("nccl.nvls", rb"NVLS multicast support is (?P<no>not )?available", None),
    (
        "nccl.channels",
        rb"(?P<coll>\d{1,4}) coll channels,(?: (?P<collnet>\d{1,4}) collnet channels,)?"
        rb"(?: (?P<nvls>\d{1,4}) nvls channels,)? (?P<p2p>\d{1,5}) p2p channels, "
        rb"(?P<peer>\d{1,5}) p2p channels per peer",
        b" p2p channels per peer",
    ),
    # The second triple is the tree threshold, 8 times the number of ranks.
    ("nccl.launch", rb"Launch mode (?:Parallel|Group)", b"Launch mode "),
    ("nccl.thresholds", rb"threadThresholds \d+/\d+/\d+ \| (?P<eight>\d{1,9})/", None),
    ("nccl.mnnvl", rb"MNNVL (?P<on>\d) cliqueId \w+ cliqueSize (?P<size>\d{1,6})", b" cliqueSize "),
    # Networks.
    ("nccl.network", rb"Using network (?P<net>\S.{0,60}?)\s*$", b"Using network "),
    ("nccl.network-old", rb"Using internal Network (?P<net>\w{1,20})", None),
    ("nccl.network-assigned", rb"Assigned NET plugin (?P<net>\S.{0,60}?) to comm", None),
    (
        "nccl.devices",
        rb"NET/(?P<net>[\w.\-]{1,40}?)(?: \d{4}-\S{10,40})? ?: Using (?P<list>\[\d{1,4}\].*)",
        b": Using [",
    ),
    # 2.3: one device a line.
    (
        "nccl.device-old",
        rb"NET/(?P<net>IB) ?: ?\[(?P<dev>\d{1,3})\] ?(?P<name>\w{1,40}):\d/(?P<layer>IB|RoCE)",
        (b"NET/IB: [", b"NET/IB : ["),
    ),
    ("nccl.no-ib", rb"NET/(?:IB\w{0,10}|UCX) ?: No device found", b": No device found"),
    ("nccl.bootstrap", rb"Bootstrap ?: Using (?:\[\d+\])?(?P<if>[^\s:]{1,60}):(?P<addr>\S*)", None),
    ("nccl.bootstrap-old", rb"NET : Using interface (?P<if>[^\s:]{1,60}):(?P<addr>\S*)", None),
    # One rank's call of a collective, as NCCL_DEBUG_SUBSYS=COLL prints it (enqueue.cc).
    (
        "nccl.calls",
        rb"INFO (?P<op>All\w{3,12}|Broadcast|Reduce\w{0,12}): opCount (?P<count>[0-9a-f]{1,16}) "
        rb".{0,300}comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<n>\d{1,6})\]",
        b": opCount ",
    ),
    ("ras.ok", rb"\sRUNNING\s+OK\b", b"RUNNING "),
    ("nccl.pxn-disabled", rb"PXN Disabled as plugin is v4", None),
    (
        "nccl.sharp",
        rb"Loaded coll(?:net)? plugin SHARP|Connected Coll[nN]et",
        (b" plugin SHARP", b"Connected Coll"),
    ),
    # Any warning; those of HARMLESS are dropped.
    (
        "nccl.warn",
        rb"(?:(?P<source>[\w./]{1,80}):\d{1,6} )?NCCL WARN (?P<text>\S.{0,300})",
        b"NCCL WARN ",
    ),
    # Versions.
    (
        "nccl.version",
        rb"(?P<kind>[NR]CCL) version (?P<v>\d{1,3}\.\d{1,3}(?:\.\d{1,3})?[\w.\-]{0,20})"
        rb"(?:\+cuda(?P<cuda>\d{1,3}\.\d{1,3}))?",
        b"CCL version ",
    ),
    ("nccl.driver", rb"cudaDriverVersion (?P<v>\d{4,6})", None),
    ("nccl.plugin", rb"Loaded net plugin (?P<name>\S.{0,60}?) \(v(?P<v>\d{1,3})\)", None),
    ("nccl.plugin-p2p", rb"P2P plugin (?P<name>[\w.\-]{1,40})", None),
    (
        "nccl.no-plugin",
        rb"NET/Plugin ?: (?:No plugin found|Could not find: libnccl-net)",
        b"NET/Plugin",
    ),
    ("ofi.version", rb"(?:Using|Initializing) aws-ofi-nccl (?P<v>[\w.\-]{1,40})", b"aws-ofi-nccl "),
    ("ofi.libfabric", rb"Using Libfabric version (?P<v>[\w.\-]{1,40})", None),
    ("ofi.protocol", rb"Using transport protocol (?P<v>\w{1,20})", None),
    (
        "ofi.provider",
        rb"Selected [Pp]rovider is (?P<v>[\w\-]{1,40}?)(?:;|,|\s|$)"
        rb"(?:.{0,60}\(found (?P<n>\d{1,4}) nics\))?",
        b"rovider is ",
    ),
    (
        "ofi.no-provider",
        rb"Could(?:n't| not) find any optimal provider|No eligible providers were found"
        rb"|provider efa output empty list",
        None,
    ),
    (
        "ofi.tuner",
        rb"uner init.{0,40}?: comm with (?P<n>\d{1,7}) ranks and (?P<nodes>\d{1,6}) nodes",
        b" ranks and ",
    ),
    # These come before the network that is chosen instead.
    (
        "ofi.refused",
        rb"GDR disabled on GDR-supported|aws-ofi-nccl initialization failed"
        rb"|NET/OFI Initializing plugin failed",
        None,
    ),
    ("gdr.efa-lacks", rb"FI_HMEM capability requires RDMA, which this device does not", None),
    ("ofi.efa", rb"libfabric:\d{1,10}:\d{1,12}:.{0,40}?:?efa:\w", b":efa:"),
    # The plugin serves other fabrics too (cxi of Slingshot, tcp): what names EFA proves it. Its own
    # errors are numbered from 4096 on (libfabric, prov/efa/src/efa_errno.h).
    (
        "ofi.efa-named",
        rb"[ :=/']efa(?:[-_;:,. 0-9']|$)|FI_EFA_[A-Z]|fi_efa|Error: 41[0-2]\d \("
        rb"|\bp(?:4de?|5e?n?|6[\w-]{0,8})\.\d{1,2}xlarge",
        (
            b" efa",
            b":efa",
            b"=efa",
            b"/efa",
            b"'efa",
            b"FI_EFA_",
            b"fi_efa",
            b"Error: 41",
            b"xlarge",
        ),
    ),
    ("ofi.dmabuf", rb"Support for DMA-BUF registrations: (?P<v>true|false)", None),
    (
        "gcp.version",
        rb"(?:Initializing network |Initializing )(?P<name>FasTrak|gIB|GPUDirectTCPX\w*),? "
        rb"(?:version:? )?v?(?P<v>\d[\w.\-]{0,39})",
        b"nitializing ",
    ),
    ("gcp.tcpx", rb"NET/GPUDirectTCPX\w* ?: GPUDirectTCPX enable: (?P<v>\d)", None),
    (
        "gcp.named",
        rb"\bNET/(?P<net>FasTrak|GPUDirectTCPX|gIB)",
        (b"NET/FasTrak", b"NET/GPUDirectTCPX", b"NET/gIB"),
    ),
    # The rate of a port: NCCL's own lines in Mbit/s, its topology in GB/s, ibstat in Gbit/s.
    (
        "nic.speed",
        rb"(?:NET/IB.{0,200}?|<net .{0,200}?)\bspeed=\"?(?P<mbps>\d{4,7})\b",
        b"speed=",
    ),
    (
        "nic.topology",
        rb"- NET/[0-9a-f-]{1,20} \([0-9a-f]{1,16}/\d{1,3}/(?P<gbytes>\d{1,3}\.\d{1,6})\)",
        b"- NET/",
    ),
    (
        "nic.ibstat",
        rb"^\s*(?:Rate:\s*(?P<gbps>\d{2,4})\s*$|rate:\s*(?P<status>\d{2,4}) Gb/sec)",
        (b"Rate:", b"rate:"),
    ),
    ("nic.ethtool", rb"^\s*Speed:\s*(?P<mbps>\d{4,7})Mb/s", b"Speed:"),
    # A row of ib_write_bw and its like (perftest): size, iterations, peak, average, message rate.
    (
        "nic.perftest",
        rb"^\s*(?P<size>65536|1048576|8388608)\s+\d{2,9}\s+\d{1,7}\.\d{1,6}\s+(?P<average>\d{1,7}\.\d{1,6})"
        rb"\s+(?P<mpps>\d{1,4}\.\d{3,9})\s*$",
        (b"65536   ", b"1048576   ", b"8388608   "),
    ),
    # What NCCL's own search plans for rings (pattern 4, graph/search.cc): channels, GB/s of each
    # within a node and between nodes.
    (
        "nccl.plan",
        rb"Pattern 4, crossNic \d, nChannels (?P<n>\d{1,3}), (?:bw|speed) \d{1,5}\.\d{1,6}/"
        rb"(?P<inter>\d{1,5}\.\d{1,6}), type \w{2,4}/(?P<path>\w{2,4})",
        b"Pattern 4, crossNic ",
    ),
    # GPUDirect RDMA. What a device can do is not what a connection does.
    ("gdr.dmabuf", rb"DMA-BUF is available on GPU device (?P<gpu>\d{1,4})", None),
    (
        "gdr.hca",
        rb"(?:NET/(?P<net>[\w. ]{1,40}?) ?: )?GPU Direct RDMA (?P<on>Enabled|Disabled) for HCA "
        rb"(?P<dev>\w{1,8}) '(?P<name>[^']{1,100})'",
        b"GPU Direct RDMA ",
    ),
    (
        "gdr.gpu",
        rb"GPU Direct RDMA (?P<on>Enabled|Disabled) for (?!HCA )(?P<what>.{1,80}?)"
        rb"(?: \(distance (?P<d>\d+) (?:<=?|>=?) (?P<max>\d+)\)(?:, read (?P<read>\d))?|\s*$)",
        b"GPU Direct RDMA ",
    ),
    # Which library complains, and what shows that verbs run over Ethernet.
    (
        "verbs.error",
        rb"NET/IB\w{0,10} ?: ?(?:\w{1,20} ?: )?Got (?:completion|async)"
        rb"|NCCL WARN Call to (?:wrap_)?ibv_"
        rb"(?:create|modify|reg|alloc|query_gid|poll|post)\w* failed",
        (b"Got completion", b"Got async", b"Call to ibv_", b"Call to wrap_ibv_"),
    ),
    (
        # NCCL prints a completion's GIDs for Ethernet ports only (net_ib.cc from 2.18 on); with the
        # other wording an IPv4-mapped one tells.
        "verbs.gid",
        rb"(?:localGid|remoteGids?) ?[0-9a-f:.]{3,45}"
        rb"|(?:local GID|remote GID)(?: \d{1,3}, local GID)? ::ffff:\d{1,3}\.\d{1,3}\."
        rb"|\bmtu \d{1,2} (?:query_ece=\{[^}]{0,80}\} ?)?GID \d{1,3} \(",
        (b"localGid", b"remoteGid", b"local GID", b"remote GID", b" GID "),
    ),
    # A queue pair's line has the LID on InfiniBand, the GID on Ethernet (net_ib.cc).
    ("verbs.lid", rb"\bmtu \d{1,2} LID \d{1,6}\b", b" LID "),
    (
        # rdma-core's persistent names begin with the kind of port: ib, roce, iw
        # (kernel-boot/rdma-persistent-naming.rules); Azure's images name theirs mlx5_ib0.
        "verbs.ib-device",
        rb"\b(?:ib[pP]\d{1,5}(?:[ps]\d{1,4}){1,2}(?:f\d{1,3})?|ibs\d{1,5}(?:f\d{1,3})?|ibp\d{1,3}"
        rb"|mlx[45]_ib\d{1,3})\b",
        (b"ibp", b"ibP", b"ibs", b"mlx5_ib", b"mlx4_ib"),
    ),
    # ibv_devinfo, ibstat and the perftests say it of a port.
    (
        "verbs.link-ib",
        rb"(?i)link[_ ](?:layer|type)\s*:\s*(?:InfiniBand|IB)\b",
        (b"link_layer", b"link layer", b"link type"),
    ),
    (
        "verbs.link-ethernet",
        rb"(?i)link[_ ](?:layer|type)\s*:\s*Ethernet\b",
        (b"link_layer", b"link layer", b"link type"),
    ),
    (
        "verbs.ipoib",
        rb"(?:Using (?:\[\d+\])?|OOB )ib\d{1,3}:",
        (b"Using ib", b"Using [", b"OOB ib"),
    ),
    (
        "verbs.no-such-device",
        rb"ibv_modify_qp failed with (?:error )?(?:19 )?No such device",
        None,
    ),
    (
        "verbs.roce",
        rb"\b(?:roce(?:p|P|o|_)\w{1,20}|bnxt_re\d{1,3}|mlx5_bond_\d{1,3}|irdma\d{1,3}|erdma_\d{1,3})"
        rb"|NCCL_IB_ROCE_VERSION_NUM set",
        (b"roce", b"bnxt_re", b"mlx5_bond_", b"irdma", b"erdma_", b"NCCL_IB_ROCE"),
    ),
    ("verbs.no-library", rb"Failed to open libibverbs\.so", None),
    (
        "ofi.error",
        rb"NET/OFI (?:Unable to|Request (?:0x\w{1,16} )?completed|Operation with"
        rb"|Couldn't (?:open|create|enable|allocate)|Error |Failed to|Completion |Call to fi_)",
        b"NET/OFI ",
    ),
    (
        "socket.error",
        rb"NET/Socket ?: (?:peer|message|unable|failed)",
        b"NET/Socket",
    ),
    (
        "socket.io",
        rb"Call to (?:recv|write|send|read|sendmsg|recvmsg)\w* (?:from .{0,80})?failed",
        b"Call to ",
    ),
    ("socket.stack", rb"transport/net_socket\.c[cu]:\d+ -> \d", b"transport/net_socket.c"),
    ("verbs.stack", rb"transport/net_ib(?:/\w{1,20})?\.cc:\d+ -> \d", b"transport/net_ib"),
    ("nccl.proxy-error", rb"\[Proxy [Tt]hread(?: error)?\]", b"[Proxy "),
    # The ranks find each other over the loopback, or are said to be on one node.
    (
        "launch.one-host",
        rb"init_method=['\"]?(?:tcp://(?:127\.0\.0\.1|localhost)\b|file:)|--standalone\b"
        rb"|\bnnodes[= ]1\b|MASTER_ADDR['\"]?\s*[=:]\s*['\"]?(?:localhost|127\.0\.0\.1)\b"
        rb"|Bootstrap ?: Using (?:\[\d+\])?lo:",
        (
            b"init_method=",
            b"--standalone",
            b"nnodes",
            b"MASTER_ADDR",
            b"Using lo:",
            b"Using [0]lo:",
        ),
    ),
    # Of a process that waits; see `verdict.WAITING`.
    (
        "wait.last",
        rb"cause a hang if (?:this )?rank|No available shared memory broadcast block"
        rb"|GLOBAL_RANK: \d{1,6}, MEMBER: \d{1,6}/\d{1,6}|processes registered\. Starting"
        rb"|\| distributed init \(rank \d|(?:vLLM|sglang) is using nccl=="
        rb"|distributed_init_method=\S{1,200} backend="
        rb"|Waiting for \d{1,5} (?:local, \d{1,5} remote )?core engine proc"
        rb"|Init torch distributed begin|> initializing torch distributed"
        rb"|Added key: store_based_barrier_key|ncclPollProxyResponse|matches expected opId="
        rb"|Custom allreduce is disabled because this process group spans"
        rb"|\b0%\|[^|]{0,200}\| 0/\d{1,12} \[\d\d:\d\d<\?",
        (
            b"cause a hang if ",
            b"shared memory broadcast block",
            b"GLOBAL_RANK: ",
            b"processes registered. ",
            b"| distributed init (",
            b" is using nccl==",
            b"distributed_init_method=",
            b" core engine proc",
            b"Init torch distributed",
            b"initializing torch distributed",
            b"Added key: store_based",
            b"ncclPollProxyResponse",
            b"matches expected opId=",
            b"Custom allreduce is disabled",
            b"| 0/",
        ),
    ),
    # Settings.
    *(
        (
            identifier,
            rb"(?P<name>NCCL_[A-Z0-9_]{2,60})" + words + rb"(?P<value>.{0,200}?)\.?\s*$",
            b"NCCL_",
        )
        for identifier, words in (
            ("nccl.setting", b" set by environment to "),
            ("nccl.setting-short", b" set to "),
        )
    ),
    # nccl-tests.
    (
        "tests.rank",
        rb"Rank\s+(?P<rank>\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+(?P<pid>\d{1,10})\s+on\s+"
        rb"(?P<host>\S{1,253})\s+device\s+(?P<dev>\d{1,4})\s+\[(?P<bus>[^\]]{1,20})\]"
        rb"\s*(?P<gpu>[^\r\n]{0,80}?)\s*$",
        b" Pid ",
    ),
    ("tests.header", rb"\bsize\s+count\s+type\b", (b"   type", b"count type")),
    ("tests.start", rb"nThread (?P<t>\d{1,5}) nGpus (?P<g>\d{1,5}) minBytes", None),
    (
        "tests.row",
        rb"(?:^|\s)(?P<size>\d{1,15})\s+(?P<count>\d{1,15})\s+"
        rb"(?:float|half|double|bfloat16|int8|int32|int64|uint8|uint32|uint64|fp8_\w{4}|f8e\w{3})"
        rb"\s+(?:(?P<op>[a-z]\w{0,9})\s+)?(?:(?P<root>-?\d{1,7})\s+)?"
        rb"(?P<time>\d{1,12}(?:\.\d{1,6})?)\s+(?P<alg>\d{1,7}\.\d{1,4})\s+(?P<bus>\d{1,7}\.\d{1,4})"
        rb"\s+(?P<wrong>\S{1,12})",
        (b" fp8_", b" f8e", *(b" " + kind + b" " for kind in TYPES)),
    ),
    (
        "tests.row-units",
        rb"(?:^|\s)(?P<size>\d{1,6})(?P<unit>[KMG])B\s+\d{1,15}\s+\d{1,12}\.\d{1,4}\s+"
        rb"(?P<alg>\d{1,7}\.\d{1,4})\s+(?P<bus>\d{1,7}\.\d{1,4})\s*$",
        (b"KB    ", b"MB    ", b"GB    "),
    ),
    # PyTorch's: all_reduce_bench.py of stas00/ml-engineering and its copies, DeepSpeed's ds_bench.
    (
        "bench.payload",
        rb"average bandwidth of (?P<op>all_reduce) with an? (?P<gb>\d{1,6}\.\d{1,9})GB payload",
        b"GB payload",
    ),
    ("bench.figure", rb"\b(?P<kind>alg|bus)bw: (?P<v>\d{1,7}\.\d{1,4}) GBps \(", b" GBps ("),
    ("bench.title", rb"---- Performance of (?P<op>\w{1,40}) on \d{1,7} devices", None),
    (
        "bench.row",
        rb"(?:^|\s)(?P<size>\d{1,6}(?:\.\d{1,3})?) (?P<unit>[KMG])B\s+\d{1,15}x\d{1,2}\s+"
        rb"\d{1,12}\.\d{1,6} ms\s+(?P<alg>\d{1,7}\.\d{1,6})\s+(?P<bus>\d{1,7}\.\d{1,6})\s*$",
        (b"KB    ", b"MB    ", b"GB    "),
    ),
    ("tests.average", rb"Avg bus bandwidth\s*:\s*(?P<v>[\d.]{1,20})(?:\s+(?P<ok>\w+))?", None),
    ("tests.bounds", rb"Out of bounds values\s*:\s*(?P<n>\d{1,18})\s+(?P<ok>OK|FAILED)", None),
    (
        "tests.name",
        rb"Collective test (?:starting|concluded): (?P<v>\w{1,40})",
        b"Collective test ",
    ),
)

# Their evidence is all that is wanted.
ONLY_SHOWN = frozenset({"nccl.calls", "wait.last"})
SIGNS = tuple(
    Sign(
        id=identifier,
        pattern=pattern,
        literal=literal,
        keep=MOST_KEPT if identifier in ONLY_SHOWN else 5,
    )
    for identifier, pattern, literal in ROWS
)


@dataclass(kw_only=True)
class SeenValues:
    """Values of one kind, each with how often and where first."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, Evidence] = field(default_factory=dict)

    def add(self, value: str, at: Spot) -> None:
        """Count one more; past :data:`MAX_VALUES` values, new ones are not kept."""
        if value in self.counts:
            self.counts[value] += 1
        elif len(self.counts) < MAX_VALUES:
            self.counts[value] = 1
            self.first[value] = at.evidence()

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __contains__(self, value: str) -> bool:
        return value in self.counts

    def evidence(self, limit: int = 3) -> tuple[Evidence, ...]:
        """Return the first line of each value."""
        return tuple(list(self.first.values())[:limit])


@dataclass(kw_only=True)
class Comm:
    """One communicator while it is being read; see :class:`railhead.nccl.reading.Communicator`."""

    ranks: int | None = None
    nodes: int | None = None
    mnnvl: bool = False
    # By host: how many ranks it has by its lines, and which of them wrote some.
    local: dict[str, int] = field(default_factory=dict)
    here: dict[str, set[int]] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    completed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    nets: Counter[str] = field(default_factory=Counter)
    direct: int = 0
    staged: int = 0
    evidence: list[Evidence] = field(default_factory=list)


@dataclass(kw_only=True)
class Route:
    """Network connections of one rank in one direction."""

    direct: int = 0
    staged: int = 0


@dataclass(kw_only=True)
class Row:
    """One line of an nccl-tests table, its out-of-place half: bytes, GB/s."""

    size: int
    algbw: float
    busbw: float
    wrong: str
    at: Evidence


class Facts:
    """The facts kept of a log: bounded, however long the log is."""

    def __init__(self) -> None:
        self.values: dict[str, SeenValues] = {}
        self.comms: dict[str, Comm] = {}
        self.comm_of: dict[str, str] = {}
        # The communicator that a process is about to connect: its Channel lines do not name it.
        self.current: dict[tuple[str | None, int | None, int | None], Comm] = {}
        # (node, pid, gpu) to the rank in the largest communicator that it printed.
        self.rank_by_process: dict[tuple[str | None, int | None, int | None], tuple[int, int]] = {}
        self.routes: dict[tuple[int, str], Route] = {}
        # (channel, from, to) of the connections within a node.
        self.local_hops: set[tuple[int, int, int]] = set()
        self.networks: SeenValues = self.seen("network")
        self.channels: SeenValues = self.seen("channel-net")
        self.devices: dict[str, dict[int, tuple[str, str]]] = {}
        self.devices_used: Counter[tuple[str, int]] = Counter()
        self.modes: SeenValues = self.seen("gdr-mode")
        self.writers: set[tuple[str, int, int]] = set()
        self.hosts: dict[str, Evidence] = {}
        self.settings: dict[str, dict[str, set[str]]] = {}
        self.test_ranks: dict[int, tuple[str, str, str]] = {}
        self.repeated_ranks: list[Evidence] = []
        self.rows: list[Row] = []
        # Processes that planned trees, and those that connected channels.
        self.planned: set[tuple[str | None, int | None, int | None]] = set()
        self.connecting: set[tuple[str | None, int | None, int | None]] = set()
        # Of PyTorch's benchmarks: bytes and GB/s until the row is whole.
        self.payload: dict[str, float] = {}
        self.row_count = 0
        self.largest: Row | None = None
        self.peak: Row | None = None
        self.bad_rows: list[Evidence] = []
        # Set once lines of communicators are only counted: they no longer say who connects what.
        self.counting = False
        self.ring = 0
        self.tuned_ranks = 0

    def seen(self, kind: str) -> SeenValues:
        """Return the values of one kind."""
        return self.values.setdefault(kind, SeenValues())

    def rank_of(self, line: Line) -> int | None:
        """Return the rank of the process that wrote a line, by its largest communicator."""
        known = self.rank_by_process.get((line.node, line.pid, line.gpu))
        return known[1] if known else None

    def take(self, sign: str, at: Spot, match: re.Match[bytes]) -> None:
        """Record one match of one of :data:`SIGNS`."""
        if sign in ONLY_SHOWN:
            return
        line = at.line
        if line.node is not None:
            if line.node not in self.hosts and len(self.hosts) < MAX_ITEMS:
                self.hosts[line.node] = at.evidence()
            if line.pid is not None and len(self.writers) < MAX_ITEMS:
                self.writers.add((line.node, line.pid, line.gpu or 0))
        text = {
            key: value.decode("utf-8", "replace")
            for key, value in match.groupdict().items()
            if value is not None
        }
        if handler := self._handlers.get(sign):
            handler(self, text, line, at)
        else:
            self._value(sign, text, at)

    def _value(self, sign: str, text: dict[str, str], at: Spot) -> None:
        self.seen(sign).add(" ".join(text.values()), at)

    def _tree_plan(self, _text: dict[str, str], line: Line, _at: Spot) -> None:
        if len(self.planned) < MAX_ITEMS:
            self.planned.add((line.node, line.pid, line.gpu))

    def _connects(self, line: Line) -> None:
        if len(self.connecting) < MAX_ITEMS:
            self.connecting.add((line.node, line.pid, line.gpu))

    def _channel_net(self, text: dict[str, str], line: Line, at: Spot) -> None:
        self._connects(line)
        net = text["net"].strip()
        self.channels.add(net, at)
        self.seen("channel-gdr" if "gdr" in text else "channel-no-gdr").add(net, at)
        if "mode" in text:
            self.modes.add(text["mode"], at)
        if "proxy" in text:
            self.seen("pxn").add(net, at)
        if len(self.devices_used) < MAX_VALUES * 4 or (net, int(text["dev"])) in self.devices_used:
            self.devices_used[net, int(text["dev"])] += 1
        comm = self.current.get((line.node, line.pid, line.gpu))
        if comm is not None and not self.counting:
            comm.nets[net] += 1
            comm.direct += "gdr" in text
            comm.staged += "gdr" not in text
        if "way" not in text:
            return
        way = text["way"]
        rank = int(text["src"] if way == "send" else text["dst"])
        route = self.routes.get((rank, way))
        if route is None:
            if len(self.routes) >= MAX_ITEMS:
                return
            route = self.routes[rank, way] = Route()
        if "gdr" in text:
            route.direct += 1
        else:
            route.staged += 1

    def _ring_order(self, text: dict[str, str], _line: Line, _at: Spot) -> None:
        # From 20 ranks on the line may be cut.
        size = len(text["ring"].split())
        self.ring = max(self.ring, size if size < 20 else 0)

    def _channel_local(self, text: dict[str, str], line: Line, at: Spot) -> None:
        self._connects(line)
        self.seen("channel-local").add(text["how"].strip(), at)
        if len(self.local_hops) < MAX_ITEMS:
            src, dst = int(text["src"]), int(text["dst"])
            self.local_hops.add((int(text.get("channel", -1)), src, dst))

    def _comm(self, text: dict[str, str], line: Line, at: Spot) -> tuple[Comm, int]:
        address = f"{text['comm']} {text['rank']} {text['n']}"
        ranks = int(text["n"])
        rank = int(text["rank"])
        key = text.get("id") or self.comm_of.get(address)
        if key is None and "color" in text:
            key = f"split {text.get('split', '')} color {text['color']} of {ranks}"
        if key is None:
            key = f"unnamed of {ranks}"
        if len(self.comm_of) < MAX_ITEMS:
            self.comm_of[address] = key
        known = self.comms.get(key)
        if known is None:
            known = Comm()
            if len(self.comms) < MAX_COMMUNICATORS:
                self.comms[key] = known
        known.ranks = ranks
        # A line's number costs the counting of all lines before it.
        if len(known.evidence) < 3 and len(self.comms) <= SHOWN_COMMUNICATORS:
            known.evidence.append(at.evidence())
        process = (line.node, line.pid, line.gpu)
        if len(self.current) < MAX_ITEMS or process in self.current:
            self.current[process] = known
        before = self.rank_by_process.get(process)
        if (before is None and len(self.rank_by_process) < MAX_ITEMS) or (
            before is not None and before[0] < ranks
        ):
            self.rank_by_process[process] = (ranks, rank)
        return known, rank

    def counted(self) -> dict[str, Callable[[re.Match[bytes]], bool]]:
        """Return the ``counted`` of :class:`railhead.nccl.scan.Scanner`."""
        return {
            "nccl.init-start": self._count_started,
            "nccl.init-complete": self._count_completed,
            "nccl.destroy": self._count_completed,
            "nccl.setting": self._known_setting,
            "nccl.setting-short": self._known_setting,
            "nccl.version": lambda match: match["v"].decode() in self.seen("nccl"),
            "nccl.driver": lambda match: match["v"].decode() in self.seen("nccl.driver"),
            "nccl.devices": self._known_devices,
        }

    def _known_setting(self, match: re.Match[bytes]) -> bool:
        """Return whether some rank had this value before, so that the line says nothing new."""
        known = self.settings.get(match["name"].decode())
        return known is not None and match["value"].decode("utf-8", "replace") in known

    def _known_devices(self, match: re.Match[bytes]) -> bool:
        """Return whether all devices of the line are known, so that it says nothing new."""
        known = self.devices.get(match["net"].decode(), {})
        result = DEVICE.findall(match["list"])
        return all(
            known.get(int(number), ("", ""))[0] == name.decode("utf-8", "replace")
            for number, name, _, _ in result
        )

    def _count_started(self, match: re.Match[bytes]) -> bool:
        if known := self._known(match):
            known.started.add(int(match["rank"]))
        return True

    def _count_completed(self, match: re.Match[bytes]) -> bool:
        if known := self._known(match):
            known.started.add(int(match["rank"]))
            known.completed.add(int(match["rank"]))
        return True

    def _known(self, match: re.Match[bytes]) -> Comm | None:
        self.counting = True
        comm, rank, ranks = match["comm"].decode(), int(match["rank"]), int(match["n"])
        key = match["id"].decode() if match["id"] else self.comm_of.get(f"{comm} {rank} {ranks}")
        if key is None:
            return None
        if len(self.comm_of) < MAX_ITEMS:
            self.comm_of[f"{comm} {rank} {ranks}"] = key
        known = self.comms.get(key)
        if known is None and len(self.comms) < MAX_COMMUNICATORS:
            known = self.comms[key] = Comm(ranks=ranks)
        return known

    def _comm_nodes(self, text: dict[str, str], line: Line, at: Spot) -> None:
        known, rank = self._comm(text, line, at)
        known.nodes = int(text["nodes"])
        known.mnnvl |= text.get("mnnvl") == "1"
        if line.node is not None and len(known.here) < MAX_COMMUNICATORS:
            known.local[line.node] = int(text["local"])
            known.here.setdefault(line.node, set()).add(rank)
        known.started.add(rank)
        self.seen("nodes").add(text["nodes"], at)

    def _started(self, text: dict[str, str], line: Line, at: Spot) -> None:
        known, rank = self._comm(text, line, at)
        known.started.add(rank)

    def _completed(self, text: dict[str, str], line: Line, at: Spot) -> None:
        known, rank = self._comm(text, line, at)
        known.started.add(rank)
        known.completed.add(rank)

    def _aborted(self, text: dict[str, str], line: Line, at: Spot) -> None:
        known, rank = self._comm(text, line, at)
        known.aborted.add(rank)

    def _destroyed(self, text: dict[str, str], line: Line, at: Spot) -> None:
        known, rank = self._comm(text, line, at)
        known.started.add(rank)
        known.completed.add(rank)

    def _network(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        self.networks.add(text["net"].strip(), at)

    def _devices(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        net = text["net"].strip()
        self.seen("device-list").add(net, at)
        known = self.devices.setdefault(net, {}) if len(self.devices) < MAX_VALUES else {}
        for number, name, port, layer in DEVICE.findall(text["list"].encode()):
            if len(known) >= MAX_VALUES * 4:
                break
            known.setdefault(int(number), (name.decode("utf-8", "replace"), layer.decode()))
            if layer:
                self.seen("link-layer").add(layer.decode(), at)
            del port
        if "/SHARP" in text["list"]:
            self.seen("nccl.sharp").add(net, at)
        if oob := re.search(r"OOB ([^\s:]{1,60}):", text["list"]):
            self.seen("oob").add(oob[1], at)

    def _warn(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        # RAS is a help for looking; no run needs it.
        if not text.get("source", "").startswith("ras/") and not HARMLESS.search(text["text"]):
            self.seen("warning").add(text["text"][:80], at)

    def _device_old(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        self.seen("device-list").add(text["net"], at)
        known = self.devices.setdefault(text["net"], {})
        if len(known) < MAX_VALUES * 4:
            known.setdefault(int(text["dev"]), (text["name"], text["layer"]))
        self.seen("link-layer").add(text["layer"], at)

    def _tuner(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        self.seen("nodes").add(text["nodes"], at)
        self.tuned_ranks = max(self.tuned_ranks, int(text["n"]))

    def _row_units(self, text: dict[str, str], line: Line, at: Spot) -> None:
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[text["unit"]]
        self._test_row({**text, "size": str(int(text["size"]) * unit), "wrong": "N/A"}, line, at)

    def _bench_title(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        self.seen("tests.name").add(text["op"], at)
        if "gb" in text:
            self.payload = {"size": float(text["gb"]) * 1e9}

    def _bench_figure(self, text: dict[str, str], line: Line, at: Spot) -> None:
        """Collect a row from its lines: the payload first, then one line for each figure."""
        if not self.payload:
            return
        self.payload[text["kind"]] = float(text["v"])
        if len(self.payload) == len(("size", "alg", "bus")):
            values = {name: f"{value:f}" for name, value in self.payload.items()}
            size = str(int(self.payload["size"]))
            self._test_row({**values, "size": size, "wrong": "N/A"}, line, at)
            self.payload = {}

    def _bench_row(self, text: dict[str, str], line: Line, at: Spot) -> None:
        """Record a row whose units are powers of 1024 bytes and whose rates are Gbit/s."""
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[text["unit"]]
        rates = {name: f"{float(text[name]) / 8:f}" for name in ("alg", "bus")}
        size = str(int(float(text["size"]) * unit))
        self._test_row({**rates, "size": size, "wrong": "N/A"}, line, at)

    def _nic_rate(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        """Record a NIC's rate in Gbit/s, in whatever unit the line gives it."""
        if "mbps" in text:
            rate = int(text["mbps"]) / 1000
        else:
            gbps = text.get("gbps") or text.get("status") or "0"
            rate = float(text["gbytes"]) * 8 if "gbytes" in text else float(gbps)
        if rate >= 10:
            self.seen("nic-rate").add(f"{rate:g}", at)

    def _perftest(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        """Record a rate; the message rate shows if the average is in Gbit/s or in MiB/s."""
        size, average, messages = int(text["size"]), float(text["average"]), float(text["mpps"])
        moved = messages * 1e6 * size * 8 / 1e9
        if moved >= 10 and any(
            abs(item - moved) <= 0.05 * moved for item in (average, average * 8 * 1.048576 / 1000)
        ):
            self.seen("nic-rate").add(f"{moved:.0f}", at)

    def _setting(self, text: dict[str, str], line: Line, at: Spot) -> None:
        name, value = text["name"], text["value"].strip().strip("'\"")
        self.seen(f"setting {name}").add(value, at)
        if len(self.settings) < 512 or name in self.settings:
            who = self.settings.setdefault(name, {})
            if value in who or len(who) < MAX_VALUES:
                nodes = who.setdefault(value, set())
                if len(nodes) < MAX_COMMUNICATORS:
                    nodes.add(line.node or (f"rank {line.rank}" if line.rank is not None else "?"))

    def _version(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        self.seen(text["kind"].lower()).add(text["v"].removesuffix("."), at)
        if "cuda" in text:
            self.seen("cuda").add(text["cuda"], at)

    def _gdr_hca(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        kind = "socket" if text.get("net", "").strip().endswith("Socket") else "rdma"
        self.seen(f"gdr.hca {kind}").add(text["on"], at)

    def _gdr_gpu(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        self.seen("gdr.gpu").add(text["on"], at)

    def _test_rank(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        rank = int(text["rank"])
        who = (text["host"], text["pid"], text["dev"])
        if rank in self.test_ranks and self.test_ranks[rank] != who:
            if len(self.repeated_ranks) < 3:
                self.repeated_ranks.append(at.evidence())
        elif len(self.test_ranks) < MAX_ITEMS:
            self.test_ranks[rank] = who
        self.seen("gpu-model").add(text.get("gpu", "").strip(), at)

    def _test_row(self, text: dict[str, str], _line: Line, at: Spot) -> None:
        row = Row(
            size=int(text["size"]),
            algbw=float(text["alg"]),
            busbw=float(text["bus"]),
            wrong=text["wrong"],
            at=at.evidence(),
        )
        self.row_count += 1
        if self.largest is None or row.size >= self.largest.size:
            self.largest = row
        if self.peak is None or row.algbw > self.peak.algbw:
            self.peak = row
        # A ratio needs digits: of a large enough row.
        if len(self.rows) < MAX_VALUES and row.algbw >= 1:
            self.rows.append(row)
        if re.fullmatch(r"[1-9]\d*", row.wrong) and len(self.bad_rows) < 3:
            self.bad_rows.append(row.at)

    _handlers = {  # noqa: RUF012 - never changed
        "nccl.channel-net": _channel_net,
        "nccl.ring-order": _ring_order,
        "nccl.channel-p2p": _channel_local,
        "nccl.channel-shm": _channel_local,
        "nccl.channel-shm-old": _channel_local,
        "nccl.comm-nodes": _comm_nodes,
        "nccl.init-start": _started,
        "nccl.init-complete": _completed,
        "nccl.abort": _aborted,
        "nccl.destroy": _destroyed,
        "nccl.network": _network,
        "nccl.network-old": _network,
        "nccl.network-assigned": _network,
        "nccl.devices": _devices,
        "nccl.device-old": _device_old,
        "nccl.warn": _warn,
        "ofi.tuner": _tuner,
        "nccl.tree-plan": _tree_plan,
        "bench.payload": _bench_title,
        "bench.title": _bench_title,
        "bench.figure": _bench_figure,
        "bench.row": _bench_row,
        "tests.row-units": _row_units,
        "nic.speed": _nic_rate,
        "nic.topology": _nic_rate,
        "nic.ibstat": _nic_rate,
        "nic.ethtool": _nic_rate,
        "nic.perftest": _perftest,
        "nccl.setting": _setting,
        "nccl.setting-short": _setting,
        "nccl.version": _version,
        "gdr.hca": _gdr_hca,
        "gdr.gpu": _gdr_gpu,
        "tests.rank": _test_rank,
        "tests.row": _test_row,
    }
