"""Everything after the launch: wait, list, describe, top, restart, exec, port-forward."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from railhead import cli
from railhead.base.errors import ExitCode
from railhead.contract import ClusterContract, Queue
from railhead.launch import board, console, patches
from railhead.launch.submit import SUBMITTED
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, Clock, publish
from tests.unit.launch.fake_api import Api
from tests.unit.launch.test_commands import play

STAMP = "2026-01-02T03:04:05.000000001Z"
JOB = f"{world.JOBS}/demo"
FILES = "/api/v1/namespaces/training/configmaps/demo-files"


@pytest.fixture
def running(api: Api) -> Any:
    owner = world.job(api, "demo")
    world.admit(api, owner)
    return owner


# -- wait ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("failed", "expected"), [(False, ExitCode.OK), (True, ExitCode.FAILED)])
def test_wait_ends_as_the_job_ends(
    api: Api, run: Any, running: Any, failed: bool, expected: ExitCode
) -> None:
    timer = threading.Timer(0.3, world.end, args=(api, running), kwargs={"failed": failed})
    timer.start()
    code, out, err = run("wait", "demo", "--json")
    assert code == expected
    assert json.loads(out)[0]["phase"] == ("failed" if failed else "completed")
    assert ("demo failed" in err) is failed


@pytest.mark.parametrize(
    "command",
    [
        ("wait", "demo", "--timeout", "60"),
        ("logs", "demo", "--follow"),
        ("status", "demo", "--watch"),
    ],
)
def test_job_whose_time_is_over_is_waited_for_no_longer(
    api: Api, run: Any, running: Any, clock: Clock, command: tuple[str, ...]
) -> None:
    clock.then[0.2] = lambda: world.run_out(api, running)
    clock.then[3.0] = lambda: world.remove_pods(api, running)
    code, _, err = run(*command)
    assert clock.now >= 3, "its pods have the time to save that their runtime gives them"
    assert code == (ExitCode.FAILED if command[0] == "wait" else ExitCode.OK)
    assert ("demo was suspended: Kueue has deactivated it: The wor" in err) is (
        command[0] == "wait"
    )
    assert "was deleted" not in err


def test_wait_gives_up_in_time_for_all_of_them_together(
    api: Api, run: Any, running: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.job(api, "other")
    closed: list[str] = []
    monkeypatch.setattr(console.ConsoleProgress, "close", lambda _: closed.append("closed"))
    clock.then[0.475] = lambda: world.end(api, running)
    code, _, err = run("wait", "demo", "demo", "other", "--timeout", "2")
    assert code == ExitCode.TIMED_OUT
    assert (
        "other: not finished after 2 s; it goes on\n  fix: `railhead status other` shows it, "
        "`railhead cancel other` ends it" in err
    )
    # What was live goes, also where nobody waits any longer.
    assert len(closed) == 1
    # What has ended by then is looked at all the same.
    assert clock.now == pytest.approx(2, abs=0.1)


def test_wait_names_a_wrong_name_before_it_waits(run: Any, running: Any) -> None:
    code, _, err = run("wait", "demo", "dmeo")
    assert code == ExitCode.NOT_FOUND
    assert "did you mean 'demo'?" in err


def test_a_job_that_is_deleted_did_not_complete(api: Api, run: Any, running: Any) -> None:
    def remove_once_it_is_watched() -> None:
        while ("GET", world.PODS) not in [(method, path) for method, path, _ in api.asked]:
            time.sleep(0.01)
        api.remove(JOB)
        # With it go its pods, and so their logs end.
        api.open_logs.clear()

    threading.Thread(target=remove_once_it_is_watched, daemon=True).start()
    code, _, err = run("wait", "demo")
    assert code == ExitCode.FAILED
    assert "demo was deleted" in err


# -- list, describe -----------------------------------------------------------------------------


def test_list_has_a_line_a_job_and_can_choose(api: Api, run: Any, running: Any) -> None:
    world.job(api, "other")
    assert [line.split()[0] for line in run("list")[1].splitlines()] == ["demo", "other"]
    code, out, _ = run("list", "--phase", "running")
    assert (code, [line.split()[:2] for line in out.splitlines()]) == (0, [["demo", "running"]])
    assert [s["name"] for s in json.loads(run("list", "--json")[1])] == ["demo", "other"]


def test_gpu_hours_add_up_all_admissions(api: Api, run: Any) -> None:
    """Three jobs of 16 GPUs: one ran twice, one ended, one was put back and waits."""
    for name, user, before, ended in (
        ("twice", "ada", 1800, "02:30"),
        ("ended", "ada", 0, "04:00"),
        ("waits", "", 3600, ""),
    ):
        owner = world.job(api, name)
        owner["metadata"]["annotations"] = {"railhead.dev/user": user}
        status = world.workload(api, owner, admitted=bool(ended))["status"]
        status["accumulatedPastExecutionTimeSeconds"] = before
        status["conditions"][1]["lastTransitionTime"] = "2026-01-02T02:00:00Z"
        if ended:
            at = f"2026-01-02T{ended}:00Z"
            row = {"type": "Finished", "status": "True", "lastTransitionTime": at}
            status["conditions"].append(row)
    code, out, _ = run("list", "--hours", "user")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert (code, [[*row[:2], row[3]] for row in rows]) == (
        0,
        [["ada", "2", "48.0"], ["-", "1", "16.0"], ["all", "3", "64.0"]],
    )
    [first, *_] = json.loads(run("list", "--hours", "job", "--json")[1])
    assert (first["job"], first["gpu_hours"]) == ("training/ended", 32.0)
    [queue] = json.loads(run("list", "--hours", "queue", "--json")[1])
    assert (queue["queue"], queue["jobs"], queue["gpu_hours"]) == ("training/training", 3, 64.0)


def test_a_phase_that_there_is_not_is_refused(run: Any) -> None:
    code, _, err = run("list", "--phase", "runing")
    assert code == ExitCode.BAD_INPUT
    assert "allowed: queued, admitted" in err


def test_describe_tells_what_happened_in_order_and_no_value(
    api: Api, run: Any, running: Any
) -> None:
    running["spec"]["trainer"] |= {
        "command": ["torchrun"],
        "args": ["a b.py"],
        "env": [{"name": "TOKEN", "value": "hush"}],
    }
    running["status"] = {
        "conditions": [
            {
                "type": "Suspended",
                "status": "False",
                "lastTransitionTime": "2026-01-02T03:00:00Z",
                "message": "it was let go",
            },
            {
                "type": "Odd",
                "status": "True",
                "lastTransitionTime": "2026-01-02T03:00:01Z",
                "reason": "WithoutWords",
            },
        ]
    }
    api.put(
        "/api/v1/namespaces/training/events",
        {
            "metadata": {"name": "e1"},
            "involvedObject": {"uid": running["metadata"]["uid"], "name": "demo"},
            "type": "Warning",
            "reason": "Odd",
            "message": "something is odd",
            "count": 3,
            "lastTimestamp": "2026-01-02T03:10:00Z",
        },
    )
    code, out, _ = run("describe", "demo")
    assert code == 0
    assert "hush" not in out
    assert "torchrun 'a b.py'" in out
    assert "node-1:      demo-node-0-1-abcde on lab-node-1, Running" in out
    assert out.index("it was let go") < out.index("something is odd (3 times)")
    result = json.loads(run("describe", "demo", "--json")[1])
    assert result["environment"] == ["TOKEN"]
    assert [item["reason"] for item in result["history"] if item["warning"]] == ["Odd"]
    reported = {item["reason"]: item["text"] for item in result["history"]}
    assert reported["not Suspended"] == "it was let go"
    assert "WithoutWords" in [item["text"] for item in result["history"]]


# -- top ----------------------------------------------------------------------------------------


def stamp(ago: int) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_top_names_a_node_that_went_silent(api: Api, run: Any, running: Any) -> None:
    api.open_logs.clear()
    api.logs["demo-node-0-0-abcde"] = [f"{stamp(3)} step 12/90 loss 0.5"]
    api.logs["demo-node-0-1-abcde"] = [f"{stamp(board.SILENT_SECONDS)} step 11/90 loss 0.6"]
    code, out, _ = run("top", "demo")
    assert code == 0
    assert "step 12/90" in out
    assert "demo: node-1 has printed nothing for 5m" in out
    assert "node-0 has" not in out
    row = json.loads(run("top", "demo", "--json")[1])
    assert (row["step"], row["loss"], [*row["silent_seconds"]]) == ("12/90", "0.5", ["node-1"])


QUEUES = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/training/localqueues/training"


def rows(out: str) -> list[list[str]]:
    """Return the tables' rows, each in its words."""
    return [line.split() for line in out.splitlines()]


def test_top_of_an_idle_team_shows_its_queue(run: Any) -> None:
    code, out, _ = run("top")
    assert code == 0
    assert rows(out)[1:] == [["training", "gpu", "12", "of", "16", "4", "2", "of", "2", "0"], [],
                             ["no", "job", "runs"]]  # fmt: skip


def test_top_shows_who_runs_and_who_waits_where(api: Api, run: Any, running: Any) -> None:
    api.open_logs.clear()
    api.logs["demo-node-0-0-abcde"] = [f"{stamp(3)} step 12/90 loss 0.5"]
    running["metadata"]["annotations"] = {"railhead.dev/user": "ada"}
    waits = [world.job(api, name) for name in ("late", "early")]
    for owner in waits:
        message = "insufficient unused quota for nvidia.com/gpu in flavor gpu, 12 more needed"
        world.workload(api, owner, message=message)
    api.objects[f"{QUEUES}/pendingworkloads"] = {
        "items": [
            {
                "metadata": {"name": "x", "ownerReferences": [{"uid": owner["metadata"]["uid"]}]},
                "positionInClusterQueue": 1 - place,
                "positionInLocalQueue": 1 - place,
            }
            for place, owner in enumerate(waits)
        ]
    }
    world.end(api, world.job(api, "over", nodes=0))
    result = rows(run("top")[1])
    assert ["demo", "ada", "running", "2", "16", "step", "12/90", "0.5", "-", "0"] in [
        row[:-1] for row in result
    ]
    why = "12 nvidia.com/gpu must become free in flavor gpu".split()
    assert [[*row[:5], *row[7:]] for row in result if row and row[0] in "12"] == [
        ["1", "early", "-", "queued", "2", *why],
        ["2", "late", "-", "queued", "2", *why],
    ]
    read = json.loads(run("top", "--json")[1])
    assert read["queues"] == [
        {
            "queue": "training",
            "pool": "gpu",
            "gpus": 16,
            "gpus_used": 12,
            "gpus_free": 4,
            "nodes": 2,
            "nodes_used": 2,
            "nodes_down": 0,
        }
    ]
    assert [(row["name"], row["user"]) for row in read["running"]] == [("demo", "ada")]
    assert [(row["name"], row["place"]) for row in read["waiting"]] == [("early", 1), ("late", 2)]


def test_a_page_shows_what_the_tables_show(
    api: Api, run: Any, running: Any, tmp_path: Path
) -> None:
    api.open_logs.clear()
    running["metadata"]["annotations"] = {"railhead.dev/user": "<b>ada</b>"}
    world.workload(api, world.job(api, "late"), message="insufficient unused quota")
    file = tmp_path / "queue.html"
    assert run("top", "--html", str(file))[:2] == (0, "")
    page = file.read_text()
    assert not [*tmp_path.glob(".*")]
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert cells[:6] == ["training", "gpu", "12 of 16", "4", "2 of 2", "0"]
    assert cells[6:9] == ["demo", "&lt;b&gt;ada&lt;/b&gt;", "running"]
    assert "late" in cells
    assert 'http-equiv="refresh"' in page
    for words, error in (
        (("demo", "--html", str(file)), "--html is of all jobs"),
        (("--html", str(tmp_path / "none" / "x.html")), "name a file in a folder"),
    ):
        code, _, err = run("top", *words)
        assert (code, error in err) == (ExitCode.BAD_INPUT, True)


def test_top_of_a_viewer_does_not_count_nodes_that_are_down(api: Api, run: Any) -> None:
    api.objects["/api/v1/nodes/gpu-0"]["spec"]["unschedulable"] = True
    assert json.loads(run("top", "--json")[1])["queues"][0]["nodes_down"] == 1
    api.refusals[("GET", "/api/v1/nodes")] = (403, "nodes is forbidden")
    assert json.loads(run("top", "--json")[1])["queues"][0]["nodes_down"] is None
    assert rows(run("top")[1])[1][-1] == "?"


def test_watched_table_lists_the_nodes_once(api: Api, run: Any, clock: Clock) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.then = {10.0: interrupt}
    run("top", "--watch")
    paths = [path for _, path, _ in api.asked]
    assert paths.count("/api/v1/nodes") == 1
    assert paths.count("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training") == 2


def test_other_teams_namespaces_are_left_out(api: Api, run: Any, running: Any) -> None:
    """A contract names all teams' namespaces; each may read its own."""
    theirs = Queue(
        name="their", namespace="their", cluster_queue="their", flavors=("gpu",), pools=("gpu",)
    )
    mine = CONTRACT.queues
    publish(
        api,
        CONTRACT.model_copy(
            update={"queues": (theirs, *mine), "namespaces": ("their", "training")}
        ),
    )
    base = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/their/trainjobs"
    closed = (base, f"{base}/demo", f"{base}/dmeo")
    queue = "/apis/kueue.x-k8s.io/v1beta2/namespaces/their/localqueues/their"
    files = [f"/api/v1/namespaces/their/configmaps/dmeo-files{n}" for n in ("", "-1")]
    for path in (*closed, queue, *files):
        api.refusals[("GET", path)] = (403, "forbidden")
    assert run("list")[1].startswith("demo ")
    assert "demo" in run("status")[1]
    assert run("describe", "demo")[0] == 0
    assert [row["queue"] for row in json.loads(run("top", "--json")[1])["queues"]] == ["training"]
    code, _, err = run("cancel", "dmeo")
    assert (code, "did you mean 'demo'?" in err) == (ExitCode.NOT_FOUND, True)
    # If it is all of them, that is an error.
    code, _, err = run("list", "--namespace", "their")
    assert (code, "forbidden" in err) == (ExitCode.REFUSED, True)


def test_who_launches_a_job_is_on_it(api: Api, run: Any, job_file: Path) -> None:
    run("launch", job_file)
    assert api.objects[JOB]["metadata"]["annotations"]["railhead.dev/user"] == "ada"
    assert json.loads(run("status", "demo", "--json")[1])["user"] == "ada"
    # A cluster that does not say who one is takes the job all the same.
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    api.refusals[("POST", path)] = (403, "forbidden")
    assert run("launch", job_file, "--name", "other")[0] == 0
    assert "railhead.dev/user" not in api.objects[f"{world.JOBS}/other"]["metadata"]["annotations"]


# -- restart ------------------------------------------------------------------------------------


def test_restart_submits_what_was_submitted(api: Api, run: Any, job_file: Path) -> None:
    (job_file.parent / "b.bin").write_bytes(b"\xff")
    job_file.write_text(job_file.read_text().replace("[train.py]", "[train.py, b.bin]"))
    run("launch", job_file)
    before, files_before = json.loads(json.dumps([api.objects[JOB], api.objects[FILES]]))
    # By its name: another Railhead may have submitted what this one restarts.
    assert "railhead.dev/submitted" in before["metadata"]["annotations"]
    # What Kueue and Trainer add to a job that they let go.
    api.objects[JOB]["spec"]["suspend"] = False
    api.objects[JOB]["spec"]["podTemplateOverrides"].append({"targetJobs": [{"name": "node"}]})
    code, _, err = run("restart", "demo")
    assert (code, "created TrainJob training/demo again" in err) == (0, True)
    now = api.objects[JOB]
    assert now["metadata"]["uid"] != before["metadata"]["uid"]
    assert now["metadata"]["labels"] == before["metadata"]["labels"]
    files = api.objects[FILES]
    assert files["data"] == {"train.py": "say('hello')\n"}
    assert files["binaryData"] == {"b.bin": "/w=="}
    assert files | {"metadata": None} == files_before | {"metadata": None}
    assert files["metadata"]["labels"] == files_before["metadata"]["labels"]
    assert now | {"metadata": None} == before | {"metadata": None}
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "demo"}
    assert files["metadata"]["ownerReferences"] == [owner | {"uid": now["metadata"]["uid"]}]
    # And once more: what was asked for is still known.
    play(api)
    code, out, _ = run("restart", "demo", "--follow")
    assert (code, len(out.splitlines())) == (0, 4)


def test_old_job_is_resubmitted_in_the_new_trainers_form(
    api: Api, run: Any, job_file: Path, contract: ClusterContract
) -> None:
    run("launch", job_file)
    assert "podTemplateOverrides" in api.objects[JOB]["spec"]
    publish(api, contract.model_copy(update={"placement_field": "runtimePatches"}))
    # What the newer definition does not have is dropped.
    del api.objects[JOB]["spec"]["podTemplateOverrides"]
    assert run("restart", "demo")[0] == 0
    spec = api.objects[JOB]["spec"]
    assert "podTemplateOverrides" not in spec
    (patch,) = spec["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert node["template"]["spec"]["template"]["spec"]["volumes"]
    before = json.loads(json.dumps(spec))
    # It stays so: what was asked for is known in the field of now.
    assert run("restart", "demo")[0] == 0
    assert api.objects[JOB]["spec"] == before


@pytest.mark.slow
@pytest.mark.parametrize("field", ["podTemplateOverrides", "runtimePatches"])
@pytest.mark.parametrize("patched", [True, False])
def test_restart_leaves_machines_out(
    api: Api, run: Any, job_file: Path, contract: ClusterContract, field: str, patched: bool
) -> None:
    """The node of the first failure, also in a job whose pods nothing patched before."""
    publish(api, contract.model_copy(update={"placement_field": field}))
    if not patched:
        job_file.write_text(job_file.read_text().replace("files: [train.py]\n", ""))
    run("launch", job_file)
    volumes = field in api.objects[JOB]["spec"]
    assert volumes is patched
    assert run("restart", "demo", "--avoid", "gpu-1")[0] == 0
    assert run("restart", "demo", "--avoid", "gpu-2", "--avoid", "gpu-1")[0] == 0
    spec = api.objects[JOB]["spec"]
    assert patches.avoided(spec) == ["gpu-1", "gpu-2"]
    assert run("restart", "demo")[0] == 0
    assert api.objects[JOB]["spec"] == spec
    overrides = patches.in_field(spec, "podTemplateOverrides")["podTemplateOverrides"]
    assert [job["name"] for job in overrides[0]["targetJobs"]] == ["node"]
    assert ("volumes" in overrides[0]["spec"]) is patched


def test_job_that_stays_is_not_resubmitted(
    api: Api, run: Any, job_file: Path, clock: Clock
) -> None:
    run("launch", job_file)
    uid = api.objects[JOB]["metadata"]["uid"]
    api.reluctant.add(JOB)
    code, _, err = run("restart", "demo", "--timeout", "1")
    assert (code, api.objects[JOB]["metadata"]["uid"]) == (ExitCode.TIMED_OUT, uid)
    assert "waiting for TrainJob demo\n" in err
    assert "demo: still there after 1 s: TrainJob demo\n" in err


def test_a_job_of_another_hand_is_not_restarted(api: Api, run: Any, running: Any) -> None:
    code, _, err = run("restart", "demo")
    assert code == ExitCode.MISSING_PREREQUISITE
    assert "was not launched by `railhead launch`" in err
    assert JOB in api.objects


def test_job_too_large_for_an_annotation_is_launched(api: Api, run: Any, job_file: Path) -> None:
    # 128 KiB: half of what all annotations of an object may have.
    text = job_file.read_text()
    job_file.write_text(f"{text}  LONG: {'x' * 100_000}\n")
    run("launch", job_file)
    room = 131_072 - len(api.objects[JOB]["metadata"]["annotations"][SUBMITTED])
    for more, kept in ((room, True), (room + 1, False)):
        api.remove(JOB)
        job_file.write_text(f"{text}  LONG: {'x' * (100_000 + more)}\n")
        assert run("launch", job_file)[0] == 0
        assert (SUBMITTED in (api.objects[JOB]["metadata"].get("annotations") or {})) is kept


# -- exec, port-forward -------------------------------------------------------------------------


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    called: list[list[str]] = []

    def become(path: str, words: list[str]) -> None:
        assert path == str(program)
        called.append(words[1:])

    monkeypatch.setattr(os, "execv", become)
    return called


def test_exec_hands_words_to_kubectl_as_they_are(
    running: Any, kubectl: list[list[str]], kubeconfig: Path
) -> None:
    asked = ["exec", "demo", "--node", "1", "--kubeconfig", str(kubeconfig)]
    assert cli.run([*asked, "--", "sh", "-c", "a; $b"]) == 0
    (words,) = kubectl
    assert words == [
        "--kubeconfig", str(kubeconfig), "-n", "training", "exec", "demo-node-0-1-abcde",
        "-c", "node", "--", "sh", "-c", "a; $b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("terminals", "flags"),
    [(("stdin", "stdout"), ["-i", "-t"]), (("stdin",), []), (("stdout",), [])],
)
def test_a_terminal_at_both_ends_is_one_there(
    run: Any,
    running: Any,
    kubectl: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    terminals: tuple[str, ...],
    flags: list[str],
) -> None:
    for name in terminals:
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True)
    assert run("exec", "demo", "sh", "--context", "fake")[0] == 0
    assert kubectl[0][2:] == [
        *("--context", "fake", "-n", "training", "exec", *flags),
        *("demo-node-0-0-abcde", "-c", "node", "--", "sh"),
    ]


def test_a_port_is_brought_here(run: Any, running: Any, kubectl: list[list[str]]) -> None:
    assert run("port-forward", "demo", "8080:6006")[0] == 0
    assert kubectl[0][-3:] == ["port-forward", "pod/demo-node-0-0-abcde", "8080:6006"]


@pytest.mark.parametrize("port", ["0", "x", "1:2:3", "70000", "-1", "--address=0.0.0.0"])
def test_invalid_port_never_reaches_kubectl(
    running: Any, kubectl: list[list[str]], kubeconfig: Path, port: str
) -> None:
    words = ["port-forward", "demo", "--kubeconfig", str(kubeconfig), "--", port]
    assert cli.run(words) == ExitCode.BAD_INPUT
    assert not kubectl


def test_a_node_that_does_not_run_is_named(api: Api, run: Any, running: Any, kubectl: Any) -> None:
    assert run("port-forward", "demo", "6006", "--node", "7")[0] == ExitCode.NOT_FOUND
    world.end(api, running, failed=True)
    code, _, err = run("port-forward", "demo", "6006", "--node", "1")
    assert code == ExitCode.MISSING_PREREQUISITE
    assert "node-1 does not run: Failed exited 1" in err


def test_without_kubectl_it_says_so(
    run: Any, running: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = run("port-forward", "demo", "6006")
    assert code == ExitCode.MISSING_PREREQUISITE
    assert "kubectl is not on PATH" in err
