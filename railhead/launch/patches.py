"""Launch's own patch of a runtime: ``runtimePatches`` from Trainer 2.2 on, which drops the older.

pkg/apis/trainer/v1alpha1/trainjob_types.go: one list entry a manager. Up to Trainer 2.1 pods are
patched by ``podTemplateOverrides``, and what Volcano reads is in ``annotations``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Object = dict[str, Any]
PlacementField = Literal["podTemplateOverrides", "runtimePatches"]
PATCH_MANAGER = "railhead.dev/launch"


def patched(spec: Object, template: Object) -> Object:
    """A TrainJob's ``runtimePatches`` with ``template`` beside what launch's own has already."""
    for patch in spec.get("runtimePatches", ()):
        template = patch["trainingRuntimeSpec"]["template"] | template
    return {
        "runtimePatches": [
            {"manager": PATCH_MANAGER, "trainingRuntimeSpec": {"template": template}}
        ]
    }


def placed(jobs: Sequence[str], pod: Object, field: PlacementField) -> Object:
    """The field with a patch of the pods of these jobs of the runtime."""
    if field == "podTemplateOverrides":
        return {field: [{"targetJobs": [{"name": name} for name in jobs], **pod}]}
    replicated = [{"name": name, "template": {"spec": {"template": pod}}} for name in jobs]
    return patched({}, {"spec": {"replicatedJobs": replicated}})


def in_field(spec: Object, field: PlacementField) -> Object:
    """A TrainJob's spec as launch made it, with what it patches in this field, whichever it was."""
    newer = field == "runtimePatches"
    gone = ("podTemplateOverrides", "annotations") if newer else ("runtimePatches",)
    if not any(key in spec for key in gone):
        return spec
    rest = {key: value for key, value in spec.items() if key not in gone}
    return rest | (_to_patches(spec) if newer else _to_overrides(spec))


def _to_patches(spec: Object) -> Object:
    found: Object = {}
    for override in spec.get("podTemplateOverrides", ()):
        pod = {key: value for key, value in override.items() if key != "targetJobs"}
        found = placed([job["name"] for job in override["targetJobs"]], pod, "runtimePatches")
    if annotations := spec.get("annotations"):
        return patched(found, {"metadata": {"annotations": annotations}})
    return found


def _to_overrides(spec: Object) -> Object:
    template = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]
    found: Object = dict(template.get("metadata", {}))
    if jobs := template.get("spec", {}).get("replicatedJobs"):
        pod = jobs[0]["template"]["spec"]["template"]
        found |= placed([job["name"] for job in jobs], pod, "podTemplateOverrides")
    return found
