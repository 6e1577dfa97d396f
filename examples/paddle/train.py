"""Data-parallel training that comes back: PaddlePaddle, its checkpoints by rank 0.

Started by Paddle's launcher on every node. A run that is started again goes on from the newest
whole checkpoint, in the same steps.

Environment: PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM by the launcher; RAILHEAD_WORLD_SIZE and
CHECKPOINT_DIR by `railhead launch`; EPOCHS, SEED yours; 10 and 0 when absent.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from pathlib import Path

import numpy as np
import paddle
from paddle import distributed, nn

DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
BATCH = 128
WRONG_WORLD = 64


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Learn the digits from the newest checkpoint on."""
    distributed.init_parallel_env()
    rank, world = distributed.get_rank(), distributed.get_world_size()
    if os.environ.get("RAILHEAD_WORLD_SIZE", str(world)) != str(world):
        say(f"error: world size is {world}, the job asked for {os.environ['RAILHEAD_WORLD_SIZE']}")
        sys.exit(WRONG_WORLD)
    paddle.seed(int(os.environ.get("SEED", "0")))
    with gzip.open(DATA, "rt", newline="") as file:
        table = np.array([[float(cell) for cell in row] for row in csv.reader(file)], np.float32)
    images, labels = table[:, :64] / 16.0, table[:, 64].astype(np.int64)

    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    model = paddle.DataParallel(network)
    optimizer = paddle.optimizer.Adam(0.001, parameters=model.parameters())
    say(f"rank={rank} world_size={world} host={os.uname().nodename}")

    where = Path(os.environ["CHECKPOINT_DIR"])
    where.mkdir(parents=True, exist_ok=True)
    done = max((int(path.stem[6:]) for path in where.glob("epoch-*.state")), default=0)
    # None saves before all have looked.
    distributed.barrier()
    if done:
        state = paddle.load(str(where / f"epoch-{done:04d}.state"))
        model.set_state_dict(state["model"])
        optimizer.set_state_dict(state["optimizer"])
        say(f"resumed rank={rank} epoch={done}")

    for epoch in range(done + 1, int(os.environ.get("EPOCHS", "10")) + 1):
        # Every attempt shuffles an epoch in the same order.
        order = np.random.default_rng(epoch).permutation(len(images))
        total = paddle.zeros([2])
        for start in range(0, len(order) - BATCH + 1, BATCH):
            mine = order[start : start + BATCH][rank::world]
            loss = nn.functional.cross_entropy(
                model(paddle.to_tensor(images[mine])), paddle.to_tensor(labels[mine])
            )
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            total += paddle.to_tensor([float(loss) * len(mine), float(len(mine))])
        distributed.all_reduce(total)
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            unfinished = where / f".epoch-{epoch:04d}"
            paddle.save(state, str(unfinished))
            unfinished.rename(where / f"epoch-{epoch:04d}.state")
            say(f"epoch={epoch} loss={float(total[0] / total[1]):.4f}")


if __name__ == "__main__":
    main()
