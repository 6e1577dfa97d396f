"""`railhead state`: dead locks and empty sidecars are mended, the rest is said with a remedy."""

from __future__ import annotations

import errno
import gzip
import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import ExitCode
from railhead.cli import run

REPO = Path(__file__).resolve().parents[2]
STACK = str(REPO / "stacks" / "Pulumi.onprem-ib-sriov.yaml")
NAME = "onprem-ib-sriov"
PROJECT = "railhead"
PENDING = {"resource": {"urn": "urn:pulumi:s::p::aws:eks/nodeGroup:NodeGroup::pool"}}


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty backend, and a `pulumi` that exports what lies in `export.json`."""
    (tmp_path / "bin").mkdir()
    pulumi = tmp_path / "bin" / "pulumi"
    pulumi.write_text(f"#!/bin/sh\ncat {tmp_path}/export.json\n")
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{pulumi.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}?metadata=skip")
    monkeypatch.setenv("HOME", str(tmp_path))
    _exports(tmp_path, {"resources": []})
    return tmp_path


def _exports(folder: Path, deployment: dict[str, Any]) -> None:
    (folder / "export.json").write_text(json.dumps({"deployment": deployment}))


def _findings(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[Any]]:
    code = run(["state", STACK, "--json", *more])
    return code, json.loads(capsys.readouterr().out)["findings"]


def test_what_a_killed_update_left_is_mended(
    backend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    lock = backend / ".pulumi" / "locks" / "organization" / PROJECT / NAME / "a.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": dead.pid, "hostname": socket.gethostname()}))
    sidecar = backend / ".pulumi" / "stacks" / PROJECT / f"{NAME}.json.attrs"
    sidecar.parent.mkdir(parents=True)
    sidecar.touch()
    os.utime(sidecar, (0, 0))
    code, (first, second) = _findings(capsys)
    assert code == ExitCode.REFUSED
    assert (first["name"], second["name"]) == (str(lock), str(sidecar))
    assert f"process {dead.pid}, which is gone" in first["text"]
    assert first["remedy"] == f"railhead state {NAME} --mend"
    code, mended = _findings(capsys, "--mend")
    assert code == ExitCode.OK
    assert [row["text"].endswith(": removed") for row in mended[:2]] == [True, True]
    # The cluster is not there to be asked, which is said and is no fault of the state.
    assert [row["passed"] for row in mended] == [True, True, None]
    assert not lock.exists()
    assert not sidecar.exists()


def test_an_owner_that_may_live_and_open_operations_are_said(
    backend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _exports(backend, {"resources": [], "pending_operations": [PENDING | {"type": "creating"}]})
    code, (row, _) = _findings(capsys, "--mend")
    assert code == ExitCode.REFUSED
    assert row["name"] == "pool"
    assert "pulumi refresh --yes --clear-pending-creates" in row["remedy"]
    lock = backend / ".pulumi" / "locks" / "organization" / PROJECT / NAME / "a.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": 1, "hostname": "elsewhere"}))
    code, (row,) = _findings(capsys, "--mend")
    assert code == ExitCode.REFUSED
    assert row["remedy"] == f"once that process is gone: `pulumi cancel --yes --stack {NAME}`"
    assert lock.exists()


def _lock(backend: Path, stack: str = NAME, project: str = PROJECT, **content: Any) -> Path:
    path = backend / ".pulumi" / "locks" / "organization" / project / stack / "a.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hostname": socket.gethostname()} | content))
    return path


def test_owner_whose_number_another_process_has_is_gone(
    backend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # After a reboot numbers are given again: this process is younger than the lock.
    lock = _lock(backend, pid=os.getpid(), timestamp="2020-01-01T00:00:00.123456789+02:00")
    code, (row, *_) = _findings(capsys, "--mend")
    assert code == ExitCode.OK
    assert row["text"].endswith("+02:00: removed")
    assert not lock.exists()
    lock = _lock(backend, pid=os.getpid(), timestamp=datetime.now(UTC).isoformat())
    code, (row,) = _findings(capsys, "--mend")
    assert code == ExitCode.REFUSED
    assert "which runs" in row["text"]
    assert lock.exists()


def test_owner_stays_when_the_clock_is_set(
    backend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Set forward by a year, it makes each process a year younger than its lock."""
    pulumi = backend / "pulumi"
    pulumi.symlink_to("/bin/sleep")
    with subprocess.Popen([str(pulumi), "9"]) as owner:
        lock = _lock(backend, pid=owner.pid, timestamp="2020-01-01T00:00:00Z")
        code, (row,) = _findings(capsys, "--mend")
        owner.kill()
    assert code == ExitCode.REFUSED
    assert "which runs" in row["text"]
    assert lock.exists()


def test_lock_that_cannot_be_read_is_not_removed(
    backend: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulumi's files are for their owner alone (gocloud.dev, fileblob, os.CreateTemp)."""
    lock = _lock(backend, pid=1)
    read = Path.read_bytes

    def denied(path: Path) -> bytes:
        if path == lock:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", denied)
    code, (row,) = _findings(capsys, "--mend")
    assert code == ExitCode.REFUSED
    assert "cannot be read: Permission denied" in row["text"]
    assert lock.exists()


def test_locks_of_other_stacks_stop_nothing(
    backend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _lock(backend, "other", pid=os.getpid())
    # As in one backend for all projects of a home directory.
    _lock(backend, project="another", pid=os.getpid())
    stacks = backend / ".pulumi" / "stacks"
    sidecar = stacks / PROJECT / f"{NAME}.json.attrs"
    # A backend of before has states without a project.
    for file in (stacks / "another" / f"{NAME}.json.attrs", stacks / "other.json", sidecar):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (0, 0))
    code, (row, *_) = _findings(capsys, "--mend")
    assert code == ExitCode.OK
    assert row["name"] == str(sidecar)


@pytest.mark.parametrize("content", [b"[]", b'{"pid": "one"}', b"\xff", b"\x1f\x8b", b""])
def test_odd_lock_is_mended(
    backend: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    lock = _lock(backend)
    if content.startswith(b"{"):
        content = json.dumps(json.loads(content) | {"hostname": socket.gethostname()}).encode()
    lock.write_bytes(content)
    os.utime(lock, (0, 0))
    code, _ = _findings(capsys, "--mend")
    assert code == ExitCode.OK
    assert not lock.exists()


def test_state_that_is_not_whole_has_a_way_back(
    backend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = backend / ".pulumi" / "stacks" / PROJECT
    copies = backend / ".pulumi" / "backups" / PROJECT / NAME
    for folder in (states, copies):
        folder.mkdir(parents=True)
    torn = states / f"{NAME}.json.gz"
    torn.write_bytes(gzip.compress(b'{"version": 3}')[:-9])
    # Of another project's stack.
    other = backend / ".pulumi" / "backups" / "q" / NAME
    other.mkdir(parents=True)
    (other / f"{NAME}.1800000000000000000.json.gz").write_bytes(gzip.compress(b"{}"))
    code, (row,) = _findings(capsys)
    assert code == ExitCode.REFUSED
    assert "no whole copy of it is here" in row["remedy"]
    # What was being written when it was copied is no way back.
    torn.with_name(f"{torn.name}.bak").write_bytes(b"")
    before = copies / f"{NAME}.1700000000000000000.json.gz"
    before.write_bytes(gzip.compress(b"{}"))
    _, (row,) = _findings(capsys)
    assert row["remedy"] == f"the state before it: cp {before} {torn}"
    torn.write_bytes(before.read_bytes())
    code, _ = _findings(capsys)
    assert code == ExitCode.OK


def test_pipe_in_a_backend_is_not_waited_for(
    backend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = _lock(backend)
    lock.unlink()
    os.mkfifo(lock)
    code, _ = _findings(capsys, "--mend")
    assert code == ExitCode.OK


@pytest.mark.parametrize("script", ["echo no state", "echo null", "exit 7", "sleep 9"])
def test_export_that_fails_has_a_remedy(
    backend: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
) -> None:
    # The package has the command under this name.
    monkeypatch.setattr(sys.modules["railhead.cli.drift"], "_EXPORTED_WITHIN_S", 0.5)
    (backend / "bin" / "pulumi").write_text(f"#!/bin/sh\n{script}\n")
    code, (row,) = _findings(capsys)
    assert code == ExitCode.REFUSED
    assert "pulumi stack export" in row["text"]
    assert "backend" in row["remedy"]


@pytest.mark.parametrize("deployment", [None, {}, {"resources": None, "pending_operations": None}])
def test_state_without_resources_is_right(
    backend: Path, capsys: pytest.CaptureFixture[str], deployment: Any
) -> None:
    _exports(backend, deployment)
    code, rows = _findings(capsys)
    assert (code, [row["passed"] for row in rows]) == (ExitCode.OK, [None])
