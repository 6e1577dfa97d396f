"""A release: built twice and equal, and refused when something of it was changed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from railhead.base.errors import ExitCode
from railhead.base.version import DISTRIBUTIONS, __version__
from railhead.cli import run
from railhead.cli.release import GITHUB, SIGNATURE, SUMS, names
from railhead.cli.release import signed as released_by
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


def test_who_made_a_release_is_asked_by_an_identity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / SUMS).touch()
    for text, remedy in (
        ("is not in the folder", "take SHA256SUMS by a way that you trust"),
        ("is there; whose it is was not asked", "--identity https://github.com/"),
    ):
        assert run(["verify-release", str(tmp_path)]) == ExitCode.REFUSED
        reported = capsys.readouterr()
        assert f"unasked  {SIGNATURE}: {text}\n           fix: {remedy}" in reported.out
        assert SIGNATURE not in reported.err
        (tmp_path / SIGNATURE).touch()


def test_a_signature_proves_an_identity_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workflow's real signature, from the tests that clients of Sigstore share.

    sigstore/sigstore-conformance, test/assets/bundle-verify/happy-path-v0.3, and its a.txt.
    """
    pytest.importorskip("sigstore", reason="run `make docs-tools` once")
    signer = (
        "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/"
        "workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    # No name is looked up, so no network is asked.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("asks the network"))
    data = (REPO / "tests/data/sigstore/a.txt").read_bytes()
    bundle = (REPO / "tests/data/sigstore/a.txt.sigstore.json").read_bytes()
    for signed, signature, identity, issuer, problem in (
        (data, bundle, signer, GITHUB, ""),
        (data + b"\n", bundle, signer, GITHUB, "digest mismatch"),
        (data, bundle, signer.replace("/heads/main", "/tags/v1.0.0"), GITHUB, "SANs do not match"),
        (data, bundle, signer, "https://gitlab.com", "Issuer"),
        (data, bundle[:-99], signer, GITHUB, "failed to load bundle"),
        (data, bundle.replace(b'"rawBytes": "MII', b'"rawBytes": "AAA'), signer, GITHUB, "asn1"),
        (data, None, signer, GITHUB, "is not in the folder"),
    ):
        (tmp_path / SUMS).write_bytes(signed)
        (tmp_path / SIGNATURE).unlink(missing_ok=True)
        if signature:
            (tmp_path / SIGNATURE).write_bytes(signature)
        finding = released_by(tmp_path, identity, issuer)
        assert finding.passed is not bool(problem), finding
        assert problem in finding.text, finding


def test_home_that_sigstore_cannot_write_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sigstore", reason="run `make docs-tools` once")
    for name in (SUMS, SIGNATURE):
        (tmp_path / name).touch()
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / SUMS))
    words = ["verify-release", str(tmp_path), "--identity", "https://github.com/acme"]
    assert run(words) == ExitCode.MISSING_PREREQUISITE
    assert "fix: set HOME, or XDG_CACHE_HOME" in capsys.readouterr().err


def test_an_identity_is_not_believed_without_sigstore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / SUMS).touch()
    monkeypatch.setitem(sys.modules, "sigstore.errors", None)
    words = ["verify-release", str(tmp_path), "--identity", "https://github.com/acme"]
    assert run(words) == ExitCode.MISSING_PREREQUISITE
    assert "fix: pip install 'sigstore>=4.5,<5'" in capsys.readouterr().err


def test_another_projects_railhead_is_not_installed(released: Path, tmp_path: Path) -> None:
    """A public index has one, under our name; it could be of our version tomorrow."""
    wheel = f"railhead-{__version__}-py3-none-any.whl"
    index, wheels = tmp_path / "index", tmp_path / "wheels"
    (index / "railhead").mkdir(parents=True)
    wheels.mkdir()
    (index / "railhead/index.html").write_text(f'<a href="../{wheel}">{wheel}</a>')
    info = f"railhead-{__version__}.dist-info"
    with zipfile.ZipFile(index / wheel, "w") as archive:
        archive.writestr("railhead/__init__.py", "raise SystemExit('another project')\n")
        archive.writestr(f"{info}/METADATA", f"Name: railhead\nVersion: {__version__}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    for path in released.glob("*.whl"):
        shutil.copy(path, wheels)
    # Third parties, whose hashes pip checks as well, are not in these folders.
    text = (released / "requirements-aws.txt").read_text()
    ours = re.findall(r"^(?:--find-links|railhead).*\n(?: +--hash.*\n)?", text, re.MULTILINE)
    assert len(ours) == 1 + len(DISTRIBUTIONS)
    (wheels / "requirements-aws.txt").write_text("".join(ours))
    (tmp_path / "requirements.txt").write_text("-r wheels/requirements-aws.txt\n")

    def install(into: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--target", str(tmp_path / into)),
                *("--no-deps", "--no-compile", "-r", str(tmp_path / "requirements.txt"), *options),
            ],
            cwd=index,
            capture_output=True,
            text=True,
            check=False,
        )

    done = install("ours", "--no-index")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours/railhead/program.py").is_file()
    done = install("theirs", "--index-url", index.as_uri())
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "theirs").exists()


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
    contents = {"requirements.txt": f"railhead[aws,gcp]=={__version__}\n".encode()}
    release.archive(folder / names(__version__)["plugin"], contents, "")
    _resealed(folder)


def _another_hash(folder: Path) -> None:
    file = folder / "requirements-gcp.txt"
    file.write_text(file.read_text().replace("--hash=sha256:", "--hash=sha256:0", 1))
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
        (_another_plugin, ".tar.gz: installs another railhead"),
        (_another_hash, "requirements-gcp.txt: installs another railhead-diagnose"),
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
