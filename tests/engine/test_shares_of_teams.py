"""Quotas that teams are promised, borrow and lend, with the real Kueue.

Kueue's own process admits, stops and holds back jobs of two teams of one stack, on nodes that are
there by their status alone: what a queue decides needs no pod to run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.base.names import KUEUE_API, PRIORITY_LABEL, QUEUE_LABEL
from railhead.config import parse as parse_config
from railhead.kube.conditions import condition, holds
from railhead.launch.job import parse_job
from railhead.launch.plan import make_plan
from railhead.resolve.cluster import resolve
from tests.api_server import Server
from tests.components.recording import fake_lab, run_program, stack_cluster
from tests.engine.test_what_is_charged import queued
from tests.kueue_manager import eventually

pytestmark = pytest.mark.controlplane

NODES = 10
TEAMS = ("language", "vision")
Body = dict[str, Any]


def cluster() -> Body:
    """Four nodes promised to a team of weight two, four to another, two to nobody."""
    body = stack_cluster("lab")
    body["pools"][0]["nodes"] = NODES
    (claim,) = body["checkpoints"]
    body |= {
        "namespaces": [],
        "queues": [],
        "checkpoints": [claim | {"namespace": team} for team in TEAMS],
    }
    share = {"pool": body["pools"][0]["name"], "nodes": 4}
    body["teams"] = [
        {
            "name": "language",
            "namespaces": ["language"],
            "researchers": ["r"],
            "shares": [share],
            "weight": 2,
        },
        {
            "name": "vision",
            "namespaces": ["vision"],
            "researchers": ["r"],
            "shares": [share | {"borrow": 1, "lend": 2}],
        },
    ]
    return body


@pytest.fixture(scope="module")
def cluster_of_teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    recording = run_program(cluster(), cache)
    with queued(recording, tmp_path_factory.mktemp("teams"), NODES) as server:
        yield server


@pytest.fixture
def server(cluster_of_teams: Server) -> Iterator[Server]:
    """The server with both teams' queues empty before and after the test."""
    made = dict(cluster_of_teams.applied)
    yield cluster_of_teams
    mine = [body for path, body in cluster_of_teams.applied.items() if path not in made]
    cluster_of_teams.delete(mine)
    for team in TEAMS:
        cluster_of_teams.run(
            "delete", "workloads.kueue.x-k8s.io", "--all", "-n", team, "--wait=false"
        )
    cluster_of_teams.eventually_gone(mine, seconds=120)
    for body in mine:
        del cluster_of_teams.applied[cluster_of_teams.path(body)]
    eventually(lambda: not workloads(cluster_of_teams))


def submit(server: Server, team: str, name: str, nodes: int, priority: str = "research") -> None:
    """Submit an indexed Job of so many whole nodes to the team's queue."""
    text = f"name: {name}\nqueue: {team}\nnodes: {nodes}\nframework: raw\ncommand: [train.py]\n"
    contract = resolve(parse_config(cluster(), where="test")).contract
    template = copy.deepcopy(make_plan(parse_job(text, where="job"), (), contract).template)
    template["spec"] |= {"restartPolicy": "Never"}
    template["spec"]["containers"][0]["command"] = ["true"]
    labels = {QUEUE_LABEL: team, PRIORITY_LABEL: priority}
    spec = {"parallelism": nodes, "completions": nodes, "completionMode": "Indexed"}
    server.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": team, "labels": labels},
            "spec": spec | {"suspend": True, "template": template},
        }
    )


def workloads(server: Server) -> list[Body]:
    result: list[Body] = server.client.request("GET", f"/apis/{KUEUE_API}/workloads").body["items"]
    return result


def of(server: Server, name: str) -> Body:
    """Return a job's Workload; empty before there is one."""
    for workload in workloads(server):
        if workload["metadata"]["ownerReferences"][0]["name"] == name:
            return workload
    return {}


def running(server: Server) -> set[str]:
    """Return the jobs that are admitted."""
    return {
        workload["metadata"]["ownerReferences"][0]["name"]
        for workload in workloads(server)
        if holds(workload, "Admitted")
    }


def waits_because(server: Server, name: str) -> str:
    """Return why Kueue did not admit a job that it considered."""

    def said() -> str:
        result = condition(of(server, name), "QuotaReserved")
        return str(result.get("message") or "") if result.get("status") == "False" else ""

    return eventually(said)


def test_team_borrows_what_others_lend(server: Server) -> None:
    """Four of its own, two of nobody's, two that vision lends: not the two that vision keeps."""
    submit(server, "language", "all-of-it", 8)
    eventually(lambda: running(server) == {"all-of-it"})
    submit(server, "language", "one-more", 1)
    assert "insufficient" in waits_because(server, "one-more")
    assert running(server) == {"all-of-it"}


def test_no_more_is_borrowed_than_the_team_may(server: Server) -> None:
    """Six nodes are idle beside its own four, and it may borrow one."""
    submit(server, "vision", "too-large", 6)
    assert "insufficient" in waits_because(server, "too-large")
    submit(server, "vision", "fits", 5)
    eventually(lambda: running(server) == {"fits"})


def test_owner_reclaims_lent_quota(server: Server) -> None:
    """The borrower has its own four left, and of its jobs the more important one keeps them."""
    submit(server, "language", "own", 4, "production")
    eventually(lambda: running(server) == {"own"})
    submit(server, "language", "borrowed", 4)
    eventually(lambda: running(server) == {"own", "borrowed"})
    submit(server, "vision", "owner", 4)
    eventually(lambda: running(server) == {"own", "owner"})
    stopped = condition(of(server, "borrowed"), "Preempted")
    assert stopped["reason"] in ("InCohortReclamation", "InCohortFairSharing")


def test_priority_preempts_only_within_the_team(server: Server) -> None:
    submit(server, "language", "spare", 4, "spare")
    submit(server, "vision", "other", 4, "spare")
    submit(server, "language", "rest", 2, "research")
    eventually(lambda: running(server) == {"spare", "other", "rest"})
    submit(server, "language", "important", 4, "production")
    eventually(lambda: running(server) == {"important", "other", "rest"})
    stopped = condition(of(server, "spare"), "Preempted")
    assert stopped["reason"] == "InClusterQueue"
