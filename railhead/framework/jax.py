"""JAX: one process a pod with all of its GPUs, and the first pod's is the coordinator.

``jax.distributed.initialize`` reads the coordinator's address from its variable; the other two are
its arguments, under the names that Trainer gives them:
``initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=...)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.framework.base import NODE_RANK, PORT, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination


@dataclass(frozen=True, kw_only=True)
class Jax(Framework):
    """JAX with a coordinator."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer's ``jax``, which 2.1 has not; there launch says what it would."""
        del processes
        return {"jax": {}} if combination.placement_field == "runtimePatches" else {}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the variables of Trainer v2.3.0 (pkg/runtime/framework/plugins/jax/jax.go)."""
        return {
            "JAX_COORDINATOR_ADDRESS": f"{gang.hosts[0]}:{PORT}",
            "JAX_NUM_PROCESSES": str(gang.nodes),
            "JAX_PROCESS_ID": f"$({NODE_RANK})",
        }


_SET_BY_JOB = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")

FRAMEWORK = Jax(
    name="jax",
    launcher="the pod itself",
    rendezvous=(NODE_RANK, *_SET_BY_JOB),
    set_by_job=_SET_BY_JOB,
    per_process=(),
    # A program that looks at it ends at once; without a job's own value nobody wired it.
    unwired={"JAX_NUM_PROCESSES": "0"},
    nodes_variable="JAX_NUM_PROCESSES",
    one_process=True,
    kinds=("jaxjob",),
    source="jax 0.10.2, jax/_src/distributed.py (State.initialize) and docs/multi_process.md; "
    "Trainer v2.3.0, pkg/runtime/framework/plugins/jax/jax.go",
)
