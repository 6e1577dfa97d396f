"""A preflight's report: a table for people, JSON and JUnit for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from railhead.preflight.run import Result

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS: Mapping[str, str] = {"ok": "green", "failed": "red", "not asked": "dim"}
#: What takes a verdict's place where nobody is asked.
_PROOFS: Mapping[str, str] = {"offline": "offline", "up": "only by `up`"}


def table(stack: str, results: Sequence[Result]) -> Table:
    """Return a row for each assumption, with its proof."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=f"Preflight of {stack}", title_justify="left")
    for column in ("row", "the stack takes for granted that", "verdict", "why"):
        made.add_column(column, overflow="fold")
    for result in results:
        colour = "yellow" if result.unproven else _COLOURS[result.verdict]
        fix = f"\nfix: {result.remedy}" if result.remedy else ""
        made.add_row(
            result.row.id,
            Text(result.row.assumes),
            Text(_PROOFS.get(result.row.proof, result.verdict), style=colour),
            Text(result.text + fix),
        )
    return made


def to_json(stack: str, results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "stack": stack,
        "failed": sum(result.verdict == "failed" for result in results),
        "unproven": sum(result.unproven for result in results),
        "seconds": round(seconds, 1),
        "rows": [
            {
                **result.row.model_dump(),
                "verdict": result.verdict,
                "text": result.text,
                "remedy": result.remedy,
                "unproven": result.unproven,
                "seconds": round(result.seconds, 1),
            }
            for result in results
        ],
    }


def junit(stack: str, results: Sequence[Result]) -> str:
    """Return the report as JUnit's XML; what could not be asked is an error, which is no pass."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"preflight of {stack}",
        tests=str(len(results)),
        failures=str(sum(r.verdict == "failed" for r in results)),
        errors=str(sum(r.unproven for r in results)),
        skipped=str(sum(r.verdict == "not asked" and not r.unproven for r in results)),
        time=f"{sum(r.seconds for r in results):.1f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"preflight.{stack}",
            name=result.row.id,
            time=f"{result.seconds:.1f}",
        )
        if result.verdict == "ok":
            continue
        failed = result.verdict == "failed"
        kind = "failure" if failed else "error" if result.unproven else "skipped"
        ElementTree.SubElement(case, kind, message=result.text).text = result.remedy
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
