"""Progress of a run, read from what it prints in any framework's words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from railhead.launch import progress

STAMP = "2026-01-02T03:04:05.000000001Z"

# What the trainers named print, read in their sources or their documents.
PRINTED = {
    "pytorch/examples mnist": (
        "Train Epoch: 3 [640/60000 (1%)]\tLoss: 2.300",
        ("epoch", "3", "2.300", ""),
    ),
    "transformers Trainer": (
        "{'loss': 2.3457, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.12}",
        ("epoch", "0.12", "2.3457", ""),
    ),
    "transformers, at the end": (
        "{'train_runtime': 12.3, 'train_samples_per_second': 811.1, 'train_loss': 0.5}",
        ("", "", "0.5", "811.1 samples/s"),
    ),
    "Megatron-LM": (
        " iteration       10/     100 | consumed samples: 80 | elapsed time per iteration (ms): "
        "120.1 | lm loss: 1.082E+01 | loss scale: 1.0",
        ("step", "10/100", "1.082E+01", ""),
    ),
    "DeepSpeed": (
        "steps: 20 loss: 0.1234 iter time (s): 1.2 samples/sec: 30.1",
        ("step", "20", "0.1234", "30.1 samples/s"),
    ),
    "tqdm": (
        " 45%|####5     | 45/100 [00:12<00:15,  3.61it/s, loss=0.532]",
        ("step", "45/100", "0.532", "3.61 it/s"),
    ),
    "Keras": ("Epoch 2/5 - loss: 0.3 - 12ms/step", ("epoch", "2/5", "0.3", "")),
    "torchrun's prefix": ("[default0]:epoch 7 loss 0.125", ("epoch", "7", "0.125", "")),
    "diverged": ("step 5 loss nan 1,234.5 tokens/s", ("step", "5", "nan", "1,234.5 tokens/s")),
    "another who counts from all": (
        "global_step = 12 of 90, training_loss: -.5e-3, 7 seqs per second",
        ("step", "12/90", "-.5e-3", "7 seqs/s"),
    ),
    "a dictionary": (
        '{"step": 7, "loss": [inf], "tokens_per_sec": 1e4}',
        ("step", "7", "inf", "1e4 tokens/s"),
    ),
    "upper case": ("ITER 3 TRAIN LOSS=2 8 IMG / S", ("step", "3", "2", "8 img/s")),
    "a rate of steps": ("epochs: 1.5 of 3 steps/s = +2.5", ("epoch", "1.5/3", "", "+2.5 steps/s")),
    "a rate of two names": ("iterations_per_second=4 9 samples/s", ("", "", "", "4 iterations/s")),
    "a bar without a guess": ("1/9 [00:01<?, ?it/s]", ("step", "1/9", "", "")),
    "a step before a bar": ("step 4: 1/9 [00:01<00:02]", ("step", "4", "", "")),
    "a bar before an epoch": ("epoch 4: 1/9 [00:01<00:02]", ("step", "1/9", "", "")),
    "parts of words": ("footsteps 3 blossom 4 lossy 5 reiter 6", ("", "", "", "")),
    "nothing": ("no progress: 3 warnings, loss scale: 65536", ("", "", "", "")),
}


@pytest.mark.parametrize("who", PRINTED)
def test_progress_lines_of_frameworks_are_read(who: str) -> None:
    line, expected = PRINTED[who]
    result = progress.read([f"{STAMP} {line}"])
    assert (result.unit, result.step, result.loss, result.rate) == expected


def test_the_newest_counts_and_steps_outrank_epochs() -> None:
    result = progress.read([f"{STAMP} step 3 loss 2", f"{STAMP} epoch 1", f"{STAMP} step 4 loss 1"])
    assert (result.unit, result.step, result.loss) == ("step", "4", "1")
    assert result.last == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_seconds_of_silence_begin_with_the_first_line() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    nothing = progress.Progress()
    assert (nothing.silent(now), nothing.still(now)) == (0, 0)
    for ago in (-1, 0, 1):
        then = now - timedelta(seconds=ago)
        seen = progress.Progress(last=then, moved=then)
        # A clock that is ahead says nothing.
        assert (seen.silent(now), seen.still(now)) == (max(ago, 0), max(ago, 0))


def second(count: int) -> datetime:
    return datetime(2026, 1, 2, 3, 4, count, tzinfo=UTC)


@pytest.mark.parametrize(
    ("lines", "last", "moved"),
    [
        ((), None, None),
        ((("no time", "step 1"),), None, None),
        (((5, "ready"),), 5, None),
        (((5, "step 1"), (6, "step 1")), 6, 5),
        (((5, "step 1"), (6, "step 2")), 6, 6),
        (((5, "epoch 1"), (6, "step 1")), 6, 6),
        (((5, "step 1"), (6, "epoch 2")), 6, 5),
        (((5, "epoch 1"), (6, "epoch 2")), 6, 6),
        # Of another node, read later.
        (((6, "step 2"), (5, "step 1")), 6, 5),
        (((5, "step 1"), ("no time", "step 2")), 5, 5),
    ],
)
def test_when_a_line_came_and_when_the_step_moved(
    lines: tuple[tuple[int | str, str], ...], last: int | None, moved: int | None
) -> None:
    stamped = [
        f"2026-01-02T03:04:0{at}.1Z {line}" if at != "no time" else f"x {line}"
        for at, line in lines
    ]
    result = progress.read(stamped)
    times = [None if at is None else second(at).replace(microsecond=100000) for at in (last, moved)]
    assert [result.last, result.moved] == times


@pytest.mark.parametrize(
    "stamp", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T04:04:05.000000999+01:00"]
)
def test_a_time_is_read_in_any_form_that_there_is(stamp: str) -> None:
    assert progress.read([f"{stamp} x"]).last == second(5)
