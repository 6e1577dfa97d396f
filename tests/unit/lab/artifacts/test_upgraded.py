"""The controllers that a lab is upgraded to: which, from what lock, and what is made of them."""

from __future__ import annotations

import dataclasses
import json
import tarfile
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from railhead.base.errors import RailheadError
from railhead.catalog.versions import LAB, ModuleChart
from railhead.lab.artifacts import charts, golang
from railhead.lab.artifacts.upgraded import UPGRADES, Upgrade
from tests.unit.lab.artifacts.test_golang import required


@pytest.fixture(params=tuple(UPGRADES.values()), ids=tuple(UPGRADES))
def upgrade(request: pytest.FixtureRequest) -> Upgrade:
    result: Upgrade = request.param
    return result


def test_its_lock_has_the_catalogues_versions(upgrade: Upgrade) -> None:
    lock = upgrade.lock / "go.mod"
    rows = upgrade.controllers()
    assert {controller.name for controller, _ in rows} == {
        wanted.name
        for wanted, own in zip(upgrade.combination.controllers, LAB.controllers, strict=True)
        if wanted.version != own.version
    }
    for controller, program in rows:
        assert isinstance(controller.chart, ModuleChart)
        assert required(lock)[controller.chart.module] == controller.tag
        assert f"\t{program.package}\n" in lock.read_text().rpartition("tool (")[2]
    # Kueue refuses to run without a version that it can read.
    for controller in upgrade.combination.controllers[:2]:
        assert isinstance(controller.chart, ModuleChart)
        reported = f"{controller.chart.module}/pkg/version.GitVersion={controller.tag}"
        assert reported in upgrade.link_flags()
    assert f"/version.gitVersion={upgrade.kubernetes} " in f"{upgrade.link_flags()} "


def test_the_lock_of_the_first_is_on_the_labs_own_kubernetes() -> None:
    """Most of it is then compiled already."""
    replaced = [
        (directory / "go.mod").read_text().partition("\nreplace (")[2].partition(")")[0]
        for directory in (UPGRADES["upgraded"].lock, golang.CORE)
    ]
    assert replaced[0] == replaced[1] != ""


def test_lock_of_next_trainer_has_its_own_kubernetes_libraries() -> None:
    upgrade = UPGRADES["trainer-upgraded"]
    libraries = required(upgrade.lock / "go.mod")["k8s.io/client-go"]
    assert libraries == upgrade.kubernetes.replace("v1.", "v0.")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upgrade: Upgrade) -> Path:
    """Modules with charts, and a compiler that writes what it was asked for."""
    values = {
        "kueue": {"controllerManager": {"manager": {"image": {"repository": "staging/kueue"}}}},
        "jobset": {"image": {"repository": "staging/jobset"}},
        "kubeflow-trainer": {"image": {"registry": "docker.io", "repository": "a/b"}},
    }
    for controller, _ in upgrade.controllers():
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


def test_built_images_match_the_lab_and_the_stack(sources: Path, upgrade: Upgrade) -> None:
    assert not upgrade.ready()
    old = upgrade.directory().with_name(f"{upgrade.name}-of-an-older-lock")
    old.mkdir(parents=True)
    archives = upgrade.ensure(Console(quiet=True))
    assert upgrade.ready()
    assert not old.exists()
    for (controller, program), path in zip(upgrade.controllers(), archives, strict=True):
        with tarfile.open(path) as archive:
            index = json.loads(content(archive, "index.json"))
            layer = max(archive.getmembers(), key=lambda member: member.size)
            assert program.package.encode() in content(archive, layer.name)
        (image,) = index["manifests"]
        named = image["annotations"]["io.containerd.image.name"]
        assert named == f"{controller.image}:{controller.tag}"
        metadata = yaml.safe_load((charts.chart_dir(controller) / "Chart.yaml").read_text())
        assert (metadata["version"], metadata["appVersion"]) == (controller.version, controller.tag)


def test_it_is_made_once(sources: Path, upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = upgrade.ensure(Console(quiet=True))
    monkeypatch.delattr(golang, "build")
    assert upgrade.ensure(Console(quiet=True)) == archives


def test_a_build_that_fails_leaves_nothing(
    sources: Path, upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object, flags: str) -> None:
        raise RailheadError(flags, remedy="")

    monkeypatch.setattr(golang, "build", build)
    with pytest.raises(RailheadError, match="GitVersion"):
        upgrade.ensure(Console(quiet=True))
    assert not upgrade.directory().exists()
    assert not upgrade.ready()


def test_another_lock_is_another_build(tmp_path: Path, upgrade: Upgrade) -> None:
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text(f"{(upgrade.lock / name).read_text()}\n")
    other = dataclasses.replace(upgrade, lock=tmp_path)
    assert other.directory() != upgrade.directory()
