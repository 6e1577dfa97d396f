"""The cluster that is accepted, as a check sees it: facts, jobs that go through its queue, a diary.

Every job is submitted as a researcher's is, at the cluster's lowest priority, so that it waits its
turn and pushes nobody aside. What was made is written down before it is made, and is taken away
whatever happens.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from railhead.base.errors import NotFoundError, RailheadError
from railhead.contract import ClusterContract, NodePool, Queue, Runtime
from railhead.kube.client import Cluster
from railhead.launch.api import Job, Run

PREFIX = "accept"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts that are known before anything runs; pure data, so that verdicts need no cluster.

    Args:
        contract: what the cluster publishes.
        runtime: with which the checks train; ``pool`` is where its pods run.
        queue: in which they wait.
        nodes: of the pool, ready and not cordoned, by name.
        simulated: those of them that are stand-ins of a lab; no process runs on them.
        labels: of each node, as far as topology needs them.
        quick: fewer repeats and smaller sizes, which is said in the report.
        priority: the least that the cluster knows; None where it has none.
        may_lose: nodes that may be taken away, by ``lose_with`` and the node's name.
        lose_with: a command and its arguments.
    """

    contract: ClusterContract
    runtime: Runtime
    pool: NodePool
    queue: Queue
    nodes: tuple[str, ...]
    simulated: tuple[str, ...] = ()
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    quick: bool = False
    priority: str | None = None
    may_lose: tuple[str, ...] = ()
    lose_with: tuple[str, ...] = ()

    @property
    def real(self) -> tuple[str, ...]:
        """Nodes on which processes run."""
        return tuple(node for node in self.nodes if node not in self.simulated)

    @property
    def gpus(self) -> int:
        """GPUs of a node that a job takes."""
        return self.runtime.gpus_per_node


@dataclass(frozen=True, kw_only=True)
class Testbed:
    """A check's hands on the cluster.

    Args:
        facts: what is known.
        cluster: the connection.
        folder: of this acceptance; ``folder / name`` is a check's own.
        say: a line of progress.
        timeout: seconds that one job is given, its wait in the queue included.
    """

    facts: Facts
    cluster: Cluster
    folder: Path
    say: Callable[[str], None]
    timeout: float = 1800

    def name(self, stem: str) -> str:
        """Return a job's name that no other run has."""
        return f"{PREFIX}-{stem}-{secrets.token_hex(3)}"

    def submit(self, stem: str, *, nodes: int, command: list[str], **fields: Any) -> Run:
        """Submit a job as a researcher does; it is taken away at the end by :meth:`clean`.

        Args:
            stem: what the job's name says of it.
            nodes: machines.
            command: the program and its arguments.
            fields: of a job file; ``folder`` is where ``files`` lie.

        Raises:
            RailheadError: as :meth:`railhead.launch.Job.submit`.
        """
        facts = self.facts
        fields.setdefault("runtime", facts.runtime.name)
        fields.setdefault("queue", facts.queue.name)
        fields.setdefault("namespace", facts.queue.namespace)
        if facts.priority:
            fields.setdefault("priority", facts.priority)
        name = self.name(stem)
        job = Job(name=name, nodes=nodes, command=command, **fields)
        self._note(
            _Made(name=name, namespace=str(fields["namespace"]), nodes=nodes, at=time.time())
        )
        return job.submit(self.cluster)

    @contextmanager
    def job(self, stem: str, *, nodes: int, command: list[str], **fields: Any) -> Iterator[Run]:
        """Submit as :meth:`submit` does; the job is deleted when the block ends."""
        run = self.submit(stem, nodes=nodes, command=command, **fields)
        try:
            yield run
        finally:
            self._cancel(self._known()[run.name])

    @property
    def _diary(self) -> Path:
        return self.folder / "made.jsonl"

    @property
    def _ledger(self) -> Path:
        return self.folder / "used.jsonl"

    def _note(self, made: _Made) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._diary.open("a") as diary:
            diary.write(json.dumps(asdict(made)) + "\n")
            # What is made next must be known even if this machine then loses its power.
            diary.flush()
            os.fsync(diary.fileno())

    def _known(self) -> dict[str, _Made]:
        if not self._diary.exists():
            return {}
        results = {}
        for line in self._diary.read_text().splitlines():
            try:
                made = _Made(**json.loads(line))
            except (ValueError, TypeError):
                # Cut off while it was written, so that nothing was made after it.
                continue
            results[made.name] = made
        return results

    def _cancel(self, made: _Made) -> None:
        try:
            Run(self.cluster, made.name, namespace=made.namespace).cancel()
        except NotFoundError:
            return
        with self._ledger.open("a") as ledger:
            ledger.write(json.dumps(made.nodes * max(0.0, time.time() - made.at) / 3600) + "\n")

    def used(self) -> float:
        """Node-hours of the jobs that were taken away, at most: their wait counts too; once."""
        if not self._ledger.exists():
            return 0.0
        hours = sum(float(line) for line in self._ledger.read_text().splitlines())
        self._ledger.unlink()
        return hours

    def clean(self) -> None:
        """Take away every job that the diary knows, those of an interrupted run too.

        Raises:
            RailheadError: some could not be; the diary keeps them.
        """
        left: list[tuple[_Made, RailheadError]] = []
        for made in self._known().values():
            try:
                self._cancel(made)
            except RailheadError as error:
                left.append((made, error))
        if left:
            kept = "".join(json.dumps(asdict(made)) + "\n" for made, _ in left)
            self._diary.write_text(kept)
            text = "; ".join(f"{made.name}: {error.problem}" for made, error in left)
            raise RailheadError(
                f"jobs that could not be taken away: {text}",
                remedy="`railhead cancel NAME` takes one away",
            )
        self._diary.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A job as it is about to be made; ``at`` is seconds since 1970."""

    name: str
    namespace: str
    nodes: int
    at: float
