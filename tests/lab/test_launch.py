"""`railhead launch` on the lab: a real distributed run, and what the commands say of it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.errors import ExitCode
from railhead.kube import client as kube
from tests.lab.jobs import NAMESPACE, Jobs, records, researcher, unique, wait

pytestmark = pytest.mark.lab

EPOCHS = 10


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One run of the example: what it printed and what the cluster made of it."""

    name: str
    done: subprocess.CompletedProcess[str]
    lines: list[str]
    job: dict[str, Any]
    pods: list[dict[str, Any]]
    submitted: dict[str, Any]


@pytest.fixture(scope="module")
def example(jobs: Jobs, repo: Path) -> Ran:
    """The README's command, once."""
    name = unique("ddp")
    path = str(repo / "examples/torch-ddp.yaml")
    shown = jobs.run("launch", path, "--name", name, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    jobs.made.append(name)
    done = jobs.run("launch", path, "--name", name, "--follow")
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(
        name=name,
        done=done,
        lines=done.stdout.splitlines(),
        job=jobs.cluster.get(kube.trainjobs(NAMESPACE, name)),
        pods=jobs.pods(name),
        submitted=next(o for o in yaml.safe_load_all(shown.stdout) if o["kind"] == "TrainJob"),
    )


# -- the run ------------------------------------------------------------------------------------


def test_progress_goes_from_the_queue_to_completed(example: Ran) -> None:
    phases = [
        line.split("s  ", 1)[1].split(":")[0]
        for line in example.done.stderr.splitlines()
        if "s  " in line[:12]
    ]
    assert phases[-1] == "completed"
    assert "running" in phases
    assert f"{example.name} completed in" in example.done.stderr


def test_ranks_and_world_size(example: Ran) -> None:
    ranks = records(example.lines, "rank=")
    assert sorted(int(r["rank"]) for r in ranks) == [0, 1, 2, 3]
    assert {r["world_size"] for r in ranks} == {"4"}
    assert {(r["rank"], r["node"], r["local_rank"]) for r in ranks} == {
        ("0", "0", "0"),
        ("1", "0", "1"),
        ("2", "1", "0"),
        ("3", "1", "1"),
    }


def test_the_world_came_from_the_controllers(example: Ran) -> None:
    """The job says sizes only; ranks and addresses are in what the controllers made of it."""
    submitted = {e["name"] for e in example.submitted["spec"]["trainer"]["env"]}
    stored = {e["name"] for e in example.job["spec"]["trainer"]["env"]}
    assert submitted == stored
    theirs = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
    assert not {n for n in stored if n.startswith("PET_") or n in theirs}
    printed = records(example.lines, "rank=")
    assert len(example.pods) == 2
    for pod in example.pods:
        container = next(c for c in pod["spec"]["containers"] if c["name"] == "node")
        env = {e["name"]: e for e in container["env"]}
        assert env["PET_NNODES"]["value"] == "2"
        assert env["PET_NPROC_PER_NODE"]["value"] == "2"
        assert {r["master_addr"] for r in printed} == {env["PET_MASTER_ADDR"]["value"]}
        assert {r["master_port"] for r in printed} == {env["PET_MASTER_PORT"]["value"]}
        rank = env["PET_NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert "job-completion-index" in rank
    master = printed[0]["master_addr"]
    assert master == f"{example.name}-node-0-0.{example.name}"


def test_the_gang_is_on_two_machines(example: Ran) -> None:
    assert len({pod["spec"]["nodeName"] for pod in example.pods}) == 2


def test_model_learned(example: Ran) -> None:
    losses = [float(r["loss"]) for r in records(example.lines, "epoch=")]
    assert len(losses) == EPOCHS
    assert losses[-1] < losses[0] / 4
    accuracy = [float(r["accuracy"]) for r in records(example.lines, "accuracy=")]
    assert len(accuracy) == 1
    assert accuracy[0] > 0.9


def test_the_bytes_went_over_the_rail(example: Ran) -> None:
    """Each pod's own counters: the rail carried the gradients, the pod network next to nothing."""
    seen = records(example.lines, "bytes ")
    totals: dict[tuple[str, str, str], int] = {
        (r["when"], r["node"], r["interface"]): int(r["received"]) + int(r["sent"]) for r in seen
    }
    for node in ("0", "1"):
        carried = {
            interface: totals[("after", node, interface)] - totals[("before", node, interface)]
            for interface in ("net1", "eth0")
        }
        # 302,090 parameters of 4 bytes, 23 steps an epoch: some hundred megabytes cross.
        assert carried["net1"] > 100_000_000, carried
        assert carried["eth0"] < 5_000_000, carried
        assert carried["net1"] > 50 * carried["eth0"], carried


def test_the_rail_is_an_interface_of_its_own(example: Ran) -> None:
    assert {r["rail"] for r in records(example.lines, "rank=")} == {"net1"}
    for pod in example.pods:
        status = json.loads(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"])
        rail = next(n for n in status if n.get("interface") == "net1")
        assert rail["ips"][0].startswith("192.168.1")
        assert rail["ips"] != [pod["status"]["podIP"]]


# -- checkpoints --------------------------------------------------------------------------------


def test_every_node_reads_the_bytes_that_rank_0_wrote(example: Ran) -> None:
    reads = records(example.lines, "checkpoint ")
    for node in ("0", "1"):
        assert len([r for r in reads if r["node"] == node and r["reads"] == "same"]) == EPOCHS
    for name in {r["file"] for r in reads}:
        assert len({r["sha256"] for r in reads if r["file"] == name}) == 1


def test_a_second_job_goes_on_from_the_first_ones_checkpoint(
    example: Ran, jobs: Jobs, repo: Path
) -> None:
    name = unique("resume")
    jobs.made.append(name)
    done = jobs.run(
        "launch",
        str(repo / "examples/torch-ddp.yaml"),
        "--name",
        name,
        "--set",
        f"env.CHECKPOINT_DIR=/checkpoints/{example.name}",
        "--set",
        f"env.EPOCHS={EPOCHS + 1}",
        "--follow",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    resumed = records(lines, "resumed ")
    assert sorted(r["rank"] for r in resumed) == ["0", "1", "2", "3"]
    assert {r["epoch"] for r in resumed} == {str(EPOCHS)}
    last = [r["loss"] for r in records(example.lines, "epoch=")][-1]
    assert {r["loss"] for r in resumed} == {last}
    assert [r["epoch"] for r in records(lines, "epoch=")] == [str(EPOCHS + 1)]
    jobs.clear(name)


# -- status and logs of a job that ended ------------------------------------------------------


def test_status_after_the_end(example: Ran, jobs: Jobs) -> None:
    if jobs.cluster.find(kube.trainjobs(NAMESPACE, example.name)) is None:
        pytest.fail("the example's job is gone")
    result = jobs.status(example.name)
    assert (result["phase"], result["ranks"], result["charged"]) == ("completed", 4, 2)
    assert [pod["index"] for pod in result["pods"]] == [0, 1]
    table = jobs.run("status", example.name).stdout
    assert "completed" in table
    assert "2-3" in table
    assert example.name in jobs.run("status").stdout


def test_logs_after_the_end(example: Ran, jobs: Jobs) -> None:
    everything = jobs.run("logs", example.name)
    assert everything.returncode == 0
    assert sorted(everything.stdout.splitlines()) == sorted(example.lines)
    rank3 = jobs.run("logs", example.name, "--rank", "3").stdout.splitlines()
    assert [r["rank"] for r in records(rank3, "rank=")] == ["3"]
    assert all(line.startswith("[node-1] ") for line in rank3)
    followed = jobs.run("logs", example.name, "--follow", "--node", "0")
    assert followed.returncode == 0
    assert len(records(followed.stdout.splitlines(), "epoch=")) == EPOCHS


# -- commands on live jobs ----------------------------------------------------------------------


def test_follow_starts_in_the_queue_and_cancel_ends_it(jobs: Jobs) -> None:
    first, second = unique("holds"), unique("waits")
    jobs.launch(first)
    jobs.phase(first, "running")
    jobs.launch(second)
    follower = jobs.start("logs", second, "--follow")
    try:
        time.sleep(3)
        assert follower.poll() is None
        waiting = jobs.status(second)
        assert waiting["phase"] == "queued"
        assert waiting["pods"] == []
        assert "waiting in queue training: needs 2 x 8 nvidia.com/gpu" in waiting["detail"]
        assert "queue training has 0 of 16 free" in waiting["detail"]
        done = jobs.run("cancel", second)
        assert done.returncode == 0, done.stderr
        assert f"{second} cancelled (it was queued); it had no pods" in done.stdout
        assert follower.wait(30) == 0
    finally:
        follower.kill()
    done = jobs.run("cancel", first)
    assert done.returncode == 0, done.stderr
    assert f"{first} cancelled (it was running); its 2 pods are gone" in done.stdout
    assert jobs.pods(first) == []
    assert jobs.cluster.find(kube.trainjobs(NAMESPACE, first)) is None
    again = jobs.run("cancel", first)
    assert again.returncode == ExitCode.NOT_FOUND


def test_lines_arrive_while_the_job_runs(jobs: Jobs) -> None:
    name = unique("lines")
    script = "import time\nfor i in range(8): print('line', i, flush=True); time.sleep(1)"
    path = jobs.job_file(name, command=["python3", "-c", script])
    follower = jobs.start("launch", path, "--follow")
    assert follower.stdout is not None
    arrived = [(time.monotonic(), line) for line in follower.stdout]
    assert follower.wait(60) == 0
    for node in (0, 1):
        mine = [(t, x.strip()) for t, x in arrived if x.startswith(f"[node-{node}]")]
        assert [x for _, x in mine] == [f"[node-{node}] line {i}" for i in range(8)]
        assert mine[-1][0] - mine[0][0] > 4


def test_interrupting_a_follow_leaves_the_job(jobs: Jobs) -> None:
    name = unique("goeson")
    follower = jobs.start("launch", jobs.job_file(name), "--follow")
    wait(lambda: jobs.cluster.find(kube.trainjobs(NAMESPACE, name)) is not None, 30, "the job")
    jobs.phase(name, "running")
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=120)
    assert follower.returncode == ExitCode.INTERRUPTED
    assert "the job goes on" in err
    assert "Traceback" not in err
    assert jobs.state(name).phase.value == "running"
    jobs.clear(name)


def test_logs_outlive_pods_and_the_job(jobs: Jobs, kubeconfig: Path, tmp_path: Path) -> None:
    """The gang is recreated, then its job is deleted with all its pods, and no one followed."""
    name = unique("outlives")
    script = (
        "import os, signal, sys, time; signal.signal(15, lambda *_: sys.exit(1)); "
        "print('begun', flush=True); print('on', os.uname()[1], file=sys.stderr, flush=True); "
        "time.sleep(600)"
    )
    jobs.launch(name, command=["python3", "-c", script])

    def printed(but: set[str]) -> set[str]:
        """Return two other pods that have both printed, or an empty set."""
        names = {pod["metadata"]["name"] for pod in jobs.pods(name)} - but
        texts = [jobs.kubectl("logs", "-n", NAMESPACE, "-c", "node", pod).stdout for pod in names]
        return names if [text.count("\n") for text in texts] == [2, 2] else set()

    wait(lambda: bool(printed(set())), 60, f"{name} to print")
    first = printed(set())
    jobs.cluster.delete(kube.core(NAMESPACE, "pods", min(first)))
    wait(lambda: bool(printed(first)), 60, f"{name} to print again")
    mine = ("--kubeconfig", str(researcher(kubeconfig, tmp_path)))
    before = jobs.run("logs", name, "--previous", *mine)
    assert before.returncode == 0, before.stderr
    nodes = [f"[node-{node}]" for node in (0, 1)]
    assert sorted(x for x in before.stdout.splitlines() if "begun" in x) == [
        f"{node} begun" for node in nodes
    ]
    jobs.clear(name)
    gone = jobs.run("logs", name, *mine)
    assert gone.returncode == 0, gone.stderr
    assert [x.split()[0] for x in gone.stdout.splitlines()] == [nodes[0]] * 4 + [nodes[1]] * 4
    assert gone.stdout.count(" begun\n") == 4
    assert gone.stdout.count(" on ") == 4
    rank = jobs.run("logs", name, "--rank", "1", *mine).stdout.splitlines()
    assert [x.split()[0] for x in rank] == [nodes[1]] * 4
    left = jobs.cluster.list(kube.jobset(NAMESPACE, ""))
    assert not [item for item in left if item["metadata"]["name"].startswith("railhead-logs")]


def test_a_failed_job_exits_1_with_its_reason_and_last_lines(jobs: Jobs) -> None:
    name = unique("breaks")
    script = "import os, sys; print('about to break'); sys.exit(int(os.environ['PET_NODE_RANK']))"
    path = jobs.job_file(name, command=["python3", "-c", script], env={"PYTHONUNBUFFERED": "1"})
    done = jobs.run("launch", path, "--wait")
    assert done.returncode == ExitCode.FAILED
    assert f"{name} failed: " in done.stderr
    assert "exited 1" in done.stderr
    assert "about to break" in done.stderr
    assert jobs.status(name)["phase"] == "failed"


def test_wait_past_the_limit_of_time(jobs: Jobs) -> None:
    """Kueue suspends it; it neither completes nor fails."""
    name = unique("late")
    script = "import time; print('still at it', flush=True); time.sleep(600)"
    path = jobs.job_file(name, command=["python3", "-c", script], timeout="30s")
    done = jobs.run("launch", path, "--wait")
    assert done.returncode == ExitCode.FAILED, done.stderr
    assert f"{name} was suspended: Kueue has deactivated it" in done.stderr
    assert jobs.status(name)["phase"] == "suspended"


def test_arguments_reach_the_process_unchanged(jobs: Jobs) -> None:
    """Arguments pass through no shell, no expansion by the kubelet and no YAML guesswork."""
    name = unique("words")
    words = ["$(PET_NNODES)", "$$", "$HOME", "`id`", "; id", "a b", "'", '"', "0.10", "*", "$$(X)"]
    script = "import os, sys, json; print(json.dumps([sys.argv[1:], os.environ['TRICKY']]))"
    path = jobs.job_file(
        name,
        nodes=1,
        command=["python3", "-c", script, *words],
        env={"TRICKY": "$(PET_NNODES) $$ %"},
    )
    done = jobs.run("launch", path, "--follow")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[0].removeprefix("[node-0] "))
    assert printed == [words, "$(PET_NNODES) $$ %"]


def test_files_land_in_the_workspace_byte_for_byte(jobs: Jobs) -> None:
    name = unique("files")
    (jobs.directory / "data.bin").write_bytes(bytes(range(256)))
    script = (
        "print(open('/workspace/data.bin', 'rb').read() == bytes(range(256)))\n"
        "try: open('/workspace/x', 'w')\n"
        "except OSError as error: print(error.strerror)"
    )
    path = jobs.job_file(name, nodes=1, command=["python3", "-c", script], files=["data.bin"])
    done = jobs.run("launch", path, "--follow")
    assert done.stdout == "[node-0] True\n[node-0] Read-only file system\n"
    owned = jobs.cluster.get(kube.core(NAMESPACE, "configmaps", f"{name}-files"))
    assert owned["metadata"]["ownerReferences"][0]["name"] == name
    assert jobs.run("cancel", name).returncode == 0
    assert jobs.cluster.find(kube.core(NAMESPACE, "configmaps", f"{name}-files")) is None


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"nodes": 3}, ExitCode.REFUSED, "nodes: 3 is more than runtime torch can have"),
        ({"gpus_per_node": 9}, ExitCode.BAD_INPUT, "gpus_per_node: 9 is not allowed with runtime"),
        ({"runtime": "torhc"}, ExitCode.BAD_INPUT, "did you mean 'torch'"),
        ({"queue": "trainig"}, ExitCode.BAD_INPUT, "did you mean 'training'"),
        (
            {"env": {"GLOO_SOCKET_IFNAME": "eth0"}},
            ExitCode.BAD_INPUT,
            "set by the cluster's fabric",
        ),
    ],
)
def test_refused_before_anything_is_created(
    jobs: Jobs, fields: dict[str, Any], code: int, says: str
) -> None:
    name = unique("refused")
    done = jobs.run("launch", jobs.job_file(name, **fields))
    assert done.returncode == code
    assert says in done.stderr
    assert jobs.cluster.find(kube.trainjobs(NAMESPACE, name)) is None
    assert jobs.cluster.find(kube.core(NAMESPACE, "configmaps", f"{name}-files")) is None


def test_a_researcher_needs_no_more_than_the_stacks_role(
    jobs: Jobs, kubeconfig: Path, tmp_path: Path
) -> None:
    """Launch, watch, read and cancel as someone who is no administrator."""
    mine = ("--kubeconfig", str(researcher(kubeconfig, tmp_path)))
    name = unique("ada")
    (jobs.directory / "hello.py").write_text("print('hello')\n")
    path = jobs.job_file(
        name, nodes=1, command=["python3", "/workspace/hello.py"], files=["hello.py"]
    )
    done = jobs.run("launch", path, "--follow", *mine)
    assert done.returncode == 0, done.stderr
    assert "not checked" not in done.stderr
    assert done.stdout == "[node-0] hello\n"
    assert jobs.run("status", name, *mine).returncode == 0
    assert jobs.run("logs", name, *mine).stdout == "[node-0] hello\n"
    assert jobs.run("cancel", name, *mine).returncode == 0


# -- proof before the command -------------------------------------------------------------------


def test_verified_job_stops_on_tcp(jobs: Jobs) -> None:
    """A lab has no RDMA: no command starts, nothing is retried, and status says why."""
    name = unique("verify")
    path = jobs.job_file(name, command=["torchrun", "--no-python", "echo", "the command ran"])
    done = jobs.run("launch", path, "--verify", "--follow")
    assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
    assert "the command ran" not in done.stdout
    shown = jobs.run("status", name)
    stopped = "railhead verify: stopped, failed; the command was not started: the transport is TCP"
    assert f": {stopped}: " in next(x for x in shown.stdout.splitlines() if "first to fail" in x)
    state = json.loads(jobs.run("status", name, "--json").stdout)
    assert (state["phase"], state["restarts"]) == ("failed", 0)
    ended = [pod["reason"] for pod in state["pods"] if pod["phase"] == "Failed"]
    assert ended
    assert set(ended) == {"exited 78 (Error)"}
    jobs.clear(name)
