"""Logs that are still in the cluster, over HTTP from an API server's stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead import cli
from railhead.base.errors import ExitCode
from railhead.kube import client as kube
from tests.unit.launch.fake_api import Api, serve
from tests.unit.nccl import logs


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as started:
        yield started


def pod(api: Api, name: str, *states: dict[str, Any]) -> None:
    api.put(
        kube.core("team-a", "pods"),
        {
            "metadata": {"name": name},
            "status": {
                "containerStatuses": [
                    {"name": f"c{number}", "restartCount": 0, "state": state}
                    for number, state in enumerate(states)
                ]
            },
        },
    )


def read(api: Api, tmp_path: Path, *names: str) -> int:
    config = api.kubeconfig(tmp_path)
    return cli.run(["nccl", "read", "--json", "-n", "team-a", "--kubeconfig", str(config), *names])


def test_log_of_a_pod_is_read_with_its_times(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod(api, "worker-0", {"running": {}})
    api.logs["worker-0"] = [f"2026-01-02T03:04:05.6Z {line}" for line in logs.healthy()]
    assert read(api, tmp_path, "pod/worker-0") == 0
    held = json.loads(capsys.readouterr().out)
    assert (held["transport"], held["gdr"], held["verdict"]) == ("ib", "yes", "ok")
    evidence = held["claims"]["transport"]["evidence"][0]
    assert evidence["file"] == "pod/worker-0"
    assert evidence["time"] == "2026-01-02T03:04:05.6Z"
    asked = [params for method, path, params in api.asked if path.endswith("/log")]
    assert [params["container"] for params in asked] == ["c0"]
    assert {method for method, _, _ in api.asked} == {"GET"}


def test_a_pod_that_has_not_started_says_so(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod(api, "worker-0", {"waiting": {"reason": "ImagePullBackOff"}})
    assert read(api, tmp_path, "pod/worker-0") == ExitCode.NOT_FOUND
    assert "none of its containers has started" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["pod/nobody", "nobody"])
def test_missing_objects_are_reported(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert read(api, tmp_path, name) == ExitCode.NOT_FOUND
    assert "nobody" in capsys.readouterr().err


def test_a_log_that_stops_in_the_middle_is_an_error(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    def lines(*_: object, **__: object) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def opened() -> Iterator[Iterator[str]]:
            def some() -> Iterator[str]:
                yield "2026-01-02T03:04:05Z first"
                raise TimeoutError("silence")

            yield some()

        return opened()

    pod(api, "worker-0", {"running": {}})
    monkeypatch.setattr(kube.Cluster, "log_lines", lines)
    assert read(api, tmp_path, "pod/worker-0") == ExitCode.TIMED_OUT
    assert "stopped in the middle" in capsys.readouterr().err
