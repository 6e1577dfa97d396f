"""PaddlePaddle: its launcher in each pod starts the processes, and meets at the first pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.framework.base import NODE_RANK, NODES, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination

#: PaddleJob's (training-operator v1.9.3, pkg/apis/kubeflow.org/v1/paddlepaddle_types.go).
_PORT = 36543
_LAUNCH = ("-m", "paddle.distributed.launch")


@dataclass(frozen=True, kw_only=True)
class Paddle(Framework):
    """Paddle in collective mode."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer has none for it: the pods get what the runtime and the job say."""
        del combination, processes
        return {}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the launcher's arguments, as it reads them from variables."""
        return {
            "PADDLE_MASTER": f"{gang.hosts[0]}:{_PORT}",
            "PADDLE_NNODES": str(gang.nodes),
            "PADDLE_NPROC_PER_NODE": str(gang.processes),
            "PADDLE_RANK": f"$({NODE_RANK})",
            "PADDLE_JOB_ID": gang.job,
        }

    def process(self, gang: Gang, node: int, local: int) -> dict[str, str]:
        """Return the constant variables of the launcher (launch/controllers/collective.py)."""
        return {
            "PADDLE_TRAINER_ID": str(node * gang.processes + local),
            "PADDLE_TRAINERS_NUM": str(gang.world_size),
            "PADDLE_LOCAL_RANK": str(local),
            "PADDLE_LOCAL_SIZE": str(gang.processes),
        }

    def start(self, words: Sequence[str], gang: Gang) -> tuple[str, ...]:
        """Put Paddle's launcher before a Python file, in a way by which the gang meets.

        See :mod:`railhead.framework.programs.paddle`.
        """
        if words[0] in ("python", "python3") and tuple(words[1:3]) == _LAUNCH:
            words = words[3:]
        elif not words[0].endswith(".py"):
            return tuple(words)
        return (*self.started(gang), *words)


_WIRED = (
    "PADDLE_MASTER",
    "PADDLE_NNODES",
    "PADDLE_NPROC_PER_NODE",
    "PADDLE_RANK",
    "PADDLE_JOB_ID",
)

FRAMEWORK = Paddle(
    name="paddle",
    launcher="paddle.distributed.launch",
    starter="paddle.py",
    rendezvous=(NODE_RANK, NODES, *_WIRED),
    set_by_job=(NODES, *_WIRED),
    per_process=(
        "PADDLE_TRAINER_ID",
        "PADDLE_TRAINERS_NUM",
        "PADDLE_LOCAL_RANK",
        "PADDLE_LOCAL_SIZE",
    ),
    nodes_variable=NODES,
    kinds=("paddlejob",),
    controller={"paddlejob": ("PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_JOB_ID")},
    source="Paddle 3.3.1, python/paddle/distributed/launch/context/args_envs.py",
)
