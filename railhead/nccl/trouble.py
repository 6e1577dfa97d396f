"""Lines that report a failure, and the verdict that each implies; not the cause.

`railhead.diagnose` has the causes; a verdict needs only the stage that failed. The wordings are
those of NCCL 2.3 to 2.30, aws-ofi-nccl, PyTorch 1.8 to 2.9 and gloo.
"""

from __future__ import annotations

from railhead.nccl.signs import Sign

# (id, verdict, pattern, literal), in the order in which a later one follows from an earlier.
TROUBLE: tuple[tuple[str, str, bytes, bytes | tuple[bytes, ...] | None], ...] = (
    # 12 is IBV_WC_RETRY_EXC_ERR and 13 IBV_WC_RNR_RETRY_EXC_ERR: the peer never answered.
    (
        "retry-exceeded",
        "timeout",
        rb"Got completion.{0,200}?(?:\berror 1[23]\b|status=1[23]\b|_EXC_ERR\()",
        b"Got completion",
    ),
    (
        "socket-connect",
        "init-failure",
        rb"(?:NCCL WARN|socketStartConnect|ocketPollConnect).{0,200}?(?:[Cc]onnect|exceeded)"
        rb".{0,200}?(?:Connection refused|No route to host|Network is unreachable"
        rb"|Connection timed out|Software caused connection abort|exceeded|retries)",
        # Not "connect": every rank's "Connected all rings" has it, and what is everywhere in a big
        # log is no longer looked for.
        (
            b"Connection refused",
            b"No route to host",
            b"Network is unreachable",
            b"Connection timed out",
            b"Software caused",
            b"exceeded",
            b"retries",
        ),
    ),
    (
        "no-interface",
        "init-failure",
        rb"no socket interface found|Socket creation failed|Address family not supported"
        rb"|with family \d+ is neither AF_INET",
        None,
    ),
    (
        # Opening or listing devices is not here: NCCL goes on to the next network.
        "verbs",
        "init-failure",
        rb"Call to (?:wrap_)?ibv_(?:create|modify|reg|alloc|query_gid|poll|post)\w* failed"
        rb"|Call to ibv_(?:create|modify|reg|alloc)\w* failed with",
        b"Call to ",
    ),
    (
        "ofi-connect",
        "init-failure",
        rb"Unable to insert remote address|Unable to register memory"
        rb"|NET/OFI Couldn't (?:open|enable|create|allocate|bind)",
        None,
    ),
    (
        "no-net-plugin",
        "init-failure",
        rb"WARN Failed to initialize any NET plugin|Could not find net.{0,40}NCCL_NET",
        None,
    ),
    (
        "duplicate-gpu",
        "init-failure",
        rb"Duplicate GPU detected|Multiple Ranks are using the same GPU",
        None,
    ),
    (
        "version-mismatch",
        "init-failure",
        rb"Mismatched NCCL version detected|Message truncated : received",
        None,
    ),
    (
        "shared-memory",
        "init-failure",
        rb"failed to extend /dev/shm|creating shared memory segment|posix_fallocate failed"
        rb"|Could not allocate shared memory",
        None,
    ),
    (
        "google",
        "init-failure",
        rb"mismatch enforced: |Failed to create dmabuf importer|gpu_tx_reg_mr failed"
        rb"|p2pdma api won't work|tcpxResult_t .{0,80}NCCL WARN",
        None,
    ),
    (
        "proxy-connect",
        "init-failure",
        rb"Failed to execute operation (?:Connect|Setup|Init|SharedInit)|operation=Connect, res=",
        None,
    ),
    # The GPU failed, at whatever stage: what NCCL says of it follows.
    ("xid", "other", rb"NVRM: Xid|Xid \(PCI|CUDA_ERROR_ECC|uncorrectable ECC|illegal memory", None),
    (
        "oom",
        "other",
        rb"CUDA out of memory|OutOfMemoryError|out of memory'|OOMKilled|Out of memory: Killed",
        None,
    ),
    ("cuda", "init-failure", rb"NCCL WARN Cuda failure", None),
    ("bootstrap-root", "init-failure", rb"Bootstrap Root : (?:mismatch|rank \d)", None),
    (
        "gloo",
        "init-failure",
        rb"(?:gloo/|Gloo )\S{0,80}.{0,80}(?:connect|Connection refused|no route|No route)",
        (b"gloo/", b"Gloo "),
    ),
    (
        "rendezvous-address",
        "init-failure",
        rb"EADDRINUSE|errno: 98|Name or service not known|Temporary failure in name resolution"
        rb"|gai error|Errno -[23]\]|EAI_\w+|No address associated with hostname"
        rb"|can't resolve|[Cc]ould not resolve host|Name does not resolve",
        None,
    ),
    (
        "rendezvous-refused",
        "init-failure",
        rb"[Cc]lient socket has failed|DistNetworkError|RendezvousConnectionError",
        None,
    ),
    (
        "rendezvous-timeout",
        "timeout",
        rb"Timed out after \d+ seconds waiting for (?:clients|workers)|RendezvousTimeoutError"
        rb"|wait timeout after \d+ ?ms|[Tt]imed out initializing process group",
        None,
    ),
    (
        "watchdog",
        "timeout",
        rb"(?i)watchdog caught collective operation timeout"
        rb"|collective operation timeout: WorkNCCL"
        rb"|ran for \d+ milliseconds before timing out"
        rb"|timeout at NCCL work",
        None,
    ),
    # torch.distributed's barrier before NCCL, every ten seconds while a rank is missing.
    ("rendezvous-barrier", "hang", rb"Waiting in store based barrier to initialize", None),
    ("rendezvous-unreachable", "init-failure", rb"[Cc]lient socket has timed out", None),
    (
        "gloo-timeout",
        "timeout",
        rb"Timed out waiting \d+ms for (?:send|recv) operation to complete",
        None,
    ),
    (
        "ofi-unresponsive",
        "timeout",
        rb"Unresponsive (?:receiver|remote)",
        None,
    ),
    (
        "heartbeat",
        "hang",
        rb"Heartbeat monitor timed out|watchdog got stuck for|due to ProcessGroupNCCL watchdog hang"
        rb"|detected no heartbeat of its watchdog",
        None,
    ),
    # PyTorch's flight recorder (tools/flight_recorder, fr_trace, torchfrtrace): who never came.
    ("flight-recorder", "hang", rb"Not all ranks joining collective", None),
    # NCCL's own view (src/ras/client_support.cc): ranks at different operations, or one gone.
    (
        "ras-mismatch",
        "hang",
        rb"\s(?:RUNNING|INIT|NOCOMM)\s+(?:INCOMPLETE,)?MISMATCH\b"
        rb"|Communicator ranks have different \w{1,30} operation counts",
        (b"MISMATCH", b"operation counts"),
    ),
    (
        "ras-incomplete",
        "hang",
        rb"\s(?:RUNNING|INIT|NOCOMM)\s+INCOMPLETE\b|Missing communicator data from \d"
        rb"|considered dead \(unreachable via the RAS",
        (b"INCOMPLETE", b"Missing communicator data", b"via the RAS network"),
    ),
    # Horovod's stall inspector (horovod/common/stall_inspector.cc).
    (
        "stalled",
        "hang",
        rb"submitted to be reduced, gathered or broadcasted by subset of ranks"
        rb"|Stalled (?:ops|ranks):",
        (b"by subset of ranks", b"Stalled ops:", b"Stalled ranks:"),
    ),
    # Up to 2.6 a proxy's error did not reach the caller: the kernels waited for ever.
    ("proxy-thread", "hang", rb"WARN transport\.cu:\d+ ?-> ?\d \[Proxy thread error\]", None),
    (
        "ofi-completion",
        "hang",
        rb"NET/OFI Operation with NULL context completed with error",
        None,
    ),
    # The way back up from an error, printed by each caller.
    (
        "init-stack",
        "init-failure",
        rb"\bINFO (?:\S{0,200}/)?(?:init|bootstrap|transport|transport/(?:shm|p2p|nvls))"
        rb"\.c[cu]:\d+ -> [1-7]",
        tuple(
            name + end
            for name in (b"init", b"bootstrap", b"transport", b"/shm", b"/p2p", b"/nvls")
            for end in (b".cc:", b".cu:")
        ),
    ),
    # What follows says that something went wrong, and not at which stage.
    ("completion", "other", rb"Got completion.{0,200}?(?:\berror \d|status=)", b"Got completion"),
    ("async-event", "other", rb"Got async event|async fatal event", None),
    ("ofi-request", "other", rb"NET/OFI Request .{0,60}completed with error", b"NET/OFI Request"),
    (
        "peer-gone",
        "other",
        rb"Connection closed by remote peer|Connection reset by peer|Broken pipe"
        rb"|ncclRemoteError|remote process exited",
        None,
    ),
    (
        "cancelled",
        "other",
        rb"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|\*\*\* (?:JOB|STEP) .{0,60}CANCELLED"
        rb"|unlink shared memory /dev/shm/nccl-\S{1,20} failed|DeadlineExceeded",
        None,
    ),
    (
        "watchdog-abort",
        "other",
        rb"operations have failed or timed out|watchdog thread terminated with exception",
        None,
    ),
    (
        "killed",
        "other",
        rb"exitcode *: -\d+|Signal \d+ \(SIG\w+\)|signal 9 \(Killed\)"
        # gdb looks at a process that died, and not at one that waits.
        rb"|Program (?:terminated with|received) signal SIG(?!STOP|INT\b|TRAP)",
        None,
    ),
    (
        "mismatch",
        "other",
        rb"Detected mismatch between collectives|Collectives differ|Mismatched collective"
        rb"|running collective: CollectiveFingerPrint",
        None,
    ),
    # Someone inspected a stuck process: gdb's and lldb's threads or frames within NCCL,
    # py-spy's threads, calls that did not return under strace, or cuda-gdb's active kernels.
    (
        "stack-dump",
        "hang",
        rb"^#\d{1,3}\s+(?:0x[0-9a-f]{4,16} in )?(?:bootstrap\w*|ncclSocket\w*|socketProgress\w*"
        rb"|ncclProxy\w*|\w{0,20}ProxyProgress|initTransportsRank) ?\("
        rb"|^#\d{1,3}\s+0x[0-9a-f]{4,16} in p?ncclComm\w* ?\("
        rb"|^\*\s+\d{1,9}\s.{0,80} Active 0x.{0,80}\bnccl\w{1,80}Kernel"
        rb"|^\s{0,8}Thread \S{1,20} \((?:active|idle)(?:\+gil)?\): \""
        rb"|^Thread \d{1,6} \(Thread 0x[0-9a-f]{4,16} \(LWP \d{1,9}\)"
        rb"|^\s{0,4}\*?\s{0,4}thread #\d{1,6}, .{0,200}stop reason = signal SIGSTOP"
        rb"|^(?:\[pid +\d{1,9}\] )?(?:[\d:.]{8,20} )?(?:accept4?|recv\w{0,4}|futex|poll|epoll_wait)"
        rb"\(.{0,300}<unfinished \.\.\.>",
        (
            b" bootstrap",
            b" ncclSocket",
            b" socketProgress",
            b" ncclProxy",
            b"ProxyProgress",
            b" initTransportsRank",
            b" in ncclComm",
            b" in pncclComm",
            b" Active 0x",
            b'(active): "',
            b'(idle): "',
            b'(active+gil): "',
            b" (LWP ",
            b"stop reason = signal SIGSTOP",
            b"<unfinished ...>",
        ),
    ),
    (
        "error-return",
        "init-failure",
        rb"unhandled system error|unhandled cuda error|ncclSystemError|ncclUnhandledCudaError"
        rb"|ncclInternalError|ncclInvalidUsage|invalid usage|internal error.{0,20}NCCL"
        rb"|OFI NCCL failure",
        None,
    ),
    # What the ranks print that did not find it themselves (ProcessGroupNCCL.cpp, PyTorch 2.3 on).
    # It is sent for errors too, so that any line above says more.
    (
        "dump-signal",
        "timeout",
        rb"Received a (?:dump|timeout) signal (?:due to a collective timeout )?from"
        rb"|Observed flight recorder dump signal from another rank",
        None,
    ),
)

VERDICT_OF = {f"trouble.{name}": verdict for name, verdict, _, _ in TROUBLE}
SIGNS = tuple(
    Sign(id=f"trouble.{name}", pattern=pattern, literal=literal)
    for name, _, pattern, literal in TROUBLE
)
