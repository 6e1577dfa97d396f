"""Distributed training that proves itself: PyTorch DDP on the digits data set.

Started by torchrun on every node. It refuses to run in another world than it was asked for, says
what the network carried, writes checkpoints that every node can read, and goes on from the newest.
Each process takes the GPU of its number on the node, and NCCL; without GPUs, the CPU and gloo.

Environment (all but the last block is set by the cluster or by `railhead launch`):
    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT   torchrun
    PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR   Kubeflow Trainer
    GLOO_SOCKET_IFNAME     the rail's interface, from the cluster's runtime
    RAILHEAD_WORLD_SIZE    processes asked for, from `railhead launch`
    CHECKPOINT_DIR         a directory on the shared claim
    EPOCHS, BATCH_SIZE, LEARNING_RATE, SEED   yours; 10, 16, 0.001, 0 when absent
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import os
import secrets
import sys
import time
from datetime import timedelta
from pathlib import Path

WRONG_WORLD = 64
NO_INTERFACE = 65
BAD_CHECKPOINT = 66
DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
KEPT_CHECKPOINTS = 3


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def refuse(code: int, text: str) -> None:
    """End this process at once with a reason; torchrun then ends the others."""
    say(f"error: {text}")
    sys.exit(code)


def number(name: str) -> int:
    """Return a whole number from the environment; without it there is no world to join."""
    text = os.environ.get(name, "")
    if not text.isdigit():
        refuse(WRONG_WORLD, f"{name} is {text!r}: the cluster or torchrun did not set it")
    return int(text)


def check_world() -> None:
    """Compare the world that torchrun built with the one that was asked for."""
    world = number("WORLD_SIZE")
    nodes, processes = number("PET_NNODES"), number("PET_NPROC_PER_NODE")
    if world != nodes * processes:
        refuse(
            WRONG_WORLD,
            f"world size is {world}, Trainer set {nodes} nodes x {processes} processes",
        )
    asked = os.environ.get("RAILHEAD_WORLD_SIZE")
    if asked is not None and asked != str(world):
        refuse(WRONG_WORLD, f"world size is {world}, the job asked for {asked}")


def interface_bytes() -> dict[str, tuple[int, int]]:
    """Bytes received and sent since the pod started, by network interface."""
    counters = {}
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        counters[name.strip()] = (int(fields[0]), int(fields[8]))
    return counters


def check_interface() -> str:
    """Return the rail interface of gloo; it must exist, or gloo would pick another."""
    name = os.environ.get("GLOO_SOCKET_IFNAME", "")
    present = sorted(interface_bytes())
    if not name:
        refuse(NO_INTERFACE, "GLOO_SOCKET_IFNAME is not set: the runtime must name the rail")
    for interface in name.split(","):
        if interface not in present:
            listed = ", ".join(present)
            refuse(NO_INTERFACE, f"GLOO_SOCKET_IFNAME is {interface!r}; interfaces: {listed}")
    return name


def say_bytes(when: str, node: int) -> None:
    """Print this pod's counters, one line an interface."""
    for name, (received, sent) in sorted(interface_bytes().items()):
        if name != "lo":
            say(f"bytes when={when} node={node} interface={name} received={received} sent={sent}")


# The refusals above come before PyTorch is loaded, so that a wrong world fails in a second.
if __name__ == "__main__":
    check_world()
    RAIL = check_interface()

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def read_digits(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (n, 64) from 0 to 1 and labels (n,) of the UCI digits; a header line is skipped."""
    with gzip.open(path, "rt", newline="") as file:
        rows = [row for row in csv.reader(file) if row and row[0].strip()[:1].isdigit()]
    table = torch.tensor([[float(cell) for cell in row] for row in rows])
    return table[:, :64] / 16.0, table[:, 64].long()


def split(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Four fifths to learn from, one fifth held out; the same on every process."""
    images, labels = read_digits(DATA)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    cut = len(images) * 4 // 5
    learn, held = order[:cut], order[cut:]
    return TensorDataset(images[learn], labels[learn]), TensorDataset(images[held], labels[held])


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def newest(directory: Path) -> Path | None:
    """Return the checkpoint of the latest epoch; unfinished ones have another name."""
    checkpoints = sorted(directory.glob("epoch-[0-9][0-9][0-9][0-9].pt"))
    return checkpoints[-1] if checkpoints else None


def drop_unfinished(directory: Path) -> None:
    """Remove what earlier attempts left half-written.

    One of them may still write, on a node that was cut off and given up: its file has no name then.
    """
    for unfinished in directory.glob(".epoch-*"):
        unfinished.unlink(missing_ok=True)


def write_checkpoint(directory: Path, state: dict[str, object], epoch: int) -> Path:
    """Write under a name that no other attempt has, flush, rename: whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"epoch-{epoch:04d}.pt"
    temporary = directory / f".{path.name}.{secrets.token_hex(8)}"
    with temporary.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    for old in sorted(directory.glob("epoch-*.pt"))[:-KEPT_CHECKPOINTS]:
        with contextlib.suppress(FileNotFoundError):
            old.unlink()
    return path


def agree(path: Path | None) -> Path | None:
    """Rank 0 names a file and its digest; every node reads the file and must find the same bytes.

    This is what makes the claim shared in fact and not in name.
    """
    named = [(str(path), digest(path)) if path is not None else None]
    distributed.broadcast_object_list(named, src=0)
    if named[0] is None:
        return None
    name, expected = named[0]
    problem = ""
    if int(os.environ["LOCAL_RANK"]) == 0:
        try:
            actual = digest(Path(name))
        except OSError as error:
            problem = f"{name}: {error.strerror}"
        else:
            if actual != expected:
                problem = f"{name}: this node reads {actual[:12]}, rank 0 wrote {expected[:12]}"
        if not problem:
            node = os.environ["PET_NODE_RANK"]
            say(f"checkpoint node={node} file={name} sha256={expected[:12]} reads=same")
    bad = torch.tensor([1 if problem else 0], device=DEVICE)
    distributed.all_reduce(bad)
    if problem:
        say(f"error: {problem}")
    if int(bad):
        refuse(BAD_CHECKPOINT, "the checkpoint directory is not shared between the nodes")
    return Path(name)


def accuracy(model: nn.Module, held: TensorDataset) -> float:
    """Share of the held-out images that are recognised, counted by all processes together."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    images, labels = held.tensors
    mine = slice(rank, None, world)
    with torch.no_grad():
        right = (model(images[mine].to(DEVICE)).argmax(1) == labels[mine].to(DEVICE)).sum()
    counts = torch.tensor([float(right), float(len(labels[mine]))], device=DEVICE)
    distributed.all_reduce(counts)
    return float(counts[0] / counts[1])


def one_epoch(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, loader: DataLoader[object]
) -> float:
    """Train once over the data; returns the mean loss over all processes."""
    total = torch.zeros(2, device=DEVICE)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(DEVICE)), labels.to(DEVICE))
        loss.backward()
        optimizer.step()
        total += torch.tensor([loss.item() * len(labels), len(labels)], device=DEVICE)
    distributed.all_reduce(total)
    # Under NCCL a lost rank may leave a sum without the others, and the next collective raises.
    distributed.barrier()
    return float(total[0] / total[1])


def train(rail: str) -> None:
    """Join the world, train, check, leave."""
    rank, local, node = number("RANK"), number("LOCAL_RANK"), number("PET_NODE_RANK")
    epochs = int(os.environ.get("EPOCHS", "10"))
    seed = int(os.environ.get("SEED", "0"))
    where = os.environ.get("CHECKPOINT_DIR")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    say(
        f"rank={rank} world_size={distributed.get_world_size()} node={node} local_rank={local} "
        f"master_addr={os.environ['MASTER_ADDR']} master_port={os.environ['MASTER_PORT']} "
        f"rail={rail} device={DEVICE.type} backend={distributed.get_backend()}"
    )
    learn, held = split(seed)
    model = DistributedDataParallel(
        nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        ).to(DEVICE)
    )
    optimizer = torch.optim.Adam(
        model.parameters(), lr=float(os.environ.get("LEARNING_RATE", "0.001"))
    )
    sampler: DistributedSampler[object] = DistributedSampler(learn, shuffle=True, seed=seed)
    loader: DataLoader[object] = DataLoader(
        learn, batch_size=int(os.environ.get("BATCH_SIZE", "16")), sampler=sampler
    )
    done = 0
    if where is None:
        say("checkpoint none: CHECKPOINT_DIR is not set")
    else:
        if rank == 0:
            drop_unfinished(Path(where))
        checkpoint = agree(newest(Path(where)) if rank == 0 else None)
        if checkpoint is not None:
            state = torch.load(checkpoint, map_location=DEVICE)
            model.module.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            done = int(state["epoch"])
            say(f"resumed rank={rank} epoch={done} loss={state['loss']:.4f} file={checkpoint}")
    if local == 0:
        say_bytes("before", node)
    if done >= epochs and rank == 0:
        say(f"all {epochs} epochs are in the checkpoint; measuring only")
    for epoch in range(done + 1, epochs + 1):
        begin = time.monotonic()
        sampler.set_epoch(epoch)
        loss = one_epoch(model, optimizer, loader)
        if rank == 0:
            say(f"epoch={epoch} loss={loss:.4f} seconds={time.monotonic() - begin:.2f}")
        if where is not None:
            path = None
            if rank == 0:
                state = {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                    "loss": loss,
                }
                path = write_checkpoint(Path(where), state, epoch)
            agree(path)
    share = accuracy(model.module, held)
    if local == 0:
        say_bytes("after", node)
    if rank == 0:
        say(f"accuracy={share:.4f} held_out={len(held)}")


def main(rail: str) -> None:
    """Train inside a process group that is always left in order."""
    if DEVICE.type == "cuda":
        torch.cuda.set_device(number("LOCAL_RANK"))
    backend = "nccl" if DEVICE.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=timedelta(seconds=120))
    try:
        train(rail)
        distributed.barrier()
    finally:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(RAIL)
