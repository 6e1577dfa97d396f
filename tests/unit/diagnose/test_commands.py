"""`railhead diagnose` as people run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.base.errors import ExitCode
from railhead.cli import run
from tests.unit.diagnose.cases import IB_OK, RETRY
from tests.unit.diagnose.recorder import entry, pickled
from tests.unit.diagnose.test_live import event
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api, serve

MEMLOCK = (
    "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate "
    "memory\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text(MEMLOCK)
    return path


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as served:
        publish(served, CONTRACT)
        yield served


def test_a_cause_comes_with_its_fix(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", str(log)]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "1. memlock-limit  sure (85%)" in out
    assert f"{log}:1: misc/ibvwrap.cc" in out
    assert "fix in the stack: fabric.lock_memory" in out
    assert "confirm: `ulimit -l`" in out


def test_json_keeps_its_keys(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", str(log), "--json"]) == ExitCode.OK
    reported = json.loads(capsys.readouterr().out)
    assert reported["cause"] == "memlock-limit"
    assert reported["collect"] is None
    first = reported["findings"][0]
    assert first["named"] is True
    assert first["evidence"][0]["where"] == f"{log}:1"
    assert set(first["fix"]) == {"where", "setting", "text", "by_hand"}


def test_the_reader_names_the_same_cause(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nccl", "read", "--json", str(log)]) == ExitCode.OK
    reported = json.loads(capsys.readouterr().out)
    assert reported["cause"] == "memlock-limit"


def test_without_a_cause_it_says_so_and_what_to_collect(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text(RETRY + "\n")
    assert run(["diagnose", str(log)]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "No cause: no line names one, these are possible:" in out
    assert "rdma-retry-exceeded  possible (55%)" in out
    assert f"$ railhead diagnose {log} --job NAME --collect" in out
    assert run(["diagnose", "--json", str(log)]) == ExitCode.OK
    reported = json.loads(capsys.readouterr().out)
    assert reported["cause"] is None
    assert reported["collect"]["command"].endswith("--collect")


def test_a_healthy_log_is_healthy(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(IB_OK)
    assert run(["diagnose", str(log)]) == ExitCode.OK
    assert "Nothing is wrong that the logs show." in capsys.readouterr().out


def test_dumps_name_the_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(4):
        late = [] if rank == 2 else [entry(2, state="started")]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickled([entry(1), *late]))
    (tmp_path / "evil_9").write_bytes(b"\x80\x02cos\nsystem\n(S'true'\ntR.")
    assert run(["diagnose", str(tmp_path)]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "1. straggler  sure (90%)" in out
    assert "rank 2 never came to all_reduce" in out
    assert "not read: " in out
    assert "evil_9" in out


def test_a_job_is_diagnosed_from_its_events(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = world.job(api, "demo")
    world.workload(api, job, admitted=True)
    job["spec"]["suspend"] = False
    world.pod(api, job, 0, state={"waiting": {"reason": "ContainerCreating"}}, phase="Pending")
    api.put(
        "/api/v1/namespaces/training/events",
        event("Warning", "FailedMount", "claim not found")
        | {"involvedObject": {"kind": "Pod", "name": "demo-node-0-0-abcde", "uid": "u"}},
    )
    flags = ["--kubeconfig", str(api.kubeconfig(tmp_path))]
    assert run(["diagnose", "--job", "demo", "--json", *flags]) == ExitCode.OK
    reported = json.loads(capsys.readouterr().out)
    assert reported["cause"] == "volume-not-mounted"
    assert {method for method, _, _ in api.asked} == {"GET"}


def test_a_collected_job_is_diagnosed_again_from_its_bundle(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = world.job(api, "demo")
    world.admit(api, job)
    for name in list(api.logs):
        api.logs[name] = [f"2026-01-02T03:04:05.000000001Z {MEMLOCK.strip()}"]
        api.open_logs.discard(name)
    lost = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
    api.put("/api/v1/nodes", {"metadata": {"name": "lab-node-1"}, "status": lost})
    flags = ["--kubeconfig", str(api.kubeconfig(tmp_path))]
    bundle = tmp_path / "evidence.tar.gz"
    arguments = ["diagnose", "--job", "demo", "--collect", "-o", str(bundle), *flags]
    assert run(arguments) == ExitCode.OK
    assert "redacted, mode 0600" in capsys.readouterr().err
    assert run(["diagnose", str(bundle), "--json"]) == ExitCode.OK
    reported = json.loads(capsys.readouterr().out)
    assert reported["cause"] == "memlock-limit"
    assert "node-lost" in {finding["cause"] for finding in reported["findings"]}
    assert {method for method, _, _ in api.asked} == {"GET"}


def test_a_pod_is_diagnosed(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = world.job(api, "demo")
    world.admit(api, job)
    name = "demo-node-0-1-abcde"
    api.logs[name] = [f"2026-01-02T03:04:05.000000001Z {MEMLOCK.strip()}"]
    api.open_logs.discard(name)
    flags = ["--kubeconfig", str(api.kubeconfig(tmp_path)), "--json"]
    assert run(["diagnose", "--pod", name, *flags]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["cause"] == "memlock-limit"
    assert run(["diagnose", "--pod", "no-such-pod", *flags]) == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "nothing to diagnose"),
        (["--job", "a", "--pod", "b"], "--job and --pod"),
        (["x.log", "-o", "y"], "--output"),
        (["-", "--collect"], "can be read once"),
    ],
)
def test_contradictions_are_refused(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diagnose", *arguments]) == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err


def test_a_missing_log_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", str(tmp_path / "no.log")]) == ExitCode.NOT_FOUND
    assert "no.log" in capsys.readouterr().err
