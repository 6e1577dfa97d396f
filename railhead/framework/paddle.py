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
        """Have Paddle's launcher start the processes, in a way by which the gang meets.

        See :mod:`railhead.framework.programs.paddle`.
        """
        python, *program = self.started(gang)
        if words[0].endswith(".py"):
            return (python, *program, *words)
        if words[0].rpartition("/")[2] == "fleetrun":
            return (python, *program, *words[1:])
        for at in range(1, len(words)):
            if tuple(words[at : at + 2]) == _LAUNCH:
                return (*words[:at], *program, *words[at + 2 :])
        return tuple(words)


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
    # A process that it did not start is a world of its own: PADDLE_TRAINERS_NUM is 1 by default
    # (PaddlePaddle/docs, docs/api/paddle/distributed/get_world_size_cn.rst).
    launches=r"(^|[\s/;&|\"'(])(start_paddle\.py|paddle\.distributed\.launch|fleetrun)($|[\s;&|\"')])",
    # From a shell's text, where no node would serve its master's name.
    same=r"(?:^|[\s/;&|\"'(])(-m paddle\.distributed\.launch|fleetrun)(?=\s)",
    kinds=("paddlejob",),
    controller={"paddlejob": ("PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_JOB_ID")},
    source="Paddle 3.3.1, python/paddle/distributed/launch/context/args_envs.py",
)
