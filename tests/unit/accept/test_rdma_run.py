"""The RDMA check's own run, on an API server that plays the job, with what real jobs have written.

`data/rdma-gloo-*.log` are of the program itself, in the training image, as two hosts that have a
network of their own between them: gloo, on CPU, over TCP.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.accept import discover
from railhead.accept.checks import rdma
from railhead.accept.kept import Folder
from railhead.accept.model import Verdict
from railhead.accept.runner import Runner, Suite
from railhead.kube.client import Cluster, choose_target
from railhead.launch import submit
from railhead.launch.logs import claimed
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api, serve

DATA = Path(__file__).resolve().parent / "data"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(submit, "POLL_SECONDS", 0.02)
    with serve() as api:
        publish(api, CONTRACT)
        api.put("/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
        yield api


@pytest.fixture
def runner(api: Api, tmp_path: Path) -> Iterator[Runner]:
    cluster = Cluster(choose_target(kubeconfig=api.kubeconfig(tmp_path)))
    facts = discover.facts(cluster, quick=True)
    yield Runner(
        facts=facts,
        cluster=cluster,
        uid=discover.identity(cluster),
        folder=Folder(tmp_path / "out"),
        say=lambda _: None,
    )
    cluster.close()


def play(api: Api, *, failed: bool = False, cut: int | None = None) -> list[dict[str, Any]]:
    """Let every job run at once and write what was recorded; returns the jobs as they were made."""
    made: list[dict[str, Any]] = []

    def created(path: str, body: dict[str, Any]) -> None:
        if "/trainjobs/" not in path:
            return
        made.append(body)
        world.admit(api, body)
        for pod in (0, 1):
            name = f"{body['metadata']['name']}-node-0-{pod}-abcde"
            place = api.objects[f"{world.PODS}/{name}"]
            place["spec"]["nodeName"] = f"gpu-{pod}"
            lines = (DATA / f"rdma-gloo-{pod}.log").read_text().splitlines()[:cut]
            api.logs[name] = [f"2026-01-02T03:04:05.{i:09d}Z {x}" for i, x in enumerate(lines)]
        world.end(api, body, failed=failed)

    api.on_create = created
    return made


def result(runner: Runner) -> Any:
    report = runner.run(Suite(checks=(rdma.CHECK,), only=frozenset({"rdma"})))
    return report.checks[0]


def test_a_real_run_over_tcp_fails_in_words(api: Api, runner: Runner) -> None:
    made = play(api)
    match = result(runner)
    assert match.verdict is Verdict.FAILED
    assert match.summary.startswith("The transport is TCP: backend gloo, and the kernel's")
    (job,) = made
    trainer = job["spec"]["trainer"]
    words = claimed.without([*trainer["command"], *trainer["args"]])
    assert words[:2] == ["torchrun", "/workspace/rdma.py"]
    env = {e["name"]: e.get("value") for e in trainer["env"]}
    assert env["NCCL_DEBUG"] == "INFO"
    assert (job["spec"]["trainer"]["numNodes"], job["metadata"]["namespace"]) == (2, "training")
    assert not [key for key in api.objects if "/trainjobs/" in key]


@pytest.mark.parametrize("cut", [0, 3, 9])
def test_a_run_that_is_cut_off_is_never_passed(api: Api, runner: Runner, cut: int) -> None:
    play(api, cut=cut)
    assert result(runner).verdict is Verdict.NOT_PROVEN


def test_a_job_that_failed_tells_its_last_lines(api: Api, runner: Runner) -> None:
    play(api, failed=True, cut=2)
    match = result(runner)
    assert match.verdict is Verdict.NOT_PROVEN
    assert "the job is failed" in match.summary.lower()
    assert any("jobset failed" in item.text for item in match.evidence)


def test_a_queue_that_refuses_is_not_proven(api: Api, runner: Runner) -> None:
    del api.objects["/apis/kueue.x-k8s.io/v1beta2/namespaces/training/localqueues/training"]
    match = result(runner)
    assert match.verdict is Verdict.NOT_PROVEN
    assert "could not be run" in match.summary
