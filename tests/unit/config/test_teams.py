"""Teams: what is promised is there, what is nobody's is lent, and every mistake is named."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from railhead.base.quantity import parse as number
from railhead.cli.config import app
from railhead.config import parse
from railhead.model.borrowing import borrowing
from railhead.model.capacity import quantities
from railhead.model.cluster import Cluster
from railhead.resolve.cluster import resolve
from railhead.resolve.queues import settings as settings_of
from tests.kueues import kueues
from tests.unit.config.test_config import WHERE, Raw, lab, mistakes, put


def shared(*shares: dict[str, Any], nodes: int = 4) -> Raw:
    """Return the lab's stack with a team for each share of its pool, and no queue of its own."""
    raw = lab()
    raw["pools"][0]["nodes"] = nodes
    raw["namespaces"], raw["queues"] = [], []
    names = ["language", "vision", "speech"][: len(shares)]
    raw["teams"] = [
        {
            "name": name,
            "namespaces": [name],
            "researchers": [f"railhead:{name}"],
            "shares": [{"pool": "gpu"} | share],
        }
        for name, share in zip(names, shares, strict=True)
    ]
    claim = raw["checkpoints"][0]
    raw["checkpoints"] = [claim | {"namespace": name} for name in names]
    return raw


def cluster(*shares: dict[str, Any], nodes: int = 4) -> Cluster:
    return parse(shared(*shares, nodes=nodes), where=WHERE)


ONE = [
    ("teams[0].shares[0].pool", "gpus", "teams[0].shares[0].pool", "did you mean 'gpu'?"),
    ("teams[0].shares[0].nodes", 4, "teams[1].shares[0].nodes", "promised 5 nodes of pool 'gpu'"),
    ("teams[0].shares[0].nodes", -1, "teams[0].shares[0].nodes", "greater than or equal to 0"),
    ("teams[0].shares[0].lend", 3, "teams[0].shares[0]", "lend: 3 is more than the 2 nodes"),
    ("teams[0].shares[0].quota", {"cpus": "1"}, "teams[0].shares[0].quota.cpus", "have no 'cpus'"),
    (
        "teams[0].shares[0].quota",
        {"rdma/rdma_shared_device_a": "100000"},
        "teams[1].shares[0].quota.rdma/rdma_shared_device_a",
        "promised 100063 rdma/rdma_shared_device_a",
    ),
    ("teams[0].priority", "reserach", "teams[0].priority", "did you mean 'research'?"),
    ("teams[1].name", "language", "teams[1].name", "taken by teams[0]"),
    ("teams[1].namespaces", ["language"], "teams[1].namespaces[0]", "is one team's"),
    ("teams[0].researchers", [" x"], "teams[0].researchers[0]", "is not a group's name"),
    ("teams[0].researchers", [], "teams[0].researchers", "is empty"),
    ("teams[0].shares", [], "teams[0].shares", "is empty"),
    ("teams[0].order", "fifo", "teams[0].order", "allowed: best-effort"),
    (
        "teams[0].preemption",
        {"reclaim": "never", "borrow": "lower"},
        "teams[0].preemption",
        "needs reclaim",
    ),
    ("teams", [], "namespaces", "is missing; give it, or teams"),
    ("teams", [], "queues", "is missing; give it, or teams"),
    ("priorities", [{"name": "research", "value": 2**31}], "priorities[0].value", "less than or"),
    (
        "queues",
        [{"name": "q", "namespace": "language", "cluster_queue": "q", "pools": ["gpu"]}],
        "teams[0].shares[0].pool",
        "belongs to cluster queue 'q'",
    ),
]


@pytest.mark.parametrize(("path", "value", "where", "words"), ONE)
def test_a_mistake_is_named(path: str, value: Any, where: str, words: str) -> None:
    raw = shared({"nodes": 2}, {"nodes": 1})
    put(raw, path, value)
    text = mistakes(raw)
    assert any(line.startswith(f"{where}: ") and words in line for line in text), text


def totals(found: Cluster) -> dict[str, Decimal]:
    """Resource -> nominal quota of every cluster queue and of the cohort together."""
    queues = kueues(resolve(found))
    assert queues.cohort is not None
    total: dict[str, Decimal] = defaultdict(Decimal)
    for spec in (queues.cohort.spec, *(queue.spec for queue in queues.cluster_queues)):
        for group in spec["resourceGroups"]:
            for flavor in group["flavors"]:
                assert [r["name"] for r in flavor["resources"]] == group["coveredResources"]
                for resource in flavor["resources"]:
                    total[resource["name"]] += number(resource["nominalQuota"])
    return total


@pytest.mark.slow
@given(
    nodes=st.integers(1, 12),
    first=st.integers(0, 12),
    second=st.integers(0, 12),
    gpus=st.none() | st.integers(0, 12),
)
@settings(max_examples=60, deadline=None)
def test_queues_and_cohort_together_are_the_pool(
    nodes: int, first: int, second: int, gpus: int | None
) -> None:
    quota = {} if gpus is None else {"quota": {"nvidia.com/gpu": str(gpus)}}
    raw = shared({"nodes": first} | quota, {"nodes": second}, nodes=nodes)
    wanted = (8 * first if gpus is None else gpus) + 8 * second
    if first + second > nodes or wanted > 8 * nodes:
        assert any("are promised" in line for line in mistakes(raw))
        return
    parsed = parse(raw, where=WHERE)
    pool = parsed.pools[0]
    assert totals(parsed) == {
        name: number(text) for name, text in quantities(parsed, pool, pool.nodes).items()
    }


def test_limits_are_in_nodes_worth_of_everything() -> None:
    parsed = cluster({"nodes": 2, "borrow": 1, "lend": 1}, {"nodes": 1, "borrow": 0, "lend": 0})
    first, second = (queue.spec for queue in kueues(resolve(parsed)).cluster_queues)
    assert first["cohortName"] == second["cohortName"] == "lab"
    per_node = quantities(parsed, parsed.pools[0])
    for spec, limits in ((first, ("1", "1")), (second, ("0", "0"))):
        for resource in spec["resourceGroups"][0]["flavors"][0]["resources"]:
            each = number(per_node[resource["name"]])
            assert number(resource["borrowingLimit"]) == each * int(limits[0])
            assert number(resource["lendingLimit"]) == each * int(limits[1])
            assert number(resource["lendingLimit"]) <= number(resource["nominalQuota"])


def test_a_namespace_cannot_submit_to_another_team() -> None:
    parsed = cluster({"nodes": 2}, {"nodes": 1})
    resolved = resolve(parsed)
    for queue in kueues(resolved).cluster_queues:
        (rule,) = queue.spec["namespaceSelector"]["matchExpressions"]
        assert rule == {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": [queue.name],
        }
    assert {n.name: dict(n.queues) for n in resolved.namespaces} == {
        # A job that names no queue gets its team's.
        name: {name: {"clusterQueue": name}, "default": {"clusterQueue": name}}
        for name in ("language", "vision")
    }
    assert {queue.name for queue in resolved.contract.queues} == {"language", "vision"}
    assert resolved.contract.namespaces == ("language", "vision")


def test_several_queues_have_no_default() -> None:
    raw = lab()
    raw["queues"].append(raw["queues"][0] | {"name": "night"})
    (namespace,) = resolve(parse(raw, where=WHERE)).namespaces
    assert set(namespace.queues) == {"training", "night"}
    raw["queues"].pop()
    (namespace,) = resolve(parse(raw, where=WHERE)).namespaces
    assert set(namespace.queues) == {"training", "default"}
    raw["default_queue"] = False
    (namespace,) = resolve(parse(raw, where=WHERE)).namespaces
    assert set(namespace.queues) == {"training"}


def test_borrowing_limits_are_described_in_words(tmp_path: Path) -> None:
    first, second = cluster({"nodes": 2, "borrow": 1, "lend": 1}, {"nodes": 1, "lend": 0}).teams
    parsed = cluster({"nodes": 2, "borrow": 1, "lend": 1}, {"nodes": 1, "lend": 0})
    assert borrowing(parsed, first) == (
        "is promised 2 nodes of 4 in pool gpu, and may borrow up to 1, by its own limit of 1: "
        "1 that nobody is promised",
    )
    assert borrowing(parsed, second) == (
        "is promised 1 node of 4 in pool gpu, and may borrow up to 2: 1 that nobody is promised, "
        "1 of language",
    )
    full = cluster({"nodes": 3, "lend": 0}, {"nodes": 1, "borrow": 0})
    assert borrowing(full, full.teams[1])[0].endswith("may borrow none: no other lends any")
    assert borrowing(full, full.teams[0])[0].endswith("may borrow up to 1: 1 of vision")
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(yaml.safe_dump({"config": {"railhead:cluster": shared({"nodes": 2})}}))
    done = CliRunner().invoke(app, ["check", str(path), "--json"])
    (row,) = json.loads(done.stdout)["teams"]
    assert (row["team"], row["borrows_up_to"], row["of"]) == ("language", 2, {"nobody": 2})
    assert row["quota"]["nvidia.com/gpu"] == "16"
    output = CliRunner().invoke(app, ["check", str(path)]).stdout
    assert "team language is promised 2 nodes of 4 in pool gpu" in output


def test_how_long_a_gang_is_waited_for_is_the_stacks_to_say() -> None:
    raw = shared({"nodes": 2})
    ready = settings_of(parse(raw, where=WHERE))["waitForPodsReady"]
    assert ready["requeuingStrategy"]["backoffLimitCount"] == 5
    assert (ready["timeout"], ready["recoveryTimeout"]) == ("600s", "600s")
    raw["requeue"] = {"recovery_seconds": 0, "backoff_seconds": 5, "limit": None}
    ready = settings_of(parse(raw, where=WHERE))["waitForPodsReady"]
    assert ready["recoveryTimeout"] == "0s"
    assert "backoffLimitCount" not in ready["requeuingStrategy"]
    raw["requeue"] = {"backoff_seconds": 60, "backoff_max_seconds": 30}
    assert any("is less than backoff_seconds" in line for line in mistakes(raw))


@pytest.mark.parametrize(
    ("nodes", "limits"), [(2, (300, 500)), (400, (400, 500)), (1500, (1000, 1000))]
)
def test_kueue_asks_as_often_as_nodes_start_pods(nodes: int, limits: tuple[int, int]) -> None:
    """A patch for each pod that is placed, by one limiter (kueue issue 13683)."""
    cluster = parse(lab(), where=WHERE)
    pools = (cluster.pools[0].model_copy(update={"nodes": nodes}),)
    client = settings_of(cluster.model_copy(update={"pools": pools}))["clientConnection"]
    assert (client["qps"], client["burst"]) == limits


def test_fair_sharing_needs_teams_and_no_preemption_to_borrow() -> None:
    assert "fairSharing" not in settings_of(parse(lab(), where=WHERE))
    raw = shared({"nodes": 2}, {"nodes": 1})
    assert settings_of(parse(raw, where=WHERE))["fairSharing"]["preemptionStrategies"]
    raw["teams"][0]["preemption"] = {"borrow": "lower"}
    assert any("has no effect with fair sharing" in line for line in mistakes(raw))
    raw["fair"] = {"sharing": False, "half_life_hours": 24}
    parsed = parse(raw, where=WHERE)
    assert settings_of(parsed)["admissionFairSharing"]["usageHalfLifeTime"] == "24h"
    assert "fairSharing" not in settings_of(parsed)
    first, second = (queue.spec for queue in kueues(resolve(parsed)).cluster_queues)
    assert first["preemption"]["borrowWithinCohort"] == {"policy": "LowerPriority"}
    assert "borrowWithinCohort" not in second["preemption"]
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    assert first["admissionScope"] == scope
