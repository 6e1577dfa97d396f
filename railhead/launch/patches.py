"""Launch's own patch of a runtime, as Trainer 2.2 and later take it.

pkg/apis/trainer/v1alpha1/trainjob_types.go: one list entry a manager.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
PATCH_MANAGER = "railhead.dev/launch"


def patched(spec: Object, template: Object) -> Object:
    """A TrainJob's ``runtimePatches`` with ``template`` in launch's own, beside what is there."""
    others = [p for p in spec.get("runtimePatches") or [] if p["manager"] != PATCH_MANAGER]
    mine = [p for p in spec.get("runtimePatches") or [] if p["manager"] == PATCH_MANAGER]
    before = mine[0]["trainingRuntimeSpec"]["template"] if mine else {}
    own = {"manager": PATCH_MANAGER, "trainingRuntimeSpec": {"template": before | template}}
    return {"runtimePatches": [*others, own]}
