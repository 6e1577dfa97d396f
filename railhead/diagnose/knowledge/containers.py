"""Causes inside the container: devices, locked memory, shared memory, libraries."""

from __future__ import annotations

from railhead.diagnose.model import Cause, Clue, Observation, Rule, Setting

FAMILY = "The container"
NCCL = "NVIDIA/nccl"

CLUES = (
    Clue(
        id="rdma-class-gpu",
        pattern=rb"NVIDIA (?:H100|H200|H800|H20|GH200|B200|B300|GB200|GB300)\b",
        seen="nccl-tests, nvidia-smi",
        source="machines with these GPUs are sold with RDMA NICs: railhead.catalog.machines",
        example="#  Rank  0 Group  0 Pid 21 on node-0 device  0 [0x18] NVIDIA H100 80GB HBM3",
    ),
    Clue(
        id="ibv-open-device-failed",
        pattern=rb"Call to ibv_open_device failed|NET/IB ?: Unable to open device",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/misc/ibvwrap.cc, src/transport/net_ib; #451",
        example="transport/net_ib.cc:148 NCCL WARN NET/IB : Unable to open device mlx5_bond_0",
    ),
    Clue(
        id="ib-no-device",
        pattern=rb"NET/IB ?: No device found",
        seen="NCCL, all versions; normal where there is no RDMA NIC, and on GCP A3 High and Mega",
        source="NVIDIA/nccl src/transport/net_ib/init.cc",
        example="NCCL INFO NET/IB : No device found.",
    ),
    Clue(
        id="ib-plugin-present",
        pattern=rb"P2P plugin IBext|Loaded net plugin NCCL RDMA Plugin|Loaded net plugin IBext",
        seen="images with nccl-rdma-sharp-plugin (NGC, HPC-X)",
        source="Mellanox/nccl-rdma-sharp-plugins; NVIDIA/nccl #941",
        example="NCCL INFO P2P plugin IBext_v8",
    ),
    Clue(
        id="ib-hca-set",
        pattern=rb"NCCL_IB_HCA set (?:by environment )?to (?P<value>[^ ]+)",
        seen="NCCL, all versions, when the variable is set",
        source="NVIDIA/nccl src/transport/net_ib",
        example="NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1",
    ),
    Clue(
        id="ib-disabled-by-env",
        pattern=rb"NCCL_IB_DISABLE set by environment to [1-9]",
        seen="NCCL, all versions",
        source="NVIDIA/nccl NCCL_PARAM(IbDisable)",
        example="NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
    ),
    Clue(
        id="libibverbs-missing",
        pattern=rb"Failed to open libibverbs\.so",
        seen="NCCL: WARN to 2.10, INFO from 2.11",
        source="NVIDIA/nccl src/misc/ibvsymbols.cc",
        example="NCCL INFO Failed to open libibverbs.so[.1]",
    ),
    Clue(
        id="libibverbs-abi",
        pattern=rb"Driver \S+ does not support the kernel ABI of",
        seen="rdma-core",
        source="linux-rdma/rdma-core libibverbs/init.c",
        example="libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 "
        "(supports 1 to 1) for device /sys/class/infiniband/bnxt_re0",
    ),
    Clue(
        id="libibverbs-no-driver",
        pattern=rb"libibverbs: Warning: no userspace device-specific driver found for",
        seen="rdma-core",
        source="linux-rdma/rdma-core libibverbs/init.c",
        example="libibverbs: Warning: no userspace device-specific driver found for "
        "/sys/class/infiniband_verbs/uverbs0",
    ),
    Clue(
        id="dev-infiniband-host-path",
        pattern=rb"(?i)host_?path.*/dev/infiniband|\bpath: \"?/dev/infiniband",
        seen="a pod specification or an event in the log",
        source="Kubernetes documentation, hostPath volumes; device cgroups",
        example="    path: /dev/infiniband",
    ),
    Clue(
        id="infiniband-permission",
        pattern=rb"/dev/infiniband/\S+.*(?:Operation not permitted|Permission denied|EPERM|EACCES)",
        seen="perftest, UCX, libfabric, shells",
        source="openucx/ucx src/uct/ib/base/ib_md.c; rdma-core",
        example="ucx: open(/dev/infiniband/uverbs0) failed: Operation not permitted",
    ),
    Clue(
        id="ibv-create-failed",
        pattern=rb"Call to ibv_create_(?:cq|qp|srq) failed",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/misc/ibvwrap.cc; troubleshooting page, InfiniBand",
        example="misc/ibvwrap.cc:268 NCCL WARN Call to ibv_create_cq failed",
    ),
    Clue(
        id="ibv-create-enomem",
        pattern=rb"Call to ibv_create_(?:cq|qp|srq) failed with error Cannot allocate memory",
        seen="NCCL from 2.18",
        source="NVIDIA/nccl src/misc/ibvwrap.cc",
        example="misc/ibvwrap.cc:94 NCCL WARN Call to ibv_create_qp failed with error Cannot "
        "allocate memory",
    ),
    Clue(
        id="ibv-reg-mr-enomem",
        pattern=rb"Call to ibv_reg_mr\w* failed with error Cannot allocate memory",
        seen="NCCL, all versions",
        source="NVIDIA/nccl src/misc/ibvwrap.cc; nccl-tests #206",
        example="misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
        "allocate memory",
    ),
    Clue(
        id="verbs-enomem",
        pattern=rb"(?:ibv_(?:exp_)?reg_mr|(?:ibv_(?:exp_)?|mlx5dv_)create_\w+)\(.*\) failed: "
        rb"Cannot allocate memory|"
        rb"EFA internal error: \(4112\)",
        seen="UCX; libfabric's EFA provider",
        source="openucx/ucx #8229; awslabs/awsome-distributed-ai #647",
        example="ibv_create_cq(cqe=4096) failed: Cannot allocate memory",
    ),
    Clue(
        id="efa-mr-enomem",
        pattern=rb"Unable to register MR: Cannot allocate memory",
        seen="libfabric's EFA provider",
        source="ofiwg/libfabric prov/efa/src/efa_mr.c; #9739: the device has a limit of its own",
        example="libfabric:15409:1705531788::efa:mr:efa_mr_reg_impl():850<warn> Unable to register "
        "MR: Cannot allocate memory",
    ),
    Clue(
        id="memlock-warning",
        pattern=rb"RLIMIT_MEMLOCK is \d+ bytes|Please set max locked memory|"
        rb"memlock limits? (?:is|are) set too low|max locked memory.{0,40}too (?:low|small)|"
        rb"fail to (?:lock|pin).{0,40}RLIMIT_MEMLOCK",
        seen="rdma-core, UCX, Open MPI",
        source="rdma-core libibverbs/init.c; ucx src/uct/ib/base/ib_md.c; open-mpi help-mpi-btl-"
        "openib.txt",
        example="libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.",
    ),
    Clue(
        id="memlock-finite",
        pattern=rb"max locked memory +\(k?bytes, -l\) +[0-9]+|^ulimit -l:? *[0-9]+$",
        seen="`ulimit -a` and `ulimit -l` in the launched process",
        source="bash, limits",
        example="max locked memory       (kbytes, -l) 64",
    ),
    Clue(
        id="shm-nccl-enospc",
        pattern=rb"failed to extend /dev/shm/nccl-|"
        rb"(?:posix_fallocate|ftruncate) failed ?: No space left on device|"
        rb"shared memory segment \S*nccl\S* .*No space left on device",
        seen="NCCL, all versions; with errno text from 2.22",
        source="NVIDIA/nccl src/misc/shmutils.cc",
        example="misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Yab12c to "
        "33030532 bytes, error: No space left on device (28)",
    ),
    Clue(
        id="shm-nccl-segment",
        pattern=rb"Error while creating shared memory segment \S*nccl",
        seen="NCCL to 2.21, and after a failed extension later",
        source="NVIDIA/nccl src/misc/shmutils.cc; pytorch/pytorch #73352",
        example="include/shm.h:48 NCCL WARN Error while creating shared memory segment "
        "nccl-shm-recv-71bf8b3b5e2e8fc7-0-1-2 (size 9637888)",
    ),
    Clue(
        id="shm-not-attached",
        pattern=rb"Error while attaching to shared memory segment \S*nccl.*No such file",
        seen="NCCL 2.22 and newer",
        source="NVIDIA/nccl src/misc/shmutils.cc; vllm-project/vllm #18831",
        example="misc/shmutils.cc:114 NCCL WARN Error while attaching to shared memory segment "
        "/dev/shm/nccl-aBcDeF (size 9637888), error: No such file or directory (2)",
    ),
    Clue(
        id="shm-torch",
        pattern=rb"dataloader's workers are out of shared memory|"
        rb"unable to (?:open|write to|resize|allocate) (?:shared memory object|file) </torch_|"
        rb"DataLoader worker \(pid\(?s?\)? ?[\d, ]+\) (?:is killed by signal: Bus error|"
        rb"exited unexpectedly.*Bus error)",
        seen="PyTorch",
        source="pytorch/pytorch torch/utils/data/_utils/signal_handling.py",
        example="RuntimeError: DataLoader worker (pid 83) is killed by signal: Bus error. It is "
        "possible that dataloader's workers are out of shared memory.",
    ),
    Clue(
        id="shm-unlinked",
        pattern=rb"unlink shared memory \S*/dev/shm/nccl-\S* failed",
        seen="NCCL from 2.12",
        source="NVIDIA/nccl src/misc/shmutils.cc; troubleshooting page, systemd",
        example="misc/shmutils.cc:152 NCCL WARN unlink shared memory /dev/shm/nccl-a1b2c3 failed, "
        "error: No such file or directory (2)",
    ),
    Clue(
        id="cumem-host",
        pattern=rb"Cuda failure \d* ?'(?:invalid argument|operation not supported|"
        rb"CUDA_ERROR_NOT_PERMITTED|OS call failed.*)'.*(?:cuMemCreate|CUMEM|cumem)|"
        rb"(?:ncclCuMemHostAlloc|allocator\.cc:\d+) .*Cuda failure",
        seen="NCCL 2.24 to 2.26.4 in containers without NUMA",
        source="NVIDIA/nccl troubleshooting page, NCCL_CUMEM_HOST_ENABLE",
        example="allocator.cc:40 NCCL WARN Cuda failure 1 'invalid argument'",
    ),
    Clue(
        id="fd-limit",
        pattern=rb"Too many open files",
        seen="any",
        source="errno 24; NVIDIA/nccl troubleshooting page, file descriptors",
        example="misc/socket.cc:392 NCCL WARN Call to accept failed : Too many open files",
    ),
)

OBSERVATIONS = (
    Observation(
        id="pod-no-rdma-request",
        title="the training container requests no RDMA device while the fabric has one to request",
    ),
    Observation(
        id="pod-dev-infiniband-host-path",
        title="the pod mounts /dev/infiniband by hostPath and is not privileged",
    ),
    Observation(id="pod-no-shm", title="the pod mounts no memory volume at /dev/shm"),
    Observation(id="pod-small-shm", title="the pod's /dev/shm is limited to less than 1 GiB"),
    Observation(
        id="pod-no-ipc-lock", title="the training container does not hold the IPC_LOCK capability"
    ),
)

CAUSES = (
    Cause(
        id="rdma-device-not-in-container",
        title="The RDMA device is not usable inside the container, so NCCL has no HCA",
        family=FAMILY,
        rules=(
            Rule(
                needs=("pod-no-rdma-request",),
                any_of=("ib-no-device", "ibv-open-device-failed", "transport-socket"),
                confidence=0.95,
                because="NCCL found no RDMA device and the pod requests none",
            ),
            Rule(
                needs=("node-rdma-zero",),
                any_of=("ib-no-device", "ibv-open-device-failed", "transport-socket"),
                confidence=0.9,
                because="NCCL found no RDMA device and the node advertises none",
            ),
            Rule(
                needs=("ibv-open-device-failed",),
                unless=("pod-dev-infiniband-host-path", "dev-infiniband-host-path"),
                confidence=0.85,
                because="the device is listed in /sys but the process may not open it",
            ),
            Rule(
                needs=("infiniband-permission",),
                unless=("dev-infiniband-host-path",),
                confidence=0.8,
                because="opening /dev/infiniband was refused",
            ),
            Rule(
                needs=("ib-no-device", "ib-plugin-present", "network-socket"),
                unless=("ib-disabled-by-env", "fatal-other"),
                confidence=0.7,
                because="the image carries the InfiniBand plugin, yet neither it nor NCCL itself "
                "finds a device, and TCP is used",
            ),
            Rule(
                needs=("ib-no-device", "network-socket", "ib-hca-set"),
                unless=("ib-disabled-by-env", "fatal-other", "ib-using", "one-node"),
                confidence=0.55,
                because="NCCL_IB_HCA is set, so RDMA was meant, and NCCL finds no device; or the "
                "filter names the wrong one",
            ),
            Rule(
                needs=("ib-no-device", "socket-between-nodes", "rdma-class-gpu"),
                unless=(
                    "ib-disabled-by-env",
                    "fatal-other",
                    "ib-using",
                    "one-node",
                    "libibverbs-missing",
                    "ib-hca-set",
                    "gcp-plugin",
                    "ofi-present",
                    "on-aws",
                ),
                confidence=0.62,
                because="GPUs of a kind that comes with RDMA, no RDMA device in sight, and TCP is "
                "used between nodes",
            ),
            Rule(
                needs=("ib-no-device", "socket-between-nodes", "container-like"),
                unless=(
                    "ib-disabled-by-env",
                    "fatal-other",
                    "one-node",
                    "libibverbs-missing",
                    "libibverbs-abi",
                    "ib-hca-set",
                    "gcp-plugin",
                    "ofi-present",
                ),
                confidence=0.62,
                because="NCCL finds no RDMA device in the container and falls back to TCP",
            ),
            Rule(
                needs=("ib-no-device", "network-socket"),
                unless=("ib-disabled-by-env", "one-node", "gcp-plugin", "fatal-other"),
                confidence=0.5,
                because="NCCL finds no RDMA device; whether the host has one the log does not say",
            ),
            Rule(
                needs=("pod-no-rdma-request",),
                confidence=0.45,
                because="the pod requests no RDMA device",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="fabric.kind",
            text="name the fabric: its row of the catalogue makes every runtime request the device "
            "resource; launch with `railhead launch`, which renders the request",
        ),
        by_hand="request the device plugin's resource (for example `rdma/ib: 1`) in the training "
        "container; outside Kubernetes run with --device=/dev/infiniband",
        confirm="in the pod: `ls /dev/infiniband` shows uverbs*, `ibv_devinfo` shows a port ACTIVE",
        apart={
            "libibverbs-missing": "NCCL says that it cannot open libibverbs.so",
            "dev-infiniband-by-host-path": "the device node is there but opening it is refused",
            "wrong-hca-filter": "NCCL_IB_HCA is set and names no device that exists",
            "ib-disabled-by-environment": "NCCL_IB_DISABLE is set to 1",
        },
        source="NVIDIA/nccl #451, #941",
    ),
    Cause(
        id="dev-infiniband-by-host-path",
        title="/dev/infiniband is mounted by hostPath, so the device cgroup refuses to open it",
        family=FAMILY,
        rules=(
            Rule(
                needs=("pod-dev-infiniband-host-path",),
                any_of=("ibv-open-device-failed", "infiniband-permission", "ib-no-device"),
                confidence=0.95,
                because="the pod mounts the device by hostPath and NCCL cannot open it",
            ),
            Rule(
                needs=("dev-infiniband-host-path",),
                any_of=("ibv-open-device-failed", "infiniband-permission"),
                confidence=0.85,
                because="the specification mounts the device by hostPath and opening it fails",
            ),
            Rule(
                needs=("pod-dev-infiniband-host-path",),
                confidence=0.5,
                because="a hostPath mount makes the node visible without the right to open it",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="fabric.mode",
            text="a mode that brings devices in through a device plugin; the policies refuse the "
            "hostPath",
        ),
        by_hand="request the device plugin's resource instead of the hostPath volume (privileged "
        "would also open it, and everything else with it)",
        confirm="in the pod: `cat /dev/infiniband/uverbs0` says Operation not permitted",
        apart={
            "rdma-device-not-in-container": "there is no /dev/infiniband in the pod at all",
        },
        source="Kubernetes device plugins: only they add to the device cgroup's allow list",
    ),
    Cause(
        id="ib-disabled-by-environment",
        title="NCCL_IB_DISABLE=1 turns InfiniBand and RoCE off",
        family=FAMILY,
        rules=(
            Rule(
                needs=("ib-disabled-by-env",),
                any_of=("network-socket", "transport-socket"),
                unless=("fatal-other",),
                confidence=0.8,
                because="the variable is set and the network in use is TCP",
            ),
            Rule(
                needs=("ib-disabled-by-env",),
                unless=("efa-selected", "one-node", "fatal-other", "gcp-plugin"),
                confidence=0.5,
                because="the variable is set",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="job",
            path="env",
            text="take NCCL_IB_DISABLE out; railhead's runtimes never set it",
        ),
        by_hand="unset NCCL_IB_DISABLE in the image, the launcher and the shell's start-up files",
        confirm="`NCCL_IB_DISABLE set by environment` is gone from the next run's log",
        source="NVIDIA/nccl user guide, NCCL_IB_DISABLE",
    ),
    Cause(
        id="libibverbs-missing",
        title="The image has no libibverbs, so NCCL cannot use RDMA",
        family=FAMILY,
        rules=(
            Rule(
                needs=("libibverbs-missing", "socket-between-nodes"),
                unless=("ofi-present", "gcp-plugin", "one-node", "fatal-other"),
                confidence=0.8,
                because="NCCL cannot open libibverbs.so and falls back to TCP",
            ),
            Rule(
                needs=("libibverbs-missing", "network-socket"),
                unless=("ofi-present", "gcp-plugin", "one-node", "fatal-other"),
                confidence=0.55,
                because="NCCL cannot open libibverbs.so; whether it needs a network here the log "
                "does not say",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="runtimes[].image",
            text="an image with rdma-core (libibverbs1, ibverbs-providers)",
        ),
        by_hand="install rdma-core in the image and see that LD_LIBRARY_PATH reaches it",
        confirm="in the pod: `ldconfig -p | grep libibverbs`",
        apart={"rdma-device-not-in-container": "libibverbs opens, but finds no device"},
        source="NVIDIA/nccl src/misc/ibvsymbols.cc",
    ),
    Cause(
        id="rdma-provider-abi-mismatch",
        title="The image's RDMA provider library does not fit the host's kernel driver",
        family=FAMILY,
        rules=(
            Rule(
                needs=("libibverbs-abi",),
                unless=("ib-using", "efa-selected"),
                confidence=0.9,
                because="libibverbs says that the provider does not support the kernel's ABI",
            ),
            Rule(
                needs=("libibverbs-no-driver",),
                any_of=("ib-no-device", "network-socket", "ibv-open-device-failed"),
                unless=("ofi-present", "ib-using"),
                confidence=0.7,
                because="libibverbs has no provider library for the device that the kernel shows",
            ),
        ),
        verdict="tcp-fallback",
        fix=Setting(
            where="stack",
            path="runtimes[].image",
            text="an image whose rdma-core matches the nodes' driver",
        ),
        by_hand="install the vendor's provider library of the host's version in the image (bnxt_re "
        "and others ship their own)",
        confirm="in the pod: `ibv_devinfo` prints no warning and lists the device",
        source="linux-rdma/rdma-core libibverbs/init.c",
    ),
    Cause(
        id="memlock-limit",
        title="The locked-memory limit is too low to register memory with the NIC",
        family=FAMILY,
        rules=(
            Rule(
                needs=("memlock-warning",),
                confidence=0.9,
                because="the library names the limit itself",
            ),
            Rule(
                needs=("ibv-reg-mr-enomem",),
                confidence=0.85,
                because="registering memory fails with ENOMEM",
            ),
            Rule(
                needs=("ibv-create-enomem",),
                confidence=0.8,
                because="creating a queue fails with ENOMEM",
            ),
            Rule(
                needs=("verbs-enomem",),
                confidence=0.66,
                because="UCX or libfabric cannot register or create for lack of memory",
            ),
            Rule(
                needs=("ibv-create-failed", "memlock-finite"),
                confidence=0.85,
                because="creating a queue fails and the limit is finite",
            ),
            Rule(
                needs=("ibv-create-failed",),
                any_of=("pod-no-ipc-lock",),
                confidence=0.75,
                because="creating a queue fails and the pod does not hold IPC_LOCK",
            ),
            Rule(
                needs=("ibv-create-failed",),
                confidence=0.65,
                because="creating a queue fails, which NVIDIA's documentation puts down to memlock",
            ),
            Rule(
                needs=("efa-mr-enomem",),
                confidence=0.5,
                because="EFA cannot register memory: this limit, or the device's own",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="fabric.lock_memory",
            text="true: training containers get the capability IPC_LOCK",
        ),
        by_hand="securityContext.capabilities.add [IPC_LOCK] and a root user, or LimitMEMLOCK="
        "infinity for the container runtime; in Slurm and ssh raise `ulimit -l` for the daemon too",
        confirm="`ulimit -l` inside the launched process says unlimited",
        apart={
            "dev-shm-too-small": "the message is about /dev/shm, not ibv_*",
            "gpudirect-kernel-support-missing": "only GPU memory fails to register, host memory is "
            "fine",
        },
        source="NVIDIA/nccl-tests #206; NVIDIA/nccl troubleshooting page",
    ),
    Cause(
        id="dev-shm-too-small",
        title="The shared memory at /dev/shm is too small (the container runtime's default is 64 "
        "MiB)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("shm-nccl-enospc",),
                confidence=0.95,
                because="NCCL cannot extend its file in /dev/shm: no space left",
            ),
            Rule(
                needs=("shm-torch",),
                confidence=0.85,
                because="PyTorch says that its workers are out of shared memory",
            ),
            Rule(
                needs=("shm-nccl-segment",),
                confidence=0.8,
                because="NCCL cannot create its segment in /dev/shm",
            ),
            Rule(
                needs=("pod-no-shm",),
                any_of=("sigbus", "shm-nccl-segment"),
                confidence=0.85,
                because="a bus error, and the pod has no memory volume at /dev/shm",
            ),
            Rule(
                needs=("pod-no-shm",),
                confidence=0.4,
                because="the pod has only the runtime's 64 MiB at /dev/shm",
            ),
            Rule(
                needs=("pod-small-shm",),
                confidence=0.35,
                because="the pod's /dev/shm is small",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="stack",
            path="runtimes[].shared_memory",
            text="the size of /dev/shm, for example 16Gi; it counts as memory of the pod",
        ),
        by_hand="volume emptyDir {medium: Memory, sizeLimit: ...} mounted at /dev/shm; docker run "
        "--shm-size=16g or --ipc=host",
        confirm="in the pod: `df -h /dev/shm`",
        apart={"memlock-limit": "the message names ibv_* and Cannot allocate memory"},
        source="NVIDIA/nccl src/misc/shmutils.cc and troubleshooting page",
    ),
    Cause(
        id="shm-files-removed",
        title="Something removes NCCL's files from /dev/shm while it runs (systemd RemoveIPC)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("shm-unlinked",),
                confidence=0.7,
                because="NCCL's own file in /dev/shm is gone when it wants to remove it",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="none", path="", text="does not happen in pods: each has a /dev/shm of its own"
        ),
        by_hand="RemoveIPC=no in /etc/systemd/logind.conf, or a system user for the job",
        confirm="`loginctl show-user` and the session's end in the journal at that second",
        source="NVIDIA/nccl troubleshooting page, systemd",
    ),
    Cause(
        id="shm-not-shared",
        title="Ranks take each other for one host, but do not share /dev/shm",
        family=FAMILY,
        rules=(
            Rule(
                needs=("shm-not-attached",),
                unless=("shm-nccl-enospc",),
                confidence=0.68,
                because="a peer's file is not in this rank's /dev/shm",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="none",
            path="",
            text="one pod a node, as `railhead launch` renders it: its ranks share one /dev/shm",
        ),
        by_hand="one container for all ranks of a host, or a shared IPC namespace; else a "
        "NCCL_HOSTID "
        "of its own for each container, so that they use the network",
        confirm="`ls /dev/shm` in both containers shows different files",
        apart={"dev-shm-too-small": "the error is No space left on device"},
        source="NVIDIA/nccl src/misc/shmutils.cc, NCCL_HOSTID in env.rst",
    ),
    Cause(
        id="cumem-host-without-numa",
        title="Host memory by cuMem needs NUMA calls that the container refuses",
        family=FAMILY,
        rules=(
            Rule(
                needs=("cumem-host",),
                any_of=("nccl-2-24-to-2-26",),
                confidence=0.65,
                because="cuMem allocation fails in an NCCL that does not fall back",
            ),
            Rule(
                needs=("cumem-host",),
                confidence=0.4,
                because="cuMem allocation fails",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="job",
            path="env",
            text="NCCL_CUMEM_HOST_ENABLE: 0, or an image with NCCL 2.26.5 or newer",
        ),
        by_hand="NCCL_CUMEM_HOST_ENABLE=0, or the capability SYS_NICE",
        confirm="the next run initialises",
        source="NVIDIA/nccl troubleshooting page and env.rst, NCCL_CUMEM_HOST_ENABLE",
    ),
    Cause(
        id="open-files-limit",
        title="The process runs out of file descriptors",
        family=FAMILY,
        rules=(
            Rule(
                needs=("fd-limit",),
                confidence=0.85,
                because="a system call failed with EMFILE, Too many open files",
            ),
        ),
        verdict="init-failure",
        fix=Setting(
            where="none",
            path="",
            text="the nodes' container runtime sets it (LimitNOFILE); nothing in the stack does",
        ),
        by_hand="nofile 131072 or more for the container runtime or the login session",
        confirm="`ulimit -n` inside the launched process",
        source="NVIDIA/nccl troubleshooting page, file descriptors",
    ),
)
