"""Volcano for a lab: the release that stacks install, and what is made of it."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from railhead.catalog.versions import ADDONS, ModuleChart
from railhead.lab.artifacts import charts, golang, packages, training, volcano
from railhead.lab.artifacts.commands import Runner
from tests.unit.lab.artifacts.test_golang import required

CHART = {
    "name": "volcano",
    "dependencies": [{"name": "jobflow", "version": "1.0.0", "repository": "file://../jobflow"}],
}


def test_its_lock_is_of_the_release_that_stacks_install() -> None:
    lock = volcano.SOURCES / "go.mod"
    chart = volcano.CONTROLLER.chart
    assert isinstance(chart, ModuleChart)
    pinned = ADDONS["volcano"].tag
    assert required(lock)[chart.module] == chart.module_version == pinned
    tools = lock.read_text().partition("tool (")[2].partition(")")[0].split()
    assert sorted(program.package for program in volcano.PROGRAMS) == sorted(tools)


def test_its_images_are_those_that_its_chart_asks_for() -> None:
    row = ADDONS["volcano"]
    asked = {f"{row.image}:{row.tag}", *(image.reference for image in row.operands.values())}
    assert set(volcano._IMAGES.values()) == asked


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The modules, a Go that writes what it was asked for, and no packages."""
    chart = volcano.CONTROLLER.chart
    assert isinstance(chart, ModuleChart)
    release, api = tmp_path / "mod" / chart.module, tmp_path / "mod" / "volcano.sh/apis"
    folder = release / chart.path
    (folder / "charts" / "jobflow").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(CHART))
    (folder / "values.yaml").write_text(yaml.safe_dump({"basic": {"image_registry": "there"}}))
    script = release / volcano._SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    (api / "pkg/apis/scheduling/v1beta1").mkdir(parents=True)

    def build(
        root: Path, programs: Sequence[golang.Program], into: Path, *_: object, **__: str
    ) -> None:
        added = (root / "apis/pkg/apis/scheduling/v1beta1/railhead.go").read_text()
        replaced = (root / "go.mod").read_text().rpartition("volcano.sh/apis => ")[2].split()[0]
        for program in programs:
            (into / program.name).write_text(f"{program.package} {replaced} {added}")

    def run(_: Runner, command: Sequence[str], *, cwd: Path, **__: object) -> str:
        (edit,) = (word for word in command if word.startswith("-replace="))
        name, target = edit.removeprefix("-replace=").split("=", 1)
        lock = cwd / "go.mod"
        lock.write_text(re.sub(rf"{name} => \S+ \S+", f"{name} => {target}", lock.read_text()))
        return ""

    core = tmp_path / "core"
    core.mkdir()
    (core / "kubectl").write_text("kubectl")
    monkeypatch.setattr(golang, "build", build)
    monkeypatch.setattr(golang, "fetch_sources", lambda *_: 0)
    monkeypatch.setattr(golang, "find_go", lambda: (Path("go"), "1.26.8"))
    monkeypatch.setattr(golang, "core_dir", lambda: core)
    monkeypatch.setattr(golang, "module_dir", lambda module, root: tmp_path / "mod" / module)
    monkeypatch.setattr(Runner, "run", run)
    monkeypatch.setattr(packages, "require_apt", lambda: None)
    monkeypatch.setattr(packages, "update", lambda *_: None)
    monkeypatch.setattr(training, "download", lambda *_: [])
    monkeypatch.setattr(training, "unpack", lambda *_: None)
    return tmp_path


def test_built_images_match_the_lab_and_the_stack(sources: Path) -> None:
    assert not volcano.ready()
    archives = volcano.ensure(Console(quiet=True))
    assert volcano.ready()
    for program, path in zip(volcano.PROGRAMS, archives, strict=True):
        made = (volcano.programs() / program.name).read_text()
        assert made.startswith(f"{program.package} ./apis package v1beta1")
        with tarfile.open(path) as archive:
            file = archive.extractfile("index.json")
            assert file is not None
            (image,) = json.load(file)["manifests"]
        named = image["annotations"]["io.containerd.image.name"]
        assert named == volcano._IMAGES[program.name]
    metadata = yaml.safe_load((charts.chart_dir(volcano.CONTROLLER) / "Chart.yaml").read_text())
    assert metadata["version"] == volcano.CONTROLLER.version


def test_it_is_made_once(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = volcano.ensure(Console(quiet=True))
    monkeypatch.delattr(golang, "build")
    assert volcano.ensure(Console(quiet=True)) == archives
