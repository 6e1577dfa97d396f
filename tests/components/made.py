"""All that a stack makes, as one readable text: what the snapshots in ``made`` hold.

The lab's snapshot has every value whole. In another one, a long value stands as what is other than
in the lab's resource of that name, line by line; a variant has what is other than in its stack.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import yaml

from tests.components.recording import Recording, Registered, recorded

MADE = Path(__file__).with_name("made")
#: What is longer as JSON (a pod's template, a policy's rules) is compared line by line.
LONGEST = 240
REFERENCE = "lab"
#: Of a policy, in the lab's snapshot alone: the guards' own tests hold them for each fabric.
RULES = {"matchConditions", "variables", "validations"}
#: Alerts, dashboards and what they are made of have tests and pages of their own.
WATCHING = "-watching-"
#: Held by examples of its own, and changes with all else (tests/unit/contract/examples), but for
#: what the platform says of what it made.
CONTRACT = ("contract", "contract.json")


def made(recording: Recording, beside: Recording | None = None) -> str:
    """Return each resource with its inputs and options, in the order of their URNs.

    ``beside``: only what is otherwise than there.
    """
    parts, cluster = _parts(recording), _cluster(recording)
    if beside is not None:
        there = _parts(beside)
        parts = {urn: part for urn, part in parts.items() if there.get(urn) != part}
        compared = {urn: there[urn][1] for urn in parts if urn in there}
    elif cluster != REFERENCE:
        known = _reference()
        compared = {urn: known.get(_common(r, cluster), {}) for urn, (r, _) in parts.items()}
    else:
        compared = {}
    return "".join(_text(*parts[urn], compared.get(urn, {})) for urn in sorted(parts))


@functools.cache
def _reference() -> dict[str, dict[str, Any]]:
    """Return the lab's resources by type and name without the cluster's."""
    return {
        _common(resource, REFERENCE): registered
        for resource, registered in _parts(recorded(REFERENCE)).values()
    }


def _common(resource: Registered, cluster: str) -> str:
    return f"{resource.type} {resource.name.removeprefix(cluster)}"


def _cluster(recording: Recording) -> str:
    """Return the cluster's name, which its root has."""
    (root,) = (r.name for r in recording.resources.values() if r.type.endswith(":TrainingCluster"))
    return root


def _parts(recording: Recording) -> dict[str, tuple[Registered, dict[str, Any]]]:
    results, whole = {}, _cluster(recording) == REFERENCE
    for urn, resource in recording.resources.items():
        registered = _plain(_said(recording, resource), recording.folder)
        inputs = registered.get("inputs", {})
        if resource.type.endswith(":ValidatingAdmissionPolicy") and not whole:
            inputs["spec"] |= dict.fromkeys(inputs["spec"].keys() & RULES, "as its tests")
        if resource.type.endswith(":ConfigMap") and WATCHING in resource.name:
            inputs["data"] = dict.fromkeys(inputs["data"], "as its tests")
        elif resource.type.endswith(":ConfigMap") and "data" in inputs:
            programs = [name for name in inputs["data"] if name.endswith(".py")]
            inputs["data"] |= dict.fromkeys(programs, "as its tests")
        results[urn] = (resource, registered)
    return results


def _text(resource: Registered, registered: dict[str, Any], reference: dict[str, Any]) -> str:
    heading = f"{resource.name} ({resource.type.rpartition(':')[2]})"
    fields = {key: _compared(value, reference.get(key)) for key, value in registered.items()}
    return _dump({heading: fields})


def _said(recording: Recording, resource: Registered) -> dict[str, Any]:
    options = {
        "after": sorted(map(_name, _nearest(recording, resource.dependencies))),
        "dependencies": len(resource.dependencies),
        "ignored": sorted(resource.ignore_changes),
        "gone with": _name(resource.deleted_with),
        "protected": resource.protect,
        "retained": resource.retain,
        **resource.manner,
        "inputs": dict(resource.inputs),
        "outputs": recording.outputs.get(resource.urn),
    }
    return {name: value for name, value in options.items() if value}


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def _nearest(recording: Recording, dependencies: Set[str]) -> Set[str]:
    """Return the dependencies that no other one waits for: the rest follows from them."""
    further = {urn for dependency in dependencies for urn in recording.before(dependency)}
    return dependencies - further


def _plain(value: Any, folder: str) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): _contract(inner) if key in CONTRACT else _plain(inner, folder)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(inner, folder) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value


def _contract(value: Any) -> Any:
    message = value if isinstance(value, dict) else {}
    own = {part: message[part] for part in ("details", "made") if message.get(part)}
    return {**own, "all else": "as its examples"} if own else "as its examples"


class _Dumper(yaml.CSafeDumper):
    """Writes a text of several lines as lines."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write every value where it stands."""
        return True


def _lines(dumper: yaml.CSafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style="|" if "\n" in value.strip() else None
    )


_Dumper.add_representer(str, _lines)


def _dump(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=None, width=160)


def _compared(value: Any, reference: Any) -> Any:
    """Return a value as it is, or its long parts as what is other than in ``reference``."""
    if len(json.dumps(value)) <= LONGEST or reference is None:
        return value
    if isinstance(value, dict) and isinstance(reference, dict):
        return {name: _compared(inner, reference.get(name)) for name, inner in value.items()}
    if value == reference:
        return "as there"
    lines, others = _dump(value).splitlines(), _dump(reference).splitlines()
    different = [
        line
        for line in difflib.unified_diff(others, lines, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    less = sum(map(len, different)) < sum(map(len, lines)) // 2
    return {"as there, but": different} if less else value
