"""Data-parallel training that comes back: JAX over all processes, its checkpoints by Orbax.

One process a machine. Every process holds a part of each batch, the weights are the same in all;
a run that is started again goes on from the newest whole checkpoint, in the same steps.

Environment: JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID from the cluster or
`railhead launch`; RAILHEAD_NODES and CHECKPOINT_DIR by `railhead launch`; EPOCHS yours, 10 when
absent.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from pathlib import Path

WRONG_WORLD = 64
DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
BATCH = 128


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


ASKED = int(os.environ.get("JAX_NUM_PROCESSES", "0"))
if ASKED < 1 or os.environ.get("RAILHEAD_NODES", str(ASKED)) != str(ASKED):
    say(f"error: JAX_NUM_PROCESSES is {ASKED}: nobody wired this job, or for another world")
    sys.exit(WRONG_WORLD)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import orbax.checkpoint as ocp  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402


def init(key: jax.Array) -> dict[str, jax.Array]:
    """Weights of two layers, the same on every process."""
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (64, 128)) * 0.1,
        "b1": jnp.zeros(128),
        "w2": jax.random.normal(second, (128, 10)) * 0.1,
        "b2": jnp.zeros(10),
    }


def loss_of(weights: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross-entropy over the whole batch, on all devices."""
    hidden = jax.nn.relu(images @ weights["w1"] + weights["b1"])
    logits = hidden @ weights["w2"] + weights["b2"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chosen.mean()


@jax.jit
def step(
    weights: dict[str, jax.Array], images: jax.Array, labels: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Take one step of gradient descent; JAX sums the gradients over the processes."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradients), loss


def main() -> None:
    """Learn the digits from the newest checkpoint on."""
    process = int(os.environ["JAX_PROCESS_ID"])
    jax.distributed.initialize(num_processes=ASKED, process_id=process)
    if jax.process_count() != ASKED:
        say(f"error: {jax.process_count()} processes, the job asked for {ASKED}")
        sys.exit(WRONG_WORLD)
    with gzip.open(DATA, "rt", newline="") as file:
        table = np.array([[float(cell) for cell in row] for row in csv.reader(file)], np.float32)
    images, labels = table[:, :64] / 16.0, table[:, 64].astype(np.int32)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    parts, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    weights = jax.jit(init, out_shardings=whole)(jax.random.key(0))
    say(f"process={process} processes={jax.process_count()} devices={jax.device_count()}")

    with ocp.CheckpointManager(
        Path(os.environ["CHECKPOINT_DIR"]).absolute(),
        options=ocp.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=False),
    ) as manager:
        done = manager.latest_step() or 0
        if done:
            weights = manager.restore(done, args=ocp.args.StandardRestore(weights))
            say(f"resumed process={process} epoch={done}")
        for epoch in range(done + 1, int(os.environ.get("EPOCHS", "10")) + 1):
            # Every attempt shuffles an epoch in the same order.
            order = np.random.default_rng(epoch).permutation(len(images))
            losses = []
            for start in range(0, len(order) - BATCH + 1, BATCH):
                batch = order[start : start + BATCH]
                mine = np.split(batch, jax.process_count())[process]
                weights, loss = step(
                    weights,
                    jax.make_array_from_process_local_data(parts, images[mine]),
                    jax.make_array_from_process_local_data(parts, labels[mine]),
                )
                losses.append(float(loss))
            manager.save(epoch, args=ocp.args.StandardSave(weights))
            if process == 0:
                say(f"epoch={epoch} loss={sum(losses) / len(losses):.4f}")
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
