"""One line that is a job, a first job file, and the same in Python."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import railhead.launch
from railhead import cli
from railhead.base.errors import (
    ExitCode,
    InputError,
    NotFoundError,
    RailheadError,
    RefusedError,
    TimedOutError,
)
from railhead.framework import FRAMEWORKS
from railhead.kube.client import Cluster
from railhead.kube.jobs import Phase
from railhead.launch import Job, Run, connect, schema
from railhead.launch.api import Fields
from railhead.launch.apis import objects
from railhead.launch.job import JobFile, parse_job, read_job
from railhead.launch.logs import claimed
from railhead.launch.plan import make_plan
from railhead.launch.starting import first_job
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api
from tests.unit.launch.test_commands import play
from tests.unit.launch.test_transcripts import cluster_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("pass\n")
    (tmp_path / "train.py").write_text("pass\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dry(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """A call of `railhead run` that returns its TrainJob and the paths in its workspace."""

    def call(*words: str) -> tuple[dict[str, Any], set[str]]:
        assert cli.run(["run", "--dry-run", "--kubeconfig", str(kubeconfig), *words]) == 0
        made = list(yaml.safe_load_all(capsys.readouterr().out))
        paths = {key for item in made[:-1] for key in item.get("data", {})}
        return made[-1], paths

    return call


def words_of(job: Any) -> list[str]:
    """Return a TrainJob's command, behind what keeps its logs."""
    trainer = job["spec"]["trainer"]
    return claimed.without([*trainer["command"], *trainer.get("args", [])])


def test_one_line_is_a_job(dry: Any, here: Path) -> None:
    made, paths = dry("-j", "2x8", "-e", "LR=0.10", "--", "train.py", "--epochs", "3")
    trainer = made["spec"]["trainer"]
    assert words_of(made) == ["torchrun", "/workspace/train.py", "--epochs", "3"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 8)
    assert {"name": "LR", "value": "0.10"} in trainer["env"]
    assert made["metadata"]["name"].startswith("train-")
    assert paths == {"train.py"}


def test_a_script_of_a_framework_that_is_not_known_is_python_s(
    api: Api, dry: Any, here: Path
) -> None:
    (runtime,) = CONTRACT.runtimes
    own = runtime.model_copy(update={"framework": "own", "launcher": None, "launches": None})
    publish(api, CONTRACT.model_copy(update={"runtimes": (own,)}))
    made, _ = dry("--", "train.py", "3")
    assert words_of(made) == ["python3", "/workspace/train.py", "3"]


def test_a_script_of_a_folder_that_goes_along_lies_in_it(dry: Any, here: Path) -> None:
    made, _ = dry("--files", "src", "--", "src/train.py")
    assert words_of(made)[1:] == ["/workspace/src/train.py"]


def test_a_script_that_is_not_here_is_the_images(dry: Any, here: Path) -> None:
    made, paths = dry("--", "/opt/train.py")
    assert words_of(made)[1:] == ["/opt/train.py"]
    assert paths == set()


@pytest.mark.parametrize(
    ("words", "name", "command", "files"),
    [
        (["2.Train_it.py", "a b"], "run-2-train-it", "/workspace/2.Train_it.py 'a b'", 1),
        (["src/train.py"], "train", "/workspace/train.py", 1),
        (["./src/train.py"], "train", "/workspace/train.py", 1),
        (["--files", ".", "src/train.py"], "train", "/workspace/src/train.py", 5),
        (["--files", "src/deep", "src/deep/x.py"], "x", "/workspace/deep/x.py", 1),
        (["--files", "src/train.py", "train.py"], "train", None, None),
        (["src/none.py"], "none", "src/none.py", None),
        (["-"], "run", "-", None),
        ([f"{'a' * 60}.py"], "a" * 38, f"{'a' * 60}.py", None),
    ],
)
def test_a_script_has_a_name_and_a_place(
    run: Any, here: Path, words: list[str], name: str, command: str | None, files: int | None
) -> None:
    (here / "2.Train_it.py").touch()
    (here / "src" / "deep").mkdir()
    (here / "src" / "deep" / "x.py").touch()
    code, out, err = run("run", "--explain", "--json", *words)
    if command is None:
        assert (code, "train.py" in err) == (ExitCode.BAD_INPUT, True)
        return
    rows = {row["name"]: row["value"] for row in json.loads(out)["values"]}
    assert re.fullmatch(f"{name}-[0-9a-f]{{6}}", rows["name"])
    assert rows["command"].endswith(command)
    assert rows.get("files", "").startswith(f"{files} files" if files else "")


def test_one_line_is_followed_to_its_end(api: Api, run: Any, here: Path) -> None:
    play(api, failed=True)
    code, out, _ = run("run", "-j", "2x8", "--name", "demo", "--follow", "train.py")
    assert (code, len(out.splitlines())) == (ExitCode.FAILED, 4)


def test_one_line_is_explained(run: Any, here: Path) -> None:
    words = ("run", "-j", "2x8", "--explain", "--json", "train.py")
    rows = json.loads(run(*words)[1])["values"]
    origins = {row["name"]: row["from"] for row in rows}
    assert origins["nodes"] == "command line"
    assert origins["name"].startswith("made up: ")


def test_a_cluster_without_a_runtime_has_no_first_job(api: Api, run: Any, here: Path) -> None:
    publish(api, CONTRACT.model_copy(update={"runtimes": ()}))
    code, _, err = run("init")
    assert (code, list(here.glob("job*"))) == (ExitCode.MISSING_PREREQUISITE, [])
    assert "cluster 'lab' has no runtime\n  fix: ask the platform team for one" in err


def test_a_first_job_without_a_queue_says_so() -> None:
    (runtime,) = CONTRACT.runtimes
    text = first_job(CONTRACT.model_copy(update={"queues": ()}), runtime, "first")
    assert "\n# Queues over this one's pool: none\n" in text
    assert "\n# queue: " not in text


def test_commands_without_a_script_are_unchanged(dry: Any, here: Path) -> None:
    made, _ = dry("--set", "timeout=2h", "--", "nvidia-smi", "-L")
    assert words_of(made) == ["nvidia-smi", "-L"]
    assert made["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] == "7200"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-j", "2x", "--", "x"], "not a size"),
        (["-j", "0", "--", "x"], "nodes: 0 is not allowed"),
        (["-e", "LR", "--", "x"], "--env LR: not NAME=VALUE"),
        (["--set", "command=x", "--", "x"], "--set 'command=x'"),
        (["--name", "Not_A", "--", "x"], "name: 'Not_A'"),
        (["--files", "nothing", "--", "x"], "no such file"),
        (["--runtime", "trch", "--", "x.py"], "did you mean 'torch'?"),
        (["--queue", "trainin", "--", "x.py"], "queue: 'trainin' is not in cluster"),
    ],
)
def test_mistake_in_the_command_line_is_reported(
    words: list[str],
    says: str,
    kubeconfig: Path,
    here: Path,
    api: Api,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["run", "--kubeconfig", str(kubeconfig), *words]) == ExitCode.BAD_INPUT
    assert says in capsys.readouterr().err
    assert not [path for method, path, _ in api.asked if method == "POST"]


# -- init ---------------------------------------------------------------------------------------


def test_the_first_job_file_is_one_that_can_be_launched(run: Any, here: Path) -> None:
    code, _, _ = run("init", "first.yaml", "--name", "mine")
    assert code == 0
    job, files = read_job(here / "first.yaml")
    made = make_plan(job, files, CONTRACT)
    assert (made.name, made.nodes, made.gpus_per_node) == ("mine", 2, 8)


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "own"])
def test_each_framework_starts_python_files_in_its_own_way(framework: str) -> None:
    row = FRAMEWORKS.get(framework)
    contract = cluster_of(framework if row else "raw")
    (runtime,) = contract.runtimes
    if row is None:
        runtime = runtime.model_copy(update={"framework": framework})
        contract = contract.model_copy(update={"runtimes": (runtime,)})
    made = make_plan(parse_job(first_job(contract, runtime, "a"), where="job"), (), contract)
    file = "/workspace/train.py"
    gang = replace(made.gang(("a-0", "a-1")), programs=runtime.programs)
    started = row.start((file,), gang) if row else ("python3", file)
    assert made.command == started


def test_optional_fields_may_be_given(run: Any, here: Path) -> None:
    lines = run("init", "-")[1].splitlines()
    start = next(i for i, line in enumerate(lines) if "# Optional fields" in line)
    text = [line for line in lines[:start] if not line.startswith("#")]
    text += [line.removeprefix("# ") for line in lines[start + 1 :]]
    job = parse_job("\n".join(text), where="job")
    assert make_plan(job, (), CONTRACT).max_seconds == 43200


def test_the_schema_lies_beside_the_file_that_names_it(run: Any, here: Path) -> None:
    code, _, err = run("init", "first.yaml")
    assert code == 0
    assert "wrote first.yaml; `railhead launch first.yaml --dry-run` checks it" in err
    assert f"wrote {schema.NAME}, by which editors" in err
    assert (here / "first.yaml").read_text().startswith(schema.MODELINE + "\n")
    assert (here / schema.NAME).read_text() == schema.text()


def test_old_schema_is_rewritten_and_a_foreign_one_stays(run: Any, here: Path) -> None:
    (here / schema.NAME).write_text(json.dumps({"title": schema.TITLE}, indent=1))
    run("init", "first.yaml")
    assert (here / schema.NAME).read_text() == schema.text()
    (here / schema.NAME).write_text("mine")
    code, _, err = run("init", "second.yaml")
    assert (code, (here / schema.NAME).read_text()) == (0, "mine")
    assert "stays as it is" in err


def test_a_schema_that_cannot_be_written_is_noted(run: Any, here: Path) -> None:
    (here / schema.NAME).mkdir()
    code, _, err = run("init")
    assert (code, (here / "job.yaml").exists()) == (0, True)
    assert f"note: {schema.NAME} could not be written: " in err
    assert "by which editors" not in err


def test_printing_a_file_writes_nothing(run: Any, here: Path) -> None:
    assert run("init", "-")[0] == 0
    assert list(here.glob("job*")) == []


def test_a_file_that_is_there_stays(run: Any, here: Path) -> None:
    (here / "job.yaml").write_text("mine")
    code, _, err = run("init")
    assert (code, (here / "job.yaml").read_text()) == (ExitCode.BAD_INPUT, "mine")
    assert "is there already" in err


# -- Python -------------------------------------------------------------------------------------


def job(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "name": "demo",
        "nodes": 2,
        "command": ["torchrun", "/workspace/train.py"],
    }
    return Job(**given | fields)


def test_python_says_what_a_job_file_says(cluster: Cluster, here: Path) -> None:
    text = (
        "name: demo\nnodes: 2\ncommand: [torchrun, /workspace/train.py]\nfiles: [train.py]\n"
        "env: {A: '1'}\ncheckpoint: {path: x}\n"
    )
    (here / "job.yaml").write_text(text)
    parsed, files = read_job(here / "job.yaml")
    expected = objects(make_plan(parsed, files, CONTRACT))
    made = job(files=["train.py"], env={"A": "1"}, checkpoint={"path": "x"})
    assert made.objects(cluster) == expected


def test_python_has_the_fields_of_a_job_file() -> None:
    """Editors and type checkers then know them."""
    always = {"name", "nodes", "command", "env"}
    # A sweep is a loop there.
    assert set(Fields.__annotations__) == set(JobFile.model_fields) - always - {"matrix"}


def test_python_tells_every_mistake(here: Path) -> None:
    with pytest.raises(InputError) as caught:
        job(name="Bad_Name", nodse=3, files=["nothing.py"])
    assert "3 mistakes" in caught.value.problem
    assert "did you mean 'nodes'?" in caught.value.problem


@pytest.mark.slow
def test_python_runs_reads_and_ends_a_job(api: Api, cluster: Cluster, here: Path) -> None:
    run = job().submit(cluster)
    owner = api.objects[f"{world.JOBS}/demo"]
    world.admit(api, owner)
    assert run.state().phase is Phase.RUNNING
    with pytest.raises(TimedOutError):
        run.wait(timeout=0.2)
    api.open_logs.clear()
    assert [line.node for line in run.logs()] == [0, 0, 1, 1]
    assert all("default1" in line.text for line in run.logs(rank=1))
    assert [line.node for line in run.logs(node=1, tail=7)] == [1, 1]
    assert api.asked[-1][2]["tailLines"] == "7"
    assert list(run.logs(previous=True)) == []
    threading.Timer(0.2, world.end, args=(api, owner)).start()
    assert run.wait(timeout=30).phase is Phase.COMPLETED
    api.reluctant.add(f"{world.JOBS}/demo")
    with pytest.raises(TimedOutError, match=r"still there after 0\.2 s: TrainJob demo"):
        run.cancel(timeout=0.2)
    api.reluctant.clear()
    Run(cluster, "demo").cancel()
    with pytest.raises(NotFoundError):
        run.state()


def test_python_takes_the_cluster_that_the_commands_take(
    api: Api, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert job().submit().name == "demo"
    with pytest.raises(InputError, match="context"):
        connect(kubeconfig=kubeconfig, context="other")
    with pytest.raises(RailheadError, match="lab"):
        connect(lab="nobody-s")
    monkeypatch.delenv("KUBECONFIG")
    connect(kubeconfig=kubeconfig, context="fake").close()


def test_python_is_refused_what_the_command_is(api: Api, cluster: Cluster, here: Path) -> None:
    world.job(api, "demo")
    with pytest.raises(RefusedError, match="exists already"):
        job().submit(cluster)


def test_the_names_are_there_and_no_others() -> None:
    assert set(railhead.launch.__all__) == {"Job", "Run", "connect"}
    with pytest.raises(AttributeError, match="no attribute 'Jbo'"):
        railhead.launch.Jbo  # noqa: B018
