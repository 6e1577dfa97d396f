"""A lab with monitoring: every query has series, and an alert fires and resolves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.kube.client import Cluster
from railhead.lab import watching
from railhead.watch.alerts import ALERTS
from railhead.watch.metrics import METRICS
from tests.lab.conftest import LAB, Run, railhead, succeed
from tests.lab.jobs import IMAGE, Jobs, wait
from tests.lab.test_restarts import kill_rank, restarts, train

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.watching]

RECEIVER = "told"
PORT = 8000
# What Alertmanager posts, a line each.
LISTEN = f"""\
import http.server
class Told(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(("", {PORT}), Told).serve_forever()
"""
#: Of every exporter that a lab has: what has no series there after a run that was broken once.
ABSENT = {
    # Nothing was put back or preempted,
    "kueue_evicted_workloads_total",
    "kueue_preempted_workloads_total",
    # no GPU speaks NCCL,
    "nccl_bus_bandwidth_gbs",
    "nccl_collective_exec_time_microseconds",
    # no acceptance was asked for,
    "kube_cronjob_next_schedule_time",
    "kube_cronjob_status_last_schedule_time",
    "kube_cronjob_status_last_successful_time",
    # and a directory on a shared disk has no size of its own.
    "kubelet_volume_stats_available_bytes",
    "kubelet_volume_stats_capacity_bytes",
}
#: What a pod that is being deleted or has ended has, for as long as it is there.
PASSING = {"kube_pod_container_status_terminated_reason", "kube_pod_deletion_timestamp"}
GIVEN = {"kueue", "controllers", "objects", "railhead", "kubernetes", "kubelet", "nodes"}


class Prometheus:
    """The lab's, through the API server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def get(self, path: str, **query: str) -> Any:
        """Return the data that its API answers; an error of the query is an ApiError."""
        service = f"/api/v1/namespaces/{watching.NAMESPACE}/services/prometheus:9090/proxy"
        return self._cluster.request("GET", f"{service}/api/v1/{path}", query=query).body["data"]

    def series(self, query: str) -> list[Any]:
        """Return the result of a query now."""
        result: list[Any] = self.get("query", query=query)["result"]
        return result


@pytest.fixture(scope="module")
def prometheus(
    jobs: Jobs,
    pulumi: Run,
    apply: Callable[[Sequence[dict[str, Any]]], None],
    stack: str,
    repo: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Prometheus:
    """A Prometheus on the rules and scrapes of the lab's stack, whose alerts go to a receiver."""
    webhook = f"http://{RECEIVER}.{watching.NAMESPACE}:{PORT}/"
    succeed(railhead("lab", "watch", "--name", LAB, "--webhook", webhook, timeout=1800))
    apply(receiver())
    settings = yaml.safe_load((repo / "stacks/Pulumi.lab.yaml").read_text())
    settings["config"]["railhead:cluster"]["watching"] = {"kind": "files"}
    file = tmp_path_factory.mktemp("stack") / "Pulumi.lab.yaml"
    file.write_text(yaml.safe_dump(settings))
    succeed(pulumi("up", "--stack", stack, "--yes", "--config-file", str(file)))
    succeed(railhead("lab", "watch", "--name", LAB, "--webhook", webhook))
    made = Prometheus(jobs.cluster)
    wait(lambda: bool(targets(made)) and set(targets(made).values()) == {"up"}, 120, "targets")
    return made


def receiver() -> list[dict[str, Any]]:
    metadata = {"name": RECEIVER, "namespace": watching.NAMESPACE, "labels": {"app": RECEIVER}}
    container = {"name": "told", "image": IMAGE, "command": ["python3", "-c", LISTEN]}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
    service = {"selector": {"app": RECEIVER}, "ports": [{"port": PORT}]}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
    ]


def targets(prometheus: Prometheus) -> dict[str, str]:
    return {
        f"{activetarget['labels']['job']} {activetarget['labels']['instance']}": activetarget[
            "health"
        ]
        for activetarget in prometheus.get("targets", state="active")["activeTargets"]
    }


def told(kubectl: Run) -> list[tuple[str, str, dict[str, str]]]:
    """Return every alert that was posted: its name, whether it fires or is over, its labels."""
    lines = succeed(kubectl("-n", watching.NAMESPACE, "logs", RECEIVER)).stdout.splitlines()
    return [
        (alert["labels"]["alertname"], alert["status"], alert["labels"])
        for line in lines
        if line.startswith("{")
        for alert in json.loads(line)["alerts"]
    ]


def expressions(prometheus: Prometheus, kubectl: Run) -> dict[str, list[str]]:
    """Return every query: of the dashboards in the cluster, and of the rules in Prometheus."""
    result = succeed(kubectl("get", "configmaps", "-A", "-l", "grafana_dashboard=1", "-o", "json"))
    documents = [
        json.loads(text)
        for item in json.loads(result.stdout)["items"]
        for text in item["data"].values()
    ]
    panels = {
        f"{document['title']}: {panel['title']}": [target["expr"] for target in panel["targets"]]
        for document in documents
        for panel in document["panels"]
    }
    rules = {
        rule["name"]: [rule["query"]]
        for group in prometheus.get("rules")["groups"]
        for rule in group["rules"]
    }
    return panels | rules


def names(expression: str) -> set[str]:
    """Return the metrics that an expression names, a histogram by its own name."""
    words = re.findall(r"[A-Za-z_]\w*", expression)
    return {
        name
        for word in words
        for name in (word, re.sub(r"_(bucket|count|sum)$", "", word))
        if name in METRICS
    }


def test_every_query_is_answered_by_the_series_of_real_jobs(
    prometheus: Prometheus, jobs: Jobs, kubectl: Run, repo: Path
) -> None:
    """Every query is one that Prometheus takes; every metric of an exporter that is there, is."""
    name = train(jobs, repo, "watched")
    kill_rank(jobs, name)
    wait(lambda: restarts(jobs, name) == 1, 90, f"{name} to be recreated")
    jobs.phase(name, "completed", 120)
    asked = expressions(prometheus, kubectl)
    given = {n for n in METRICS if METRICS[n].exporter in GIVEN}
    used = {n for queries in asked.values() for query in queries for n in names(query)}

    def there() -> set[str]:
        return {n for n in used & given if prometheus.series(f'{{__name__=~"{n}(_count)?"}}')}

    # Each is scraped twice a minute at the most.
    wait(
        lambda: there() >= (used & given) - ABSENT - PASSING,
        90,
        "every metric that a lab has",
        every=5,
    )
    assert there() & ABSENT == set()
    empty = [title for title, queries in asked.items() if not answered(prometheus, queries)]
    print(json.dumps({"asked": len(asked), "empty": empty}, indent=1))
    alerts = {alert.name for alert in ALERTS}
    silent = {title for title in empty if names(" ".join(asked[title])) <= given - ABSENT} - alerts
    # No node is cordoned; a gang that ran for less than a minute may fall between two looks.
    share = "Railhead: jobs and their queue: Share of held time in which gangs were whole (a day)"
    assert silent - {share} == {"Railhead: GPUs and nodes: Nodes that are cordoned"}


def answered(prometheus: Prometheus, queries: Sequence[str]) -> bool:
    """Return whether any of them has a result; each is asked."""
    results = [prometheus.series(query) for query in queries]
    return any(results)


def test_stopped_controller_and_restarted_gang_raise_alerts(
    prometheus: Prometheus, jobs: Jobs, kubectl: Run
) -> None:
    deployment = ("-n", "jobset-system", "deployment", "jobset-controller")
    succeed(kubectl("scale", *deployment, "--replicas=0"))
    try:
        alert = ("RailheadControllerScaledToZero", "firing", "jobset-controller")
        seconds = wait(lambda: alert in heard(kubectl), 180, "the alert to arrive", every=1)
        print(f"told after {seconds:.0f} s")
    finally:
        succeed(kubectl("scale", *deployment, "--replicas=1"))
    over = ("RailheadControllerScaledToZero", "resolved", "jobset-controller")
    seconds = wait(lambda: over in heard(kubectl), 180, "its end to arrive", every=1)
    print(f"over after {seconds:.0f} s")
    assert "RailheadGangRestarted" in {name for name, _, _ in heard(kubectl)}
    assert not {n for n, _, d in heard(kubectl) if n == alert[0] and d != "jobset-controller"}


def heard(kubectl: Run) -> set[tuple[str, str, str]]:
    """Alert, whether it fires or is over, and the Deployment that it is about, if any."""
    return {(name, status, labels.get("deployment", "")) for name, status, labels in told(kubectl)}


def test_its_dashboards_are_drawn(prometheus: Prometheus, tmp_path: Path) -> None:
    """The page draws the panels that have data by now."""
    assert prometheus.series("max_over_time(railhead_jobset_restarts[1h])")
    out = tmp_path / "page.html"
    succeed(railhead("dashboards", "--lab", LAB, "--hours", "1", "--out", str(out)))
    drawn = re.findall(r"<figcaption>(.*?)</figcaption>", out.read_text())
    assert {"Gangs that hold quota", "Restarts", "Age of the newest checkpoint"} <= set(drawn)
    assert {"CPUs that work", "TCP of jobs through the pod network"} <= set(drawn)
