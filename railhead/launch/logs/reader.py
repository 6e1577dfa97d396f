"""A pod of the team's own namespace that reads what a claim has of a job's logs.

A JobSet of one pod, as researchers may make one and no bare pod: charged 100m of CPU and no GPU, no
user of the node's, no token, nothing to write to. What it tells comes by its own log, and goes to
what this machine keeps (:mod:`railhead.launch.logs.kept`).
"""

from __future__ import annotations

import base64
import json
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from railhead.base.errors import InputError, PrerequisiteError, RailheadError, TimedOutError
from railhead.base.names import QUEUE_LABEL
from railhead.base.programs import program
from railhead.contract import Checkpoint, ClusterContract
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.launch.logs import claimed, kept
from railhead.launch.render import MANAGED_BY

Object = dict[str, Any]
CONTAINER = "read"
PLACE = "/claim"
NOBODY = 65534
# How long the queue and the image are waited for, and how long it may read once it runs.
START_SECONDS = 120.0
READ_SECONDS = 120
POLL_SECONDS = 0.5
#: Of a name that was used again: what is read of it, and the bytes in all.
RUNS = 2
MOST_BYTES = 64 << 20
#: More claims than these are not looked through for a name.
MOST_CLAIMS = 3


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A claim that may hold a job's logs, and what a pod that reads it needs."""

    namespace: str
    claim: str
    image: str
    queue: str
    tolerations: tuple[Object, ...]
    annotations: Object = field(default_factory=dict)

    def job_set(self, name: str, asked: Object) -> Object:
        """Return the JobSet called ``name`` whose pod tells what is ``asked`` for."""
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {**MANAGED_BY, QUEUE_LABEL: self.queue},
            },
            "spec": {
                # Where nobody is left to take it away.
                "ttlSecondsAfterFinished": 60,
                "network": {"enableDNSHostnames": False},
                "failurePolicy": {"maxRestarts": 0},
                "replicatedJobs": [
                    {
                        "name": CONTAINER,
                        "replicas": 1,
                        "template": {
                            "spec": {
                                "parallelism": 1,
                                "completions": 1,
                                "backoffLimit": 0,
                                "activeDeadlineSeconds": READ_SECONDS,
                                "template": {
                                    **_annotated(self.annotations),
                                    "spec": self._pod(asked),
                                },
                            }
                        },
                    }
                ],
            },
        }

    def _pod(self, asked: Object) -> Object:
        return {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": list(self.tolerations),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": NOBODY,
                "runAsGroup": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": CONTAINER,
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": [
                        "python3",
                        "-ISc",
                        program(claimed.PROGRAMS, "read.py"),
                        json.dumps(asked),
                    ],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "256Mi"},
                        "limits": {"memory": "512Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "claim", "mountPath": PLACE, "readOnly": True}],
                }
            ],
            "volumes": [
                {
                    "name": "claim",
                    "persistentVolumeClaim": {"claimName": self.claim, "readOnly": True},
                }
            ],
        }


def _annotated(annotations: Object) -> Object:
    return {"metadata": {"annotations": dict(annotations)}} if annotations else {}


def readers(contract: ClusterContract, namespaces: Sequence[str]) -> list[Reader]:
    """Return one for each claim of these namespaces that jobs keep their logs on."""
    results = [
        _reader(contract, row) for row in contract.checkpoints if row.namespace in namespaces
    ]
    return [reader for reader in results if reader is not None]


def _reader(contract: ClusterContract, row: Checkpoint) -> Reader | None:
    for runtime in contract.runtimes:
        mounts = runtime.checkpoint is not None and runtime.checkpoint.claim == row.claim
        for queue in contract.queues:
            if mounts and queue.namespace == row.namespace and runtime.pool in queue.pools:
                pool = contract.pool(runtime)
                return Reader(
                    namespace=row.namespace,
                    claim=row.claim,
                    image=runtime.image,
                    queue=queue.name,
                    tolerations=tuple(t.model_dump(exclude_none=True) for t in pool.tolerations),
                    annotations=contract.unplaced(queue) | row.annotations,
                )
    return None


def fetch(
    cluster: kube.Cluster,
    contract: ClusterContract,
    namespaces: Sequence[str],
    name: str,
    *,
    node: int | None = None,
    known: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> int:
    """Bring what the claims have of a job's logs to what this machine keeps.

    Args:
        cluster: where it was.
        contract: the cluster's.
        namespaces: where to look.
        name: the job's.
        node: of this one alone.
        known: uids of JobSets -> those of the TrainJobs that they belong to.
        say: told what is waited for.

    Returns:
        How many starts of pods were found.

    Raises:
        InputError: it could be on too many claims.
        PrerequisiteError: the user may not make the pod in any of the namespaces.
        TimedOutError: it was not admitted, or did not start, in time.
        RailheadError: it could not read.
    """
    if not kept.NAME.fullmatch(name):
        return 0
    allowed = [reader for reader in readers(contract, namespaces) if _may(cluster, reader)]
    if not allowed:
        raise PrerequisiteError(
            f"no claim with logs can be read in {', '.join(namespaces)}",
            remedy="ask someone who may submit jobs there: a pod of the namespace reads them",
        )
    if len(allowed) > MOST_CLAIMS:
        raise InputError(
            f"{name} is gone, and its logs may be on any of {len(allowed)} claims",
            remedy="say in which namespace it was, with --namespace",
        )
    return sum(_fetch(cluster, item, name, node, known or {}, say) for item in allowed)


def _may(cluster: kube.Cluster, reader: Reader) -> bool:
    """Return whether the user may make the pod that reads: a JobSet that is not stored tells."""
    body = reader.job_set("railhead-logs", {})
    try:
        cluster.create(kube.jobset(reader.namespace, ""), body, dry_run=True)
    except kube.ApiError as error:
        if error.status not in (403, 404):
            raise
        return False
    return True


def _fetch(
    cluster: kube.Cluster,
    reader: Reader,
    name: str,
    node: int | None,
    known: Mapping[str, str],
    say: Callable[[str], None],
) -> int:
    say(f"reading logs on claim {reader.claim} of namespace {reader.namespace}, by a pod there")
    folder = f"{PLACE}/{claimed.FOLDER}/{reader.namespace}/{name}"
    asked = {"folder": folder, "node": node, "runs": RUNS, "most": MOST_BYTES}
    job = f"railhead-logs-{secrets.token_hex(4)}"
    path = kube.jobset(reader.namespace, job)
    cluster.create(kube.jobset(reader.namespace, ""), reader.job_set(job, asked))
    try:
        pod = _started(cluster, reader, job)
        return _store(reader.namespace, name, known, _frames(cluster, reader.namespace, pod))
    finally:
        cluster.delete(path)


def _started(cluster: kube.Cluster, reader: Reader, job: str) -> str:
    """Return the pod's name, once it runs or has run."""
    until = time.monotonic() + START_SECONDS
    reason = f"queue {reader.queue} has not admitted it"
    while True:
        selector = f"{jobs.JOBSET_LABEL}={job}"
        for pod in cluster.list(kube.core(reader.namespace, "pods"), selector=selector):
            status = pod.get("status") or {}
            if status.get("phase") in ("Running", "Succeeded", "Failed"):
                return str(pod["metadata"]["name"])
            reason = "its pod has not started: " + _waits_for(status)
        if time.monotonic() > until:
            raise TimedOutError(
                f"the logs on claim {reader.claim} of namespace {reader.namespace} were not read "
                f"within {START_SECONDS:g} s: {reason}",
                remedy="try again when the queue has 100m of CPU free",
            )
        time.sleep(POLL_SECONDS)


def _waits_for(status: Object) -> str:
    waiting = [
        (containerstatuse.get("state") or {}).get("waiting") or {}
        for containerstatuse in status.get("containerStatuses") or ()
    ]
    return next((str(item["reason"]) for item in waiting if item.get("reason")), "no node yet")


def _frames(cluster: kube.Cluster, namespace: str, pod: str) -> Iterator[Object]:
    """Yield what the pod prints, until it ends.

    Raises:
        RailheadError: the pod printed something else, or not everything.
    """
    reported, last = 0, "nothing"
    with (
        suppress(TimeoutError),
        cluster.log_lines(
            namespace, pod, container=CONTAINER, follow=True, quiet_seconds=READ_SECONDS
        ) as lines,
    ):
        for raw in lines:
            _, _, last = raw.partition(" ")
            frame = _frame(last)
            reported += "data" in frame
            if frame.get("end") == reported:
                return
            yield frame
    raise RailheadError(
        f"the claim's logs could not be read; the pod in namespace {namespace} said: {last[:300]}",
        remedy="try again, with --node for less of them; the runtime's image must have Python 3.7 "
        "or newer, and the claim's own folder must be open to other users",
    )


def _frame(text: str) -> Object:
    try:
        frame = json.loads(text)
    except ValueError:
        return {}
    return frame if isinstance(frame, dict) else {}


def _store(namespace: str, name: str, known: Mapping[str, str], frames: Iterator[Object]) -> int:
    """Keep each start of a pod on this machine; how many there were."""
    files: list[tuple[Object, list[str]]] = []
    for frame in frames:
        if "file" in frame:
            files.append((frame, []))
        elif "data" in frame:
            files[-1][1].append(frame["data"])
    # A name becomes one of a file here.
    files = [file for file in files if kept.NAME.fullmatch(str(file[0].get("run")))]
    runs: dict[str, list[tuple[Object, bytes]]] = {}
    for head, parts in files:
        data = zlib.decompress(base64.b64decode("".join(parts)))
        runs.setdefault(head["run"], []).append((head, data))
    for run, several in runs.items():
        names = [head["file"] for head, _ in several]
        folder = kept.of_run(namespace, name, known.get(run) or run, names)
        for head, data in several:
            folder.put(head["file"], data)
        folder.tell(several[0][0]["about"], at=several[0][0]["at"])
    return len(files)
