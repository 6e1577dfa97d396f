"""How the checks before a launch are found, ordered and added up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from railhead.base.finding import Finding, checks_in
from railhead.launch import checks
from railhead.launch.asked import Asked


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "some_checks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, order in (("late", 3), ("early", 1), ("between", 2), ("also_between", 2)):
        (folder / f"{name}.py").write_text(f"ORDER = {order}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("some_checks")
    for name in [name for name in sys.modules if name.partition(".")[0] == "some_checks"]:
        del sys.modules[name]


def test_a_check_is_found_by_being_there_and_runs_in_its_turn(package: ModuleType) -> None:
    names = [module.__name__.rpartition(".")[2] for module in checks_in(package)]
    assert names == ["early", "also_between", "between", "late"]


def test_admission_is_the_last_and_asked_only_of_what_passed() -> None:
    admission = checks_in(checks)[-1]
    assert admission.__name__.endswith(".admission")
    failed = Finding(name="quota", passed=False, text="too small")
    # Nothing of it is read: a cluster that is asked would break on None.
    asked = Asked(cluster=None, plan=None, contract=None, found=(failed,))  # type: ignore[arg-type]
    assert admission.check(asked) == []
