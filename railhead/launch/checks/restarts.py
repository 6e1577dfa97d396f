"""Checks that the job's gang can be recreated as often as the job says."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.launch.asked import Asked

ORDER = 15


def check(asked: Asked) -> list[Finding]:
    """Refuse another number than the runtime's: no patch of a TrainJob reaches it.

    Trainer 2.1 and 2.3, pkg/apis/trainer/v1alpha1/trainjob_types.go: PodTemplateOverride and
    TrainingRuntimeSpecPatch have no failurePolicy of the JobSet. Other kinds of job check theirs.
    """
    wanted, default = asked.plan.restarts, asked.contract.runtime(asked.plan.runtime).restarts
    if wanted is None or asked.api is not None:
        return []
    message = f"runtime {asked.plan.runtime} recreates a gang "
    message += "as often as its stack says" if default is None else f"{default} times"
    if wanted == default:
        return [Finding(name="restarts", passed=True, text=message)]
    text = (
        f"restarts: {wanted} cannot be set for one TrainJob, whose patches end at its pods; "
        f"{message}"
    )
    remedy = (
        f"leave it out, name a runtime whose stack says `restarts: {{gang: {wanted}}}`, or have "
        "the job written as another kind, such as --api jobset"
    )
    return [Finding(name="restarts", passed=False, text=text, remedy=remedy)]
