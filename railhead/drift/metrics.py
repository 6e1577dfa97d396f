"""Writes the differences for a Prometheus: a file for node exporter's textfile collector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from railhead.drift import Drift, Severity


def rendered(stack: str, found: Sequence[Drift], at: float) -> str:
    """Return Prometheus' text: how much differs by severity, zeros too; ``at`` in Unix seconds."""
    counted = Counter(item.severity for item in found)
    lines = [
        "# HELP railhead_drift_differences What differs from the stack, by how bad it is.\n",
        "# TYPE railhead_drift_differences gauge\n",
    ]
    lines += [
        f'railhead_drift_differences{{stack="{stack}",severity="{severity.name.lower()}"}}'
        f" {counted[severity]}\n"
        for severity in Severity
    ]
    lines += [
        "# HELP railhead_drift_checked_timestamp_seconds When it was last looked at.\n",
        "# TYPE railhead_drift_checked_timestamp_seconds gauge\n",
        f'railhead_drift_checked_timestamp_seconds{{stack="{stack}"}} {at:.0f}\n',
    ]
    return "".join(lines)


def write(file: Path, text: str) -> None:
    """Replace ``file`` whole: a collector never reads half of it. Raises OSError."""
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.chmod(0o644)
    unfinished.replace(file)
