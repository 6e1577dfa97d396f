"""Causes in GPUs and in the versions around them: driver, CUDA, NCCL, memory, Xid, NVLink."""

from __future__ import annotations

from railhead.diagnose.model import Cause, Clue, Observation, Rule, Setting

FAMILY = "GPU, driver, versions and memory"
XID = "NVIDIA Xid documentation (docs.nvidia.com/deploy/xid-errors)"

CLUES = (
    Clue(
        id="driver-too-old",
        pattern=rb"CUDA driver version is insufficient for CUDA runtime version|"
        rb"NVIDIA driver on your system is too old|"
        rb"API call is not supported in the installed CUDA driver|"
        rb"CUDA Driver version found is \d+\. Minimum requirement|"
        rb"provided PTX was compiled with an unsupported toolchain|"
        rb"forward compatibility was attempted on non supported HW|"
        rb"cudaErrorInsufficientDriver|CUDA_ERROR_UNSUPPORTED_PTX_VERSION|"
        rb"unsatisfied condition: cuda>=",
        seen="CUDA, PyTorch, NCCL 2.29 and newer, nvidia-container-cli",
        source="CUDA runtime API, error codes; NVIDIA/nccl src/misc/cudawrap.cc",
        example="NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime "
        "version'",
    ),
    Clue(
        id="socket-address-garbage",
        pattern=rb"connecting to address .*with family (?:0|\d{3,}) is neither AF_INET",
        seen="NCCL from 2.12",
        source="NVIDIA/nccl src/misc/socket.cc; #1267 (nodes with different NCCL)",
        example="misc/socket.cc:622 NCCL WARN ncclSocketInit: connecting to address  with family 0 "
        "is neither AF_INET(2) nor AF_INET6(10)",
    ),
    Clue(
        id="driver-mismatch",
        pattern=rb"Driver/library version mismatch|NVML library version: \d|"
        rb"system has unsupported display driver / cuda driver combination",
        seen="NVML, nvidia-smi",
        source="NVML API, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        example="Failed to initialize NVML: Driver/library version mismatch",
    ),
    Clue(
        id="no-kernel-image",
        pattern=rb"no kernel image is available for execution on the device|"
        rb"is not compatible with the current PyTorch installation",
        seen="CUDA, PyTorch, nccl-tests",
        source="CUDA runtime API, cudaErrorNoKernelImageForDevice",
        example="Test CUDA failure common.cu:303 'no kernel image is available for execution on "
        "the "
        "device'",
    ),
    Clue(
        id="fabric-manager",
        pattern=rb"[Cc]uda failure (?:802|'?system not yet initialized)|"
        rb"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|"
        rb"Failed to bind NVLink SHARP \(NVLS\) Multicast memory|"
        rb"[Ff]abric [Mm]anager.*(?:not running|failed|version mismatch|not initialized)",
        seen="CUDA on NVSwitch systems; NCCL 2.18 and newer",
        source="NVIDIA Fabric Manager user guide; NVIDIA/nccl src/transport/nvls.cc",
        example="transport/nvls.cc:1 NCCL WARN Cuda failure 802 'system not yet initialized'",
    ),
    Clue(
        id="imex",
        pattern=rb"MNNVL .*is available but not working|Check the IMEX|"
        rb"CUDA_ERROR_ILLEGAL_STATE.*(?:fabric|IMEX)|IMEX.*(?:not running|failed|not ready)",
        seen="NCCL 2.21 and newer on GB200 and GB300",
        source="NVIDIA/nccl src/mnnvl.cc",
        example="mnnvl.cc:74 NCCL WARN MNNVL (cliqueSize 8) is available but not working on this "
        "system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels).",
    ),
    Clue(
        id="nvml-missing",
        pattern=rb"Failed to open libnvidia-ml\.so|no CUDA-capable device is detected|"
        rb"Found no NVIDIA driver on your system|cudaErrorNoDevice",
        seen="NCCL, CUDA, PyTorch",
        source="NVIDIA/nccl src/misc/nvmlwrap.cc; CUDA runtime API",
        example="NCCL WARN Failed to open libnvidia-ml.so.1: libnvidia-ml.so.1: cannot open shared "
        "object file",
    ),
    Clue(
        id="invalid-device-ordinal",
        pattern=rb"invalid device ordinal|cudaErrorInvalidDevice",
        seen="CUDA, PyTorch",
        source="CUDA runtime API, cudaErrorInvalidDevice",
        example="RuntimeError: CUDA error: invalid device ordinal",
    ),
    Clue(
        id="nccl-version-mismatch",
        pattern=rb"Mismatched NCCL version detected",
        seen="NCCL 2.23 and newer",
        source="NVIDIA/nccl src/init.cc",
        example="init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 0 version 22304 rank "
        "1 "
        "version 22105",
    ),
    Clue(
        id="message-truncated",
        pattern=rb"Message truncated ?: received",
        seen="NCCL, all versions: bootstrap; with mixed versions or a stranger on the port",
        source="NVIDIA/nccl src/bootstrap.cc",
        example="bootstrap.cc:62 NCCL WARN Message truncated : received 256 bytes instead of 128",
    ),
    Clue(
        id="nccl-symbol",
        pattern=rb"undefined symbol: nccl\w+|libnccl\.so\S*: (?:cannot open|version)|"
        rb"libnccl\S*: undefined symbol",
        seen="the dynamic loader",
        source="pytorch/pytorch issues on `undefined symbol: ncclCommRegister`",
        example="ImportError: /usr/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
    ),
    Clue(
        id="duplicate-gpu",
        pattern=rb"Duplicate GPU detected|Multiple Ranks are using the same GPU",
        seen="NCCL: the first to 2.29, the second from 2.30",
        source="NVIDIA/nccl src/init.cc",
        example="init.cc:521 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA "
        "device 3e000",
    ),
    Clue(
        id="gpu-oom",
        pattern=rb"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|"
        rb"[Cc]uda failure (?:\d+ )?'?out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
        rb"CUDA error: out of memory|Failed to CUDA (?:m|c|host )alloc \d+ bytes",
        seen="CUDA, PyTorch, NCCL",
        source="CUDA runtime API; pytorch c10/cuda; NVIDIA/nccl src/include/alloc.h",
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    Clue(
        id="host-oom",
        pattern=rb"OOMKilled|[Oo]ut of memory: Kill(?:ed)? process|oom-kill|oom_kill|"
        rb"Memory cgroup out of memory|oom_reaper|exit code:? 137|exited with code:? 137|"
        rb"exitcode: 137",
        seen="Kubernetes, the kernel's log",
        source="Linux mm/oom_kill.c; Kubernetes container states",
        example="Memory cgroup out of memory: Killed process 4242 (python3) total-vm:400000000kB",
    ),
    Clue(
        id="killed-9",
        pattern=rb"Signal 9 \(SIGKILL\)|exitcode *: -9\b|signal: Killed|exited on signal 9",
        seen="torchrun, mpirun",
        source="pytorch torch/distributed/elastic/multiprocessing/errors",
        example="  exitcode  : -9 (pid: 4242)",
    ),
    Clue(
        id="sigbus",
        pattern=rb"Signal 7 \(SIGBUS\)|exitcode *: -7\b|exited on signal 7|Bus error \(core "
        rb"dumped\)|"
        rb"Caught signal 7 \(Bus error",
        seen="torchrun, mpirun, UCX",
        source="pytorch torch/distributed/elastic/multiprocessing/errors",
        example="  exitcode  : -7 (pid: 4242)",
    ),
    Clue(
        id="xid",
        pattern=rb"NVRM: Xid \(PCI:[^)]*\): (?P<xid>\d+)|\bXid (?P<code>\d+)\b|\bXid: "
        rb"(?P<number>\d+)\b",
        seen="the kernel's log, node-problem-detector, DCGM",
        source=XID,
        example="NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.",
    ),
    Clue(
        id="gpu-lost",
        pattern=rb"GPU has fallen off the bus|Unable to determine the device handle for GPU|"
        rb"GPU is lost\b|NVML: GPU is lost|cudaErrorDevicesUnavailable",
        seen="the kernel's log, nvidia-smi, CUDA",
        source=XID + ", Xid 79",
        example="Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.",
    ),
    Clue(
        id="gpu-ecc",
        pattern=rb"uncorrectable (?:NVLink |ECC |L2 )?(?:ECC )?error|"
        rb"CUDA_ERROR_ECC_UNCORRECTABLE|[Rr]ow [Rr]emap(?:per|ping) fail|"
        rb"unspecified launch failure.*ECC",
        seen="CUDA, the kernel's log, DCGM",
        source="CUDA runtime API, cudaErrorECCUncorrectable; " + XID,
        example="RuntimeError: CUDA error: uncorrectable ECC error encountered",
    ),
    Clue(
        id="cuda-illegal",
        pattern=rb"an illegal memory access was encountered|device-side assert triggered|"
        rb"unspecified launch failure|CUDA error: misaligned address",
        seen="CUDA, PyTorch",
        source="CUDA runtime API, cudaErrorIllegalAddress, cudaErrorAssert",
        example="RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    Clue(
        id="cuda-failure",
        pattern=rb"NCCL WARN (?:\[\S+\] )?Cuda failure|unhandled cuda error|Test CUDA failure",
        seen="NCCL, nccl-tests; not every one is fatal",
        source="NVIDIA/nccl src/include/checks.h",
        example="enqueue.cc:105 NCCL WARN Cuda failure 'invalid argument'",
    ),
    Clue(
        id="p2p-unsupported",
        pattern=rb"peer access is not supported between these two devices|"
        rb"P2P is disabled between NVLINK connected GPUs|"
        rb"[Cc]uda failure (?:\d+ )?'peer mapping resources exhausted|"
        rb"P2P is disabled between connected GPUs",
        seen="NCCL, CUDA",
        source="NVIDIA/nccl src/graph/paths.cc, transport/p2p.cc",
        example="transport/p2p.cc:240 NCCL WARN Cuda failure 'peer access is not supported between "
        "these two devices'",
    ),
)

OBSERVATIONS = (
    Observation(id="pod-oom-killed", title="a container of the job was OOMKilled"),
    Observation(id="node-xid", title="a node's exporter counts Xids"),
    Observation(id="node-gpu-unhealthy", title="a node of the job has fewer healthy GPUs"),
)

DEAD_ENDS = (
    "a-rank-died-first",
    "pytorch-watchdog-timeout",
    "peer-refused-connection",
    "rendezvous-timeout",
    "rdma-retry-exceeded",
    "straggler",
    "port-in-use",
    "efa-peer-lost",
    "application-error",
)

CAUSES = (
    Cause(
        id="driver-cuda-mismatch",
        title="The GPU driver does not fit the CUDA that the image was built with",
        family=FAMILY,
        rules=(
            Rule(
                needs=("driver-too-old",),
                confidence=0.92,
                because="CUDA says so",
            ),
            Rule(
                needs=("driver-mismatch",),
                confidence=0.9,
                because="NVML says that library and kernel module differ",
            ),
            Rule(
                needs=("no-kernel-image",),
                confidence=0.85,
                because="the binary holds no code for this GPU",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="runtimes[].image",
            text="an image whose CUDA the nodes' driver supports",
        ),
        by_hand="a newer driver on the node, or an image with an older CUDA; after a driver "
        "upgrade "
        "reboot or reload the module",
        confirm="`nvidia-smi` on the node: the CUDA version is at least the image's",
        source="CUDA compatibility guide; CUDA runtime API",
        explains=DEAD_ENDS,
    ),
    Cause(
        id="fabric-manager-not-ready",
        title="NVSwitch is not initialised (Fabric Manager)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("fabric-manager",),
                confidence=0.85,
                because="CUDA or NCCL names it",
            ),
        ),
        verdict="init-failure",
        fix=Setting(where="none", path="", text="the node's GPU operator runs it; drain the node"),
        by_hand="nvidia-fabricmanager of exactly the driver's version, running; NCCL_NVLS_ENABLE=0 "
        "only to get by",
        confirm="`nvidia-smi -q | grep -A2 Fabric` says State: Completed",
        source="NVIDIA Fabric Manager user guide; NVIDIA/nccl src/transport/nvls.cc",
        explains=DEAD_ENDS,
    ),
    Cause(
        id="imex-not-configured",
        title="Multi-node NVLink is there, but IMEX is not set up for the job",
        family=FAMILY,
        rules=(Rule(needs=("imex",), confidence=0.9, because="NCCL names IMEX"),),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="pools[].instance_type",
            text="a pool of such a type brings the compute domain that gives pods their channel",
        ),
        by_hand="nvidia-imex on every node of the domain, /dev/nvidia-caps-imex-channels in the "
        "pod "
        "(ComputeDomain of the DRA driver); NCCL_MNNVL_ENABLE=0 to do without",
        confirm="`nvidia-imex-ctl -N` shows every node READY",
        source="NVIDIA/nccl src/mnnvl.cc",
    ),
    Cause(
        id="gpu-not-in-container",
        title="The process sees no GPU, or not the one that its rank wants",
        family=FAMILY,
        rules=(
            Rule(
                needs=("nvml-missing",),
                confidence=0.85,
                because="no driver library or device in the container",
            ),
            Rule(
                needs=("invalid-device-ordinal",),
                confidence=0.85,
                because="a rank asks for a GPU number that the process does not have",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="gpus_per_node",
            text="as many GPUs as processes_per_node: each rank takes cuda:LOCAL_RANK",
        ),
        by_hand="request the GPUs in the pod; --gpus all; no CUDA_VISIBLE_DEVICES that hides them",
        confirm="`nvidia-smi -L` inside the process's container",
        source="CUDA runtime API, cudaErrorNoDevice, cudaErrorInvalidDevice",
        explains=DEAD_ENDS,
    ),
    Cause(
        id="nccl-version-mismatch",
        title="Ranks run different NCCL versions",
        family=FAMILY,
        rules=(
            Rule(needs=("nccl-version-mismatch",), confidence=0.95, because="NCCL says so"),
            Rule(
                needs=("versions-differ",),
                any_of=("message-truncated", "socket-address-garbage", "fatal-any"),
                confidence=0.85,
                because="the log shows two versions, and it fails",
            ),
            Rule(
                needs=("message-truncated",),
                confidence=0.55,
                because="bootstrap messages differ in size, as those of different versions do",
            ),
            Rule(
                needs=("socket-address-garbage",),
                confidence=0.58,
                because="a peer's address arrives as zeroes or garbage, as from another version",
            ),
            Rule(
                needs=("nccl-symbol",),
                confidence=0.8,
                because="the framework wants an NCCL function that the loaded libnccl does not "
                "have",
            ),
            Rule(
                needs=("versions-differ",),
                unless=("init-complete",),
                confidence=0.5,
                because="the log shows two versions",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="image",
            text="one image for all workers; railhead's runtimes give every node the same",
        ),
        by_hand="the same image everywhere, and no second libnccl on LD_LIBRARY_PATH",
        confirm="every rank prints the same `NCCL version`",
        source="NVIDIA/nccl src/init.cc, bootstrap.cc",
    ),
    Cause(
        id="duplicate-gpu",
        title="Two ranks use the same GPU",
        family=FAMILY,
        rules=(Rule(needs=("duplicate-gpu",), confidence=0.95, because="NCCL names both ranks"),),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="processes_per_node",
            text="at most gpus_per_node; in the program torch.cuda.set_device(LOCAL_RANK)",
        ),
        by_hand="one rank a GPU: set the device from LOCAL_RANK before the first collective, and "
        "no "
        "CUDA_VISIBLE_DEVICES that gives all ranks the same one",
        confirm="the `busId` of the ranks' Init lines differ",
        source="NVIDIA/nccl src/init.cc",
    ),
    Cause(
        id="gpu-out-of-memory",
        title="A GPU ran out of memory",
        family=FAMILY,
        rules=(Rule(needs=("gpu-oom",), confidence=0.9, because="CUDA says so"),),
        verdict="other",
        fix=Setting(
            where="job",
            path="command",
            text="a smaller batch or more nodes; NCCL needs some memory of its own",
        ),
        by_hand="smaller batch, activation checkpointing, PYTORCH_CUDA_ALLOC_CONF=expandable_"
        "segments:True; kill what else holds the GPU",
        confirm="`nvidia-smi` on that node just before",
        source="CUDA runtime API; pytorch documentation, memory",
        explains=DEAD_ENDS,
    ),
    Cause(
        id="host-out-of-memory",
        title="A process was killed for the memory of its host or pod",
        family=FAMILY,
        rules=(
            Rule(needs=("pod-oom-killed",), confidence=0.95, because="Kubernetes says so"),
            Rule(needs=("host-oom",), confidence=0.9, because="the kernel or Kubernetes says so"),
            Rule(
                needs=("killed-9",),
                confidence=0.6,
                because="a rank was killed with SIGKILL, most often by the kernel for its memory",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="stack",
            path="runtimes[].memory",
            text="more memory (the pod's /dev/shm counts towards it), or fewer data loader workers",
        ),
        by_hand="a higher memory limit, fewer workers, a data loader that does not copy",
        confirm="`kubectl get pod -o yaml` says OOMKilled; `dmesg | grep -i oom` on the node",
        source="Linux mm/oom_kill.c; Kubernetes container states",
        explains=DEAD_ENDS,
    ),
    Cause(
        id="xid-error",
        title="The GPU reported an error (Xid, ECC, fallen off the bus)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("gpu-lost",),
                confidence=0.95,
                because="the GPU is gone from the bus",
            ),
            Rule(
                needs=("xid-hardware",),
                confidence=0.92,
                because="the driver logged an Xid that means hardware, link or firmware",
            ),
            Rule(
                needs=("gpu-ecc",),
                confidence=0.92,
                because="uncorrectable memory errors",
            ),
            Rule(
                needs=("xid-other",),
                confidence=0.65,
                because="the driver logged an Xid; this number may also come from the program",
            ),
            Rule(
                needs=("node-xid",),
                confidence=0.7,
                because="the node's exporter counts Xids",
            ),
            Rule(
                needs=("node-gpu-unhealthy",),
                confidence=0.7,
                because="the node advertises fewer healthy GPUs",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="none",
            path="",
            text="the node gate takes the node out; `railhead status` shows where the gang goes",
        ),
        by_hand="cordon and drain the node, reset the GPU or the node, read the Xid's own row in "
        "NVIDIA's table, replace what keeps failing",
        confirm="`dmesg | grep Xid` on the node; `dcgmi diag -r 3`",
        source=XID,
        explains=(*DEAD_ENDS, "cuda-program-fault"),
    ),
    Cause(
        id="cuda-program-fault",
        title="A kernel of the program faulted (illegal access, assert)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("cuda-illegal",),
                unless=("gpu-lost", "xid-hardware"),
                confidence=0.7,
                because="CUDA reports a fault of the program's own kernels",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="job", path="env", text="CUDA_LAUNCH_BLOCKING: 1 for one run finds the kernel"
        ),
        by_hand="CUDA_LAUNCH_BLOCKING=1, compute-sanitizer; if the same node each time, its Xids",
        confirm="it fails at the same place on another node",
        source="CUDA runtime API, cudaErrorIllegalAddress, cudaErrorAssert",
        explains=DEAD_ENDS,
    ),
    Cause(
        id="gpu-peer-access",
        title="GPUs of one node cannot reach each other (P2P)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("p2p-unsupported",),
                confidence=0.75,
                because="CUDA or NCCL says so",
            ),
        ),
        verdict="init-failure",
        fix=Setting(where="job", path="env", text="NCCL_P2P_DISABLE: 1 only while you look"),
        by_hand="BIOS and IOMMU settings, driver, Fabric Manager; `nvidia-smi topo -p2p r`",
        confirm="`nvidia-smi topo -p2p r` shows OK for every pair",
        source="NVIDIA/nccl troubleshooting page, GPU to GPU",
    ),
)
