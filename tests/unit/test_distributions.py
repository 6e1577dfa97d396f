"""The two wheels: what a researcher installs has no lab in it, and works; the lab's adds it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from railhead import __version__
from railhead.accept.examples import examples
from railhead.base.errors import ExitCode

REPO = Path(__file__).resolve().parents[2]
LAB = "railhead/lab/"
TREES = ("railhead", "components", "policies")


def test_the_lab_asks_for_this_very_version() -> None:
    project = tomllib.loads((REPO / "distributions/lab/pyproject.toml").read_text())["project"]
    assert project["dependencies"] == [f"railhead[lab]=={__version__}"]


def _build(folder: str, into: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=REPO / folder,
        check=True,
        capture_output=True,
    )
    (wheel,) = into.iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return (
        _build(".", tmp_path_factory.mktemp("main")),
        _build("distributions/lab", tmp_path_factory.mktemp("lab")),
    )


def _install(target: Path, *wheels: Path) -> Path:
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), *wheels],
        check=True,
    )
    return target


def _run(installed: Path, *argv: str, status: int = 0) -> str:
    """Run a command on what is installed there, third parties coming from this environment."""
    done = subprocess.run(
        [sys.executable, "-P", *argv],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def _documented_jobs() -> set[str]:
    """Return the files of the job files that `railhead accept` launches, and these themselves."""
    documented_jobs = set()
    for example in examples():
        documented_jobs.add(f"examples/{example.name}.yaml")
        documented_jobs |= {f"examples/{file}" for file in example.job.files}
    return documented_jobs


@pytest.mark.slow
def test_the_wheels_hold_the_package_and_share_nothing(wheels: tuple[Path, Path]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *TREES],
        cwd=REPO,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    # The components and the policies are held by the package, under its name.
    expected = {
        name if name.startswith("railhead/") else f"railhead/{name}"
        for name in listed
        if (REPO / name).is_file()
    }
    held = []
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
        held.append({name for name in names if ".dist-info/" not in name})
    main, lab = held
    assert lab == {name for name in expected if name.startswith(LAB)}
    # The documented jobs go along, whatever file of theirs is new.
    jobs = {f"railhead/{name}" for name in _documented_jobs()}
    assert jobs
    assert main == (expected - lab) | jobs


@pytest.mark.slow
def test_a_researchers_wheel_works_alone(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    installed = _install(tmp_path / "site", wheels[0])
    script = str(installed / "bin" / "railhead")
    assert "launch" in _run(installed, script, "--help")
    assert "Example: " in _run(installed, script, "launch", "--help")
    for arguments in (["up", "--nodes", "2"], ["--help"]):
        reported = _run(installed, script, "lab", *arguments, status=ExitCode.MISSING_PREREQUISITE)
        assert "distribution of its own, railhead-lab, which is not installed" in reported
        assert f"fix: pip install railhead-lab=={__version__}" in reported
    text = _run(
        installed,
        "-c",
        "from railhead.accept.examples import examples\n"
        "print(*(str(one.folder) for one in examples()))",
    )
    assert set(text.split()) == {str(installed / "railhead/examples")}
    # Every module of it, from where it was installed.
    _run(
        installed,
        "-c",
        "import importlib, pkgutil, railhead\n"
        f"assert railhead.__path__ == [{str(installed / 'railhead')!r}], railhead.__path__\n"
        "for module in pkgutil.walk_packages(railhead.__path__, 'railhead.'):\n"
        # What jobs run has the training image's libraries.
        "    if not module.name.endswith('__main__') and '.programs.' not in module.name:\n"
        "        importlib.import_module(module.name)\n",
    )


@pytest.mark.slow
def test_with_the_labs_wheel_beside_it_there_is_a_lab(
    wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    installed = _install(tmp_path / "site", *wheels)
    script = str(installed / "bin" / "railhead")
    assert "railhead lab up" in _run(installed, script, "lab", "--help")
    missing = _run(installed, script, "lab", "status", "--name", "no", status=ExitCode.NOT_FOUND)
    assert "there is no lab 'no'" in missing
    _run(installed, "-c", "import railhead.lab.cluster, railhead.lab.engine.provider.servicer")
