"""Fully sharded training that comes back: PyTorch FSDP, its checkpoints by DCP, a shard a rank.

Started by torchrun on every node. The model, the optimizer and their checkpoint are cut among all
ranks; a run that is started again goes on from the newest whole checkpoint, in the same steps.
Each process takes the GPU of its number on the node, and NCCL; without GPUs, the CPU and gloo.

Environment: RANK, WORLD_SIZE, LOCAL_RANK by torchrun; RAILHEAD_WORLD_SIZE and CHECKPOINT_DIR by
`railhead launch`; EPOCHS, SEED yours; 10 and 0 when absent.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
BATCH = 128
WRONG_WORLD = 64


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def newest(directory: Path) -> int:
    """Return the last epoch with a whole checkpoint: DCP writes its metadata last, on rank 0."""
    done = [int(p.parent.name[6:]) for p in directory.glob("epoch-*/.metadata")]
    return max(done, default=0)


def train() -> None:
    """Learn the digits from the newest checkpoint on."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    if os.environ.get("RAILHEAD_WORLD_SIZE", str(world)) != str(world):
        say(f"error: world size is {world}, the job asked for {os.environ['RAILHEAD_WORLD_SIZE']}")
        sys.exit(WRONG_WORLD)
    torch.manual_seed(int(os.environ.get("SEED", "0")))
    torch.set_num_threads(1)
    with gzip.open(DATA, "rt", newline="") as file:
        rows = [[float(cell) for cell in row] for row in csv.reader(file)]
    table = torch.tensor(rows, device=DEVICE)
    images, labels = table[:, :64] / 16.0, table[:, 64].long()

    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    model.append(nn.Linear(256, 10)).to(DEVICE)
    mesh = init_device_mesh(DEVICE.type, (world,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    weights = next(model.parameters())
    say(f"rank={rank} world_size={world} shard={tuple(weights.to_local().shape)}")

    where = Path(os.environ["CHECKPOINT_DIR"])
    # One rank looks, so that all agree.
    last = torch.tensor([newest(where) if rank == 0 else 0], device=DEVICE)
    distributed.broadcast(last, src=0)
    done = int(last)
    if done:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        checkpoint.load(state, checkpoint_id=where / f"epoch-{done:04d}")
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        say(f"resumed rank={rank} epoch={done}")

    for epoch in range(done + 1, int(os.environ.get("EPOCHS", "10")) + 1):
        # Every attempt shuffles an epoch in the same order.
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(2, device=DEVICE)
        for start in range(0, len(order), BATCH):
            mine = order[start : start + BATCH][rank::world]
            loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(mine), len(mine)], device=DEVICE)
        distributed.all_reduce(total)
        weights, moments = get_state_dict(model, optimizer)
        path = where / f"epoch-{epoch:04d}"
        checkpoint.save({"model": weights, "optimizer": moments}, checkpoint_id=path)
        if rank == 0:
            # It is whole: a claim's retention, where a stack has one, may take it when it is old.
            (path / ".railhead-checkpoint").touch()
            say(f"epoch={epoch} loss={float(total[0] / total[1]):.4f}")


if __name__ == "__main__":
    if DEVICE.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "nccl" if DEVICE.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=timedelta(seconds=120))
    try:
        train()
    finally:
        distributed.destroy_process_group()
