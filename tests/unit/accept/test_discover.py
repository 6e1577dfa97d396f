"""Facts that acceptance reads of a cluster, and the command before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.accept import discover, screen
from railhead.accept.site import Facts, Testbed
from railhead.base.errors import ExitCode, InputError, PrerequisiteError, RailheadError
from railhead.cli import run
from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from tests.unit.launch.conftest import CONTRACT, node, publish
from tests.unit.launch.fake_api import Api, serve


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as api:
        publish(api, CONTRACT)
        yield api


@pytest.fixture
def cluster(api: Api, tmp_path: Path) -> Iterator[Cluster]:
    result = Cluster(choose_target(kubeconfig=api.kubeconfig(tmp_path)))
    yield result
    result.close()


def test_nodes_that_are_ready_and_who_they_are(api: Api, cluster: Cluster) -> None:
    pool = CONTRACT.node_pools[0]
    others: dict[str, dict[str, Any]] = {
        "gpu-10": {},
        "gpu-2": {"annotations": {"kwok.x-k8s.io/node": "fake"}},
        "cordoned": {"spec": {"unschedulable": True}},
        "other": {"labels": {"railhead.dev/pool": "cpu"}},
    }
    for name, fields in others.items():
        made = node(CONTRACT, pool, name)
        made["metadata"] |= {k: v for k, v in fields.items() if k != "spec"}
        made["spec"] |= fields.get("spec", {})
        api.put("/api/v1/nodes", made)
    down = node(CONTRACT, pool, "down")
    down["status"]["conditions"][0]["status"] = "False"
    api.put("/api/v1/nodes", down)
    facts = discover.facts(cluster)
    assert facts.nodes == ("gpu-0", "gpu-1", "gpu-2", "gpu-10")
    assert facts.simulated == ("gpu-2",)
    assert facts.real == ("gpu-0", "gpu-1", "gpu-10")
    assert (facts.runtime.name, facts.queue.name, facts.gpus) == ("torch", "training", 8)
    assert discover.facts(cluster, nodes="2").nodes == ("gpu-0", "gpu-1")
    assert discover.facts(cluster, nodes="gpu-10, gpu-0").nodes == ("gpu-10", "gpu-0")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"nodes": "0"}, "allowed: 1 to 2"),
        ({"nodes": "3"}, "has 2 nodes that are ready"),
        ({"nodes": "gpu-0,gpu-9"}, "'gpu-9'"),
        ({"runtime": "torhc"}, "did you mean 'torch'"),
        ({"queue": "other"}, "no queue over pool 'gpu'"),
        ({"queue": "training", "namespace": "elsewhere"}, "in namespace 'elsewhere'"),
        ({"may_lose": ["gpu-7"], "lose_with": "off"}, "--may-lose 'gpu-7': no node of pool"),
        ({"may_lose": ["gpu-1"]}, "go together"),
        ({"lose_with": "off"}, "go together"),
    ],
)
def test_missing_names_are_refused(cluster: Cluster, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        discover.facts(cluster, **asked)


def test_command_that_removes_a_node_is_split_like_a_shells(cluster: Cluster) -> None:
    facts = discover.facts(cluster, may_lose=["gpu-1"], lose_with="sh -c 'off $0'")
    assert (facts.may_lose, facts.lose_with) == (("gpu-1",), ("sh", "-c", "off $0"))
    assert discover.facts(cluster).may_lose == ()


def test_lack_of_ready_nodes_is_reported(api: Api, cluster: Cluster) -> None:
    for name in ("gpu-0", "gpu-1"):
        api.objects[f"/api/v1/nodes/{name}"]["spec"] = {"unschedulable": True}
    with pytest.raises(PrerequisiteError, match="no node of pool 'gpu' is ready"):
        discover.facts(cluster)
    api.refusals["GET", "/api/v1/nodes"] = (403, "nodes is forbidden")
    with pytest.raises(PrerequisiteError, match="may not be listed"):
        discover.facts(cluster)


def test_the_lowest_priority_is_taken(api: Api, cluster: Cluster) -> None:
    path = "/api/v1/namespaces/railhead-system/configmaps/railhead-contract"
    contract = CONTRACT.model_copy(update={"priorities": {"high": 1000, "spare": -10, "mid": 0}})
    api.objects[path]["data"] = {"contract.json": contract.to_json()}
    assert discover.facts(cluster).priority == "spare"


def test_idle_nodes(api: Api, cluster: Cluster) -> None:
    facts = discover.facts(cluster)
    behind = api.objects["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"]
    (taken,) = behind["status"]["flavorsReservation"][0]["resources"]
    for total, idle in ((16, 0), (12, 0), (8, 1), (0, 2)):
        taken["total"] = str(total)
        assert discover.idle(cluster, facts) == idle
    api.refusals["GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"] = (403, "no")
    assert discover.idle(cluster, facts) is None


def test_identity_of_the_cluster(api: Api, cluster: Cluster) -> None:
    api.put("/api/v1/namespaces", {"metadata": {"name": "kube-system", "uid": "u-1"}})
    assert discover.identity(cluster) == "u-1"
    api.refusals["GET", "/api/v1/namespaces/kube-system"] = (403, "no")
    assert discover.identity(cluster) == cluster.server


# -- jobs and their diary -------------------------------------------------------------------------


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Testbed:
    return Testbed(
        facts=discover.facts(cluster), cluster=cluster, folder=tmp_path / "x", say=lambda _: None
    )


def _jobs(api: Api) -> list[str]:
    return [key.rpartition("/")[2] for key in api.objects if "/trainjobs/" in key]


def test_a_job_is_noted_before_it_is_created_and_deleted_after(api: Api, site: Testbed) -> None:
    seen: list[bool] = []
    api.on_create = lambda path, _: seen.append(
        not path.endswith("/trainjobs") or bool((site.folder / "made.jsonl").read_text())
    )
    with site.job("gang", nodes=1, command=["torchrun", "x"]) as job:
        assert _jobs(api) == [job.name]
        assert job.name.startswith("accept-gang-")
    assert _jobs(api) == []
    assert seen
    assert all(seen)
    assert site.used() > 0
    assert site.used() == 0


def test_leftovers_of_an_interrupted_run_are_removed(api: Api, site: Testbed) -> None:
    for _ in range(2):
        site.submit("gang", nodes=1, command=["torchrun", "x"])
    with (site.folder / "made.jsonl").open("a") as diary:
        diary.write('{"name": "accept-cut')
    assert len(_jobs(api)) == 2
    Testbed(facts=site.facts, cluster=site.cluster, folder=site.folder, say=lambda _: None).clean()
    assert _jobs(api) == []
    assert not (site.folder / "made.jsonl").exists()


def test_leftovers_that_cannot_be_removed_stay_in_the_diary(api: Api, site: Testbed) -> None:
    first = site.submit("gang", nodes=1, command=["torchrun", "x"])
    second = site.submit("gang", nodes=1, command=["torchrun", "x"])
    path = kube.trainjobs("training", first.name)
    api.refusals["DELETE", path] = (403, "trainjobs is forbidden")
    with pytest.raises(RailheadError, match=first.name) as error:
        site.clean()
    assert second.name not in str(error.value)
    assert _jobs(api) == [first.name]
    del api.refusals["DELETE", path]
    site.clean()
    assert _jobs(api) == []


def test_a_job_that_was_refused_leaves_nothing(api: Api, site: Testbed) -> None:
    with pytest.raises(RailheadError):
        site.submit("gang", nodes=9, command=["torchrun", "x"])
    site.clean()
    assert _jobs(api) == []


# -- the command ----------------------------------------------------------------------------------


def test_a_plan_runs_nothing(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = str(api.kubeconfig(tmp_path))
    before = len(api.objects)
    code = run(["accept", "--plan", "--quick", "--kubeconfig", config])
    out = capsys.readouterr().out
    assert code == ExitCode.OK
    assert "Acceptance of cluster lab: 2 nodes of pool gpu" in " ".join(out.split())
    assert "node-hours" in out
    assert len(api.objects) == before
    assert not (tmp_path / "railhead-accept").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "rmda"], "did you mean 'rdma'"),
        (["--waive", "rdma"], "--by, --reason, --until is missing"),
        (["--by", "Ada"], "nothing is waived"),
        (["--sign", "none"], "none"),
    ],
)
def test_mistake_is_reported_before_the_cluster_is_queried(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    code = run(["accept", *words, "--kubeconfig", str(api.kubeconfig(tmp_path))])
    assert code in (ExitCode.BAD_INPUT, ExitCode.NOT_FOUND)
    assert says in capsys.readouterr().err
    assert api.asked == []


def test_more_than_is_idle_is_asked_for(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        def isatty(self) -> bool:
            return False

    monkeypatch.setattr("sys.stdin", Nobody())
    ask: Any = screen.confirm
    ask(2, 2, facts, yes=False)
    ask(3, 2, facts, yes=True)
    for idle, says in ((1, "1 are idle"), (None, "how much is idle is not known")):
        with pytest.raises(RailheadError, match=says):
            ask(2, idle, facts, yes=False)
