"""Is there a pool with that many machines, of that many GPUs each?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.launch.asked import Asked

ORDER = 10


def check(asked: Asked) -> list[Finding]:
    """By the contract alone; no live node is asked."""
    plan, pools = asked.plan, asked.contract.node_pools
    described = "; ".join(f"{p.name}: {p.nodes} nodes of {p.gpus_per_node} GPUs" for p in pools)
    gpus_fit = [p for p in pools if p.gpus_per_node >= plan.gpus_per_node]
    fitting = [p for p in gpus_fit if p.nodes >= plan.nodes]
    if fitting:
        pool = fitting[0]
        text = f"pool {pool.name} has {pool.nodes} nodes of {pool.gpus_per_node} GPUs"
        return [Finding(name="capacity", passed=True, text=text)]
    if not gpus_fit:
        most = max((p.gpus_per_node for p in pools), default=0)
        text = (
            f"gpus_per_node: {plan.gpus_per_node} is more than any machine has; "
            f"allowed: at most {most} ({described or 'the contract lists no pool'})"
        )
        remedy = f"ask for {most} or fewer a node, on more nodes"
    else:
        most = max(p.nodes for p in gpus_fit)
        text = (
            f"nodes: {plan.nodes} is more than any pool has; allowed: at most {most} ({described})"
        )
        remedy = f"ask for {most} nodes or fewer, in the job file or with --nodes"
    return [Finding(name="capacity", passed=False, text=text, remedy=remedy)]
