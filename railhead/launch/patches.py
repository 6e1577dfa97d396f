"""Launch's own patch of a runtime, as Trainer 2.2 and later take it.

pkg/apis/trainer/v1alpha1/trainjob_types.go: one list entry a manager.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
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
