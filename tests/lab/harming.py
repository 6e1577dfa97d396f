"""Trainings on the lab that are harmed from outside, and what became of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from railhead.accept.checks.restart import PROCESSES, PROGRAM, PROGRAMS
from railhead.accept.record import Record
from railhead.accept.site import Testbed
from railhead.accept.training import Attempt, LogLine, attempts, diary, losses, words
from railhead.base.errors import RailheadError
from railhead.kube import client as kube
from railhead.kube.jobs import Phase
from railhead.launch.api import Run as Launched
from tests.lab.jobs import NAMESPACE, wait

STEPS, EVERY, KILLED = 14, 4, 6
WORDS = ["--steps", str(STEPS), "--every", str(EVERY), "--harm", f"wait@{KILLED}"]


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A job of two nodes that has done step KILLED, and may wait there to be harmed.

    ``record`` has its pods' changes; ``begin`` is when it had done the step.
    """

    site: Testbed
    run: Launched
    record: Record
    begin: float

    def heard(self, text: str) -> bool:
        """Return whether the newest attempt has said it; no while nothing can be read."""
        try:
            return any(words(line.text).startswith(text) for line in self.run.logs())
        except RailheadError:
            return False

    def back(self, seconds: float = 240) -> float:
        """Wait until it has taken up again; seconds since it had done the step."""
        wait(lambda: self.heard("resumed"), seconds, "it to be back", every=1)
        return time.monotonic() - self.begin

    def ended(self) -> list[Attempt]:
        """Return the job's attempts, once it has completed."""
        wait(lambda: self.run.state().phase.finished, 120, "it to end")
        assert self.run.state().phase is Phase.COMPLETED
        lines = [LogLine(t=0, node=line.node, text=line.text) for line in self.run.logs()]
        return attempts(diary(lines))

    def restarts(self) -> int:
        """Return how often JobSet recreated the gang."""
        status = self.site.cluster.get(kube.jobset(NAMESPACE, self.run.name))["status"]
        return int(status.get("restarts", 0))


@contextmanager
def waiting(site: Testbed, name: str) -> Iterator[Waiting]:
    """Start such a job, which waits at the step; it is gone afterwards."""
    with training(site, name, WORDS, f"harm kind=wait step={KILLED}") as result:
        yield result


@contextmanager
def training(site: Testbed, name: str, words_: list[str], told: str) -> Iterator[Waiting]:
    """Start a job of these words, which says ``told`` at the step; it is gone afterwards."""
    with (
        Record(site.cluster, NAMESPACE, lambda gang: gang.startswith(f"accept-{name}")) as record,
        site.job(
            name,
            nodes=2,
            command=["torchrun", f"/workspace/{PROGRAM}", *words_],
            processes_per_node=PROCESSES,
            folder=PROGRAMS,
            files=[PROGRAM],
        ) as run,
    ):
        result = Waiting(site=site, run=run, record=record, begin=0.0)
        wait(lambda: result.heard(told), 120, "the step at which it is harmed", every=1)
        yield Waiting(site=site, run=run, record=record, begin=time.monotonic())


def same(found: list[Attempt], curve: dict[int, str]) -> int:
    """Assert two attempts, the second from the last checkpoint, with an unbroken run's losses.

    Returns how many steps were done twice.
    """
    first, second = found
    assert second.resumed == max(first.saved)
    assert losses(found) == {step: curve[step] for step in range(1, STEPS + 1)}
    return max(first.losses) - second.resumed


def kill_rank(job: str) -> None:
    """End its rank 1 from the machine below, which needs no API server."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            given = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        where = next((item for item in given if item.startswith(b"CHECKPOINT_DIR=")), b"")
        if b"RANK=1" in given and where.endswith(f"/{job}".encode()):
            os.kill(int(entry.parent.name), signal.SIGKILL)
            return
    pytest.fail(f"no rank 1 of {job} on this machine")
