"""Ray: a cluster of the job's own pods, the head in the first, on which the program runs.

A worker pod ends well once the head says that the program did; if its Ray ends before, it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.framework.base import NODE_RANK, NODES, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination

#: Ray's own port for its head (ray start --help, 2.60).
_PORT = 6379


@dataclass(frozen=True, kw_only=True)
class Ray(Framework):
    """A Ray cluster of a job."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer has none for it: the pods get what the runtime and the job say."""
        del combination, processes
        return {}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the address of the head; ``ray.init()`` reads RAY_ADDRESS."""
        return {
            "RAY_ADDRESS": f"{gang.hosts[0]}:{_PORT}",
            "RAY_HEAD": f"{gang.hosts[0]}:{_PORT}",
            "RAY_PORT": str(_PORT),
        }

    def start(self, words: Sequence[str], gang: Gang) -> tuple[str, ...]:
        """Have each pod join the cluster, and the program run on the head.

        See :mod:`railhead.framework.programs.ray`.
        """
        return (*self.started(gang), *super().start(words, gang))


_WIRED = ("RAY_ADDRESS", "RAY_HEAD", "RAY_PORT")

FRAMEWORK = Ray(
    name="ray",
    launcher="ray start",
    starter="ray.py",
    rendezvous=(NODE_RANK, NODES, *_WIRED),
    set_by_job=(NODES, *_WIRED),
    per_process=(),
    nodes_variable=NODES,
    one_process=True,
    kinds=("rayjob",),
    # KubeRay sets two of them, and writes the head's address into each `ray start` itself.
    controller={"rayjob": _WIRED},
    source="Ray 2.60.0, doc/source/cluster/vms/user-guides/launching-clusters/on-premises.md "
    "(ray start --head, --address) and python/ray/_private/worker.py (RAY_ADDRESS)",
)
