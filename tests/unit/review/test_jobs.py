"""Findings of `railhead review` in files of jobs, and in programs that train."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from railhead.review.intervals import intervals
from railhead.review.jobs import contents, deletions, jobs, marks, programs, training
from tests.unit.review.pulled import git_in, laid, write

JOB = {"name": "llm", "nodes": 2, "command": ["train.py"], "image": "a.example/t:1"}
SAVES = """import os
import torch

def save(path, state):
    with open(f"{path}.part", "wb") as file:
        torch.save(state, file)
        os.fsync(file.fileno())
    torch.distributed.barrier()
    os.replace(f"{path}.part", path)

def resume(path, model):
    model.load_state_dict(torch.load(path.replace("a", "b")))
"""


def _resumes(option: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return a job's command with an option, and without it."""
    return {"command": ["bash", "-c", f"train.py {option}"]}, {"command": ["train.py"]}


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ({}, {"image": "a.example/t:latest"}, "refuse jobs: a.example/t:latest has a tag that mo"),
        ({}, {"image": "a.example/t:2"}, "ask jobs: runs another image"),
        ({}, {"env": {"NCCL_NET": "Socket"}}, "ask network: sets NCCL_NET=Socket: NCCL takes"),
        ({"env": {"A": "1"}}, {"env": {"NCCL_IB_DISABLE": "1"}}, "ask network: sets NCCL_IB_DIS"),
        ({"checkpoint": {"path": "a"}}, {}, "ask data: a run that starts again looks for its chec"),
        ({}, {"checkpoint": {"path": "b"}}, "ask data: a run that starts again looks for its chec"),
        ({}, {"checkpoint": {"resume": "never"}}, "ask data: checkpoints: (nothing) -> never"),
        ({}, {"checkpoint": {"path": "llm"}}, ""),
        ({"name": "a"}, {"checkpoint": None}, "ask data: a run that starts again looks for its ch"),
        ({"restarts": 5}, {"restarts": 0}, "ask jobs: ends for good after 0 failures, not 5"),
        ({"restarts": 5}, {}, "ask jobs: ends for good when its runtime says, not after 5"),
        (*_resumes("--resume"), "ask data: no longer has --resume: it may save less, or begin"),
        (*_resumes("--load.ckpt-dir=/c"), "ask data: no longer has --load.ckpt-dir"),
        (*_resumes("--resume=/upgraded"), "ask data: no longer has --resume: it may save less"),
        (*_resumes("--load /c"), "ask data: no longer has --load: it may save less, or begin"),
        (*_resumes("--lr=1"), ""),
        (*_resumes("--no-save-optim"), ""),
        (*_resumes("--gradient_checkpointing --activation-checkpoint.mode=full"), ""),
        ({"command": "train.py --save_dir /c"}, {"command": "train.py --save-dir /c"}, ""),
        ({}, {"priority": "urgent"}, "ask quota: goes before or after others: (nothing) -> urg"),
        ({"verify": True}, {}, "ask network: does not prove its network"),
        ({"env": {"EPOCHS": 1}}, {"env": {"EPOCHS": 2}}, ""),
        ({"env": {"NCCL_NET": "IB"}}, {"env": {}}, "ask network: no longer sets NCCL_NET: "),
        ({"env": {"NCCL_NET": "IB"}}, {}, "ask network: no longer sets NCCL_NET: "),
        ({"restarts": 1}, {"restarts": 5}, ""),
        ({"restarts": 0}, {}, ""),
        ({}, {"nodes": 4}, ""),
        ({"kind": "Job", "priority": "a"}, {"kind": "Job", "priority": "b"}, ""),
    ],
)
def test_fields_of_jobs_are_told_by_their_meaning(
    repository: Path, before: dict[str, object], after: dict[str, object], sentence: str
) -> None:
    texts = [yaml.safe_dump(JOB | more) for more in (before, after)]
    source = write(laid(repository), "jobs/llm.yaml", *texts)
    rows = [f"{row.level} {row.loss}: {row.what}" for row in jobs(source)]
    assert len(rows) == bool(sentence)
    assert all(row.startswith(sentence) for row in rows)


@pytest.mark.parametrize(
    ("nodes", "told"), [(16, False), (32, True), ("all", False), (None, False)]
)
def test_job_larger_than_any_pool_is_reported(repository: Path, nodes: object, told: bool) -> None:
    stack = {"config": {"railhead:cluster": {"pools": [{"name": "a", "nodes": 16}, "b"]}}}
    (repository / "Pulumi.prod.yaml").write_text(yaml.safe_dump(stack))
    source, now = laid(repository), yaml.safe_dump(JOB | {"nodes": nodes})
    for was in (yaml.safe_dump(JOB), None):
        source = write(source, "jobs/llm.yaml", was, now)
        texts = [row.what for row in jobs(source) if row.loss == "quota"]
        assert bool(texts) == told
        assert all("no pool of a stack here has more than 16" in text for text in texts)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('    os.replace(f"{path}.part", path)\n', "", "renamed when it is whole"),
        ("        os.fsync(file.fileno())\n", "", "on no disk"),
        ("    torch.distributed.barrier()\n", "", "no longer wait for each other"),
        ("model.load_state_dict(torch.load(path", "print((path", "begins at step 0"),
        ("torch.save(state, file)", "file.write(state)", "less is saved"),
        ('"a", "b"', '"a", "c"', ""),
        ("def save", "def keep", ""),
        ('path.replace("a", "b")', "path", ""),
    ],
)
def test_program_that_keeps_less_of_a_run_is_told(
    repository: Path, old: str, new: str, sentence: str
) -> None:
    source = write(laid(repository), "train.py", SAVES, SAVES.replace(old, new))
    texts = [row.what for row in programs(source)]
    assert len(texts) == bool(sentence)
    assert all(sentence in text for text in texts)


LOOP = "from keeping import resume, save\n\nfor step in range(9):\n    save('a', step)\n"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("    save('a', step)\n", "    print(step)\n", "less is saved"),
        ("save", "keep", ""),
        ("range(9)", "range(10)", ""),
        ("    save('a', step)\n", "    import torch\n    torch.save(step, 'a')\n", ""),
        ("save('a', step)", "globals()['save']('a', step)", ""),
        ("save('a', step)", "getattr(keeping, 'save')('a', step)", ""),
        ("save('a', step)", "print('save', step)", "less is saved"),
    ],
)
def test_save_of_another_file_that_nothing_calls_is_told(
    repository: Path, old: str, new: str, sentence: str
) -> None:
    (repository / "run").mkdir()
    (repository / "run/keeping.py").write_text(SAVES)
    (repository / "run/train.py").write_text(LOOP)
    git_in(repository, "add", ".")
    git_in(repository, "commit", "-q", "-m", "run")
    (repository / "run/train.py").write_text(LOOP.replace(old, new))
    if new == "keep":
        (repository / "run/keeping.py").write_text(SAVES.replace("def save", "def keep"))
    rows = list(programs(laid(repository)))
    assert [sentence in row.what for row in rows] == [True] * bool(sentence)
    assert all(row.place and row.place.file == "run/train.py" for row in rows)


def test_examples_are_jobs_too(repository: Path) -> None:
    source = laid(repository)
    texts = [yaml.safe_dump(JOB | {"priority": value}) for value in "ab"]
    assert list(jobs(write(source, "examples/llm.yaml", *texts)))
    write(
        source, "examples/train.py", SAVES, SAVES.replace("        os.fsync(file.fileno())\n", "")
    )
    assert list(programs(source))


def test_code_that_trains_nothing_or_moves_a_call_is_no_alarm(repository: Path) -> None:
    other = SAVES.replace("import torch", "import json as torch")
    source = write(laid(repository), "tool.py", other, other.replace("os.replace(", "print("))
    assert not list(programs(source))


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("json.load(file)", "Settings()", False),
        ("table.rename(columns=names)", "table", False),
        ("replace(config, steps=1)", "config", False),
        ("os.rename(a, b)", "os.replace(a, b)", False),
        ("dcp.save(a)", "dcp.async_save(a)", False),
        ("dcp.save(a)", "accelerator.save_state(a)", False),
        ("dcp.save(a)", "pool.submit(dcp.save, a)", False),
        ("dcp.save(a)", "Thread(target=dcp.save).start()", False),
        ("np.save(path, rows)", "rows", False),
        ("model.save_pretrained(a)", "print(a)", True),
        ("Trainer(callbacks=[ModelCheckpoint(5)])", "Trainer()", True),
        ("trainer.fit(a, ckpt_path='last')", "trainer.fit(a)", True),
        ("trainer.train(resume_from_checkpoint=a)", "trainer.train()", True),
        ("trainer.train(resume_from_checkpoint=None)", "trainer.train()", False),
        ("img.save(path)", "img", False),
        ("Image.open(a).save(path)", "a", False),
        ("canvas_of(a).save('a.png')", "a", False),
        ("datasets.load(a)", "a", False),
        ("torch.load(a)", "load_file(a)", False),
        ("os.replace(a, b)", "shutil.move(a, b)", False),
    ],
)
def test_call_that_another_one_replaces_is_no_alarm(
    repository: Path, was: str, now: str, told: bool
) -> None:
    texts = (f"import torch\n\nit = {code}\n" for code in (was, now))
    assert bool(list(programs(write(laid(repository), "train.py", *texts)))) == told


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("torch.save({'model': a}, path)", "saves without optimizer: a run that starts again"),
        ("state = {'model': a}\ntorch.save(state, path)", "saves without optimizer"),
        ("state = {'model': a}\nstate['optimizer'] = b\ntorch.save(state, path)", ""),
        ("torch.save(dict(model=a, optimizer=b), path)", ""),
        ("torch.save({'model': a, 'opt': b}, path)", ""),
        ("torch.save({'model': a, 'optimizer': b, 'step': 1}, path)", ""),
        ("torch.save(state.all(), path)", ""),
        ("state = dict(model=a)\ntorch.save(state, path)", "saves without optimizer"),
        ("state = {'model': a}\nstate |= {'optimizer': b}\ntorch.save(state, path)", ""),
        ("state = {'model': a}\nstate.update(optimizer=b)\ntorch.save(state, path)", ""),
        ("def state():\n    return {'model': a}\ntorch.save(state(), path)", "without optimizer"),
        ("torch.save(model.state_dict(), path)", "saves without optimizer"),
        ("Trainer(optimizer=b)\ntorch.save({'model': a}, path)", "saves without optimizer"),
    ],
)
def test_checkpoint_with_less_in_it_is_reported(repository: Path, now: str, told: str) -> None:
    was = "import torch\n\ntorch.save({'model': a, 'optimizer': b}, path)\n"
    source = write(laid(repository), "train.py", was, f"import torch\n\n{now}\n")
    rows = [row.what for row in contents(source)]
    assert [told in row for row in rows] == [True] * bool(told), rows


def test_program_that_nothing_imports_is_not_read(repository: Path) -> None:
    """A folder of hundreds of scripts took minutes."""
    for name in ("keeping", "other", "train"):
        (repository / f"{name}.py").write_text("import torch\n")
    git_in(repository, "add", ".")
    git_in(repository, "commit", "-q", "-m", "a")
    (repository / "train.py").write_text("from . import (\n    keeping,\n)\n")
    assert list(training(laid(repository))[0]) == ["train.py", "keeping.py"]


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("open('latest', 'w').write(path)", True),
        ("json.dump(path, open(latest, 'w'))", True),
        ("shutil.move(path, kept)", True),
        ("(path / 'config.json').write_text(a)", False),
        ("open('latest').read()", False),
        ("a = replace(a, step=1)", False),
    ],
)
def test_mark_by_its_name_is_reported(repository: Path, mark: str, told: bool) -> None:
    text = "import torch\n\ndef shards(a):\n    torch.save(a)\n\ndef keep(a, path):\n"
    was, now = (f"    {mark}\n", "    shards(a)\n"), ("    shards(a)\n", f"    {mark}\n")
    source = write(laid(repository), "train.py", text + "".join(now), text + "".join(was))
    assert bool(list(marks(source))) == told


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (["torch.save(a)"], ["rmtree(b)", "torch.save(a)"], True),
        (["rmtree(b)", "torch.save(a)"], ["rmtree(b)", "rmtree(c)", "torch.save(a)"], True),
        (["rmtree(b)", "torch.save(a)"], ["rmtree(c)", "torch.save(a)"], False),
        (["torch.save(a)"], ["torch.save(a)", "rmtree(b)"], False),
        (["torch.save(a)"], ["a.remove(b)", "torch.save(a)"], False),
        (["torch.save(a)"], ["rmtree(tmp)", "torch.save(a, tmp)", "rename(tmp, b)"], False),
        (["rmtree(b)"], ["rmtree(b)", "torch.save(a)"], False),
        (["torch.save(a)", "rmtree(b)"], ["rmtree(b)", "torch.save(a)"], True),
    ],
)
def test_what_is_deleted_before_a_save_is_reported(
    repository: Path, was: list[str], now: list[str], told: bool
) -> None:
    texts = ("\n    ".join(["import torch\n\ndef keep(a):", *of]) for of in (was, now))
    rows = list(deletions(write(laid(repository), "train.py", *texts)))
    assert [row.subject for row in rows] == ["train.py: rmtree() in keep()"] * told


def test_deletion_by_os_is_reported(repository: Path) -> None:
    texts = (f"import torch\n{line}torch.save(a, b)\n" for line in ("", "os.remove(b)\n"))
    (row,) = deletions(write(laid(repository), "train.py", *texts))
    assert row.subject == "train.py: remove()"


def test_deletion_that_moves_to_another_file_is_no_loss(repository: Path) -> None:
    torch = "import torch\n"
    keep = f"{torch}def keep(a):\n    rmtree(b)\n    torch.save(a)\n"
    source = write(laid(repository), "train.py", keep, f"{torch}from saves import keep\n")
    assert not list(deletions(write(source, "saves.py", torch, keep)))


def test_mark_outside_of_functions_is_reported(repository: Path) -> None:
    lines = ["torch.save(a, path)\n", "open('latest', 'w').write(path)\n"]
    texts = ("".join(["import torch\n", *of]) for of in (lines, lines[::-1]))
    (row,) = marks(write(laid(repository), "train.py", *texts))
    assert row.subject == "train.py: open()"


def test_deep_program_that_trains_is_no_traceback(repository: Path) -> None:
    text = f"import torch\ntorch.save({'.a'.join(['b'] * 3000)})\n"
    source = write(laid(repository), "train.py", text, text.replace("b.a", "c.a", 1))
    assert [*programs(source), *contents(source), *marks(source), *intervals(source)] == []


def test_mark_that_comes_before_its_save_is_told(repository: Path) -> None:
    save, mark = "    torch.save(a, path)\n", "    (path / 'WHOLE').touch()\n"
    text = f"import torch\n\ndef keep(a, path):\n    b = 'c'.replace('d', 'e')\n{save}{mark}"
    source = write(laid(repository), "train.py", text, text.replace(save + mark, mark + save))
    (row,) = marks(source)
    assert row.subject == "train.py: touch()"
    assert row.what.startswith("comes before the save that it marks")
    for now in (text.replace(mark, ""), text.replace(save + mark, mark + save + mark)):
        assert list(marks(write(source, "train.py", text, now))) == []
    back = write(source, "train.py", text.replace(save + mark, mark + save), text)
    assert list(marks(back)) == []


def test_call_that_moves_into_another_file_is_no_alarm(repository: Path) -> None:
    source = write(laid(repository), "train.py", SAVES, "import torch\nimport keeping\n")
    source = write(source, "keeping.py", None, SAVES)
    assert not list(programs(source))


def test_save_that_is_reached_by_its_name_and_goes_is_told(repository: Path) -> None:
    (repository / "run").mkdir()
    (repository / "run/keeping.py").write_text(SAVES)
    by_name = LOOP.replace("save('a'", "getattr(keeping, 'save')('a'")
    (repository / "run/train.py").write_text(by_name)
    git_in(repository, "add", ".")
    git_in(repository, "commit", "-q", "-m", "run")
    gone = by_name.replace("getattr(keeping, 'save')('a', step)", "print('save', step)")
    (repository / "run/train.py").write_text(gone)
    assert "less is saved" in [row.what.partition(":")[0] for row in programs(laid(repository))]
