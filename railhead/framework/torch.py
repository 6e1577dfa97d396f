"""PyTorch: torchrun in each pod starts its processes, and they meet at the first pod's address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from railhead.catalog.versions import Combination
from railhead.framework.base import Framework


@dataclass(frozen=True, kw_only=True)
class Torch(Framework):
    """PyTorch by torchrun."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer's ``torch``: 2.2 dropped its ``numProcPerNode``, and takes the pod's GPUs."""
        # A number, because `auto` is the CPU count wherever CUDA is not.
        counted = combination.placement_field == "podTemplateOverrides"
        return {"torch": {"numProcPerNode": processes} if counted else {}}


FRAMEWORK = Torch(
    name="torch",
    launcher="torchrun",
    rendezvous=(
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
    ),
    per_process=(
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NODE_RANK",
        "RANK",
        "WORLD_SIZE",
    ),
    # torchrun ends at once on it; without it each pod would be a world of one, with a plausible
    # result.
    unwired={"PET_NNODES": "0"},
    nodes_variable="PET_NNODES",
    # An elastic job gives a range.
    one_node=("1", "1:1"),
    nodes_argument=r"(^|\s)--nnodes[= ](0*[2-9]|0*[1-9][0-9]+|[0-9]+:)",
    # Others (accelerate, deepspeed) read none of what Trainer sets.
    launches=r"(^|[\s/;&|\"'(])(torchrun|torch\.distributed\.(run|launch))($|[\s;&|\"')])",
    # Arguments win over the PET_ variables (torch/distributed/argparse_util.py).
    alone=r"(^|\s)--(standalone($|[\s;&|\"')])|nnodes[= ][\"']?0*1(:[0-9]+)?($|[\s;&|\"')]))"
    r"|(^|[\s;&|\"'(])(unset +)?PET_(NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|STANDALONE)"
    r"($|[=\s;&|\"')])",
    # With --tee: `[<role><local rank>]:`.
    process_prefix=r"\[[A-Za-z_-]*?(\d+)\]:",
    source="Trainer v2.1.0 and v2.3.0, pkg/runtime/framework/plugins/torch and pkg/constants; "
    "torch/distributed/argparse_util.py and torch/distributed/elastic",
)
