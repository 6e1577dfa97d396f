"""GPUs in use that no Workload accounts for, and that Kueue would promise to a gang as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from railhead.base.names import KUEUE_API, TRAINING_LABEL
from railhead.base.quantity import parse
from railhead.drift.objects import Api, Discovery, Drift, Object, Severity, subject
from railhead.kube.conditions import holds

_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_ENDED = ("Succeeded", "Failed")


def uncharged(ours: Sequence[Object], api: Api, discovery: Discovery) -> Iterator[Drift]:
    """Yield each training namespace whose pods have more GPUs than its Workloads are charged for.

    Sums are compared, since the owners of a pod are what its author wrote.
    """
    for namespace in (o for o in ours if _trains(o)):
        name = namespace["metadata"]["name"]
        workloads = discovery.path(KUEUE_API, "Workload", name)
        if workloads is None:
            return
        pods = [p for p in api.list(f"/api/v1/namespaces/{name}/pods") if _runs(p) and _taken(p)]
        charged = _charged(api.list(workloads))
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
        if not holds(workload, "Finished")
        for assigned in workload.get("status", {}).get("admission", {}).get("podSetAssignments", ())
    )


def _gpus(quantities: Iterable[dict[str, str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for listed in quantities:
        counts.update({gpu: int(parse(listed[gpu])) for gpu in _GPUS if gpu in listed})
    return counts
