"""Formulas, correctness, the line rate, and gates that fail closed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from railhead import machines
from railhead.base.errors import NotFoundError
from railhead.machines import Measurement
from railhead.nccl.bench import judge as judging
from railhead.nccl.bench.collectives import COLLECTIVES
from railhead.nccl.bench.judge import Judged, judge
from railhead.nccl.bench.parse import read_runs
from railhead.nccl.bench.report import Gate, status, to_json
from tests.unit.nccl_bench import tables
from tests.unit.nccl_bench.tables import GIB, MIB, Point


def judged(tmp_path: Path, text: str, kind: str | None = None, nodes: int | None = None) -> Judged:
    path = tmp_path / "run.log"
    path.write_text(text)
    (run,) = read_runs([path])
    return judge(run, instance_type=kind, nodes=nodes)


def ids(one: Judged) -> set[str]:
    return {note.id for note in one.notes}


def single(algbw: float, collective: str = "all_reduce", **more: object) -> str:
    rows = [Point(size=4 * GIB, algbw=algbw)]
    return tables.log(collective, rows=rows, started=True, **more)  # type: ignore[arg-type]


# -- the factor -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 16, 1.875),
        ("all_gather", 16, 0.9375),
        ("reduce_scatter", 8, 0.875),
        ("alltoall", 64, 0.984375),
        ("gather", 4, 0.75),
        ("scatter", 4, 0.75),
        ("broadcast", 16, 1.0),
        ("reduce", 16, 1.0),
        ("sendrecv", 16, 1.0),
        ("hypercube", 16, 1.0),
    ],
)
def test_factors(tmp_path: Path, collective: str, ranks: int, factor: float) -> None:
    item = judged(tmp_path, tables.log(collective, ranks=ranks, nodes=2, started=True))
    assert item.factor == pytest.approx(factor)
    assert item.factor_ok
    assert not {"factor", "clock"} & ids(item)


def test_factor_of_another_rank_count_is_reported(tmp_path: Path) -> None:
    eight = tables.log(ranks=8, started=True, devices=False).splitlines()
    item = judged(tmp_path, "\n".join([*eight[:4], *tables.device_lines(16, 2), *eight[4:]]))
    assert item.run.ranks == 16
    assert item.factor_ok is False
    assert "factor" in ids(item)


def test_edited_figures_are_reported(tmp_path: Path) -> None:
    row = "  4294967296    1073741824     float     sum      -1    20000  400.00  400.00      0"
    assert "clock" in ids(
        judged(tmp_path, tables.log(ranks=2, rows=[]).replace("# Out", f"{row}\n# Out"))
    )


def test_busbw_below_algbw_is_not_all_reduce(tmp_path: Path) -> None:
    row = " 17179869184    4294967296     float     sum      -1  18285.0  939.58  936.93      0"
    text = f"# Collective test starting: all_reduce_perf\n{row}\n# Out of bounds values : 0 OK\n"
    assert "busbw-below-algbw" in ids(judged(tmp_path, text))


# -- correctness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["2.13", "2.19i"])
def test_wrong_values_never_pass(tmp_path: Path, machine: str, era: str) -> None:
    rows = [Point(size=4 * GIB, algbw=240.0, wrong="128")]
    item = judged(tmp_path, tables.log(rows=rows, era=era), machine)
    assert item.bad
    assert status(item, Gate())[0] == "fail"
    assert status(item, Gate(min_busbw=1))[0] == "fail"


def test_out_of_bounds_alone_never_passes(tmp_path: Path) -> None:
    item = judged(tmp_path, tables.log(out_of_bounds=7))
    assert "wrong-values" in ids(item)
    assert status(item, Gate())[0] == "fail"


def test_one_rank_never_passes(tmp_path: Path) -> None:
    item = judged(tmp_path, tables.log(ranks=1, nodes=1, rows=[Point(size=GIB, algbw=500.0)]))
    assert "one-rank" in ids(item)
    assert status(item, Gate())[0] == "fail"


def test_without_mpi_never_passes(tmp_path: Path) -> None:
    device = "#   Rank  0 Pid   {pid} on  {host} device  0 [0x00] Tesla V100\n"
    text = device.format(pid=1, host="a") + device.format(pid=2, host="b")
    row = tables.row("all_reduce", 2, Point(size=GIB, algbw=9.0))
    item = judged(tmp_path, f"{text}{row}\n# Out of bounds values : 0 OK\n")
    assert "without-mpi" in ids(item)
    assert "one-rank" not in ids(item)
    assert status(item, Gate(min_busbw=0.1))[0] == "fail"


def test_the_programs_own_minimum(tmp_path: Path) -> None:
    text = single(100.0).replace("52.9 ", "52.9 FAILED")
    assert status(judged(tmp_path, text), Gate())[0] == "fail"


def test_no_rows_never_pass(tmp_path: Path) -> None:
    assert status(judged(tmp_path, tables.log(rows=[], closing=False)), Gate())[0] == "fail"


def test_missing_validation_is_reported(tmp_path: Path) -> None:
    rows = [Point(size=GIB, algbw=100.0, wrong="N/A")]
    item = judged(tmp_path, tables.log(rows=rows).replace("validation: 1", "validation: 0"))
    assert "not-checked" in ids(item)
    assert status(item, Gate())[0] == "read"


# -- the line rate --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collective", "nodes", "algbw", "wire"),
    [
        # Two nodes: an all_reduce carries algbw over the wire, whatever busbw says.
        ("all_reduce", 2, 233.5, 233.5),
        ("all_reduce", 8, 200.0, 350.0),
        ("all_gather", 2, 402.0, 201.0),
        ("reduce_scatter", 4, 400.0, 300.0),
        ("alltoall", 2, 40.0, 160.0),
        ("broadcast", 2, 100.0, 100.0),
        ("sendrecv", 2, 48.0, 48.0),
        ("gather", 4, 100.0, 75.0),
    ],
)
def test_rate_on_the_wire(
    tmp_path: Path, machine: str, collective: str, nodes: int, algbw: float, wire: float
) -> None:
    item = judged(tmp_path, single(algbw, collective, ranks=8 * nodes, nodes=nodes), machine)
    assert item.line is not None
    assert item.line.rate == 400
    assert item.line.wire == pytest.approx(wire, rel=1e-3)
    assert item.line.fraction == pytest.approx(wire / 400, rel=1e-3)
    assert item.line.bound == pytest.approx(400 * algbw / wire, rel=1e-3)


def test_every_bound_holds_for_two_nodes_and_up() -> None:
    for collective in COLLECTIVES.values():
        if collective.wire is not None:
            shares = [collective.wire(nodes, 8) for nodes in range(2, 64)]
            assert all(after >= before for before, after in pairwise(shares))


@pytest.mark.parametrize(
    ("text", "kind", "nodes", "said"),
    [
        (single(400.0, ranks=8, nodes=1), True, None, "one node"),
        (tables.log(rows=tables.points(8, 64 * MIB)), True, None, "no size of 1 GiB"),
        (single(200.0), False, None, "give --instance-type"),
        (single(200.0, devices=False), True, None, "how many nodes"),
        (single(9.0, "hypercube"), True, None, "no bound is known"),
    ],
)
def test_no_line_rate_says_why(
    tmp_path: Path, machine: str, text: str, kind: bool, nodes: int | None, said: str
) -> None:
    item = judged(tmp_path, text, machine if kind else None, nodes)
    assert item.line is None
    (why,) = [note.text for note in item.notes if note.id == "no-line-rate"]
    assert said in why


def test_ranks_that_do_not_fill_the_nodes(tmp_path: Path, machine: str) -> None:
    item = judged(tmp_path, single(200.0, ranks=8, nodes=2, devices=False), machine, nodes=2)
    assert "ranks-and-nodes" in ids(item)
    assert "ranks-and-nodes" not in ids(judged(tmp_path, single(200.0), machine))


def test_a_machine_without_a_rate(tmp_path: Path) -> None:
    item = judged(tmp_path, single(200.0), "lab.8gpu")
    assert item.line is None
    assert any("no nominal rate" in note.text for note in item.notes)


def test_an_unknown_machine_is_refused(tmp_path: Path, machine: str) -> None:
    with pytest.raises(NotFoundError, match=r"did you mean 'test\.8x400'"):
        judged(tmp_path, single(200.0), "test.8x40")


def test_the_logs_own_hint_names_the_machine(tmp_path: Path, machine: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"n:1:1 [0] NCCL INFO NET/OFI Running on {machine}\n" + single(200.0))
    (run,) = read_runs([path], [machine, "other"])
    assert judge(run).line is not None


def test_contradictory_hints_are_ignored(tmp_path: Path, machine: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"Running on {machine} or lab.8gpu\n" + single(200.0))
    (run,) = read_runs([path], [machine, "lab.8gpu"])
    item = judge(run)
    assert item.line is None
    assert any("names test.8x400, lab.8gpu" in note.text for note in item.notes)


@pytest.mark.parametrize(
    ("algbw", "note"),
    [(20.0, "tcp-like"), (150.0, "low"), (300.0, "line-rate"), (600.0, "above-the-line-rate")],
)
def test_fractions(tmp_path: Path, machine: str, algbw: float, note: str) -> None:
    assert note in ids(judged(tmp_path, single(algbw), machine))


@pytest.mark.parametrize(
    ("algbw", "note", "level"),
    [
        (230.0, "near-published", "note"),
        (180.0, "below-published", "note"),
        (60.0, "below-published", "warn"),
    ],
)
def test_published_figures_come_before_fractions(
    tmp_path: Path,
    machine: str,
    monkeypatch: pytest.MonkeyPatch,
    algbw: float,
    note: str,
    level: str,
) -> None:
    publish(monkeypatch, machine)
    item = judged(tmp_path, single(algbw), machine)
    assert {entry.id: entry.level for entry in item.notes}[note] == level
    assert not {"low", "tcp-like", "line-rate"} & ids(item)
    assert [(row.busbw, row.size) for row in item.published] == [(437.8, 2 * GIB)]
    assert item.published[0].measured == pytest.approx(algbw * 1.875, rel=1e-3)


def publish(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    figure = Measurement(
        collective="all_reduce",
        nodes=2,
        size_bytes=2 * GIB,
        busbw=437.8,
        transport="network",
        source="a page",
    )
    others = (
        replace(figure, nodes=4),
        replace(figure, collective="all_gather"),
        replace(figure, transport="nvlink"),
        replace(figure, size_bytes=64 * GIB),
    )
    kind = replace(machines.MACHINES[name], published=(*others, figure))
    monkeypatch.setattr(machines, "MACHINES", {**machines.MACHINES, name: kind})


def test_published_figures_compare_the_same_size(
    tmp_path: Path, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, machine)
    rows = [Point(size=2 * GIB, algbw=100.0), Point(size=4 * GIB, algbw=200.0)]
    item = judged(tmp_path, tables.log(rows=rows, started=True), machine)
    assert item.published[0].measured == pytest.approx(187.5)
    item = judged(tmp_path, tables.log(rows=rows[:0] + tables.points(8, GIB)), machine)
    assert item.published == ()


def test_nvlink_domain_of_several_nodes_is_not_a_network(
    tmp_path: Path, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = replace(machines.MACHINES[machine], gpus=4, nvlink_domain=72)
    monkeypatch.setattr(machines, "MACHINES", {**machines.MACHINES, machine: kind})
    item = judged(tmp_path, single(400.0, ranks=72, nodes=18), machine)
    assert item.line is None
    assert any("NVLink spans 72 GPUs" in note.text for note in item.notes)
    item = judged(tmp_path, single(200.0, ranks=144, nodes=36), machine)
    assert item.line is not None
    assert (item.line.unit, item.line.rate) == (18, 7200)
    assert item.line.wire == pytest.approx(200, rel=1e-3)
    item = judged(tmp_path, single(200.0, ranks=80, nodes=20), machine)
    assert item.line is None
    assert any("no whole number of NVLink domains" in note.text for note in item.notes)


def test_a_published_run_of_the_catalogue(tmp_path: Path) -> None:
    """The figures of the catalogue keep to the bound of their own line rate."""
    checked = 0
    for kind in machines.MACHINES.values():
        for figure in kind.published:
            collective = COLLECTIVES[figure.collective]
            if figure.transport != "network" or figure.nodes < 2 or not kind.line_rate_gbps:
                continue
            assert collective.factor is not None
            assert collective.wire is not None
            algbw = figure.busbw / collective.factor(figure.nodes * kind.gpus)
            unit = max(1, kind.nvlink_domain // kind.gpus)
            wire = algbw * collective.wire(figure.nodes // unit, kind.gpus * unit)
            assert wire <= kind.line_rate_gbps / 8 * unit * judging.OVER, (kind.name, figure)
            checked += 1
    assert checked


# -- gates ----------------------------------------------------------------------------------------


def test_a_gate_that_is_met(tmp_path: Path, machine: str) -> None:
    item = judged(tmp_path, single(233.5), machine)
    assert status(item, Gate(min_busbw=400, min_fraction=0.5)) == ("pass", [])
    assert to_json([item], Gate(min_busbw=400))["status"] == "pass"


@pytest.mark.parametrize(
    ("text", "gate", "said"),
    [
        (single(233.5), Gate(min_busbw=450), "less than 450"),
        (single(100.0), Gate(min_fraction=0.5), "25.0% of the line rate"),
        (single(900.0), Gate(min_fraction=0.5), "were not the path"),
        (single(233.5, closing=False), Gate(min_busbw=1), "closing lines"),
        (tables.log(rows=tables.points(8, 64 * MIB)), Gate(min_busbw=0.001), "no size of 1 GiB"),
        (single(400.0, ranks=8, nodes=1), Gate(min_fraction=0.1), "line rate is not known"),
        (single(9.0, "broadcast", devices=False), Gate(min_busbw=1), "how many ranks"),
    ],
)
def test_gates_fail_closed(tmp_path: Path, machine: str, text: str, gate: Gate, said: str) -> None:
    result, reasons = status(judged(tmp_path, text, machine), gate)
    assert result == "fail"
    assert any(said in reason for reason in reasons)


def test_either_half_must_reach_the_gate(tmp_path: Path, machine: str) -> None:
    rows = [Point(size=4 * GIB, algbw=233.5, in_algbw=50.0)]
    _, reasons = status(judged(tmp_path, tables.log(rows=rows), machine), Gate(min_busbw=400))
    assert len(reasons) == 1
    assert "in-place" in reasons[0]


def test_smaller_sizes_on_request(tmp_path: Path) -> None:
    item = judged(tmp_path, tables.log(rows=tables.points(8, 64 * MIB)))
    assert status(item, Gate(min_busbw=1, min_size=32 * MIB))[0] == "pass"
