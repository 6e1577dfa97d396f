"""Claims and their proofs on a live cluster."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Literal

from railhead.base.errors import NotFoundError, PrerequisiteError
from railhead.base.finding import Finding
from railhead.contract import Checkpoint, ClusterContract, Queue, Runtime
from railhead.kube import client as kube
from railhead.kube.nodes import down
from railhead.storage import volumes
from railhead.storage.claims import REFRESH, SHARED_ANNOTATION
from railhead.storage.proof import DEADLINE_S, PodReport, SharingVerdict, job, verdict

Object = kube.Object


def claim(cluster: kube.Cluster, row: Checkpoint) -> tuple[Object | None, tuple[str, ...]]:
    """Return a claim, and what was said of it last where it has no volume, the newest first."""
    result = cluster.find(kube.core(row.namespace, "persistentvolumeclaims", row.claim))
    if result is None or (result.get("status") or {}).get("phase") != "Pending":
        return result, ()
    return result, _warnings(cluster, row.namespace, "PersistentVolumeClaim", row.claim)


def _warnings(cluster: kube.Cluster, namespace: str, kind: str, name: str) -> tuple[str, ...]:
    """Return the messages of the warning events of an object, the newest first."""
    selector = f"involvedObject.kind={kind},involvedObject.name={name},type=Warning"
    events = cluster.list(kube.core(namespace, "events"), fields=selector)
    events.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""), reverse=True)
    return tuple(str(event.get("message", "")).strip() for event in events)


def volume(cluster: kube.Cluster, row: Checkpoint) -> tuple[Finding, Object | None]:
    """Return the volume of a claim as it can be restored; None if there is nothing to keep."""
    name = f"{row.namespace}/{row.claim}"
    result, _ = claim(cluster, row)
    bound = ((result or {}).get("spec") or {}).get("volumeName")
    body = cluster.find(f"/api/v1/persistentvolumes/{bound}") if bound else None
    if body is None:
        lacks = f"claim {name} has no volume" if result else f"claim {name} is not there"
        return Finding(name="volume", passed=None, text=lacks, remedy=REFRESH), None
    if not volumes.provisioned(body):
        text = f"claim {name}: {bound} is not a provisioner's; who made it makes it again"
        return Finding(name="volume", passed=True, text=text), None
    text = f"claim {name}: volume {bound} is kept for it"
    return Finding(name="volume", passed=True, text=text), volumes.reserved(body)


def prove(
    cluster: kube.Cluster,
    contract: ClusterContract,
    row: Checkpoint,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[SharingVerdict, tuple[PodReport, ...]]:
    """Let one node write and another read, and write the verdict on the claim.

    Raises:
        NotFoundError: no queue serves the claim's namespace, or no runtime is published.
        PrerequisiteError: fewer than two nodes are ready.
        RefusedError, ApiError: the cluster does not take the jobs.
    """
    runtime, queue = _runtime(contract, row), _queue(contract, row.namespace)
    nodes = _nodes(cluster, contract, runtime)
    nonce, reported = secrets.token_hex(8), []
    roles: tuple[tuple[Literal["write", "read"], str], ...] = (
        ("write", nodes[0]),
        ("read", nodes[1]),
    )
    tolerations = [t.model_dump(exclude_none=True) for t in contract.pool(runtime).tolerations]
    for role, node in roles:
        name = f"storage-proof-{role}-{nonce}"
        say(f"{row.namespace}/{row.claim}: {node} is to {role}")
        body = job(
            role,
            name=name,
            nonce=nonce,
            namespace=row.namespace,
            claim=row.claim,
            node=node,
            image=runtime.image,
            queue=queue.name,
            tolerations=tolerations,
            annotations=contract.unplaced(queue) | row.annotations,
        )
        path = f"/apis/batch/v1/namespaces/{row.namespace}/jobs"
        cluster.create(path, body)
        try:
            reported.append(_await(cluster, row.namespace, name, node))
        finally:
            cluster.delete(f"{path}/{name}")
        if reported[-1].error:
            break
    result = verdict(
        reported[0],
        reported[-1] if len(reported) > 1 else PodReport(node=nodes[1], error="not asked"),
    )
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    note = {SHARED_ANNOTATION: f"{result.shared}: {result.why}, {at}"}
    cluster.patch(
        kube.core(row.namespace, "persistentvolumeclaims", row.claim),
        {"metadata": {"annotations": note}},
    )
    return result, tuple(reported)


def _await(cluster: kube.Cluster, namespace: str, name: str, node: str) -> PodReport:
    """Return what the Job's pod reported; why it reported nothing, once its time is over."""
    end = time.monotonic() + DEADLINE_S + 10
    pods: list[Object] = []
    while time.monotonic() < end:
        pods = cluster.list(kube.core(namespace, "pods"), selector=f"job-name={name}")
        for pod in pods:
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                if ended := (status.get("state") or {}).get("terminated"):
                    return PodReport.of(str(ended.get("message") or ended.get("reason") or ""))
        time.sleep(1)
    if not pods:
        return PodReport(
            node=node, error=f"no pod within {DEADLINE_S} s: the queue did not admit it"
        )
    text = _warnings(cluster, namespace, "Pod", str(pods[0]["metadata"]["name"]))
    return PodReport(
        node=node,
        error=f"the claim was not mounted, written and read within {DEADLINE_S} s: "
        f"{text[0] if text else 'nothing was said of it; the storage does not answer'}",
    )


def _runtime(contract: ClusterContract, row: Checkpoint) -> Runtime:
    mounting = [r for r in contract.runtimes if r.checkpoint and r.checkpoint.claim == row.claim]
    for runtime in (*mounting, *contract.runtimes):
        if runtime.pool is not None:
            return runtime
    raise NotFoundError(
        f"cluster {contract.cluster!r} publishes no runtime whose image the proof could run in",
        remedy="add one under `runtimes` in the cluster's stack",
    )


def _queue(contract: ClusterContract, namespace: str) -> Queue:
    if contract.scheduler != "kueue":
        raise PrerequisiteError(
            f"the proof is a Job for each node, and {contract.scheduler}, which admits gangs in "
            f"cluster {contract.cluster!r}, takes none",
            remedy="see that two nodes write and read one file of the claim, by pods of a job",
        )
    for queue in contract.queues:
        if queue.namespace == namespace:
            return queue
    raise NotFoundError(
        f"namespace {namespace!r} has no queue that the proof could wait in",
        remedy="add one under `queues` in the cluster's stack",
    )


def _nodes(cluster: kube.Cluster, contract: ClusterContract, runtime: Runtime) -> list[str]:
    pool = contract.pool(runtime)
    selector = ",".join(f"{key}={value}" for key, value in pool.node_selector.items())
    ready = [
        str(node["metadata"]["labels"]["kubernetes.io/hostname"])
        for node in cluster.list("/api/v1/nodes", selector=selector)
        if not any(down(node))
    ]
    if len(ready) < 2:
        raise PrerequisiteError(
            f"pool {pool.name!r} has {len(ready)} ready nodes, and sharing is between two",
            remedy="try again when two are up",
        )
    return sorted(ready)[:2]
