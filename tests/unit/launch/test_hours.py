"""`railhead list --hours`: GPU hours, the wait in the queue, and what restarts took."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from railhead.base.errors import ExitCode
from railhead.contract import Queue
from railhead.launch import hours
from railhead.launch.logs import kept
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api

DAY = "2026-01-02T"
Start = list[tuple[str, str]]


def minutes(**steps: str) -> Start:
    """Return lines, each by the minute of the hour at which it was printed."""
    return [(f"{DAY}02:{name[1:]}:00Z", text) for name, text in steps.items()]


def steps(first: int, *numbers: int) -> Start:
    """Return a step a minute, from this one on."""
    return [(f"{DAY}02:{first + n:02}:00Z", f"step {number}/9") for n, number in enumerate(numbers)]


def job(
    api: Api,
    name: str,
    *,
    user: str = "ada",
    restarts: int = 0,
    before: int = 0,
    admitted: str = "02:00",
    again: str = "02:00",
    ended: str = "04:00",
) -> Any:
    """Return a job of 16 GPUs that was submitted at 01:00."""
    owner = world.job(api, name)
    owner["metadata"] |= {
        "annotations": {"railhead.dev/user": user},
        "creationTimestamp": f"{DAY}01:00:00Z",
    }
    status = world.workload(api, owner, admitted=bool(ended))["status"]
    status["accumulatedPastExecutionTimeSeconds"] = before
    if before:
        status["schedulingStats"] = {"evictions": [{"reason": "Preempted", "count": 1}]}
    status["conditions"][1]["lastTransitionTime"] = f"{DAY}{admitted}:00Z"
    if ended:
        at = f"{DAY}{ended}:00Z"
        row = {"type": "Finished", "status": "True", "lastTransitionTime": at}
        status["conditions"].append(row)
        owner["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        state = {"terminated": {"exitCode": 0, "finishedAt": at}}
        pod = world.pod(api, owner, 0, state=state, phase="Succeeded")
        pod["metadata"]["creationTimestamp"] = f"{DAY}{again}:00Z"
    api.put(
        world.JOBSETS,
        {
            "metadata": {"name": name, "ownerReferences": [{"uid": owner["metadata"]["uid"]}]},
            "status": {"restarts": restarts},
        },
    )
    return owner


def keep(owner: Any, *starts: Start) -> None:
    """Keep the logs of earlier starts on this machine."""
    uid = owner["metadata"]["uid"]
    folder = kept.folder("training", owner["metadata"]["name"], uid)
    for number, lines in enumerate(starts):
        writer = folder.writer(index=0, uid=f"gone-{number}", restarts=0, of=2)
        for at, text in lines:
            writer.write(f"{at} {text}")
        writer.close()


# -- what was lost ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        # Saved at 2, died after 4, was at 3 again six minutes after the first time.
        ([steps(0, 1, 2, 3, 4), steps(8, 3, 4, 5)], 6),
        # Saved each step: what it lost is the time until the next one.
        ([steps(0, 1, 2), steps(8, 3, 4)], 7),
        # Twice from one step: all between the first and the third time.
        ([steps(0, 1, 2, 3), steps(8, 2, 3), steps(20, 2, 3)], 19),
        # What the second did before the third went on from it counts.
        ([steps(0, 1, 2, 3, 4), steps(10, 2, 3, 4, 5), steps(20, 4, 5)], 9 + 8),
        # One that died before its first step.
        ([steps(0, 1, 2), minutes(m05="importing"), steps(9, 2, 3)], 8),
        ([minutes(m00="importing"), steps(9, 1, 2)], 9),
        # A bar of another total, and one that begins at 0, are not the training's.
        ([steps(0, 1, 2, 3), [(f"{DAY}02:05:00Z", "shards: 1/4 [00:00<"), *steps(8, 3)]], 6),
        ([steps(0, 1, 2, 3), steps(7, 0, 3, 4)], 6),
        ([steps(0, 1, 2)], 0),
        # It is not known from where it goes on.
        ([steps(0, 1, 2), minutes(m09="importing")], None),
        ([minutes(m00="no steps"), minutes(m09="no steps")], None),
    ],
)
def test_lost_is_what_was_done_twice(starts: list[Start], expected: int | None) -> None:
    assert hours.lost_seconds(starts) == (None if expected is None else expected * 60)


def test_time_in_the_queue_is_not_lost() -> None:
    starts = [steps(0, 1, 2, 3, 4), steps(30, 3, 4)]
    assert hours.lost_seconds(starts) == 28 * 60
    assert hours.lost_seconds(starts, queued_between=True) == 60


# -- the table ----------------------------------------------------------------------------------


def test_steps_say_what_a_restart_took(api: Api, run: Any) -> None:
    owner = job(api, "demo", restarts=1, again="02:20")
    keep(owner, steps(0, 1, 2, 3, 4))
    lines = [f"{at} {text}" for at, text in steps(30, 3, 4)]
    api.logs["demo-node-0-0-abcde"] = lines
    [row] = json.loads(run("list", "--hours", "job", "--json")[1])
    assert row == {
        "job": "training/demo",
        "jobs": 1,
        "user": "ada",
        "queue": "training/training",
        "phase": "completed",
        "restarts": 1,
        "queued_seconds": 3600,
        "gpu_hours": 32.0,
        "lost_gpu_hours": 7.47,
        "lost_at_most": False,
        "goodput": 0.767,
    }
    logs = [query for _, path, query in api.asked if path.endswith("/log")]
    assert [query["limitBytes"] for query in logs] == [str(hours.HEAD_BYTES)]
    code, out, err = run("list", "--hours", "job")
    words = ["training/demo", "ada", "training/training", "60m", "32.0", "1", "7.5"]
    assert (code, out.splitlines()[1].split(), "<=" in err) == (0, [*words, "77%"], False)


def test_without_its_logs_all_earlier_time_may_be_lost(api: Api, run: Any) -> None:
    job(api, "demo", restarts=2, again="02:30")
    job(api, "other", user="bob")
    code, out, err = run("list", "--hours", "user")
    ada, bob, total = (" ".join(line.split()) for line in out.splitlines()[1:])
    assert (code, ada) == (0, "ada 1 60m 32.0 2 <= 8.0 >= 75%")
    assert bob == "bob 1 60m 32.0 0 0.0 100%"
    assert total == "all 2 2h 64.0 2 <= 8.0 >= 88%"
    assert "<=: all time before the last restart" in err
    # Of two restarts the logs of one say too little.
    keep(api.objects[f"{world.JOBS}/demo"], steps(0, 1, 2))
    assert "<= 8.0" in run("list", "--hours", "user")[1]


def test_eviction_costs_its_work_and_not_its_wait(api: Api, run: Any) -> None:
    owner = job(api, "demo", before=1200, admitted="03:00", again="03:01")
    [row] = json.loads(run("list", "--hours", "queue", "--json")[1])
    assert (row["restarts"], row["queued_seconds"], row["gpu_hours"]) == (1, 6000, 21.33)
    assert (row["lost_gpu_hours"], row["lost_at_most"]) == (5.6, True)
    keep(owner, steps(0, 1, 2, 3, 4))
    api.logs["demo-node-0-0-abcde"] = [f"{DAY}03:02:00Z importing", f"{DAY}03:05:00Z step 3/9"]
    [row] = json.loads(run("list", "--hours", "queue", "--json")[1])
    assert (row["lost_gpu_hours"], row["lost_at_most"]) == (round(4 / 60 * 16, 2), False)


def test_job_whose_time_is_over_waits_no_longer(api: Api, run: Any) -> None:
    owner = job(api, "demo", ended="")
    made = world.run_out(api, owner)
    made["status"]["accumulatedPastExecutionTimeSeconds"] = 3600
    made["status"]["conditions"][0]["lastTransitionTime"] = f"{DAY}02:30:00Z"
    [row] = json.loads(run("list", "--hours", "job", "--json")[1])
    assert (row["phase"], row["queued_seconds"], row["gpu_hours"]) == ("suspended", 1800, 16.0)


@pytest.mark.parametrize(
    ("restarts", "minutes", "lives", "says"),
    [
        (2, 4, 0, ""),
        (3, 119, 0, "restarted 3 times, after less than 40 min each"),
        (3, 122, 0, ""),
        (9, 60, 39, "restarted 9 times"),
        # Its last attempt goes on.
        (9, 60, 41, ""),
    ],
)
def test_status_reports_a_gang_that_keeps_dying(
    api: Api, run: Any, restarts: int, minutes: int, lives: int, says: str
) -> None:
    owner = job(api, "demo", restarts=restarts, ended="")
    now = datetime.now(UTC)
    status = world.workload(api, owner, admitted=True)["status"]
    since = now - timedelta(minutes=minutes)
    status["conditions"][1]["lastTransitionTime"] = since.isoformat()
    if lives:
        made = world.pod(api, owner, 0, state={"running": {}})["metadata"]
        made["creationTimestamp"] = (now - timedelta(minutes=lives)).isoformat()
    detail = json.loads(run("list", "--json")[1])[0]["detail"]
    assert (says in detail, "restarted" in detail) == (True, bool(says))


def test_reading_the_kept_logs_makes_no_folder(api: Api, run: Any) -> None:
    job(api, "demo", restarts=1)
    assert run("list", "--hours", "job")[0] == 0
    assert not kept.home().exists()


def test_where_nothing_is_recorded_there_is_no_number(api: Api, run: Any) -> None:
    world.job(api, "demo")
    assert run("list", "--hours", "job")[1].splitlines()[1].split()[3:] == [*"--", "0", "0.0", "-"]
    [row] = json.loads(run("list", "--hours", "job", "--json")[1])
    assert (row["gpu_hours"], row["queued_seconds"], row["goodput"]) == (None, None, None)


def test_hours_of_a_team_are_those_of_its_queues(api: Api, run: Any) -> None:
    queue = CONTRACT.queues[0].model_copy(update={"team": "vision"})
    other = Queue(name="spare", namespace="training", cluster_queue="spare", flavors=("gpu",))
    publish(api, CONTRACT.model_copy(update={"queues": (queue, other)}))
    job(api, "demo")
    job(api, "more")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "spare"
    rows = {row["team"]: row for row in json.loads(run("list", "--hours", "team", "--json")[1])}
    assert {name: row["jobs"] for name, row in rows.items()} == {"vision": 1, "": 1}
    code, _, err = run("list", "--hours", "teams")
    assert (code, "allowed: job, user, queue, team" in err) == (ExitCode.BAD_INPUT, True)
