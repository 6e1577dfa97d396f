"""GPUs in use that no Workload accounts for, and quota that Workloads hold without a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from railhead.base.names import KUEUE_API, TRAINING_LABEL
from railhead.base.quantity import parse
from railhead.drift.objects import Api, Discovery, Drift, Object, Severity, subject
from railhead.kube.conditions import holds
from railhead.kube.jobs import UID_LABEL

_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_ENDED = ("Succeeded", "Failed")


def uncharged(ours: Sequence[Object], api: Api, discovery: Discovery) -> Iterator[Drift]:
    """Yield each training namespace whose pods have more GPUs than its Workloads are charged for.

    Kueue would promise them to a gang as well. Sums are compared, since the owners of a pod are
    what its author wrote. Each Workload that holds quota without a job follows.
    """
    for namespace in (o for o in ours if _trains(o)):
        name = namespace["metadata"]["name"]
        path = discovery.path(KUEUE_API, "Workload", name)
        if path is None:
            return
        workloads = api.list(path)
        pods = [p for p in api.list(f"/api/v1/namespaces/{name}/pods") if _runs(p) and _taken(p)]
        charged = _charged(workloads)
        for gpu, taken in sum((_taken(pod) for pod in pods), Counter()).items():
            if taken > charged[gpu]:
                names = sorted(pod["metadata"]["name"] for pod in pods)
                yield Drift(
                    severity=Severity.GUARD,
                    subject=subject(namespace),
                    field=f"{gpu} in use",
                    stack=f"{charged[gpu]}, which queues are charged for",
                    live=f"{taken}, by pods {', '.join(names[:8])}",
                    remedy="delete the job that no Workload belongs to (kubectl get workloads -n "
                    f"{name}), and restore the guards; one that was deleted takes its grace to end",
                )
        yield from map(_without_job, filter(_left, workloads))


def _left(workload: Object) -> bool:
    """Return whether a Workload holds quota, and its job was deleted without it.

    So a Job is deleted by Kubernetes' client for Python, unless told otherwise: the garbage
    collector takes the owner away, and Kueue ends the Workload of a job that it finds alone
    (v0.16.2, pkg/controller/jobframework/reconciler.go, dropFinalizers).
    """
    owned = workload["metadata"].get("ownerReferences")
    return not owned and bool(_assigned(workload))


def _without_job(workload: Object) -> Drift:
    metadata = workload["metadata"]
    gpus = ", ".join(f"{count} {gpu}" for gpu, count in _charged([workload]).items())
    pods = f"batch.kubernetes.io/controller-uid={metadata.get('labels', {}).get(UID_LABEL, '')}"
    return Drift(
        severity=Severity.CHANGED,
        subject=subject({"kind": "Workload"} | workload),
        field="metadata.ownerReferences",
        stack="a job",
        live=f"none, and quota for {gpus or 'no GPU'}, which it holds until it is deleted",
        remedy=f"kubectl delete pods -n {metadata['namespace']} -l {pods}, then kubectl delete "
        f"workload -n {metadata['namespace']} {metadata['name']}",
    )


def _trains(body: Object) -> bool:
    labels = body["metadata"].get("labels") or {}
    return body["kind"] == "Namespace" and labels.get(TRAINING_LABEL) == "true"


def _runs(pod: Object) -> bool:
    """Return whether a pod holds devices of its node, as it does while it is Pending there, too."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in _ENDED


def _taken(pod: Object) -> Counter[str]:
    """Return the GPUs of a pod: of what runs together, or of an init container that has more."""
    inits = pod["spec"].get("initContainers") or []
    sidecars = [container for container in inits if container.get("restartPolicy") == "Always"]
    taken = _gpus(map(_limits, [*pod["spec"]["containers"], *sidecars]))
    for container in inits:
        taken |= _gpus([_limits(container)])
    return taken


def _limits(container: Object) -> dict[str, str]:
    return (container.get("resources") or {}).get("limits") or {}


def _charged(workloads: Sequence[Object]) -> Counter[str]:
    """Return the GPUs of a namespace's Workloads that hold quota and have not ended."""
    return _gpus(
        assigned.get("resourceUsage", {})
        for workload in workloads
        for assigned in _assigned(workload)
    )


def _assigned(workload: Object) -> Sequence[Object]:
    """Return the pod sets for which a Workload that has not ended holds quota."""
    if holds(workload, "Finished"):
        return ()
    admission: Object = workload.get("status", {}).get("admission", {})
    return admission.get("podSetAssignments") or ()


def _gpus(quantities: Iterable[dict[str, str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for listed in quantities:
        counts.update({gpu: int(parse(listed[gpu])) for gpu in _GPUS if gpu in listed})
    return counts
