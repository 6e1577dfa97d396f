"""Volcano by one setting: queues of the same shares, and what cannot be said is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from railhead.config import parse
from railhead.model.cluster import Cluster
from railhead.resolve.cluster import Resolved, resolve
from railhead.resolve.gate import gate_labels
from railhead.resolve.schedulers.volcano import VolcanoQueues
from tests.components.recording import stack_cluster
from tests.unit.config.test_config import WHERE, Raw, mistakes, put
from tests.unit.config.test_teams import shared

VOLCANO = {"scheduler": "volcano"}


def with_teams(*shares: dict[str, Any]) -> Raw:
    raw = shared(*shares) | {"queueing": dict(VOLCANO)}
    raw.pop("default_queue", None)
    raw["runtimes"] = [row for row in raw["runtimes"] if row["framework"] != "mpi"]
    return raw


def site() -> Raw:
    """Return a shipped stack with the setting changed."""
    return stack_cluster("onprem-ib-sriov") | {"queueing": dict(VOLCANO)}


def of(raw: Raw) -> Cluster:
    return parse(raw, where=WHERE)


def resolved(raw: Raw) -> Resolved:
    return resolve(of(raw))


def queues(raw: Raw) -> VolcanoQueues:
    made = resolved(raw).queues
    assert isinstance(made, VolcanoQueues)
    return made


def test_shares_are_deserved_capability_and_guarantee() -> None:
    raw = with_teams({"nodes": 2, "borrow": 1, "lend": 1}, {"nodes": 1, "quota": {"cpu": "3500m"}})
    raw["teams"][0]["priority"] = "production"
    made = queues(raw).queues
    each = made["vision"]["deserved"]
    gpu, cpu = "nvidia.com/gpu", float(made["language"]["deserved"]["cpu"]) / 2
    assert (each[gpu], each["cpu"]) == ("8", "3500m")
    assert [made["language"][part][gpu] for part in ("deserved", "capability")] == ["16", "24"]
    assert made["language"]["guarantee"]["resource"][gpu] == "8"
    assert made["language"]["capability"]["cpu"] == f"{cpu * 3:g}"
    assert made["language"]["priority"] > made["vision"]["priority"]
    # No limit and all lent is what a Queue without either says.
    assert {"capability", "guarantee"} & set(made["vision"]) == set()


def test_a_queue_of_its_own_has_the_pool() -> None:
    (name, spec), *others = queues(site()).queues.items()
    assert (name, others) == ("training", [])
    assert spec["deserved"]["nvidia.com/gpu"] == str(site()["pools"][0]["nodes"] * 8)


@pytest.mark.parametrize(
    ("preemption", "actions"),
    [
        ({}, {"gangpreempt", "gangreclaim"}),
        ({"within": "never"}, {"gangreclaim"}),
        ({"reclaim": "never"}, {"gangpreempt"}),
        ({"within": "never", "reclaim": "never"}, set()),
    ],
)
def test_actions_are_the_teams_preemption(preemption: dict[str, str], actions: set[str]) -> None:
    raw = with_teams({"nodes": 2}, {"nodes": 1})
    for team in raw["teams"]:
        team["preemption"] = preemption
    file = yaml.safe_load(queues(raw).scheduler)
    names = file["actions"].split(", ")
    assert names[:2] == ["allocate", "backfill"]
    assert set(names[2:]) == actions
    plugins = [plugin["name"] for tier in file["tiers"] for plugin in tier["plugins"]]
    assert {"gang", "capacity", "network-topology-aware"} <= set(plugins)
    # A first tier without it lets a team be stopped within its own share.
    assert "capacity" in [plugin["name"] for plugin in file["tiers"][0]["plugins"]]
    # Either keeps queues by itself, and overcommit is for an action that is not there.
    assert not {"proportion", "overcommit"} & set(plugins)


def test_hyper_nodes_are_of_the_levels_that_kueues_topology_has() -> None:
    (source,) = queues(site()).controller["networkTopologyDiscovery"]
    (levels,) = source["config"]["networkTopologyTypes"].values()
    assert (source["source"], source["enabled"]) == ("label", True)
    assert [level["nodeLabel"] for level in levels] == site()["topology"]


def test_a_stack_without_levels_asks_for_no_hyper_nodes() -> None:
    raw = site() | {"topology": ["kubernetes.io/hostname"]}
    assert queues(raw).controller == {}
    assert "network-topology-aware" not in queues(raw).scheduler
    runtime = resolved(raw).runtimes[0]
    assert runtime.spec["podGroupPolicy"] == {"volcano": {}}


def test_a_runtime_makes_a_pod_group_and_its_pods_are_volcanos() -> None:
    raw = site()
    raw["pools"][0]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    runtime = resolved(raw).runtimes[0]
    # Trainer reads highestTierAllowed in soft mode too, and would end for want of it.
    topology = {"mode": "soft", "highestTierAllowed": 2}
    assert runtime.spec["podGroupPolicy"] == {"volcano": {"networkTopology": topology}}
    pod = runtime.pod
    assert pod["spec"]["schedulerName"] == "volcano"
    assert not any(key.startswith("kueue") for key in pod["metadata"].get("annotations", {}))
    # What a flavor of Kueue's brings when it admits the job.
    assert pod["spec"]["nodeSelector"].items() > gate_labels(of(raw)).items() > set()
    assert {"key": "gpu", "operator": "Exists"} in pod["spec"]["tolerations"]


def test_first_node_of_an_empty_pool_need_prove_nothing() -> None:
    """GKE's autoscaler has the labels of a pool, and of its nodes if there is one."""
    for fields, proven in (
        ({}, True),
        ({"min_nodes": 4}, True),
        ({"min_nodes": 0}, False),
        ({"capacity": {"kind": "flex-start", "queued": False}}, False),
    ):
        raw = stack_cluster("gcp-a3-ultra") | {"queueing": dict(VOLCANO)}
        del raw["ready_timeout_seconds"], raw["runtimes"][2]
        raw["pools"][0].update(fields)
        selector = resolved(raw).runtimes[0].pod["spec"]["nodeSelector"]
        assert (selector.items() >= gate_labels(of(raw)).items() > set()) is proven, fields


def test_the_contract_says_who_admits() -> None:
    contract = resolved(site()).contract
    assert contract.scheduler == "volcano"
    assert sorted(contract.versions) == ["combination", "jobset", "trainer", "volcano"]
    # What no job may name is offered to none.
    assert contract.priorities == {}
    assert [queue.name for queue in contract.queues] == ["training", "training"]
    assert resolve(parse(stack_cluster("lab"), where="lab")).contract.scheduler == "kueue"


def _refused() -> list[tuple[str, Any, str, str]]:
    rows = [
        ("default_queue", True, "default_queue", "every job must name one"),
        ("requeue", {"limit": 3}, "requeue", "puts no gang back"),
        ("ready_timeout_seconds", 600, "ready_timeout_seconds", "puts no gang back"),
        ("fair", {"half_life_hours": 3}, "fair.half_life_hours", "past use"),
        ("versions", "kueue-0.15", "versions", "its Kueue"),
        ("teams[0].order", "strict", "teams[0].order", "dequeueStrategy"),
        ("teams[0].weight", 2, "teams[0].weight", "reads no weight"),
        ("teams[0].name", "default", "teams[0].name", "makes for itself"),
        ("runtimes[0].framework", "mpi", "runtimes[0].framework", "minMember"),
        (
            "checkpoints[0].retention",
            {"days": 1, "keep": 1},
            "checkpoints[0].retention",
            "that Kueue admits",
        ),
        ("pod_groups", True, "pod_groups", "no job owns"),
        ("priorities[0].value", 1_000_000_001, "priorities[0].value", "PriorityClass"),
        ("priorities[0].name", "system-x", "priorities[0].name", "are taken"),
    ]
    stops = {
        "within": ("lower-or-newer-equal", "stops lower ones only"),
        "reclaim": ("lower", "whatever the priorities"),
        "borrow": ("lower", "no other team's"),
    }
    for field, (value, words) in stops.items():
        where = f"teams[0].preemption.{field}"
        rows.append(("teams[0].preemption", {field: value}, where, words))
    differs = "for all queues or for none"
    rows.append(("teams[0].preemption", {"within": "never"}, "teams[1].preemption.within", differs))
    return rows


@pytest.mark.parametrize(("path", "value", "where", "words"), _refused())
def test_settings_that_volcano_lacks_are_refused(
    path: str, value: Any, where: str, words: str
) -> None:
    raw = with_teams({"nodes": 2}, {"nodes": 1})
    raw["fair"] = {"sharing": False}
    raw["priorities"] = [
        {"name": "production", "value": 1000},
        {"name": "research", "value": 0},
    ]
    put(raw, path, value)
    text = mistakes(raw)
    assert any(line.startswith(f"{where}: ") and words in line for line in text), text
    of(kueues(raw))


def kueues(raw: Raw) -> Raw:
    return raw | {"queueing": {"scheduler": "kueue"}}


def test_indistinguishable_pools_are_refused() -> None:
    raw = site()
    raw["pools"].append(raw["pools"][0] | {"name": "other", "node_selector": {"a.b/c": "d"}})
    raw["queues"][0]["pools"].append("other")
    assert any("counts a resource whatever the pool" in line for line in mistakes(raw))


def test_a_scheduler_that_is_not_known_is_refused() -> None:
    (line,) = mistakes(site() | {"queueing": {"scheduler": "kai"}})
    assert line.startswith("queueing.scheduler: ")
    assert "volcano" in line


def test_kueue_is_the_default_and_may_be_named() -> None:
    raw = stack_cluster("onprem-ib-sriov")
    del raw["queueing"]
    assert resolve(of(raw)).contract == resolve(of(kueues(raw))).contract
