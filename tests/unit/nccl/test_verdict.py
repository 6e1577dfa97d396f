"""The verdict, from both sides: what makes it, and the like that does not."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from railhead.diagnose import read as read_logs
from railhead.nccl import trouble
from railhead.nccl.reading import Reading
from tests.unit.nccl import logs
from tests.unit.nccl.logs import comm, info, init, net, row, warn

Read = Callable[[Iterable[str]], Reading]
REPO = Path(__file__).resolve().parents[3]
AVERAGE = "# Avg bus bandwidth    : 53.0"
RETRY = (
    "NET/IB : Got completion from peer 10.0.0.1<5> with error 12, opcode 0, len 0, vendor err 129"
)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(lines: Iterable[str]) -> Reading:
        return read_logs([logs.write(tmp_path / "run.log", lines)])

    return reading


def test_a_healthy_run_is_ok(read: Read) -> None:
    reading = read(logs.healthy())
    assert (reading.verdict, reading.transport, reading.gdr) == ("ok", "ib", "yes")
    assert reading.cause is None
    assert reading.notes == ()


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (warn(RETRY), "timeout"),
        (warn("NET/IB: Got completion from peer x status=IBV_WC_RETRY_EXC_ERR(12)"), "timeout"),
        (warn("NET/IB : Got completion with error 4, opcode 0, len 0, vendor err 81"), "other"),
        (warn("Net : Connect to 10.0.0.2<5> failed : No route to host"), "init-failure"),
        (
            warn("socketPollConnect: connect to 1.2.3.4<5> returned Connection refused, exceeded "
                 "error retry count after 35 attempts"),
            "init-failure",
        ),
        (info("Call to connect returned Connection refused, retrying"), "other"),
        (warn("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"), "init-failure"),
        (warn("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1"),
         "init-failure"),
        (warn("Bootstrap : no socket interface found"), "init-failure"),
        (warn("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 3e000"),
         "init-failure"),
        (warn("Message truncated : received 1024 bytes instead of 256"), "init-failure"),
        (warn("Error: failed to extend /dev/shm/nccl-x to 9637892 bytes"), "init-failure"),
        (warn("Cuda failure 'invalid device ordinal'"), "init-failure"),
        (warn("Cuda failure 'out of memory'"), "other"),
        (info("init.cc:1402 -> 6"), "init-failure"),
        (info("proxy.cc:698 -> 6 [Progress Thread]"), "other"),
        ("[rank0]: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3",
         "timeout"),
        ("torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2",
         "timeout"),
        ("RuntimeError: The server socket has failed to listen: EADDRINUSE", "init-failure"),
        ("socket.gaierror: [Errno -2] Name or service not known", "init-failure"),
        ("    0  1  4  8  32  32   RUNNING  MISMATCH", "hang"),
        ("    2  4  0  0  0  0    NOCOMM  INCOMPLETE,MISMATCH", "hang"),
        ("    0  1  1  1  2  1   RUNNING  INCOMPLETE", "hang"),
        ("  Missing communicator data from 1 job process", "hang"),
        ("  Communicator ranks have different AllGather operation counts", "hang"),
        ("Waiting in store based barrier to initialize process group for rank: 0, key: x "
         "(world_size=2, worker_count=1, timeout=0:30:00)", "hang"),
        ("[2019-06-04 16:49:19.7: W horovod/common/operations.cc:588] One or more tensors were "
         "submitted to be reduced, gathered or broadcasted by subset of ranks and are", "hang"),
        ("Stalled ranks:", "hang"),
        ("#1  0x00007f00ad990a6e in bootstrapNetAccept (listenComm=0x7f0018006620) at b.cc:106",
         "hang"),
        ('Thread 4711 (active): "MainThread"', "hang"),
        ("INFO [shm_broadcast.py:802] No available shared memory broadcast block found in 60 s",
         "hang"),
        ("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16", "hang"),
        ("[rank0]: devices used by this process are currently unknown. This can potentially cause "
         "a hang if this rank to GPU mapping is incorrect.", "hang"),
        ("[rank0]: Guessing device ID based on global rank. This can cause a hang if rank to GPU "
         "mapping is heterogeneous.", "hang"),
        ("    1 job process is considered dead (unreachable via the RAS network)", "hang"),
        ("[rank7]:[E1019 01:04:03.357615073 ProcessGroupNCCL.cpp:1375] [PG 3 Rank 7] First PG on "
         "this rank that detected no heartbeat of its watchdog.", "hang"),
        ("0(default_pg) Rank 6] Terminating the process after attempting to dump debug info, due "
         "to ProcessGroupNCCL watchdog hang.", "hang"),
        ("Not all ranks joining collective 5 at entry 4", "hang"),
        ("Not all ranks joining collective, sequence number: 4", "hang"),
        ("error msg: Culprit rank 22; Error type: SIZE_OR_SYNTAX_MISMATCH", "other"),
        ('Thread 7 (Thread 0x7f64ab6dc000 (LWP 2791195) "server"):', "hang"),
        ("  thread #150, name = 'python', stop reason = signal SIGSTOP", "hang"),
        ("[pid 10047] 21:59:49 accept4(32,  <unfinished ...>", "hang"),
        ("(ApiServer_0 pid=744) DEBUG 08-09 20:56:13 [v1/engine/utils.py:950] Waiting for 1 local, "
         "0 remote core engine proc(s) to start.", "hang"),
        ("(Worker pid=9) INFO 07-30 12:25:10 [pynccl.py:113] vLLM is using nccl==2.28.9", "hang"),
        ("INFO [parallel_state.py:1615] world_size=8 rank=7 local_rank=7 "
         "distributed_init_method=tcp://127.0.0.1:33015 backend=nccl", "hang"),
        ("| distributed init (rank 5): env://", "hang"),
        ("All DDP processes registered. Starting ddp with 2 processes", "hang"),
        ("[rank5]:[E723 01:58:45.6 ProcessGroupNCCL.cpp:1743] Received a dump signal due to a "
         "collective timeout from  rank 2 and we will try our best to dump the debug info.",
         "timeout"),
        ("[Rank 5] Observed flight recorder dump signal from another rank via TCPStore.",
         "timeout"),
        ("Program terminated with signal SIGSEGV, Segmentation fault.", "other"),
        (warn("Call to listen failed: Invalid argument", source="ras/client_support.cc:160"),
         "other"),
        (warn("Call to bind failed: Address already in use"), "init-failure"),
        ("    0  1  4  8  32  32   RUNNING  OK", "ok"),
        ("ncclRemoteError: A call failed possibly due to a network error or a remote process "
         "exiting prematurely.", "other"),
    ],
)  # fmt: skip
def test_one_line(read: Read, line: str, verdict: str) -> None:
    assert read([line]).verdict == verdict


def test_no_failure_pattern_matches_healthy_lines() -> None:
    """A literal that is everywhere in a big log is dropped, and its sign with it."""
    spec = importlib.util.spec_from_file_location("bench", REPO / "benchmarks" / "nccl.py")
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    lines = [*bench.start(3), *bench.communicator(3, 1), *logs.healthy()]
    lines += bench.collectives(8, 0, 2, random.Random(1))
    for sign in trouble.SIGNS:
        for needle in sign.needles:
            text = needle.decode().lower() if sign.caseless else needle.decode()
            results = [line for line in lines if text in (line.lower() if sign.caseless else line)]
            assert results == [], (sign.id, needle)


def test_every_pattern_of_failure_is_tried_with_a_literal() -> None:
    for sign in trouble.SIGNS:
        assert min(map(len, sign.needles)) >= 4, sign.id


def test_local_error_after_connections_is_an_init_failure(read: Read) -> None:
    error = warn("NET/IB : Got completion with error 4, opcode 8983, len 0, vendor err 81")
    assert read([net(0, 8, "send"), error]).verdict == "init-failure"
    assert read([*logs.healthy(), error]).verdict == "other"


def test_a_finished_test_is_ok_whatever_came_before(read: Read) -> None:
    tried = warn("Net : Connect to 10.0.0.2<5> failed : Connection refused")
    table = [row(1 << 30, 160.0, 300.0), AVERAGE]
    assert read([tried, *logs.healthy(), *table]).verdict == "ok"
    assert read([tried, row(8, 0.0, 0.0)]).verdict == "init-failure"


def test_wrong_values_are_not_ok(read: Read) -> None:
    assert read([row(1 << 30, 160.0, 300.0, wrong="3"), AVERAGE]).verdict == "other"
    assert read([row(1 << 30, 160.0, 300.0, wrong="N/A"), AVERAGE]).verdict == "ok"
    failed = "# Out of bounds values : 3 FAILED"
    assert read([row(1 << 30, 160.0, 300.0), failed]).verdict == "other"


def test_a_test_of_one_rank_or_of_many_first_ranks_is_void(read: Read) -> None:
    start = "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)"
    zero = "#   Rank  0 Pid   1320 on     node-b device  0 [0x00] Tesla V100"
    other = "#   Rank  0 Pid   2066 on     node-a device  0 [0x00] Tesla V100"
    item = "#   Rank  1 Pid   2066 on     node-a device  0 [0x00] Tesla V100"
    assert read([start, start, zero, other]).verdict == "other"
    assert read([start, zero]).verdict == "other"
    assert read([start, zero, item, row(1 << 30, 160.0, 300.0), AVERAGE]).verdict == "ok"


def test_tcp_is_a_fallback_and_fastsocket_is_slow(read: Read) -> None:
    assert read([info("Using network Socket")]).verdict == "tcp-fallback"
    fast = [info("NET/FastSocket : Using [0]eth0:10.0.0.1<0>"), info("Using network FastSocket")]
    assert read(fast).verdict == "low-bandwidth"


def test_no_gdr_is_slow_where_the_gpu_could(read: Read) -> None:
    lines = logs.healthy(gdr=False)
    assert read(lines).verdict == "low-bandwidth"
    weak = "#  Rank  0 Group  0 Pid     21 on worker-0 device  0 [0x35] Tesla T4"
    more = "#  Rank  1 Group  0 Pid     21 on worker-1 device  0 [0x35] Tesla T4"
    assert read([weak, more, *lines]).verdict == "ok"
    efa = [line for line in logs.healthy(network="AWS Libfabric/0", gdr=False) if "/IB" not in line]
    efa.append(info("NET/OFI Selected Provider is efa (found 1 nics)"))
    assert read(efa).verdict == "ok"


def test_rdma_slower_than_any_port_is_slow(read: Read) -> None:
    slow = [*logs.healthy(), row(1 << 30, 0.6, 1.1), AVERAGE]
    assert read(slow).verdict == "low-bandwidth"
    assert read([*logs.healthy(), row(1 << 20, 0.6, 1.1), AVERAGE]).verdict == "measured"


def test_low_result_without_a_rate_is_only_measured(read: Read) -> None:
    low = [*logs.healthy(), row(1 << 30, 6.0, 11.0), AVERAGE]
    reading = read(low)
    assert reading.verdict == "measured"
    assert "no line tells a rate" in reading.claims["verdict"].why
    rate = info("NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=100000 context=0x5")
    assert read([rate, *low]).verdict == "ok"
    # Two rates: half of the lower is reached, half of the higher is not.
    other = info("NET/IB: [1] mlx5_1:uverbs1:1/IB provider=Mlx5 speed=400000 context=0x6")
    assert read([rate, other, *low]).verdict == "measured"
    assert read([*logs.healthy(), row(1 << 30, 100.0, 190.0), AVERAGE]).verdict == "ok"
    assert read([row(1 << 30, 4.0, 7.5), AVERAGE]).verdict == "measured"
    assert read([*logs.healthy(), row(1 << 30, 1.6, 2.9), AVERAGE]).verdict == "measured"


@pytest.mark.parametrize("nics", [4, 8, 9])
def test_one_device_of_many_is_slow(read: Read, nics: int) -> None:
    hcas = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(nics))
    head = info(f"NET/IB : Using {hcas} [RO]; OOB eth0:10.0.0.1<0>")
    done = [init(rank, 16, "Init COMPLETE") for rank in range(16)]
    item = [net(8 + rank, rank, "receive", "IB/0") for rank in range(8)]
    assert read([head, *item]).verdict == "low-bandwidth"
    own = [net(8 + rank, rank, "receive", f"IB/{rank % nics}") for rank in range(8)]
    assert read([head, *own, *done]).verdict == "ok"
    # Where a node shows only the two ranks at the ends of its part of the rings, they are enough.
    ends = [line for _ in range(4) for line in (net(0, 8, "send"), net(15, 7, "receive"))]
    assert read([head, comm(0, 16, 2), *ends, *done]).verdict == "low-bandwidth"
    # Two nodes of one GPU each have one NIC a GPU.
    two = [comm(0, 2, 2), net(0, 1, "send"), net(1, 0, "receive"), init(0, 2, "Init COMPLETE")]
    assert read([head, *two]).verdict == "ok"


def test_one_nic_of_the_aws_plugin_is_slow(read: Read) -> None:
    efa = [info("NET/OFI Selected provider is efa, fabric is efa (found 32 nics)")]
    item = [net(8 + rank, rank, "receive", "AWS Libfabric/0") for rank in range(8)]
    assert read([*efa, *item]).verdict == "low-bandwidth"
    own = [net(8 + rank, rank, "receive", f"AWS Libfabric/{rank}") for rank in range(8)]
    assert read([*efa, *own]).verdict == "other"


@pytest.mark.slow
@pytest.mark.parametrize(
    "rate",
    [
        info("NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x1 pciPath=/x"),
        info("+ PCI[48.0] - NIC/0 + NET[50.0] - NET/0 (dc4e5b0003a1420e/1/50.000000)"),
        '<net name="mlx5_0" dev="0" latency="0" speed="400000" port="1" maxconn="262144"/>',
        "\t\tRate: 400",
        " 65536      5000             396.20             396.10              0.755501",
        # The same in MiB/s.
        " 65536      5000             47250.20           47219.50            0.755512",
    ],
)
def test_a_table_is_read_against_the_rate_of_the_nics(read: Read, rate: str) -> None:
    used = [net(8 + rank, rank, "receive", f"IB/{rank}") for rank in range(8)]
    start = "# Collective test starting: all_reduce_perf"
    table = [logs.IB_LIST, comm(0, 16, 2), *used, start]
    # Eight NICs of 400 Gbit/s carry 400 GB/s.
    slow = read([rate, *table, row(1 << 33, 80.0, 150.0), AVERAGE])
    assert slow.verdict == "low-bandwidth"
    assert slow.claims["verdict"].evidence[-1].text.strip() in rate
    assert read([rate, *table, row(1 << 33, 190.0, 356.0), AVERAGE]).verdict == "ok"
    # Without a rate, or of a small size, nothing is said.
    assert read([*table, row(1 << 33, 80.0, 150.0), AVERAGE]).verdict == "ok"
    assert read([rate, *table, row(1 << 20, 80.0, 150.0), AVERAGE]).verdict == "ok"
    # A middle size shows a fifth.
    assert read([rate, *table, row(1 << 23, 50.0, 93.0), AVERAGE]).verdict == "ok"
    assert read([rate, *table, row(1 << 23, 40.0, 75.0), AVERAGE]).verdict == "low-bandwidth"
    # Where ranks exchange in pairs, one has its own share of the NICs: 50 GB/s here.
    other = [line.replace("all_reduce", "alltoall") for line in table]
    assert read([rate, *other, row(1 << 33, 40.0, 37.5), AVERAGE]).verdict == "ok"
    assert read([rate, *other, row(1 << 33, 22.0, 20.6), AVERAGE]).verdict == "low-bandwidth"
    # On one node the NICs carried nothing.
    alone = [rate, comm(0, 8, 1), start, row(1 << 33, 80.0, 140.0), AVERAGE]
    assert read(alone).verdict == "ok"


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        pytest.param(
            [f" algbw: {alg:.3f} GBps (1 Gbps)", f" busbw: {alg * 1.875:.3f} GBps (1 Gbps)"],
            [f" algbw: {ok:.3f} GBps (1 Gbps)", f" busbw: {ok * 1.875:.3f} GBps (1 Gbps)"],
            id="all_reduce_bench.py",
        )
        for alg, ok in [(80.0, 190.0)]
    ]
    + [
        pytest.param(
            ["4.0 GB               1073741824x4         53.687 ms   640.000     1200.000"],
            ["4.0 GB               1073741824x4         22.605 ms   1520.000    2850.000"],
            id="ds_bench",
        )
    ],
)
def test_other_programs_tables_are_read_too(read: Read, slow: list[str], fast: list[str]) -> None:
    used = [net(8 + rank, rank, "receive", f"IB/{rank}") for rank in range(8)]
    start = [info("NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x1 p=/x")]
    start += [logs.IB_LIST, comm(0, 16, 2), *used]
    start += ["---- Performance of all_reduce on 16 devices -------------------------"]
    start += ["The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 16 ranks):"]
    assert read([*start, *slow]).verdict == "low-bandwidth"
    assert read([*start, *fast]).verdict == "ok"
    # Without its figures it is no table.
    assert read(start).verdict == "other"


def test_figure_without_its_payload_is_ignored(read: Read) -> None:
    stray = [" algbw: 80.000 GBps (1 Gbps)", " busbw: 150.000 GBps (1 Gbps)"]
    assert read([logs.IB_LIST, net(8, 0, "receive"), *stray]).verdict == "other"


def test_a_table_beside_what_the_gpus_and_the_search_tell(read: Read) -> None:
    used = [logs.IB_LIST, comm(0, 16, 2), *(net(8 + r, r, "receive", f"IB/{r}") for r in range(8))]
    gpu = "#  Rank  0 Group  0 Pid  149 on node-a device  0 [0x56] NVIDIA {}"
    # Eight ports of 100 Gbit/s, the slowest beside such a GPU, carry 100 GB/s.
    slow, fast = (row(1 << 33, busbw * 0.53, busbw) for busbw in (45.0, 55.0))
    h100 = [*used, gpu.format("H100 80GB HBM3")]
    assert read([*h100, slow, AVERAGE]).verdict == "low-bandwidth"
    assert read([*h100, fast, AVERAGE]).verdict == "ok"
    assert read([*used, gpu.format("Tesla V100-SXM2-16GB"), slow, AVERAGE]).verdict == "ok"
    # NCCL's own search: eight channels of 24 GB/s between nodes.
    plan = info("Pattern 4, crossNic 0, nChannels 8, bw 24.0/24.0, type NVL/PIX, sameChannels 1")
    assert read([*used, plan, fast, AVERAGE]).verdict == "low-bandwidth"
    assert read([*used, plan, row(1 << 33, 60.0, 112.0), AVERAGE]).verdict == "ok"


def test_a_table_that_falls_is_slow(read: Read) -> None:
    used = [logs.IB_LIST, comm(0, 2, 2), net(0, 8, "send"), net(8, 0, "receive")]
    sizes = [(24, 20.0), (25, 22.0), (26, 21.0)]
    table = [row(1 << power, busbw, busbw) for power, busbw in sizes]
    assert read([*used, *table, row(1 << 27, 15.0, 15.0), AVERAGE]).verdict == "measured"
    assert read([*used, *table, row(1 << 27, 12.0, 12.0), AVERAGE]).verdict == "low-bandwidth"
    # The next test's table begins with its smallest size.
    again = [row(1 << 24, 9.0, 9.0), row(1 << 27, 12.0, 12.0)]
    assert read([*used, *table, *again, AVERAGE]).verdict == "measured"
    # Within a node the network plays no part.
    assert read([comm(0, 8, 1), *table, row(1 << 27, 12.0, 12.0), AVERAGE]).verdict == "measured"


def test_efa_without_gdr_is_slow_where_the_gpu_could(read: Read) -> None:
    efa = [
        info("NET/OFI Selected Provider is efa (found 4 nics)"),
        net(0, 8, "send", "AWS Libfabric/0", gdr=False),
        net(8, 0, "receive", "AWS Libfabric/1", gdr=False),
        row(1 << 30, 20.0, 37.0),
    ]
    gpu = "#  Rank  0 Group  0 Pid  149 on node-a device  0 [0x56] {}"
    assert read([*efa, gpu.format("A100-SXM4-40GB"), AVERAGE]).verdict == "low-bandwidth"
    assert read([*efa, gpu.format("Tesla T4"), AVERAGE]).verdict == "ok"


def test_a_slow_table_over_an_unknown_network_is_not_ok(read: Read) -> None:
    assert read([row(1 << 30, 1.1, 2.0), AVERAGE]).verdict == "other"
    assert read([row(1 << 30, 230.0, 430.0), AVERAGE]).verdict == "ok"


def test_ok_needs_an_end_or_a_figure(read: Read) -> None:
    head = [logs.IB_LIST, comm(0, 16, 2)]
    used = [net(0, 8, "send"), net(8, 0, "receive")]
    begun = [*head, *used, logs.CONNECTED, info("Connected all trees"), info("Using network IB")]
    for count in range(1, len(begun) + 1):
        wired = count >= len(head) + len(used)
        assert read(begun[:count]).verdict == ("wired" if wired else "other"), begun[:count]
    # An end without a transport, or the other way round, is no start.
    assert read([init(0, 16, "Init COMPLETE")]).verdict == "other"
    assert read([*begun, init(0, 16, "Init COMPLETE")]).verdict == "ok"
    assert read([*begun, init(0, 16, "Destroy COMPLETE")]).verdict == "ok"
    assert read([*begun, row(1 << 30, 230.0, 430.0)]).verdict == "ok"


def test_stray_ethernet_port_is_slow_unless_connections_avoid_it(read: Read) -> None:
    mixed = info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB eth0:1<0>")
    assert read([mixed]).verdict == "low-bandwidth"
    used = [net(0, 8, "send"), init(0, 16, "Init COMPLETE")]
    assert read([mixed, *used]).verdict == "ok"


def test_silence_after_all_began_is_a_hang(read: Read) -> None:
    began = [logs.IB_LIST, *(init(rank, 4, "Init START") for rank in range(4))]
    assert read(began).verdict == "hang"
    # Lines that cut each other lose one or two, and no more.
    done = [init(rank, 4, "Init COMPLETE") for rank in range(4)]
    chosen = [info("Using network IB"), *began]
    assert read([*chosen, *done[:3]]).verdict == "ok"
    # The devices that were found are not in use.
    assert read([*began, *done[:3]]).verdict == "other"
    assert read([*began, *done[:2]]).verdict == "hang"
    assert read([*began, *done[:2], row(1 << 30, 230.0, 430.0)]).verdict == "ok"
    assert read(began[:-1]).verdict == "other"


def test_the_whole_of_one_host_that_began_is_a_hang(read: Read) -> None:
    nodes = [comm(rank, 16, 2) for rank in range(8)]
    assert read([logs.IB_LIST, *nodes]).verdict == "hang"
    assert read([logs.IB_LIST, *nodes[:-1]]).verdict == "other"


def test_a_list_of_devices_without_an_end_of_initialisation(read: Read) -> None:
    listed = [f"#  Rank  {n} Group  0 Pid  149 on node-a device  {n} [0x5{n}] H100" for n in (0, 1)]
    begun = [
        *listed,
        info("Bootstrap : Using eth0:10.0.0.1<0>"),
        info("Setting affinity for GPU 0"),
    ]
    assert read(begun).verdict == "hang"
    assert read([*begun, row(1 << 30, 230.0, 430.0)]).verdict == "ok"
    assert read([*begun, "the next program starts"]).verdict == "other"


@pytest.mark.parametrize("others", ["AllReduce", "AllGather"])
def test_ranks_that_call_different_collectives(read: Read, others: str) -> None:
    def call(rank: int, op: str, *, ranks: int = 4) -> str:
        text = f"{op}: opCount 28c sendbuff 0x1 recvbuff 0x2 count 9 datatype 7 op 0 root 0 comm "
        return info(f"{text}0x55{rank} [nranks={ranks}] stream 0x66", pid=10 + rank, gpu=rank)

    calls = [call(0, "AllReduce"), *(call(rank, others) for rank in (1, 2, 3))]
    reading = read(calls)
    assert reading.verdict == ("hang" if others == "AllGather" else "other")
    # Of a part of the ranks, or of several communicators, it shows nothing.
    assert read(calls[:3]).verdict == "other"
    assert read([call(0, "AllReduce", ranks=2), call(1, others, ranks=2), *calls[2:]]).verdict == (
        "other"
    )


def test_rules_and_idle_servers_are_not_the_last_line(read: Read) -> None:
    waits = "INFO [shm_broadcast.py:802] No available shared memory broadcast block found in 60 s"
    assert read([waits, "-" * 80, ""]).verdict == "hang"
    idle = "Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 1 reqs"
    assert read([waits, idle]).verdict == "hang"
    assert read([waits, idle.replace("0.0", "7.5")]).verdict == "other"


@pytest.mark.parametrize(
    "waits",
    [
        "Epoch 0:   0%|          | 0/188 [00:00<?, ?it/s]",
        "[2025-04-01 09:58:02 TP0] Custom allreduce is disabled because this process group spans "
        "across nodes.",
        info("resp.opId=0x7fa7a8f7a6d0 matches expected opId=0x7fa7a8f7a6d0"),
    ],
)
def test_waiting_is_a_hang_only_at_the_end(read: Read, waits: str) -> None:
    assert read([waits]).verdict == "hang"
    assert read([waits, *logs.healthy()]).verdict == "ok"


def test_processes_that_stop_while_they_connect_hang(read: Read) -> None:
    def own(rank: int) -> list[str]:
        trees = info("Trees [0] 1/-1/-1->0->-1", pid=100 + rank, host="node-0", gpu=rank)
        return [trees, net(rank, 8 + rank, "send", host="node-0")]

    assert read([*own(0), *own(1)]).verdict == "hang"
    # One process shows nothing, nor do connections without what comes before them.
    assert read(own(0)).verdict == "other"
    assert read([own(0)[1], own(1)[1]]).verdict == "other"
    assert read([*own(0), *own(1), *logs.healthy()]).verdict == "ok"


@pytest.mark.parametrize(
    "line",
    [
        "#6  0x00007f67471be402 in pncclCommInitRankConfig () from libnccl.so.2",
        "*      0      -   0 52162520 Active 0x00000001 (1,1,1) (64,1,1) ncclReduceRingLLKernel()",
    ],
)
def test_dumped_stack_is_a_hang(read: Read, line: str) -> None:
    assert read(["(cuda-gdb) bt", line]).verdict == "hang"
    assert read(["Program received signal SIGSEGV, Segmentation fault.", line]).verdict == "other"


def test_silence_after_the_bootstrap_is_a_hang(read: Read) -> None:
    lines = [info("Bootstrap : Using eth0:10.0.0.1<0>"), info("NCCL version 2.23.4+cuda12.2")]
    assert read(lines).verdict == "hang"
    # What was chosen was not used yet.
    assert read([*lines, info("Using network IB")]).verdict == "other"


def test_waiting_rank_is_a_hang_only_as_the_last_line(read: Read) -> None:
    member = "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16"
    assert read([member]).verdict == "hang"
    assert read([member, *logs.healthy()]).verdict == "ok"
    # The barrier before NCCL was passed where NCCL began.
    barrier = "Waiting in store based barrier to initialize process group for rank: 0, key: x"
    assert read([barrier, barrier]).verdict == "hang"
    assert read([barrier, *logs.healthy()]).verdict == "ok"


def test_a_head_without_rows_is_a_hang_only_at_the_end(read: Read) -> None:
    head = [
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
    ]
    assert read([*logs.healthy(), *head]).verdict == "hang"
    assert read([*logs.healthy(), *head, row(1 << 30, 200.0, 375.0)]).verdict == "ok"


def test_a_launch_that_only_other_ranks_init_follows(read: Read) -> None:
    launch = info("Launch mode Parallel")
    assert read([*logs.healthy(), launch, init(3, 16, "Init COMPLETE")]).verdict == "hang"
    assert read([*logs.healthy(), launch, "step 1 loss 2.0"]).verdict == "ok"


def test_a_host_of_which_no_rank_completed_hangs(read: Read) -> None:
    began = [init(rank, 16, "Init START") for rank in range(16)]
    done = [init(rank, 16, "Init COMPLETE") for rank in range(8)]
    head = [logs.IB_LIST, comm(0, 16, 2), net(0, 8, "send")]
    assert read([*head, *began, *done]).verdict == "hang"
    # One line more or less may have been cut.
    more = [init(rank, 16, "Init COMPLETE") for rank in (8, 9)]
    assert read([*head, *began, *done, *more]).verdict == "ok"


def test_a_long_silence_after_a_line_of_nccl_is_a_hang(read: Read) -> None:
    def at(clock: str, line: str) -> str:
        return f"2026-01-02T{clock}.000000Z stdout F {line}"

    lines = [at("10:00:00", line) for line in (info("Bootstrap : Using eth0:1<0>"), logs.IB_LIST)]
    lines.append(at("10:00:01", info("Using network IB")))
    late, soon = at("10:40:00", "received SIGTERM"), at("10:01:00", "received SIGTERM")
    reading = read([*lines, late])
    assert reading.verdict == "hang"
    assert "2399 s" in reading.claims["verdict"].why
    assert read([*lines, soon]).verdict == "other"
    # Between steps of a training loop time may pass.
    steps = [at("10:00:02", "step 1"), at("11:00:02", "step 2")]
    assert read([*lines, *steps]).verdict == "other"


def test_rendezvous_warning_before_a_good_start_is_ignored(read: Read) -> None:
    warning = "[W socket.cpp:601] [c10d] (gai error: -3 - Temporary failure in name resolution)."
    assert read([warning]).verdict == "init-failure"
    assert read([warning, *logs.healthy()]).verdict == "ok"


def test_later_lines_do_not_hide_a_failure(read: Read) -> None:
    watchdog = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3"
    refused = warn("Net : Connect to 10.0.0.2<5> failed : Connection refused")
    assert read([refused, watchdog]).verdict == "init-failure"
    assert read([warn(RETRY), watchdog, "ncclRemoteError: A call failed"]).verdict == "timeout"


def test_a_warning_without_a_result_forbids_ok(read: Read) -> None:
    odd = warn("NET/OFI Something that nobody has seen before")
    assert read([*logs.healthy(), odd]).verdict == "other"
    assert read([*logs.healthy(), odd, row(1 << 30, 160.0, 300.0), AVERAGE]).verdict == "ok"
    assert read([*logs.healthy(), warn("Failed to open libibverbs.so[.1]")]).verdict == "ok"


def test_log_that_ends_in_launch_mode_or_devices_is_a_hang(read: Read) -> None:
    launch = info("Launch mode Parallel")
    assert read([*logs.healthy(), launch, "", ""]).verdict == "hang"
    assert read([*logs.healthy(), launch, "step 1 loss 2.0"]).verdict == "ok"
    devices = [
        f"#  Rank  {rank} Group  0 Pid     2{rank} on worker-{rank} device  0 [0x35] NVIDIA A100"
        for rank in range(2)
    ]
    assert read(devices).verdict == "hang"
    header = "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    assert read([*devices, header]).verdict == "other"


def test_an_unknown_warning_before_the_end_of_initialisation(read: Read) -> None:
    odd = warn("Something that nobody has seen before")
    assert read([odd]).verdict == "other"
    assert read([info("NCCL version 2.27.3+cuda12.8"), odd]).verdict == "init-failure"


def test_log_without_nccl_is_other(read: Read) -> None:
    reading = read(["hello", "step 1 loss 2.0", ""])
    assert (reading.transport, reading.gdr, reading.verdict) == ("unknown", "unknown", "other")
    assert reading.cause is None


def test_a_rack_that_waits_for_its_last_rank(read: Read) -> None:
    lines = [comm(rank, 8, 1) for rank in range(7)]
    assert read(lines).verdict == "other"
