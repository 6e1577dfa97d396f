"""A node that is lost whole, of which nobody says anything: Kueue ends its pods by force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.catalog.versions import LAB, LAB_UPGRADED
from railhead.kube import client as kube
from railhead.kube.nodes import NODES
from railhead.lab.artifacts.upgraded import UPGRADES
from tests.lab.conftest import Run, succeed
from tests.lab.jobs import NAMESPACE
from tests.lab.losing import Ground, judge, one_more_node
from tests.lab.versions import Versions, load

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.harms]

# kueue v0.16.6, pkg/controller/failurerecovery/pod_termination_controller.go.
ENDED = "KueueForcefullyDeleted"


@pytest.fixture
def ground(
    lab_env: dict[str, str],
    kubeconfig: Path,
    pulumi: Run,
    kubectl: Run,
    repo: Path,
    tmp_path: Path,
) -> Iterator[Ground]:
    """The lab with a Kueue that ends lost pods; other tests have the lab's own again."""
    versions = Versions(pulumi=pulumi, kubectl=kubectl, repo=repo, folder=tmp_path)
    load(UPGRADES["upgraded"])
    versions.define([LAB_UPGRADED.jobset])
    asked = {"scheduler": "kueue", "end_lost_pods": True}
    succeed(versions.up(LAB_UPGRADED, queueing=asked))
    try:
        # Once the controllers have moved: none of them is on the node that is lost.
        with one_more_node(kubeconfig, kubectl, tmp_path) as result:
            yield result
    finally:
        succeed(versions.up(LAB))


def test_job_resumes_elsewhere_by_itself(ground: Ground) -> None:
    curve = ground.curve()
    job = ground.lose(then=lambda: None)
    judge(ground, job, curve, "its pods were ended by force")
    assert ground.spare in {row.node for row in job.rows}
    # The node is as it was left, and it was Kueue that ended the pod.
    taints = ground.site.cluster.get(f"{NODES}/{ground.lost}")["spec"]["taints"]
    assert {taint["key"] for taint in taints} == {"node.kubernetes.io/unreachable"}
    events = ground.site.cluster.list(kube.core(NAMESPACE, "events"))
    assert any(
        event["reason"] == ENDED and event["involvedObject"]["name"].startswith(job.name)
        for event in events
    )
