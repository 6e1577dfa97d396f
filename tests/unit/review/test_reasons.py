"""The base's own words of lines that a pull request changes, in the comment."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.review.markdown import markdown
from railhead.review.model import Finding, Place
from railhead.review.reasons import reasoned
from tests.unit.review.pulled import laid, write
from tests.unit.review.test_outputs import finding, review

CODE = '''"""Claims."""


def kept(args):
    """Return the claims, left where they are when the stack goes."""
    # The data stays when the stack is destroyed.
    opts = options(
        parent=args.parent,
        retain=True,  # also of a renamed one
    )
    return claim(opts, size=args.size)
'''
STACK = """platform:
  kind: existing
  # Resources are replaced when this changes.
  identity: a
  context: b
"""
DEEP = """drain:
  # No node is touched before its job ends.
  wait:
    pods: a
    after: 0
  last: 0
"""
WHY = "    # The data stays when the stack is destroyed.\n"
KEEP = "        retain=True,  # also of a renamed one\n"


@pytest.mark.parametrize(
    ("name", "before", "old", "new", "reason"),
    [
        ("components/a.py", CODE, KEEP, "", "also of a renamed one"),
        (
            "components/a.py",
            CODE,
            "    # The data stays when the stack is destroyed.\n    opts",
            "    opts",
            "The data stays when the",
        ),
        ("components/a.py", CODE, "left where they are", "kept", "left where they are when the"),
        ("components/a.py", CODE, "size=args.size", "size=1", ""),
        ("components/a.py", CODE, "args.parent", "None", "The data stays when the stack"),
        ("stacks/a.yaml", STACK, "identity: a", "identity: b", "Resources are replaced when"),
        ("stacks/a.yaml", STACK, "context: b", "context: c", ""),
        ("stacks/a.yaml", DEEP, "after: 0", "after: 1", "No node is touched before its job"),
        ("stacks/a.yaml", DEEP, "last: 0", "last: 1", ""),
        ("components/a.py", "def a(:  # a b c d e\n", "a(:", "b(:", ""),
    ],
)
def test_reason_is_the_comment_of_the_lines(
    name: str, before: str, old: str, new: str, reason: str, repository: Path
) -> None:
    source = write(laid(repository), name, before, before.replace(old, new))
    (row,) = reasoned(source, [_at(source.hunks(name)[0].line, name)])
    assert reason in row.reason
    assert bool(row.reason) is bool(reason)


def test_reason_is_that_of_a_line_within_a_change(repository: Path) -> None:
    now = CODE.replace("parent=args.parent", "a=1,\n        b=2")
    source = write(laid(repository), "components/a.py", CODE, now)
    (row,) = reasoned(source, [_at(source.hunks("components/a.py")[0].line + 1, "components/a.py")])
    assert row.reason.startswith("The data stays")


def _at(line: int, name: str) -> Finding:
    return finding(place=Place(file=name, line=line))


def test_note_has_no_reason(repository: Path) -> None:
    source = write(laid(repository), "a.yaml", STACK, STACK.replace("identity: a", "identity: b"))
    note = finding(level="note", place=Place(file="a.yaml", line=4))
    assert [row.reason for row in reasoned(source, [note])] == [""]


def test_reason_is_once_in_the_comment() -> None:
    rows = [finding(subject=name, reason="Both wait for the gate.") for name in ("a", "b")]
    assert markdown(review(*rows)).count("*Both wait for the gate.*") == 1
