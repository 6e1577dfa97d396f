"""Can the job's gang be made anew as often as it says?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.launch.asked import Asked

ORDER = 15


def check(asked: Asked) -> list[Finding]:
    """A TrainJob has no word for it: its patches end at its pods, the number is the runtime's.

    Trainer 2.1 and 2.3, pkg/apis/trainer/v1alpha1/trainjob_types.go: PodTemplateOverride and
    TrainingRuntimeSpecPatch have no failurePolicy of the JobSet. Other kinds of job judge theirs.
    """
    wanted, own = asked.plan.restarts, asked.contract.runtime(asked.plan.runtime).restarts
    if wanted is None or asked.api is not None:
        return []
    said = f"runtime {asked.plan.runtime} makes a gang anew "
    said += "as often as its stack says" if own is None else f"{own} times"
    if wanted == own:
        return [Finding(name="restarts", passed=True, text=said)]
    text = (
        f"restarts: {wanted} cannot be said of one TrainJob, whose patches end at its pods; {said}"
    )
    remedy = (
        f"leave it out, name a runtime whose stack says `restarts: {{gang: {wanted}}}`, or have "
        "the job written as another kind, such as --api jobset"
    )
    return [Finding(name="restarts", passed=False, text=text, remedy=remedy)]
