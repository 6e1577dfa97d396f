"""Has the runtime's pool that many machines?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.launch.asked import Asked

ORDER = 10


def check(asked: Asked) -> list[Finding]:
    """Compare the nodes with the pool's, by the contract alone; no live node is looked at."""
    plan, pool = asked.plan, asked.plan.pool
    described = f"pool {pool.name} has {pool.nodes} nodes of {pool.gpus_per_node} GPUs"
    if plan.nodes > pool.nodes:
        return [
            _failed(
                f"nodes: {plan.nodes} is more than runtime {plan.runtime} can have; allowed: at "
                f"most {pool.nodes} ({described})",
                f"ask for {pool.nodes} nodes or fewer, in the job file or with --nodes",
            )
        ]
    if len(asked.together) > 1 and asked.machines > pool.nodes:
        return [
            _failed(
                f"roles: {', '.join(part.role for part in asked.together)} need {asked.machines} "
                f"machines together, and {described}; the gang would wait for ever",
                "ask for fewer nodes or GPUs in one of the roles",
            )
        ]
    return [Finding(name="capacity", passed=True, text=described)]


def _failed(text: str, remedy: str) -> Finding:
    return Finding(name="capacity", passed=False, text=text, remedy=remedy)
