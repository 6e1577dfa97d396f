"""Are enough live nodes of the runtime's pool as promised? Names those that are not."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.kube import nodes
from railhead.launch.asked import Asked

ORDER = 20


def check(asked: Asked) -> list[Finding]:
    """Check the live nodes, if nodes are there all the time and the pool is large enough."""
    plan, contract = asked.plan, asked.contract
    if not contract.standing:
        return []
    live = asked.live
    if isinstance(live, str):
        text = f"nodes may not be listed here: {live}"
        return [Finding(name="nodes", passed=None, text=text)]
    pool = plan.pool
    needed = plan.nodes if len(asked.together) == 1 else asked.machines
    # A pool that is too small by the contract itself is reported by `capacity`.
    if needed > pool.nodes:
        return []
    promises = [promise for promise in nodes.promised(contract) if promise.pool == pool.name]
    (result,) = nodes.verify(promises, live)
    good = len(result.good)
    if good >= needed:
        text = f"pool {pool.name}: {good} nodes have what the contract promises"
        return [Finding(name="nodes", passed=True, text=text)]
    return [
        Finding(
            name="nodes",
            passed=False,
            text=f"{needed} nodes are needed and {good} of pool {pool.name} are as the "
            f"contract promises: {'; '.join(result.lines())}",
            remedy="ask the platform team to mend those nodes (`railhead config verify` lists "
            "them), or take fewer nodes",
        )
    ]
