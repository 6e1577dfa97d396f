"""Debian packages: what is missing, and how apt is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.base.errors import PrerequisiteError
from railhead.lab.artifacts import packages
from railhead.lab.artifacts.commands import Runner


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH whose apt-get writes down how it was called; returns what it wrote."""
    log = tmp_path / "apt.log"
    directory = tmp_path / "path"
    directory.mkdir()
    script = directory / "apt-get"
    script.write_text(
        f'#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> {log}\necho E: held; exit "${{RC:-0}}"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return log


def quiet(_fraction: float | None, _detail: str) -> None:
    pass


def test_only_what_cannot_be_found_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runc").touch(mode=0o755)
    plugin = tmp_path / "bridge"
    plugin.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages, "_SEARCH", "")
    monkeypatch.setattr(
        packages,
        "PACKAGES",
        (
            packages.Package(name="runc", probes=("runc",)),
            packages.Package(name="containerd", probes=("containerd",)),
            packages.Package(name="plugins", probes=(str(plugin), str(tmp_path / "macvlan"))),
        ),
    )
    assert packages.missing() == ("containerd", "plugins")
    (tmp_path / "macvlan").touch()
    assert packages.missing() == ("containerd",)
    with pytest.raises(PrerequisiteError, match="containerd is not installed"):
        packages.require_program("containerd")


def test_apt_is_asked_for_nothing_more_and_may_remove_nothing(apt: Path, runner: Runner) -> None:
    packages.update(runner, quiet)
    packages.install(("runc", "conntrack"), runner, quiet)
    update, install = apt.read_text().splitlines()
    assert update.startswith("noninteractive ")
    assert update.endswith(" update")
    assert install.startswith("noninteractive ")
    assert install.endswith("install --no-install-recommends --no-remove runc conntrack")
    assert " -y " in install


def test_apts_refusal_is_passed_on(
    apt: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RC", "100")
    with pytest.raises(PrerequisiteError, match=r"could not install runc:\n(.*\n)*E: held"):
        packages.install(("runc",), runner, quiet)
    with pytest.raises(PrerequisiteError, match="update failed"):
        packages.update(runner, quiet)


def test_machine_without_apt_gets_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages, "_SEARCH", "")
    with pytest.raises(PrerequisiteError, match="no apt-get"):
        packages.require_apt()


def test_release_file(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('ID=ubuntu\nVERSION_ID="24.04"\n\n')
    assert packages.os_release(file) == {"ID": "ubuntu", "VERSION_ID": "24.04"}
