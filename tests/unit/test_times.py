"""What `make test` says of its own time."""

from __future__ import annotations

import json
import os
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


def test_the_table_has_every_stage_its_failures_and_the_slowest_files(reports: Path) -> None:
    assert times.table(times.stages(reports)) == (
        "stage           passed  failed  skipped  seconds\n"
        "quick                1       2        1       60\n"
        "lint                                           4\n"
        "all                  1       2        1       64\n"
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


@pytest.mark.parametrize("command", ["exit 3", "false; true"])
def test_a_stage_that_fails_still_fails_and_is_noted(tmp_path: Path, command: str) -> None:
    """The recipe of a stage as make runs it, with another command in place of pytest."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "times.py").write_text("import sys; print('noted', *sys.argv[1:])\n")
    (tmp_path / ".venv").symlink_to(REPO / ".venv")
    text = (REPO / "Makefile").read_text()
    (tmp_path / "Makefile").write_text(f"{text}\nprobe:\n\t$(call stage,probe)\n\t{command}\n")
    done = subprocess.run(
        ["make", "probe"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "noted probe 0" in done.stdout
