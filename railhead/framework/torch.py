"""PyTorch: torchrun in each pod starts its processes, and they meet at the first pod's address.

DDP needs nothing more. What is started by torchrun too differs in its row alone: :func:`torchrun`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from railhead.base.programs import program
from railhead.framework.base import NODE_RANK, PORT, PROGRAMS, Framework, Gang

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railhead.catalog.versions import Combination

_RENDEZVOUS = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
_SOURCE = (
    "Trainer v2.1.0 and v2.3.0, pkg/runtime/framework/plugins/torch and pkg/constants; "
    "torch/distributed/argparse_util.py and torch/distributed/elastic"
)


def _python() -> Mapping[str, str]:
    """Return PyTorch's entry point and its module, :mod:`railhead.framework.programs.world`."""
    return {
        "railhead_world.py": program(PROGRAMS, "world.py"),
        # Of a package only its entry points are read (importlib/metadata).
        "railhead_world-1.dist-info/entry_points.txt": "[torch.backends]\n"
        "railhead_world = railhead_world:watch\n",
    }


@dataclass(frozen=True, kw_only=True)
class Torch(Framework):
    """A framework that torchrun starts."""

    launcher: str = "torchrun"
    rendezvous: tuple[str, ...] = _RENDEZVOUS
    per_process: tuple[str, ...] = (
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NODE_RANK",
        "RANK",
        "WORLD_SIZE",
    )
    # torchrun ends at once on it; without it each pod would be a world of one, with a plausible
    # result.
    unwired: Mapping[str, str] = field(default_factory=lambda: {"PET_NNODES": "0"})
    elastic: bool = True
    nodes_variable: str = "PET_NNODES"
    # An elastic job gives a range.
    one_node: tuple[str, ...] = ("1", "1:1")
    nodes_argument: str | None = r"(^|\s)--nnodes[= ](0*[2-9]|0*[1-9][0-9]+|[0-9]+:)"
    # Others (accelerate, deepspeed) read none of what Trainer sets.
    launches: str | None = (
        r"(^|[\s/;&|\"'(])(torchrun|torch\.distributed\.(run|launch))($|[\s;&|\"')])"
    )
    # Arguments win over the PET_ variables (torch/distributed/argparse_util.py).
    alone: str | None = (
        r"(^|\s)--(standalone($|[\s;&|\"')])|nnodes[= ][\"']?0*1(:[0-9]+)?($|[\s;&|\"')]))"
        r"|(^|[\s;&|\"'(])(unset +)?PET_(NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|STANDALONE)"
        r"($|[=\s;&|\"')])"
    )
    python: Mapping[str, str] = field(default_factory=_python)
    # With --tee: `[<role><local rank>]:`.
    process_prefix: str | None = r"\[[A-Za-z_-]*?(\d+)\]:"
    kinds: tuple[str, ...] = ("pytorchjob",)
    # training-operator v1.9.3, pkg/controller.v1/pytorch/envvar.go and master.go.
    controller: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({"pytorchjob": _RENDEZVOUS})
    )
    # The Kubeflow SDK starts this one by torchrun.
    label: str | None = "torch"

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Return Trainer's ``torch``: 2.2 dropped ``numProcPerNode``, and takes the pod's GPUs."""
        # A number, because `auto` is the CPU count if there is no CUDA.
        counted = combination.placement_field == "podTemplateOverrides"
        return {"torch": {"numProcPerNode": processes} if counted else {}}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the arguments of torchrun, which reads each from ``PET_`` and its name."""
        return {
            "PET_NNODES": str(gang.nodes),
            "PET_NPROC_PER_NODE": str(gang.processes),
            "PET_NODE_RANK": f"$({NODE_RANK})",
            "PET_MASTER_ADDR": gang.hosts[0],
            "PET_MASTER_PORT": str(PORT),
        }

    def process(self, gang: Gang, node: int, local: int) -> dict[str, str]:
        """torch/distributed/elastic/agent/server/local_elastic_agent.py, ``_start_workers``."""
        return {
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(gang.processes),
            "MASTER_ADDR": gang.hosts[0],
            "MASTER_PORT": str(PORT),
            "RANK": str(node * gang.processes + local),
            "WORLD_SIZE": str(gang.world_size),
        }

    def start(self, words: Sequence[str], gang: Gang) -> tuple[str, ...]:
        """Put torchrun before a Python file, and run it so that its exit code is that of a process.

        See :mod:`railhead.framework.programs.torchrun`.
        """
        del gang
        if words[0].endswith(".py"):
            words = ("torchrun", *words)
        if words[0] != self.launcher:
            return tuple(words)
        return ("python3", "-c", program(PROGRAMS, "torchrun.py"), *words[1:])

    def proving(self, program: str) -> tuple[str, ...] | None:
        """Return torchrun, whose arguments win over the job's variables (argparse_util.py)."""
        return (
            "torchrun",
            "--rdzv-backend=static",
            f"--master-port={PORT + 1}",
            "--max-restarts=0",
            program,
        )


FRAMEWORK = Torch(name="torch", source=_SOURCE)
