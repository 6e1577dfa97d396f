"""The distributions as `make dist` builds them, installed into environments of their own."""

from __future__ import annotations

import email
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from railhead.base.version import __version__

REPO = Path(__file__).resolve().parents[1]
#: Distribution -> the folder that builds it.
FOLDERS = {
    "railhead-diagnose": REPO / "distributions/diagnose",
    "railhead": REPO,
    "railhead-accept": REPO / "distributions/accept",
    "railhead-lab": REPO / "distributions/lab",
}
HERE = Path(sysconfig.get_path("purelib"))


@dataclass(frozen=True, kw_only=True)
class Built:
    """Wheel and source distribution of one folder."""

    wheel: Path
    sdist: Path


def build(folder: Path, into: Path, *targets: str) -> Path:
    """Build a project with its own backend; return the folder of what it built."""
    options = [word for target in targets for word in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into), *options],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return into


def build_all(into: Path) -> dict[str, Built]:
    """Return wheel and source distribution of each distribution."""
    built = {}
    for name, folder in FOLDERS.items():
        target = build(folder, into / name)
        [wheel], [sdist] = target.glob("*.whl"), target.glob("*.tar.gz")
        built[name] = Built(wheel=wheel, sdist=sdist)
    return built


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return what no wheel holds; a package's own `build` is one of its parts."""
    made = ("build", "dist", "tests") if Path(folder) == REPO else ()
    return shutil.ignore_patterns(".*", "__pycache__", *made)(folder, names)


def build_next(folder: Path, version: str, edited: str) -> list[Path]:
    """Return the wheels of a next version, of which one file has a further line."""
    tree = folder / "tree"
    shutil.copytree(REPO, tree, symlinks=True, ignore=_left_out)
    for file in (tree / "railhead/base/version.py", *tree.rglob("pyproject.toml")):
        file.write_text(file.read_text().replace(__version__, version))
    with (tree / edited).open("a") as source:
        source.write(f"# of {version}\n")
    for home in FOLDERS.values():
        build(tree / home.relative_to(REPO), folder / "dist", "wheel")
    return sorted((folder / "dist").glob("*.whl"))


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A virtual environment: some of our wheels, and the third parties that these ask for."""

    python: Path

    def install(self, wheels: Sequence[Path]) -> None:
        """Install wheels, in place of older ones, and nothing that they ask for."""
        options = ["--quiet", "--no-deps", "--no-index", "--no-compile"]
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.python, "install", *options, *wheels],
            env={
                **os.environ,
                "PIP_ROOT_USER_ACTION": "ignore",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            },
            check=True,
        )

    def run(self, *words: str, status: int = 0, **variables: str) -> str:
        """Run one of its programs; return both streams after checking how it ended."""
        done = subprocess.run(
            [str(self.python.parent / words[0]), *words[1:]],
            # Neither the checkout's folder nor its path.
            cwd=self.python.parents[1],
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def environment(
    folder: Path, built: Mapping[str, Built], requirements: Sequence[str]
) -> Environment:
    """Make an environment with ``requirements``, such as ``railhead[deploy]``, without a registry.

    Third parties are links to what this interpreter has: those that the wheels' own metadata asks
    for and no other.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    ours, others = _closure(built, requirements)
    for name in others:
        _link(name, packages)
    made = Environment(python=folder / "bin" / "python")
    made.install(ours)
    return made


def _closure(
    built: Mapping[str, Built], requirements: Sequence[str]
) -> tuple[list[Path], set[str]]:
    """Return our wheels and the names of all third parties that requirements ask for."""
    queue = [Requirement(text) for text in requirements]
    asked: set[tuple[str, str]] = set()
    wheels: list[Path] = []
    others: set[str] = set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in asked:
                continue
            asked.add((name, extra))
            if name in built and built[name].wheel not in wheels:
                wheels.append(built[name].wheel)
            elif name not in built:
                others.add(name)
            for text in _asks(built, name):
                further = Requirement(text)
                if further.marker is None or further.marker.evaluate({"extra": extra}):
                    queue.append(further)
    return wheels, others


def _asks(built: Mapping[str, Built], name: str) -> list[str]:
    if name not in built:
        return importlib.metadata.requires(name) or []
    with zipfile.ZipFile(built[name].wheel) as wheel:
        [path] = [item for item in wheel.namelist() if item.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(wheel.read(path)).get_all("Requires-Dist") or []


def _link(name: str, packages: Path) -> None:
    """Link everything that a distribution put into this interpreter's packages."""
    files = importlib.metadata.files(name)
    if files is None:
        pytest.fail(f"{name} was installed without a record of its files")
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        link = packages / top
        if not link.exists():
            link.symlink_to(HERE / top)
