"""Save intervals of programs and jobs, before and after a pull request."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from railhead.review.intervals import intervals
from railhead.review.model import Place
from tests.unit.review.pulled import gone, laid, write

JOB = "name: llm\nnodes: 2\ncommand: [train.py, --save-interval, '500']\nenv: {SAVE_EVERY: 10}\n"
CALL = "import lightning\nModelCheckpoint(every_n_train_steps=500, save_top_k=3)\n"
TIMED = "from datetime import timedelta\nCheckpoint(train_time_interval=timedelta(minutes=10))\n"
OPTION = "parser.add_argument('--save-steps', type=int, default=500)\n"
FROM = "import os\nsave_every = int(os.environ.get('SAVE_EVERY', '500'))\n"
RUN = "python train.py --lr 1e-4 \\\n    --save-interval 500\n"


@pytest.mark.parametrize(
    ("name", "text", "old", "new", "told"),
    [
        ("jobs/llm.yaml", JOB, "'500'", "'5000'", "save-interval: saves less often (500 -> 5000)"),
        ("jobs/llm.yaml", JOB, "EVERY: 10", "EVERY: 100", "env.SAVE_EVERY: saves less often"),
        ("jobs/llm.yaml", JOB, "'500'", "'0'", "save-interval: saves less often (500 -> 0)"),
        ("jobs/llm.yaml", JOB, "'500'", "'100'", ""),
        ("jobs/llm.yaml", JOB, "nodes: 2", "nodes: 4", ""),
        ("conf/a.yaml", "checkpoint: {interval: 10m}\n", "10m", "1h", "(600s -> 3600s)"),
        ("conf/a.yaml", "checkpoint: {interval: 60m}\n", "60m", "1h", ""),
        ("conf/a.yaml", "checkpoint: {interval: 500ba}\n", "500ba", "1ep", ""),
        ("conf/a.yaml", "checkpoint: {keep_every_n_steps: 5}\n", "5", "50", ""),
        ("conf/a.yaml", "checkpoint: {timeout_seconds: 5}\n", "5", "50", ""),
        ("conf/a.yaml", "checkpoints: {delete_after_hours: 5}\n", "5", "50", ""),
        ("run.sh", RUN, "500", "5000", "save-interval: saves less often"),
        ("run.sh", RUN, "1e-4", "2e-4", ""),
        ("train.py", CALL, "500", "5_000", "ModelCheckpoint.every_n_train_steps: saves less often"),
        ("train.py", CALL, "save_top_k=3", "save_top_k=5", ""),
        ("train.py", TIMED, "minutes=10", "hours=2", "(600s -> 7200s)"),
        ("train.py", OPTION, "500", "1000", "save-steps: saves less often"),
        ("train.py", FROM, "'500'", "'1000'", "(500 -> 1000)"),
        ("train.py", "def train(save_every=5):\n    pass\n", "5", "50", "(5 -> 50)"),
        ("train.py", "save_every = 60 * 10\n", "10", "20", "(600 -> 1200)"),
        ("train.py", "save_every = 600\n", "600", "60 * 10", ""),
        ("train.py", "a = []\nsave_every = 600\n", "600", "300", ""),
        ("train.py", "last_save_steps = 5\n", "5", "50", ""),
        ("tests/train.py", "save_every = 600\n", "600", "900", ""),
        ("train.py", "Trainer(save_strategy='steps')\n", "steps", "no", "save_strategy: is swit"),
        ("train.py", "Trainer(a=1)\n", "a=1", "enable_checkpointing=False", "is switched off"),
        ("train.py", "Trainer(save_strategy='steps')\n", "steps", "epoch", ""),
        ("conf/a.yaml", "ddp_timeout: 1800\n", "1800", "180000", "notices a rank that hangs later"),
        ("conf/a.yaml", "request_timeout: 1800\n", "1800", "180000", ""),
        ("conf/a.toml", "[checkpoint]\ninterval = 500\n", "500", "900", "(500 -> 900)"),
        ("conf/a.yaml", "a: 1\n---\nsave_steps: 500\n", "500", "900", "(500 -> 900)"),
        ("conf/a.yaml", "x: &n 500\nsave_steps: *n\n", "500", "900", "(500 -> 900)"),
        ("Makefile", "t:\n\tpython t.py --save-steps 500\n", "500", "900", "(500 -> 900)"),
        ("a.sh", 'python t.py --save-steps "${N:-500}"\n', "500", "900", "(500 -> 900)"),
        ("a.sh", "# it's --save-steps 500\n", "500", "900", ""),
        ("a.py", "\ufeffsave_steps = 500\n", "500", "900", "(500 -> 900)"),
        ("a.py", "N = 500\nTrainer(save_steps=N)\n", "500", "900", "(500 -> 900)"),
        ("a.py", "a['save_steps'] = 500\n", "500", "900", "(500 -> 900)"),
        ("a.py", "save_steps: int = field(default=500)\n", "500", "900", "(500 -> 900)"),
        ("a.py", "def f(save_steps: int = Option(500)): ...\n", "500", "900", "(500 -> 900)"),
        ("a.py", "n = int(environ.get('SAVE_STEPS') or 500)\n", "500", "900", "(500 -> 900)"),
        ("a.py", "run(f'python t.py --save-steps {500}')\n", "500", "900", "(500 -> 900)"),
        ("a.py", "N = 500\nrun(['t.py', '--save-steps', str(N)])\n", "500", "900", "(500 -> 900)"),
        ("a.py", "print('try --save-steps 500')\n", "500", "900", ""),
        ("a.py", "save_steps = 10**3\n", "10**3", "10**4", "(1000 -> 10000)"),
        ("a.py", "save_steps = 500\n", "500", "-1", "(500 -> 0)"),
        ("a.py", "save_steps = 9 ** 9 ** 9 / 0\n", "/ 0", "", ""),
        ("a.py", "S = 'steps'\nT(save_strategy=S)\n", "'steps'", "'no'", "is switched off"),
        ("a.py", "T(save_strategy=I.STEPS)\n", "STEPS", "NO", "is switched off"),
        ("a.py", "T(save_total_limit=5)\n", "5", "1", "keeps fewer checkpoints (5 -> 1)"),
        ("a.py", "T(save_top_k=-1)\n", "-1", "1", "keeps fewer checkpoints (all -> 1)"),
        ("a.py", "T(save_top_k=1)\n", "1", "-1", ""),
        ("a.py", "T(lr=1)\n", "lr=1", "save_only_model=True", "without optimizer and step"),
        ("a.py", "m.load_state_dict(s)\n", "s)", "s, strict=False)", "loads what fits"),
        ("a.py", "zip(a, b, strict=True)\n", "True", "False", ""),
        ("a.py", "D = '/ckpt'\ntorch.save(m, f'{D}/{n}')\n", "/ckpt", "/tmp/c", "in the pod"),
        ("a.py", "T(output_dir='/ckpt')\n", "/ckpt", "/tmp/c", "in the pod"),
        ("a.py", "torch.save(m, '/ckpt')\ncopy(a)\n", "/ckpt", "/tmp/c", ""),
        ("jobs/llm.yaml", f"{JOB}x: {{CKPT_DIR: /c}}\n", ": /c", ": /tmp/c", "in the pod"),
    ],
)
def test_save_interval_that_grows_is_asked_about(
    repository: Path, name: str, text: str, old: str, new: str, told: str
) -> None:
    source = write(laid(repository), name, text, text.replace(old, new))
    rows = [f"{row.subject}: {row.what}" for row in intervals(source)]
    assert bool(rows) is bool(told), rows
    assert all(told in row for row in rows), rows


def test_change_that_has_the_setting_is_the_place(repository: Path) -> None:
    for name, text in (
        ("a.py", "a = 1\nb = 2\nT(save_steps=500)\n"),
        ("a.yaml", "a: 1\nb: {}\nc: {save_steps: 500}\n"),
    ):
        now = text.replace("1", "9").replace("500", "900")
        (row,) = intervals(write(laid(repository), name, text, now))
        assert row.place == Place(file=name, line=3)
        shutil.rmtree(repository.parent / "laid")


def test_renamed_file_is_compared_with_what_it_was(repository: Path) -> None:
    text = "train:\n  lr: 1\n  save_steps: 500\n"
    source = gone(repository, "conf/a.yaml", text)
    source = write(source, "conf/b.yaml", None, text.replace("500", "900"))
    (row,) = intervals(source)
    assert row.place == Place(file="conf/b.yaml", line=3)
    assert list(intervals(write(source, "conf/b.yaml", None, "save_steps: 900\n"))) == []


LOOP = """import torch

EVERY = 500
SHOWN = 10

def keep(model, step):
    torch.save(model.state_dict(), f"step-{step}")

for step in range(10000):
    if step % SHOWN == 0:
        print(step)
    if step % EVERY == 0 and step:
        keep(model, step)
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("EVERY = 500", "EVERY = 50_000", "keep() by EVERY: saves less often (500 -> 50000)"),
        ("SHOWN = 10", "SHOWN = 100", ""),
        ("EVERY = 500", "EVERY = 100", ""),
        ("import torch", "import json as torch", ""),
    ],
)
def test_loop_that_saves_less_often_is_told(
    repository: Path, old: str, new: str, told: str
) -> None:
    source = write(laid(repository), "train.py", LOOP, LOOP.replace(old, new))
    rows = list(intervals(source))
    assert [told in f"{row.subject}: {row.what}" for row in rows] == [True] * bool(told)
    assert all(row.place == Place(file="train.py", line=3) for row in rows)


def test_clock_that_a_save_waits_for_is_reported(repository: Path) -> None:
    text = "import torch\nwhile True:\n    if time.time() - last > 600:\n        torch.save(1)\n"
    source = write(laid(repository), "train.py", text, text.replace("600", "6000"))
    (row,) = intervals(source)
    assert "saves less often (600 -> 6000)" in row.what


def test_loop_that_goes_on_before_a_save_is_told(repository: Path) -> None:
    old = "if step % EVERY == 0 and step:\n        "
    text = LOOP.replace(old, "if step % 500:\n        continue\n    ")
    source = write(laid(repository), "train.py", text, text.replace("% 500", "% 900"))
    (row,) = intervals(source)
    assert "(500 -> 900)" in row.what


EACH = """import torch

def train(rank, model):
    for epoch in range(10):
        step(model)
        torch.save(model.state_dict(), f"{epoch}.pt")
        print(epoch)
"""
_SAVE = '        torch.save(model.state_dict(), f"{epoch}.pt")\n'


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (_SAVE, f"        if epoch % 10 == 0:\n    {_SAVE}", "only where `epoch % 10 == 0`"),
        (_SAVE, f"        if epoch % 10:\n            continue\n{_SAVE}", "not (epoch % 10)"),
        (
            _SAVE,
            f"        if epoch == 9:\n            print()\n    {_SAVE}",
            "only where `epoch == 9`",
        ),
        (f"{_SAVE}        print(epoch)\n", f"        print(epoch)\n{_SAVE[4:]}", "saves once"),
        (_SAVE, f"{_SAVE[:-1]} if epoch == 9 else None\n", "only where `epoch == 9`"),
        (_SAVE, f"        epoch == 9 and {_SAVE.lstrip()}", "only where `epoch == 9`"),
        (_SAVE, f"        match epoch:\n            case 9: {_SAVE.lstrip()}", "`match 9`"),
        (_SAVE, f"        if rank == 0:\n    {_SAVE}", ""),
        (_SAVE, f"        if os.environ['LOCAL_RANK'] == '0':\n    {_SAVE}", ""),
        (_SAVE, f"        if torch.isnan(loss):\n            continue\n{_SAVE}", ""),
        (_SAVE, f"        if stop:\n            break\n{_SAVE}", ""),
        ("    for epoch", "    if dry:\n        return\n    for epoch", ""),
        (_SAVE, f"{_SAVE}        if epoch == 9:\n    {_SAVE}", ""),
        (_SAVE, f"        with still(model):\n    {_SAVE}", ""),
        ("        print(epoch)\n", "        if epoch == 9:\n            return\n", ""),
    ],
)
def test_save_that_a_condition_holds_back_is_told(
    repository: Path, old: str, new: str, told: str
) -> None:
    source = write(laid(repository), "train.py", EACH, EACH.replace(old, new))
    rows = [row.what for row in intervals(source)]
    assert [told in row for row in rows] == [True] * bool(told), rows


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("epoch % 5 == 0 and loss < best", "only where `loss < best`"),
        ("rank == 0 and epoch % 5 == 0", ""),
        ("epoch and epoch % 5 == 0", ""),
        ("epoch % 5 == 0 and epoch > 0", ""),
        ("epoch % 5 == 0 or epoch == last", ""),
        ("due(epoch)", ""),
    ],
)
def test_condition_that_another_one_joins_is_told(repository: Path, now: str, told: str) -> None:
    was = EACH.replace(_SAVE, f"        if epoch % 5 == 0:\n    {_SAVE}")
    source = write(laid(repository), "train.py", was, was.replace("epoch % 5 == 0", now))
    rows = [row.what for row in intervals(source)]
    assert [told in row for row in rows] == [True] * bool(told), rows


def test_save_that_leaves_the_inner_loop_is_told(repository: Path) -> None:
    was = "import torch\n\nfor epoch in epochs:\n    for batch in data:\n        step(batch)\n"
    source = write(
        laid(repository), "train.py", f"{was}        torch.save(1)\n", f"{was}    torch.save(1)\n"
    )
    (row,) = intervals(source)
    assert row.what.startswith("saves once for each round of an outer loop")
    parts = "import torch\n\nfor epoch in epochs:\n    {}torch.save(1)\n"
    was, now = parts.format("for part in model:\n        "), parts.format("")
    assert list(intervals(write(source, "train.py", was, now))) == []


def test_save_in_a_function_of_its_own_is_as_often(repository: Path) -> None:
    head, tail = EACH.split("def train")
    apart = (
        f'{head}def keep(model, epoch):\n    torch.save(model.state_dict(), f"{{epoch}}.pt")\n\n'
    )
    apart += f"def train{tail}".replace(_SAVE, "        keep(model, epoch)\n")
    source = write(laid(repository), "train.py", EACH, apart)
    assert list(intervals(source)) == []
    back = write(source, "train.py", apart, EACH)
    assert list(intervals(back)) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", ", timeout=timedelta(hours=2)", "(600s by default -> 7200s)"),
        ("", ", timeout=timedelta(minutes=10)", ""),
        (", timeout=timedelta(minutes=5)", ", timeout=timedelta(0, WAIT)", "(300s -> 900s)"),
        (", timeout=timedelta(hours=1)", "", ""),
        ("", ", **{'timeout': timedelta(hours=2)}", "(600s by default -> 7200s)"),
    ],
)
def test_patience_beyond_the_default_is_told(
    repository: Path, old: str, new: str, told: str
) -> None:
    text = "import torch\nWAIT = 900\ntorch.distributed.init_process_group('nccl'{})\n"
    source = write(laid(repository), "train.py", text.format(old), text.format(new))
    rows = [row.what for row in intervals(source)]
    assert [told in row for row in rows] == [True] * bool(told), rows


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("timedelta(hours=12)", "notices a rank that hangs later (120s -> 43200s)"),
        ("timedelta(minutes=1)", ""),
        ("timedelta(minutes=2)", ""),
    ],
)
def test_patience_with_a_rank_that_hangs_is_told(repository: Path, new: str, told: str) -> None:
    text = "import torch\ntorch.distributed.init_process_group('nccl', timeout={})\n"
    was, now = text.format("timedelta(seconds=120)"), text.format(new)
    rows = [row.what for row in intervals(write(laid(repository), "train.py", was, now))]
    assert [told in row for row in rows] == [True] * bool(told), rows
