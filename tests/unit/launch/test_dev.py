"""`railhead dev`: the job it makes, what it says to kubectl, and when the job ends by itself."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import cli
from railhead.base.errors import ExitCode
from railhead.launch.dev import HOLD, SHELL
from railhead.launch.jupyter import START
from railhead.twin.plane import free_port
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api

REAL_POPEN = subprocess.Popen
#: What Jupyter writes into its runtime folder.
SERVER = {"port": 8888, "token": "abc", "base_url": "/", "secure": False, "version": "2"}
LIMITED = ("env", "TMOUT=3600", *SHELL)


@dataclass
class Kubectl:
    """Words that kubectl got; a forward ends at once, a shell exits with 3 when it may."""

    program: Path
    called: list[list[str]] = field(default_factory=list)
    may_end: Callable[[], bool] = lambda: True
    answer: subprocess.CompletedProcess[str] = field(
        default_factory=lambda: subprocess.CompletedProcess([], 0, json.dumps(SERVER), "")
    )

    def run(self, words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.called.append(words[1:])
        return self.answer

    def forward(self, words: list[str], **streams: int) -> subprocess.Popen[bytes]:
        assert set(streams.values()) == {subprocess.DEVNULL}
        self.called.append(words[1:])
        return REAL_POPEN(["true"])

    def shell(self, words: list[str]) -> int:
        assert words[0] == str(self.program)
        self.called.append(words[1:])
        while not self.may_end():
            time.sleep(0.01)
        return 3

    def count(self, word: str) -> int:
        return sum(word in words for words in self.called)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    fake = Kubectl(tmp_path / "bin" / "kubectl")
    fake.program.parent.mkdir()
    fake.program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{fake.program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(subprocess, "Popen", fake.forward)
    monkeypatch.setattr(subprocess, "call", fake.shell)
    monkeypatch.setattr(subprocess, "run", fake.run)
    monkeypatch.setattr("railhead.launch.dev.RETRY_SECONDS", 0.01)
    monkeypatch.setattr("railhead.launch.dev.LOOK_SECONDS", 0.1)
    return fake


@pytest.fixture
def admitting(api: Api) -> Api:
    """The same cluster, where whatever is submitted runs at once."""

    def begin(path: str, body: Any) -> None:
        if path.startswith(world.JOBS):
            world.admit(api, body)

    api.on_create = begin
    return api


@pytest.fixture
def dry(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Any]]:
    """Return the objects of a dry run."""

    def call(*words: object) -> list[Any]:
        given = ["dev", "--dry-run", "--kubeconfig", str(kubeconfig), *map(str, words)]
        code = cli.run(given)
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return list(yaml.safe_load_all(printed.out))

    return call


# -- the job ------------------------------------------------------------------------------------


def test_the_job_holds_its_pod_open(dry: Any) -> None:
    (made,) = dry("--name", "mine", "--gpus", "2", "--idle", "30m", "--", "jupyter", "lab", "-y")
    trainer, labels = made["spec"]["trainer"], made["metadata"]["labels"]
    # As the kubelet leaves them.
    words = [word.replace("$$", "$") for word in [*trainer["command"], *trainer["args"]]]
    assert words == ["sh", "-c", HOLD, "railhead-dev", "1800", "jupyter", "lab", "-y"]
    assert trainer["numNodes"] == 1
    assert trainer["resourcesPerNode"]["requests"]["nvidia.com/gpu"] == "2"
    assert {"name": "RAILHEAD_LAUNCHER", "value": "none"} in trainer["env"]
    assert labels["kueue.x-k8s.io/queue-name"] == "training"
    assert labels["kueue.x-k8s.io/max-exec-time-seconds"] == str(8 * 3600)
    assert labels["railhead.dev/launcher"] == "own"


def test_a_job_file_gives_its_fields(dry: Any, job_file: Path) -> None:
    with job_file.open("a") as file:
        file.write("verify: true\nlauncher: own\ntimeout: 2d\n")
    (job_file.parent / "more.py").touch()
    files, made = dry(
        job_file, "--files", job_file.parent / "more.py", "--set", "env.LR=1", "--for", "3h"
    )
    assert set(files["data"]) == {"train.py", "more.py"}
    trainer = made["spec"]["trainer"]
    assert made["metadata"]["name"].startswith("dev-")
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 2)
    assert [*trainer["command"], *trainer["args"]][-2:] == ["railhead-dev", "3600"]
    assert {"EPOCHS": "10", "LR": "1"}.items() <= {
        entry["name"]: entry.get("value") for entry in trainer["env"]
    }.items()
    label = "kueue.x-k8s.io/max-exec-time-seconds"
    assert made["metadata"]["labels"][label] == str(3 * 3600)
    assert dry(job_file)[-1]["metadata"]["labels"][label] == str(8 * 3600)


def test_a_scheduler_without_a_limit_of_time_leaves_idleness(api: Api, run: Any) -> None:
    reason = "nothing ends a TrainJob after a time"
    publish(api, CONTRACT.model_copy(update={"unsaid": {"timeout": reason}}))
    code, out, err = run("dev", "--dry-run")
    assert code == 0, err
    assert "note: only --idle ends it, unless a forgotten shell of an image without bash" in err
    assert f" keeps it: {reason}" in err
    assert "max-exec-time" not in out
    for words in (("--for", "1h"), ("--set", "timeout=1h")):
        code, _, err = run("dev", "--dry-run", *words)
        assert code == ExitCode.BAD_INPUT
        assert f"timeout: {reason}" in err


def test_a_wrong_time_is_refused_without_a_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for option in ("--idle", "--for"):
        words = ["dev", option, "soon", "--kubeconfig", str(tmp_path / "none")]
        assert cli.run(words) == ExitCode.BAD_INPUT
        assert f"{option} soon: not a time" in capsys.readouterr().err


# -- the shell ----------------------------------------------------------------------------------


def test_a_shell_is_opened_once_it_runs(admitting: Api, run: Any, kubectl: Kubectl) -> None:
    code, out, err = run("dev", "--name", "mine")
    assert (code, out) == (3, "")
    pod = "mine-node-0-0-abcde"
    (shell,) = kubectl.called
    assert shell[2:] == ["-n", "training", "exec", "-i", pod, "-c", "node", "--", *LIMITED]
    for text in (
        "it ends by itself 1h after its last use, and 8h after it began in any case",
        f"files: kubectl -n training cp FILE {pod}:/tmp/ -c node",
        f"Kubernetes Container...`, namespace training, pod {pod}, container node",
        "`railhead dev mine` opens another shell, `railhead cancel mine` ends the job",
    ):
        assert text in err


def test_shell_leaves_a_prompt_as_soon_as_its_job_may_end(
    admitting: Api, run: Any, kubectl: Kubectl
) -> None:
    """A lost connection leaves bash in the container, where it counts as use."""
    assert run("dev", "--name", "mine", "--idle", "30m")[0] == 3
    assert run("dev", "mine")[0] == 3
    world.admit(admitting, world.job(admitting, "demo"))
    assert run("dev", "demo")[0] == 3
    limit = ["env", "TMOUT=1800"]
    shells = [words[words.index("--") + 1 :] for words in kubectl.called]
    assert shells == [[*limit, *SHELL], [*limit, *SHELL], [*SHELL]]


@pytest.mark.slow
def test_bash_ends_at_its_limit_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        ["env", "TMOUT=1", *SHELL],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        assert process.wait(timeout=20) == 0
    os.close(theirs)
    os.close(ours)


def test_ports_are_forwarded_again_while_the_shell_is_open(
    admitting: Api, run: Any, kubectl: Kubectl
) -> None:
    kubectl.may_end = lambda: kubectl.count("port-forward") > 2
    local, same = free_port(), free_port()
    _, _, err = run("dev", "--name", "mine", "--port", f"{local}:8888", "--port", str(same))
    forward = next(words for words in kubectl.called if "port-forward" in words)
    pod = "pod/mine-node-0-0-abcde"
    assert forward[2:] == ["-n", "training", "port-forward", pod, f"{local}:8888", str(same)]
    assert kubectl.count("exec") == 1
    assert f"port 8888 of the pod is localhost:{local} while the shell is open" in err
    assert f"port {same} of the pod is localhost:{same} while the shell is open" in err


def test_a_port_that_is_taken_here_is_named(api: Api, run: Any, kubectl: Kubectl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run("dev", "--name", "mine", "--port", f"{port}:80")
    assert code == ExitCode.BAD_INPUT
    assert f"--port {port}:80: this machine's port cannot be had: Address already in use" in err
    assert f"{world.JOBS}/mine" not in api.objects


def test_a_terminal_here_is_one_there(
    api: Api, run: Any, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.admit(api, world.job(api, "demo"))
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True)
    assert run("dev", "demo", "--node", "1")[0] == 3
    assert kubectl.called[0][4:8] == ["exec", "-i", "-t", "demo-node-0-1-abcde"]


def test_a_script_gets_the_job_and_no_shell(admitting: Api, run: Any, kubectl: Kubectl) -> None:
    code, out, _ = run("dev", "--name", "mine", "--no-attach", "--json")
    assert (code, json.loads(out)["phase"], kubectl.called) == (0, "running", [])


def test_a_job_that_has_ended_has_no_shell(api: Api, run: Any, kubectl: Kubectl) -> None:
    owner = world.job(api, "demo")
    world.admit(api, owner)
    world.end(api, owner)
    code, _, err = run("dev", "demo")
    assert (code, kubectl.called) == (ExitCode.FAILED, [])
    assert "error: demo is completed" in err


def test_who_may_open_no_shell_gets_no_job(api: Api, run: Any, kubectl: Kubectl) -> None:
    api.denied = {"exec"}
    code, _, err = run("dev", "--name", "mine")
    assert code == ExitCode.REFUSED
    assert "you may not open a shell in its pods (pods/exec)" in err
    assert f"{world.JOBS}/mine" not in api.objects
    # Without a shell it is a job like any other.
    assert run("dev", "--dry-run")[0] == 0
    api.denied = {"portforward"}
    code, _, err = run("dev", "--name", "mine", "--port", str(free_port()))
    assert code == ExitCode.REFUSED
    assert "you may not forward ports of its pods (pods/portforward)" in err
    assert f"{world.JOBS}/mine" not in api.objects


def test_what_contradicts_itself_is_refused(
    api: Api, run: Any, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.admit(api, world.job(api, "demo"))
    for words, text in (
        (("demo", "--gpus", "1", "--idle", "1h"), "demo: a job that runs takes no gpus, idle"),
        (("--json",), "--json: standard output is the shell's"),
        (("--no-attach", "--port", "1"), "--port: no shell is open"),
        (("--no-attach", "--jupyter"), "--jupyter: its address leads here"),
        (("--port", "x"), "x: not a port"),
        (("--idle", "soon"), "--idle soon: not a time; allowed: a duration"),
        (("--for", "soon"), "--for soon: not a time; allowed: a duration"),
        (("--set", "command=x"), "--set 'command=x'"),
        (("--image", "A b"), "image: 'A b' is not allowed"),
        (("missing.yaml",), "missing.yaml"),
    ):
        code, _, err = run("dev", *words)
        assert code == ExitCode.BAD_INPUT, words
        assert text in err, words
    assert run("dev", "dmeo")[0] == ExitCode.NOT_FOUND
    assert not kubectl.called
    monkeypatch.setenv("PATH", "")
    assert run("dev", "--name", "mine")[0] == ExitCode.MISSING_PREREQUISITE
    assert f"{world.JOBS}/mine" not in api.objects


# -- a notebook ---------------------------------------------------------------------------------


@pytest.fixture
def interrupted(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C once the port is brought here."""

    def look(*_: object) -> bool:
        while not kubectl.count("port-forward"):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr("railhead.launch.dev._ended", look)


def test_a_notebook_has_an_address_here(
    admitting: Api, run: Any, kubectl: Kubectl, interrupted: None
) -> None:
    port = free_port()
    kubectl.answer.stdout = json.dumps(SERVER | {"port": port})
    code, out, err = run("dev", "--name", "mine", "--jupyter", "--idle", "30m")
    assert (code, out) == (0, "")
    assert f"JupyterLab, until Ctrl-C: http://localhost:{port}/lab?token=abc\n" in err
    assert "`railhead dev mine --jupyter` comes back" in err
    start, forward = kubectl.called[:2]
    pod = "mine-node-0-0-abcde"
    assert start[2:10] == ["-n", "training", "exec", pod, "-c", "node", "--", "sh"]
    assert start[-3:] == [START, "railhead-jupyter", "1800"]
    assert forward[2:] == ["-n", "training", "port-forward", f"pod/{pod}", f"{port}:{port}"]
    # Neither an object of the cluster nor a file here has the token.
    assert "abc" not in json.dumps(admitting.objects[f"{world.JOBS}/mine"]["spec"])
    assert run("dev", "mine", "--jupyter")[0] == 0
    assert f"{world.JOBS}/mine" in admitting.objects


def test_a_port_that_is_taken_gives_way(
    admitting: Api, run: Any, kubectl: Kubectl, interrupted: None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        kubectl.answer.stdout = json.dumps(SERVER | {"port": port, "base_url": "/mine/"})
        err = run("dev", "--name", "mine", "--jupyter")[2]
    match = re.search(r"http://localhost:(\d+)/mine/lab\?token=abc", err)
    assert match is not None
    assert int(match[1]) != port


@pytest.mark.parametrize("new", [True, False])
def test_an_image_without_a_notebook_is_named(
    admitting: Api, run: Any, kubectl: Kubectl, new: bool
) -> None:
    kubectl.answer.returncode = 127
    if not new:
        world.admit(admitting, world.job(admitting, "mine"))
    code, _, err = run("dev", *(("--name",) if new else ()), "mine", "--jupyter")
    assert code == ExitCode.MISSING_PREREQUISITE
    assert "mine's image has no jupyter-lab on its PATH\n  fix: begin another with an image" in err
    # What holds GPUs for nothing ends.
    assert (f"{world.JOBS}/mine" in admitting.objects, "mine was ended" in err) == (not new, new)


def test_a_notebook_that_does_not_start_says_why(
    admitting: Api, run: Any, kubectl: Kubectl
) -> None:
    kubectl.answer = subprocess.CompletedProcess([], 1, "", "ImportError: no tornado\n")
    code, _, err = run("dev", "--name", "mine", "--jupyter")
    assert code == ExitCode.FAILED
    assert "JupyterLab does not start in mine: ImportError: no tornado" in err


def test_notebook_ends_with_its_pod(api: Api, run: Any, kubectl: Kubectl) -> None:
    owner = world.job(api, "demo")
    world.admit(api, owner)
    kubectl.answer.stdout = json.dumps(SERVER | {"port": free_port()})
    threading.Timer(0.3, api.remove, [f"{world.PODS}/demo-node-0-0-abcde"]).start()
    code, _, err = run("dev", "demo", "--jupyter")
    assert code == ExitCode.FAILED
    assert "demo: pod demo-node-0-0-abcde does not run any longer" in err


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run what starts a notebook, with a program in its place that reports as Jupyter does."""
    (tmp_path / "bin").mkdir()
    env = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}

    def start(program: str) -> subprocess.CompletedProcess[str]:
        if program:
            file = tmp_path / "bin" / "jupyter-lab"
            file.write_text(f"#!/bin/sh\n{program}\n")
            file.chmod(0o755)
        words = ["sh", "-c", START, "railhead-jupyter", "30"]
        return subprocess.run(
            words, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    yield start
    for file in tmp_path.glob("railhead-jupyter-*/jpserver-*.json"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.stem.partition("-")[2]), signal.SIGKILL)


@pytest.mark.slow
def test_a_notebook_is_started_once_with_a_secret_token(lab: Any, tmp_path: Path) -> None:
    assert lab("").returncode == 127
    program = (
        'echo "$@" >&2; printf \'{"token": "%s"}\' "$(cat $JUPYTER_TOKEN_FILE)" '
        ">$JUPYTER_RUNTIME_DIR/jpserver-$$.json; exec sleep 60"
    )
    first, again = lab(program), lab(program)
    assert (first.returncode, again.stdout) == (0, first.stdout)
    token = json.loads(first.stdout)["token"]
    assert re.fullmatch("[0-9a-f]{48}", token)
    (folder,) = tmp_path.glob("railhead-jupyter-*")
    assert {oct(file.stat().st_mode & 0o77) for file in (folder, *folder.iterdir())} == {"0o0"}
    log = (folder / "log").read_text()
    assert ("--MappingKernelManager.cull_idle_timeout=30" in log, token in log) == (True, False)


@pytest.mark.slow
def test_a_notebook_that_ends_at_once_is_reported(lab: Any) -> None:
    result = lab("echo broken >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "broken\n")


# -- its end ------------------------------------------------------------------------------------


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run what holds a pod open on a folder of processes, five hundred times as fast."""
    (tmp_path / "proc").mkdir()
    begun: list[subprocess.Popen[str]] = []

    def hold(*command: str) -> subprocess.Popen[str]:
        text = HOLD.replace("/proc", f"{tmp_path}/proc").replace("sleep 10", "sleep 0.02")
        process = subprocess.Popen(
            ["sh", "-c", text, "railhead-dev", "30", *command],
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        (tmp_path / "proc" / str(process.pid)).mkdir()
        return process

    yield hold
    for process in begun:
        process.kill()
        process.wait()


def stays(process: subprocess.Popen[str]) -> bool:
    """Return whether it is there after far longer than it stays unused."""
    time.sleep(0.4)
    return process.poll() is None


@pytest.mark.slow
def test_it_ends_once_nothing_else_has_run(held: Any, tmp_path: Path) -> None:
    other = tmp_path / "proc" / "999999999"
    other.mkdir()
    process = held()
    assert stays(process)
    other.rmdir()
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "railhead: nothing has run here for 30 s\n")


@pytest.mark.slow
def test_its_command_runs_beside_it(held: Any, tmp_path: Path) -> None:
    process = held("echo", "$HOME; *")
    out, _ = process.communicate(timeout=10)
    assert out.splitlines()[0] == "$HOME; *"


@pytest.mark.slow
def test_a_deleted_pod_goes_at_once_and_is_no_success(held: Any, tmp_path: Path) -> None:
    (tmp_path / "proc" / "999999999").mkdir()
    process = held()
    assert stays(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=5) == 143
