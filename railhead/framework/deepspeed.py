"""DeepSpeed by torchrun; its configuration is a file of the job, which travels in a ConfigMap.

``deepspeed.init_distributed`` reads what torchrun sets, so the launcher of its own, which wants ssh
or a rank by argument, is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from railhead.framework.base import Gang
from railhead.framework.torch import Torch


class DeepSpeed(Torch):
    """DeepSpeed by torchrun."""

    def problems(self, words: Sequence[str], gang: Gang, gpus: int) -> list[tuple[str, str]]:
        """Refuse DeepSpeed's own launcher, which needs ssh and a hostfile; pods have neither."""
        del gang, gpus
        if words[0].rpartition("/")[2] != "deepspeed" or "--no_ssh" in words:
            return []
        return [
            (
                "`deepspeed` starts the other nodes' processes over ssh, which pods do not serve",
                "name the Python file as the command's first word: torchrun starts it in each pod "
                "(docs of DeepSpeed 0.19.8, docs/_tutorials/getting-started.md, "
                "`init_distributed`); or say --no_ssh",
            )
        ]


FRAMEWORK = DeepSpeed(
    name="deepspeed",
    source="DeepSpeed 0.19.8, deepspeed/comm/comm.py (init_distributed: RANK, WORLD_SIZE, "
    "LOCAL_RANK, MASTER_ADDR, MASTER_PORT) and deepspeed/launcher/runner.py (--no_ssh)",
)
