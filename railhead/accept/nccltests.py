"""NVIDIA's nccl-tests as jobs of an MPI runtime: how they are started, what they told. Pure.

One job a program: two programs of one mpirun would both initialise MPI as the same ranks.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from railhead.accept.check import Said
from railhead.accept.model import Verdict
from railhead.accept.traffic import LINE, Point, Tests
from railhead.contract import ClusterContract, NodePool, Runtime
from railhead.nccl import ranks as proof
from railhead.nccl.bench.collectives import COLLECTIVES
from railhead.nccl.bench.model import Row, Run
from railhead.nccl.bench.parse import runs_of
from railhead.nccl.sources import Source

PROGRAM = "nccl_tests.py"
_LAUNCHER = "mpirun"
_NEAR = 0.02
_AGAIN = "the job's lines are in the report's evidence; mend what they say and run it again"


def runtime(contract: ClusterContract, pool: NodePool) -> Runtime | None:
    """The runtime of the pool whose jobs mpirun starts."""
    mine = (one for one in contract.runtimes if one.pool == pool.name)
    return next((one for one in mine if one.launcher == _LAUNCHER), None)


def words(collective: str, *, least: int, most: int, repeats: int, warmup: int) -> list[str]:
    """A job's command: sizes by fours, every result looked at (src/common.cu of v2.19.6)."""
    sizes = ["-b", str(least), "-e", str(most), "-f", "4", "-g", "1", "-c", "1"]
    return [PROGRAM, collective, *sizes, "-n", str(repeats), "-w", str(warmup)]


def gathered(lines: Iterable[str], **asked: Any) -> Tests:
    """The lines of all of a job's pods, sorted out.

    Raises:
        ValueError: a line of the program's cannot be read.
    """
    log: list[str] = []
    rest: list[str] = []
    told: dict[str, Any] = {}
    for text in lines:
        if said := LINE.search(text):
            told = {key: value for key, value in json.loads(said[1]).items() if key != "kind"}
        else:
            (log if proof.is_nccl(text) else rest).append(text)
    return Tests(**asked, **told, log=tuple(log), rest=tuple(rest))


def run(tests: Tests) -> Run:
    """The one table that a job printed, whole.

    Raises:
        ValueError: there is none, or it is not what was asked for.
    """
    data = "\n".join(tests.rest).encode()
    source = Source(name=tests.collective, open=lambda: io.BytesIO(data), size=len(data))
    found = runs_of(source)
    if len(found) != 1:
        raise ValueError(f"it printed {len(found)} tables")
    (one,) = found
    if one.collective != tests.collective:
        raise ValueError(f"its table is of {one.collective}")
    if not one.complete or one.largest is None or one.dropped:
        raise ValueError("its table is cut off")
    if len({device.rank for device in one.devices}) != tests.ranks or one.ranks != tests.ranks:
        raise ValueError(f"its table is of {one.ranks} ranks, of {tests.ranks} that were asked for")
    hosts = {device.host for device in one.devices}
    if len(hosts) != len(tests.machines):
        raise ValueError(f"its ranks are on {len(hosts)} hosts, of {len(tests.machines)}")
    if one.wrong is None:
        raise ValueError("its results were not looked at")
    if bad := next((row.size for row in one.rows if not _agrees(row, one.collective, tests)), None):
        raise ValueError(f"its figures of {bad} bytes contradict each other")
    return one


def _agrees(row: Row, collective: str, tests: Tests) -> bool:
    """Whether time, algbw and busbw are one measurement."""
    kind = COLLECTIVES[collective]
    if kind.factor is None or kind.base is None:
        return False
    for _, half in row.halves:
        algbw = row.size * kind.base(tests.ranks) / half.time / 1e3
        busbw = half.algbw * kind.factor(tests.ranks)
        rounding = half.algbw_step + half.busbw_step
        for told, made in ((half.algbw, algbw), (half.busbw, busbw)):
            if abs(told - made) > _NEAR * made + rounding:
                return False
    return True


def verdicts(
    tests: Sequence[Tests],
    *,
    machines: Sequence[str],
    proofs: Sequence[str],
    gpudirect: str | None,
) -> Iterator[Said]:
    """What is wrong with the jobs; nothing where nothing is, or the image has no program.

    Args:
        tests: a job each.
        machines: the nodes that were asked for.
        proofs: the contract's.
        gpudirect: the contract's.
    """
    for one in tests:
        who = f"nccl-tests' {one.collective}_perf"
        if one.phase != "completed" or one.status is None:
            yield _unproven(f"{who}: the job is {one.phase}: {one.detail or 'no end is told'}")
            continue
        if not one.program:
            continue
        if one.status:
            yield _unproven(f"{who} ended with {one.status}")
        if sorted(one.machines) != sorted(machines):
            yield _unproven(f"{who} ran on {', '.join(one.machines) or 'no machine that is known'}")
        shown = proof.judge({0: one.log}, processes=one.ranks, proofs=proofs, gpudirect=gpudirect)
        if shown.verdict is not Verdict.PASSED:
            yield Said(verdict=shown.verdict, text=f"{who}: {shown.text}", remedy=_AGAIN)
        try:
            wrong = run(one).wrong
        except ValueError as error:
            yield _unproven(f"{who}: {error}")
            continue
        if wrong:
            yield Said(
                verdict=Verdict.FAILED,
                text=f"{who}: {wrong} values were wrong: data was corrupted on the way",
                remedy="do not train on this cluster; find the node by halving --nodes",
            )


def points(tests: Sequence[Tests]) -> Mapping[str, Point]:
    """The largest size of every table that can be read, by collective; out of place."""
    found = {}
    for one in tests:
        try:
            row = run(one).largest
        except ValueError:
            continue
        if row is not None and row.best is not None:
            found[one.collective] = Point(
                collective=one.collective,
                size=row.size,
                seconds=row.best.time / 1e6,
                spread=1,
                algbw=row.best.algbw,
                busbw=row.best.busbw,
            )
    return found


def used(tests: Sequence[Tests], why: str) -> str:
    """Whether nccl-tests were used, in words; ``why`` they could not be."""
    if why:
        return f"nccl-tests were not used: {why}; the collectives are PyTorch's"
    if not any(one.program for one in tests):
        return "nccl-tests are not in the image of the MPI runtime; the collectives are PyTorch's"
    paths = sorted({one.program for one in tests if one.program})
    return f"nccl-tests were used, beside PyTorch's collectives: {', '.join(paths)}"


def _unproven(text: str) -> Said:
    return Said(verdict=Verdict.NOT_PROVEN, text=text, remedy=_AGAIN)
