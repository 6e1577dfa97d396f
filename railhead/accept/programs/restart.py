"""A training that harms itself at given steps, and reports what became of it.

It runs under torchrun in the runtime's own image. The same steps give the same losses to the last
digit, on whatever nodes: all processes' gradients are added as whole numbers, whose sum has no
order. Rank 0 keeps a diary beside the checkpoints, flushed to the storage before each step is said,
and the last attempt prints all of it.

Harms, each once in the life of a job: ``kill`` ends a rank by SIGKILL, ``hang`` stops one by
SIGSTOP, ``launcher`` ends the process that started a rank by SIGTERM, and ``wait`` lets all wait to
be harmed from outside.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

UNSHARED = 66
NO_STORAGE = 67
HARMS = ("kill", "hang", "launcher", "wait")
# Gradients are added as whole numbers of 2**-32.
SCALE = 2.0**32
SIZE = 24
WAIT_SECONDS = 600.0
# A client of a network file system may see a name a moment later than it was made.
PATIENCE_SECONDS = 5.0
VICTIM = 1


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"restart: {text}\n")
    sys.stdout.flush()


def harm_of(text: str) -> tuple[str, int]:
    """``kill@6`` is a kill after the sixth step."""
    kind, at, step = text.partition("@")
    if kind not in HARMS or not at or not step.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: one of {', '.join(HARMS)}, '@' and a step")
    return kind, int(step)


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--every", type=int, required=True, help="steps between two checkpoints")
    parser.add_argument(
        "--pace", type=float, default=0.2, help="seconds that a step takes at least"
    )
    parser.add_argument("--watchdog", type=float, default=20.0, help="seconds until a hang is one")
    parser.add_argument("--harm", type=harm_of, action="append", default=[])
    return parser.parse_args(words)


class Diary:
    """A diary in a file of the claim: one line an event, on the storage before the run goes on."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "diary"

    def write(self, text: str) -> None:
        """Add a line, and say it."""
        with self.path.open("a") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        say(text)

    def lines(self) -> list[str]:
        """Return all lines."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def attempt(self) -> int:
        """Return how many attempts have begun."""
        return sum(line.startswith("begin ") for line in self.lines())


def flushed(path: Path, data: bytes) -> None:
    """Write under another name, flush to the storage, rename: whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(path: Path) -> int:
    """Return sixty bits of a file's SHA-256; 0 where there is no file."""
    try:
        data = path.read_bytes()
    except OSError:
        return 0
    return int(hashlib.sha256(data).hexdigest()[:15], 16)


def harm(kind: str) -> None:
    """Harm this rank. It does not return."""
    # What was said reaches the log first: the launcher hands lines on ten times a second.
    time.sleep(1)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "launcher":
        os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(WAIT_SECONDS)


class World:
    """Collectives that end on the CPU, or raise: no process goes on with what a lost rank left.

    PyTorch aborts NCCL's kernel when a rank is lost, and until the next collective the program sees
    sums that lack the others. A wait with a time limit is one on the CPU and raises
    (ProcessGroupNCCL.cpp, WorkNCCL::wait). TORCH_NCCL_BLOCKING_WAIT does not do: it stops the
    watchdog, and collectives that are not asynchronous are not waited for (2.11, on an H100).
    """

    def __init__(self, seconds: float) -> None:
        self.limit = timedelta(seconds=seconds)

    def add(self, tensor: Tensor) -> None:
        """Add up a tensor of all ranks, in each."""
        from torch import distributed

        distributed.all_reduce(tensor, async_op=True).wait(self.limit)

    def most(self, tensor: Tensor) -> None:
        """Take the greatest of all ranks, in each."""
        from torch import distributed

        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, async_op=True).wait(self.limit)

    def share(self, tensor: Tensor) -> None:
        """Hand rank 0's tensor to all."""
        from torch import distributed

        distributed.broadcast(tensor, src=0, async_op=True).wait(self.limit)

    def meet(self) -> None:
        """Wait for all ranks."""
        from torch import distributed

        distributed.barrier(async_op=True).wait(self.limit)


def first_time(world: World, folder: Path, step: int, kind: str, device: object) -> bool:
    """Return whether this harm is still to do: rank 0 knows, as it wrote the mark itself."""
    import torch
    from torch import distributed

    fresh = torch.tensor([0], dtype=torch.int64, device=device)
    mark = folder / f"harmed-{step}"
    if distributed.get_rank() == 0 and not mark.exists():
        flushed(mark, b"")
        say(f"harm kind={kind} step={step}")
        fresh[0] = 1
    world.share(fresh)
    return bool(fresh[0])


def agree(world: World, folder: Path, name: str, device: object) -> None:
    """Read the file that rank 0 wrote in every process; other bytes on one node end the job."""
    import torch

    end = time.monotonic() + PATIENCE_SECONDS
    while not (mine := digest(folder / name)) and time.monotonic() < end:
        time.sleep(0.2)
    most = torch.tensor([mine, -mine], dtype=torch.int64, device=device)
    world.most(most)
    if mine == 0 or int(most[0]) != mine or int(most[1]) != -mine:
        node = os.environ.get("PET_NODE_RANK", "?")
        say(f"unshared node={node} file={name} reads={mine:x} another={int(most[0]):x}")
        sys.stdout.flush()
        os._exit(UNSHARED)


def newest(folder: Path) -> Path | None:
    """Return the checkpoint of the latest step."""
    matches = sorted(folder.glob("step-[0-9][0-9][0-9][0-9][0-9].pt"))
    return matches[-1] if matches else None


def train(given: argparse.Namespace, folder: Path) -> None:
    """Train from the newest checkpoint on to the last step."""
    import io

    import torch
    from torch import distributed

    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    world = World(given.watchdog)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) if gpu else 0) if gpu else "cpu"
    diary = Diary(folder) if rank == 0 else None
    if diary:
        diary.write(f"begin attempt={diary.attempt + 1} pod={os.environ.get('HOSTNAME', '')}")
    generator = torch.Generator().manual_seed(1)
    truth = torch.randn(SIZE, 1, generator=generator, dtype=torch.float64).to(device)
    weight = torch.zeros(SIZE, 1, dtype=torch.float64, device=device)
    speed = torch.zeros_like(weight)
    done = 0
    # What rank 0 takes, all take: `agree` reports a file that is half there on one node.
    newest_step = torch.tensor([0], dtype=torch.int64, device=device)
    if rank == 0 and (result := newest(folder)) is not None:
        newest_step[0] = int(result.stem.partition("-")[2])
    world.share(newest_step)
    if int(newest_step):
        done = int(newest_step)
        name = f"step-{done:05d}.pt"
        agree(world, folder, name, device)
        state = torch.load(folder / name, map_location=device)
        weight, speed = state["weight"], state["speed"]
        if diary:
            diary.write(f"resumed step={done}")
    for step in range(done + 1, given.steps + 1):
        begin = time.monotonic()
        source = torch.Generator().manual_seed(step * 100_003 + rank)
        inputs = torch.randn(64, SIZE, generator=source, dtype=torch.float64).to(device)
        error = inputs @ (weight - truth)
        gradient = inputs.T @ error / len(inputs)
        sums = torch.cat([gradient.flatten(), (error**2).mean().reshape(1)])
        whole = (sums * SCALE).round().to(torch.int64)
        world.add(whole)
        mean = whole.to(torch.float64) / SCALE / ranks
        speed = 0.3 * speed + mean[:-1].reshape(-1, 1)
        weight = weight - 0.1 * speed
        if diary:
            diary.write(f"step n={step} loss={float(mean[-1]):.17g}")
        if step % given.every == 0:
            name = f"step-{step:05d}.pt"
            if rank == 0:
                buffer = io.BytesIO()
                torch.save({"weight": weight, "speed": speed}, buffer)
                flushed(folder / name, buffer.getvalue())
            world.meet()
            agree(world, folder, name, device)
            if diary:
                diary.write(f"saved step={step}")
        # Nobody is harmed before everybody has done the step.
        world.meet()
        for kind, at in given.harm:
            if (
                at == step
                and first_time(world, folder, step, kind, device)
                and (rank == VICTIM or kind == "wait")
            ):
                harm(kind)
        time.sleep(max(0.0, given.pace - (time.monotonic() - begin)))
    world.meet()
    if diary:
        lines = diary.lines()
        for number, line in enumerate(lines, 1):
            say(f"diary {number} {line}")
        say(f"diary lines={len(lines)}")


def main(words: list[str]) -> None:
    """Join the world, train, leave nothing behind."""
    given = read_arguments(words)
    where = os.environ.get("CHECKPOINT_DIR")
    if not where:
        say("nostorage CHECKPOINT_DIR is not set: the runtime mounts no claim for checkpoints")
        sys.exit(NO_STORAGE)
    folder = Path(where)
    folder.mkdir(parents=True, exist_ok=True)

    import torch
    from torch import distributed

    torch.set_num_threads(1)
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group(
        "nccl" if gpu else "gloo", timeout=timedelta(seconds=given.watchdog)
    )
    rank = distributed.get_rank()
    train(given, folder)
    World(given.watchdog).meet()
    distributed.destroy_process_group()
    if rank == 0:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
