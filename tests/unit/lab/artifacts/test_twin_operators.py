"""Operators that a twin runs: built from one lock, with what they read beside them."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from railhead.base.errors import PrerequisiteError
from railhead.lab.artifacts import golang, space, twin_operators
from railhead.lab.artifacts.commands import Runner


@pytest.mark.parametrize("operator", twin_operators.OPERATORS, ids=lambda o: o.name)
def test_each_lock_has_its_programs_as_tools(operator: twin_operators._Operator) -> None:
    words = (operator.lock / "go.mod").read_text().partition("tool ")[2].split("require")[0]
    tools = words.replace("(", "").replace(")", "").split()
    assert sorted(program.package for program in operator.programs) == sorted(tools)


@pytest.fixture
def made(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources to build from, and where to; what is built is empty."""
    made = cache / "bin" / "twin-operators-now"
    for operator in twin_operators.OPERATORS:
        module = tmp_path / operator.module
        (module / "bindata" / "manifests").mkdir(parents=True)
        (module / operator.chart / "templates").mkdir(parents=True)
        for name in (*operator.without, "kept.yaml"):
            (module / operator.chart / "templates" / name).touch()
        file = module / operator.chart / "Chart.yaml"
        file.write_text(yaml.safe_dump({"name": "other", "version": "0.0.0-dev"}))

    def build(_: Path, programs: Sequence[golang.Program], into: Path, *__: object, **___: str):  # type: ignore[no-untyped-def]
        for program in programs:
            (into / program.name).touch()

    monkeypatch.setattr(golang, "build", build)
    monkeypatch.setattr(golang, "module_dir", lambda module, _: tmp_path / module)
    monkeypatch.setattr(twin_operators, "directory", lambda: made)
    return made


def test_manifests_and_charts_lie_beside_the_programs(made: Path) -> None:
    twin_operators.build(Runner(), lambda *_: None)
    assert {p.name for p in made.iterdir()} == {
        "charts",
        "nfd-gc",
        "nfd-master",
        "sriov",
        "sriov-network-operator",
    }
    assert (twin_operators.manifests() / "bindata" / "manifests").is_dir()
    folder = twin_operators.chart_dirs()["sriov-network-operator"]
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    assert chart == {"name": "sriov-network-operator", "version": "1.6.0"}
    assert [p.name for p in (folder / "templates").iterdir()] == ["kept.yaml"]


def test_what_another_checkout_runs_from_stays(made: Path) -> None:
    for age, name in enumerate(("newer", "older")):
        (old := made.with_name(f"twin-operators-{name}")).mkdir(parents=True)
        os.utime(old, (1000 - age, 1000 - age))
    (core := made.with_name("core-1")).mkdir()
    twin_operators.build(Runner(), lambda *_: None)
    assert {p.name for p in made.parent.iterdir()} == {made.name, "twin-operators-newer", core.name}


def test_space_is_looked_at_before_it_is_built(
    made: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, gib: float, _: str) -> None:
        raise PrerequisiteError(f"{path}: {gib > 0}")

    monkeypatch.setattr(golang, "find_go", lambda: (Path("/bin/echo"), "1.26.0"))
    monkeypatch.setattr(space, "require_space", full)
    with pytest.raises(PrerequisiteError, match=f"{cache}: True"):
        twin_operators.ensure(Console(file=io.StringIO()))
    assert not made.exists()


def test_cache_that_cannot_be_written_is_named(made: Path, cache: Path) -> None:
    cache.touch()
    with pytest.raises(PrerequisiteError, match="cannot be written") as caught:
        twin_operators.ensure(Console(file=io.StringIO()))
    assert "RAILHEAD_CACHE" in caught.value.remedy
