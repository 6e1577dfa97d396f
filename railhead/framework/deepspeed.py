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
        """Refuse DeepSpeed's own launcher, which needs ssh, or a file of hosts and a rank.

        It sets what torchrun sets (deepspeed/launcher/launch.py); the configuration is the
        program's own argument, so nothing is lost.
        """
        del gpus
        if gang.nodes == 1 or not any(
            word.rpartition("/")[2] == "deepspeed" for word in words[:-1]
        ):
            return []
        command = " ".join(self.instead(words)) or "torchrun, your program and its arguments"
        return [
            (
                "`deepspeed` finds nodes by a file of hosts, and starts them over ssh or, with "
                "--no_ssh, by a --node_rank that differs from pod to pod; pods have neither",
                f"write `{command}`, which sets the same variables (DeepSpeed 0.19.8, "
                "docs/_tutorials/getting-started.md, `init_distributed`)",
            )
        ]


FRAMEWORK = DeepSpeed(
    name="deepspeed",
    source="DeepSpeed 0.19.8, deepspeed/comm/comm.py (init_distributed: RANK, WORLD_SIZE, "
    "LOCAL_RANK, MASTER_ADDR, MASTER_PORT) and deepspeed/launcher/runner.py (--no_ssh)",
)
