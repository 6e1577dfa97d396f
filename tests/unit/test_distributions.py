"""The four distributions: what each holds, and that it works with those below it alone."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from railhead import __version__
from railhead.base.errors import ExitCode
from railhead.launch.job import parse_job
from tests import wheels
from tests.unit.test_hygiene import DISTRIBUTIONS
from tests.wheels import REPO, Built, Environment

pytestmark = pytest.mark.slow
TREES = ("railhead", "components", "policies")
#: Imports every module that is installed, from where it was installed. What jobs run needs the
#: training image's libraries.
IMPORT_ALL = """
import importlib, pkgutil, sys, railhead
[home] = railhead.__path__
assert home.startswith(sys.prefix), home
for module in pkgutil.walk_packages([home], "railhead."):
    if not module.name.endswith("__main__") and ".programs." not in module.name:
        if not module.name.startswith(tuple(sys.argv[1:])):
            importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    return wheels.build_all(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def core(built: dict[str, Built], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment as a researcher makes it."""
    return wheels.environment(tmp_path_factory.mktemp("core"), built, ["railhead"])


def _held(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def _of_the_tree() -> set[str]:
    """Return what the wheels hold together, by names in them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *TREES],
        cwd=REPO,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    # The documented jobs go along, whatever file of theirs is new.
    jobs = set()
    for file in (REPO / "examples").glob("*.yaml"):
        job = parse_job(file.read_text(), where=file.name)
        jobs |= {f"railhead/examples/{name}" for name in (file.name, *job.files)}
    assert jobs
    pipelines = {
        f"railhead/cli/pipelines/{file.name}" for file in (REPO / "docs/pipelines").iterdir()
    }
    return (
        jobs
        | pipelines
        | {
            name if name.startswith("railhead/") else f"railhead/{name}"
            for name in listed
            if (REPO / name).is_file()
        }
    )


def test_every_file_is_in_one_wheel(built: dict[str, Built]) -> None:
    held = {name: _held(item.wheel) for name, item in built.items()}
    assert sum(map(len, held.values())) == len(set().union(*held.values()))
    assert set().union(*held.values()) == _of_the_tree()
    for distribution, (_, packages, _) in DISTRIBUTIONS.items():
        tops = {name.split("/")[1].removesuffix(".py") for name in held[distribution]}
        assert tops - {"examples"} == set(packages.split()), distribution
    assert any(name.startswith("railhead/examples/") for name in held["railhead"])


@pytest.mark.parametrize("name", wheels.FOLDERS)
def test_a_source_distribution_builds_the_wheel(
    built: dict[str, Built], name: str, tmp_path: Path
) -> None:
    with tarfile.open(built[name].sdist) as tar:
        # Python 3.11 has filters from 3.11.4 on, and Debian 12 has 3.11.2.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(tmp_path)
    [folder] = tmp_path.iterdir()
    wheels.build(folder, tmp_path / "again", "wheel")
    [again] = (tmp_path / "again").iterdir()
    first, second = zipfile.ZipFile(built[name].wheel), zipfile.ZipFile(again)
    assert first.namelist() == second.namelist()
    assert all(first.read(item) == second.read(item) for item in first.namelist())
    assert any(item.endswith(".dist-info/licenses/LICENSE") for item in first.namelist())


def test_logs_are_diagnosed_with_the_bottom_alone(built: dict[str, Built], tmp_path: Path) -> None:
    alone = wheels.environment(tmp_path / "venv", built, ["railhead-diagnose"])
    log = REPO / "tests/nccl/held_out/226-shm-kubeflow-t4-two-lines.log"
    assert "1. dev-shm-too-small" in alone.run("railhead-diagnose", str(log))
    assert "init-failure" in alone.run("railhead-nccl", "read", str(log))
    alone.run("python", "-c", IMPORT_ALL)
    for absent in ("httpx", "pulumi", "railhead.contract", "railhead.kube"):
        assert "ModuleNotFoundError" in alone.run("python", "-c", f"import {absent}", status=1)


def test_the_core_works_without_those_that_build_on_it(core: Environment) -> None:
    assert "launch" in core.run("railhead", "--help")
    assert "Example: " in core.run("railhead", "launch", "--help")
    assert core.run("railhead", "--version").split() == ["railhead", __version__]
    # Some is for those who have Pulumi.
    deploying = (
        *("railhead.components", "railhead.policies", "railhead.program"),
        *("railhead.contract.reference", "railhead.provider"),
    )
    core.run("python", "-c", IMPORT_ALL, *deploying)


@pytest.mark.parametrize(
    ("command", "brought_by"),
    [
        ("accept --plan", "railhead-accept"),
        ("accept report --help", "railhead-accept"),
        ("dashboards", "railhead-accept"),
        ("lab up --nodes 2", "railhead-lab"),
        ("lab --help", "railhead-lab"),
        ("plan lab", "railhead-lab"),
    ],
)
def test_an_absent_command_names_its_distribution(
    core: Environment, command: str, brought_by: str
) -> None:
    reported = core.run("railhead", *command.split(), status=ExitCode.MISSING_PREREQUISITE)
    assert f"`railhead {command.split(maxsplit=1)[0]}` comes with {brought_by}" in reported
    assert "fix: pip install -r requirements-deploy.txt" in reported


def test_commands_join_the_core(built: dict[str, Built], tmp_path: Path) -> None:
    whole = wheels.environment(
        tmp_path / "venv", built, ["railhead-accept[sign]", "railhead-lab", "railhead[nccl]"]
    )
    listed = whole.run("railhead", "--help")
    assert "Prove by runs" in listed
    assert "not installed" not in listed
    assert "railhead lab up" in whole.run("railhead", "lab", "--help")
    assert "railhead accept schema" in whole.run("railhead", "accept", "schema", "--help")
    assert "there is no lab 'no'" in whole.run(
        "railhead", "lab", "status", "--name", "no", status=ExitCode.NOT_FOUND
    )
    text = whole.run(
        "python",
        "-c",
        "from railhead.accept.examples import examples\n"
        "print(*(str(example.folder) for example in examples()))",
    )
    [folder] = set(text.split())
    assert folder.endswith("site-packages/railhead/examples")
    # Every cloud's SDK is an extra of its own.
    whole.run("python", "-c", IMPORT_ALL, "railhead.components.aws", "railhead.components.gcp")
