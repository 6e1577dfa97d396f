"""nccl-tests as jobs: the program that starts them, and what their tables and logs prove."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from railhead.accept import nccltests, traffic
from railhead.accept.checks import rdma
from railhead.accept.model import Result, Verdict
from railhead.accept.programs import nccl_tests as program
from railhead.accept.site import Facts, Testbed
from railhead.base.errors import RailheadError
from railhead.nccl.bench.collectives import COLLECTIVES
from tests.unit.accept import test_rdma as torch
from tests.unit.nccl_bench import tables

WORLD = torch.WORLD
SIZES = (tables.GIB, 4 * tables.GIB)
PROGRAM = "/opt/nccl-tests/build/{}_perf"


def table(collective: str, part: float = 0.9, **fields: Any) -> str:
    """Return the program's output where NICs carry a part of their rate."""
    wire = COLLECTIVES[collective].wire
    assert wire is not None
    base = COLLECTIVES[collective].base
    assert base is not None
    algbw = torch.RATE * part / wire(torch.NODES, torch.EACH)
    rows = [tables.Point(size=size, algbw=algbw) for size in SIZES]
    return tables.log(collective, ranks=WORLD, nodes=torch.NODES, rows=rows, **fields)


def log(name: str = "365-roce-ok-gid-index-3-set.log") -> list[str]:
    return [
        line.partition("]:")[2]
        for rank in range(WORLD)
        for line in torch.log(name, rank // torch.EACH, 100 + rank)
    ]


def told(program: str, status: int = 0) -> str:
    return f"rdma: {json.dumps({'kind': 'tests', 'program': program, 'status': status})}"


def job_of(collective: str, lines: Sequence[str], **fields: Any) -> traffic.Tests:
    asked = {"phase": "completed", "detail": "", "machines": torch.ASKED["machines"]}
    return nccltests.gathered(lines, collective=collective, ranks=WORLD, **(asked | fields))


def whole(collective: str, **fields: Any) -> list[str]:
    end = told(PROGRAM.format(collective))
    return [*log(), *table(collective, **fields).splitlines(), end]


EVIDENCE = traffic.gathered(torch.lines(), **torch.ASKED)


def verdict(facts: Facts, *tests: traffic.Tests) -> Result:
    """Return the verdict beside a correct part of PyTorch's."""
    evidence = EVIDENCE.model_copy(update={"tests": tests})
    evidence = traffic.Traffic.model_validate_json(evidence.model_dump_json())
    return rdma.CHECK.judge(evidence, facts)


def test_whole_tables_pass_and_the_report_says_what_was_used(machines: Facts) -> None:
    result = verdict(machines, *(job_of(name, whole(name)) for name in rdma._ALL))
    assert result.verdict is Verdict.PASSED, result.summary
    text = next(item.text for item in result.evidence if item.title == "nccl-tests")
    assert text.startswith("nccl-tests were used")
    assert "/opt/nccl-tests/build/alltoall_perf" in text
    names = {item.name for item in result.measured}
    assert "busbw, nccl-tests, all_reduce of 4 GiB" in names
    assert "busbw, all_reduce of 4 GiB" in names


def cut(lines: list[str]) -> list[str]:
    return [line for line in lines if "Out of bounds" not in line and "Avg bus" not in line]


@pytest.mark.parametrize(
    ("lines", "verdict_", "says"),
    [
        pytest.param(
            [*log(), told(PROGRAM.format("all_reduce"))],
            Verdict.NOT_PROVEN,
            "printed 0 tables",
            id="exit 0 and no table",
        ),
        pytest.param(cut(whole("all_reduce")), Verdict.NOT_PROVEN, "is cut off", id="cut off"),
        pytest.param(whole("all_reduce")[:-1], Verdict.NOT_PROVEN, "no end is known", id="no end"),
        pytest.param(
            whole("all_gather", era="2.13", started=True),
            Verdict.NOT_PROVEN,
            "its table is of all_gather",
            id="another program",
        ),
        pytest.param(
            whole("sendrecv"), Verdict.NOT_PROVEN, "contradict each other", id="other figures"
        ),
        pytest.param(
            [*whole("all_reduce")[:-1], *table("all_reduce").splitlines(), told("x")],
            Verdict.NOT_PROVEN,
            "printed 2 tables",
            id="two tables",
        ),
        pytest.param(
            whole("all_reduce", devices=False), Verdict.NOT_PROVEN, "ranks", id="no ranks"
        ),
        pytest.param(
            whole("all_reduce", out_of_bounds=3),
            Verdict.FAILED,
            "3 values were wrong",
            id="wrong values",
        ),
        pytest.param(whole("all_reduce", part=0.2), Verdict.FAILED, "Too slow", id="too slow"),
        pytest.param(
            whole("all_reduce", part=1.4), Verdict.NOT_PROVEN, "more than the NICs", id="too fast"
        ),
        pytest.param(
            [line for line in whole("all_reduce") if "NCCL INFO" not in line],
            Verdict.NOT_PROVEN,
            "NCCL's log is of 0",
            id="no log",
        ),
        pytest.param(
            [*log("414-tcp-fallback-16-ranks-full.log"), *whole("all_reduce")[len(log()) :]],
            Verdict.FAILED,
            "the transport is TCP",
            id="a log of TCP beside a fast table",
        ),
    ],
)
def test_incomplete_output_never_passes(
    machines: Facts, lines: list[str], verdict_: Verdict, says: str
) -> None:
    result = verdict(machines, job_of("all_reduce", lines))
    assert result.verdict is verdict_, result.summary
    assert says in result.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"phase": "failed", "detail": "exit code 1"},
        {"machines": ("lab-node-0", "lab-node-0")},
        {"machines": ("lab-node-0", "elsewhere")},
    ],
)
def test_a_job_that_is_not_as_asked_is_not_proven(machines: Facts, fields: dict[str, Any]) -> None:
    item = job_of("alltoall", whole("alltoall"), **fields)
    assert verdict(machines, item).verdict is Verdict.NOT_PROVEN


# -- how they are started --------------------------------------------------------------------------


class Queue:
    """Jobs that print what they are given; the names of those that were started."""

    def __init__(self, facts: Facts, lines: dict[str, list[str]]) -> None:
        self.facts, self.lines, self.timeout = facts, lines, 60.0
        self.asked: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        """Refuses every message."""

    @contextmanager
    def job(self, stem: str, **fields: Any) -> Iterator[Any]:
        self.asked.append({"stem": stem, **fields})
        name = stem.removeprefix("nccl-").replace("-", "_")
        if name not in self.lines:
            raise RailheadError("the queue is closed", remedy="open it")
        nodes = [SimpleNamespace(machine=item) for item in torch.ASKED["machines"]]
        state = SimpleNamespace(phase=SimpleNamespace(value="completed"), detail="", nodes=nodes)
        lines = [SimpleNamespace(node=0, text=text) for text in self.lines[name]]
        yield SimpleNamespace(
            name=stem, wait=lambda timeout: state, state=lambda: state, logs=lambda: lines
        )


@pytest.fixture
def mpi(machines: Facts) -> Facts:
    """Return facts with a runtime for mpirun beside PyTorch's."""
    own = machines.runtime.model_copy(update={"name": "mpi", "launcher": "mpirun"})
    runtimes = (*machines.contract.runtimes, own)
    contract = machines.contract.model_copy(update={"runtimes": runtimes})
    return replace(machines, contract=contract)


def asked(site: Queue) -> dict[str, Any]:
    return rdma._tested(cast(Testbed, site), EVIDENCE)


def test_each_program_is_a_job_of_the_mpi_runtime(mpi: Facts) -> None:
    site = Queue(mpi, {name: whole(name) for name in rdma._ALL})
    result = asked(site)["tests"]
    assert [item.program for item in result] == [PROGRAM.format(name) for name in rdma._ALL]
    first = site.asked[0]
    assert (first["stem"], first["runtime"], first["nodes"]) == ("nccl-all-reduce", "mpi", 2)
    assert first["command"][:2] == ["nccl_tests.py", "all_reduce"]
    assert (first["files"], first["env"]["NCCL_DEBUG"]) == (["nccl_tests.py"], "INFO")


def test_the_plan_counts_them(machines: Facts, mpi: Facts) -> None:
    assert rdma.CHECK.plan(mpi).seconds > rdma.CHECK.plan(machines).seconds


def test_an_image_without_them_is_asked_once(mpi: Facts) -> None:
    site = Queue(mpi, {name: [told("")] for name in rdma._ALL})
    match = asked(site)["tests"]
    assert len(match) == len(site.asked) == 1
    result = rdma.CHECK.judge(EVIDENCE.model_copy(update={"tests": match}), mpi)
    assert result.verdict is Verdict.PASSED
    assert any("not in the image of the MPI runtime" in item.text for item in result.evidence)


def test_a_job_that_the_queue_refuses_is_not_proven(mpi: Facts) -> None:
    match = asked(Queue(mpi, {}))["tests"]
    result = rdma.CHECK.judge(EVIDENCE.model_copy(update={"tests": match}), mpi)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "the queue is closed" in result.summary


def test_without_an_mpi_runtime_the_report_says_so(machines: Facts) -> None:
    reported = asked(Queue(machines, {}))
    result = rdma.CHECK.judge(EVIDENCE.model_copy(update=reported), machines)
    assert result.verdict is Verdict.PASSED
    assert any("is started by mpirun" in item.text for item in result.evidence)


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize("status", [0, 3])
def test_program_is_located_run_and_reported_once(tmp_path: Path, rank: str, status: int) -> None:
    own = tmp_path / "all_reduce_perf_mpi"
    own.write_text(f'#!/bin/sh\necho "table $*"\nexit {status}\n')
    own.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-S", program.__file__, "all_reduce", "-b", "8"],
        env={"PATH": f"{tmp_path}:{os.defpath}", "OMPI_COMM_WORLD_RANK": rank},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (1 if status else 0)
    result = job_of("all_reduce", done.stdout.splitlines())
    assert "table -b 8" in result.rest
    end = (str(own), status) if rank == "0" else (None, None)
    assert (result.program, result.status) == end


def test_names_and_folders_of_images(tmp_path: Path) -> None:
    plain = tmp_path / "alltoall_perf"
    plain.write_text("#!/bin/sh\n")
    plain.chmod(0o755)
    assert program.program("alltoall", os.defpath, (str(tmp_path),)) == str(plain)
    assert program.program("sendrecv", os.defpath, (str(tmp_path),)) is None
