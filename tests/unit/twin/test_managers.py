"""Tests of how a twin starts the programs of controllers."""

from __future__ import annotations

from railhead.twin.managers import feature_gates


def test_gates_of_another_kueue_are_left_out() -> None:
    """Kueue 0.16.2 ends at `FinishOrphanedWorkloads`, which 0.16.6 brought."""
    words = ["--config=x", "--feature-gates=FailureRecovery=true,FinishOrphanedWorkloads=false"]
    pod = {"spec": {"containers": [{"name": "proxy"}, {"name": "manager", "args": words}]}}
    assert feature_gates(pod) == ["FailureRecovery=true"]
