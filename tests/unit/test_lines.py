"""Tests of the choice of tests that run on a mutant of a line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import lines

REPO = Path(__file__).resolve().parents[2]
SOURCE = """\
import functools
LIMIT = 3
@functools.cache
def kept():
    return LIMIT
def plain(x):
    if x in (
        1,
        LIMIT,
    ):
        return 1
    elif x:
        return 2
def never():
    return 0
"""
TESTS = """\
import pytest, code
@pytest.fixture(scope="module")
def shared():
    return code.plain(5)
def test_a(): code.kept(); code.plain(1)
def test_b(): code.kept()
def test_c(shared): pass
def test_d(): code.plain(0)
"""


def test_statement_excludes_lines_of_nested_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "REPO", tmp_path)
    (tmp_path / "code.py").write_text(SOURCE)
    results = {line: lines.statement("code.py", line) for line in (2, 8, 12, 13)}
    assert results == {2: {2}, 8: {7, 8, 9, 10}, 12: {12}, 13: {13}}


@pytest.mark.slow
def test_shared_lines_run_all_tests_that_may_use_them(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(SOURCE)
    (tmp_path / "test_code.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("def test_e(): pass\n")
    (tmp_path / "asked.py").write_text(
        "import sys; from pathlib import Path; from tools import lines\n"
        "lines.REPO = Path.cwd(); sys.path.insert(0, '.')\n"
        "ended, found = lines.measure(['code.py'], ['-q', '-p', 'no:cacheprovider', '.'])\n"
        "assert ended == 0\n"
        "found.seconds.update({name: name for name in found.seconds})\n"
        "for line in (2, 5, 8, 11, 13, 15):\n"
        "    print(line, *(name[-1] for name in found.tests('code.py', line)))\n"
    )
    done = subprocess.run(
        [sys.executable, "asked.py"],
        cwd=tmp_path, env={"PYTHONPATH": str(REPO)}, capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-6:] == [
        *("2 a b c d e", "5 a b c d e", "8 a b c d", "11 a", "13 a b c d"),
        "15",
    ]
