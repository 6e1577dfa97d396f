"""Alerts on recorded series, by promtool itself; and with rules that were spoilt, which it tells.

Slow: promtool is fetched where the machine has none.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.lab.artifacts import watching
from railhead.watch.alerts import ALERTS, Alert
from tests.unit.watch import promtool
from tests.unit.watch.cases import CASES, SITE

pytestmark = pytest.mark.slow
every = pytest.mark.parametrize("alert", ALERTS, ids=lambda a: a.name)


@pytest.fixture(scope="module")
def tool() -> Path:
    watching.ensure()
    result = watching.program("promtool")
    assert result is not None
    return result


def holds(tool: Path, folder: Path, alert: Alert, rule: dict[str, Any]) -> tuple[bool, str]:
    mine = [case for case in CASES if case.alert == alert.name]
    return promtool.run(tool, folder, rule, alert, mine)


@every
def test_it_fires_when_it_should_and_not_when_it_should_not(
    tool: Path, tmp_path: Path, alert: Alert
) -> None:
    held, text = holds(tool, tmp_path, alert, alert.rule(SITE))
    assert held, text


def spoilt(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rule with one change: each threshold, each comparison, the wait, the severity."""
    expression = rule["expr"]
    # A number after a comparison or before the star of a share is a threshold.
    for match in re.finditer(r"(?<=[<>=] )[\d.e]+\b|[\d.]+(?= \* )", expression):
        number = float(match[0])
        for other in (number * 4, number / 4) if number else (2.0, -1.0):
            changed = expression[: match.start()] + f"{other:g}" + expression[match.end() :]
            yield f"{match[0]} -> {other:g}", rule | {"expr": changed}
    turned = {" > ": " < ", " < ": " > ", " == ": " != ", " != ": " == ", " >= ": " < "}
    for match in re.finditer(r" (?:[<>]|[<>=!]=) ", expression):
        changed = expression[: match.start()] + turned[match[0]] + expression[match.end() :]
        yield f"comparison at {match.start()}", rule | {"expr": changed}
    for match in re.finditer(r" (?:and|unless) on \([^)]*\).*$", expression):
        yield "the condition cut off", rule | {"expr": _closed(expression[: match.start()])}
    if rule["for"] != "0s":
        yield "no wait", rule | {"for": "0s"}
    yield "a longer wait", rule | {"for": "30h"}
    yield "another severity", rule | {"labels": {"severity": "none"}}


def _closed(expression: str) -> str:
    return expression + ")" * (expression.count("(") - expression.count(")"))


@pytest.mark.exhaustive
@every
def test_a_spoilt_rule_is_noticed(tool: Path, tmp_path: Path, alert: Alert) -> None:
    rule = alert.rule(SITE)
    unnoticed = [
        what
        for number, (what, other) in enumerate(spoilt(rule))
        if holds(tool, tmp_path / str(number), alert, other)[0]
    ]
    assert unnoticed == []


def test_all_rules_load_as_one_file(tool: Path, tmp_path: Path) -> None:
    groups = [{"name": "all", "rules": [alert.rule(SITE) for alert in ALERTS]}]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    done = subprocess.run(
        [str(tool), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(ALERTS)} rules found" in done.stdout
