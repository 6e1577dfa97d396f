"""PyTorch's fully sharded data parallelism: processes as with DDP, the model cut among them.

``fully_shard`` takes its mesh from the default process group; a process needs nothing else.
"""

from __future__ import annotations

from railhead.framework.torch import Torch

FRAMEWORK = Torch(
    name="fsdp",
    source="torch 2.15, torch/distributed/fsdp/_fully_shard/_fully_shard.py: `mesh` defaults to a "
    "mesh over the default process group",
)
