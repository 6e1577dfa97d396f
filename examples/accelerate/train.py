"""Training that comes back: Hugging Face Accelerate, its state by save_state and load_state.

Started by torchrun on every node. Accelerate cuts each batch among the processes and keeps model,
optimizer, sampler and random numbers together; a run that is started again goes on from the newest
whole state, in the same steps.

Environment: RANK, WORLD_SIZE, LOCAL_RANK by torchrun; RAILHEAD_WORLD_SIZE and CHECKPOINT_DIR by
`railhead launch`; EPOCHS, SEED yours; 10 and 0 when absent.
"""

from __future__ import annotations

import csv
import gzip
import os
import shutil
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
BATCH = 128
WRONG_WORLD = 64


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def save(accelerator: Accelerator, where: Path, epoch: int) -> None:
    """Write to an unfinished directory; it gets its name when every process is done."""
    unfinished = where / "unfinished"
    if accelerator.is_main_process:
        shutil.rmtree(unfinished, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(unfinished))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        unfinished.rename(where / f"epoch-{epoch:04d}")
    accelerator.wait_for_everyone()


def main() -> None:
    """Learn the digits from the newest state on."""
    # The same order of samples for every world and every start.
    loading = DataLoaderConfiguration(split_batches=True, use_seedable_sampler=True)
    # Without a GPU, and not told so, every process would be a world of its own.
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), dataloader_config=loading)
    world = accelerator.num_processes
    if os.environ.get("RAILHEAD_WORLD_SIZE", str(world)) != str(world):
        say(f"error: world size is {world}, the job asked for {os.environ['RAILHEAD_WORLD_SIZE']}")
        sys.exit(WRONG_WORLD)
    set_seed(int(os.environ.get("SEED", "0")))
    torch.set_num_threads(1)
    with gzip.open(DATA, "rt", newline="") as file:
        table = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])
    digits = TensorDataset(table[:, :64] / 16.0, table[:, 64].long())

    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.Adam(model.parameters(), lr=0.001),
        DataLoader(digits, batch_size=BATCH, shuffle=True, drop_last=True),
    )
    say(f"rank={accelerator.process_index} world_size={world} device={accelerator.device}")

    where = Path(os.environ["CHECKPOINT_DIR"])
    if accelerator.is_main_process:
        where.mkdir(parents=True, exist_ok=True)
    accelerator.wait_for_everyone()
    done = max((int(path.name[6:]) for path in where.glob("epoch-*")), default=0)
    # None renames one before all have looked.
    accelerator.wait_for_everyone()
    if done:
        accelerator.load_state(str(where / f"epoch-{done:04d}"))
        say(f"resumed rank={accelerator.process_index} epoch={done}")

    for epoch in range(done + 1, int(os.environ.get("EPOCHS", "10")) + 1):
        loader.set_epoch(epoch)
        total = torch.zeros(2, device=accelerator.device)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            total += torch.tensor([loss.item() * len(labels), len(labels)], device=total.device)
        total = accelerator.reduce(total)
        save(accelerator, where, epoch)
        if accelerator.is_main_process:
            say(f"epoch={epoch} loss={float(total[0] / total[1]):.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
