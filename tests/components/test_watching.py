"""Monitoring objects: valid by the operator's definitions, and absent unless configured."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from railhead.catalog.versions import COMBINATIONS
from railhead.components.watching.watching import program
from railhead.config import parse
from railhead.resolve.watching import controllers
from railhead.watch.dashboards import DASHBOARDS
from tests import crds
from tests.components.recording import STACKS, Recording, run_stack, stack_cluster
from tests.marks import one_of_each

pytestmark = pytest.mark.slow

OPERATOR = crds.DATA.parent / "prometheus-operator-v0.85.0"


@functools.cache
def watched(stack: str, kind: str) -> Recording:
    cluster = stack_cluster(stack)
    cluster["watching"] = {"kind": kind, "labels": {"release": "prom"}}
    with tempfile.TemporaryDirectory() as folder:
        return run_stack(stack, Path(folder), cluster=cluster)


def definitions() -> dict[str, Any]:
    bodies = [yaml.safe_load(path.read_text()) for path in OPERATOR.glob("*.yaml")]
    return {
        body["spec"]["names"]["kind"]: crds.whole(
            body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        )
        for body in bodies
    }


def data(recording: Recording, name: str) -> Any:
    result = recording.one("ConfigMap", name).inputs["data"]
    assert len(result) == 1
    return yaml.safe_load(next(iter(result.values())))


@pytest.mark.parametrize("stack", one_of_each(STACKS))
def test_every_shipped_stack_plans_it_for_the_operator(stack: str) -> None:
    recording = watched(stack, "prometheus-operator")
    made = [r.inputs for kind in ("PrometheusRule", "ServiceMonitor") for r in recording.kind(kind)]
    assert len(made) == 5
    known = definitions()
    for inputs in made:
        jsonschema.validate(dict(inputs), known[inputs["kind"]])
        assert inputs["metadata"]["labels"] == {"release": "prom"}
        assert inputs["metadata"]["namespace"] == "railhead-watching"


@pytest.mark.exhaustive
@pytest.mark.parametrize("stack", one_of_each(STACKS))
def test_both_kinds_carry_the_same_rules(stack: str) -> None:
    operator = watched(stack, "prometheus-operator").one("PrometheusRule").inputs["spec"]
    files = watched(stack, "files")
    assert data(files, "railhead-rules") == operator
    assert not files.kind("ServiceMonitor")
    names = {config["job_name"] for config in data(files, "railhead-scrapes")["scrape_configs"]}
    assert names == {"railhead-kueue", "railhead-jobset", "railhead-trainer", "railhead-railhead"}


def test_alerts_without_a_source_are_left_out() -> None:
    def names(stack: str) -> set[str]:
        rules = watched(stack, "files")
        return {r["alert"] for g in data(rules, "railhead-rules")["groups"] for r in g["rules"]}

    lab, aws, metal = names("lab"), names("aws-p5-prod"), names("onprem-ib-sriov")
    assert not {n for n in lab if "Xid" in n or "Link" in n or "Efa" in n or "Drift" in n}
    assert "RailheadTrafficOffFabric" in lab & aws & metal
    assert "RailheadEfaDrops" in aws - metal
    # No exporter of DCGM beside EKS' agent, whose conditions tell of Xids.
    assert "RailheadXid" in metal - aws
    assert "RailheadNodeProblem" in aws & metal
    assert "RailheadRailSlow" in metal - aws


def test_a_stack_says_itself_who_is_scraped() -> None:
    cluster = stack_cluster("lab")
    cluster["watching"] = {"kind": "files", "sources": ["drift"]}
    with tempfile.TemporaryDirectory() as folder:
        recording = run_stack("lab", Path(folder), cluster=cluster)
    groups = data(recording, "railhead-rules")["groups"]
    names = {rule["alert"] for group in groups for rule in group["rules"]}
    assert "RailheadDrift" in names
    assert "RailheadNodeNotReady" not in names, "kube-state-metrics is not scraped"


def test_nothing_is_made_where_nobody_asked() -> None:
    cluster = stack_cluster("lab")
    cluster["watching"] = {"kind": "none"}
    with tempfile.TemporaryDirectory() as folder:
        recording = run_stack("lab", Path(folder), cluster=cluster)
    assert not [r for r in recording.resources.values() if "watching" in r.name]


def test_an_acceptance_comes_again_where_it_is_asked() -> None:
    cluster = stack_cluster("lab")
    image = "registry.example.com/railhead:0.1.0"
    cluster["watching"] = {"kind": "files", "acceptance": {"image": image, "minutes": 30}}
    with tempfile.TemporaryDirectory() as folder:
        recording = run_stack("lab", Path(folder), cluster=cluster)
    spec = recording.one("CronJob").inputs["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("0 3 * * *", "Forbid")
    job = spec["jobTemplate"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (0, 1800)
    pod = job["template"]["spec"]
    (only,) = pod["containers"]
    assert (pod["serviceAccountName"], only["image"]) == ("railhead-acceptance", image)
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    rules = [r for g in data(recording, "railhead-rules")["groups"] for r in g["rules"]]
    (rule,) = [r for r in rules if r["alert"] == "RailheadAcceptanceNotProven"]
    assert "> 1800 unless" in rule["expr"]
    others = data(watched("lab", "files"), "railhead-rules")["groups"]
    assert not [r for g in others for r in g["rules"] if "Acceptance" in r["alert"]]
    assert not watched("lab", "files").kind("CronJob")


def container(recording: Recording, name: str) -> dict[str, Any]:
    spec = recording.one("Deployment", name).inputs["spec"]["template"]["spec"]
    (only,) = spec["containers"]
    assert only["securityContext"]["runAsNonRoot"] is True
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    return dict(only)


def test_exporter_knows_every_guard_and_pool() -> None:
    recording = watched("onprem-ib-sriov", "files")
    asked = container(recording, "railhead-guards")["command"]
    guards = {r.inputs["metadata"]["name"] for r in recording.kind("ValidatingAdmissionPolicy")}
    named = {a.removeprefix("--guard=") for a in asked if a.startswith("--guard=")}
    assert named == guards
    assert "--nodes=railhead.dev/pool=h100" in asked


MADE_KINDS = (
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "Topology",
    "ResourceFlavor",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
    "WorkloadPriorityClass",
    "ClusterTrainingRuntime",
)


@pytest.mark.parametrize("stack", STACKS)
def test_exporter_knows_each_object_as_applied(stack: str) -> None:
    recording = watched(stack, "files")
    reported = {
        (row["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item
        for row in json.loads(recording.one("ConfigMap", "made").inputs["data"]["made.json"])
        for item in row["objects"]
    }
    given = {
        (kind, r.inputs["metadata"].get("namespace"), r.inputs["metadata"]["name"]): {
            key: value for key, value in r.inputs.items() if key not in ("apiVersion", "kind")
        }
        for kind in MADE_KINDS
        for r in recording.kind(kind)
        # The gate's own policies are held to denying alone.
        if not r.inputs["metadata"]["name"].startswith("railhead-gate-")
    }
    assert reported == given


def test_checkpoints_are_read_where_they_are_and_not_written() -> None:
    recording = watched("onprem-ib-sriov", "files")
    made = [
        r.inputs
        for r in recording.kind("Deployment")
        if r.inputs["metadata"]["name"] == "railhead-checkpoints-checkpoints"
    ]
    assert {m["metadata"]["namespace"] for m in made} == {"training", "research"}
    for inputs in made:
        spec = inputs["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        (mounted,) = (v for v in spec["volumes"] if "persistentVolumeClaim" in v)
        assert mounted["persistentVolumeClaim"] == {"claimName": "checkpoints", "readOnly": True}
        (volume,) = (v for v in spec["containers"][0]["volumeMounts"] if v["name"] == "checkpoints")
        assert volume["readOnly"] is True


def test_exporter_of_a_bucket_reaches_it() -> None:
    """GCS FUSE's sidecar is in the exporter's network, and other mounts have none."""
    recording = watched("gcp-a3-ultra", "files")
    bucket, lustre = [
        recording.one("NetworkPolicy", f"railhead-checkpoints-{claim}").inputs["spec"]
        for claim in ("datasets", "checkpoints")
    ]
    out = [(row["to"][0]["ipBlock"]["cidr"], row["ports"][0]["port"]) for row in bucket["egress"]]
    assert out == [("169.254.169.254/32", 80), ("199.36.153.8/30", 443)]
    assert bucket["policyTypes"] == ["Ingress", "Egress"]
    assert lustre["policyTypes"] == ["Ingress"]


def test_exporters_stay_off_nodes_that_come_for_one_gang() -> None:
    for deployment in watched("gcp-a3-mega", "files").kind("Deployment"):
        tolerated = deployment.inputs["spec"]["template"]["spec"]["tolerations"]
        keys = {row.get("key") for row in tolerated}
        assert "nvidia.com/gpu" in keys
        assert "cloud.google.com/gke-queued" not in keys


def test_config_map_holds_every_module_of_the_program() -> None:
    """The ConfigMap holds the modules that the program imports, and no others."""
    import ast

    files = program()
    for path, text in files.items():
        for node in ast.walk(ast.parse(text, path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("railhead"):
                assert str(node.module).replace(".", "/") + ".py" in files, (path, node.module)


def test_controllers_are_called_as_the_releases_call_them() -> None:
    """A Deployment's name is the chart's own; releases are named after their charts."""
    for combination in COMBINATIONS.values():
        for controller in (combination.kueue, combination.jobset, combination.trainer):
            assert any(
                name.startswith(controller.name) and namespace == controller.namespace
                for name, namespace in controllers(parse(stack_cluster("lab"), where="lab")).items()
            )


def test_exporters_may_only_read() -> None:
    recording = watched("lab", "files")
    for account in ("railhead-objects", "railhead-guards"):
        rules = recording.one("ClusterRole", account).inputs["rules"]
        assert {verb for rule in rules for verb in rule["verbs"]} <= {"list", "watch"}


def test_dashboards_are_where_grafanas_sidecar_looks() -> None:
    recording = watched("lab", "files")
    results = [
        r.inputs
        for r in recording.kind("ConfigMap")
        if r.inputs["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
    ]
    assert len(results) == len(DASHBOARDS)
    for inputs in results:
        ((name, text),) = inputs["data"].items()
        assert name == f"{json.loads(text)['uid']}.json"
