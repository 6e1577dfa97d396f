"""Tests of `railhead launch --after`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import ExitCode
from railhead.contract import Queue
from railhead.kube import jobs
from railhead.kube.errors import NoAnswerError
from railhead.launch import submit
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, Clock, publish
from tests.unit.launch.fake_api import Api

NEW = f"{world.JOBS}/demo"


@pytest.fixture
def before(api: Api) -> Any:
    owner = world.job(api, "pretrain")
    world.admit(api, owner)
    return owner


def test_launched_when_another_has_completed(
    api: Api, run: Any, job_file: Path, before: Any, clock: Clock
) -> None:
    def complete() -> None:
        assert NEW not in api.objects, "it waits"
        world.end(api, before)

    clock.then[0.4] = complete
    code, out, err = run("launch", job_file, "--after", "pretrain", "--json")
    assert code == 0
    assert NEW in api.objects
    assert json.loads(out)["name"] == "demo"
    assert "to be launched when training/pretrain has completed; Ctrl-C launches nothing" in err
    assert err.index("running") < err.index("created TrainJob training/demo")
    checked, created = (
        min(
            n
            for n, (method, path, q) in enumerate(api.asked)
            if (method, path, "dryRun" in q) == ("POST", world.JOBS, dry)
        )
        for dry in (True, False)
    )
    looked = min(n for n, (_, path, _) in enumerate(api.asked) if path == world.PODS)
    assert checked < looked < created, "admission is asked before anything is waited for"


@pytest.mark.parametrize(
    ("end", "how", "launched"),
    [
        (end, how, bool(end))
        for end in ("", ":any")
        for how in ("failed", "was deleted", "was suspended: Kueue has deactivated it")
    ],
)
def test_end_of_a_job_that_was_needed(
    api: Api,
    run: Any,
    job_file: Path,
    before: Any,
    clock: Clock,
    end: str,
    how: str,
    launched: bool,
) -> None:
    def over() -> None:
        if "deleted" in how:
            api.remove(f"{world.JOBS}/pretrain")
            api.open_logs.clear()
        elif "suspended" in how:
            world.run_out(api, before)
            world.remove_pods(api, before)
        else:
            world.end(api, before, failed=True)

    clock.then[0.2] = over
    code, _, err = run("launch", job_file, "--after", f"pretrain{end}", "--timeout", "60")
    assert (code == 0, NEW in api.objects) == (launched, launched)
    if not launched:
        assert code == ExitCode.REFUSED
        assert f"--after: pretrain {how}" in err
        assert "nothing was launched" in err


def test_all_that_are_named_are_waited_for(
    api: Api, run: Any, job_file: Path, before: Any, clock: Clock
) -> None:
    for number in range(2):
        done = world.job(api, f"sweep-{number}")
        done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    clock.then[0.3] = lambda: world.end(api, before, failed=True)
    names = ("--after", "sweep-*", "--after", "pretrain:any")
    code, _, err = run("launch", job_file, *names, "--matrix", "env.LR=1,2")
    assert code == 0
    ends = ("sweep-0 has completed", "sweep-1 has completed", "pretrain has ended")
    assert f"when {' and '.join(f'training/{name}' for name in ends)}; Ctrl-C" in err
    assert {f"{NEW}-0", f"{NEW}-1"} <= api.objects.keys()


@pytest.mark.parametrize(
    ("options", "expected", "says"),
    [
        (("--after", "pretrian"), ExitCode.NOT_FOUND, "did you mean 'pretrain'?"),
        (("--after", "pretrain:ok"), ExitCode.BAD_INPUT, "'ok' is no end of a job"),
        (("--after", "pretrain", "--nodes", "3"), ExitCode.REFUSED, "nodes: 3 is more than"),
        (("--after", "pretrain", "--api", "jobset"), ExitCode.BAD_INPUT, "launches none"),
    ],
)
def test_errors_before_anything_is_waited_for(
    run: Any, job_file: Path, before: Any, options: Any, expected: ExitCode, says: str
) -> None:
    code, _, err = run("launch", job_file, *options)
    assert (code, says in err, "to be launched" in err) == (expected, True, False)


def test_dry_run_waits_for_nothing(api: Api, run: Any, job_file: Path, before: Any) -> None:
    code, out, _ = run("launch", job_file, "--after", "pretrain", "--dry-run")
    assert (code, "kind: TrainJob" in out, NEW in api.objects) == (0, True, False)


def test_interrupt_launches_nothing(
    api: Api, run: Any, job_file: Path, before: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "watch_all", interrupted)
    code, _, err = run("launch", job_file, "--after", "pretrain")
    assert (code, NEW in api.objects) == (ExitCode.INTERRUPTED, False)
    assert "nothing was launched" in err


def test_lost_connection_while_it_waits(
    api: Api,
    run: Any,
    job_file: Path,
    before: Any,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submit, "POLL_SECONDS", 50.0)
    job = f"{world.JOBS}/pretrain"
    clock.then[50.0] = lambda: api.refusals.update({("GET", job): (503, "starting")})
    clock.then[100.0] = api.refusals.clear
    clock.then[150.0] = lambda: world.end(api, before)
    assert run("launch", job_file, "--after", "pretrain")[0] == 0
    assert NEW in api.objects


def test_five_minutes_without_a_server_launch_nothing(
    api: Api,
    run: Any,
    job_file: Path,
    before: Any,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submit, "POLL_SECONDS", 50.0)
    reads: list[bool] = []

    def no_answer(*_: Any) -> Any:
        reads.append(True)
        raise NoAnswerError("lab: no answer", remedy="ask again")

    def lost() -> None:
        monkeypatch.setattr(jobs, "find_again", no_answer)

    clock.then[50.0] = lost
    code, _, err = run("launch", job_file, "--after", "pretrain")
    assert (code, NEW in api.objects) == (ExitCode.MISSING_PREREQUISITE, False)
    assert "nothing was launched" in err
    assert len(reads) > 5


@pytest.mark.slow
def test_a_closed_terminal_launches_nothing(
    api: Api, kubeconfig: Path, job_file: Path, before: Any
) -> None:
    words = ["launch", job_file, "--after", "pretrain", "--kubeconfig", kubeconfig]
    # Under nohup the tests' own children ignore the signal.
    command = ["env", "--default-signal=HUP", sys.executable, "-m", "railhead", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        seen = next(line for line in process.stderr if "to be launched when" in line)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=30) == -signal.SIGHUP
    assert seen.endswith("Ctrl-C launches nothing, nor does a terminal that is closed\n")
    assert NEW not in api.objects


@pytest.fixture
def other_team(api: Api) -> str:
    """A namespace that the contract names first, with jobs of its own; returns their path."""
    queue = Queue(
        name="their", namespace="their", cluster_queue="their", flavors=("gpu",), pools=("gpu",)
    )
    changed = {"queues": (queue, *CONTRACT.queues), "namespaces": ("their", "training")}
    publish(api, CONTRACT.model_copy(update=changed))
    jobs = world.JOBS.replace("training", "their")
    for name in ("pretrain", "sweep-9", "elsewhere"):
        api.put(
            jobs,
            {
                "metadata": {"name": name},
                "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 1}},
                "status": {"conditions": [{"type": "Complete", "status": "True"}]},
            },
        )
    return jobs


@pytest.mark.parametrize(
    ("after", "meant"),
    [
        ("pretrain", "training/pretrain has completed"),
        ("sweep-*", "training/sweep-0 has completed"),
        ("elsewhere", "their/elsewhere has completed"),
    ],
)
@pytest.mark.parametrize("matrix", [(), ("--matrix", "env.LR=1,2")])
def test_a_name_means_a_job_of_its_own_namespace(
    api: Api,
    run: Any,
    job_file: Path,
    before: Any,
    other_team: str,
    after: str,
    meant: str,
    matrix: tuple[str, ...],
) -> None:
    done = world.job(api, "sweep-0")
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    world.end(api, before)
    words = ("--queue", "training", "--after", after, *matrix)
    code, _, err = run("launch", job_file, *words)
    assert (code, f"to be launched when {meant}; Ctrl-C" in err) == (0, True)


def test_end_of_one_is_seen_while_another_runs(
    api: Api, run: Any, job_file: Path, before: Any, clock: Clock
) -> None:
    world.admit(api, other := world.job(api, "other", nodes=1))

    def gone() -> None:
        api.remove(f"{world.JOBS}/other")

    clock.then |= {
        0.2: lambda: world.end(api, other),
        1.0: gone,
        2.0: lambda: world.end(api, before),
    }
    code, _, err = run("launch", job_file, "--after", "pretrain", "--after", "other")
    assert (code, NEW in api.objects) == (0, True)
    assert err.index("other completed") < err.index("pretrain completed")


def test_failure_of_one_is_heard_while_another_runs(
    api: Api, run: Any, job_file: Path, before: Any, clock: Clock
) -> None:
    world.admit(api, other := world.job(api, "other", nodes=2))
    clock.then[0.2] = lambda: world.end(api, other, failed=True)
    clock.then[9.0] = lambda: world.end(api, before)
    code, _, err = run("launch", job_file, "--after", "pretrain", "--after", "other")
    assert (code, NEW in api.objects) == (ExitCode.REFUSED, False)
    assert "`railhead describe other --namespace training` says what happened" in err
    assert clock.now < 1


def test_limit_of_both_waits_together(
    api: Api, run: Any, job_file: Path, before: Any, clock: Clock
) -> None:
    words = ("launch", job_file, "--after", "pretrain", "--wait", "--timeout", "4")
    code, _, err = run(*words)
    assert (code, NEW in api.objects, "nothing was launched" in err) == (7, False, True)
    assert "pretrain: not finished after 4 s; it goes on" in err
    clock.then[clock.now + 3] = lambda: world.end(api, before)
    code, _, err = run(*words)
    assert (code, NEW in api.objects) == (7, True)
    assert "demo: not finished after 1 s; it goes on" in err
