"""Every source and page of the repository is in plain English, as far as that can be checked."""

from __future__ import annotations

import pytest

from tests import english
from tests.unit.test_hygiene import tracked

pytestmark = pytest.mark.house


def test_sources_and_pages_are_in_plain_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(english.REPO)
    rows = [
        row for path in tracked() if path.suffix in {".py", ".md"} for row in english.report(path)
    ]
    remedy = 'rewrite as CONTRIBUTING.md, "Plain English"; check by python -m tests.english FILE'
    assert not rows, "\n".join([*rows, remedy])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"""What is read."""', "opens with 'What'"),
        ('def read():\n    """A text."""', "opens with 'A'"),
        (f"def test_{'x' * 56}(): ...", "61 characters"),
        ("def read():\n    found = 1", "called 'found'"),
        ("# Who" + "ever asks.", "says 'Who" + "ever'"),
    ],
)
def test_each_kind_of_fault_is_reported(text: str, words: str) -> None:
    ((_, fault),) = english.faults(text)
    assert words in fault


@pytest.mark.parametrize(
    "text",
    [
        '"""Parts that are read."""',
        "class Row:\n    told: int",
        '@property\ndef text(self):\n    """A text."""',
        "assert value is None",
    ],
)
def test_plain_english_has_no_faults(text: str) -> None:
    assert not list(english.faults(text))


def test_only_the_table_of_pairs_may_show_faults() -> None:
    word = "an" + "ew"
    page = f"| instead of | write |\n| made {word} | recreated |\n\nIt is made {word}.\n"
    assert [line for line, _ in english.faults(page, python=False)] == [4]
