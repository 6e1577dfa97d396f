"""Rules for guards: they must refuse, not only warn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from railhead.base.names import TRAINING_LABEL
from railhead.policies.plan import UNKNOWN, PlannedObject, at, rows


def problems(plan: Iterable[PlannedObject]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for each guard that lets violations through, or that is never used."""
    objects = list(plan)
    for planned in objects:
        for message in _lets_through(planned):
            yield message, planned.urn
    policies = {_name(item): item for item in objects if item.kind == "ValidatingAdmissionPolicy"}
    bindings = [item for item in objects if item.kind == "ValidatingAdmissionPolicyBinding"]
    bound = {at(binding.body, "spec", "policyName") for binding in bindings}
    for name, planned in policies.items():
        if name not in bound:
            yield f"{planned.label}: no binding names it, so nobody asks it: bind it", planned.urn
    for planned in bindings:
        if at(planned.body, "spec", "policyName") not in policies:
            yield f"{planned.label}: the stack makes no policy of spec.policyName", planned.urn
    for planned in objects:
        if planned.kind == "LocalQueue" and not policies:
            yield f"{planned.label}: no guard refuses anything of its jobs: make them", planned.urn
    yield from _unguarded(objects)


def _unguarded(objects: Iterable[PlannedObject]) -> Iterator[tuple[str, str]]:
    """Yield namespaces with a queue but without the label by which guards know training namespaces.

    The owner of a namespace that the stack does not make must label it.
    """
    namespaces = {_name(item): item for item in objects if item.kind == "Namespace"}
    for queue in (item for item in objects if item.kind == "LocalQueue"):
        where = namespaces.get(at(queue.body, "metadata", "namespace"))
        if where and at(where.body, "metadata", "labels", TRAINING_LABEL) != "true":
            yield (
                f"{where.label}: has a queue and no label {TRAINING_LABEL}: true, by which the "
                "guards know where jobs are: label it",
                where.urn,
            )


def _name(planned: PlannedObject) -> Any:
    return at(planned.body, "metadata", "name")


def _lets_through(planned: PlannedObject) -> Iterator[str]:
    """Yield a message for each admission policy or binding that lets violations through."""
    spec: Any = planned.body.get("spec")
    if planned.kind == "ValidatingAdmissionPolicyBinding":
        yield from _elsewhere(planned)
        actions: Any = spec.get("validationActions") if isinstance(spec, Mapping) else UNKNOWN
        if actions is UNKNOWN or (isinstance(actions, list) and UNKNOWN in actions):
            yield _unjudged(planned, "spec.validationActions")
        elif "Deny" not in (actions or ()):
            yield (
                f"{planned.label}: spec.validationActions is {actions}, which lets through what "
                "the guard finds: a job off its queue or off the fabric runs; set ['Deny']"
            )
    elif planned.kind == "ValidatingAdmissionPolicy":
        for key in ("validations", "matchConstraints"):
            if not (value := at(spec, key)) or value is UNKNOWN:
                yield f"{planned.label}: spec.{key} is {value}, so nothing is known to be refused"
        for path, condition in (
            rows(spec, "matchConditions", "spec") if isinstance(spec, Mapping) else ()
        ):
            expression = condition if condition is UNKNOWN else condition.get("expression")
            if expression is UNKNOWN or str(expression).strip() == "false":
                yield f"{planned.label}: {path} is {expression}: the guard is never asked"
        policy = spec.get("failurePolicy", "Fail") if isinstance(spec, Mapping) else UNKNOWN
        if policy is UNKNOWN:
            yield _unjudged(planned, "spec.failurePolicy")
        elif policy != "Fail":
            yield (
                f"{planned.label}: spec.failurePolicy is {policy!r}, so that whatever the guard "
                "cannot evaluate passes: set 'Fail'"
            )


def _elsewhere(planned: PlannedObject) -> Iterator[str]:
    """Yield a message for a binding with its own scope, which can only narrow its policy's."""
    if (where := at(planned.body, "spec", "matchResources")) is not None:
        yield (
            f"{planned.label}: spec.matchResources is {where}, so that the guard looks at less "
            "than its policy says: leave it out"
        )


def _unjudged(planned: PlannedObject, path: str) -> str:
    return (
        f"{planned.label}: {path} is not known before the update, so nothing can be said of what "
        "it refuses: give it a value that the plan knows"
    )
