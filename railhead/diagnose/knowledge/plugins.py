"""Causes in network plugins: EFA and libfabric, the GCP plugins, plugins that do not load."""

from __future__ import annotations

from railhead.diagnose.model import Cause, Clue, Observation, Rule, Setting

FAMILY = "Plugins: EFA, GCP and others"
OFI = "aws/aws-ofi-nccl"
EFA_ERRNO = "ofiwg/libfabric prov/efa/src/efa_errno.h"

CLUES = (
    Clue(
        id="socket-line",
        pattern=rb"Using network Socket\b|Assigned NET plugin Socket\b|via NET/Socket/",
        seen="NCCL 2.8 and newer",
        source="NVIDIA/nccl src/init.cc",
        example="NCCL INFO Using network Socket",
    ),
    Clue(
        id="socket-channel",
        pattern=rb"via NET/Socket/",
        seen="NCCL 2.4 and newer",
        source="NVIDIA/nccl src/transport/net.cc",
        example="NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
    ),
    Clue(
        id="ofi-present",
        pattern=rb"NET/OFI |Using network (?:AWS )?Libfabric",
        seen="aws-ofi-nccl, all versions",
        source=OFI,
        example="NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.0",
    ),
    Clue(
        id="efa-selected",
        pattern=rb"Selected [Pp]rovider is efa",
        seen="aws-ofi-nccl: capital P to 1.13",
        source=OFI + " src/nccl_ofi_net.cpp",
        example="NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)",
    ),
    Clue(
        id="ofi-tcp-provider",
        pattern=rb"Selected [Pp]rovider is (?:tcp|sockets|udp|net|verbs;ofi_rxm|tcp;ofi_rxm|shm)\b",
        seen="aws-ofi-nccl, all versions",
        source=OFI + " src/nccl_ofi_net.cpp",
        example="NCCL INFO NET/OFI Selected Provider is tcp (found 2 nics)",
    ),
    Clue(
        id="ofi-no-provider",
        pattern=rb"(?:Could not|Couldn't) find any optimal provider|No eligible providers were "
        rb"found",
        seen="aws-ofi-nccl: `optimal` to 1.14, `eligible` from 1.15",
        source=OFI + " src/nccl_ofi_ofiutils.cpp",
        example="NCCL WARN NET/OFI Could not find any optimal provider",
    ),
    Clue(
        id="efa-empty-list",
        pattern=rb"provider efa output empty list",
        seen="libfabric with FI_LOG_LEVEL=warn",
        source="ofiwg/libfabric src/fabric.c",
        example="libfabric:85:1747438790::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider "
        "efa output empty list",
    ),
    Clue(
        id="efa-no-device",
        pattern=rb"[Nn]o EFA devices? (?:found|available|detected)|"
        rb"fi_getinfo: -61|provider: efa.*No data available|"
        rb"fi_getinfo\(\) call failed: No data available",
        seen="fi_info, EFA installer, plugins",
        source="ofiwg/libfabric util/info.c",
        example="fi_getinfo: -61 (No data available)",
    ),
    Clue(
        id="efa-av-insert",
        pattern=rb"[Uu]nable to insert remote address into address vector",
        seen="aws-ofi-nccl, all versions",
        source=OFI + " #663",
        example="NET/OFI Unable to insert remote address into address vector for device 1",
    ),
    Clue(
        id="efa-handshake",
        pattern=rb"reachable by EFA device but handshake failed|Error: 4126\b",
        seen="libfabric 1.20 and newer",
        source=EFA_ERRNO,
        example="NCCL WARN NET/OFI Request 0x7f456c222f60 completed with error. RC: 103. Error: "
        "4126 "
        "(Unresponsive receiver (reachable by EFA device but handshake failed)",
    ),
    Clue(
        id="efa-unreachable",
        pattern=rb"Unreachable remote \(never received a response\)|"
        rb"Remote destination is not reachable|Invalid (?:AH|address handle).*EFA",
        seen="libfabric 1.20 and newer",
        source=EFA_ERRNO,
        example="NET/OFI Request completed with error. RC: 113. Error: 14 (Unreachable remote "
        "(never "
        "received a response))",
    ),
    Clue(
        id="efa-rc-20",
        pattern=rb"NET/OFI Request \S+ completed with error\. RC: 20\b|"
        rb"rxr_cq_write_tx_error: err: 20\b",
        seen="libfabric before 1.20, which passes the device's own status on",
        source="aws/aws-ofi-nccl issues: fixed by the security group's own rules",
        example="NCCL WARN NET/OFI Request 0x7fbb944701b8 completed with error. RC: 20. Error: "
        "unknown error. Completed length: 0",
    ),
    Clue(
        id="efa-unresponsive",
        pattern=rb"Unresponsive remote \(was previously responsive\)|"
        rb"Unresponsive receiver \(connection previously established\)",
        seen="libfabric 1.20 and newer",
        source=EFA_ERRNO,
        example="NET/OFI Request completed with error. RC: 103. Error: 13 (Unresponsive remote "
        "(was "
        "previously responsive))",
    ),
    Clue(
        id="efa-unresponsive-old",
        pattern=rb"Unresponsive receiver\. +This error is typically caused by",
        seen="libfabric 1.18 and 1.19",
        source="ofiwg/libfabric prov/efa/src/efa_strerror.c, #8889",
        example="Unresponsive receiver. This error is typically caused by a peer hardware failure "
        "or incorrect inbound/outbound rules in the security group",
    ),
    Clue(
        id="efa-alloc-pd",
        pattern=rb"efa_\d+: Failed to process command ALLOC_PD|Couldn't open AV\. RC: -22",
        seen="EFA kernel driver, aws-ofi-nccl 1.x",
        source="aws/aws-ofi-nccl #22, #24",
        example="infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) comp_status 1 "
        "err "
        "-12",
    ),
    Clue(
        id="efa-gdr-required",
        pattern=rb"GDR disabled on GDR-supported instance type|"
        rb"Could not find any optimal provider supporting GPUDirect RDMA",
        seen="aws-ofi-nccl 1.7 and newer",
        source=OFI + " src/platform-aws.cpp",
        example="NCCL WARN NET/OFI GDR disabled on GDR-supported instance type p5.48xlarge",
    ),
    Clue(
        id="efa-libfabric-old",
        pattern=rb"EFA provider requires at least libfabric version|"
        rb"libfabric\.so\.1: version .FABRIC_[\d.]+. not found|Couldn't set FI_OPT_EFA_\w+|"
        rb"NET/OFI .*[Ll]ibfabric version .*(?:too old|not supported)",
        seen="aws-ofi-nccl 1.14 and newer, the dynamic loader",
        source=OFI + " src/platform-aws.cpp",
        example="NCCL WARN NET/OFI EFA provider requires at least libfabric version 1.22.0.",
    ),
    Clue(
        id="efa-fork",
        pattern=rb"Libfabric EFA provider has.*fork|A process has executed an operation involving "
        rb"a "
        rb"call|FI_EFA_USE_HUGE_PAGE|os\.fork\(\).*Cannot allocate memory",
        seen="libfabric with the EFA provider",
        source="ofiwg/libfabric prov/efa/src/efa_fork_support.c; awsome-distributed-training",
        example="A process has executed an operation involving a call",
    ),
    Clue(
        id="efa-sync-memops",
        pattern=rb"Unable to register memory \(type = 2\) for device .*RC: -22",
        seen="EFA installer before 1.29.1 with NCCL 2.19 and newer",
        source="awsome-distributed-training efa-cheatsheet",
        example="NET/OFI Unable to register memory (type = 2) for device 4. RC: -22, Error: "
        "Invalid "
        "argument",
    ),
    Clue(
        id="plugin-not-found",
        pattern=rb"NET/Plugin ?: (?:No plugin found|Could not find: libnccl-net|Plugin load (?:"
        rb"\(libnccl-net\.so\) )?returned 2 ?: libnccl-net\.so: cannot open)",
        seen="NCCL: each version words it differently, all of them INFO and normal without plugin",
        source="NVIDIA/nccl src/plugin/net.cc",
        example="NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network "
        "plugin.",
    ),
    Clue(
        id="plugin-load-failed",
        pattern=rb"NET/Plugin ?: .*(?:undefined symbol|libfabric\S*: cannot open|"
        rb"GLIBC(?:XX)?_[\d.]+. not found|libhwloc\S*: cannot open|libcudart\S*: cannot open|"
        rb"wrong ELF class|libucp\S*: cannot open|libsharp\S*: cannot open)",
        seen="NCCL 2.19 and newer",
        source="NVIDIA/nccl src/plugin/plugin_open.cc: the dynamic loader's own words",
        example="NCCL INFO NET/Plugin: Plugin load returned 11 : libfabric.so.1: cannot open "
        "shared "
        "object file: No such file or directory : when loading libnccl-net.so",
    ),
    Clue(
        id="plugin-set-by-env",
        pattern=rb"NCCL_NET_PLUGIN set by environment to (?P<value>\S+)|Plugin name set by env to",
        seen="NCCL 2.15 and newer",
        source="NVIDIA/nccl src/plugin/net.cc",
        example="NCCL INFO NCCL_NET_PLUGIN set by environment to ofi",
    ),
    Clue(
        id="net-forced",
        pattern=rb"NCCL_NET set by environment to (?P<value>.+)",
        seen="NCCL 2.10 and newer",
        source="NVIDIA/nccl src/plugin/net.cc",
        example="NCCL INFO NCCL_NET set by environment to IB",
    ),
    Clue(
        id="net-none",
        pattern=rb"Failed to initialize any NET plugin",
        seen="NCCL 2.27 and newer",
        source="NVIDIA/nccl src/plugin/net.cc",
        example="plugin/net.cc:346 NCCL WARN Failed to initialize any NET plugin",
    ),
    Clue(
        id="net-not-found",
        pattern=rb"Error: network .{1,60} not found",
        seen="NCCL 2.10 to 2.26",
        source="NVIDIA/nccl src/net.cc",
        example="net.cc:254 NCCL WARN Error: network AWS Libfabric not found.",
    ),
    Clue(
        id="gcp-plugin",
        pattern=rb"NET/GPUDirectTCPX|NET/FasTrak|NET/FastSocket|NET/gIB|Using network "
        rb"GPUDirectTCPX|"
        rb"Using network FasTrak|Using network FastSocket|Using network gIB",
        seen="GCP plugins",
        source="Google Cloud documentation, GPUDirect",
        example="NCCL INFO NET/FasTrak plugin: Initializing network FasTrak, version 1.0.9",
    ),
    Clue(
        id="gib-not-mounted",
        pattern=rb"couldn't open config directory '[^']*gib",
        seen="libibverbs built into gIB's images",
        source="linux-rdma/rdma-core libibverbs/init.c; Google Cloud documentation, gIB",
        example="libibverbs: Warning: couldn't open config directory '/usr/local/gib/configs'.",
    ),
    Clue(
        id="shim-mismatch",
        pattern=rb"NCCL/NET \(shim\) mismatch",
        seen="the guest configuration checker of GPUDirect-TCPXO and gIB",
        source="google/nccl-plugin-gpudirect-tcpxo, NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
        example="NCCL/NET (shim) mismatch recommended: NCCL_FASTRAK_USE_LLCM=1 (expected unset)",
    ),
    Clue(
        id="gib-config-checker",
        pattern=rb"(?:Config [Cc]hecker|[Gg]uest [Cc]onfig [Cc]hecker|NCCL/NET.*[Cc]onfig).*"
        rb"(?:mismatch|unexpected|expected|fail|not match|should be)",
        seen="the shim of gIB and of GPUDirect-TCPXO",
        source="Google Cloud documentation, gIB and TCPXO environment",
        example="NCCL/NET (shim) Config Checker: mismatch: NCCL_CROSS_NIC expected 0, got 2",
    ),
    Clue(
        id="tcpx-failed",
        pattern=rb"(?:dmabuf_import_helper|/dev/aperture_devices).{0,200}(?:No such "
        rb"file|failed|missing|"
        rb"cannot|not found)|"
        rb"(?:failed|unable|cannot|could not|error)[^:]{0,120}: ?\S{0,80}dmabuf_import_helper|"
        rb"NET/(?:GPUDirectTCPX|FasTrak).{0,200}(?:[Ff]ailed|[Ee]rror|ERROR|MISMATCH|unsupported|refused|"
        rb"timed out)|gpu_tx_reg_mr failed|get_gpumem_dmabuf_pages_fd\(\) failed|"
        rb"cuMemGetHandleForAddressRange .{0,200}failed|listen FAILED \(no flow steering\)|"
        rb"fastrak_gpumem_manager\.cc:\d+\] (?:Number of GPUs|No GPU|[Ff]ailed)|"
        rb"No GPU Mem Manager created|expected to be run with 8 GPU NICs|"
        rb"(?:rxdm|rx-dm|tcpgpudmarxd|RxDM).*(?:[Ff]ailed|[Ee]rror|exit(?:ed|ing)|not running|"
        rb"refused)",
        seen="GPUDirect-TCPX, -TCPXO and their daemon",
        source="google/nccl-plugin-gpudirecttcpx and -tcpxo; container-engine-accelerators #580",
        example="tcpgpudmarxd: failed to open /dev/dmabuf_import_helper: No such file or directory",
    ),
)

OBSERVATIONS = (
    Observation(
        id="pod-no-efa-request", title="the training container requests no vpc.amazonaws.com/efa"
    ),
    Observation(id="daemon-ended", title="a sidecar that moves the data ended while the job ran"),
)

CAUSES = (
    Cause(
        id="efa-device-or-provider-missing",
        title="libfabric finds no EFA device or provider",
        family=FAMILY,
        rules=(
            Rule(
                needs=("pod-no-efa-request",),
                any_of=("ofi-no-provider", "efa-empty-list", "network-socket", "efa-no-device"),
                confidence=0.95,
                because="no EFA was found and the pod requests none",
            ),
            Rule(
                needs=("ofi-no-provider", "network-socket"),
                confidence=0.8,
                because="the plugin finds no provider and NCCL goes on over TCP",
            ),
            Rule(
                needs=("ofi-no-provider", "libibverbs-missing"),
                confidence=0.75,
                because="the plugin finds no provider and the next fallback is not there either",
            ),
            Rule(
                needs=("efa-no-device",),
                any_of=("ofi-present", "ofi-no-provider"),
                unless=("efa-selected",),
                confidence=0.75,
                because="libfabric finds no EFA device",
            ),
            Rule(
                needs=("ofi-no-provider",),
                unless=("efa-gdr-required", "efa-selected"),
                confidence=0.55,
                because="the plugin finds no provider: the device is not in the container, or "
                "libfabric has no EFA in it",
            ),
            Rule(
                needs=("efa-empty-list",),
                unless=("efa-selected",),
                confidence=0.55,
                because="libfabric's EFA provider lists no device",
            ),
            Rule(
                needs=("pod-no-efa-request",),
                confidence=0.5,
                because="the pod requests no EFA device",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="fabric.kind",
            text="efa: every runtime then requests vpc.amazonaws.com/efa and the image is checked "
            "for the plugin",
        ),
        by_hand="request vpc.amazonaws.com/efa in the container, one libfabric (of the EFA "
        "installer) on LD_LIBRARY_PATH",
        confirm="in the pod: `fi_info -p efa` lists devices",
        apart={
            "efa-security-group": "the provider is selected and only reaching the peer fails",
            "plugin-not-found": "the plugin itself is not loaded",
        },
        source="aws/aws-ofi-nccl #67, #889; NVIDIA/nccl #229",
    ),
    Cause(
        id="efa-security-group",
        title="The security group does not let EFA traffic pass between the nodes",
        family=FAMILY,
        rules=(
            Rule(
                needs=("efa-handshake",),
                unless=("oom-any", "xid"),
                confidence=0.7,
                because="the device reaches the peer's address and the peer's answer never comes",
            ),
            Rule(
                needs=("efa-unreachable",),
                confidence=0.7,
                because="the peer never answered over EFA",
            ),
            Rule(
                needs=("efa-rc-20",),
                confidence=0.6,
                because="the device reports that the peer cannot be reached",
            ),
            Rule(
                needs=("efa-av-insert",),
                confidence=0.65,
                because="the peer's address cannot be used",
            ),
            Rule(
                needs=("efa-unresponsive-old",),
                confidence=0.5,
                because="the peer does not answer over EFA: these rules, or its process is gone",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="platform",
            text="kind aws: the stack's security group names itself as source and as destination",
        ),
        by_hand="inbound and outbound rules of the security group: all traffic from and to the "
        "group itself (EFA is not IP: a rule for 0.0.0.0/0 does not let it out), nodes in one "
        "subnet",
        confirm="`aws ec2 describe-security-groups`: both directions hold the group's own id; "
        "`fi_pingpong -p efa` between two pods",
        apart={
            "efa-peer-lost": "the peer answered before",
            "efa-device-or-provider-missing": "there is no provider at all",
        },
        source="AWS documentation, EFA getting started; aws/aws-ofi-nccl #663",
    ),
    Cause(
        id="efa-peer-lost",
        title="A peer stopped answering over EFA in the middle of the run",
        family=FAMILY,
        rules=(
            Rule(
                needs=("efa-unresponsive",),
                confidence=0.62,
                because="libfabric says that the peer was responsive before",
            ),
        ),
        verdict="timeout",
        fix=Setting(
            where="none",
            path="",
            text="`railhead status JOB` names the pod that ended; the node gate tests its node",
        ),
        by_hand="the peer's host id is in the message: look at that instance first",
        confirm="`rdma statistic` and the EFA counters (unresponsive_remote_events) on this node",
        apart={"efa-security-group": "the peer never answered at all"},
        source="ofiwg/libfabric prov/efa/src/efa_errno.h",
    ),
    Cause(
        id="efa-device-resources",
        title="The EFA device refused a protection domain or an address vector",
        family=FAMILY,
        rules=(
            Rule(
                needs=("efa-alloc-pd",),
                confidence=0.45,
                because="the kernel driver says that the device is out of a resource; what used it "
                "up is not known",
            ),
        ),
        verdict="hang",
        fix=Setting(where="none", path="", text="update the EFA driver on the nodes"),
        by_hand="a newer EFA installer; processes of earlier runs that still hold the device",
        confirm="`rdma resource` on the node",
        source="aws/aws-ofi-nccl #22, #24",
    ),
    Cause(
        id="efa-without-gpudirect",
        title="EFA on this instance type needs GPUDirect RDMA and does not get it",
        family=FAMILY,
        rules=(
            Rule(
                needs=("efa-gdr-required",),
                confidence=0.92,
                because="the plugin refuses to go on without it",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="pools[].instance_type",
            text="the pool's image must carry the open GPU driver and the EFA driver with peer "
            "memory or DMA-BUF",
        ),
        by_hand="current EFA installer and open NVIDIA driver on the node; "
        "OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK=1 only to measure without",
        confirm="`fi_info -p efa -c FI_HMEM`",
        source="aws/aws-ofi-nccl src/platform-aws.cpp",
    ),
    Cause(
        id="efa-libfabric-version",
        title="The libfabric in use is too old for the plugin, or a second one is loaded",
        family=FAMILY,
        rules=(
            Rule(
                needs=("efa-libfabric-old",),
                confidence=0.9,
                because="the plugin or the loader names the version",
            ),
            Rule(
                needs=("efa-sync-memops",),
                confidence=0.7,
                because="registering GPU memory fails with -22, as EFA installers before 1.29.1 do "
                "with NCCL 2.19 and newer",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="runtimes[].image",
            text="an image built on one EFA installer: libfabric, plugin and NCCL that belong "
            "together",
        ),
        by_hand="one libfabric on LD_LIBRARY_PATH (/opt/amazon/efa/lib); a current EFA installer; "
        "FI_EFA_SET_CUDA_SYNC_MEMOPS=0 before 1.29.1",
        confirm="`fi_info --version` in the pod; `NET/OFI Using Libfabric version` in the log",
        source="aws/aws-ofi-nccl src/platform-aws.cpp; awsome-distributed-training",
    ),
    Cause(
        id="efa-fork",
        title="A fork() while EFA memory is registered",
        family=FAMILY,
        rules=(
            Rule(
                needs=("efa-fork",),
                confidence=0.75,
                because="libfabric aborts, or fork fails because huge pages are pinned",
            ),
        ),
        verdict="init-failure",
        fix=Setting(where="job", path="env", text="FI_EFA_USE_HUGE_PAGE: 0"),
        by_hand="FI_EFA_USE_HUGE_PAGE=0 when fork fails; a kernel of 5.15 or newer needs no fork "
        "safety",
        confirm="the data loader starts its workers",
        source="ofiwg/libfabric prov/efa; awsome-distributed-training efa-cheatsheet",
    ),
    Cause(
        id="ofi-plugin-on-tcp",
        title="The OFI plugin runs over a TCP provider, not over EFA",
        family=FAMILY,
        rules=(
            Rule(
                needs=("ofi-tcp-provider",),
                unless=("efa-selected",),
                confidence=0.9,
                because="the plugin names the provider it selected",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="fabric.kind",
            text="efa where the nodes have it; else an image without the OFI plugin",
        ),
        by_hand="give the pod its EFA devices, or remove the plugin (NCCL's own sockets are "
        "faster)",
        confirm="`Selected provider is efa` in the next run",
        source="aws/aws-ofi-nccl src/nccl_ofi_net.cpp",
    ),
    Cause(
        id="plugin-not-found",
        title="NCCL's network plugin is not found, so NCCL falls back",
        family=FAMILY,
        rules=(
            Rule(
                needs=("plugin-not-found", "plugin-set-by-env", "network-socket"),
                confidence=0.8,
                because="a plugin is asked for by name, is not found, and TCP is used",
            ),
            Rule(
                needs=("plugin-not-found", "on-aws", "network-socket"),
                unless=("fatal-other", "one-node"),
                confidence=0.72,
                because="on AWS without the plugin NCCL has only TCP",
            ),
            Rule(
                needs=("plugin-not-found", "network-socket"),
                unless=("fatal-other", "one-node", "gcp-plugin"),
                confidence=0.4,
                because="no plugin is found and TCP is used",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="runtimes[].image",
            text="an image that carries the fabric's plugin (for EFA: aws-ofi-nccl)",
        ),
        by_hand="LD_LIBRARY_PATH to the plugin's folder (/opt/amazon/ofi-nccl/lib), "
        "NCCL_NET_PLUGIN "
        "unset or the right name",
        confirm="`NET/Plugin: Loaded net plugin` in the next run",
        apart={
            "plugin-does-not-load": "the plugin is found and a library of its own is missing",
            "efa-device-or-provider-missing": "the plugin is loaded and finds no device",
        },
        source="NVIDIA/nccl src/plugin/net.cc",
    ),
    Cause(
        id="plugin-does-not-load",
        title="NCCL's network plugin is there, but a library that it needs is missing or wrong",
        family=FAMILY,
        rules=(
            Rule(
                needs=("plugin-load-failed", "net-not-found"),
                confidence=0.95,
                because="the loader names the library or symbol, and so the network that NCCL was "
                "told to use is not there",
            ),
            Rule(
                needs=("plugin-load-failed",),
                confidence=0.85,
                because="the loader names the library or symbol",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="runtimes[].image",
            text="an image in which plugin, libfabric, CUDA and NCCL belong together",
        ),
        by_hand="`ldd libnccl-net.so` in the pod; install what is `not found`, take a second copy "
        "off LD_LIBRARY_PATH",
        confirm="`ldd` of the plugin in the pod shows nothing missing",
        apart={"plugin-not-found": "libnccl-net.so itself is not found"},
        source="NVIDIA/nccl src/plugin/plugin_open.cc",
    ),
    Cause(
        id="forced-network-absent",
        title="NCCL_NET names a network that is not there, and a named network has no fallback",
        family=FAMILY,
        rules=(
            Rule(
                needs=("net-not-found",),
                confidence=0.92,
                because="NCCL names the network that it was told to use and does not have",
            ),
            Rule(
                needs=("net-none", "net-forced"),
                confidence=0.92,
                because="no network initialises and one is forced",
            ),
            Rule(
                needs=("net-none",),
                confidence=0.75,
                because="no network initialises, which happens only when one is forced",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.kind",
            text="Railhead pins NCCL_NET on purpose: without RDMA the job fails at once instead of "
            "crawling. Find out why the network is not there; do not take the pin away",
        ),
        by_hand="install the plugin or bring the device in; NCCL_NET unset only to prove the rest",
        confirm="the lines before it say why: No device found, or no plugin",
        apart={
            "rdma-device-not-in-container": "NCCL_NET=IB and No device found: the device is "
            "missing",
        },
        source="NVIDIA/nccl src/plugin/net.cc",
    ),
    Cause(
        id="gib-not-mounted",
        title="gIB is not mounted in the pod, so NCCL falls back",
        family=FAMILY,
        rules=(
            Rule(
                needs=("gib-not-mounted",),
                confidence=0.85,
                because="libibverbs looks for gIB's configuration and does not find it",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="platform",
            text="kind gcp on A3 Ultra or A4: the runtimes mount gIB and source its environment",
        ),
        by_hand="hostPath /home/kubernetes/bin/gib at /usr/local/gib, LD_LIBRARY_PATH, then "
        "`source "
        "/usr/local/gib/scripts/set_nccl_env.sh`",
        confirm="`NET/gIB : Initializing gIB` in the next run",
        source="Google Cloud documentation, GPUDirect RDMA on A3 Ultra",
    ),
    Cause(
        id="gcp-settings-overridden",
        title="NCCL settings differ from those that the GCP plugin requires",
        family=FAMILY,
        rules=(
            Rule(
                needs=("shim-mismatch",),
                confidence=0.7,
                because="the plugin's shim lists settings that differ from those it ships with",
            ),
            Rule(
                needs=("gib-config-checker",),
                confidence=0.85,
                because="the plugin's own checker says so",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="env",
            text="take the NCCL_* that the message names out: the plugin's script sets them",
        ),
        by_hand="source the plugin's own script last and set nothing by hand",
        confirm="the checker is silent in the next run",
        source="Google Cloud documentation, gIB and TCPXO",
    ),
    Cause(
        id="gpudirect-tcpx-stack",
        title="GPUDirect-TCPX or -TCPXO is not complete: daemon, device or versions",
        family=FAMILY,
        rules=(
            Rule(
                needs=("tcpx-failed",),
                confidence=0.75,
                because="the plugin or its daemon says what is missing",
            ),
            Rule(
                needs=("daemon-ended",),
                confidence=0.8,
                because="the daemon's container ended while the job ran",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="platform",
            text="kind gcp: the installer, the daemon and the plugin come as one tested "
            "combination",
        ),
        by_hand="the installer's modprobe import-helper on the node, the daemon's device "
        "annotation, "
        "plugin and daemon versions that belong to the driver",
        confirm="in the daemon's container: `ls /dev/dmabuf_import_helper`, and it stays running",
        source="Google Cloud documentation, GPUDirect-TCPX and -TCPXO",
    ),
)
