"""Levels and parameters of rules for one repository, from a file beside its policy pack."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pulumi_policy import EnforcementLevel, Policy

from railhead.base.errors import InputError, choices

LEVEL = "enforcementLevel"
LEVELS = tuple(level.value for level in EnforcementLevel)


def settings(file: Path, rules: Iterable[Policy]) -> dict[str, Any]:
    """Return the ``initial_config`` of a pack; ends the pack with the mistakes of the file.

    Args:
        file: rule -> its level, or a mapping of its parameters; absent for none.
        rules: the pack's.
    """
    try:
        return read(file, list(rules))
    except InputError as error:
        # The engine shows what a pack prints, and a traceback where it raises.
        sys.exit(f"error: {error}")


def read(file: Path, rules: Sequence[Policy]) -> dict[str, Any]:
    """Return the settings of a file by rule; the engine checks the types of parameters.

    A rule whose parameters alone are set keeps its level: without one here the engine takes it for
    advisory (pulumi/pulumi v3.272.0, pkg/resource/plugin/analyzer_plugin.go, convertPolicyConfig).

    Raises:
        InputError: it cannot be read, or one line for each mistake in it.
    """
    if not file.is_file():
        return {}
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file}: cannot be read: {error}", remedy="correct the file") from None
    levels = {rule.name: rule.enforcement_level for rule in rules}
    known, wrong, results = [*levels, "all"], [], {}
    if not isinstance(data, dict | None):
        wrong.append(f"{file}: is no mapping of rules to levels")
        data = None
    for name, value in (data or {}).items():
        given = value if isinstance(value, dict) else {LEVEL: value}
        if name not in known:
            wrong.append(f"{file}: {name!r} is no rule{choices(str(name), known)}")
        elif (level := given.get(LEVEL, LEVELS[0])) not in LEVELS:
            wrong.append(f"{file}: {name}: {level!r} is no level{choices(str(level), LEVELS)}")
        else:
            wrong += [f"{file}: {text}" for text in _unknown(name, given, rules)]
            level = EnforcementLevel(given[LEVEL]) if LEVEL in given else levels.get(name)
            results[name] = given | ({LEVEL: level} if level else {})
    if wrong:
        raise InputError("\n".join(wrong), remedy=f"edit {file}; docs/reviewing.md lists the rules")
    return results


def _unknown(name: str, given: Mapping[str, Any], rules: Sequence[Policy]) -> Iterator[str]:
    """Yield a message for each parameter that the rule does not have."""
    schema = next((rule.config_schema for rule in rules if rule.name == name), None)
    parameters = list(schema.properties) if schema else []
    for key in given:
        if key not in (LEVEL, *parameters):
            yield f"{name}: {key!r} is no parameter{choices(str(key), [LEVEL, *parameters])}"
