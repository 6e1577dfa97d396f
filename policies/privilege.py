"""Rules against privileged pods and pods that access their node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.policies.exempt import Exemption, exemption, may_mount
from railhead.policies.plan import UNKNOWN, PlannedObject, Pod, at, containers, rows
from railhead.resolve.pod_guards import HARMLESS_CAPABILITIES

_HOST_FLAGS = {
    "hostNetwork": "join the rails by the k8s.v1.cni.cncf.io/networks annotation instead",
    "hostPID": "remove it",
    "hostIPC": "mount an emptyDir with medium: Memory at /dev/shm instead",
}

# Capabilities that some fabric's memory registration or a vendor's sidecar needs.
_ADDED = frozenset(HARMLESS_CAPABILITIES) | {
    capability.name for mode in MODES.values() for capability in mode.capabilities
}
_OF_SIDECARS = {
    row.name: frozenset(row.capabilities)
    for fabric in FABRICS.values()
    if fabric.plugin and (row := fabric.plugin.daemon)
}
# Values that the rest of the baseline Pod Security Standard allows for a container.
_BASELINE: Mapping[tuple[str, ...], tuple[str | None, ...]] = {
    ("securityContext", "procMount"): ("Default", None),
    ("securityContext", "seccompProfile", "type"): ("RuntimeDefault", "Localhost", None),
    ("securityContext", "appArmorProfile", "type"): ("RuntimeDefault", "Localhost", None),
}


def problems(planned: PlannedObject) -> Iterator[str]:
    """Yield a message for each access to the node, and for each field that cannot be judged."""
    for path in planned.unknown if _makes_pods(planned) else ():
        yield _unjudged(planned, path)
    if planned.kind == "PersistentVolume":
        yield from _volume(planned)
    item = exemption(planned)
    flags = item.flags if item else frozenset()
    for pod in planned.pods:
        yield from _host(planned, pod, item)
        for path, container in containers(pod) if "privileged" not in flags else ():
            yield from _container(planned, path, container)


def _volume(planned: PlannedObject) -> Iterator[str]:
    """Yield a message for a volume of the node, which would bypass the rule for hostPath."""
    for key in ("hostPath", "local"):
        if (where := at(planned.body, "spec", key)) is not None:
            yield (
                f"{planned.label}: spec.{key} is {where}, a part of the node for anyone who mounts "
                "the claim: use a file system that all nodes share"
            )


def _makes_pods(planned: PlannedObject) -> bool:
    return bool(planned.pods) or planned.kind in WORKLOADS


def _host(planned: PlannedObject, pod: Pod, one: Exemption | None) -> Iterator[str]:
    for field, fix in _HOST_FLAGS.items():
        if one is not None and field in one.flags:
            continue
        value = pod.spec.get(field)
        path = f"{pod.path}.{field}"
        if value is UNKNOWN:
            yield _unjudged(planned, path)
        elif value:
            yield f"{planned.label}: {path} is true, which gives the pod its node's: {fix}"
    for path, volume in rows(pod.spec, "volumes", pod.path):
        if volume is UNKNOWN or (isinstance(volume, dict) and volume.get("hostPath") is UNKNOWN):
            yield _unjudged(planned, path)
        elif isinstance(volume, dict) and volume.get("hostPath") is not None:
            if may_mount(one, pod, volume):
                continue
            where = volume["hostPath"]
            which = where.get("path") if isinstance(where, dict) else where
            yield (
                f"{planned.label}: {path}.hostPath mounts {which!r} of the node: use a "
                "PersistentVolumeClaim, an emptyDir, or a device plugin's resource instead"
            )


def _container(planned: PlannedObject, path: str, container: Any) -> Iterator[str]:
    security = container if container is UNKNOWN else container.get("securityContext")
    if security is UNKNOWN:
        yield _unjudged(planned, f"{path}.securityContext")
        return
    privileged = security.get("privileged") if isinstance(security, dict) else None
    if privileged is UNKNOWN:
        yield _unjudged(planned, f"{path}.securityContext.privileged")
    elif privileged:
        yield (
            f"{planned.label}: {path}.securityContext.privileged is true: remove it; a device "
            "comes by requesting its resource, memory locking by capabilities.add [IPC_LOCK]"
        )
    yield from _capabilities(planned, path, container, security)
    for keys, values in _BASELINE.items():
        value = at(container, *keys)
        if value is UNKNOWN:
            yield _unjudged(planned, f"{path}.{'.'.join(keys)}")
        elif value not in values:
            yield f"{planned.label}: {path}.{'.'.join(keys)} is {value!r}: remove it"
    for where, port in rows(container, "ports", path):
        if port is UNKNOWN or port.get("hostPort"):
            yield f"{planned.label}: {where} takes a port of the node, or is not known: remove it"


def _capabilities(
    planned: PlannedObject, path: str, container: Any, security: Any
) -> Iterator[str]:
    where = f"{path}.securityContext.capabilities.add"
    block = security.get("capabilities") if isinstance(security, dict) else None
    added: Any = block if block is UNKNOWN else (block or {}).get("add")
    if added is UNKNOWN or (isinstance(added, list) and UNKNOWN in added):
        yield _unjudged(planned, where)
        return
    allowed = _ADDED | _OF_SIDECARS.get(str(container.get("name")), frozenset())
    for name in added or ():
        if str(name).removeprefix("CAP_") not in allowed:
            yield (
                f"{planned.label}: {where} has {name!r}, which reaches beyond the pod: remove it; "
                "a fabric's mode adds what memory registration needs"
            )


def _unjudged(planned: PlannedObject, path: str) -> str:
    return (
        f"{planned.label}: {path} is not known before the update, so nothing can be said of its "
        "privileges: give it a value that the plan knows"
    )


# Kinds whose pods matter even if the plan does not know them yet.
WORKLOADS = frozenset(
    {
        "ClusterTrainingRuntime",
        "CronJob",
        "DaemonSet",
        "Deployment",
        "JAXJob",
        "Job",
        "JobSet",
        "LeaderWorkerSet",
        "MPIJob",
        "PaddleJob",
        "Pod",
        "PodTemplate",
        "PyTorchJob",
        "RayCluster",
        "RayJob",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        "TFJob",
        "TrainingRuntime",
        "XGBoostJob",
    }
)
