"""Data-parallel training that comes back: Ray Train over a Ray cluster, its checkpoints by Ray.

The program runs on the head alone. Ray Train starts a worker on every node, gives them a process
group, and keeps in the claim which checkpoints are whole; a run that is started again with the same
name there goes on from the newest, in the same steps.

Environment: RAY_ADDRESS, RAILHEAD_NODES and CHECKPOINT_DIR by `railhead launch`; EPOCHS, SEED
yours; 10 and 0 when absent.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
import tempfile
from pathlib import Path

import ray
import torch
from ray import train
from ray.train.torch import TorchTrainer, prepare_model
from torch import distributed, nn

DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
BATCH = 128


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def work(config: dict[str, int]) -> None:
    """Learn the digits from the newest checkpoint on, as one worker of all."""
    context = train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(config["seed"])
    torch.set_num_threads(1)
    with gzip.open(DATA, "rt", newline="") as file:
        table = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])
    images, labels = table[:, :64] / 16.0, table[:, 64].long()

    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    model = prepare_model(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    say(f"rank={rank} world_size={world} node={context.get_node_rank()} host={os.uname().nodename}")

    done = 0
    newest = train.get_checkpoint()
    if newest is not None:
        with newest.as_directory() as directory:
            state = torch.load(Path(directory) / "state.pt")
        network.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["epoch"]
        say(f"resumed rank={rank} epoch={done}")

    for epoch in range(done + 1, config["epochs"] + 1):
        # Every attempt shuffles an epoch in the same order.
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(2)
        for start in range(0, len(order), BATCH):
            mine = order[start : start + BATCH][rank::world]
            loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(mine), float(len(mine))])
        distributed.all_reduce(total)
        mean = float(total[0] / total[1])
        if rank == 0:
            say(f"epoch={epoch} loss={mean:.4f}")
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if rank == 0:
                state = {
                    "model": network.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                }
                torch.save(state, Path(directory) / "state.pt")
                checkpoint = train.Checkpoint.from_directory(directory)
            # Every worker reports: this is where they wait for each other.
            train.report({"epoch": epoch, "loss": mean}, checkpoint=checkpoint)


def main() -> None:
    """Run one worker on every node of the cluster."""
    where = Path(os.environ["CHECKPOINT_DIR"]).absolute()
    ray.init()
    result = TorchTrainer(
        work,
        train_loop_config={
            "epochs": int(os.environ.get("EPOCHS", "10")),
            "seed": int(os.environ.get("SEED", "0")),
        },
        scaling_config=train.ScalingConfig(
            num_workers=int(os.environ["RAILHEAD_NODES"]),
            resources_per_worker={"CPU": 1},
            placement_strategy="STRICT_SPREAD",
        ),
        # The same name and place: Ray Train finds the run that was there before.
        run_config=train.RunConfig(
            name=where.name,
            storage_path=str(where.parent),
            checkpoint_config=train.CheckpointConfig(num_to_keep=3),
        ),
    ).fit()
    say(f"epoch={result.metrics['epoch']} loss={result.metrics['loss']:.4f}")


if __name__ == "__main__":
    main()
