"""Training that comes back: Megatron Core's tensor parallelism, its checkpoints a shard a rank.

Started by torchrun on every node. Layers are cut among the processes of a tensor-parallel group,
batches among the groups. Checkpoints are laid out as Megatron's format `torch`, one file a part of
the model; a run that is started again goes on from the newest whole one, in the same steps.

Environment: RANK, WORLD_SIZE, LOCAL_RANK by torchrun; RAILHEAD_WORLD_SIZE and CHECKPOINT_DIR by
`railhead launch`; EPOCHS, SEED yours; 10 and 0 when absent.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
from megatron.core import ModelParallelConfig, parallel_state
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from torch import distributed, nn

DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
BATCH = 128
WRONG_WORLD = 64
NEWEST = "latest_checkpointed_iteration.txt"


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Network(nn.Module):
    """Two layers, the first cut by columns and the second by rows."""

    def __init__(self, config: ModelParallelConfig) -> None:
        super().__init__()
        start = nn.init.xavier_normal_
        self.first = ColumnParallelLinear(
            64, 256, config=config, init_method=start, gather_output=False
        )
        self.second = RowParallelLinear(
            256,
            10,
            config=config,
            init_method=start,
            bias=True,
            input_is_parallel=True,
            skip_bias_add=False,
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of a batch."""
        hidden, _ = self.first(images)
        logits: torch.Tensor = self.second(torch.relu(hidden))[0]
        return logits


def file_of(where: Path, epoch: int) -> Path:
    """Return the path of this rank's shard in Megatron's format `torch`."""
    place = parallel_state.get_tensor_model_parallel_rank()
    return where / f"iter_{epoch:07d}" / f"mp_rank_{place:02d}" / "model_optim_rng.pt"


def save(where: Path, epoch: int, state: dict[str, object]) -> None:
    """Write the first replica's shards, and last the file that names the newest."""
    if parallel_state.get_data_parallel_rank() == 0:
        path = file_of(where, epoch)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path)
    distributed.barrier()
    if distributed.get_rank() == 0:
        unfinished = where / ".newest"
        unfinished.write_text(str(epoch))
        unfinished.rename(where / NEWEST)


def train(tensor: int) -> None:
    """Learn the digits from the newest checkpoint on."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    if os.environ.get("RAILHEAD_WORLD_SIZE", str(world)) != str(world):
        say(f"error: world size is {world}, the job asked for {os.environ['RAILHEAD_WORLD_SIZE']}")
        sys.exit(WRONG_WORLD)
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor)
    group = parallel_state.get_data_parallel_group()
    replica = parallel_state.get_data_parallel_rank()
    replicas = parallel_state.get_data_parallel_world_size()
    torch.manual_seed(int(os.environ.get("SEED", "0")))
    torch.set_num_threads(1)
    with gzip.open(DATA, "rt", newline="") as file:
        table = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])
    images, labels = table[:, :64] / 16.0, table[:, 64].long()

    model = Network(
        ModelParallelConfig(tensor_model_parallel_size=tensor, use_cpu_initialization=True)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    say(f"rank={rank} world_size={world} shard={tuple(model.first.weight.shape)} replica={replica}")

    where = Path(os.environ["CHECKPOINT_DIR"])
    # One rank looks, so that all agree.
    newest = where / NEWEST
    last = torch.tensor([int(newest.read_text()) if rank == 0 and newest.exists() else 0])
    distributed.broadcast(last, src=0)
    done = int(last)
    if done:
        state = torch.load(file_of(where, done))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        say(f"resumed rank={rank} epoch={done}")

    for epoch in range(done + 1, int(os.environ.get("EPOCHS", "10")) + 1):
        # Every attempt shuffles an epoch in the same order.
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(2)
        for start in range(0, len(order), BATCH):
            mine = order[start : start + BATCH][replica::replicas]
            loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            for weight in model.parameters():
                distributed.all_reduce(weight.grad, group=group)
                weight.grad /= replicas
            optimizer.step()
            total += torch.tensor([loss.item() * len(mine), float(len(mine))])
        distributed.all_reduce(total, group=group)
        weights, moments = model.state_dict(), optimizer.state_dict()
        save(where, epoch, {"model": weights, "optimizer": moments})
        if rank == 0:
            say(f"epoch={epoch} loss={float(total[0] / total[1]):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensor-model-parallel-size", type=int, default=1)
    distributed.init_process_group("gloo", timeout=timedelta(seconds=120))
    try:
        train(parser.parse_args().tensor_model_parallel_size)
    finally:
        distributed.destroy_process_group()
