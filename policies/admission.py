"""The guards refuse; they do not merely take note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.plan import UNKNOWN, Planned


def problems(planned: Planned) -> Iterator[str]:
    """One message for each admission policy or binding that lets through what it finds."""
    spec: Any = planned.body.get("spec")
    if planned.kind == "ValidatingAdmissionPolicyBinding":
        actions: Any = spec.get("validationActions") if isinstance(spec, Mapping) else UNKNOWN
        if actions is UNKNOWN or (isinstance(actions, list) and UNKNOWN in actions):
            yield _unjudged(planned, "spec.validationActions")
        elif "Deny" not in (actions or ()):
            yield (
                f"{planned.label}: spec.validationActions is {actions}, which lets through what "
                "the guard finds: a job off its queue or off the fabric runs; set ['Deny']"
            )
    elif planned.kind == "ValidatingAdmissionPolicy":
        policy = spec.get("failurePolicy", "Fail") if isinstance(spec, Mapping) else UNKNOWN
        if policy is UNKNOWN:
            yield _unjudged(planned, "spec.failurePolicy")
        elif policy != "Fail":
            yield (
                f"{planned.label}: spec.failurePolicy is {policy!r}, so that whatever the guard "
                "cannot evaluate passes: set 'Fail'"
            )


def _unjudged(planned: Planned, path: str) -> str:
    return (
        f"{planned.label}: {path} is not known before the update, so nothing can be said of what "
        "it refuses: give it a value that the plan knows"
    )
