"""`railhead nccl read` as it is typed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from railhead import cli
from railhead.base.errors import ExitCode
from railhead.diagnose import read
from railhead.evidence import live
from railhead.kube import client as kube
from railhead.nccl import expect
from railhead.nccl.sources import Source
from tests.unit.nccl import logs


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return logs.write(tmp_path / "healthy.log", logs.healthy())


def test_json_has_the_words_and_their_evidence(
    healthy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["nccl", "read", "--json", str(healthy)]) == 0
    held = json.loads(capsys.readouterr().out)
    assert [held[key] for key in ("transport", "gdr", "verdict", "cause")] == [
        "ib", "yes", "ok", None,
    ]  # fmt: skip
    assert held["ranks"] == 16
    assert held["communicators"][0]["nodes"] == 2
    evidence = held["claims"]["transport"]["evidence"][0]
    assert evidence["file"] == str(healthy)
    assert "via NET/IB/0/GDRDMA" in healthy.read_text().splitlines()[evidence["line"] - 1]
    assert held["input"]["files"] == [str(healthy)]


def test_the_verdict_comes_first_for_people(
    healthy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["nccl", "read", str(healthy)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("ok: ")
    assert any(line.startswith("transport: ib ") for line in out)
    assert any(f"{healthy}:" in line for line in out)


def test_standard_input_is_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(logs.healthy()).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert cli.run(["nccl", "read", "--json", "-"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["transport"] == "ib"
    assert held["claims"]["transport"]["evidence"][0]["file"] == "-"


def test_expected_transport_passes(healthy: Path) -> None:
    assert cli.run(["nccl", "read", str(healthy), "--expect", "ib", "--expect-gdr"]) == 0
    assert cli.run(["nccl", "read", str(healthy), "--expect", "rdma", "--gate"]) == 0


def test_unexpected_transport_fails(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["nccl", "read", str(healthy), "--expect", "efa"]) == ExitCode.UNMET
    assert "the transport is ib" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["nothing"], ["--expect", "ib"]),
        ([logs.IB_LIST, logs.info("Using network IB")], ["--expect", "ib"]),
        ([logs.net(0, 8, "send")], ["--expect", "ib"]),
        ([logs.net(0, 8, "send")], ["--expect", "roce"]),
        ([logs.info("Using network AWS Libfabric")], ["--expect", "efa"]),
        ([logs.IB_LIST], ["--expect-gdr"]),
    ],
)
def test_without_proof_a_gate_stays_closed(
    tmp_path: Path, lines: list[str], options: list[str]
) -> None:
    path = logs.write(tmp_path / "log", lines)
    code = cli.run(["nccl", "read", str(path), *options])
    assert code in (ExitCode.UNPROVEN, ExitCode.UNMET)
    assert code != 0


def test_an_expectation_is_a_check_with_its_evidence(tmp_path: Path) -> None:
    lines = {
        True: logs.healthy(),
        False: [logs.IB_LIST, logs.net(0, 8, "send").replace("NET/IB", "NET/Socket")],
        None: [logs.IB_LIST, logs.info("Using network IB")],
    }
    verbs = read([logs.write(tmp_path / "verbs", [logs.net(0, 8, "send")])])
    wanted = {"rdma": True, "ib": None, "roce": None, "efa": False, "socket": False}
    assert {word: expect.transport(verbs, word).passed for word in wanted} == wanted
    for passed, log in lines.items():
        finding = expect.transport(read([logs.write(tmp_path / "log", log)]), "rdma")
        assert finding.passed is passed, finding
        assert finding.evidence
        assert bool(finding.remedy) is not passed


def test_gdr_on_some_connections_is_not_gdr(tmp_path: Path) -> None:
    lines = [logs.IB_LIST, logs.net(0, 8, "send"), logs.net(0, 8, "receive", gdr=False)]
    path = logs.write(tmp_path / "log", lines)
    assert cli.run(["nccl", "read", str(path), "--expect", "ib"]) == 0
    assert cli.run(["nccl", "read", str(path), "--expect-gdr"]) == ExitCode.UNMET


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (logs.info("Using network Socket"), ExitCode.TCP_FALLBACK),
        (logs.warn("Bootstrap : no socket interface found"), ExitCode.INIT_FAILURE),
        ("  0 1 4 8 32 32   RUNNING  MISMATCH", ExitCode.HANG),
        (logs.warn("NET/IB : Got completion with error 12, opcode 1"), ExitCode.TIMEOUT),
        (logs.net(0, 8, "send", gdr=False), ExitCode.LOW_BANDWIDTH),
        (logs.row(1 << 30, 4.0, 7.5), ExitCode.MEASURED),
        ("\n".join([logs.net(0, 8, "send"), logs.net(8, 0, "receive")]), ExitCode.WIRED),
        ("nothing", ExitCode.OTHER),
    ],
)
def test_a_gate_exits_with_the_verdict(tmp_path: Path, line: str, code: ExitCode) -> None:
    path = logs.write(tmp_path / "log", [line])
    assert cli.run(["nccl", "read", str(path), "--gate"]) == code
    assert cli.run(["nccl", "read", str(path)]) == 0


def test_wrong_word_is_reported(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["nccl", "read", str(healthy), "--expect", "eda"]) == ExitCode.BAD_INPUT
    assert "did you mean 'efa'" in capsys.readouterr().err


def test_missing_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["nccl", "read", str(tmp_path / "no.log")]) == ExitCode.NOT_FOUND
    assert "no such file" in capsys.readouterr().err


class _Reader:
    def __init__(self, text: str) -> None:
        self._stream = io.BytesIO(text.encode())

    def read(self, size: int, /) -> bytes:
        return self._stream.read(size)


def test_pods_and_jobs_are_read_from_the_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    class Opened:
        def close(self) -> None:
            asked.append(("close", ""))

    def source(name: str) -> list[Source]:
        text = "\n".join(f"2026-01-02T03:04:05.6Z {line}" for line in logs.healthy())
        return [Source(name=name, open=lambda: _Reader(text))]

    def of_pod(_cluster: object, _among: object, pod: str) -> list[Source]:
        asked.append(("pod", pod))
        return source(f"pod/{pod}")

    def of_job(_cluster: object, _among: object, job: str) -> list[Source]:
        asked.append(("job", job))
        return source(f"pod/{job}-node-0-0")

    monkeypatch.setattr(kube, "choose_target", lambda **_: None)
    monkeypatch.setattr(kube, "Cluster", lambda _: Opened())
    monkeypatch.setattr(live, "of_pod", of_pod)
    monkeypatch.setattr(live, "of_job", of_job)
    command = ["nccl", "read", "--json", "-n", "team-a", "pod/w-0", "torch-ddp", "job/other"]
    assert cli.run(command) == 0
    assert asked == [("pod", "w-0"), ("job", "torch-ddp"), ("job", "other"), ("close", "")]
    held = json.loads(capsys.readouterr().out)
    assert held["transport"] == "ib"
    assert held["input"]["files"] == ["pod/w-0", "pod/torch-ddp-node-0-0", "pod/other-node-0-0"]
