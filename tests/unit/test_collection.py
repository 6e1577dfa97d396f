"""Files in which a target looks for its tests (tests/conftest.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import pytest_ignore_collect

REPO = Path(__file__).resolve().parents[2]
# Its own mark is `controlplane`; another file gives some of its parameters `exhaustive`.
FILE = REPO / "tests" / "components" / "test_job_guards.py"


@pytest.mark.parametrize(
    ("expression", "left_out"),
    [
        ("exhaustive and not lab", None),
        ("(controlplane or slow) and not lab and not exhaustive", None),
        ("lab and not exhaustive", True),
        ("", None),
    ],
)
def test_file_is_left_out_where_none_of_its_tests_is_asked_for(
    expression: str,
    left_out: bool | None,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pytestconfig.option, "markexpr", expression)
    assert pytest_ignore_collect(FILE, pytestconfig) is left_out
