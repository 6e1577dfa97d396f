"""A rehearsal's report: a table for people, JSON and JUnit for machines, a page to keep."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, TypeAdapter

from railhead.base.data import load
from railhead.twin.steps import Outcome

if TYPE_CHECKING:
    from rich.table import Table

_FILE = Path(__file__).resolve().parent / "unknown.yaml"
_COLOURS: Mapping[str, str] = {"passed": "green", "failed": "red", "skipped": "dim"}


class Unknown(BaseModel):
    """A fact that no rehearsal knows.

    Attributes:
        id: its name.
        text: one sentence.
        platform: the platform that it is about; empty for all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    text: str
    platform: str = ""


def unknown(platform: str) -> tuple[Unknown, ...]:
    """Return what a rehearsal of a platform's stack cannot know."""
    rows = TypeAdapter(tuple[Unknown, ...]).validate_python(load(_FILE))
    return tuple(row for row in rows if row.platform in ("", platform))


def table(stack: str, outcomes: Sequence[Outcome]) -> Table:
    """Return the steps, how long each took and what became of it."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=f"Rehearsal of {stack}", title_justify="left")
    made.add_column("step")
    made.add_column("seconds", justify="right")
    made.add_column("verdict")
    made.add_column("what happened", overflow="fold")
    for outcome in outcomes:
        seconds = f"{outcome.seconds:.1f}" if outcome.verdict != "skipped" else ""
        made.add_row(
            outcome.name,
            seconds,
            Text(outcome.verdict, style=_COLOURS[outcome.verdict]),
            Text(outcome.text or outcome.does),
        )
    return made


def to_json(
    stack: str, outcomes: Sequence[Outcome], unknown: Sequence[Unknown], mebibytes: int
) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "stack": stack,
        "passed": not any(outcome.verdict == "failed" for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        "memory_mib": mebibytes,
        "steps": [asdict(o) | {"seconds": round(o.seconds, 1)} for o in outcomes],
        "unknown": [row.model_dump(exclude={"platform"}) for row in unknown],
    }


def junit(stack: str, outcomes: Sequence[Outcome]) -> str:
    """Return the report as JUnit's XML."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"rehearsal of {stack}",
        tests=str(len(outcomes)),
        failures=str(sum(o.verdict == "failed" for o in outcomes)),
        skipped=str(sum(o.verdict == "skipped" for o in outcomes)),
        time=f"{sum(o.seconds for o in outcomes):.1f}",
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"rehearse.{stack}",
            name=outcome.name,
            time=f"{outcome.seconds:.1f}",
        )
        if outcome.verdict == "failed":
            first = outcome.text.splitlines()[0] if outcome.text else outcome.does
            ElementTree.SubElement(case, "failure", message=first).text = outcome.text
        elif outcome.verdict == "skipped":
            ElementTree.SubElement(case, "skipped", message=outcome.text)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def page(stack: str, outcomes: Sequence[Outcome], unknown: Sequence[Unknown]) -> str:
    """Return the report as one HTML page that needs nothing else."""
    rows = "\n".join(
        f'<tr class="{o.verdict}"><td>{html.escape(o.name)}</td><td>{html.escape(o.does)}</td>'
        f"<td>{o.seconds:.1f}</td><td>{o.verdict}</td><td>{html.escape(o.text)}</td></tr>"
        for o in outcomes
    )
    open_ = "\n".join(f"<li>{html.escape(row.text)}</li>" for row in unknown)
    failed = [o.name for o in outcomes if o.verdict == "failed"]
    verdict = f"failed at {', '.join(failed)}" if failed else "passed"
    return _PAGE.format(
        stack=html.escape(stack), verdict=html.escape(verdict), rows=rows, unknown=open_
    )


def write(folder: Path, name: str, text: str) -> Path:
    """Write one file of the report; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (file := folder / name).write_text(text, encoding="utf-8")
    return file


def dump(report: Mapping[str, Any]) -> str:
    """Return JSON as it is printed."""
    return json.dumps(report, indent=1)


_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Rehearsal of {stack}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto }}
table {{ border-collapse: collapse; width: 100% }}
td, th {{ border-bottom: 1px solid #ccc; padding: .4rem .6rem; text-align: left }}
.passed td:nth-child(4) {{ color: #186a3b }}
.failed td:nth-child(4) {{ color: #a93226; font-weight: bold }}
.skipped {{ color: #777 }}
</style>
<h1>Rehearsal of {stack}: {verdict}</h1>
<table>
<tr><th>step</th><th>what it does</th><th>seconds</th><th>verdict</th><th>what happened</th></tr>
{rows}
</table>
<h2>What the twin cannot know</h2>
<ul>
{unknown}
</ul>
</html>
"""
