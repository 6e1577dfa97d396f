"""Agents that a pool's nodes need run on them, whatever their taints."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from railhead.components import arguments
from railhead.components.controllers import gpu_operator
from railhead.components.fabric.fabric import gpu_operator_args
from railhead.components.fabric.modes import efa
from railhead.config import parse
from railhead.fabric.modes.efa import EfaFabric
from railhead.model.cluster import Cluster
from tests.components.recording import stack_cluster

TAINT = {"key": "acme.com/team", "value": "vision", "effect": "NoExecute"}
TOLERATION = {"key": "acme.com/team", "operator": "Exists", "effect": "NoExecute"}


def tainted(allocation: str) -> Cluster:
    """Return a stack whose nodes have a taint that no chart has heard of."""
    raw: dict[str, Any] = copy.deepcopy(stack_cluster("aws-p5-prod"))
    raw["pools"][0] |= {"taints": [TAINT], "tolerations": [TOLERATION]}
    raw["gpu_operator"]["allocation"] = allocation
    return parse(raw, where="a tainted stack")


def agents(cluster: Cluster) -> dict[str, Any]:
    """Return the agents of each node -> the tolerations that their charts get.

    The GPU operator's DaemonSets, what labels nodes for it (its chart at v26.7.0 has
    ``nvidia.com/gpu`` and the control plane alone), the kubelet plugin of the DRA driver (v0.4.1:
    ``nvidia.com/gpu`` alone), and EFA's.
    """
    config, fabric = cluster.gpu_operator, cluster.fabric
    assert config is not None
    assert isinstance(fabric, EfaFabric)
    args = arguments.fabric(cluster)
    operator = gpu_operator_args(args, config)
    values = gpu_operator.values(operator)
    return {
        "operator": values["daemonsets"]["tolerations"],
        "features": values["node-feature-discovery"]["worker"]["tolerations"],
        "dra": gpu_operator.dra_values(operator)["kubeletPlugin"]["tolerations"],
        "efa": efa.values(efa.efa_args(args, fabric))["tolerations"],
    }


@pytest.mark.parametrize("allocation", ["device-plugin", "dra"])
def test_every_agent_tolerates_the_pools_own_taint(allocation: str) -> None:
    result = agents(tainted(allocation))
    assert len(result) == 4
    for name, tolerations in result.items():
        assert any(
            t.get("key") in (None, TAINT["key"]) and t.get("effect") in (None, TAINT["effect"])
            for t in tolerations
        ), f"{name}: {tolerations}"
