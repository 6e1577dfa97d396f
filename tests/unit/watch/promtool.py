"""Prometheus' own tool on rules and recorded series; Debian's package brings it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from railhead.watch.alerts import Alert
from tests.unit.watch.cases import Case


def written(rules: str, alert: Alert, cases: Iterable[Case]) -> dict[str, Any]:
    """promtool's file of an alert's cases."""
    return {
        "rule_files": [rules],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "name": f"{case.alert} {number}",
                "input_series": [
                    {"series": name, "values": values} for name, values in case.series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": f"{case.at}m",
                        "alertname": alert.name,
                        "exp_alerts": expected(alert, case),
                    }
                ],
            }
            for number, case in enumerate(cases)
        ],
    }


def expected(alert: Alert, case: Case) -> list[dict[str, Any]]:
    """Return what must fire: labels, and texts with the labels filled in."""
    if case.labels is None:
        return []

    def filled(text: str) -> str:
        return re.sub(
            r"\{\{ \$labels\.(\w+) \}\}", lambda m: (case.labels or {}).get(m[1], ""), text
        )

    return [
        {
            "exp_labels": {"severity": alert.labels.severity, **case.labels},
            "exp_annotations": {
                "summary": case.summary,
                "description": filled(alert.annotations.description),
                "runbook": alert.annotations.runbook,
            },
        }
    ]


def run(
    promtool: Path, folder: Path, rule: dict[str, Any], alert: Alert, cases: Sequence[Case]
) -> tuple[bool, str]:
    """Return whether promtool has all of an alert's cases come true of a rule, and what it says."""
    folder.mkdir(parents=True, exist_ok=True)
    rules = {"groups": [{"name": "one", "rules": [rule]}]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    (folder / "test.yaml").write_text(yaml.safe_dump(written("rules.yaml", alert, cases)))
    done = subprocess.run(
        [str(promtool), "test", "rules", "test.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode == 0, done.stdout + done.stderr
