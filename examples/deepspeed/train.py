"""Training that comes back: DeepSpeed with ZeRO, its checkpoints by the engine, a shard a rank.

Started by torchrun on every node; the configuration is a file of the job. The optimizer is cut
among all ranks. The engine's file `latest` names the newest whole checkpoint; a run that is started
again goes on from there, in the same steps.

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

import deepspeed
import torch
from deepspeed import comm
from torch import nn

DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
WRONG_WORLD = 64


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Learn the digits from the newest checkpoint on."""
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    arguments = parser.parse_args()
    if deepspeed.get_accelerator().device_name() == "cpu":
        # It would be compiled now, for which an image needs a compiler: gloo takes its place.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(timeout=timedelta(seconds=120))
    rank, world = comm.get_rank(), comm.get_world_size()
    if os.environ.get("RAILHEAD_WORLD_SIZE", str(world)) != str(world):
        say(f"error: world size is {world}, the job asked for {os.environ['RAILHEAD_WORLD_SIZE']}")
        sys.exit(WRONG_WORLD)
    torch.manual_seed(int(os.environ.get("SEED", "0")))
    torch.set_num_threads(1)
    with gzip.open(DATA, "rt", newline="") as file:
        table = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])
    images, labels = table[:, :64] / 16.0, table[:, 64].long()

    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    engine, *_ = deepspeed.initialize(arguments, network, model_parameters=network.parameters())
    say(f"rank={rank} world_size={world} zero={engine.zero_optimization_stage()}")

    where = os.environ["CHECKPOINT_DIR"]
    path, state = engine.load_checkpoint(where)
    done = state["epoch"] if path else 0
    if done:
        say(f"resumed rank={rank} epoch={done}")

    batch = engine.train_batch_size()
    for epoch in range(done + 1, int(os.environ.get("EPOCHS", "10")) + 1):
        # Every attempt shuffles an epoch in the same order.
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(2)
        for start in range(0, len(order) - batch + 1, batch):
            mine = order[start : start + batch][rank::world]
            loss = nn.functional.cross_entropy(
                engine(images[mine].to(engine.device)), labels[mine].to(engine.device)
            )
            engine.backward(loss)
            engine.step()
            total += torch.tensor([loss.item() * len(mine), float(len(mine))])
        total = total.to(engine.device)
        comm.all_reduce(total)
        engine.save_checkpoint(where, tag=f"epoch-{epoch:04d}", client_state={"epoch": epoch})
        if rank == 0:
            say(f"epoch={epoch} loss={float(total[0] / total[1]):.4f}")
    comm.destroy_process_group()


if __name__ == "__main__":
    main()
