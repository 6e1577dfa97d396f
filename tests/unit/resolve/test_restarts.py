"""The default of restarts fits the rate at which machines fail, and 128 is a node's fault."""

from __future__ import annotations

import random
import re

import pytest

from railhead.model.restarts import RestartConfig, lasting
from railhead.resolve.restarts import failure_policy, job_policy

DAYS = 30
# Llama 3 (arXiv 2407.21783, section 3.3.4): 419 interruptions in 54 days on 16384 GPUs.
HOURS_OF_A_GPU = 54 * 24 * 16384 / 419


def alive(gpus: int, restarts: int, runs: int = 4000) -> float:
    """Return the share of runs that last, one interruption after the other."""
    chance = random.Random(26)
    lasted = 0
    for _ in range(runs):
        hours, count = 0.0, -1
        while hours < DAYS * 24:
            hours += chance.expovariate(gpus / HOURS_OF_A_GPU)
            count += 1
        lasted += count <= restarts
    return lasted / runs


@pytest.mark.parametrize("nodes", [32, 64, 128])
def test_default_outlasts_a_month(nodes: int) -> None:
    assert alive(nodes * 8, RestartConfig().gang) >= 0.985
    assert lasting(nodes * 8) <= RestartConfig().gang


def test_three_restarts_do_not() -> None:
    assert alive(128 * 8, 3) < 0.01
    assert alive(64 * 8, 3) < 0.1


def test_task_that_a_node_could_not_create_is_tried_again() -> None:
    """containerd v1.7.30, pkg/cri/server/helpers.go, errorStartExitCode."""
    config = RestartConfig()
    (_, hopeless) = failure_policy(config)["rules"]
    (pattern,) = hopeless["onJobFailureMessagePatterns"]
    message = "Container node for pod a/b failed with exit code {} matching FailJob rule at index 1"
    assert re.match(pattern, message.format(127))
    assert not re.match(pattern, message.format(128))
    rules = job_policy(config, "node")["podFailurePolicy"]["rules"]
    assert 128 not in rules[1]["onExitCodes"]["values"]
