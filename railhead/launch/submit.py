"""Creating a job's objects, waiting for its end, and taking it away again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from railhead.base.errors import PrerequisiteError, TimedOutError
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.jobs import JobState, Phase
from railhead.launch import render
from railhead.launch.plan import Plan

POLL_SECONDS = 1.0
# Reading a cluster's state fails now and then while its API server restarts; a job outlives that.
PATIENCE_SECONDS = 60.0


def submit(cluster: kube.Cluster, plan: Plan) -> kube.Object:
    """Create the job's objects; all of them, or none.

    The files come first, so that no pod ever waits for them; a leftover of a launch that was
    killed in between belongs to the same job name and is replaced.

    Raises:
        ApiError: the cluster refused one of them.
    """
    files = render.config_maps(plan)
    folder = kube.core(plan.namespace, "configmaps")
    paths = [f"{folder}/{one['metadata']['name']}" for one in files]
    try:
        for path, one in zip(paths, files, strict=True):
            cluster.delete(path)
            cluster.create(folder, one)
        created = cluster.create(kube.trainjobs(plan.namespace), render.train_job(plan))
    except BaseException:
        for path in paths:
            cluster.delete(path)
        raise
    for path, owned in zip(paths, render.config_maps(plan, owner=created), strict=True):
        cluster.patch(path, {"metadata": {"ownerReferences": owned["metadata"]["ownerReferences"]}})
    return created


def watch(
    cluster: kube.Cluster, job: kube.Object, *, timeout_seconds: float | None = None
) -> Iterator[JobState]:
    """The job's state, once a second, until it is finished or gone.

    Raises:
        TimedOutError: it was not finished in time; the job goes on.
        RailheadError: the cluster could not be asked for a minute.
    """
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    begin = last_answer = time.monotonic()
    while True:
        try:
            current = cluster.find(kube.trainjobs(namespace, name))
            if current is None or current["metadata"]["uid"] != job["metadata"]["uid"]:
                return
            now = jobs.read_state(cluster, current)
        except (kube.ApiError, PrerequisiteError):
            if time.monotonic() - last_answer > PATIENCE_SECONDS:
                raise
        else:
            last_answer = time.monotonic()
            yield now
            if now.phase.finished:
                return
        if timeout_seconds is not None and time.monotonic() - begin > timeout_seconds:
            raise TimedOutError(
                f"{name}: not finished after {timeout_seconds:g} s; it goes on",
                remedy=f"`railhead status {name}` shows it, `railhead cancel {name}` ends it",
            )
        time.sleep(POLL_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """What a cancel did."""

    name: str
    namespace: str
    was: Phase
    pods: int
    seconds: float


def leftovers(cluster: kube.Cluster, namespace: str, name: str, uid: str) -> list[str]:
    """What is still there of a job, in words."""
    found: list[str] = []
    job = cluster.find(kube.trainjobs(namespace, name))
    if job is not None and job["metadata"]["uid"] == uid:
        found.append(f"TrainJob {name}")
    pods = cluster.list(kube.core(namespace, "pods"), selector=f"{jobs.JOBSET_LABEL}={name}")
    found += [f"pod {pod['metadata']['name']}" for pod in pods]
    if cluster.find(kube.jobset(namespace, name)) is not None:
        found.append(f"JobSet {name}")
    if cluster.find(kube.core(namespace, "configmaps", render.files_name(name))) is not None:
        found.append(f"ConfigMap {render.files_name(name)}")
    return found


def cancel(
    cluster: kube.Cluster,
    job: kube.Object,
    *,
    timeout_seconds: float,
    progress: Callable[[str], None],
) -> Cancelled:
    """Delete a job and everything it owns, and wait until its pods are gone.

    Args:
        cluster: where it lives.
        job: the TrainJob, just read.
        timeout_seconds: how long to wait for the pods.
        progress: called with a line whenever what is left has changed.

    Raises:
        TimedOutError: something is still there; the message names it.
    """
    metadata = job["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    before = jobs.read_state(cluster, job)
    begin = time.monotonic()
    cluster.delete(kube.trainjobs(namespace, name), propagation="Foreground")
    files = kube.core(namespace, "configmaps", render.files_name(name))
    found = cluster.find(files)
    # Its owner takes it along, except where launch was killed before it could say who that is.
    if found and (found["metadata"].get("labels") or {}).get(render.JOB_LABEL) == name:
        cluster.delete(files)
    shown = ""
    while left := leftovers(cluster, namespace, name, uid):
        if time.monotonic() - begin > timeout_seconds:
            raise TimedOutError(
                f"{name}: still there after {timeout_seconds:g} s: {', '.join(left)}",
                remedy=f"run `railhead cancel {name}` again, or look at what holds it: "
                f"`kubectl -n {namespace} describe trainjob,jobset,pod`",
            )
        text = f"waiting for {', '.join(left)}"
        if text != shown:
            progress(text)
            shown = text
        time.sleep(0.5)
    return Cancelled(
        name=name,
        namespace=namespace,
        was=before.phase,
        pods=len(before.nodes),
        seconds=time.monotonic() - begin,
    )
