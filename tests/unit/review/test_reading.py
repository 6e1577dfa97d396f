"""Files of a pull request that are odd, deep or large: they end no review."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railhead.review import place
from railhead.review import sources as reading
from railhead.review.compare import Change, Planned
from railhead.review.judges import judges, program
from railhead.review.model import Place
from railhead.review.reading import mapping, tree
from railhead.review.review import _not_looked_at
from railhead.review.statements import statements
from railhead.review.unseen import unseen
from railhead.review.workflows import workflows
from tests.unit.review.pulled import laid, write

DEEP = "[" * 5000
BOMB = "a0: &a0 [x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
WORKFLOW = ".github/workflows/it.yml"


@pytest.mark.parametrize(
    "text", ["- a\n", f"a: {DEEP}", "a: &a [*a]\n", "? [a]\n: b\n", "\0", "a: 2020-99-99\n", BOMB]
)
def test_yaml_that_is_no_mapping_is_none(repository: Path, text: str) -> None:
    assert mapping(text) is None
    source = write(laid(repository), WORKFLOW, "on: {schedule: []}\n", text)
    assert [row.rule for row in workflows(source)] == ["pipeline-rights"]
    assert judges(source, allowed=False).changed


def test_yaml_with_aliases_is_read() -> None:
    assert mapping("a: &a [1]\nb: *a\n") == {"a": [1], "b": [1]}
    assert mapping("") == mapping(None) == {}


@pytest.mark.parametrize("text", ["\0", "(" * 5000, "a = " + "-" * 90000 + "1", "a b"])
def test_python_that_cannot_be_read_is_text(repository: Path, text: str) -> None:
    assert tree(text) is None
    assert program(text) == text
    assert program(f"a = {'.a'.join(['b'] * 3000)}")
    name = "components/a.py"
    assert list(unseen(write(laid(repository), name, "a = make(b=1)\n", text), [name], ()))


def test_deep_statement_is_no_traceback(repository: Path) -> None:
    text = f"a = {{'Action': {'.a'.join(['b'] * 3000)}}}\n"
    source = write(laid(repository), "components/a.py", text, text.replace("b.a", "c.a", 1))
    assert [row.level for row in statements(source)] == ["ask"]


def test_events_that_are_mappings_are_no_traceback(repository: Path) -> None:
    source = laid(repository)
    judged = judges(
        write(source, WORKFLOW, None, "on: [push, {pull_request: {}}]\n"), allowed=False
    )
    assert judged.changed


def test_name_that_is_not_utf8_is_listed(repository: Path) -> None:
    Path(os.fsdecode(os.fsencode(repository) + b"/a\xff.py")).write_text("a = 1\n")
    (name,) = laid(repository).changed
    assert name == "a\N{REPLACEMENT CHARACTER}.py"


def test_large_files_are_compared_by_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [f"{n % 7}" for n in range(40)]
    new = ["first", *old[:5], "in", "between", *old[5:20], "other", *old[21:35], "last"]
    texts = ["\n".join(lines) for lines in (old, new)]
    source = write(laid(repository), "a.json", *texts)
    hunks = source.hunks("a.json")
    assert source.hunks("a.json") is hunks
    monkeypatch.setattr(reading, "_LINES", 10)
    by_git = write(source, "a.json", *texts).hunks("a.json")
    assert by_git == hunks
    assert len(by_git) == 4
    (hunk,) = write(source, "a.json", texts[0], "").hunks("a.json")
    assert (hunk.was, hunk.line, len(hunk.before)) == (1, 1, 40)


def test_file_that_is_too_large_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BYTES", 10)
    source = write(laid(repository), "b.json", None, "a" * 11)
    assert source.text("b.json", head=True) is None
    assert source.large == ("b.json",)
    assert any(row.endswith("too large to read: b.json") for row in _not_looked_at(source, []))


def test_change_that_nothing_traces_is_a_guess(repository: Path) -> None:
    source = write(laid(repository), "components/a.py", "a = 1\n", "a = 2\n")
    for frames, kind in (((("components/a.py", 1),), Place), ((), place.Guess)):
        it = Planned(urn="u", type="t", name="n", inputs={}, frames=frames)
        change = Change(kind="changed", before=it, after=it)
        where, hunk = place.of_change(source, "stacks/Pulumi.a.yaml", change, "")
        assert type(where) is kind
        assert hunk is not None


def test_change_is_placed_where_its_values_are(repository: Path) -> None:
    lines = ["# Yes.\n", *(f"a{number}: b\n" for number in range(1, 40))]
    now = [
        "# Also.\n",
        *lines[1:10],
        "cpu: 180\n",
        *lines[11:30],
        "hcas: [mlx5_4]\n",
        *lines[31:],
    ]
    source = write(laid(repository), "stacks/Pulumi.a.yaml", "".join(lines), "".join(now))
    it = Planned(urn="u", type="t", name="n", inputs={})
    change = Change(kind="changed", before=it, after=it)
    rows = (("sets NCCL_IB_HCA==mlx5_4", 31), ("is promised 180 cpu", 11), ("is deleted", 11))
    for what, line in rows:
        where, _ = place.of_change(source, "stacks/Pulumi.a.yaml", change, what)
        assert where == Place(file="stacks/Pulumi.a.yaml", line=line)
