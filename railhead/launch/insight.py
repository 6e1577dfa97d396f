"""What `status` says of one job beside its phase: why it waits, who failed first, who is silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from railhead.base.errors import RailheadError
from railhead.kube import client as kube
from railhead.kube.jobs import JobState, Phase
from railhead.kube.published import find_contract, process_prefix
from railhead.launch import failing, waiting
from railhead.launch.failing import Failure, Silence
from railhead.launch.waiting import Waiting

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Insight:
    """Of a job that waits, has failed or may hang; None for what it does not do."""

    waiting: Waiting | None = None
    failure: Failure | None = None
    silence: Silence | None = None
    unread: str = ""

    def lines(self) -> list[str]:
        """In words."""
        said = self.waiting.lines() if self.waiting else []
        said += [one.text() for one in (self.failure, self.silence) if one is not None]
        return [*said, *([f"not looked at further: {self.unread}"] if self.unread else [])]

    def to_json(self) -> Object:
        """For ``--json``, beside the state's own."""
        return {
            "waiting": self.waiting.to_json() if self.waiting else None,
            "first_failure": self.failure.to_json() if self.failure else None,
            "silent": self.silence.to_json() if self.silence else None,
        }


def read(cluster: kube.Cluster, job: Object, state: JobState, *, silent: int) -> Insight:
    """What can be seen of a job; what may not be read is said, and fails nothing.

    Args:
        cluster: where it is.
        job: its TrainJob.
        state: what it is doing.
        silent: seconds without a line that are too long.
    """
    try:
        if state.phase is Phase.QUEUED:
            contract = find_contract(cluster)
            where = contract.namespaces if contract else ()
            return Insight(waiting=waiting.read(cluster, job, state, where))
        if state.phase is Phase.FAILED or any(n.ended and n.reason for n in state.nodes):
            prefix = process_prefix(cluster, state.runtime)
            return Insight(failure=failing.first_failure(cluster, state, prefix=prefix))
        if state.phase is Phase.RUNNING:
            prefix = process_prefix(cluster, state.runtime)
            found = failing.silence(cluster, state, datetime.now(UTC), limit=silent, prefix=prefix)
            return Insight(silence=found)
    except RailheadError as error:
        return Insight(unread=error.problem)
    return Insight()


def failure(cluster: kube.Cluster, state: JobState) -> list[str]:
    """The first rank that failed and its line, as lines; none where it cannot be read."""
    try:
        prefix = process_prefix(cluster, state.runtime)
        found = failing.first_failure(cluster, state, prefix=prefix)
    except RailheadError:
        return []
    return [found.text()] if found else []
