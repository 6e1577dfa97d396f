"""A preflight: every row of a platform's ledger, the calls side by side."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Literal

from railhead.base.errors import PrerequisiteError, RailheadError
from railhead.base.finding import Finding
from railhead.model.cluster import Cluster
from railhead.preflight.check import Asker, unknown
from railhead.preflight.ledger import Row, ledger, platforms

Verdict = Literal["ok", "failed", "not asked"]
#: After so long a preflight ends; what has no answer then was not asked.
SECONDS = 40.0
_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class Result:
    """A row's result.

    Args:
        row: the row.
        verdict: ``not asked`` where nothing was asked, or nobody answered.
        text: what was read, or why nothing was.
        remedy: what to do about it; empty when there is nothing to do.
        unproven: whether it should have been asked and could not be.
        seconds: how long the calls took.
    """

    row: Row
    verdict: Verdict
    text: str
    remedy: str = ""
    unproven: bool = False
    seconds: float = 0.0


Progress = Callable[[Result], None]


def _rows(cluster: Cluster) -> tuple[Row, ...]:
    kind = cluster.platform.kind
    if kind not in platforms():
        raise PrerequisiteError(
            f"platform {kind} has no ledger; these have: {', '.join(platforms())}",
            remedy="`railhead lab status` and `railhead config verify lab` look at a lab",
        )
    return ledger(kind)


def offline(cluster: Cluster) -> list[Result]:
    """Return the results of a preflight that asks nobody.

    Raises:
        PrerequisiteError: the stack's platform has no ledger.
    """
    return [_unasked(row) for row in _rows(cluster)]


def _unasked(row: Row) -> Result:
    text = f"with credentials it {row.how}" if row.proof == "call" else row.how
    return Result(row=row, verdict="not asked", text=text)


def preflight(cluster: Cluster, progress: Progress, *, seconds: float = SECONDS) -> list[Result]:
    """Ask for every row of a stack's ledger; return the results in the ledger's order.

    Raises:
        PrerequisiteError: the platform has no ledger, there are no credentials, or a package is not
            installed.
    """
    rows = _rows(cluster)
    asker: Asker = importlib.import_module(f"railhead.preflight.{cluster.platform.kind}").ASKER
    until = time.monotonic() + seconds
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        with asker.opened(cluster) as reader:
            asked = {
                row.id: pool.submit(_ask, row, asker, reader, cluster, progress)
                for row in rows
                if row.proof == "call"
            }
            wait(asked.values(), timeout=max(0.0, until - time.monotonic()))
            # What still waits for an answer ends by its own time limit, and asks nothing more.
            reader.over.set()
            return [_result(row, asked.get(row.id), seconds) for row in rows]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _result(row: Row, future: Future[Result] | None, seconds: float) -> Result:
    if future is None:
        return _unasked(row)
    if not future.done():
        text = f"there was no answer within {seconds:.0f} s"
        return Result(row=row, verdict="not asked", text=text, unproven=True, seconds=seconds)
    return future.result()


def _ask(row: Row, asker: Asker, reader: Any, cluster: Cluster, progress: Progress) -> Result:
    started = time.monotonic()
    try:
        findings = list(asker.checks[row.id](reader, cluster))
    except PrerequisiteError:
        raise
    except RailheadError as error:
        findings = [unknown(error.problem, error.remedy)]
    result = _summed(row, findings, time.monotonic() - started)
    progress(result)
    return result


def _summed(row: Row, findings: Sequence[Finding], seconds: float) -> Result:
    """Return one result of a row's findings: one that failed outweighs one that is not known."""
    if not findings:
        text = f"the stack has no {row.of}" if row.of else "there is nothing to ask for"
        return Result(row=row, verdict="not asked", text=text, seconds=seconds)
    wrong = [f for f in findings if f.passed is False]
    unasked = [f for f in findings if f.passed is None]
    remedies = dict.fromkeys(f.remedy or row.remedy for f in wrong or unasked)
    return Result(
        row=row,
        verdict="failed" if wrong else "not asked" if unasked else "ok",
        text="; ".join(finding.text for finding in wrong or unasked or findings),
        remedy="; ".join(filter(None, remedies)),
        unproven=bool(unasked) and not wrong,
        seconds=seconds,
    )
