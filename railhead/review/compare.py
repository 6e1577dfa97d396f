"""Compares two plans of a stack, resource by resource."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pulumi.runtime.rpc import UNKNOWN

from railhead.lab.planning import Plan
from railhead.lab.recorders.recording import changed_paths, forced

Kind = Literal["added", "deleted", "replaced", "changed"]
_NOTHING: Mapping[str, Any] = {}
_DURATION = re.compile(r"([0-9.]+)(h|m(?!s)|s)")
# The folder of one plan, which is another one in each (`railhead.lab.recorders.workspace`), and the
# stack's in it where the SDK planned it.
_FOLDER = re.compile(
    r"/[^\s'\"]*/railhead-plan-[^/\s'\"]+(?:/[^/\s'\"]+)?(?=/(?:project|cache|home)\b)"
)


@dataclass(frozen=True, kw_only=True)
class Manner:
    """The options of a resource of which the engine prints no plan.

    Args:
        provider: URN of the provider; empty for the default one.
        deleted_with: URN of the resource with which it goes; empty where it goes by itself.
        goes_first: whether it is deleted before its successor is made.
        replaced_for: paths of inputs whose change replaces it, whatever its provider says.
        secret: outputs that are secret, whatever its provider says.
        limits: seconds that each of ``create``, ``update`` and ``delete`` may take.
    """

    provider: str = ""
    deleted_with: str = ""
    goes_first: bool = False
    replaced_for: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A resource of a plan: its inputs, and what the engine does with it.

    ``frames`` are the lines of the program that make it, (file, line), the innermost first.
    """

    urn: str
    type: str
    name: str
    inputs: Mapping[str, Any]
    protect: bool = False
    retain: bool = False
    waits_for: frozenset[str] = frozenset()
    refers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ignores: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    manner: Manner | None = None
    parent: str = ""
    frames: tuple[tuple[str, int], ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """Type, namespace and name in the API server; empty for other resources."""
        metadata = self.inputs.get("metadata")
        if not self.type.startswith("kubernetes:") or not isinstance(metadata, Mapping):
            return ()
        name = str(metadata.get("name") or "")
        return (self.type, str(metadata.get("namespace") or ""), name) if name else ()

    @property
    def label(self) -> str:
        """Kind and name, for people."""
        kind = self.type.rpartition(":")[2]
        if identity := self.identity:
            return f"{kind} {'/'.join(part for part in identity[1:] if part)}"
        return f"{kind} {self.inputs.get('name') or self.name}"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A resource that is not the same in both plans. ``paths`` are the inputs that differ."""

    kind: Kind
    before: Planned | None
    after: Planned | None
    paths: tuple[str, ...] = ()
    forced_by: tuple[str, ...] = ()

    @property
    def either(self) -> Planned:
        """The resource as the head has it, else as the base had it."""
        result = self.after or self.before
        if result is None:
            raise ValueError("a change has a side")
        return result

    @property
    def stays(self) -> bool:
        """Return whether both plans have the resource."""
        return self.before is not None and self.after is not None

    @property
    def was(self) -> Mapping[str, Any]:
        """Inputs of the base; none for an added one."""
        return self.before.inputs if self.before else _NOTHING

    @property
    def now(self) -> Mapping[str, Any]:
        """Inputs of the head; none for a deleted one."""
        return self.after.inputs if self.after else _NOTHING


def resources(plan: Plan, root: str) -> dict[str, Planned]:
    """Return a plan's resources by URN; ``root`` is the checkout, which its code's files are in."""
    return {
        urn: _planned(state, root)
        for urn, state in plan.states.items()
        if not str(state["type"]).startswith(("pulumi:pulumi:", "railhead:"))
    }


def _planned(state: Mapping[str, Any], root: str) -> Planned:
    refers = state.get("propertyDependencies") or {}
    return Planned(
        urn=state["urn"],
        type=state["type"],
        name=str(state["urn"]).rsplit("::", 1)[-1],
        inputs=_parsed(state.get("inputs") or {}),
        protect=bool(state.get("protect")),
        retain=bool(state.get("retainOnDelete")),
        waits_for=frozenset(state.get("dependencies") or ()),
        refers={key: tuple(sorted(urns)) for key, urns in refers.items() if urns},
        ignores=frozenset(state.get("ignoreChanges") or ()),
        aliases=frozenset(state.get("aliases") or ()),
        manner=_manner(state) if "deleteBeforeReplace" in state else None,
        parent=str(state.get("parent") or ""),
        frames=tuple(_frames(state, root)),
    )


def _manner(state: Mapping[str, Any]) -> Manner:
    provider = str(state.get("provider") or "").rpartition("::")[0]
    return Manner(
        provider="" if "::default" in provider else provider,
        deleted_with=state["deletedWith"],
        goes_first=state["deleteBeforeReplace"],
        replaced_for=frozenset(state["replaceOnChanges"]),
        secret=frozenset(state["additionalSecretOutputs"]),
        limits={key: _seconds(text) for key, text in state["customTimeouts"].items()},
    )


def _seconds(text: str) -> float:
    """Return the seconds of one of Go's durations, such as ``1h30m``."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(count) * units[unit] for count, unit in _DURATION.findall(text))


def _frames(state: Mapping[str, Any], root: str) -> Iterator[tuple[str, int]]:
    for frame in state.get("stackTrace") or ():
        path, _, line = str(frame.get("sourcePosition", "")).partition("#")
        # The engine writes it relative to its own folder: project:///../../<path from the root>.
        absolute = "/" + path.removeprefix("project://").lstrip("/").replace("../", "")
        if absolute.startswith(f"{root}/") and line.isdigit():
            name = absolute.removeprefix(f"{root}/")
            # Top-level folders, which links inside the package bring in.
            for folder in ("components/", "policies/"):
                if name.startswith(f"railhead/{folder}"):
                    name = name.removeprefix("railhead/")
            yield name, int(line)


def _parsed(value: Any) -> Any:
    """Return inputs with JSON texts, as IAM documents are, parsed: their order means nothing."""
    if isinstance(value, dict):
        return {key: _parsed(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_parsed(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if value[:1] == "{" and value[-1:] == "}":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return _FOLDER.sub("", value)


def compare(before: Mapping[str, Planned], after: Mapping[str, Planned]) -> list[Change]:
    """Return all differences."""
    before, after = _alike(before, after)
    matched = _matched(before, after)
    moved = _moved(before, after, matched)
    known = {**matched, **moved}
    before = {
        urn: _following(_provided(resource, after.get(known.get(urn, "")), before, after), known)
        for urn, resource in before.items()
    }
    changes = [
        change
        for old, new in matched.items()
        if (change := _changed(before[old], after[new], after)) is not None
    ]
    taken = set(matched.values())
    added = {urn: resource for urn, resource in after.items() if urn not in taken}
    by_identity = {r.identity: r for r in added.values() if r.identity}
    for urn, resource in before.items():
        if urn in matched:
            continue
        same = by_identity.get(resource.identity) or after.get(moved.get(urn, ""))
        if same is None or added.pop(same.urn, None) is None:
            changes.append(Change(kind="deleted", before=resource, after=None))
            continue
        # The engine knows it by another name: it deletes the very object that it has just made.
        paths = tuple(changed_paths(dict(resource.inputs), dict(same.inputs)))
        changes.append(
            Change(kind="replaced", before=resource, after=same, paths=paths, forced_by=("URN",))
        )
    changes += [Change(kind="added", before=None, after=r) for r in added.values()]
    return _cascaded(changes, before, after, known)


def _alike(
    before: Mapping[str, Planned], after: Mapping[str, Planned]
) -> tuple[Mapping[str, Planned], Mapping[str, Planned]]:
    """Return both sides with what both know, where the engine planned one and the SDK the other.

    The engine prints no alias and no manner, and gives each provider its version.
    """
    if any(r.manner for r in before.values()) == any(r.manner for r in after.values()):
        return before, after
    old, new = ({urn: _bare(r) for urn, r in side.items()} for side in (before, after))
    # Those of the head still say what a resource was called.
    return {urn: replace(r, aliases=frozenset()) for urn, r in old.items()}, new


def _bare(resource: Planned) -> Planned:
    inputs = dict(resource.inputs)
    if resource.type.startswith("pulumi:providers:"):
        inputs.pop("version", None)
    return replace(resource, inputs=inputs, manner=None)


def _matched(before: Mapping[str, Planned], after: Mapping[str, Planned]) -> dict[str, str]:
    """Return URN of the base -> that of the head, by URN or by an alias."""
    results = {}
    for urn, resource in after.items():
        previous = urn if urn in before else next((a for a in resource.aliases if a in before), "")
        if previous:
            results[previous] = urn
    return results


def _moved(
    before: Mapping[str, Planned], after: Mapping[str, Planned], matched: Mapping[str, str]
) -> dict[str, str]:
    """Return URN of the base -> that of the head, of what has another parent and no alias."""
    taken = set(matched.values())
    places: dict[tuple[str, str], list[str]] = {}
    for urn, resource in after.items():
        if urn not in taken:
            places.setdefault((resource.type, resource.name), []).append(urn)
    results = {}
    for urn, resource in before.items():
        new = places.get((resource.type, resource.name), []) if urn not in matched else []
        if len(new) == 1 and after[new[0]].identity == resource.identity:
            results[urn] = new[0]
    return results


def _provided(
    old: Planned,
    new: Planned | None,
    before: Mapping[str, Planned],
    after: Mapping[str, Planned],
) -> Planned:
    """Return a resource of the base with the head's provider, if that is configured alike."""
    if old.manner is None or new is None or new.manner is None:
        return old
    was, now = before.get(old.manner.provider), after.get(new.manner.provider)
    if was is None or now is None or (was.type, was.inputs) != (now.type, now.inputs):
        return old
    return replace(old, manner=replace(old.manner, provider=now.urn))


def _cascaded(
    changes: Sequence[Change],
    before: Mapping[str, Planned],
    after: Mapping[str, Planned],
    known: Mapping[str, str],
) -> list[Change]:
    """Return changes with what is replaced because it holds the id of what is replaced.

    An id is not known yet then, as a name that the program gives is.
    """
    results = {change.either.urn: change for change in changes}
    todo = [urn for urn, change in results.items() if change.kind == "replaced"]
    names = {new: old for old, new in known.items()}
    while todo:
        replaced = todo.pop()
        for urn, resource in after.items():
            old = before.get(names.get(urn, ""))
            there = results.get(urn)
            if old is None or (there and there.kind != "changed"):
                continue
            paths = [
                path
                for key, urns in resource.refers.items()
                if replaced in urns
                for path in _unknown(resource.inputs.get(key), key)
            ]
            if fixed := tuple(forced(resource.type, paths)):
                more = there.paths if there else ()
                results[urn] = Change(
                    kind="replaced",
                    before=old,
                    after=resource,
                    paths=(*more, *(p for p in paths if p not in more)),
                    forced_by=fixed,
                )
                todo.append(urn)
    return list(results.values())


def _unknown(value: Any, path: str) -> Iterator[str]:
    """Yield the path of each leaf that is not known before the update; a list is one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _unknown(inner, f"{path}.{key}")
    elif UNKNOWN in str(value):
        yield path


def _following(resource: Planned, matched: Mapping[str, str]) -> Planned:
    """Return a resource of the base that refers to others by the names that the head has."""
    manner = resource.manner
    if manner is not None:
        manner = replace(
            manner,
            provider=matched.get(manner.provider, manner.provider),
            deleted_with=matched.get(manner.deleted_with, manner.deleted_with),
        )
    return replace(
        resource,
        manner=manner,
        waits_for=frozenset(matched.get(urn, urn) for urn in resource.waits_for),
        refers={
            key: tuple(sorted(matched.get(urn, urn) for urn in urns))
            for key, urns in resource.refers.items()
        },
    )


def _changed(old: Planned, new: Planned, after: Mapping[str, Planned]) -> Change | None:
    """Return how a resource differs that both plans have; None if it does not."""
    new = _ignoring(old, new)
    paths = tuple(changed_paths(dict(old.inputs), dict(new.inputs)))
    references = tuple(
        key
        for key in sorted({*old.refers, *new.refers})
        if key in old.inputs and key in new.inputs and old.refers.get(key) != new.refers.get(key)
    )
    options = (
        *(old.protect != new.protect, old.retain != new.retain, old.ignores != new.ignores),
        *(old.aliases - new.aliases, old.manner != new.manner),
    )
    if not (paths or references or any(options) or lost_order(old, new, after)):
        return None
    fixed = tuple(forced(new.type, list(paths)))
    return Change(
        kind="replaced" if fixed else "changed",
        before=old,
        after=new,
        paths=paths + tuple(r for r in references if r not in paths),
        forced_by=fixed,
    )


def _ignoring(old: Planned, new: Planned) -> Planned:
    """Return the new resource with the old inputs that the engine keeps (`ignoreChanges`)."""
    inputs = dict(new.inputs)
    for path in new.ignores:
        keys = path.split(".")
        was: Any = old.inputs
        for key in keys:
            was = was.get(key) if isinstance(was, Mapping) else None
        inputs = _with(inputs, keys, was)
    return replace(new, inputs=inputs)


def _with(value: Mapping[str, Any], keys: Sequence[str], leaf: Any) -> dict[str, Any]:
    key, rest = keys[0], keys[1:]
    copied = dict(value)
    if not rest and leaf is None:
        copied.pop(key, None)
    elif not rest:
        copied[key] = leaf
    elif isinstance(copied.get(key), Mapping):
        copied[key] = _with(copied[key], rest, leaf)
    return copied


def lost_order(old: Planned, new: Planned, after: Mapping[str, Planned]) -> list[str]:
    """Return what a resource no longer waits for, directly or by others, though it is there."""
    gone = [
        urn for urn in old.waits_for - new.waits_for if urn in after and not urn.endswith(new.urn)
    ]
    if not gone:
        return []
    reached: set[str] = set()
    todo = list(new.waits_for)
    while todo:
        urn = todo.pop()
        if urn in reached:
            continue
        reached.add(urn)
        if there := after.get(urn):
            todo += there.waits_for
    return sorted(urn for urn in gone if urn not in reached)
