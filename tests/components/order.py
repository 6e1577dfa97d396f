"""Order of a recorded run: which resources exist before others, and are deleted after them."""

from __future__ import annotations

from tests.components.recording import Recording, Registered


def before(recording: Recording, urn: str) -> set[str]:
    """Return all that exists before a resource and is deleted after it.

    Its dependencies, its provider and its parents, with theirs.
    """
    results: set[str] = set()
    todo = [urn]
    while todo:
        resource = recording.resources[todo.pop()]
        edges = {*resource.dependencies, resource.parent}
        if resource.provider:
            edges.add(resource.provider.rsplit("::", 1)[0])
        for edge in edges - results - {""}:
            results.add(edge)
            todo.append(edge)
    return results


def assert_first(recording: Recording, needed: list[Registered], step: Registered) -> None:
    """Assert that there are resources in ``needed``, and that each exists before ``step``."""
    assert needed, f"nothing of what {step.name} needs is there at all"
    missing = {r.urn for r in needed} - before(recording, step.urn)
    assert not missing, f"{step.urn} may run without {sorted(missing)}"


def turns(recording: Recording) -> dict[str, int]:
    """Return in which turn `destroy` deletes each resource; a failed turn is its last.

    pulumi, pkg/resource/deploy/deployment_executor.go: what no other resource needs any more goes
    at once, and the next turn begins when that is gone.
    """
    needed_by: dict[str, set[str]] = {urn: set() for urn in recording.resources}
    for urn in recording.resources:
        for first in before(recording, urn) & needed_by.keys():
            needed_by[first].add(urn)
    result: dict[str, int] = {}
    # What exists before another is needed by all that needs that one, and by one more.
    for urn in sorted(needed_by, key=lambda urn: len(needed_by[urn])):
        result[urn] = 1 + max((result[later] for later in needed_by[urn]), default=0)
    return result
