"""Rules that keep checkpoints safe: claims for every node of a gang, volumes that are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from railhead.base.names import CHECKPOINT_LABEL, TRAINING_LABEL
from railhead.policies.plan import UNKNOWN, PlannedObject, at, rows

_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})
_MANY = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def problems(plan: Iterable[PlannedObject]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for claims that a gang cannot share, or that are missing or unsafe."""
    objects = list(plan)
    claims = [p for p in objects if p.kind == "PersistentVolumeClaim"]
    training = _training(objects)
    for planned in claims:
        if _belongs(planned, training):
            yield from _shared(planned)
            yield from _kept(planned)
    for planned in objects:
        if planned.kind == "PersistentVolume":
            yield from _retained(planned)
        policy = planned.body.get("reclaimPolicy")
        if planned.kind == "StorageClass" and policy != "Retain":
            text = "not known before the update" if policy is UNKNOWN else repr(policy)
            yield (
                f"{planned.label}: reclaimPolicy is {text}: the "
                "data would go with the claim: set Retain",
                planned.urn,
            )
    made = {_name(planned) for planned in claims}
    for planned in objects:
        if planned.kind not in _RUNTIMES:
            continue
        for path, claim in _mounted(planned):
            if claim is UNKNOWN or claim not in made:
                what = "is not known before the update" if claim is UNKNOWN else f"is {claim!r}"
                yield (
                    f"{planned.label}: {path}.persistentVolumeClaim.claimName {what}, which no "
                    "claim of this stack is called (any more): its checkpoints would be gone and "
                    "its jobs would wait for ever; keep the claim in checkpoints",
                    planned.urn,
                )


def _training(objects: Iterable[PlannedObject]) -> frozenset[Any]:
    """Return the namespaces in which jobs run: those with a queue, or with the guards' label."""
    return frozenset(
        _namespace(item) if item.kind == "LocalQueue" else at(item.body, "metadata", "name")
        for item in objects
        if item.kind == "LocalQueue"
        or (
            item.kind == "Namespace"
            and at(item.body, "metadata", "labels", TRAINING_LABEL) == "true"
        )
    )


def _belongs(claim: PlannedObject, training: frozenset[Any]) -> bool:
    """Return whether a claim may be training's: not one that is known to be somewhere else."""
    namespace = _namespace(claim)
    elsewhere = isinstance(namespace, str) and bool(training) and namespace not in training
    return not elsewhere or UNKNOWN in training


def _namespace(planned: PlannedObject) -> Any:
    """Return an object's namespace; without one the API server's, as Pulumi's provider has it."""
    return at(planned.body, "metadata", "namespace") or "default"


def _name(planned: PlannedObject) -> Any:
    metadata = planned.body.get("metadata")
    return metadata.get("name") if isinstance(metadata, Mapping) else None


def _mounted(planned: PlannedObject) -> Iterator[tuple[str, Any]]:
    for pod in planned.pods:
        for path, volume in rows(pod.spec, "volumes", pod.path):
            claim = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
            if claim is UNKNOWN:
                yield path, UNKNOWN
            elif isinstance(claim, Mapping):
                yield path, claim.get("claimName")


def _shared(planned: PlannedObject) -> Iterator[tuple[str, str]]:
    spec = planned.body.get("spec")
    modes = spec.get("accessModes") if isinstance(spec, Mapping) else spec
    if modes is UNKNOWN or (isinstance(modes, list) and UNKNOWN in modes):
        yield (
            f"{planned.label}: spec.accessModes is not known before the update: give it a value "
            "that the plan knows",
            planned.urn,
        )
    elif not _MANY & set(modes or ()):
        yield (
            f"{planned.label}: spec.accessModes is {modes}: the pods of a gang are on several "
            "nodes, and all but one would never start: use ReadWriteMany",
            planned.urn,
        )


def _kept(planned: PlannedObject) -> Iterator[tuple[str, str]]:
    metadata = planned.body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    if not isinstance(labels, Mapping) or labels.get(CHECKPOINT_LABEL) != "true":
        yield (
            f"{planned.label}: has no label {CHECKPOINT_LABEL}: true, by which the API server "
            "knows what it must not delete unasked",
            planned.urn,
        )


def _retained(planned: PlannedObject) -> Iterator[tuple[str, str]]:
    spec = planned.body.get("spec")
    policy = spec.get("persistentVolumeReclaimPolicy") if isinstance(spec, Mapping) else UNKNOWN
    if policy != "Retain":
        text = "not known before the update" if policy is UNKNOWN else repr(policy)
        yield (
            f"{planned.label}: spec.persistentVolumeReclaimPolicy is {text}: the data would go "
            "with the claim: set Retain",
            planned.urn,
        )
