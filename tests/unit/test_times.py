"""Reports of `make test` on its own time."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tools import times

REPO = Path(__file__).resolve().parents[2]
XML = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.unit.test_a.TestOne" name="x" time="1.5"/>
<testcase classname="tests.unit.test_a" name="y" time="0.5"
><failure message="it is&#10;3"/></testcase>
<testcase classname="tests.unit.test_b" name="x" time="4.0"><skipped/></testcase>
<testcase classname="tests.unit.test_b" name="x" time="0.0"><error/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    for at, (name, seconds) in enumerate((("quick", 60), ("lint", 4))):
        note = tmp_path / f"{name}.json"
        note.write_text(json.dumps({"seconds": seconds}))
        os.utime(note, (at, at))
    (tmp_path / "quick.xml").write_text(XML)
    return tmp_path


def test_table_lists_stages_failures_and_slowest_files(reports: Path) -> None:
    assert times.table(times.stages(reports)) == (
        "stage            passed   failed unsteady  skipped  seconds\n"
        "quick                 1        2        0        0       60\n"
        "lint                                                      4\n"
        "all                   1        2        0        0       64\n"
        "\n"
        "slowest files, in seconds of their tests:\n"
        "     4.0  tests/unit/test_b.py (quick)\n"
        "     2.0  tests/unit/test_a.py (quick)\n"
        "\n"
        "failed:\n"
        "  tests/unit/test_a.py::y: it is 3\n"
        "  tests/unit/test_b.py::x: error"
    )


def test_a_stage_alone_has_no_sum(reports: Path) -> None:
    assert "all " not in times.table([times.read(reports, "lint")])


def test_test_that_passes_on_the_second_run_is_unsteady(reports: Path) -> None:
    (reports / "quick-again.xml").write_text(
        """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="y" time="0.5"/>
<testcase classname="tests.unit.test_b" name="x" time="4.0"><failure message="still"/></testcase>
</testsuite></testsuites>"""
    )
    stage = times.read(reports, "quick")
    assert stage.outcomes == {"passed": 1, "unsteady": 1, "failed": 1}
    assert times.table([stage]).endswith(
        "\nunsteady: failed, and passed when run once more:\n"
        "  tests/unit/test_a.py::y: it is 3\n"
        "\nfailed:\n"
        "  tests/unit/test_b.py::x: error"
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile beside this environment, where nothing else is."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "times.py").write_text("import sys; print('noted', *sys.argv[1:])\n")
    (tmp_path / ".venv").symlink_to(REPO / ".venv")
    return tmp_path


def make(checkout: Path, *recipe: str) -> subprocess.CompletedProcess[str]:
    lines = "".join(f"\t{line}\n" for line in ("$(call stage,probe)", *recipe))
    (checkout / "Makefile").write_text(f"{(REPO / 'Makefile').read_text()}\nprobe:\n{lines}")
    return subprocess.run(
        ["make", "probe"], cwd=checkout, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("command", ["exit 3", "false; true"])
def test_a_stage_that_fails_still_fails_and_is_noted(checkout: Path, command: str) -> None:
    """The recipe of a stage as make runs it, with another command in place of pytest."""
    done = make(checkout, command)
    assert done.returncode == 2
    assert re.search(r"^noted probe \d+$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code", "tries"),
    [
        ("def test_x(): pass", 0, 1),
        ("def test_x(): assert len(TRIES.read_text()) > 1", 0, 2),
        ("def test_x(): assert False", 2, 2),
        # Not a test's failure: nothing to try again.
        ("raise RuntimeError", 2, 1),
    ],
    ids=["passes", "unsteady", "fails", "broken"],
)
def test_failed_tests_run_once_more_only(checkout: Path, body: str, code: int, tries: int) -> None:
    """Tests that pass are not run twice."""
    (checkout / "test_it.py").write_text(
        "from pathlib import Path\n"
        "TRIES = Path('tries'); TRIES.open('a').write('x')\n"
        f"{body}\n"
        "def test_other(): Path('other').open('a').write('x')\n"
    )
    done = make(checkout, "$(call tests,probe,test_it.py)")
    assert done.returncode == code, done.stdout
    assert len((checkout / "tries").read_text()) == tries
    if body.startswith("def"):
        assert (checkout / "other").read_text() == "x"
        again = checkout / "build" / "reports" / "probe-again.xml"
        assert again.exists() is (tries == 2)
