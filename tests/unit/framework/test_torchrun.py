"""Commands that start torchrun are taken as they are, and exit with their processes' code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from railhead import config
from railhead.base.errors import InputError
from railhead.base.retries import HOPELESS
from railhead.framework import FRAMEWORKS
from railhead.framework.base import Gang
from railhead.framework.programs import world
from railhead.launch.apis import apis
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.launch.render import train_job
from railhead.resolve.runtimes import runtimes
from tests.components.recording import lab_cluster
from tests.wiring import contract

TWO = Gang(job="a", hosts=("a-node-0-0.a", "a-node-0-1.a"), processes=4)
#: A torch whose launcher's processes end with the codes in CODES.
TORCH = {
    "torch/__init__.py": "from importlib.metadata import entry_points\n"
    "for item in entry_points(group='torch.backends'):\n    item.load()()\n",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": "HOOKS = []\nregister_optimizer_step_pre_hook = HOOKS.append\n",
    "torch/distributed/__init__.py": "",
    "torch/distributed/run.py": """
import os
from types import SimpleNamespace

class ChildFailedError(Exception):
    failures = {n: SimpleNamespace(exitcode=int(code))
                for n, code in enumerate(os.environ.get("CODES", "").split())}

    def get_first_failure(self):
        return 0, self.failures[0]

if ChildFailedError.failures:
    raise ChildFailedError("torchrun FAILED")
print("ran")
""",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages that a pod's Python imports, and a torchrun as pip installs it."""
    result = tmp_path_factory.mktemp("site")
    for path, text in (TORCH | dict(FRAMEWORKS["torch"].python)).items():
        (result / path).parent.mkdir(parents=True, exist_ok=True)
        (result / path).write_text(text.replace("SECONDS = 5.0", "SECONDS = 0.0"))
    (result / "torchrun").write_text(f"#!{sys.executable}\nimport torch, torch.distributed.run\n")
    (result / "torchrun").chmod(0o755)
    return result


def ended(site: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    every = {"PATH": f"{site}:{os.environ['PATH']}", "PYTHONPATH": str(site)} | environment
    return subprocess.run(
        words, env=every, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        ["torchrun", "train.py"],
        ["sh", "-c", "torchrun train.py"],
        [sys.executable, "-m", "torch.distributed.run", "train.py"],
    ],
    ids=["torchrun", "a shell", "a module"],
)
def test_any_way_to_torchrun_exits_with_a_chosen_code(site: Path, start: list[str]) -> None:
    for codes, code in (("42", 42), ("1 -6 64", 64), ("1", 1), ("-9 1", 137), ("", 0)):
        done = ended(site, *start, CODES=codes)
        assert done.returncode == code, done.stderr
        assert ("torchrun FAILED" in done.stderr) is bool(codes)


def test_codes_without_a_meaning_wait_for_other_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)

    class ChildFailedError(Exception):
        failures: dict[int, object] = {}  # noqa: RUF012 - as torch has it

        def get_first_failure(self) -> tuple[int, object]:
            return 0, type("Failure", (), {"exitcode": self.args[0]})

    world._pass_on_codes()
    for nodes, code, waits in (("2", 1, True), ("2", 64, False), ("1", 1, False)):
        monkeypatch.setenv("PET_NNODES", nodes)
        slept.clear()
        with pytest.raises(SystemExit):
            sys.excepthook(ChildFailedError, ChildFailedError(code), None)
        assert bool(slept) is waits


@pytest.mark.parametrize(
    ("words", "nodes", "asked", "built"),
    [
        (["train.py"], "2", "4", True),
        (["train.py"], "1", "4", False),
        (["--nproc-per-node", "1", "train.py"], "2", "4", False),
        (["--nproc_per_node=2", "train.py"], "2", "4", True),
        (["--nproc-per-node=gpu", "train.py"], "2", "4", True),
        (["train.py", "--nproc-per-node", "1"], "2", "4", True),
        (["train.py"], "2", "", True),
        # An elastic job takes what comes.
        (["train.py"], "1:4", "8", True),
    ],
)
def test_a_world_of_another_size_is_not_built(
    site: Path, words: list[str], nodes: str, asked: str, built: bool
) -> None:
    variables = {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": "2", "RAILHEAD_WORLD_SIZE": asked}
    done = ended(site, "torchrun", *words, **variables)
    assert (done.returncode, done.stdout) == ((0, "ran\n") if built else (world.WRONG_WORLD, ""))
    assert built or f"the job asked for {asked}" in done.stderr
    alone = ended(site, "torchrun", *words, **variables, RAILHEAD_LAUNCHER="none")
    assert alone.returncode == 0


@pytest.mark.parametrize(
    ("words", "variables", "meets"),
    [
        # torchtitan's run_train.sh
        ("--nproc_per_node=8 --rdzv_backend c10d --rdzv_endpoint=localhost:0 -m titan", {}, False),
        ("--rdzv-backend=c10d train.py", {}, False),
        ("--rdzv-backend=c10d --rdzv-endpoint=a-node-0-0.a:29500 train.py", {}, True),
        ("--rdzv-backend=c10d train.py", {"PET_RDZV_ENDPOINT": "a-worker-0:29400"}, True),
        # Megatron-LM's scripts with NUM_NODES alone edited
        ("--nnodes 2 --master_addr localhost --master_port 6000 train.py", {}, False),
        ("--nnodes 1 --master_addr localhost train.py", {}, True),
        ("--rdzv_endpoint=127.0.0.1 train.py", {}, False),
        ("--standalone train.py", {}, False),
        ("train.py", {}, True),
        ("train.py --master_addr localhost", {}, True),
        ("-m mine.train --standalone", {}, True),
        # What follows the program is its own, whatever the program is.
        ("--no-python ./run.sh --master_addr localhost", {}, True),
        ("-m --nproc_per_node 8 mine.train --master_addr localhost", {}, True),
        ("-t3 --max-restarts 0 /opt/train --standalone", {}, True),
        ("--no-python --rdzv-backend c10d ./run.sh", {}, False),
        ("--rdzv_backend=etcd --rdzv_endpoint=localhost:2379 train.py", {}, True),
        # The others come to the first node, and an elastic job has no first node.
        ("--master_addr localhost train.py", {"PET_NODE_RANK": "0"}, True),
        ("--rdzv-backend=c10d train.py", {"PET_NNODES": "1:2"}, True),
        ("--master_addr localhost train.py", {"RAILHEAD_LAUNCHER": "none"}, True),
    ],
)
def test_node_that_would_wait_at_itself_ends(
    site: Path, words: str, variables: dict[str, str], meets: bool
) -> None:
    pod = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "a-node-0-0.a"}
    done = ended(site, "torchrun", *words.split(), **pod | variables)
    assert (done.returncode, done.stdout) == ((0, "ran\n") if meets else (world.WRONG_WORLD, ""))
    assert meets or "each node would at itself" in done.stderr


def test_a_wrong_world_is_hopeless() -> None:
    assert world.WRONG_WORLD in HOPELESS


@pytest.mark.parametrize(("ready", "patience"), [(600, 900), (1800, 1800)])
def test_torchrun_waits_for_the_last_pod_as_kueue_does(ready: int, patience: int) -> None:
    """The time of ``static``, and those of c10d for joining and for the first pod to serve."""
    raw = lab_cluster() | {"ready_timeout_seconds": ready}
    [runtime] = runtimes(config.parse(raw, where="test"))
    conf = runtime.environment["PET_RDZV_CONF"]
    assert dict(part.split("=") for part in conf.split(",")) == dict.fromkeys(
        ("timeout", "join_timeout", "read_timeout"), str(patience)
    )
    raw["runtimes"][0]["environment"] = {"PET_RDZV_CONF": "timeout=60"}
    [runtime] = runtimes(config.parse(raw, where="test"))
    assert runtime.environment["PET_RDZV_CONF"] == "timeout=60"


def planned(*words: str, framework: str = "torch", nodes: int = 2, processes: int = 4) -> Plan:
    text = f"name: run\nnodes: {nodes}\nprocesses_per_node: {processes}\ncommand: "
    text += json.dumps(words)
    return make_plan(parse_job(text, where="job"), (), contract(framework))


@pytest.mark.parametrize(
    "words",
    [
        ("torchrun", "train.py"),
        ("/opt/conda/bin/torchrun", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("uv", "run", "torchrun", "train.py"),
        ("conda", "run", "-n", "x", "torchrun", "train.py"),
        ("bash", "-c", "cd /workspace && torchrun train.py"),
        ("nsys", "profile", "torchrun", "train.py"),
        ("torchrun", "-m", "mine.train", "--master_addr", "localhost"),
        ("torchrun", "--tee", "3", "-m", "torchtitan.train"),
    ],
    ids=" ".join,
)
def test_commands_with_torchrun_are_taken_as_they_are(words: tuple[str, ...]) -> None:
    assert planned(*words).command == words


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("python train.py --lr 1", "torchrun train.py --lr 1"),
        ("uv run train.py", "uv run torchrun train.py"),
        ("nsys profile -o x python -m mine", "nsys profile -o x torchrun -m mine"),
        ("uv run -m mine --x", "uv run torchrun -m mine --x"),
        ("deepspeed --no_ssh train.py --deepspeed z.json", "torchrun train.py --deepspeed z.json"),
        ("deepspeed --num_gpus 8 --module mine.train --x", "torchrun -m mine.train --x"),
        ("deepspeed train.py --module x", "torchrun train.py --module x"),
        ("python -m torch.distributed.run --standalone train.py", "torchrun train.py"),
        (
            "torchrun --nnodes=2 --node_rank=0 --master_addr localhost --master_port 1 train.py -x",
            "torchrun train.py -x",
        ),
        ("torchrun --node-rank 1 train.py", "torchrun train.py"),
        ("python -m torch.distributed.run --node_rank 0 train.py", "torchrun train.py"),
        ("numactl -m 0 torchrun --node_rank 0 train.py", "numactl -m 0 torchrun train.py"),
        (
            "torchrun --nproc_per_node=8 --rdzv_backend c10d --rdzv_endpoint=localhost:0 "
            "--role rank --tee 3 -m torchtitan.train --job.config_file a.toml",
            "torchrun --role rank --tee 3 -m torchtitan.train --job.config_file a.toml",
        ),
    ],
)
def test_refusal_names_a_command_that_does_the_same(words: str, instead: str) -> None:
    with pytest.raises(InputError) as refused:
        planned(*words.split())
    assert f"write `{instead}`" in refused.value.remedy
    assert planned(*instead.split()).command == tuple(instead.split())


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("cd /w && python -u train.py --a 1", "cd /w && torchrun train.py --a 1"),
        ("python -m pip install x && python t.py", "python -m pip install x && torchrun t.py"),
        (
            "python -m accelerate.commands.launch t.py",
            "python -m accelerate.commands.launch --num_machines $PET_NNODES --num_processes "
            "$RAILHEAD_WORLD_SIZE --machine_rank $PET_NODE_RANK --main_process_ip "
            "$PET_MASTER_ADDR --main_process_port $PET_MASTER_PORT "
            "--deepspeed_multinode_launcher standard --tee 1 t.py",
        ),
        (
            "accelerate launch --config_file f.yaml train.py",
            "accelerate launch --num_machines $PET_NNODES --num_processes $RAILHEAD_WORLD_SIZE "
            "--machine_rank $PET_NODE_RANK --main_process_ip $PET_MASTER_ADDR "
            "--main_process_port $PET_MASTER_PORT --deepspeed_multinode_launcher standard --tee 1 "
            "--config_file f.yaml train.py",
        ),
        (
            "accelerate-launch --num-machines 1 \\\n --num_processes=8 \\\n a.py --num_processes 2",
            "accelerate-launch --num_machines $PET_NNODES --num_processes $RAILHEAD_WORLD_SIZE "
            "--machine_rank $PET_NODE_RANK --main_process_ip $PET_MASTER_ADDR "
            "--main_process_port $PET_MASTER_PORT --deepspeed_multinode_launcher standard --tee 1 "
            "\\\n \\\n a.py --num_processes 2",
        ),
        (
            "accelerate launch -m --machine_rank 0 --main_process_ip localhost mine.train; exit 1",
            "accelerate launch --num_machines $PET_NNODES --num_processes $RAILHEAD_WORLD_SIZE "
            "--machine_rank $PET_NODE_RANK --main_process_ip $PET_MASTER_ADDR "
            "--main_process_port $PET_MASTER_PORT --deepspeed_multinode_launcher standard --tee 1 "
            "-m mine.train; exit 1",
        ),
        (
            "accelerate launch --num_processes 8 -m mine.train --num_processes 2",
            "accelerate launch --num_machines $PET_NNODES --num_processes $RAILHEAD_WORLD_SIZE "
            "--machine_rank $PET_NODE_RANK --main_process_ip $PET_MASTER_ADDR "
            "--main_process_port $PET_MASTER_PORT --deepspeed_multinode_launcher standard --tee 1 "
            "-m mine.train --num_processes 2",
        ),
    ],
)
def test_refused_shell_gets_a_text_that_does_the_same(text: str, instead: str) -> None:
    with pytest.raises(InputError) as refused:
        planned("bash", "-c", text)
    words = shlex.join(("bash", "-c", instead))
    assert f"write `{words}`" in refused.value.remedy
    assert planned("bash", "-c", instead).command == ("bash", "-c", instead)


@pytest.mark.parametrize(
    "then", ["python train.py", "deepspeed train.py", "torchrun --standalone train.py"]
)
def test_shell_of_two_programs_gets_no_made_up_text(then: str) -> None:
    with pytest.raises(InputError) as refused:
        planned("bash", "-c", f"python prepare.py && {then}")
    assert refused.value.remedy.startswith("begin it with torchrun")
    assert "PET_MASTER_ADDR" in refused.value.remedy


@pytest.mark.parametrize("option", ["--machine_rank", "--machine-rank"])
def test_accelerate_over_several_lines_of_a_shell_is_taken(option: str) -> None:
    for launcher in ("accelerate launch", "python -m accelerate.commands.accelerate_cli launch"):
        text = f"set -e\n{launcher} \\\n  {option} $PET_NODE_RANK \\\n  train.py"
        assert planned("bash", "-c", text).command == ("bash", "-c", text)


def test_computed_size_in_a_shell_gets_no_made_up_text() -> None:
    with pytest.raises(InputError) as refused:
        planned("bash", "-c", "accelerate launch --num_processes $((N * 8)) train.py")
    assert refused.value.remedy.startswith("begin it with torchrun")


@pytest.mark.parametrize("words", ["ft_launcher train.py", "fabric run train.py --devices 8"])
def test_unknown_launcher_gets_no_made_up_command(words: str) -> None:
    """``fabric run torchrun train.py`` would start something else."""
    with pytest.raises(InputError) as refused:
        planned(*words.split())
    assert refused.value.remedy.startswith("begin it with torchrun and leave size")
    assert "torchrun train.py" not in refused.value.remedy


@pytest.mark.parametrize(
    "start",
    [
        ["accelerate"],
        ["uv", "run", "accelerate"],
        ["python", "-m", "accelerate.commands.accelerate_cli"],
    ],
)
def test_accelerates_launcher_gets_the_jobs_rendezvous(start: list[str]) -> None:
    words = [*start, "launch", "--config_file", "f.yaml", "train.py", "$(PET_NODE_RANK)"]
    made = planned(*words)
    rendezvous = (
        "--num_machines 2 --num_processes 8 --machine_rank $(PET_NODE_RANK) "
        "--main_process_ip $(PET_MASTER_ADDR) --main_process_port $(PET_MASTER_PORT) "
        "--deepspeed_multinode_launcher standard --tee 1"
    )
    trainer = train_job(made)["spec"]["trainer"]
    sent = [*trainer["command"], *trainer["args"]]
    at = sent.index("launch") + 1
    assert " ".join(sent[at : at + 14]) == rendezvous
    # The job's own words stay words.
    assert sent[at + 14 :] == ["--config_file", "f.yaml", "train.py", "$$(PET_NODE_RANK)"]
    pod = apis()["jobset"].template(made)["spec"]["containers"][0]
    names = {e["name"] for e in pod["env"]}
    assert {"PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"} <= names
    assert "$(PET_NODE_RANK)" in pod["args"]


def test_accelerates_addresses_give_way_to_the_jobs() -> None:
    """A rank that a README names would be every node's, since argparse takes the last."""
    own = "--machine_rank 0 --mixed_precision bf16 --main_process_ip=10.0.0.1 --num_processes 1"
    made = planned("accelerate", "launch", *own.split(), "train.py", "--machine_rank", "7")
    assert made.command[-5:] == ("--mixed_precision", "bf16", "train.py", "--machine_rank", "7")
    with pytest.raises(InputError) as refused:
        planned("accelerate-launch", "--config_file", "f.yaml", "train.py")
    assert "write `accelerate launch --config_file f.yaml train.py`" in refused.value.remedy
    alone = planned("accelerate", "launch", "--num_processes", "2", "train.py", nodes=1)
    assert alone.command[-3:] == ("--num_processes", "2", "train.py")


def test_accelerates_hyphens_are_read_too() -> None:
    own = "--num-machines 1 --machine-rank=0 --main-process-ip 10.0.0.1 --mixed-precision bf16"
    made = planned("accelerate", "launch", *own.split(), "train.py").command
    assert made[-4:] == ("1", "--mixed-precision", "bf16", "train.py")
    configured = planned("accelerate", "launch", "--config-file", "f.yaml", "train.py", processes=1)
    assert "--multi_gpu" not in configured.command


def test_accelerate_may_say_first_that_it_runs_a_module() -> None:
    own = "-m --config_file f.yaml --machine_rank 0 --num_machines 1 mine.train"
    made = planned("accelerate", "launch", *own.split()).command
    assert made[-4:] == ("-m", "--config_file", "f.yaml", "mine.train")
    after = planned("accelerate", "launch", "-m", "mine.train", "--num_processes", "2").command
    assert after[-4:] == ("-m", "mine.train", "--num_processes", "2")


@pytest.mark.parametrize("start", [["train.py"], ["-m", "mine.train"]])
@pytest.mark.parametrize("option", ["--config-file", "--config_file", "--cpu"])
def test_programs_options_are_none_of_accelerates(start: list[str], option: str) -> None:
    """Each node's one process would train alone without --multi_gpu."""
    assert "--multi_gpu" in planned("accelerate", "launch", *start, option, processes=1).command


def test_accelerate_makes_a_world_of_one_process_a_node() -> None:
    assert "--multi_gpu" in planned("accelerate", "launch", "train.py", processes=1).command
    for option in (("--config_file", "f.yaml"), ("--use_fsdp",)):
        made = planned("accelerate", "launch", *option, "train.py", processes=1)
        assert "--multi_gpu" not in made.command
    alone = planned("accelerate", "launch", "train.py", nodes=1)
    assert alone.command[2:8] == (*"--num_machines 1 --num_processes 4 --tee 1".split(),)


def test_command_that_starts_its_own_processes_is_left_alone() -> None:
    """torchrun before it would start it once for each GPU."""
    text = "name: run\nnodes: 2\ncommand: [start.py, --machine_rank, '0']\nlauncher: own\n"
    made = make_plan(parse_job(text, where="job"), (), contract("torch"))
    assert made.command == ("python3", "start.py", "--machine_rank", "0")


def test_python_file_gets_torchrun_before_it() -> None:
    for name in ("torch", "fsdp", "deepspeed"):
        assert FRAMEWORKS[name].start(["train.py", "x"], TWO) == ("torchrun", "train.py", "x")
