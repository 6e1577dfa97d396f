"""The same in Python: a job is described, submitted, watched, read and ended.

>>> from railhead.launch import Job
>>> run = Job(name="demo", nodes=2, command=["torchrun", "train.py"]).submit()  # doctest: +SKIP
>>> run.wait(timeout=3600).phase  # doctest: +SKIP
<Phase.COMPLETED: 'completed'>
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from railhead.base.errors import NotFoundError
from railhead.kube import jobs
from railhead.kube.client import Cluster, choose_target
from railhead.kube.jobs import JobState
from railhead.kube.published import namespaces, process_prefix, read_contract
from railhead.launch import insight, submit
from railhead.launch.apis import objects
from railhead.launch.insight import Insight
from railhead.launch.job import job_of
from railhead.launch.logs import past, stream
from railhead.launch.plan import Plan, make_plan
from railhead.launch.preflight import preflight


def connect(
    *, kubeconfig: Path | None = None, context: str | None = None, lab: str | None = None
) -> Cluster:
    """Return the cluster that the commands would take by the same options; close it in the end.

    Raises:
        InputError: the options contradict each other, or name what is not there.
        PrerequisiteError: nothing names a cluster.
    """
    return Cluster(choose_target(kubeconfig=kubeconfig, context=context, lab=lab))


class Fields(TypedDict, total=False):
    """The fields of a job file that may be left out; :class:`JobFile` says what each is."""

    min_nodes: int | None
    gpus_per_node: int | None
    processes_per_node: int | None
    files: Sequence[str]
    image: str | None
    framework: str | None
    runtime: str | None
    queue: str | None
    fabric: Literal["none", "required"] | None
    launcher: Literal["own", "none"] | None
    timeout: str | None
    restarts: int | None
    shm: str | None
    secrets: Mapping[str, str]
    mounts: Mapping[str, str]
    datasets: Sequence[str]
    checkpoint: Mapping[str, str] | None
    namespace: str | None
    priority: str | None
    topology: str | None
    avoid: Sequence[str]
    verify: bool | None
    logs: Literal["kept", "pods", "bare"] | None
    roles: Mapping[str, Mapping[str, Any]]
    sizing: Mapping[str, str | float] | None


class Job:
    """The contents of a job file.

    Args:
        name: the job's name; pods, logs and the checkpoint directory carry it.
        nodes: machines, one pod each.
        command: the program and its arguments, exactly as they reach the process; no shell.
        env: environment variables, exactly as they reach the process.
        folder: what ``files`` are relative to; the working directory when absent.
        fields: every other field of a job file, such as ``gpus_per_node`` or ``image``.

    Raises:
        InputError: with every mistake, as the command prints them.
    """

    def __init__(
        self,
        *,
        name: str,
        nodes: int,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        **fields: Unpack[Fields],
    ) -> None:
        values: dict[str, Any] = {
            "name": name,
            "nodes": nodes,
            "command": list(command),
            "env": dict(env or {}),
            **fields,
        }
        self.file, self.files = job_of(values, folder=folder or Path.cwd(), where=name)

    def plan(self, cluster: Cluster) -> Plan:
        """Return every choice made, nothing created.

        Raises:
            InputError: the job asks for what this cluster does not have.
            PrerequisiteError: the cluster publishes no contract, or one that is too old.
        """
        return make_plan(self.file, self.files, read_contract(cluster))

    def objects(self, cluster: Cluster) -> list[dict[str, Any]]:
        """Return the objects that :meth:`submit` would create. Raises as :meth:`plan`."""
        return objects(self.plan(cluster))

    def submit(self, cluster: Cluster | None = None) -> Run:
        """Check everything, then create it; all of it, or nothing.

        Raises:
            InputError, PrerequisiteError: as :meth:`plan`.
            RefusedError: a check failed; the message has the reasons.
            ApiError: the cluster refused it.
        """
        cluster = cluster or connect()
        contract = read_contract(cluster)
        made = make_plan(self.file, self.files, contract)
        preflight(cluster, made, contract)
        created = submit.submit(cluster, made)
        return Run(cluster, made.name, namespace=created["metadata"]["namespace"])


class Run:
    """A job that is in a cluster.

    Args:
        cluster: where it is.
        name: its name.
        namespace: where to look; every training namespace of the cluster when absent.

    Raises:
        NotFoundError: there is no job of that name.
    """

    def __init__(self, cluster: Cluster, name: str, *, namespace: str | None = None) -> None:
        self.cluster = cluster
        self.name = name
        self._where = namespaces(cluster, namespace)
        self._job = jobs.find_job(cluster, self._where, name)

    def state(self) -> JobState:
        """Return the present state of the job. Raises NotFoundError once it is gone."""
        self._job = jobs.find_job(self.cluster, self._where, self.name)
        return jobs.read_state(self.cluster, self._job)

    def insight(self, *, silent: float = 300) -> Insight:
        """Return what ``railhead status`` prints beside the state.

        That is why the job waits; which rank failed first, or fell silent; and the diagnosis.

        Args:
            silent: seconds without a line after which a rank counts as silent.

        Raises:
            NotFoundError: the job is gone.
        """
        state = self.state()
        return insight.read(self.cluster, self._job, state, silent=round(silent))

    def wait(self, *, timeout: float | None = None) -> JobState:
        """Return the last state, once the job has ended or was deleted.

        Args:
            timeout: seconds; for ever when absent.

        Raises:
            TimedOutError: it had not ended in time; it goes on.
            NotFoundError: it was gone before it could be read once.
        """
        states = deque(self.watch(timeout=timeout), maxlen=1)
        return states[-1] if states else self.state()

    def watch(self, *, timeout: float | None = None) -> Iterator[JobState]:
        """Yield the state once a second, until the job has ended or was deleted.

        Args:
            timeout: seconds; for ever when absent.

        Raises:
            TimedOutError: it had not ended in time; it goes on.
        """
        return submit.watch(self.cluster, self._job, timeout_seconds=timeout)

    def logs(
        self,
        *,
        rank: int | None = None,
        node: int | None = None,
        role: str | None = None,
        tail: int | None = None,
        previous: bool = False,
    ) -> Iterator[stream.Line]:
        """Return the lines written so far, node after node; all attempts once the job is gone.

        Args:
            rank: the lines of this process alone.
            node: the lines of this node alone.
            role: the lines of this role alone, in which ``node`` counts.
            tail: the last lines of each node, this many.
            previous: the lines of the attempts before the present one, by time.

        Raises:
            InputError: the job has no such rank, node or role, or both of the first are given.
            NotFoundError: the job is gone, and nothing is kept of it.
            ApiError: a log could not be read.
        """
        which: dict[str, Any] = {"rank": rank, "node": node, "role": role}
        if previous:
            return past.before(self.cluster, self._where, self.name, **which)
        try:
            state = self.state()
        except NotFoundError as missing:
            return past.gone(self.cluster, self._where, self.name, missing, **which, tail=tail)
        prefix = None if rank is None else process_prefix(self.cluster, state.runtime)
        selection = stream.select(state, **which, prefix=prefix)
        return stream.read(self.cluster, state, selection, tail=tail)

    def cancel(self, *, timeout: float = 120.0) -> None:
        """End it and remove everything that belongs to it; checkpoints stay.

        Raises:
            TimedOutError: something is still there; the message names it.
        """
        submit.cancel(self.cluster, self._job, timeout_seconds=timeout, progress=lambda _: None)
