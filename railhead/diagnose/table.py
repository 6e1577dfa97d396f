"""The table of causes in the documentation, made from the knowledge base.

`python -m railhead.diagnose.table docs/diagnosing.md` writes it between the page's marks.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from railhead.diagnose.knowledge import CAUSES
from railhead.diagnose.model import Cause
from railhead.diagnose.report import sureness

BEGIN = "<!-- causes: begin -->"
END = "<!-- causes: end -->"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _row(cause: Cause) -> str:
    best = max(rule.confidence for rule in cause.rules)
    fix = cause.fix
    where = f"{fix.where}: `{fix.path}`" if fix.path else "by hand"
    cells = (f"`{cause.id}`", cause.title, sureness(best), where, cause.confirm)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def markdown() -> str:
    """Return the table, a heading for each family."""
    parts = [BEGIN, ""]
    for family, causes in groupby(CAUSES.values(), key=lambda cause: cause.family):
        parts += [
            f"### {family}",
            "",
            "| cause | what it is | at best | fix | confirm |",
            "| --- | --- | --- | --- | --- |",
            *(_row(cause) for cause in causes),
            "",
        ]
    return "\n".join([*parts, END])


def replaced(page: str) -> str:
    """Return a page with the table brought up to date.

    Raises:
        ValueError: the page has no marks for it.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return head + markdown() + tail


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(replaced(path.read_text()))
