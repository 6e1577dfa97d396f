"""Sweeps: one job for each combination of values, and patterns that mean all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.errors import ExitCode, InputError
from railhead.launch.job import parse_job
from railhead.launch.matrix import asked, combinations
from railhead.launch.plan import make_plan
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT
from tests.unit.launch.fake_api import Api


def jobs(api: Api) -> dict[str, Any]:
    """Return name -> TrainJob."""
    return {k.rpartition("/")[2]: v for k, v in api.objects.items() if k.startswith(world.JOBS)}


def variable(job: Any, name: str) -> str:
    (value,) = [item["value"] for item in job["spec"]["trainer"]["env"] if item["name"] == name]
    return str(value)


def test_each_combination_is_one_job(api: Api, run: Any, job_file: Path) -> None:
    sweep = ("--matrix", "env.LR=1e-3,1e-4", "--matrix", "env.SEED=1,2")
    code, out, err = run("launch", job_file, *sweep, "--json")
    assert code == 0
    made = jobs(api)
    values = {name: (variable(job, "LR"), variable(job, "SEED")) for name, job in made.items()}
    assert values == {
        "demo-0": ("1e-3", "1"),
        "demo-1": ("1e-3", "2"),
        "demo-2": ("1e-4", "1"),
        "demo-3": ("1e-4", "2"),
    }
    assert {variable(job, "CHECKPOINT_DIR").rpartition("/")[2] for job in made.values()} == {*made}
    assert "created TrainJob training/demo-2: env.LR=1e-4 env.SEED=1" in err
    assert "railhead status 'demo-*'" in err
    assert [row["name"] for row in json.loads(out)] == [*made]


def test_dry_run_prints_all_and_creates_none(api: Api, run: Any, job_file: Path) -> None:
    code, out, _ = run("launch", job_file, "--name", "lr", "--matrix", "nodes=1,2", "--dry-run")
    kinds = [(item["kind"], item["metadata"]["name"]) for item in yaml.safe_load_all(out)]
    assert code == 0
    assert [name for kind, name in kinds if kind == "TrainJob"] == ["lr-0", "lr-1"]
    assert jobs(api) == {}


def test_no_job_is_submitted_if_one_is_refused(api: Api, run: Any, job_file: Path) -> None:
    code, _, err = run("launch", job_file, "--matrix", "nodes=1,3")
    assert (code, "nodes: 3 is more than" in err) == (ExitCode.REFUSED, True)
    assert jobs(api) == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--matrix", "env.LR=1,2", "--follow"), "--follow is for one job"),
        (("--matrix", "env.LR=1,2", "--set", "checkpoint.path=a"), "directory of several jobs"),
        (("--matrix", "nodez=1,2"), "did you mean 'nodes'?"),
        (("--matrix", "nodes=1,2", "--nodes", "1"), "nodes: set to one value"),
    ],
)
def test_impossible_sweep_is_refused(
    api: Api, run: Any, job_file: Path, options: tuple[str, ...], says: str
) -> None:
    code, _, err = run("launch", job_file, *options)
    assert (code, says in err) == (ExitCode.BAD_INPUT, True)
    assert jobs(api) == {}


def test_directory_may_be_part_of_the_sweep(api: Api, run: Any, job_file: Path) -> None:
    assert run("launch", job_file, "--matrix", "checkpoint.path=a,b")[0] == 0
    made = [variable(job, "CHECKPOINT_DIR") for job in jobs(api).values()]
    assert made == ["/checkpoints/a", "/checkpoints/b"]


def test_wrong_matrix_names_the_option() -> None:
    for matrix, says in {
        ("env.LR",): "--matrix env.LR: not FIELD=VALUE",
        ("=1",): "--matrix =1: not FIELD=VALUE",
        ("env.LR=1,,2",): "--matrix env.LR=1,,2: not FIELD=VALUE",
        ("name=a,b",): "--matrix name: each job's name has its number",
        ("nodes=1", "nodes=2"): "--matrix nodes: given twice",
        ("env.A=" + "1," * 100 + "1",): "101 combinations; allowed: at most 100",
    }.items():
        with pytest.raises(InputError, match=says.replace("(", r"\(")):
            combinations(asked(matrix, None))
    assert len(combinations(asked(["env.A=" + "1," * 99 + "1"], None))) == 100
    for array in ("", "a", "3-1", "1,", "1-2-3", "0-9%2", "-1", "1:2"):
        with pytest.raises(InputError, match=f"--array {array}: not numbers"):
            asked((), array)
    for array in ("0-100", "1-999999", "0-60,100-160"):
        with pytest.raises(InputError, match=f"^--array {array}: more than 100 numbers"):
            asked((), array)
    with pytest.raises(InputError, match="--array and --matrix: 102 combinations"):
        combinations(asked(["env.A=1,2"], "0-50"))


def test_array_is_one_job_for_each_number(api: Api, run: Any, job_file: Path) -> None:
    assert run("launch", job_file, "--array", "3,7-8,7")[0] == 0
    made = jobs(api)
    assert {name: variable(job, "ARRAY_INDEX") for name, job in made.items()} == {
        "demo-3": "3",
        "demo-7": "7",
        "demo-8": "8",
    }
    code, _, err = run("launch", job_file, "--name", "x", "--array", "0-1", "--matrix", "env.A=b")
    assert (code, "railhead status 'x-*'" in err) == (0, True)
    assert variable(jobs(api)["x-1"], "A") == "b"


def test_file_may_say_the_sweep(api: Api, run: Any, job_file: Path) -> None:
    with job_file.open("a") as file:
        file.write("matrix:\n  env.LR: [1e-3, '0,1']\n  env.SEED: [1, 2]\n")
    assert run("launch", job_file, "--matrix", "env.SEED=3")[0] == 0
    made = jobs(api)
    values = {name: (variable(job, "LR"), variable(job, "SEED")) for name, job in made.items()}
    assert values == {"demo-0": ("1e-3", "3"), "demo-1": ("0,1", "3")}
    code, _, err = run("launch", job_file, "--set", "env.LR=1")
    assert (code, "write `--matrix env.LR=1` for" in err) == (ExitCode.BAD_INPUT, True)
    code, _, err = run("launch", job_file, "--name", "x", "--follow")
    assert (code, "--follow is for one job" in err) == (ExitCode.BAD_INPUT, True)
    asked_for = parse_job(job_file.read_text(), where="job")
    with pytest.raises(InputError, match="matrix: makes several jobs"):
        make_plan(asked_for, (), CONTRACT)


def test_pattern_means_all_jobs_that_match(api: Api, run: Any) -> None:
    owners = [world.job(api, name) for name in ("sweep-0", "sweep-1", "other")]
    for owner in owners[:2]:
        owner["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    out = run("status", "sweep-*")[1]
    assert "2 jobs: 2 completed" in out
    assert "other" not in out
    names = [row["name"] for row in json.loads(run("status", "sweep-?", "--json")[1])]
    assert names == ["sweep-0", "sweep-1"]
    assert len(json.loads(run("wait", "sweep-*", "sweep-1", "--json")[1])) == 2
    # A watch ends with the last of them.
    assert run("status", "sweep-*", "--watch")[0] == 0
    assert run("cancel", "sweep-*", "sweep-0")[0] == 0
    assert [*jobs(api)] == ["other"]
    for command in ("status", "cancel"):
        code, _, err = run(command, "sweep-*")
        assert (code, "no job's name matches 'sweep-*'" in err) == (ExitCode.NOT_FOUND, True)
