"""Launch's own patch of a runtime: ``runtimePatches`` from Trainer 2.2 on, which drops the older.

pkg/apis/trainer/v1alpha1/trainjob_types.go: one list entry a manager. Up to Trainer 2.1 pods are
patched by ``podTemplateOverrides``, and what Volcano reads is in ``annotations``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

Object = dict[str, Any]
PlacementField = Literal["podTemplateOverrides", "runtimePatches"]
PATCH_MANAGER = "railhead.dev/launch"


def patched(spec: Object, template: Object) -> Object:
    """Return a TrainJob's ``runtimePatches`` with ``template`` added to launch's own."""
    for patch in spec.get("runtimePatches", ()):
        template = patch["trainingRuntimeSpec"]["template"] | template
    return {
        "runtimePatches": [
            {"manager": PATCH_MANAGER, "trainingRuntimeSpec": {"template": template}}
        ]
    }


def placed(jobs: Sequence[str], pod: Object, field: PlacementField) -> Object:
    """Return the field with a patch of the pods of these jobs of the runtime."""
    if field == "podTemplateOverrides":
        return {field: [{"targetJobs": [{"name": name} for name in jobs], **pod}]}
    replicated = [{"name": name, "template": {"spec": {"template": pod}}} for name in jobs]
    return patched({}, {"spec": {"replicatedJobs": replicated}})


def avoiding(nodes: Sequence[str]) -> Object:
    """Return the affinity of a pod that gets none of these nodes; Kueue and the scheduler heed it.

    By name, one a requirement (core validation of ``matchFields``; kueue v0.16.2,
    pkg/cache/scheduler/tas_flavor_snapshot.go, NewNodeSelector).
    """
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def avoided(spec: Object) -> list[str]:
    """Return the nodes that a TrainJob's spec avoids, by :func:`avoiding`."""
    names: list[str] = []
    for override in in_field(spec, "podTemplateOverrides").get("podTemplateOverrides", ()):
        names += _avoided(override.get("spec") or {})
    return names


def _avoided(pod: Object) -> list[str]:
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution", {}
    )
    return [
        name
        for term in required.get("nodeSelectorTerms", ())
        for field in term["matchFields"]
        for name in field["values"]
    ]


def without_nodes(spec: Object, nodes: Sequence[str]) -> Object:
    """Return a JobSet's spec as launch wrote it, whose pods also get none of these nodes."""
    result = copy.deepcopy(spec)
    for replicated in result["replicatedJobs"] if nodes else ():
        pod = replicated["template"]["spec"]["template"]["spec"]
        pod["affinity"] = avoiding(list(dict.fromkeys((*_avoided(pod), *nodes))))
    return result


def avoid(spec: Object, jobs: Sequence[str], nodes: Sequence[str], field: PlacementField) -> Object:
    """Return a TrainJob's spec, whose pods also get none of these nodes.

    ``jobs`` are the runtime's jobs of the pods, for a spec without a patch.
    """
    names = dict.fromkeys((*avoided(spec), *nodes))
    older = in_field(spec, "podTemplateOverrides")
    (pod,) = older.get("podTemplateOverrides") or [{"targetJobs": [{"name": n} for n in jobs]}]
    inner = (pod.get("spec") or {}) | {"affinity": avoiding(list(names))}
    return in_field(older | {"podTemplateOverrides": [pod | {"spec": inner}]}, field)


def in_field(spec: Object, field: PlacementField) -> Object:
    """Return a TrainJob's spec as launch wrote it, with its patches moved to this field."""
    newer = field == "runtimePatches"
    gone = ("podTemplateOverrides", "annotations") if newer else ("runtimePatches",)
    if not any(key in spec for key in gone):
        return spec
    rest = {key: value for key, value in spec.items() if key not in gone}
    return rest | (_to_patches(spec) if newer else _to_overrides(spec))


def _to_patches(spec: Object) -> Object:
    to_patches: Object = {}
    for override in spec.get("podTemplateOverrides", ()):
        pod = {key: value for key, value in override.items() if key != "targetJobs"}
        to_patches = placed([job["name"] for job in override["targetJobs"]], pod, "runtimePatches")
    if annotations := spec.get("annotations"):
        return patched(to_patches, {"metadata": {"annotations": annotations}})
    return to_patches


def _to_overrides(spec: Object) -> Object:
    template = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]
    to_overrides: Object = dict(template.get("metadata", {}))
    if jobs := template.get("spec", {}).get("replicatedJobs"):
        pod = jobs[0]["template"]["spec"]["template"]
        to_overrides |= placed([job["name"] for job in jobs], pod, "podTemplateOverrides")
    return to_overrides
