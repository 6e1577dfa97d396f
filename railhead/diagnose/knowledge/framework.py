"""Causes that the framework reports: collectives, watchdog, ranks that die, lag or disagree."""

from __future__ import annotations

from railhead.diagnose.model import Cause, Clue, Observation, Rule, Setting

FAMILY = "The program and its ranks"
PGNCCL = "pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"

CLUES = (
    Clue(
        id="watchdog-timeout",
        pattern=rb"(?:\[PG (?:ID \d+ PG GUID )?(?P<pg>\w+)[^\]]*\] "
        rb"(?:Process group watchdog thread terminated with exception: )?)?"
        rb"(?:\[[Rr]ank (?P<rank>\d+)\] )?"
        rb"Watchdog caught collective operation timeout: "
        rb"(?:Work(?:NCCL)?\((?:SeqNum=(?P<seq>\d+), ?)?(?:OpType=(?P<op>\w+))?"
        rb"(?:, ?(?:NumelIn|TensorShape)=(?P<numel>\d+))?)?",
        seen="PyTorch 1.8 and newer; SeqNum and Numel from 2.1",
        source=PGNCCL,
        example="[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
        "OpType=BROADCAST, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for "
        "600088 milliseconds before timing out.",
    ),
    Clue(
        id="desync-lagging",
        pattern=rb"lagging/dead/mismatched ranks that caused the desync|"
        rb"are the lagging ranks that caused this timeout|"
        rb"(?:finished|joined|started) collective #\d+, but didn't join collective #\d+|"
        rb"didn't join collective #\d+",
        seen="PyTorch with TORCH_NCCL_DESYNC_DEBUG=1",
        source="pytorch torch/csrc/distributed/c10d/TraceUtils.h",
        example="\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the "
        "desync "
        "are:",
    ),
    Clue(
        id="collective-mismatch",
        pattern=rb"Detected mismatch between collectives on ranks|Mismatched collective detected|"
        rb"collective mismatch error, local size|"
        rb"ranks .* are running (?:a )?different collectives|"
        rb"joined but didn't finish collective.*(?:type|size) mismatch|"
        rb"COLLECTIVE_TYPE_MISMATCH|SIZE_OR_SYNTAX_MISMATCH|COLLECTIVE_DTYPE_MISMATCH",
        seen="PyTorch with TORCH_DISTRIBUTED_DEBUG=DETAIL, torchfrtrace, NCCL 2.8 to 2.18",
        source="pytorch torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp; NVIDIA/nccl "
        "src/transport/net_ib.cc",
        example="RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running "
        "collective: CollectiveFingerPrint(SequenceNumber=4, OpType=BARRIER), but Rank 0 is "
        "running "
        "collective: CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE)",
    ),
    Clue(
        id="monitored-barrier",
        pattern=rb"failed to pass monitoredBarrier in \d+ ms",
        seen="PyTorch with gloo",
        source="pytorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
        example="RuntimeError: Rank 1 failed to pass monitoredBarrier in 1800000 ms",
    ),
    Clue(
        id="heartbeat-stuck",
        pattern=rb"watchdog got stuck for \d+ ?seconds|Heartbeat monitor timed out",
        seen="PyTorch 2.2 and newer",
        source=PGNCCL,
        example="ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
        "monitoring enqueued collectives.",
    ),
    Clue(
        id="other-rank-timeout",
        pattern=rb"(?:Received|Observed) a (?:dump signal|global timeout|flight recorder dump "
        rb"signal|timeout)[^.]* (?:from|due to)|Observed flight recorder dump signal from another "
        rb"rank",
        seen="PyTorch 2.3 and newer",
        source=PGNCCL,
        example="Observed flight recorder dump signal from another rank via TCPStore.",
    ),
    Clue(
        id="efa-peer-gone",
        pattern=rb"Invalid receiver queue pair number \(QPN\)",
        seen="aws-ofi-nccl over libfabric's EFA provider",
        source="awslabs/awsome-distributed-ai #312 (a worker was killed for memory)",
        example="NCCL WARN NET/OFI Request 0x7f08c0001d30 completed with error. RC: 5. Error: "
        "Invalid receiver queue pair number (QPN) My EFA addr: fi_addr_efa://[fe80::1]:0:657145598",
    ),
    Clue(
        id="gloo-timeout",
        pattern=rb"Timed out waiting \d+ms for (?:recv|send) operation",
        seen="gloo",
        source="pytorch/gloo gloo/transport/tcp/unbound_buffer.cc",
        example="RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed "
        "out waiting 1800000ms for recv operation to complete",
    ),
    Clue(
        id="ras-dead",
        pattern=rb"considered dead \(unreachable via the RAS network\)|PEER_DEAD: Process",
        seen="ncclras, NCCL 2.24 and newer",
        source="NVIDIA/nccl src/ras/client_support.cc",
        example="  1 job process is considered dead (unreachable via the RAS network)",
    ),
    Clue(
        id="elastic-root-cause",
        pattern=rb"Root Cause \(first observed failure\)",
        seen="torchrun",
        source="pytorch torch/distributed/elastic/multiprocessing/errors/__init__.py",
        example="Root Cause (first observed failure):",
    ),
    Clue(
        id="elastic-exit",
        pattern=rb"exitcode *: ?(?P<code>-?[0-9]+) \(pid: \d+\)|"
        rb"failed \(exitcode: (?P<code2>-?[0-9]+)\) local_rank: (?P<local_rank>\d+)",
        seen="torchrun",
        source="pytorch torch/distributed/elastic/multiprocessing/api.py",
        example="failed (exitcode: 1) local_rank: 3 (pid: 4242) of binary: /usr/bin/python3",
    ),
    Clue(
        id="segfault",
        # Not SIGABRT: PyTorch's watchdog ends a process that way after a timeout.
        pattern=rb"Signal 11 \(SIGSEGV\)|Segmentation fault|exitcode *: -11\b|Caught signal 11|"
        rb"exited on signal 11\b",
        seen="torchrun, mpirun, UCX, shells",
        source="signal(7)",
        example="  exitcode  : -11 (pid: 4242)",
    ),
    Clue(
        id="mpi-abort",
        pattern=rb"MPI_ABORT was invoked on rank|mpirun (?:noticed|detected) that (?:process|one "
        rb"or "
        rb"more processes)|exited on signal \d+|Primary job +terminated normally, but",
        seen="Open MPI",
        source="open-mpi help-orte-odls-default.txt",
        example="mpirun noticed that process rank 3 with PID 0 on node worker-1 exited on signal "
        "11",
    ),
    Clue(
        id="python-exception",
        pattern=rb"\b(?:ModuleNotFoundError|ImportError|FileNotFoundError|KeyError|ValueError|"
        rb"TypeError|AttributeError|AssertionError|NameError|IndexError|ZeroDivisionError|"
        rb"NotImplementedError|PermissionError|UnicodeDecodeError|json\.decoder\.JSONDecodeError|"
        rb"yaml\.\w+\.\w+Error|SyntaxError|IndentationError): ",
        seen="Python",
        source="Python built-in exceptions",
        example="ModuleNotFoundError: No module named 'transformers'",
    ),
    Clue(
        id="terminated",
        pattern=rb"Received (?:signal )?(?:Signals\.)?SIGTERM(?: death signal)?|Received 15 death "
        rb"signal|got signal: 15",
        seen="torchrun; also in every job that ends because of another rank",
        source="pytorch torch/distributed/elastic/agent",
        example="Received Signals.SIGTERM death signal, shutting down workers",
    ),
    Clue(
        id="preempted",
        pattern=rb"CANCELLED AT .* DUE TO (?:PREEMPTION|TIME LIMIT|NODE FAILURE)|"
        rb"Preempted(?:By|: )|TerminationByKubelet|node (?:is|was) shutting down",
        seen="torchrun, Slurm, Kubernetes",
        source="pytorch elastic/agent; Slurm; Kubernetes pod disruption conditions",
        example="slurmstepd: error: *** JOB 42 ON node-1 CANCELLED AT 2026-01-01T00:00:00 DUE TO "
        "TIME "
        "LIMIT ***",
    ),
    Clue(
        id="nccltests-wrong",
        pattern=rb"Out of bounds values ?: [1-9]\d* FAILED",
        seen="nccl-tests",
        source="NVIDIA/nccl-tests src/common.cu",
        example="# Out of bounds values : 3 FAILED",
    ),
    Clue(
        id="numa-nps1",
        pattern=rb"\bNPS=1\b|\bNPS1\b|NUMA nodes per socket[ :=]+(?:NPS)?1",
        seen="lscpu, BIOS dumps, notes",
        source="AMD EPYC tuning guide, nodes per socket",
        example="NUMA nodes per socket: NPS1",
    ),
)

OBSERVATIONS = (
    Observation(id="fr-missing-ranks", title="a flight-recorder dump shows ranks that never came"),
    Observation(
        id="fr-mismatch", title="flight-recorder dumps show ranks in different collectives"
    ),
    Observation(
        id="fr-stuck", title="flight-recorder dumps show a collective that all ranks are in"
    ),
    Observation(id="fr-no-dump", title="some ranks of the group left no flight-recorder dump"),
    Observation(id="ras-missing-ranks", title="RAS reports ranks that it cannot reach"),
    Observation(id="ras-mismatch", title="RAS reports ranks with different collective counts"),
    Observation(id="inspector-slow-rank", title="NCCL Inspector shows one rank behind the others"),
    Observation(id="pod-ended-early", title="one pod of the job ended before the others"),
)

CAUSES = (
    Cause(
        id="collective-mismatch",
        title="Ranks call different collectives, or the same with different sizes or types",
        family=FAMILY,
        rules=(
            Rule(needs=("fr-mismatch",), confidence=0.93, because="the dumps show both calls"),
            Rule(
                needs=("collective-mismatch",),
                confidence=0.9,
                because="the framework or NCCL names both calls",
            ),
            Rule(
                needs=("watchdog-numel-differ",),
                confidence=0.75,
                because="ranks time out in the same place of the sequence with different calls",
            ),
        ),
        verdict="hang",
        fix=Setting(
            where="job",
            path="env",
            text="TORCH_DISTRIBUTED_DEBUG: DETAIL for one run names the line of the program",
        ),
        by_hand="a branch that not every rank takes: uneven batches, find_unused_parameters, a "
        "collective under `if rank == 0`",
        confirm="`railhead diagnose` on the flight-recorder dumps of all ranks",
        apart={
            "straggler": "all ranks are in the same call, one comes late",
            "a-rank-died-first": "the missing rank's log ends with an error",
        },
        source="pytorch ProcessGroupWrapper.cpp; NVIDIA/nccl #969",
        explains=("pytorch-watchdog-timeout", "straggler"),
    ),
    Cause(
        id="straggler",
        title="One rank comes late or never to a collective that the others wait in",
        family=FAMILY,
        rules=(
            Rule(
                needs=("fr-missing-ranks",),
                confidence=0.9,
                because="the dumps show which ranks never came to the collective",
            ),
            Rule(
                needs=("fr-stuck", "fr-no-dump"),
                unless=("fr-mismatch",),
                confidence=0.58,
                because="every rank that left a dump waits in the same call, and some left none",
            ),
            Rule(
                needs=("ras-mismatch",),
                confidence=0.58,
                because="RAS shows ranks behind the others in the count of collectives, which is "
                "normal for a moment and a hang when it stays",
            ),
            Rule(
                needs=("desync-lagging",),
                confidence=0.85,
                because="PyTorch's desync report names the ranks",
            ),
            Rule(
                needs=("monitored-barrier",),
                confidence=0.85,
                because="the barrier names the rank that did not come",
            ),
            Rule(
                needs=("watchdog-seq-differ",),
                unless=("collective-mismatch", "watchdog-numel-differ"),
                confidence=0.64,
                because="ranks time out at different places of the sequence: the lowest is behind",
            ),
            Rule(
                needs=("watchdog-one-rank-missing",),
                confidence=0.68,
                because="every rank but one reports the timeout, and none reports a network error",
            ),
            Rule(
                needs=("inspector-slow-rank",),
                confidence=0.65,
                because="NCCL Inspector shows one rank behind",
            ),
        ),
        verdict="timeout",
        fix=Setting(
            where="job",
            path="env",
            text="TORCH_FR_BUFFER_SIZE: 2000 and TORCH_NCCL_DUMP_ON_TIMEOUT: 1 keep dumps for the "
            "next time",
        ),
        by_hand="py-spy dump on the rank with the lowest sequence number: data loading, "
        "checkpoint, "
        "evaluation on rank 0 only, a slow or throttled GPU",
        confirm="`railhead diagnose` on the flight-recorder dumps of all ranks",
        apart={
            "collective-mismatch": "the late rank is in another call",
            "a-rank-died-first": "the late rank's process is gone",
        },
        source="pytorch TraceUtils.h, flight recorder",
        explains=("pytorch-watchdog-timeout",),
    ),
    Cause(
        id="a-rank-died-first",
        title="One rank ended first; what the others print is the consequence",
        family=FAMILY,
        rules=(
            Rule(
                needs=("pod-ended-early",),
                any_of=("closed-by-peer", "reset-by-peer", "watchdog-timeout", "connect-refused"),
                confidence=0.88,
                because="one pod ended before the others, and they complain about it",
            ),
            Rule(
                needs=("elastic-root-cause",),
                any_of=("closed-by-peer", "segfault", "reset-by-peer"),
                confidence=0.75,
                because="torchrun names the first failure",
            ),
            Rule(
                needs=("segfault",),
                unless=("watchdog-timeout",),
                confidence=0.66,
                because="a rank crashed",
            ),
            Rule(
                needs=("closed-by-peer",),
                unless=("wc-any", "connect-any"),
                confidence=0.55,
                because="the peer closed its connections: its process ended",
            ),
            Rule(
                needs=("efa-unresponsive-old",),
                confidence=0.48,
                because="the peer does not answer over EFA: its process is gone, or a rule is "
                "missing",
            ),
            Rule(
                needs=("efa-peer-gone",),
                confidence=0.55,
                because="EFA's peer no longer has the queue pair: its process ended or began anew",
            ),
            Rule(
                needs=("ras-dead",),
                confidence=0.72,
                because="RAS considers a process dead",
            ),
            Rule(
                needs=("ras-missing-ranks",),
                confidence=0.7,
                because="RAS cannot reach processes that it knew",
            ),
            Rule(
                needs=("mpi-abort",),
                confidence=0.5,
                because="mpirun says which process ended first",
            ),
            Rule(
                needs=("closed-by-peer",),
                confidence=0.45,
                because="a peer closed its connections",
            ),
            Rule(
                needs=("store-get-failed",),
                confidence=0.5,
                because="the store's host went away, and rank 0 with it",
            ),
            Rule(
                needs=("elastic-exit",),
                confidence=0.45,
                because="a process ended with an error",
            ),
            Rule(
                needs=("reset-by-peer",),
                confidence=0.42,
                because="a peer's connections were reset",
            ),
            Rule(
                needs=("pod-ended-early",),
                confidence=0.6,
                because="one pod ended before the others",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="none",
            path="",
            text="`railhead status JOB` names the pod that ended first and `railhead logs JOB "
            "--node N` shows why",
        ),
        by_hand="the earliest error over all ranks by time; its own log, `dmesg` and the pod's "
        "last "
        "state say why",
        confirm="`railhead logs JOB --node N` of the first one to end",
        apart={
            "straggler": "no process is gone",
            "host-out-of-memory": "the pod's last state says OOMKilled",
        },
        source="NVIDIA/nccl src/misc/socket.cc; pytorch elastic",
        explains=("pytorch-watchdog-timeout", "peer-refused-connection"),
    ),
    Cause(
        id="pytorch-watchdog-timeout",
        title="A collective did not finish in time; the log does not show who is late",
        family=FAMILY,
        rules=(
            Rule(
                needs=("watchdog-timeout",),
                confidence=0.52,
                because="PyTorch's watchdog says that a collective did not finish",
            ),
            Rule(
                needs=("gloo-timeout",),
                confidence=0.5,
                because="gloo waited for a peer until its timeout",
            ),
            Rule(
                needs=("other-rank-timeout",),
                confidence=0.4,
                because="another rank saw a timeout first",
            ),
        ),
        verdict="timeout",
        fix=Setting(
            where="job",
            path="env",
            text="TORCH_FR_BUFFER_SIZE: 2000, TORCH_NCCL_DUMP_ON_TIMEOUT: 1, "
            "TORCH_NCCL_DESYNC_DEBUG: 1: the next timeout then says who was late",
        ),
        by_hand="collect the logs and flight-recorder dumps of all ranks; a longer timeout only "
        "when "
        "a step is known to take that long",
        confirm="`railhead diagnose --collect` and then the dumps of all ranks",
        apart={
            "straggler": "dumps show the same call on all other ranks",
            "collective-mismatch": "dumps show different calls",
            "network-policy-or-firewall": "it is the first collective and no channel came up",
        },
        source=PGNCCL,
    ),
    Cause(
        id="stuck-with-all-ranks-present",
        title="All ranks are in the same collective and it does not finish: network, GPU or NCCL",
        family=FAMILY,
        rules=(
            Rule(
                needs=("fr-stuck",),
                unless=("fr-missing-ranks", "fr-mismatch", "fr-no-dump"),
                confidence=0.65,
                because="the dumps of all ranks show the same call, started and not completed",
            ),
        ),
        verdict="hang",
        fix=Setting(
            where="none",
            path="",
            text="the program is not at fault: test the nodes of the group, pair by pair",
        ),
        by_hand="error counters of NICs and links, Xids, `ib_write_bw` between the pairs of the "
        "group; a newer NCCL",
        confirm="the same job without one of the nodes, one after the other",
        apart={
            "straggler": "a rank's dump lacks the collective",
            "collective-mismatch": "the dumps show different calls",
        },
        source="pytorch flight recorder documentation",
        explains=("pytorch-watchdog-timeout",),
    ),
    Cause(
        id="watchdog-thread-stuck",
        title="PyTorch's watchdog itself was stuck: another thread holds the GIL or a CUDA call "
        "hangs",
        family=FAMILY,
        rules=(
            Rule(
                needs=("heartbeat-stuck",),
                unless=("xid", "watchdog-timeout"),
                confidence=0.62,
                because="the heartbeat monitor says that the watchdog made no progress",
            ),
            Rule(
                needs=("heartbeat-stuck",),
                confidence=0.4,
                because="the heartbeat monitor says that the watchdog made no progress",
            ),
        ),
        verdict="hang",
        fix=Setting(
            where="job",
            path="env",
            text="TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: a longer time where a step is known to hold "
            "the "
            "GIL that long",
        ),
        by_hand="`py-spy dump --native` on that rank while it hangs",
        confirm="the native stack shows who holds the GIL or waits in CUDA",
        source=PGNCCL,
    ),
    Cause(
        id="application-error",
        title="The program itself failed on a rank (an exception of its own)",
        family=FAMILY,
        rules=(
            Rule(
                needs=("python-exception", "elastic-root-cause"),
                unless=("fatal-any", "gpu-oom"),
                confidence=0.68,
                because="an exception of the program, and nothing of the network",
            ),
            Rule(
                needs=("python-exception",),
                unless=("fatal-any", "init-complete", "gpu-oom", "nccl-lines"),
                confidence=0.5,
                because="an exception of the program",
            ),
            Rule(
                needs=("python-exception",),
                confidence=0.35,
                because="an exception of the program",
            ),
        ),
        verdict="other",
        fix=Setting(where="job", path="command", text="mend the program, its arguments or files"),
        by_hand="the traceback above the exception says where",
        confirm="run one process of it on one node",
        apart={"a-rank-died-first": "the exception is about a connection, not of the program"},
        source="Python built-in exceptions",
        explains=("a-rank-died-first",),
    ),
    Cause(
        id="preempted-or-cancelled",
        title="The job was stopped from outside: time limit, preemption, node shutdown",
        family=FAMILY,
        rules=(
            Rule(
                needs=("terminated",),
                unless=("fatal-any",),
                confidence=0.45,
                because="a process was told to end; by whom the log does not say",
            ),
            Rule(
                needs=("preempted",),
                confidence=0.68,
                because="a signal or the scheduler says so",
            ),
        ),
        verdict="other",
        fix=Setting(
            where="stack",
            path="runtimes[].grace_seconds",
            text="long enough to write a checkpoint before the end",
        ),
        by_hand="the scheduler's accounting, `kubectl get events`",
        confirm="the pod's condition DisruptionTarget, or the scheduler's job record",
        source="Kubernetes pod disruption conditions; Slurm; pytorch elastic",
        explains=("a-rank-died-first",),
    ),
    Cause(
        id="nccl-tests-without-mpi",
        title="nccl-tests was built without MPI: every process is a rank 0 of its own",
        family="Benchmarks that mislead",
        rules=(
            Rule(
                needs=("nccltests-all-rank-zero",),
                confidence=0.9,
                because="several processes each print Rank 0 and no other rank",
            ),
        ),
        verdict="other",
        fix=Setting(where="job", path="image", text="an image with nccl-tests built with MPI=1"),
        by_hand="make MPI=1 MPI_HOME=... and run it under mpirun",
        confirm="the table's header lists ranks 0 to N-1 once",
        apart={"nccl-tests-single-rank": "only one process runs"},
        source="NVIDIA/nccl-tests #107, README",
    ),
    Cause(
        id="nccl-tests-single-rank",
        title="nccl-tests ran with one rank: its bus bandwidth is always 0",
        family="Benchmarks that mislead",
        rules=(
            Rule(
                needs=("nccltests-one-rank",),
                confidence=0.8,
                because="the table has one rank, and the factor 2(n-1)/n is 0",
            ),
        ),
        verdict="other",
        fix=Setting(where="job", path="nodes", text="two or more, or processes_per_node"),
        by_hand="-g 2 or mpirun -np 2",
        confirm="the header lists two ranks",
        apart={"nccl-tests-without-mpi": "several processes each print Rank 0"},
        source="NVIDIA/nccl-tests doc/PERFORMANCE.md, #249",
    ),
    Cause(
        id="data-corruption",
        title="nccl-tests found wrong values: data is corrupted on the way",
        family="Benchmarks that mislead",
        rules=(
            Rule(
                needs=("nccltests-wrong",),
                confidence=0.6,
                because="the benchmark's own check failed; which part corrupts it does not say",
            ),
        ),
        verdict="other",
        fix=Setting(where="none", path="", text="take the node out before any training runs on it"),
        by_hand="halve the set of nodes until one remains; PCIe and NVLink errors, ACS, firmware",
        confirm="`-c 1` on each node alone and on pairs",
        source="NVIDIA/nccl-tests src/common.cu",
    ),
    Cause(
        id="rails-unused",
        title="Several NICs are there and only some carry traffic",
        family="Benchmarks that mislead",
        rules=(
            Rule(
                needs=("rails-unused",),
                confidence=0.62,
                because="many channels go over a quarter or less of the NICs that NCCL lists",
            ),
        ),
        verdict="low-bandwidth",
        fix=Setting(
            where="stack",
            path="fabric.rails",
            text="all rails of the instance type, in the order of its catalogue row",
        ),
        by_hand="NCCL_CROSS_NIC, NCCL_MIN_NCHANNELS, an exact NCCL_IB_HCA; topology visible in "
        "/sys",
        confirm="channel lines use every device number",
        source="NVIDIA/nccl env.rst, NCCL_CROSS_NIC",
    ),
    Cause(
        id="numa-nps1",
        title="One NUMA node per socket (NPS1) halves the path between GPU and NIC",
        family="Benchmarks that mislead",
        rules=(
            Rule(
                needs=("numa-nps1",),
                confidence=0.5,
                because="the log says NPS1; whether it costs bandwidth here it does not say",
            ),
        ),
        verdict="low-bandwidth",
        fix=Setting(where="none", path="", text="a BIOS setting of the node"),
        by_hand="NPS4 in the BIOS of AMD EPYC hosts with several NICs",
        confirm="`lscpu | grep NUMA`; the same benchmark after the change",
        source="AMD EPYC tuning guide",
    ),
)
