"""`railhead state`: dead locks and empty sidecars are mended, the rest is said with a remedy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import ExitCode
from railhead.cli import run

REPO = Path(__file__).resolve().parents[2]
STACK = str(REPO / "stacks" / "Pulumi.onprem-ib-sriov.yaml")
NAME = "onprem-ib-sriov"
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
    lock = backend / ".pulumi" / "locks" / "organization" / "p" / NAME / "a.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": dead.pid, "hostname": socket.gethostname()}))
    sidecar = backend / ".pulumi" / "stacks" / "p" / f"{NAME}.json.attrs"
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
    lock = backend / ".pulumi" / "locks" / "organization" / "p" / NAME / "a.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": 1, "hostname": "elsewhere"}))
    code, (row,) = _findings(capsys, "--mend")
    assert code == ExitCode.REFUSED
    assert row["remedy"] == f"once that process is gone: `pulumi cancel --yes --stack {NAME}`"
    assert lock.exists()
