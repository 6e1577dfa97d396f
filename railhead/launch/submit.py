"""Creating a job's objects, waiting for its end, and taking it away again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from railhead.base.errors import PrerequisiteError, TimedOutError
from railhead.base.names import JOB_LABEL, JOBS_OWNER
from railhead.contract import ClusterContract
from railhead.framework import FRAMEWORKS
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.jobs import JobState, Phase
from railhead.kube.published import find_contract
from railhead.launch import render
from railhead.launch.apis import submitted
from railhead.launch.job import MAX_FILES_BYTES, MAX_WORKSPACE_BYTES
from railhead.launch.patches import avoid, in_field, without_nodes
from railhead.launch.plan import Plan

POLL_SECONDS = 1.0
# Between two looks at what is left of a job that is cancelled.
LEFT_SECONDS = 0.5
# Reading a cluster's state fails while its API server restarts or is too busy for a handshake; a
# job outlives that, and so does who follows it.
PATIENCE_SECONDS = 300.0
# What a job's object was when it was submitted; annotations hold 256 KiB together
# (apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB).
SUBMITTED = "railhead.dev/submitted"
MAX_SUBMITTED = 128 << 10
# ConfigMaps that a job's files can need, and one that proves its fabric.
MAX_PARTS = MAX_WORKSPACE_BYTES // MAX_FILES_BYTES * 2 + 1


def submit(cluster: kube.Cluster, plan: Plan) -> kube.Object:
    """Create the job's objects; all of them, or none.

    The files come first, so that no pod ever waits for them; a leftover of a launch that was
    killed in between belongs to the same job name and is replaced.

    Raises:
        ApiError: the cluster refused one of them.
    """
    return _create(cluster, _annotated(cluster, submitted(plan)), render.config_maps(plan))


def _annotated(cluster: kube.Cluster, body: kube.Object) -> kube.Object:
    """Return the object annotated with its user, and with itself: the cluster changes the rest."""
    annotations = _user(cluster)
    text = json.dumps({"labels": body["metadata"]["labels"], "spec": body["spec"]})
    if len(text) <= MAX_SUBMITTED:
        annotations[SUBMITTED] = text
    return body | {"metadata": body["metadata"] | {"annotations": annotations}}


def _create(cluster: kube.Cluster, body: kube.Object, files: Sequence[kube.Object]) -> kube.Object:
    namespace = body["metadata"]["namespace"]
    folder = kube.core(namespace, "configmaps")
    if (owner := cluster.find(f"{folder}/{JOBS_OWNER}")) is not None:
        # With it an ended job is deleted, which would hold its runtime against `destroy`.
        owned = {"ownerReferences": [render.owner_reference(owner)]}
        body = body | {"metadata": body["metadata"] | owned}
    paths: list[str] = []
    try:
        for file in files:
            _place(cluster, folder, file)
            paths.append(f"{folder}/{file['metadata']['name']}")
        created = cluster.create(jobs.folder_of(body), body)
    except BaseException:
        for path in paths:
            cluster.delete(path)
        raise
    for path in paths:
        cluster.patch(path, {"metadata": {"ownerReferences": [render.owner_reference(created)]}})
    return created


def _user(cluster: kube.Cluster) -> dict[str, str]:
    """Return the annotation that says who submits; none where the API server does not know."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = cluster.create(path, review)
    except kube.ApiError as error:
        if error.status not in (403, 404):
            raise
        return {}
    name = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
    return {jobs.USER: str(name)} if name else {}


def _place(cluster: kube.Cluster, folder: str, one: kube.Object) -> None:
    """Create a ConfigMap; one that a launch of this name left, when it was killed, gives way."""
    try:
        cluster.create(folder, one)
        return
    except kube.ApiError as error:
        if error.status != 409:
            raise
        path = f"{folder}/{one['metadata']['name']}"
        result = cluster.find(path)
        if result is not None and not _labelled(result, one["metadata"]["labels"][JOB_LABEL]):
            raise
    cluster.delete(path)
    cluster.create(folder, one)


def _files(cluster: kube.Cluster, namespace: str, name: str) -> list[kube.Object]:
    """Return the ConfigMaps with a job's files, in their order; nobody else's of such a name.

    Asked one by one, for researchers may not list ConfigMaps (railhead.resolve.access).
    """
    names = [render.files_name(name, part) for part in range(MAX_PARTS)]
    paths = [kube.core(namespace, "configmaps", item) for item in names]
    with ThreadPoolExecutor(max_workers=MAX_PARTS) as pool:
        files = [item for item in pool.map(cluster.find, paths) if item is not None]
    return [item for item in files if _labelled(item, name)]


def _labelled(files: kube.Object, name: str) -> bool:
    return (files["metadata"].get("labels") or {}).get(JOB_LABEL) == name


def sweep(cluster: kube.Cluster, namespaces: Sequence[str], name: str) -> list[str]:
    """Remove the files of a launch that was killed before its job was there; their names."""
    gone: list[str] = []
    for namespace in namespaces:
        try:
            files = _files(cluster, namespace, name)
        except kube.ApiError as error:
            # Those of another team.
            if error.status != 403 or len(namespaces) == 1:
                raise
            continue
        for file in files:
            cluster.delete(kube.core(namespace, "configmaps", file["metadata"]["name"]))
            gone.append(f"{namespace}/{file['metadata']['name']}")
    return gone


def restart(
    cluster: kube.Cluster,
    job: kube.Object,
    *,
    timeout_seconds: float,
    progress: Callable[[str], None],
    without: Sequence[str] = (),
) -> kube.Object:
    """End a job and submit it again as it was requested; it resumes from its checkpoints.

    Trainer may have been upgraded meanwhile, and take what the job patches in another field.
    ``without`` are nodes that its pods do not get.

    Raises:
        PrerequisiteError: it was not launched by `railhead launch`, so nobody knows its request.
        TimedOutError: as :func:`cancel`.
        ApiError: the cluster refused it; what it refused is gone then.
    """
    metadata = job["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    text = (metadata.get("annotations") or {}).get(SUBMITTED)
    if text is None:
        raise PrerequisiteError(
            f"{name}: was not launched by `railhead launch`, so what was asked for is not known",
            remedy=f"`railhead cancel {name}`, then submit it again as it was submitted",
        )
    asked = json.loads(text)
    if job["kind"] == jobs.JOBSET:
        asked["spec"] = without_nodes(asked["spec"], without)
    else:
        asked["spec"] = _placed(asked["spec"], find_contract(cluster), without)
    files = [
        {key: file[key] for key in ("data", "binaryData") if key in file}
        | {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {key: file["metadata"][key] for key in ("name", "namespace", "labels")},
        }
        for file in _files(cluster, namespace, name)
    ]
    cancel(cluster, job, timeout_seconds=timeout_seconds, progress=progress)
    body = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": asked["labels"],
        },
        "spec": asked["spec"],
    }
    return _create(cluster, _annotated(cluster, body), files)


def _placed(
    spec: kube.Object, contract: ClusterContract | None, without: Sequence[str]
) -> kube.Object:
    """Return a TrainJob's spec with its patches in the cluster's field, without these nodes.

    Raises:
        PrerequisiteError: the cluster does not say how pods are patched.
    """
    if contract is None or contract.placement_field is None:
        if without:
            raise PrerequisiteError(
                "--avoid: the cluster's contract does not say how Trainer places pods",
                remedy="run `pulumi up` on the cluster's stack again, or leave it out",
            )
        return spec
    if not without:
        return in_field(spec, contract.placement_field)
    runtime = contract.runtime(spec["runtimeRef"]["name"])
    framework = FRAMEWORKS.get(runtime.framework)
    jobs = (runtime.replicated_job, *(framework.servers if framework else ()))
    return avoid(spec, jobs, without, contract.placement_field)


def watch(
    cluster: kube.Cluster, job: kube.Object, *, timeout_seconds: float | None = None
) -> Iterator[JobState]:
    """Yield the job's state, once a second, until it is over or gone.

    Raises:
        TimedOutError: it was not finished in time; the job goes on.
        RailheadError: the cluster could not be asked for five minutes.
    """
    looks = watch_all(cluster, [job], timeout_seconds=timeout_seconds)
    return (now for _, now in looks if now is not None)


def watch_all(
    cluster: kube.Cluster, several: Sequence[kube.Object], *, timeout_seconds: float | None = None
) -> Iterator[tuple[kube.Object, JobState | None]]:
    """Yield each job with its state, once a second, until it is over; with None if it is gone.

    Raises:
        TimedOutError: not all were finished in time; they go on.
        RailheadError: the cluster could not be asked for five minutes.
    """
    begin = time.monotonic()
    left = {job["metadata"]["uid"]: job for job in several}
    last_answer = dict.fromkeys(left, begin)
    while left:
        for uid, job in list(left.items()):
            try:
                current = jobs.find_again(cluster, job)
                now = None if current is None else jobs.read_state(cluster, current)
            except (kube.ApiError, PrerequisiteError):
                if time.monotonic() - last_answer[uid] > PATIENCE_SECONDS:
                    raise
                continue
            last_answer[uid] = time.monotonic()
            if now is None or now.over:
                del left[uid]
            yield job, now
        if left and timeout_seconds is not None and time.monotonic() - begin > timeout_seconds:
            names = [job["metadata"]["name"] for job in left.values()]
            it, name = ("it goes", names[0]) if len(names) == 1 else ("they go", "NAME")
            raise TimedOutError(
                f"{', '.join(names)}: not finished after {timeout_seconds:g} s; {it} on",
                remedy=f"`railhead status {name}` shows it, `railhead cancel {name}` ends it",
            )
        if left:
            time.sleep(POLL_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """The result of a cancel."""

    name: str
    namespace: str
    was: Phase
    pods: int
    seconds: float


def leftovers(
    cluster: kube.Cluster, namespace: str, name: str, uid: str, files: Sequence[str] = ()
) -> list[str]:
    """Return what still exists of a job and of its ``files``' ConfigMaps, in words."""
    results: list[str] = []
    job = cluster.find(kube.trainjobs(namespace, name))
    if job is not None and job["metadata"]["uid"] == uid:
        results.append(f"TrainJob {name}")
    pods = cluster.list(kube.core(namespace, "pods"), selector=f"{jobs.JOBSET_LABEL}={name}")
    results += [f"pod {pod['metadata']['name']}" for pod in pods]
    if cluster.find(kube.jobset(namespace, name)) is not None:
        results.append(f"JobSet {name}")
    results += [
        f"ConfigMap {file}"
        for file in files
        if cluster.find(kube.core(namespace, "configmaps", file)) is not None
    ]
    return results


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
        job: the job, just read.
        timeout_seconds: how long to wait for the pods.
        progress: called with a line whenever what is left has changed.

    Raises:
        TimedOutError: something is still there; the message names it.
    """
    metadata = job["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    before = jobs.read_state(cluster, job)
    begin = time.monotonic()
    cluster.delete(f"{jobs.folder_of(job)}/{name}", propagation="Foreground")
    # Their owner takes them along, except where launch was killed before it could say who that is.
    files = [item["metadata"]["name"] for item in _files(cluster, namespace, name)]
    for file in files:
        cluster.delete(kube.core(namespace, "configmaps", file))
    shown = ""
    while left := leftovers(cluster, namespace, name, uid, files):
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
        time.sleep(LEFT_SECONDS)
    return Cancelled(
        name=name,
        namespace=namespace,
        was=before.phase,
        pods=len(before.nodes),
        seconds=time.monotonic() - begin,
    )
