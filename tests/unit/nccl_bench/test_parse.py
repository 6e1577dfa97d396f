"""Tables of every release and launcher, JSON, cuts and interleaving."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from railhead.nccl.bench.collectives import COLLECTIVES, named_in, ranks_of
from railhead.nccl.bench.model import BenchRun
from railhead.nccl.bench.parse import intervals, machine_names, read_runs
from tests.unit.nccl_bench import tables
from tests.unit.nccl_bench.tables import GIB, MIB, Point

UNIFORM = sorted(name for name, item in COLLECTIVES.items() if item.base is not None)


def runs(tmp_path: Path, text: str | bytes, name: str = "run.log") -> list[BenchRun]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_runs([path])


def one(tmp_path: Path, text: str | bytes, name: str = "run.log") -> BenchRun:
    (run,) = runs(tmp_path, text, name)
    return run


@pytest.mark.parametrize("collective", UNIFORM)
@pytest.mark.parametrize("era", ["2.13", "2.19i"])
def test_every_collective(tmp_path: Path, collective: str, era: str) -> None:
    points = tables.points(MIB, GIB)
    text = tables.log(collective, rows=points, era=era, started=True)
    run = one(tmp_path, text)
    assert (run.collective, run.collective_from) == (collective, "named")
    assert (run.ranks, run.nodes, run.gpus_per_node) == (16, 2, 8)
    assert run.complete
    assert run.wrong == 0
    assert [row.size for row in run.rows] == [point.size for point in points]
    for row, point in zip(run.rows, points, strict=True):
        for _, half in row.halves:
            assert half.algbw == pytest.approx(point.algbw, abs=0.06)
        assert len(row.halves) == 2
    assert run.nccl == "2.30.4"
    assert run.version == "2.19.6"


@pytest.mark.parametrize(
    "collective", ["all_reduce", "all_gather", "alltoall", "broadcast", "reduce", "reduce_scatter"]
)
def test_the_first_releases(tmp_path: Path, collective: str) -> None:
    """Up to 2.9: no `#wrong`, an `error` column, and a redop or a root only where there is one."""
    text = f"$ mpirun ./build/{collective}_perf -b 8\n" + tables.log(collective, era="2.9")
    run = one(tmp_path, text)
    assert run.collective == collective
    assert run.ranks == 16
    assert len(run.rows) == len(tables.points())
    assert run.wrong == 0
    assert run.rows[-1].size == 2 * GIB


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(
    "collective", ["all_reduce", "all_gather", "alltoall", "broadcast", "reduce", "reduce_scatter"]
)
def test_times_without_a_fraction_are_not_roots(
    tmp_path: Path, collective: str, header: bool
) -> None:
    """A time of 10 ms or more has no decimals, and in old tables it stands where a root may."""
    points = tables.points(MIB, 8 * GIB, top=20.0)
    text = f"$ ./build/{collective}_perf\n" + tables.log(collective, rows=points, era="2.9")
    if not header:
        text = "\n".join(line for line in text.splitlines() if "algbw" not in line)
    run = one(tmp_path, text)
    assert [row.size for row in run.rows] == [point.size for point in points]
    assert run.rows[-1].out_of_place is not None
    assert run.rows[-1].out_of_place.time > 1e5
    assert all(len(row.halves) == 2 for row in run.rows)


def test_bandwidth_without_bus_bandwidth_is_one_rank(tmp_path: Path) -> None:
    row = "  1310720000     327680000     float     sum   3406.2  384.80    0.00  0e+00"
    run = one(tmp_path, f"{row}     3.78  346751.32    0.00  0e+00\n# Avg bus bandwidth    : 0\n")
    assert (run.ranks, run.ranks_from) == (1, "factor")


def test_sum_with_unchecked_in_place_half_has_no_collective(tmp_path: Path) -> None:
    """sendrecv_perf of some releases: ``sum``, and N/A in-place."""
    half = "    89478    12.00   12.00"
    row = f"  1073741824     268435456     float     sum      -1{half}      0{half}"
    devices = "\n".join(tables.device_lines(2, 2))
    assert one(tmp_path, f"{devices}\n{row}    N/A\n").collective == ""
    assert one(tmp_path, f"{devices}\n{row}      0\n").collective == "all_reduce"


def test_an_error_beyond_rounding_is_wrong(tmp_path: Path) -> None:
    points = [Point(size=GIB, algbw=100.0, wrong="3e-01")]
    assert one(tmp_path, tables.log(era="2.9", rows=points)).wrong == 1
    points = [Point(size=GIB, algbw=100.0, wrong="3e+02")]
    assert one(tmp_path, tables.log(era="2.9", rows=points)).wrong == 1
    points = [Point(size=GIB, algbw=100.0, wrong="5e-07")]
    assert one(tmp_path, tables.log(era="2.9", rows=points)).wrong == 0


@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        ("[1,0]<stdout>:", "mpirun --tag-output"),
        ("0: ", "srun -l"),
        ("[pod/bench-launcher-0/launcher] ", "kubectl logs --prefix"),
        ("2026-03-01T10:00:00.123456789Z stdout F ", "the kubelet"),
        ("2026-03-01T10:00:00.123Z ", "kubectl logs --timestamps"),
        ("\x1b[32m", "a colour"),
        ("> ", "a quoted thread"),
    ],
)
def test_prefixes(tmp_path: Path, prefix: str, why: str) -> None:
    plain = one(tmp_path, tables.log(started=True), "plain.log")
    text = "".join(prefix + line + "\n" for line in tables.log(started=True).splitlines())
    run = one(tmp_path, text, "prefixed.log")
    assert [(r.size, r.out_of_place, r.in_place) for r in run.rows] == [
        (r.size, r.out_of_place, r.in_place) for r in plain.rows
    ], why
    assert (run.ranks, run.nodes, run.complete) == (16, 2, True)


def test_crlf_and_gzip(tmp_path: Path) -> None:
    text = tables.log(started=True).replace("\n", "\r\n").encode()
    assert len(one(tmp_path, text).rows) == 29
    assert len(one(tmp_path, gzip.compress(text), "run.log.gz").rows) == 29


def test_a_damaged_archive_gives_what_came_before(tmp_path: Path) -> None:
    whole = gzip.compress(tables.log(started=True).encode() * 40, 1)
    assert len(runs(tmp_path, whole[: len(whole) - 20], "cut.gz")) >= 1


def test_several_runs_in_a_file(tmp_path: Path) -> None:
    text = "".join(
        tables.log(name, rows=tables.points(MIB, GIB), started=True)
        for name in ("all_reduce", "all_gather", "alltoall")
    )
    result = runs(tmp_path, text)
    assert [run.collective for run in result] == ["all_reduce", "all_gather", "alltoall"]
    assert [len(run.rows) for run in result] == [11, 11, 11]
    assert all(run.complete and run.ranks == 16 for run in result)
    assert result[1].line > result[0].line


def test_several_runs_without_the_starting_lines(tmp_path: Path) -> None:
    text = tables.log(rows=tables.points(MIB, GIB)) * 3
    assert [len(run.rows) for run in runs(tmp_path, text)] == [11, 11, 11]


def test_a_loop_prints_the_header_again(tmp_path: Path) -> None:
    """``-N 0``: one start, then table after table."""
    first = tables.log(rows=tables.points(MIB, GIB), closing=False)
    again = "#\n" + "\n".join(
        [
            *tables.HEADERS["2.13"],
            *(tables.row("all_reduce", 16, p) for p in tables.points(MIB, GIB)),
        ]
    )
    result = runs(tmp_path, first + again + "\n")
    assert [len(run.rows) for run in result] == [11, 11]
    assert result[1].ranks == 16


def test_nccl_lines_in_the_middle_of_a_row(tmp_path: Path) -> None:
    """A row's head is printed before the kernels run, its figures after."""
    lines = tables.log(rows=tables.points(MIB, 8 * MIB), started=True).splitlines()
    index = next(i for i, line in enumerate(lines) if line.lstrip().startswith("1048576"))
    head, figures = lines[index][:57], lines[index][57:]
    noise = "node-0:1000:1044 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
    for middle in (
        [head + noise, figures],
        [head, noise, noise, figures],
        [head + noise + figures],
    ):
        text = "\n".join([*lines[:index], *middle, *lines[index + 1 :]])
        run = one(tmp_path, text)
        assert [row.size for row in run.rows][-3:] == [2 * MIB, 4 * MIB, 8 * MIB]
        if len(middle) > 1:
            assert run.rows[0].size == MIB
            assert run.rows[0].out_of_place is not None


def test_a_rank_written_before_every_write(tmp_path: Path) -> None:
    """Hydra's `-prepend-rank` puts it inside lines too (NVIDIA/nccl#1453)."""
    row = (
        "[0]      1048576        262144     float     sum      -1"
        "[0]    1626.5    0.64    1.24      0[0]    2302.3    0.46    0.87      0\n"
    )
    run = one(tmp_path, row)
    assert run.rows[0].size == MIB
    assert run.rows[0].in_place is not None
    assert run.rows[0].in_place.busbw == 0.87


def test_a_cut_table_has_no_closing(tmp_path: Path) -> None:
    run = one(tmp_path, tables.log(closing=False))
    assert not run.complete
    assert run.out_of_bounds is None
    assert run.average is None


def test_a_pasted_table_tells_its_ranks_by_the_factor(tmp_path: Path) -> None:
    text = tables.log(devices=False, ranks=24, rows=tables.points(GIB, 8 * GIB))
    run = one(tmp_path, text)
    assert (run.collective, run.collective_from) == ("all_reduce", "factor")
    assert (run.ranks, run.ranks_from) == (24, "factor")
    assert run.nodes is None


def test_the_factor_tells_no_rank_count_that_it_cannot(tmp_path: Path) -> None:
    """Rounding leaves more than one candidate at thousands of ranks."""
    text = tables.log(devices=False, ranks=4096, rows=tables.points(GIB, 2 * GIB))
    assert one(tmp_path, text).ranks is None


def test_cut_device_lines_leave_the_count_to_others(tmp_path: Path) -> None:
    text = tables.log(ranks=16).splitlines()
    kept = [line for line in text if "Rank" not in line or "Rank 15" in line]
    run = one(tmp_path, "\n".join(kept))
    assert (run.ranks, run.ranks_from) == (16, "factor")
    comm = "n:1:2 [0] NCCL INFO comm 0x1 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0"
    run = one(tmp_path, "\n".join([comm, *kept]))
    assert (run.ranks, run.ranks_from, run.nodes) == (16, "nccl", 2)


def test_groups_are_communicators(tmp_path: Path) -> None:
    """NCCL_TESTS_SPLIT makes each colour a communicator of its own, and the factor is of one."""
    lines = [
        f"#  Rank {rank:2d} Group {rank % 2:2d} Pid {rank:6d} on node-{rank // 4} device 0 [0x01] X"
        for rank in range(8)
    ]
    text = "\n".join(
        ["# Using devices", *lines, tables.row("all_reduce", 4, Point(size=GIB, algbw=9))]
    )
    run = one(tmp_path, text)
    assert (run.ranks, run.nodes) == (4, 2)


def test_built_without_mpi(tmp_path: Path) -> None:
    config = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
    device = "#   Rank  0 Pid   {pid} on  {host} device  0 [0x00] Tesla V100\n"
    text = config * 2 + device.format(pid=11, host="a") + device.format(pid=12, host="b")
    run = one(tmp_path, text)
    assert run.without_mpi
    assert run.ranks == 1


def test_validation_off(tmp_path: Path) -> None:
    points = [Point(size=GIB, algbw=100.0, wrong="N/A")]
    run = one(tmp_path, tables.log(rows=points).replace("validation: 1", "validation: 0"))
    assert run.checked is False
    assert run.wrong is None


def test_a_timestamp_column(tmp_path: Path) -> None:
    text = tables.log(rows=[Point(size=GIB, algbw=100.0)])
    text = text.replace("      0\n", "      0  2026-03-01 10:00:00\n")
    assert one(tmp_path, text).rows[0].in_place is not None


def test_in_place_not_available(tmp_path: Path) -> None:
    """`alltoall` and others have had no in-place half."""
    row = (
        "  1073741824      16777216     float    none      -1"
        "    12000   89.48   83.89      0      N/A     N/A     N/A    N/A"
    )
    run = one(tmp_path, row)
    assert run.rows[0].in_place is None
    assert run.rows[0].out_of_place is not None
    assert run.rows[0].out_of_place.busbw == 83.89


def test_figures_too_wide_for_their_column(tmp_path: Path) -> None:
    half = "  1.2e+07    0.09    0.17      0"
    row = f"  1073741824     268435456     float     sum      -1{half}{half}"
    run = one(tmp_path, row)
    assert run.rows[0].out_of_place is not None
    assert run.rows[0].out_of_place.time == 1.2e7


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("all_reduce.log", "all_reduce"),
        ("nccl-allgather-16n.txt", "all_gather"),
        ("alltoall_perf.out", "alltoall"),
        ("reduce-scatter.log", "reduce_scatter"),
        ("all_reduce-and-all_gather.log", ""),
        ("run-4711.log", ""),
    ],
)
def test_the_files_name_may_tell_the_collective(name: str, collective: str) -> None:
    assert named_in(name) == collective


def test_a_training_log_has_no_runs(tmp_path: Path) -> None:
    text = "step 100 loss 0.41 12 13 float\n1 2 3 4 5 6 7 8\nepoch 3 | 12000 12 ms\n" * 50
    assert runs(tmp_path, text) == []


def test_ranks_of_is_exact_or_nothing() -> None:
    assert ranks_of([(1.8749, 1.8751)], "2(n-1)/n") == 16
    assert ranks_of([(1.99, 1.995)], "2(n-1)/n") is None
    assert ranks_of([(0.9374, 0.9376)], "(n-1)/n") == 16
    assert ranks_of([(1.0, 1.0)], "1") is None
    assert ranks_of([], "(n-1)/n") is None
    assert ranks_of([(2.5, 2.6)], "2(n-1)/n") is None


def test_intervals_hold_the_true_factor(tmp_path: Path) -> None:
    run = one(tmp_path, tables.log())
    assert all(low <= 1.875 <= high for low, high in intervals(run))


def test_machine_types_are_found_as_words() -> None:
    pattern = machine_names(["p5.48xlarge", "p5en.48xlarge"])
    assert pattern is not None
    assert pattern.search(b"NET/OFI Running on p5en.48xlarge, enabling") is not None
    assert pattern.search(b"type=p5.48xlarge.") is not None
    assert pattern.search(b"xp5.48xlarge") is None
    assert machine_names([]) is None


# -- JSON -----------------------------------------------------------------------------------------


def document(**over: object) -> dict[str, object]:
    """Return what ``jsonOutputInit`` and the writers after it write for two ranks on two hosts."""
    half = {"time": 6426.3, "alg_bw": 167.09, "bus_bw": 167.09, "nwrong": 0.0}
    return {
        "version": 3,
        "start_time": "2026-03-01 10:00:00",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-J", "out.json"],
        "env": ["A=B"],
        "nccl_version": 23004,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "validation": 1,
            "blocking_collectives": "false",
            "devices": [
                {"rank": rank, "group": 0, "pid": 7, "hostname": f"n{rank}", "device": 0}
                for rank in range(2)
            ],
        },
        "results": [
            {
                "size": GIB,
                "count": GIB // 4,
                "type": "float",
                "redop": "sum",
                "root": "    -1",
                "out_of_place": half,
                "in_place": half,
                "actual_iterations": 20,
                "experiment_name": "x",
            }
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 167.09, "okay": "unchecked"},
        "end_time": "2026-03-01 10:00:09",
        "errors": [""],
        **over,
    }


def test_json(tmp_path: Path) -> None:
    run = one(tmp_path, json.dumps(document()), "out.json")
    assert (run.collective, run.ranks, run.nodes, run.nccl) == ("all_reduce", 2, 2, "2.30.4")
    assert (run.complete, run.checked, run.wrong, run.average) == (True, True, 0, 167.09)
    assert run.rows[0].root == -1
    assert run.rows[0].out_of_place is not None
    assert run.rows[0].out_of_place.time == 6426.3


def test_json_of_a_run_that_missed_its_minimum(tmp_path: Path) -> None:
    text = json.dumps(document(average_bus_bandwidth={"bandwidth": 3.0, "okay": "false"}))
    assert one(tmp_path, text).average_failed


def test_json_with_nothing_checked_and_no_out_of_place(tmp_path: Path) -> None:
    half = {"cpu_time": 10.0, "alg_bw": 1.0, "bus_bw": "nan", "nwrong": None}
    good = {"cpu_time": 10.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": None}
    row = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "-1"}
    results = [{**row, "out_of_place": None, "in_place": good}, {**row, "out_of_place": half}]
    run = one(tmp_path, json.dumps(document(results=results)))
    assert run.cpu_time
    assert run.rows[0].out_of_place is None
    assert run.rows[0].in_place is not None
    assert run.rows[0].in_place.wrong is None
    assert run.rows[1].halves == ()


def test_json_cut_by_a_kill(tmp_path: Path) -> None:
    results = document()["results"]
    assert isinstance(results, list)
    text = json.dumps(document(results=results * 3))
    cut = text[: text.rfind('"out_of_bounds"') - 100]
    run = one(tmp_path, cut)
    assert [len(row.halves) for row in run.rows] == [2, 2, 1]
    assert not run.complete
    assert run.ranks == 2


def test_json_documents_one_after_the_other(tmp_path: Path) -> None:
    text = json.dumps(document()) + "\n" + json.dumps(document())
    assert len(runs(tmp_path, text)) == 2


def test_a_collectors_json_lines_are_lines(tmp_path: Path) -> None:
    text = "".join(
        json.dumps({"log": line + "\n", "stream": "stdout"}) + "\n"
        for line in tables.log(started=True).splitlines()
    )
    run = one(tmp_path, text)
    assert (len(run.rows), run.ranks, run.complete) == (29, 16, True)


@pytest.mark.parametrize(
    "text", ["{}", '{"results": 3}', '{"a": [1, 2', "{" * 5000, '{"results": [']
)
def test_other_json_is_not_output(tmp_path: Path, text: str) -> None:
    assert runs(tmp_path, text) == []
