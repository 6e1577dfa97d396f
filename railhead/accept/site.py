"""The cluster that is accepted, as a check sees it: facts, jobs that go through its queue, a diary.

Every job is submitted as a researcher's is, at the cluster's lowest priority, so that it waits its
turn and pushes nobody aside. What was made is written down before it is made, and is taken away
whatever happens.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.base.errors import NotFoundError
from railhead.contract import ClusterContract, NodePool, Queue, Runtime
from railhead.kube.client import Cluster
from railhead.launch.api import Job, Run

PREFIX = "accept"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known before anything runs; pure data, so that verdicts need no cluster.

    Args:
        contract: what the cluster publishes.
        runtime: with which the checks train; ``pool`` is where its pods run.
        queue: in which they wait.
        nodes: of the pool, ready and not cordoned, by name.
        simulated: those of them that are stand-ins of a lab; no process runs on them.
        labels: of each node, as far as topology needs them.
        quick: fewer repeats and smaller sizes, which is said in the report.
        priority: the least that the cluster knows; None where it has none.
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

    @property
    def real(self) -> tuple[str, ...]:
        """Nodes on which processes run."""
        return tuple(node for node in self.nodes if node not in self.simulated)

    @property
    def gpus(self) -> int:
        """GPUs of a node that a job takes."""
        return self.runtime.gpus_per_node


@dataclass(frozen=True, kw_only=True)
class Site:
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
        """A job's name that no other run has."""
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
        self._note(name, str(fields["namespace"]))
        return job.submit(self.cluster)

    @contextmanager
    def job(self, stem: str, *, nodes: int, command: list[str], **fields: Any) -> Iterator[Run]:
        """As :meth:`submit`; the job is gone when the block ends."""
        run = self.submit(stem, nodes=nodes, command=command, **fields)
        try:
            yield run
        finally:
            self._cancel(run.name, str(fields.get("namespace", self.facts.queue.namespace)))

    @property
    def _diary(self) -> Path:
        return self.folder / "made.jsonl"

    def _note(self, name: str, namespace: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._diary.open("a") as diary:
            diary.write(json.dumps({"name": name, "namespace": namespace}) + "\n")

    def _cancel(self, name: str, namespace: str) -> None:
        try:
            Run(self.cluster, name, namespace=namespace).cancel()
        except NotFoundError:
            return

    def clean(self) -> None:
        """Take away every job that the diary knows, those of an interrupted run too."""
        if not self._diary.exists():
            return
        for line in self._diary.read_text().splitlines():
            made = json.loads(line)
            self._cancel(made["name"], made["namespace"])
        self._diary.unlink()
