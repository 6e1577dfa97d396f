"""The rule that a training workload has a memory-backed /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from railhead.policies.plan import UNKNOWN, PlannedObject, Pod, containers, device_requests, rows
from railhead.policies.privilege import WORKLOADS

_SHM = "/dev/shm"  # noqa: S108 - not a temporary file
# Services, not training. The rule holds for anything else that takes devices and ends.
_SERVICES = frozenset(
    {"DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
# Their trainer container trains even if the template requests no device: a job may.
_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})
_TRAINER_CONTAINER = "node"

_FIX = (
    "add a volume with emptyDir: {medium: Memory} and mount it at /dev/shm; without it the "
    "container runtime gives 64 MiB, which data loaders and NCCL exceed"
)


def problems(planned: PlannedObject) -> Iterator[str]:
    """Yield a message for each training container without it, or that cannot be judged."""
    if planned.kind in _SERVICES:
        return
    if planned.pods or planned.kind in WORKLOADS:
        for path in planned.unknown:
            yield _unjudged(planned, path)
    for pod in planned.pods:
        for path, container in containers(pod):
            # An init container takes devices for a moment, to check them.
            if ".initContainers" in path[len(pod.path) :]:
                continue
            yield from _container(planned, pod, path, container)


def _container(planned: PlannedObject, pod: Pod, path: str, container: Any) -> Iterator[str]:
    if container is UNKNOWN:
        yield _unjudged(planned, path)
        return
    devices = device_requests(container.get("resources"))
    trainer = planned.kind in _RUNTIMES and container.get("name") == _TRAINER_CONTAINER
    if devices is None:
        yield _unjudged(planned, f"{path}.resources")
        return
    if not devices and not trainer:
        return
    what = f"requests {', '.join(sorted(devices))}" if devices else "is the trainer"
    mounted = None
    for mount_path, mount in rows(container, "volumeMounts", path):
        if mount is UNKNOWN or mount.get("mountPath") is UNKNOWN:
            yield _unjudged(planned, mount_path)
            return
        if str(mount.get("mountPath", "")).rstrip("/") == _SHM:
            mounted = mount
    if mounted is None:
        yield f"{planned.label}: {path} {what} but mounts nothing at /dev/shm: {_FIX}"
        return
    if mounted.get("readOnly"):
        yield f"{planned.label}: {path} {what} but mounts /dev/shm read-only: remove readOnly"
        return
    yield from _volume(planned, pod, path, what, mounted.get("name"))


def _volume(planned: PlannedObject, pod: Pod, path: str, what: str, name: Any) -> Iterator[str]:
    for volume_path, volume in rows(pod.spec, "volumes", pod.path):
        if volume is UNKNOWN or volume.get("name") is UNKNOWN or name is UNKNOWN:
            yield _unjudged(planned, volume_path)
            return
        if volume.get("name") != name:
            continue
        empty = volume.get("emptyDir")
        medium = empty.get("medium") if isinstance(empty, dict) else empty
        if medium is UNKNOWN:
            yield _unjudged(planned, f"{volume_path}.emptyDir")
        elif medium != "Memory":
            yield (
                f"{planned.label}: {path} {what} but {volume_path} at /dev/shm is not memory: "
                f"{_FIX}"
            )
        return
    yield f"{planned.label}: {path} {what} but no volume is called {name!r}: {_FIX}"


def _unjudged(planned: PlannedObject, path: str) -> str:
    return (
        f"{planned.label}: {path} is not known before the update, so nothing can be said of "
        f"its {_SHM}: give it a value that the plan knows"
    )
