"""NVIDIA's nccl-tests as jobs of an MPI runtime: how they are started, what they told. Pure.

One job a program: two programs of one mpirun would both initialise MPI as the same ranks.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from railhead.accept.check import Statement
from railhead.accept.model import Verdict
from railhead.accept.traffic import LINE, Point, Tests
from railhead.contract import ClusterContract, NodePool, Runtime
from railhead.nccl import ranks as proof
from railhead.nccl.bench.collectives import COLLECTIVES
from railhead.nccl.bench.model import BenchRun, Row
from railhead.nccl.bench.parse import runs_of
from railhead.nccl.sources import Source

PROGRAM = "nccl_tests.py"
_LAUNCHER = "mpirun"
_NEAR = 0.02
_AGAIN = "the job's lines are in the report's evidence; mend what they say and run it again"


def runtime(contract: ClusterContract, pool: NodePool) -> Runtime | None:
    """Return the runtime of the pool whose jobs mpirun starts."""
    mine = (item for item in contract.runtimes if item.pool == pool.name)
    return next((item for item in mine if item.launcher == _LAUNCHER), None)


def words(collective: str, *, least: int, most: int, repeats: int, warmup: int) -> list[str]:
    """Return a job's command: sizes by fours, every result looked at (src/common.cu of v2.19.6)."""
    sizes = ["-b", str(least), "-e", str(most), "-f", "4", "-g", "1", "-c", "1"]
    return [PROGRAM, collective, *sizes, "-n", str(repeats), "-w", str(warmup)]


def gathered(lines: Iterable[str], **asked: Any) -> Tests:
    """Return the lines of all of a job's pods, sorted out.

    Raises:
        ValueError: a line of the program's cannot be read.
    """
    log: list[str] = []
    rest: list[str] = []
    reported: dict[str, Any] = {}
    for text in lines:
        if message := LINE.search(text):
            reported = {
                key: value for key, value in json.loads(message[1]).items() if key != "kind"
            }
        else:
            (log if proof.is_nccl(text) else rest).append(text)
    return Tests(**asked, **reported, log=tuple(log), rest=tuple(rest))


def run(tests: Tests) -> BenchRun:
    """Return the one table that a job printed, whole.

    Raises:
        ValueError: there is no table, or another than was asked for.
    """
    data = "\n".join(tests.rest).encode()
    source = Source(name=tests.collective, open=lambda: io.BytesIO(data), size=len(data))
    result = runs_of(source)
    if len(result) != 1:
        raise ValueError(f"it printed {len(result)} tables")
    (item,) = result
    if item.collective != tests.collective:
        raise ValueError(f"its table is of {item.collective}")
    if not item.complete or item.largest is None or item.dropped:
        raise ValueError("its table is cut off")
    if len({device.rank for device in item.devices}) != tests.ranks or item.ranks != tests.ranks:
        raise ValueError(
            f"its table is of {item.ranks} ranks, of {tests.ranks} that were asked for"
        )
    hosts = {device.host for device in item.devices}
    if len(hosts) != len(tests.machines):
        raise ValueError(f"its ranks are on {len(hosts)} hosts, of {len(tests.machines)}")
    if item.wrong is None:
        raise ValueError("its results were not looked at")
    if bad := next(
        (row.size for row in item.rows if not _agrees(row, item.collective, tests)), None
    ):
        raise ValueError(f"its figures of {bad} bytes contradict each other")
    return item


def _agrees(row: Row, collective: str, tests: Tests) -> bool:
    """Return whether time, algbw and busbw are one measurement."""
    kind = COLLECTIVES[collective]
    if kind.factor is None or kind.base is None:
        return False
    for _, half in row.halves:
        algbw = row.size * kind.base(tests.ranks) / half.time / 1e3
        busbw = half.algbw * kind.factor(tests.ranks)
        rounding = half.algbw_step + half.busbw_step
        for item, made in ((half.algbw, algbw), (half.busbw, busbw)):
            if abs(item - made) > _NEAR * made + rounding:
                return False
    return True


def verdicts(
    tests: Sequence[Tests],
    *,
    machines: Sequence[str],
    proofs: Sequence[str],
    gpudirect: str | None,
) -> Iterator[Statement]:
    """Yield the faults of the jobs; nothing where the image has no program.

    Args:
        tests: a job each.
        machines: the nodes that were asked for.
        proofs: the contract's.
        gpudirect: the contract's.
    """
    for test in tests:
        who = f"nccl-tests' {test.collective}_perf"
        if test.phase != "completed" or test.status is None:
            yield _unproven(f"{who}: the job is {test.phase}: {test.detail or 'no end is known'}")
            continue
        if not test.program:
            continue
        if test.status:
            yield _unproven(f"{who} ended with {test.status}")
        if sorted(test.machines) != sorted(machines):
            yield _unproven(
                f"{who} ran on {', '.join(test.machines) or 'no machine that is known'}"
            )
        shown = proof.judge({0: test.log}, processes=test.ranks, proofs=proofs, gpudirect=gpudirect)
        if shown.verdict is not Verdict.PASSED:
            yield Statement(verdict=shown.verdict, text=f"{who}: {shown.text}", remedy=_AGAIN)
        try:
            wrong = run(test).wrong
        except ValueError as error:
            yield _unproven(f"{who}: {error}")
            continue
        if wrong:
            yield Statement(
                verdict=Verdict.FAILED,
                text=f"{who}: {wrong} values were wrong: data was corrupted on the way",
                remedy="do not train on this cluster; find the node by halving --nodes",
            )


def points(tests: Sequence[Tests]) -> Mapping[str, Point]:
    """Return the largest size of every table that can be read, by collective; out of place."""
    results = {}
    for test in tests:
        try:
            row = run(test).largest
        except ValueError:
            continue
        if row is not None and row.best is not None:
            results[test.collective] = Point(
                collective=test.collective,
                size=row.size,
                seconds=row.best.time / 1e6,
                spread=1,
                algbw=row.best.algbw,
                busbw=row.best.busbw,
            )
    return results


def used(tests: Sequence[Tests], why: str) -> str:
    """Return whether nccl-tests were used, in words; ``why`` they could not be."""
    if why:
        return f"nccl-tests were not used: {why}; the collectives are PyTorch's"
    if not any(test.program for test in tests):
        return "nccl-tests are not in the image of the MPI runtime; the collectives are PyTorch's"
    paths = sorted({test.program for test in tests if test.program})
    return f"nccl-tests were used, beside PyTorch's collectives: {', '.join(paths)}"


def _unproven(text: str) -> Statement:
    return Statement(verdict=Verdict.NOT_PROVEN, text=text, remedy=_AGAIN)
