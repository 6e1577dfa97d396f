"""Findings, as commands print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from railhead.base.finding import Finding


def rows(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return the objects that ``--json`` prints."""
    return [
        {"name": f.name, "passed": f.passed, "text": f.text, "remedy": f.remedy} for f in findings
    ]


def show(findings: Iterable[Finding], marks: Mapping[bool | None, str]) -> None:
    """Print each finding behind the mark of its ``passed``, and below it what to do."""
    for finding in findings:
        typer.echo(f"{marks[finding.passed]:8} {finding.name}: {finding.text}")
        if finding.remedy:
            typer.echo(f"{'':8}   fix: {finding.remedy}")
