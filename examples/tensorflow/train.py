"""Data-parallel training that comes back: TensorFlow's MultiWorkerMirroredStrategy.

One process a machine. Every worker saves, because variables may be read over the network for it,
but only the chief's checkpoint goes to the claim; a run that is started again goes on from the
newest whole one, in the same steps.

Environment: TF_CONFIG, RAILHEAD_NODES and CHECKPOINT_DIR by `railhead launch`; EPOCHS, SEED yours;
10 and 0 when absent.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

DATA = Path(os.environ.get("DIGITS_CSV", "/usr/share/railhead/digits.csv.gz"))
BATCH = 128
WRONG_WORLD = 64


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Learn the digits from the newest checkpoint on."""
    # Before anything else of TensorFlow: it starts the worker's server.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    world, worker = strategy.num_replicas_in_sync, strategy.cluster_resolver.task_id
    if os.environ.get("RAILHEAD_NODES", str(world)) != str(world):
        say(f"error: {world} replicas, the job asked for {os.environ['RAILHEAD_NODES']} nodes")
        sys.exit(WRONG_WORLD)
    tf.keras.utils.set_random_seed(int(os.environ.get("SEED", "0")))
    with gzip.open(DATA, "rt", newline="") as file:
        table = np.array([[float(cell) for cell in row] for row in csv.reader(file)], np.float32)
    images, labels = table[:, :64] / 16.0, table[:, 64].astype(np.int32)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input((64,)),
                tf.keras.layers.Dense(256, activation="relu"),
                tf.keras.layers.Dense(10),
            ]
        )
        optimizer = tf.keras.optimizers.Adam(0.001)
        optimizer.build(model.trainable_variables)
    epochs_done = tf.Variable(0, trainable=False)
    say(f"worker={worker} world_size={world}")

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Run one step on all replicas; return the mean loss over the whole batch."""

        def replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
                # The optimizer sums over the replicas.
                loss = tf.reduce_sum(each) / BATCH
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(replica, (images, labels)), axis=None)

    where = Path(os.environ["CHECKPOINT_DIR"])
    mine = where if worker == 0 else Path(tempfile.mkdtemp())
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epochs=epochs_done)
    manager = tf.train.CheckpointManager(checkpoint, str(mine), max_to_keep=3)
    newest = tf.train.latest_checkpoint(str(where))
    if newest:
        checkpoint.restore(newest).assert_consumed()
        say(f"resumed worker={worker} epoch={int(epochs_done)}")

    for epoch in range(int(epochs_done) + 1, int(os.environ.get("EPOCHS", "10")) + 1):
        # Every attempt shuffles an epoch in the same order.
        order = np.random.default_rng(epoch).permutation(len(images))
        losses = []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            part = order[start : start + BATCH][worker::world]
            losses.append(float(step(tf.constant(images[part]), tf.constant(labels[part]))))
        epochs_done.assign(epoch)
        manager.save(checkpoint_number=epoch)
        if worker == 0:
            say(f"epoch={epoch} loss={sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    main()
