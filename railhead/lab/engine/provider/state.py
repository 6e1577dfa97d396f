"""The state that is kept of a resource between runs, and reports of its changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pulumi.runtime.proto import provider_pb2

from railhead.lab.engine.provider import diffing, properties

INPUTS = "__inputs"
API_VERSION = "__initialApiVersion"
FIELD_MANAGER = "__fieldManager"

_Kind = provider_pb2.PropertyDiff
_KINDS = {
    (diffing.Change.ADD, False): _Kind.ADD,
    (diffing.Change.ADD, True): _Kind.ADD_REPLACE,
    (diffing.Change.DELETE, False): _Kind.DELETE,
    (diffing.Change.DELETE, True): _Kind.DELETE_REPLACE,
    (diffing.Change.UPDATE, False): _Kind.UPDATE,
    (diffing.Change.UPDATE, True): _Kind.UPDATE_REPLACE,
}


class InitFailedError(Exception):
    """The resource exists but is not in order; its state must be kept all the same.

    Args:
        problem: one sentence.
        reasons: what stands in the way.
        identifier: the resource's id.
        state: its outputs.
        inputs: its inputs, on a read; None otherwise.
    """

    def __init__(
        self,
        problem: str,
        reasons: list[str],
        identifier: str,
        state: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.reasons = reasons
        self.identifier = identifier
        self.state = state
        self.inputs = inputs


def checkpoint(
    inputs: Mapping[str, Any],
    live: Mapping[str, Any],
    marked: Mapping[str, Any],
    api_version: str,
    manager: str,
) -> dict[str, Any]:
    """Return a resource's state: the live object, the inputs and the provider's own notes.

    Args:
        inputs: plain inputs, as Kubernetes spells them.
        live: the live object.
        marked: the inputs with their secret marks.
        api_version: the version that the resource was created with.
        manager: its field manager.
    """
    state: dict[str, Any] = properties.to_pulumi(dict(live))
    kept: dict[str, Any] = properties.to_pulumi(dict(inputs))
    properties.mark_secrets(state, marked)
    properties.mark_secrets(kept, marked)
    state[INPUTS] = kept
    state[API_VERSION] = api_version
    state[FIELD_MANAGER] = manager
    return state


def parse_checkpoint(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``(inputs, live)`` of a state, plain and as Kubernetes spells them."""
    live: dict[str, Any] = properties.to_cluster(state)
    inputs = live.pop(INPUTS, None) or {}
    live.pop(API_VERSION, None)
    live.pop(FIELD_MANAGER, None)
    return inputs, live


def detailed_diff(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    forced: Iterable[str],
    ignored: Sequence[str],
) -> tuple[dict[str, provider_pb2.PropertyDiff], list[str]]:
    """Return the changes from old to new inputs by path, and the paths that force a replacement.

    Args:
        old: plain inputs.
        new: plain inputs, unknowns in place.
        forced: paths whose change replaces, as ``.spec.selector``.
        ignored: the resource's ``ignoreChanges``.

    Raises:
        ValueError: a path of ``ignored`` is malformed.
    """
    patterns = tuple(forced)
    outer = [diffing.parse_path(path) for path in ignored]
    changes: dict[str, provider_pb2.PropertyDiff] = {}
    replaces: list[str] = []
    for path, (change, value) in diffing.diff(old, new).items():
        if any(diffing.path_contains(covering, path) for covering in outer):
            continue
        force = diffing.replaces(path, value, change, patterns)
        text = diffing.path_text(path)
        changes[text] = provider_pb2.PropertyDiff(kind=_KINDS[(change, force)], inputDiff=True)
        if force:
            replaces.append(text)
    return changes, replaces


def diff_response(
    changes: Mapping[str, provider_pb2.PropertyDiff],
    replaces: Sequence[str],
    *,
    in_place: bool = False,
) -> provider_pb2.DiffResponse:
    """Return the answer for the engine; ``in_place`` deletes the old object before the new one."""
    kinds = provider_pb2.DiffResponse
    return provider_pb2.DiffResponse(
        changes=kinds.DIFF_SOME if changes or replaces else kinds.DIFF_NONE,
        replaces=replaces,
        deleteBeforeReplace=in_place,
        diffs=sorted({path.split(".")[0].split("[")[0] for path in changes}),
        detailedDiff=changes,
        hasDetailedDiff=True,
    )
