"""Logs and objects that the cluster still has of a pod, or of all nodes of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from railhead.base.errors import NotFoundError, TimedOutError
from railhead.base.names import TRAINER_CONTAINER
from railhead.diagnose import report
from railhead.diagnose.objects import ClusterObjects
from railhead.diagnose.observations import observe
from railhead.diagnose.ranking import rank
from railhead.diagnose.reading import read
from railhead.evidence import objects
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.nccl.sources import Source

QUIET_SECONDS = 60.0


class _PodLog:
    """A container's log as bytes."""

    def __init__(self, opened: kube.Cluster, namespace: str, pod: str, container: str) -> None:
        self._stack = ExitStack()
        self._name = f"{namespace}/{pod}"
        self._lines: Iterator[str] = self._stack.enter_context(
            opened.log_lines(
                namespace, pod, container=container, follow=False, quiet_seconds=QUIET_SECONDS
            )
        )
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; ``b""`` at the end."""
        taken = [self._rest]
        have = len(self._rest)
        try:
            while have < size:
                line = next(self._lines, None)
                if line is None:
                    self._stack.close()
                    break
                taken.append(line.encode("utf-8", "replace") + b"\n")
                have += len(taken[-1])
        except TimeoutError:
            raise TimedOutError(
                f"the log of {self._name} stopped in the middle", remedy="try again"
            ) from None
        data = b"".join(taken)
        self._rest = data[size:]
        return data[:size]


def _source(opened: kube.Cluster, namespace: str, pod: str, container: str) -> Source:
    return Source(
        name=f"pod/{pod}", open=lambda: _PodLog(opened, namespace, pod, container), size=0
    )


def of_pod(opened: kube.Cluster, among: Sequence[str], pod: str) -> list[Source]:
    """Return every container's log of a pod that has started.

    Raises:
        NotFoundError: no namespace has such a pod, or none of its containers has started.
    """
    for namespace in among:
        result = opened.find(kube.core(namespace, "pods", pod))
        if result is None:
            continue
        started = [
            status["name"]
            for status in result.get("status", {}).get("containerStatuses", [])
            if "waiting" not in status.get("state", {}) or status.get("restartCount")
        ]
        if not started:
            raise NotFoundError(
                f"pod {namespace}/{pod} has written nothing: none of its containers has started",
                remedy="see why with `kubectl describe pod`",
            )
        return [_source(opened, namespace, pod, name) for name in started]
    raise NotFoundError(
        f"no pod {pod!r} in {', '.join(among) or 'any namespace'}",
        remedy="name another namespace with --namespace",
    )


def of_job(opened: kube.Cluster, among: tuple[str, ...], name: str) -> list[Source]:
    """Return the logs of all of a job's nodes.

    Raises:
        NotFoundError: there is no such job, or none of its pods has started.
    """
    job = jobs.read_state(opened, jobs.find_job(opened, among, name))
    results = [
        _source(opened, job.namespace, node.pod, TRAINER_CONTAINER)
        for node in job.nodes
        if node.started
    ]
    if not results:
        raise NotFoundError(
            f"job {name} has written nothing: {job.phase.value} {job.detail}".rstrip(),
            remedy=f"see `railhead status {name}`",
        )
    return results


def evidence(
    opened: kube.Cluster, among: tuple[str, ...], *, job: str | None = None, pod: str | None = None
) -> tuple[list[Source], ClusterObjects]:
    """Return the logs and the objects of a job or a pod, which may have no log yet.

    Raises:
        NotFoundError: there is no such job or pod.
    """
    result = objects.of_job(opened, among, job) if job else objects.of_pod(opened, among, pod or "")
    try:
        if job:
            return of_job(opened, (result.namespace,), job), result
        return of_pod(opened, (result.namespace,), pod or ""), result
    except NotFoundError:
        # A job that never started has no log, and that is when its events tell most.
        return [], result


def report_of(opened: kube.Cluster, namespace: str, job: str) -> dict[str, Any]:
    """Return what ``railhead diagnose --job JOB --json`` prints.

    Raises:
        NotFoundError: there is no such job.
    """
    sources, result = evidence(opened, (namespace,), job=job)
    reading = read(sources)
    return report.to_json(
        reading,
        rank(reading, observed=observe(result)),
        skipped=result.unreadable,
        command=report.collect_command(job, None, ()),
    )
