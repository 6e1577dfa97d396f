"""Do enough live nodes have what the contract promises? Names those that do not."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.kube import client as kube
from railhead.kube import nodes
from railhead.launch.asked import Asked

ORDER = 20
# Platforms whose nodes are there all the time: elsewhere they may come for the job.
STANDING = frozenset({"existing", "lab"})


def check(asked: Asked) -> list[Finding]:
    """Only where nodes are there all the time, and in pools that are large enough."""
    plan, contract = asked.plan, asked.contract
    if contract.platform not in STANDING:
        return []
    try:
        live = nodes.live(asked.cluster)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        text = f"nodes may not be listed here: {error.message}"
        return [Finding(name="nodes", passed=None, text=text)]
    # Pools that are too small by the contract itself are `capacity`'s to name.
    pools = [
        pool.name
        for pool in contract.node_pools
        if pool.gpus_per_node >= plan.gpus_per_node and pool.nodes >= plan.nodes
    ]
    promises = [p for p in nodes.promised(contract) if p.pool in pools]
    checked = nodes.verify(promises, live)
    if not checked:
        return []
    fitting = [pool for pool in checked if len(pool.good) >= plan.nodes]
    if fitting:
        good, promise = fitting[0].good, fitting[0].promise
        text = f"pool {promise.pool}: {len(good)} nodes have what the contract promises"
        return [Finding(name="nodes", passed=True, text=text)]
    lines = [line for pool in checked for line in pool.lines()]
    return [
        Finding(
            name="nodes",
            passed=False,
            text=f"{plan.nodes} nodes are needed and no pool has as many that are as the contract "
            f"promises: {'; '.join(lines)}",
            remedy="ask the platform team to mend those nodes (`railhead config verify` lists "
            "them), or take fewer nodes",
        )
    ]
