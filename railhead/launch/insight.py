"""Details that `status` shows of one job: why it waits, who failed first, who is silent.

Also which of its claims is in trouble; and for a run that failed or may hang, the diagnosis that
`railhead diagnose --job` makes.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from railhead.base.errors import RailheadError
from railhead.kube import client as kube
from railhead.kube.jobs import JobState, Phase
from railhead.kube.published import find_contract, process_prefix
from railhead.launch import failing, mounts, pending, waiting
from railhead.launch.failing import Failure, Silence
from railhead.launch.mounts import Trouble
from railhead.launch.pending import Reason
from railhead.launch.waiting import Waiting

Object = dict[str, Any]

#: How long `status` waits for the diagnosis, which reads every node's whole log.
DIAGNOSIS_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The diagnosis of a run, or the reason why it was not made.

    Attributes:
        report: what ``railhead diagnose --job NAME --json`` prints; None if there is no diagnosis.
        unread: why there is no diagnosis.
        job: the job's name.
    """

    report: Object | None
    unread: str = ""
    job: str

    def lines(self) -> list[str]:
        """Return the likeliest cause with its fix, in words."""
        command = f"railhead diagnose --job {self.job}"
        if self.report is None:
            return [f"diagnosis: {self.unread}; `{command}` looks for the cause"]
        named = [finding for finding in self.report["findings"] if finding["named"]]
        if not named:
            return [f"diagnosis: no line names a cause; `{command}` says what to collect"]
        cause = named[0]
        fix = cause["fix"]
        where = "" if fix["where"] == "none" else f" in the {fix['where']}, {fix['setting']}"
        return [
            f"diagnosis: {cause['cause']}: {cause['title']} ({cause['confidence']:.0%})",
            f"  because: {cause['because']}",
            f"  fix{where}: {fix['text']}",
            f"  by hand: {fix['by_hand']}",
            f"  evidence: `{command}`",
        ]


@dataclass(frozen=True, kw_only=True)
class Insight:
    """Details of a job that waits, failed or may hang, or whose claims are in trouble.

    Details that do not apply are None or empty. ``reasons`` say why a job waits and what to change;
    ``claims`` are those that do not answer, are slow, full or lost.
    """

    waiting: Waiting | None = None
    reasons: tuple[Reason, ...] = ()
    failure: Failure | None = None
    silence: Silence | None = None
    claims: tuple[Trouble, ...] = ()
    diagnosis: Diagnosis | None = None
    unread: str = ""

    def lines(self) -> list[str]:
        """Return the details in words."""
        message = [line for reason in self.reasons for line in reason.lines()]
        message += self.waiting.lines() if self.waiting else []
        message += self.failure.lines() if self.failure else []
        message += [part.text() for part in (self.silence, *self.claims) if part]
        message += self.diagnosis.lines() if self.diagnosis else []
        return [*message, *([f"not looked at further: {self.unread}"] if self.unread else [])]

    def to_json(self) -> Object:
        """Return the details as ``--json`` prints them beside the state."""
        return {
            "waiting": self.waiting.to_json() if self.waiting else None,
            "reasons": [reason.to_json() for reason in self.reasons],
            "first_failure": self.failure.to_json() if self.failure else None,
            "silent": self.silence.to_json() if self.silence else None,
            "claims": [claim.to_json() for claim in self.claims],
            "diagnosis": self.diagnosis.report if self.diagnosis else None,
        }


def read(
    cluster: kube.Cluster,
    job: Object,
    state: JobState,
    *,
    silent: int,
    before: Insight | None = None,
) -> Insight:
    """Return what can be seen of a job; what may not be read is noted, and no failure.

    Args:
        cluster: the cluster of the job.
        job: the TrainJob.
        state: the state of the job.
        silent: seconds without a line after which a rank counts as silent.
        before: the last result; the same trouble is not diagnosed again.
    """
    try:
        seen = _seen(cluster, job, state, silent)
    except RailheadError as error:
        return Insight(unread=error.problem)
    if seen.failure is None and seen.silence is None:
        return seen
    if before is not None and _same(before, seen):
        return replace(seen, diagnosis=before.diagnosis)
    return replace(seen, diagnosis=_diagnosed(cluster, state))


def _seen(cluster: kube.Cluster, job: Object, state: JobState, silent: int) -> Insight:
    if state.phase is Phase.FAILED or any(n.ended and n.reason for n in state.nodes):
        prefix = process_prefix(cluster, state.runtime)
        return Insight(failure=failing.first_failure(cluster, state, prefix=prefix))
    if state.phase is Phase.RUNNING:
        prefix = process_prefix(cluster, state.runtime)
        tails = failing.tails_of(cluster, state, [n for n in state.nodes if n.started])
        result = failing.silence(state, tails, datetime.now(UTC), limit=silent, prefix=prefix)
        return Insight(silence=result, claims=mounts.troubles(tails, state.name_of))
    return _waits(cluster, job, state)


def _waits(cluster: kube.Cluster, job: Object, state: JobState) -> Insight:
    reasons = pending.read(cluster, job, state)
    if state.phase is not Phase.QUEUED:
        return Insight(reasons=reasons)
    contract = find_contract(cluster)
    where = contract.namespaces if contract else ()
    return Insight(reasons=reasons, waiting=waiting.read(cluster, job, state, where))


def _same(before: Insight, now: Insight) -> bool:
    """Return whether it is the same trouble: a hang only lasts longer."""
    if before.silence is not None and now.silence is not None:
        return before.silence.node == now.silence.node
    return before.failure == now.failure and before.silence == now.silence


def _diagnosed(cluster: kube.Cluster, state: JobState) -> Diagnosis:
    """Return the diagnosis, as far as there is time: a status that never comes helps nobody."""
    answer: Future[Object] = Future()

    def work() -> None:
        try:
            from railhead.evidence import live

            answer.set_result(live.report_of(cluster, state.namespace, state.name))
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            answer.set_exception(error)

    # A daemon, so that the command ends where a log does not.
    threading.Thread(target=work, daemon=True).start()
    try:
        return Diagnosis(report=answer.result(timeout=DIAGNOSIS_SECONDS), job=state.name)
    except TimeoutError:
        unread = f"not made in {DIAGNOSIS_SECONDS:g} s"
    except RailheadError as error:
        unread = error.problem
    except Exception as error:  # noqa: BLE001 - a failed diagnosis must not fail `status`
        unread = f"{type(error).__name__}: {error}"
    return Diagnosis(report=None, unread=unread, job=state.name)


def failure(cluster: kube.Cluster, state: JobState) -> list[str]:
    """Return the first rank that failed and its line, as lines; none where it cannot be read."""
    try:
        prefix = process_prefix(cluster, state.runtime)
        result = failing.first_failure(cluster, state, prefix=prefix)
    except RailheadError:
        return []
    return result.lines() if result else []


def waits(cluster: kube.Cluster, job: Object, state: JobState) -> list[str]:
    """Return why a job waits, as lines; none where it does not, or nothing can be read."""
    try:
        return _waits(cluster, job, state).lines()
    except RailheadError:
        return []


def claims(cluster: kube.Cluster, state: JobState) -> list[str]:
    """Return the troubles of a running job's claims, as its pods report them."""
    if state.phase is not Phase.RUNNING:
        return []
    try:
        tails = failing.tails_of(cluster, state, [n for n in state.nodes if n.started])
    except RailheadError:
        return []
    return [trouble.text() for trouble in mounts.troubles(tails, state.name_of)]
