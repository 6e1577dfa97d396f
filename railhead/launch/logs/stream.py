"""Log lines of a whole gang, as they are written, until the job ends.

A pod that is not there yet, a container that restarts, a connection that breaks: the stream goes on
where it stopped, by the timestamps that the kubelet puts in front of every line.
"""

from __future__ import annotations

import heapq
import json
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

from railhead.base.errors import InputError, PrerequisiteError, RailheadError, TimedOutError
from railhead.base.names import TRAINER_CONTAINER
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.jobs import JobState, Node, Role
from railhead.launch.logs import kept

DRAIN_SECONDS = 10.0
# How long what is about to be taken away is read for; how many nodes' logs are read at a time.
KEEP_SECONDS = 20.0
READERS = 16
# A log that ended or broke is asked for again after this.
RETRY_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of one node's log; ``at`` is its timestamp as the kubelet has it.

    ``name`` is the node's; empty where the job is gone, and only its index is known.
    """

    node: int
    text: str
    at: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"[{self.name or f'node-{self.node}'}] {self.text}"

    def dated(self) -> str:
        """Return the line with its time in front."""
        return f"{self.at} {self}"

    def as_json(self) -> str:
        """Return the line as an object in JSON; ``at`` is empty where the time is not known."""
        name = self.name or f"node-{self.node}"
        return json.dumps({"node": self.node, "name": name, "at": self.at, "text": self.text})


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The lines that are wanted. ``local_rank`` picks one process of a node, None all of them.

    ``among`` are the nodes of a role; None for those of all.
    ``prefix`` is what the framework's launcher puts before each line of a process: a regular
    expression whose group is the local rank, None where it puts nothing.
    """

    node: int | None = None
    local_rank: int | None = None
    prefix: str | None = None
    among: range | None = None

    def wants(self, index: int) -> bool:
        """Return whether a node's lines are wanted."""
        return self.node in (None, index) and (self.among is None or index in self.among)

    def takes(self, line: Line) -> bool:
        """Return whether a line is of that node and that process, or of no process at all."""
        if not self.wants(line.node):
            return False
        if self.local_rank is None or self.prefix is None:
            return True
        started = re.match(self.prefix, line.text)
        return started is None or int(started[1]) == self.local_rank


def select(
    job: JobState | kept.About,
    *,
    rank: int | None,
    node: int | None,
    role: str | None = None,
    prefix: str | None = None,
) -> Selection:
    """Turn ``--rank``, ``--node`` and ``--role`` into a selection.

    ``prefix`` is as :class:`Selection` has it. Nodes are counted in their role.

    Raises:
        InputError: both are given, or the job has no such rank, node or role.
    """
    if isinstance(job, JobState):
        part = job.role(role)
        if job.roles:
            return _in_role(job, part, rank, node, whole=role is not None)
    elif role:
        raise InputError(
            f"--role {role}: {job.name} is gone, and nothing says which nodes it was",
            remedy="leave it out, and name a --node: the roles' nodes follow each other",
        )
    if rank is not None and node is not None:
        raise InputError("--rank and --node both pick one", remedy="give one of the two")
    if rank is not None:
        if not 0 <= rank < job.ranks:
            raise InputError(
                f"--rank {rank}: {job.name} has ranks 0 to {job.ranks - 1}",
                remedy="name one of them",
            )
        return Selection(
            node=rank // job.processes_per_node,
            local_rank=rank % job.processes_per_node,
            prefix=prefix,
        )
    if node is not None and not 0 <= node < job.wanted:
        raise InputError(
            f"--node {node}: {job.name} has nodes 0 to {job.wanted - 1}",
            remedy="name one of them",
        )
    return Selection(node=node)


def _in_role(
    job: JobState, role: Role, rank: int | None, node: int | None, *, whole: bool
) -> Selection:
    if rank is not None:
        raise InputError(
            f"--rank {rank}: each role of {job.name} has ranks of its own",
            remedy="name a --role and a --node of it",
        )
    if node is not None and not 0 <= node < role.nodes:
        raise InputError(
            f"--node {node}: role {role.name} of {job.name} has nodes 0 to {role.nodes - 1}",
            remedy="name one of them",
        )
    if node is not None:
        return Selection(node=role.first + node)
    return Selection(among=range(role.first, role.first + role.nodes) if whole else None)


class _Tail:
    """One container's log, read to its end by a thread of its own."""

    def __init__(
        self,
        cluster: kube.Cluster,
        namespace: str,
        node: Node,
        *,
        tail: int | None,
        sink: queue.SimpleQueue[Line],
        keep: kept.Writer | None = None,
    ) -> None:
        self._keep = keep
        self._cluster = cluster
        self._namespace = namespace
        self._node = node
        self._tail = tail
        self._sink = sink
        self._last = ""
        self._same: set[str] = set()
        self.ended = threading.Event()
        self.stop = threading.Event()
        self.error: RailheadError | None = None
        threading.Thread(target=self._run, name=f"log-{node.pod}", daemon=True).start()

    def _emit(self, raw: str) -> None:
        stamp, _, text = raw.partition(" ")
        # After a reconnect the server repeats the whole last second.
        if stamp < self._last or (stamp == self._last and raw in self._same):
            return
        if stamp != self._last:
            self._last, self._same = stamp, set()
        self._same.add(raw)
        if self._keep is not None:
            self._keep.write(raw)
        node = self._node
        self._sink.put(Line(node=node.index, text=text, at=stamp, name=node.name))

    def _once(self) -> bool:
        """Read until the stream ends; True when the container has nothing more to say."""
        with self._cluster.log_lines(
            self._namespace,
            self._node.pod,
            container=TRAINER_CONTAINER,
            follow=True,
            since_time=_second(self._last) if self._last else None,
            tail=None if self._last else self._tail,
        ) as lines:
            for line in lines:
                if self.stop.is_set():
                    break
                self._emit(line)
        return self.stop.is_set() or self._over()

    def _over(self) -> bool:
        """Return whether this container instance is finished, so that its log is complete."""
        pod = self._cluster.find(kube.core(self._namespace, "pods", self._node.pod))
        if pod is None or pod["metadata"]["uid"] != self._node.uid:
            return True
        now = jobs.read_node(pod)
        return now.ended or now.restarts != self._node.restarts

    def _run(self) -> None:
        try:
            self._read()
        except RuntimeError:
            # httpx raises this when the client was closed; `stop` is set before that.
            if not self.stop.is_set():
                raise
        finally:
            if self._keep is not None:
                self._keep.close()
            self.ended.set()

    def _read(self) -> None:
        failures = 0
        over_before = False
        while not self.stop.is_set():
            try:
                if self._once():
                    break
                failures = 0
            except TimeoutError:
                # Silence. If the container ended meanwhile, one more look, then enough.
                over = self._quiet_over()
                if over and over_before:
                    break
                over_before = over
            except kube.ApiError as error:
                failures += 1
                if error.status == 404 or failures > 5:
                    self.error = None if error.status == 404 else error
                    break
            except PrerequisiteError as error:
                failures += 1
                if failures > 30:
                    self.error = error
                    break
            self.stop.wait(RETRY_SECONDS)

    def _quiet_over(self) -> bool:
        try:
            return self._over()
        except RailheadError:
            return False


def _second(stamp: str) -> str:
    """Return a timestamp cut to the second, which is what ``sinceTime`` takes."""
    return re.sub(r"\.\d+", "", stamp)


class Gang:
    """The logs of all of a job's pods, present and future."""

    def __init__(
        self,
        cluster: kube.Cluster,
        *,
        namespace: str,
        selection: Selection,
        tail: int | None = None,
        keep: kept.Folder | None = None,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._selection = selection
        self._tail = tail
        # A part of a log would take the place of all of it.
        self._keep = keep if tail is None else None
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._tails: dict[tuple[str, int], _Tail] = {}

    def look(self, nodes: tuple[Node, ...]) -> None:
        """Start reading every container instance that has started and is not read yet."""
        for node in nodes:
            wanted = self._selection.wants(node.index)
            key = (node.uid, node.restarts)
            if wanted and node.started and key not in self._tails:
                self._tails[key] = _Tail(
                    self._cluster,
                    self._namespace,
                    node,
                    tail=self._tail,
                    sink=self._lines,
                    keep=self._writer(node, len(nodes)),
                )

    def _writer(self, node: Node, of: int) -> kept.Writer | None:
        if self._keep is None:
            return None
        return self._keep.writer(index=node.index, uid=node.uid, restarts=node.restarts, of=of)

    def lines(self) -> Iterator[Line]:
        """Yield the lines that have arrived, without waiting."""
        while True:
            try:
                line = self._lines.get_nowait()
            except queue.Empty:
                return
            if self._selection.takes(line):
                yield line

    def drain(self, seconds: float = DRAIN_SECONDS) -> Iterator[Line]:
        """Yield the rest, until every container's log has ended or ``seconds`` have passed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not all(t.ended.is_set() for t in self._tails.values()):
            yield from self.lines()
            time.sleep(0.05)
        yield from self.lines()

    def close(self) -> None:
        """Stop reading."""
        for tail in self._tails.values():
            tail.stop.set()

    def errors(self) -> list[RailheadError]:
        """Return the errors of reading, if any."""
        return [tail.error for tail in self._tails.values() if tail.error is not None]


def print_states(
    gang: Gang,
    states: Iterator[JobState],
    *,
    line: Callable[[Line], None],
    changed: Callable[[JobState], None],
) -> JobState | None:
    """Follow a job to its end, handing on every log line and every change of state.

    Returns:
        The last state; None when the job was gone before it could be read once.
    """
    last: JobState | None = None
    try:
        for now in states:
            last = now
            changed(now)
            gang.look(now.nodes)
            for item in gang.lines():
                line(item)
        for item in gang.drain():
            line(item)
    finally:
        gang.close()
    return last


def read(
    cluster: kube.Cluster,
    job: JobState,
    selection: Selection,
    *,
    tail: int | None,
    merged: bool = False,
) -> Iterator[Line]:
    """Yield what a job has written so far, one node after the other or all by time.

    A pod that was deleted meanwhile has no lines, as a launcher's workers once the job is complete
    (JobSet v0.10.1, pkg/controllers/jobset_controller.go: deleteJobs of the active ones).

    Raises:
        ApiError: a log could not be read, or none is there any more.
        TimedOutError: the server stopped sending in the middle of one.
    """
    nodes = [node for node in job.nodes if node.started and selection.wants(node.index)]
    gone: list[kube.ApiError] = []
    each = [_while_there(_of(cluster, job, node, tail=tail), gone) for node in nodes]
    # A node's own lines are in their order, which is that of time.
    lines = heapq.merge(*each, key=lambda line: line.at) if merged else chain(*each)
    empty = True
    for line in lines:
        empty = False
        if selection.takes(line):
            yield line
    if empty and gone:
        raise gone[0]


def _while_there(lines: Iterator[Line], gone: list[kube.ApiError]) -> Iterator[Line]:
    try:
        yield from lines
    except kube.ApiError as error:
        if error.status != 404:
            raise
        gone.append(error)


def _of(
    cluster: kube.Cluster,
    job: JobState,
    node: Node,
    *,
    tail: int | None,
    previous: bool = False,
    quiet_seconds: float = 60.0,
) -> Iterator[Line]:
    try:
        with cluster.log_lines(
            job.namespace,
            node.pod,
            container=TRAINER_CONTAINER,
            follow=False,
            tail=tail,
            previous=previous,
            quiet_seconds=quiet_seconds,
        ) as lines:
            for raw in lines:
                stamp, _, text = raw.partition(" ")
                yield Line(node=node.index, text=text, at=stamp, name=node.name)
    except TimeoutError:
        raise TimedOutError(
            f"the log of {node.pod} stopped in the middle", remedy="try again"
        ) from None


def earlier(
    cluster: kube.Cluster, job: JobState | None, selection: Selection, folder: kept.Folder
) -> Iterator[Line]:
    """Return what earlier attempts wrote, by time.

    The kubelet has the log of a container that was restarted in its pod; of pods that are gone
    only what this machine read before is left. ``job`` is None once it is gone.

    Raises:
        ApiError, TimedOutError: as :func:`read`.
    """
    nodes = job.nodes if job else ()
    there = folder.containers()
    lost = [n for n in nodes if n.restarts and (n.uid, n.restarts - 1) not in there]
    present = folder.lines(but={(node.uid, node.restarts) for node in nodes})
    lines = heapq.merge(
        (
            Line(node=node, text=text, at=stamp, name=job.name_of(node) if job else "")
            for stamp, node, text in present
        ),
        *(_before(cluster, job, node) for node in lost if job),
        key=lambda line: line.at,
    )
    return (line for line in lines if selection.takes(line))


def _before(cluster: kube.Cluster, job: JobState, node: Node) -> Iterator[Line]:
    try:
        yield from _of(cluster, job, node, tail=None, previous=True)
    except kube.ApiError as error:
        # The kubelet answers 400 where it has no log of the container before any more.
        if error.status not in (400, 404):
            raise


def keep(cluster: kube.Cluster, job: JobState) -> int:
    """Keep what a job's containers have written so far, after what is kept of them already.

    Given :data:`KEEP_SECONDS`, twice that where a kubelet stops in the middle; what cannot be read
    by then is not kept, and nothing fails.

    Returns:
        How many containers there are.
    """
    until = time.monotonic() + KEEP_SECONDS
    nodes = [node for node in job.nodes if node.started]
    if not nodes:
        return 0
    folder = kept.folder(job.namespace, job.name, job.uid)

    def one(node: Node) -> None:
        which: dict[str, Any] = {"index": node.index, "uid": node.uid, "restarts": node.restarts}
        last = folder.last(**which)
        writer = folder.writer(**which, of=len(nodes), more=True)
        try:
            if (left := until - time.monotonic()) <= 0:
                return
            for line in _of(cluster, job, node, tail=None, quiet_seconds=left):
                if line.at > last:
                    writer.write(f"{line.at} {line.text}")
                if time.monotonic() > until:
                    return
        except RailheadError:
            return
        finally:
            writer.close()

    with ThreadPoolExecutor(max_workers=READERS) as pool:
        list(pool.map(one, nodes))
    return len(nodes)


def stamped(
    cluster: kube.Cluster,
    job: JobState,
    node: Node,
    *,
    tail: int | None = None,
    most_bytes: int | None = None,
) -> list[str]:
    """Return lines of a node as the kubelet has them, timestamps first; none without a log.

    They are the last ``tail``, or the first ones of ``most_bytes``.
    """
    results: list[str] = []
    try:
        with cluster.log_lines(
            job.namespace,
            node.pod,
            container=TRAINER_CONTAINER,
            follow=False,
            tail=tail,
            most_bytes=most_bytes,
        ) as lines:
            results.extend(lines)
    except (TimeoutError, kube.ApiError):
        return results
    return results


def last_lines(cluster: kube.Cluster, job: JobState, count: int) -> list[Line]:
    """Return the last lines of the node that failed first, or of node 0."""
    failed = [n for n in job.nodes if n.reason and n.started] or list(job.nodes[:1])
    if not failed:
        return []
    return list(read(cluster, job, Selection(node=failed[0].index), tail=count))
