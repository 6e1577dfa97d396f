"""Table of the faults that reviews found by reading, and of what finds each of them now.

`python -m tests.twin.faults` writes the part of docs/rehearsing.md that is made of it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

ROWS = Path(__file__).with_name("faults.yaml")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "rehearsing.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
Found = Literal["twin", "check", "test", "engine", "reading"]
Severity = Literal["critical", "high", "medium", "low"]


class Fault(BaseModel):
    """One fault; ``why`` says of one that only reading finds why that is so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    severity: Severity
    fault: str
    found: Found
    held_by: tuple[str, ...] = ()
    why: str = ""

    @model_validator(mode="after")
    def _is_held_or_explained(self) -> Fault:
        if bool(self.held_by) == (self.found == "reading") or bool(self.why) == bool(self.held_by):
            raise ValueError(f"{self.id} is held by a test, or says why by none")
        return self


def faults() -> list[Fault]:
    """Return all rows."""
    return [Fault.model_validate(row) for row in yaml.safe_load(ROWS.read_text())]


def share(rows: list[Fault]) -> float:
    """Return the part of those above low that a machine finds."""
    above = [row for row in rows if row.severity != "low"]
    return sum(row.found != "reading" for row in above) / len(above)


def page() -> str:
    """Return the part of the page: how many of which severity are found how, and two lists."""
    rows = faults()
    counts = Counter((row.severity, row.found) for row in rows)
    lines = [
        "| severity | faults | rehearsal | check or policy | test | real engine or API | reading |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for severity in get_args(Severity):
        numbers = [counts[severity, means] for means in get_args(Found)]
        cells = " | ".join(str(number) for number in (sum(numbers), *numbers))
        lines.append(f"| {severity} | {cells} |")
    lines += ["", "| a rehearsal fails for | severity | review |", "| --- | --- | --- |"]
    lines += [f"| {r.fault} | {r.severity} | {r.id} |" for r in rows if r.found == "twin"]
    lines += ["", "| only reading finds | severity | because |", "| --- | --- | --- |"]
    lines += [f"| {r.fault} | {r.severity} | {r.why} |" for r in rows if r.found == "reading"]
    return "\n".join(lines)


def main() -> None:
    """Write the part of the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{page()}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
