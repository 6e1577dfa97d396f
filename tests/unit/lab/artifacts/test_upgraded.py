"""The controllers that a lab is upgraded to: which, from what lock, and what is made of them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from railhead.base.errors import RailheadError
from railhead.catalog.versions import LAB, LAB_UPGRADED, ModuleChart
from railhead.lab.artifacts import charts, golang, upgraded
from tests.unit.lab.artifacts.test_golang import required


def test_its_lock_has_the_catalogues_versions_on_the_labs_own_kubernetes() -> None:
    lock, core = (golang.UPGRADED / "go.mod", golang.CORE / "go.mod")
    rows = upgraded.controllers()
    assert {controller.name for controller, _ in rows} == {
        wanted.name
        for wanted, own in zip(LAB_UPGRADED.controllers, LAB.controllers, strict=True)
        if wanted.version != own.version
    }
    for controller, program in rows:
        assert isinstance(controller.chart, ModuleChart)
        assert required(lock)[controller.chart.module] == controller.tag
        assert f"\t{program.package}\n" in lock.read_text().rpartition("tool (")[2]
        # Kueue refuses to run without a version that it can read.
        assert f"{controller.chart.module}/pkg/version.GitVersion={controller.tag}" in (
            upgraded._link_flags()
        )
    replaced = [
        text.read_text().partition("\nreplace (")[2].partition(")")[0] for text in (lock, core)
    ]
    assert replaced[0] == replaced[1] != ""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules with charts, and a compiler that writes what it was asked for."""
    values = {
        "kueue": {"controllerManager": {"manager": {"image": {"repository": "staging/kueue"}}}},
        "jobset": {"image": {"repository": "staging/jobset"}},
    }
    for controller, _ in upgraded.controllers():
        assert isinstance(controller.chart, ModuleChart)
        chart = tmp_path / "mod" / controller.chart.module / controller.chart.path
        chart.mkdir(parents=True)
        (chart / "Chart.yaml").write_text(yaml.safe_dump({"name": controller.name}))
        (chart / "values.yaml").write_text(yaml.safe_dump(values[controller.name]))

    def build(
        root: Path, programs: list[golang.Program], into: Path, *_: object, flags: str
    ) -> None:
        for program in programs:
            (into / program.name).write_text(f"{root.name} {program.package} {flags}")

    monkeypatch.setattr(golang, "build", build)
    monkeypatch.setattr(golang, "module_dir", lambda module, root: tmp_path / "mod" / module)
    return tmp_path / "mod"


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_what_is_made_is_what_a_lab_loads_and_a_stack_installs(sources: Path) -> None:
    assert not upgraded.ready()
    old = upgraded.directory().with_name("upgraded-of-an-older-lock")
    old.mkdir(parents=True)
    archives = upgraded.ensure(Console(quiet=True))
    assert upgraded.ready()
    assert not old.exists()
    for (controller, program), path in zip(upgraded.controllers(), archives, strict=True):
        with tarfile.open(path) as archive:
            index = json.loads(content(archive, "index.json"))
            layer = max(archive.getmembers(), key=lambda member: member.size)
            assert program.package.encode() in content(archive, layer.name)
        (image,) = index["manifests"]
        named = image["annotations"]["io.containerd.image.name"]
        assert named == f"{controller.image}:{controller.tag}"
        metadata = yaml.safe_load((charts.chart_dir(controller) / "Chart.yaml").read_text())
        assert (metadata["version"], metadata["appVersion"]) == (controller.version, controller.tag)


def test_it_is_made_once(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = upgraded.ensure(Console(quiet=True))
    monkeypatch.delattr(golang, "build")
    assert upgraded.ensure(Console(quiet=True)) == archives


def test_a_build_that_fails_leaves_nothing(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, flags: str) -> None:
        raise RailheadError(flags, remedy="")

    monkeypatch.setattr(golang, "build", build)
    with pytest.raises(RailheadError, match="GitVersion"):
        upgraded.ensure(Console(quiet=True))
    assert not upgraded.directory().exists()
    assert not upgraded.ready()


def test_another_lock_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = upgraded.directory()
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text(f"{(golang.UPGRADED / name).read_text()}\n")
    monkeypatch.setattr(golang, "UPGRADED", tmp_path)
    assert upgraded.directory() != before
