"""A release: built twice and equal, and refused when something of it was changed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from railhead.base.errors import ExitCode
from railhead.base.version import DISTRIBUTIONS, __version__
from railhead.cli import run
from railhead.cli.release import SIGNATURE, SUMS, names
from tests.wheels import FOLDERS, REPO
from tools import release

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("no MkDocs: run `make site` once")
    into = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "tools/release.py", __version__, "--into", str(into)],
        cwd=REPO,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)},
        check=True,
        capture_output=True,
    )
    return into / __version__


def test_a_release_is_whole(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify-release", str(released)]) == ExitCode.OK
    assert "wrong" not in capsys.readouterr().out
    assert set(release.FOLDERS) == set(DISTRIBUTIONS) == set(FOLDERS)
    assert len(list(released.glob("*.whl"))) == 4
    # Of each distribution, and of plugin, policies and site.
    assert len(list(released.glob("*.tar.gz"))) == 4 + 3
    notes = (released / names(__version__)["notes"]).read_text()
    assert notes.startswith(f"# Railhead {__version__}\n\n")
    assert "## What an upgrade changes\n" in notes
    assert "### aws-p5-prod\n\n- " in notes


def test_who_made_a_release_is_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / SUMS).touch()
    for text, remedy in (
        ("is not in the folder", "take SHA256SUMS by a way that you trust"),
        ("is there, and is not checked here", "cosign verify-blob SHA256SUMS --bundle"),
    ):
        assert run(["verify-release", str(tmp_path)]) == ExitCode.REFUSED
        reported = capsys.readouterr()
        assert f"unasked  {SIGNATURE}: {text}\n           fix: {remedy}" in reported.out
        assert SIGNATURE not in reported.err
        (tmp_path / SIGNATURE).touch()


def test_archives_hold_nothing_of_the_machine(released: Path) -> None:
    expected = {
        "plugin": {"PulumiPlugin.yaml", "__main__.py", "requirements.txt"},
        "policies": {
            f"railhead-policies/{name}"
            for name in ("PulumiPolicy.yaml", "__main__.py", "requirements.txt")
        },
    }
    for part in ("plugin", "policies", "site"):
        with tarfile.open(released / names(__version__)[part]) as archive:
            members = archive.getmembers()
        assert {(m.uid, m.uname, m.mtime, m.mode) for m in members} == {
            (0, "", release.EPOCH, 0o644)
        }
        if part in expected:
            assert {m.name for m in members} == expected[part]
        else:
            assert f"{__version__}/index.html" in {m.name for m in members}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_an_sbom_has_the_pinned_parts(released: Path, name: str) -> None:
    bill = json.loads((released / f"{name}-{__version__}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/{name}@{__version__}"
    purls = [part["purl"] for part in bill["components"]]
    assert len(purls) == len(set(purls))
    assert bill["dependencies"][0]["dependsOn"] == purls
    if name != "railhead-diagnose":
        assert any(purl.startswith("pkg:pypi/pydantic@2.") for purl in purls)


def _resealed(folder: Path) -> None:
    """Write checksums that fit, as a person who changes a release would."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))


def _changed(folder: Path) -> None:
    path = next(folder.glob("railhead_lab*.whl"))
    path.write_bytes(path.read_bytes() + b"\n")


def _changed_and_resealed(folder: Path) -> None:
    _changed(folder)
    _resealed(folder)


def _lost(folder: Path) -> None:
    next(folder.glob("railhead_accept*.whl")).unlink()


def _added(folder: Path) -> None:
    (folder / "install.sh").write_text("#!/bin/sh\n")


def _another_sbom(folder: Path) -> None:
    shutil.copy(
        folder / f"railhead-lab-{__version__}.cdx.json",
        folder / f"railhead-{__version__}.cdx.json",
    )
    _resealed(folder)


def _another_plugin(folder: Path) -> None:
    contents = {"requirements.txt": b"railhead[aws,gcp]==9.9.9\n"}
    release.archive(folder / names(__version__)["plugin"], contents, "")
    _resealed(folder)


def _no_site(folder: Path) -> None:
    (folder / names(__version__)["site"]).unlink()
    _resealed(folder)


@pytest.mark.parametrize(
    ("edit", "reported"),
    [
        (_changed, "py3-none-any.whl: was changed"),
        (_changed_and_resealed, f"railhead-lab-{__version__}.cdx.json: is of another"),
        (_lost, "py3-none-any.whl: is missing"),
        (_added, "install.sh: is not in the release"),
        (_another_sbom, "cdx.json: is of another railhead-"),
        (_changed_and_resealed, f"railhead-{__version__}.intoto.json: is of other files"),
        (_another_plugin, ".tar.gz: installs railhead[aws,gcp]==9.9.9"),
        (_no_site, f"parts: railhead-site-{__version__}.tar.gz: not in the release"),
    ],
)
def test_a_changed_release_is_refused(
    released: Path,
    tmp_path: Path,
    edit: Callable[[Path], None],
    reported: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(released, tmp_path / "release")
    edit(folder)
    assert run(["verify-release", str(folder)]) == ExitCode.REFUSED
    assert reported in capsys.readouterr().out


def test_a_release_of_another_commit_is_refused(
    released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(released, tmp_path / "release")
    file = folder / names(__version__)["provenance"]
    statement = json.loads(file.read_text())
    sources = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    sources[:] = [{"uri": "git+railhead", "digest": {"gitCommit": "ab" * 20}}, *sources[-1:]]
    file.write_text(json.dumps(statement))
    _resealed(folder)
    assert run(["verify-release", str(folder), "--commit", "ab" * 20]) == ExitCode.OK
    assert run(["verify-release", str(folder), "--commit", "cd" * 20]) == ExitCode.REFUSED
    assert f"not of commit {'cd' * 20}" in capsys.readouterr().out


def test_differing_builds_are_told(tmp_path: Path) -> None:
    for name, text in (("one", "a"), ("other", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same").write_text("same")
        (tmp_path / name / "wheel").write_text(text)
    (tmp_path / "one" / "more").write_text("")
    assert release.differing(tmp_path / "one", tmp_path / "other") == ["more", "wheel"]


def test_another_version_than_the_sources_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "tools/release.py", "9.9.9"],
        cwd=REPO,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.BAD_INPUT
    assert f"the sources are version {__version__}, not '9.9.9'" in done.stderr
