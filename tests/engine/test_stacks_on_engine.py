"""Every shipped stack on the real engine: previewed, created, updated and destroyed."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.components.recording import STACKS
from tests.engine.recorded import Project

pytestmark = pytest.mark.slow


@pytest.mark.exhaustive  # `make rehearse` takes each stack up twice, on objects that live
@pytest.mark.parametrize("stack", STACKS)
def test_second_up_of_a_stack_changes_nothing(
    stack: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    project = Project(tmp_path, stack)
    plan = project.preview()
    assert set(plan.operations) <= {"create", "read"}
    assert not project.entries(), "a preview made something"
    record_property("resources", plan.operations["create"])
    record_property("preview_seconds", round(plan.seconds, 1))
    print(f"\n{stack}: {plan.operations['create']} resources, preview {plan.seconds:.1f} s")
    made = project.up()
    assert {entry["operation"] for entry in made} == {"create"}
    urns = [entry["urn"] for entry in made]
    assert len(urns) == len(set(urns))
    assert not project.up("--expect-no-changes")


def _giving_up(cluster: dict[str, Any], pool: str, *more: str) -> None:
    """Allow this one change to lose the pool's running jobs, as the refusal asks."""
    cluster["removals"] = [{"kind": "pool", "name": pool, "loses": ["jobs", *more]}]


def _label(cluster: dict[str, Any]) -> None:
    _giving_up(cluster, cluster["pools"][0]["name"])
    cluster["pools"][0]["node_selector"]["team"] = "nlp"


def _taint(cluster: dict[str, Any]) -> None:
    _giving_up(cluster, cluster["pools"][0]["name"])
    pool = cluster["pools"][0]
    pool.setdefault("taints", []).append({"key": "team", "value": "nlp", "effect": "NoSchedule"})
    pool["tolerations"].append({"key": "team", "operator": "Exists"})


def _disk(cluster: dict[str, Any]) -> None:
    # The nodes are recreated in place, and the jobs on them are lost.
    _giving_up(cluster, cluster["pools"][0]["name"])
    pool = cluster["pools"][0]
    pool["root_volume_gib" if "root_volume_gib" in pool else "disk_size_gb"] = 400


def _second_pool(cluster: dict[str, Any]) -> None:
    del cluster["removals"]
    pool = copy.deepcopy(cluster["pools"][0])
    pool["name"], pool["node_selector"] = "extra", {"railhead.dev/pool": "extra"}
    pool.pop("min_nodes", None)
    pool["purchase" if "purchase" in pool else "capacity"] = {"kind": "on-demand"}
    cluster["pools"].append(pool)


def _without_second_pool(cluster: dict[str, Any]) -> None:
    _giving_up(cluster, "extra", "quota")
    del cluster["pools"][1]


def _did(entries: list[dict[str, Any]]) -> Counter[str]:
    """`update aws:eks/nodeGroup:NodeGroup` and so on, with how often."""
    return Counter(f"{entry['operation']} {_type(entry['urn'])}" for entry in entries)


def _type(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


_FLAVOR = "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor"
_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
_RUNTIME = "kubernetes:trainer.kubeflow.org/v1alpha1:ClusterTrainingRuntime"
_DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
_DAEMONS = "kubernetes:apps/v1:DaemonSet"
_POD_QUOTA = "kubernetes:core/v1:ResourceQuota"
_RELEASE = "kubernetes:helm.sh/v3:Release"
_AWS_POOL = "aws:eks/nodeGroup:NodeGroup"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_GCP_POOL = "gcp:container/nodePool:NodePool"
# A flavor cannot be changed: the new one is there before the queue lets go of the old one.
_REFLAVOR = {f"create {_FLAVOR}": 1, f"update {_QUEUE}": 1, f"delete {_FLAVOR}": 1}

# One change after the other on one stack, each with all that it does.
CHANGES: dict[str, list[tuple[Callable[[dict[str, Any]], None], dict[str, int]]]] = {
    "aws-p5-prod": [
        (
            _label,
            {
                f"update {_AWS_POOL}": 1,
                f"update {_DAEMONS}": 1,
                f"update {_CONFIG_MAP}": 1,
                f"update {_RUNTIME}": 2,
            }
            | _REFLAVOR,
        ),
        (
            _taint,
            # The GPU operator's daemons, the EFA device plugin and the gate's keeper
            # bear the taint from now on.
            {
                f"update {_AWS_POOL}": 1,
                f"update {_RELEASE}": 2,
                f"update {_CONFIG_MAP}": 1,
                f"update {_DEPLOYMENT}": 1,
            }
            | _REFLAVOR,
        ),
        # The contract says what the nodes are made with.
        (
            _disk,
            {f"update {_TEMPLATE}": 1, f"update {_AWS_POOL}": 1, f"update {_CONFIG_MAP}": 1},
        ),
        (
            _second_pool,
            {
                f"create {_TEMPLATE}": 1,
                f"create {_AWS_POOL}": 1,
                # The stack's own, on what the new group launches.
                "create aws:autoscaling/tag:Tag": 1,
                f"create {_FLAVOR}": 1,
                f"create {_CONFIG_MAP}": 1,
                f"create {_DAEMONS}": 1,
                # They reach the new pool as well.
                f"update {_RELEASE}": 2,
                # More pods than before can run.
                f"update {_POD_QUOTA}": 1,
                # Its taint may be tolerated.
                "update kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy": 1,
                f"update {_CONFIG_MAP}": 1,
            },
        ),
    ],
    "gcp-a3-ultra": [
        (
            _label,
            {
                f"update {_GCP_POOL}": 1,
                f"update {_DAEMONS}": 1,
                f"update {_CONFIG_MAP}": 1,
                f"update {_RUNTIME}": 3,
            }
            | _REFLAVOR,
        ),
        (
            _taint,
            # The gate's keeper bears the taint from now on.
            {f"update {_GCP_POOL}": 1, f"update {_CONFIG_MAP}": 1, f"update {_DEPLOYMENT}": 1}
            | _REFLAVOR,
        ),
        (_disk, {f"update {_GCP_POOL}": 1, f"update {_CONFIG_MAP}": 1}),
        (
            _second_pool,
            {
                f"create {_GCP_POOL}": 1,
                f"create {_FLAVOR}": 1,
                f"create {_CONFIG_MAP}": 1,
                f"create {_DAEMONS}": 1,
                f"update {_CONFIG_MAP}": 1,
                f"update {_POD_QUOTA}": 1,
                # A JobSet may make more pods than before.
                "update kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy": 1,
            },
        ),
    ],
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("stack", sorted(CHANGES))
def test_a_change_does_what_it_says_and_no_more(stack: str, tmp_path: Path) -> None:
    project = Project(tmp_path, stack)
    project.up()
    assert not project.up("--expect-no-changes")
    for edit, expected in CHANGES[stack]:
        project.change(edit)
        planned = [
            urn
            for operation, urn in project.preview().steps
            if operation in ("create", "replace") and "railhead:" not in _type(urn)
        ]
        done = _did(project.up())
        assert done == Counter(expected), edit.__name__
        # What was planned is what was done.
        assert len(planned) == sum(
            count for what, count in expected.items() if what.startswith("create")
        ), edit.__name__
    # A fleet that is protected does not go by a slip of an editor.
    project.change(_without_second_pool)
    refused = project.run("up", "--yes", "--skip-preview", status=1)
    assert "cannot be deleted" in refused
    assert "protect" in refused


def _two_more_nodes(cluster: dict[str, Any]) -> None:
    cluster["pools"][0]["nodes"] += 2


def test_reservation_mismatch_stops_the_plan(tmp_path: Path) -> None:
    """Reading the reservation shows that it is for sixteen nodes."""
    project = Project(tmp_path, "aws-p5-prod")
    project.change(_two_more_nodes)
    refused = project.run("preview", status=1)
    assert "is for 16 instances, and the pool for 18" in refused
    assert "correct the pool's purchase in the stack's file" in refused
    assert "Traceback" not in refused
    assert not project.entries()


def _watched(cluster: dict[str, Any]) -> None:
    cluster["watching"] = {"kind": "files"}


def _accepted(cluster: dict[str, Any]) -> None:
    cluster["watching"]["acceptance"] = {"image": "registry.example.com/railhead:0.1.0"}


@pytest.mark.exhaustive
def test_scheduled_acceptance_is_added_and_removed_alone(tmp_path: Path) -> None:
    """A scheduled acceptance adds and removes its CronJob, its account and its two alerts."""
    project = Project(tmp_path, "lab")
    project.change(_watched)
    project.up()
    own = {
        "kubernetes:batch/v1:CronJob": 1,
        "kubernetes:core/v1:ServiceAccount": 1,
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole": 1,
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding": 1,
        "kubernetes:rbac.authorization.k8s.io/v1:Role": 1,
        "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": 1,
    }
    for edit, did in ((_accepted, "create"), (_watched, "delete")):
        project.change(edit)
        expected = {f"{did} {kind}": count for kind, count in own.items()}
        assert _did(project.up()) == Counter(expected | {f"update {_CONFIG_MAP}": 1}), did
