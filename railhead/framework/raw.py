"""A program without a framework, which reads its place in the world from variables.

Each pod has one process. The names are those of PyTorch's ``env://``, which most such programs
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.framework.base import NODE_RANK, NODES, PORT, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination


@dataclass(frozen=True, kw_only=True)
class Raw(Framework):
    """One process a pod, told its place."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer has none for it: the pods get what the runtime and the job say."""
        del combination, processes
        return {}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """torch/distributed/rendezvous.py, ``env://``; the local ones as torchrun names them."""
        return {
            "MASTER_ADDR": gang.hosts[0],
            "MASTER_PORT": str(PORT),
            "WORLD_SIZE": str(gang.world_size),
            "RANK": f"$({NODE_RANK})",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": f"$({NODE_RANK})",
        }


_SET_BY_JOB = (
    NODES,
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
)

FRAMEWORK = Raw(
    name="raw",
    launcher="the pod itself",
    rendezvous=(NODE_RANK, *_SET_BY_JOB),
    set_by_job=_SET_BY_JOB,
    per_process=(),
    nodes_variable=NODES,
    carries=True,
    one_process=True,
    source="torch 2.15, docs/source/distributed.md, environment variable initialization",
)
