"""The plan, what is handed out, and what is refused."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from railhead.base.errors import ExitCode, PrerequisiteError
from railhead.cli import run
from railhead.lab import artifacts
from railhead.lab.artifacts import (
    charts,
    files,
    golang,
    on_request,
    packages,
    space,
    store,
    template,
    training,
)
from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.steps import Step, Tell

EVERYTHING = [
    "sources",
    "core",
    "own",
    "pulumi",
    "packages",
    "training",
    "base",
    "pulumi-sources",
    "charts",
    "template",
]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Go and apt, without packages and without a Pulumi of the user's own."""
    monkeypatch.setattr(golang, "find_go", lambda: (Path("/go/bin/go"), "1.26.0"))
    monkeypatch.setattr(golang, "users_pulumi", lambda: None)
    monkeypatch.setattr(packages, "missing", lambda: ("containerd",))
    monkeypatch.setattr(packages, "require_apt", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for module in (store, on_request):
        monkeypatch.setattr(module, "check_space", lambda _steps: None)


def make(path: Path, *names: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).touch()


def build_core() -> None:
    names = [p.name for p in (*golang.UPSTREAM, *golang.APART)]
    make(golang.upstream_dir(), *names)
    make(golang.core_dir(), *names, *(p.name for p in golang.own_programs()))


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is there."""
    monkeypatch.setattr(packages, "missing", lambda: ())
    build_core()
    make(golang.pulumi_dir(), "pulumi")
    make(template.base_dir())
    make(template.template_dir())
    for controller in charts.module_charts():
        make(charts.chart_dir(controller), "Chart.yaml")
    charts._charts_mark().touch()
    make(charts.kwok_stages_dir(), "node.yaml", "pod.yaml")
    charts.nad_crd_path().touch()


def names() -> list[str]:
    return [s.name for s in artifacts.plan()]


def test_fresh_machine_gets_a_plan_of_every_step_with_times() -> None:
    steps = artifacts.plan()
    assert [s.name for s in steps] == EVERYTHING
    assert all(s.expected_s > 0 and s.title for s in steps)
    known = {s.name for s in steps}
    assert all(set(s.needs) <= known for s in steps)


@pytest.mark.usefixtures("whole")
def test_when_all_is_there_nothing_is_planned_or_run() -> None:
    assert artifacts.plan() == ()
    out = io.StringIO()
    made = artifacts.ensure(Console(file=out))
    assert out.getvalue() == ""
    assert made.bin_dir == golang.core_dir()
    assert made.pulumi == golang.pulumi_dir() / "pulumi"
    assert made == artifacts.installed()
    assert {s.name for s in artifacts.ensure_kwok().stages} == {"node.yaml", "pod.yaml"}
    assert artifacts.ensure_kwok().binary.is_file()
    assert artifacts.locate("kubelet") == golang.core_dir() / "kubelet"
    assert artifacts.locate("nonsense") is None


@pytest.mark.usefixtures("whole")
def test_only_what_is_missing_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "core_key", lambda: "changed")
    assert names() == ["template"]
    monkeypatch.undo()


@pytest.mark.usefixtures("whole")
def test_our_own_sources_rebuild_only_our_programs_and_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upstream = golang.upstream_dir()
    monkeypatch.setattr(golang, "tree_digest", lambda _root, _pattern: "changed")
    assert golang.upstream_dir() == upstream
    assert names() == ["sources", "own", "template"]


@pytest.mark.usefixtures("whole")
def test_the_users_own_pulumi_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    (golang.pulumi_dir() / "pulumi").unlink()
    assert names() == ["pulumi", "pulumi-sources"]
    monkeypatch.setattr(golang, "users_pulumi", lambda: Path("/usr/bin/pulumi"))
    assert names() == []
    assert artifacts.installed().pulumi == Path("/usr/bin/pulumi")


def test_the_engine_alone_is_built_without_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    fetched: list[Path] = []
    monkeypatch.setattr(golang, "fetch_sources", lambda root, *_: fetched.append(root))
    monkeypatch.setattr(golang, "build_pulumi", lambda *_: make(golang.pulumi_dir(), "pulumi"))
    for _ in range(2):
        assert run(["lab", "build", "--only", "pulumi"]) == ExitCode.OK
        assert capsys.readouterr().out == f"{golang.pulumi_dir() / 'pulumi'}\n"
    assert fetched == [golang.PULUMI]


@pytest.mark.usefixtures("whole")
def test_a_layer_without_its_import_is_not_taken_for_an_image() -> None:
    template.base_dir().rmdir()
    make(training.TRAINING.layer_dir, "layer.txt")
    assert names() == ["packages", "training", "base"]
    make(training.TRAINING.layer_dir, "layer.tar")
    assert names() == ["base"]


def test_unbuilt_artifacts_are_named() -> None:
    build_core()
    with pytest.raises(PrerequisiteError) as caught:
        artifacts.installed()
    for absent in ("containerd (Debian package)", "pulumi", "charts", "container images"):
        assert absent in caught.value.problem
    assert "kubelet" not in caught.value.problem
    assert "railhead lab build" in caught.value.remedy
    with pytest.raises(PrerequisiteError):
        artifacts.ensure_kwok()


def test_not_root_is_refused_before_anything(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PrerequisiteError, match="needs root"):
        artifacts.ensure(Console(file=io.StringIO()))
    assert not cache.exists()


@pytest.mark.usefixtures("whole")
def test_a_build_is_timed_and_cleans_up(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    template.template_dir().rmdir()
    old = [cache / "images" / f"template-{n}" for n in range(3)]
    for generation in old:
        make(generation)
    make(training.TRAINING.layer_dir, "layer.txt")
    earlier = {"cores": 2, "latest": {"core": 400.0}}
    (cache / "timings.json").write_text(json.dumps(earlier))
    make(cache / "tmp" / "core-1", "left by a killed build")

    def build(_runner: Runner, tell: Tell) -> None:
        tell(0.5, "half way")
        make(template.template_dir())

    monkeypatch.setattr(template, "build_template", build)
    out = io.StringIO()
    artifacts.main_build(Console(file=out, width=100))
    assert "the controllers' images: done" in out.getvalue()
    assert "all of it" in out.getvalue()
    record = json.loads((cache / "timings.json").read_text())
    assert [s["name"] for s in record["steps"]] == ["template"]
    # What an earlier build took is still known.
    assert record["latest"] == {"core": 400.0, "template": record["steps"][0]["seconds"]}
    assert record["cores"] >= 1
    assert list((cache / "tmp").iterdir()) == []
    assert not training.TRAINING.layer_dir.exists()
    kept = [p for p in (cache / "images").iterdir() if p.name.startswith("template-")]
    # The current one, and one that another checkout may use.
    assert len(kept) == 2
    assert template.template_dir() in kept


@pytest.mark.parametrize("broken", [OSError("disk"), KeyboardInterrupt()])
@pytest.mark.usefixtures("whole")
def test_a_failed_build_leaves_no_record_and_frees_the_lock(
    broken: BaseException, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    template.template_dir().rmdir()

    def build(_runner: Runner, _tell: Tell) -> None:
        raise broken

    monkeypatch.setattr(template, "build_template", build)
    with pytest.raises(type(broken)):
        artifacts.ensure(Console(file=io.StringIO()))
    assert not (cache / "timings.json").exists()
    assert names() == ["template"]
    with files.building(lambda who: pytest.fail(f"still held by {who}")):
        pass


def test_space_is_checked_where_it_is_needed(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("RAILHEAD_CACHE", str(cache))
    asked: list[tuple[Path, float]] = []

    def check(path: Path, gib: float, _purpose: str) -> None:
        asked.append((path, gib))

    monkeypatch.setattr(space, "require_space", check)
    step = next(s for s in _fresh_plan(monkeypatch) if s.name == "training")
    space.check_space([step])
    assert asked == [(cache, space._SPACE_GIB["training"][0])]


def _fresh_plan(monkeypatch: pytest.MonkeyPatch) -> tuple[Step, ...]:
    monkeypatch.setattr(golang, "find_go", lambda: (Path("/go/bin/go"), "1.26.0"))
    monkeypatch.setattr(golang, "users_pulumi", lambda: None)
    monkeypatch.setattr(packages, "missing", lambda: ())
    monkeypatch.setattr(packages, "require_apt", lambda: None)
    return artifacts.plan()
