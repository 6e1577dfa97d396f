"""The default of restarts fits the rate at which machines fail, and 128 is a node's fault."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks.restarts import alive
from railhead import config
from railhead.base.names import LOGS
from railhead.model.restarts import RestartConfig
from railhead.resolve.cluster import resolve
from railhead.resolve.restarts import failure_policy, job_policy
from tests.components.recording import stack_cluster


@pytest.mark.parametrize(("nodes", "most"), [(1, 3), (32, 9), (64, 14), (128, 24), (1024, 142)])
def test_default_outlasts_a_month(nodes: int, most: int) -> None:
    assert RestartConfig().most(nodes * 8) == most
    assert RestartConfig(gang=5).most(nodes * 8) == 5
    assert alive(nodes * 8, most, runs=4000) >= 0.985


def test_three_restarts_do_not() -> None:
    assert alive(128 * 8, 3, runs=4000) < 0.01
    assert alive(64 * 8, 3, runs=4000) < 0.1


def test_fitted_number_stays_when_the_pool_is_edited() -> None:
    """Trainer v2.1.0 takes no change of a runtime's failurePolicy."""
    raw = stack_cluster("aws-p5-prod")
    raw["runtimes"][0]["restarts"] = {"gang": 5}
    given, fitted, *_ = resolve(config.parse(raw, where="test")).runtimes
    assert given.stays == ()
    (path,) = fitted.stays
    value: Any = {"spec": fitted.spec}
    for part in path.split("."):
        value = value[part]
    assert value == RestartConfig().most(fitted.pool.nodes * 8)


def test_task_that_a_node_could_not_create_is_tried_again() -> None:
    """containerd v1.7.30, pkg/cri/server/helpers.go, errorStartExitCode."""
    config = RestartConfig()
    (_, hopeless) = failure_policy(config, 8)["rules"]
    (pattern,) = hopeless["onJobFailureMessagePatterns"]
    message = "Container node for pod a/b failed with exit code {} matching FailJob rule at index 1"
    assert re.match(pattern, message.format(127))
    assert not re.match(pattern, message.format(128))
    rules = job_policy(config, "node", None)["podFailurePolicy"]["rules"]
    assert 128 not in rules[1]["onExitCodes"]["values"]


def test_pods_of_a_finished_job_go_and_its_jobset_stays() -> None:
    """Kubernetes' own field, in a Job of a JobSet that is over."""
    policy = job_policy(RestartConfig(), "node", 7)
    assert policy["ttlSecondsAfterFinished"] == 7 * 86400
    assert "ttlSecondsAfterFinished" not in job_policy(RestartConfig(), "node", None)
    assert "ttlSecondsAfterFinished" not in failure_policy(RestartConfig(), 8)


def test_disk_of_a_node_is_limited_and_no_queue_charges_it() -> None:
    """The kubelet's own eviction has DisruptionTarget, after which a gang is not counted."""
    raw = stack_cluster("lab")
    raw["runtimes"][0]["disk"] = "20Gi"
    first, second, *_ = resolve(config.parse(raw, where="test")).runtimes
    (container,) = first.pod["spec"]["containers"]
    blocks = container["resources"]
    assert blocks["limits"]["ephemeral-storage"] == "20Gi"
    assert blocks["requests"]["ephemeral-storage"] == "0"
    assert "ephemeral-storage" not in second.pod["spec"]["containers"][0]["resources"]["limits"]


def test_stack_says_what_becomes_of_output() -> None:
    raw = stack_cluster("lab")
    raw["runtimes"][0]["logs"] = "pods"
    first, second, *_ = resolve(config.parse(raw, where="test")).runtimes
    assert first.environment[LOGS] == "pods"
    assert LOGS not in second.environment
