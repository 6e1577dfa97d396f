"""Operators that a twin runs: built from one lock, with what they read beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from railhead.lab.artifacts import golang, twin_operators
from railhead.lab.artifacts.commands import Runner


@pytest.mark.parametrize("operator", twin_operators.OPERATORS, ids=lambda o: o.name)
def test_each_lock_has_its_programs_as_tools(operator: twin_operators._Operator) -> None:
    words = (operator.lock / "go.mod").read_text().partition("tool ")[2].split("require")[0]
    tools = words.replace("(", "").replace(")", "").split()
    assert sorted(program.package for program in operator.programs) == sorted(tools)


def test_manifests_and_charts_lie_beside_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
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
    monkeypatch.setenv("RAILHEAD_CACHE", str(tmp_path / "cache"))
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
