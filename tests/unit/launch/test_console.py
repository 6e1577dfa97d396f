"""Tests of the console: durations, changes of phase, the live line of a terminal."""

from __future__ import annotations

import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import rich.console

from railhead.base.errors import PrerequisiteError
from railhead.kube.client import ApiError, Cluster
from railhead.kube.jobs import Phase
from railhead.launch import console, submit
from railhead.launch.logs import stream
from railhead.launch.logs.stream import Line, _Tail
from tests.unit.launch import world
from tests.unit.launch.conftest import Clock
from tests.unit.launch.fake_api import Api

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (172799, "47h"),
        (172800, "2d"),
        (259199, "2d"),
    ],
)
def test_a_duration_is_in_its_largest_sensible_unit(seconds: int, shown: str) -> None:
    assert console.since(seconds) == shown


def test_no_number_is_cut_by_a_narrow_terminal(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "WIDTH", 40)
    rows = [("job-" + "x" * 30, "512.0", "it waits for GPUs and then for some more")]
    console.table(("JOB", "GPU HOURS", "WHY"), rows, folded=("WHY",))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1].startswith(f"job-{'x' * 30}  512.0      it waits for")
    assert max(map(len, lines)) <= 34 + 9 + console.NARROW + 2 * 3
    console.table(("JOB",), [])
    assert capsys.readouterr().out.strip() == "JOB"


def state(phase: Phase, detail: str = "", name: str = "demo") -> Any:
    over = phase.finished
    return SimpleNamespace(phase=phase, detail=detail, name=name, uid=name, over=over)


def test_phase_is_printed_once_and_repeated_after_a_while(clock: Clock, capsys: Captured) -> None:
    progress = console.ConsoleProgress(name="demo")
    texts = []
    for after, phase, detail in (
        (0.0, Phase.QUEUED, "waits"),
        (1.0, Phase.QUEUED, "waits"),
        (15.0, Phase.QUEUED, "waits"),
        (15.5, Phase.QUEUED, "waits"),
        (16.0, Phase.QUEUED, "waits for more"),
        (17.0, Phase.RUNNING, ""),
        (32.5, Phase.RUNNING, ""),
    ):
        clock.now = after
        progress.changed(state(phase, detail))
        texts.append(capsys.readouterr().err)
    progress.close()
    assert texts == [
        "   0.0s  queued: waits\n",
        "",
        "",
        "  15.5s  queued: waits\n",
        "  16.0s  queued: waits for more\n",
        "  17.0s  running\n",
        "  32.5s  running\n",
    ]


def test_lines_of_several_jobs_have_their_names(
    clock: Clock, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = console.ConsoleProgress()
    for second in (0.0, 1.0, 17.0):
        clock.now = second
        progress.changed(state(Phase.RUNNING, name="a"))
        progress.changed(state(Phase.QUEUED, "waits", name="b"))
    assert capsys.readouterr().err.splitlines() == [
        "   0.0s  a running",
        "   0.0s  b queued: waits",
        "  17.0s  a running",
    ]


def test_a_terminal_has_one_live_line_while_nothing_runs(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    reported: list[str] = []

    class Status:
        def start(self) -> None:
            reported.append("start")

        def stop(self) -> None:
            reported.append("stop")

        def update(self, text: str) -> None:
            reported.append(text)

    monkeypatch.setattr(rich.console.Console, "status", lambda _self, _text: Status())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = console.ConsoleProgress(name="demo", text=Line.dated)
    progress.changed(state(Phase.QUEUED, "waits"))
    clock.now += 20
    progress.changed(state(Phase.QUEUED, "waits"))
    assert reported == ["start", "demo: queued, 0 s", "demo: queued, 20 s"]
    # Nothing was new: on a terminal the live line says that it goes on.
    assert capsys.readouterr().err == "   0.0s  queued: waits\n"
    progress.line(Line(node=1, text="hello", at="2026-01-01T00:00:00Z"))
    assert reported[3:] == ["stop"]
    dated = capsys.readouterr().out
    assert "hello" in dated
    assert "2026-01-01" in dated
    progress.changed(state(Phase.RUNNING))
    progress.changed(state(Phase.FAILED))
    assert reported[4:] == []
    progress.changed(state(Phase.ADMITTED))
    assert reported[4:] == ["start", "demo: admitted, 20 s"]
    progress.changed(state(Phase.RUNNING))
    assert reported[6:] == ["stop"]
    progress.close()
    assert reported[6:] == ["stop"]
    progress.changed(state(Phase.QUEUED))
    # What is said stands where the live line was, and not behind it.
    monkeypatch.setattr(console, "say", lambda text: reported.append(text.split()[-1]))
    progress.changed(state(Phase.ADMITTED))
    assert reported[7:] == ["start", "demo: queued, 20 s", "stop", "admitted", *reported[-2:]]
    assert reported[-2:] == ["start", "demo: admitted, 20 s"]


def test_the_server_is_asked_no_more_often_than_a_watch_needs(
    api: Api, cluster: Cluster, clock: Clock
) -> None:
    states = submit.watch(cluster, world.job(api, "demo"))
    for _ in range(4):
        next(states)
    assert clock.slept == [submit.POLL_SECONDS] * 3


def pod(uid: str = "u", *, restarts: int = 0, ended: bool = False) -> dict[str, Any]:
    how = {"terminated": {"exitCode": 0}} if ended else {"running": {}}
    return {
        "metadata": {"name": "p", "uid": uid, "labels": {}, "annotations": {}},
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "node", "restartCount": restarts, "state": how}],
        },
    }


@pytest.mark.parametrize(
    ("live", "over"),
    [
        (None, True),
        (pod("another"), True),
        (pod(restarts=1), True),
        (pod(ended=True), True),
        (pod(), False),
    ],
)
def test_log_is_complete_when_its_container_has_ended(live: Any, over: bool) -> None:
    tail = object.__new__(_Tail)
    tail._cluster = SimpleNamespace(find=lambda _path: live)  # type: ignore[assignment]
    tail._namespace = "training"
    tail._node = SimpleNamespace(pod="p", uid="u", restarts=0)  # type: ignore[assignment]
    assert tail._over() is over


class Answers:
    """A cluster that answers each reading of a log with the next of these, and then with 404."""

    def __init__(self, *answers: BaseException | None) -> None:
        self.answers = [*answers]
        self.read = 0

    @contextmanager
    def log_lines(self, *_: object, **__: object) -> Iterator[list[str]]:
        self.read += 1
        answer = (
            self.answers.pop(0) if self.answers else ApiError(status=404, reason="", message="gone")
        )
        if answer is not None:
            raise answer
        yield [f"2026-01-02T03:04:0{self.read}Z line"]

    def find(self, path: str) -> Any:
        return pod()


BROKEN = ApiError(status=500, reason="", message="broken")
AWAY = PrerequisiteError("away", remedy="wait")


@pytest.mark.parametrize(
    ("answers", "read", "told"),
    [
        ([], 1, None),
        ([None, None], 3, None),
        ([BROKEN] * 5, 6, None),
        ([BROKEN] * 6, 6, BROKEN),
        ([*[BROKEN] * 5, None, *[BROKEN] * 5], 12, None),
        ([AWAY] * 30, 31, None),
        ([AWAY] * 31, 31, AWAY),
        ([TimeoutError()] * 3, 4, None),
    ],
)
def test_a_log_is_asked_for_again_for_a_while(
    answers: list[BaseException | None],
    read: int,
    told: BaseException | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.0)
    cluster: Any = Answers(*answers)
    node: Any = SimpleNamespace(pod="p", uid="u", restarts=0, index=0, name="node-0")
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
    tail = _Tail(cluster, "training", node, tail=None, sink=lines)
    assert tail.ended.wait(10)
    assert (cluster.read, tail.error) == (read, told)
    assert lines.qsize() == answers.count(None)


def test_silence_ends_a_log_whose_container_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read once more, since the last lines may be on their way."""
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.0)
    cluster: Any = Answers(*[TimeoutError()] * 9)
    cluster.find = lambda _path: None
    node: Any = SimpleNamespace(pod="p", uid="u", restarts=0, index=0, name="node-0")
    tail = _Tail(cluster, "training", node, tail=None, sink=queue.SimpleQueue())
    assert tail.ended.wait(10)
    assert (cluster.read, tail.error) == (2, None)


def test_a_job_of_the_same_name_is_another(api: Api, cluster: Cluster) -> None:
    states = submit.watch(cluster, world.job(api, "demo"))
    assert next(states).name == "demo"
    world.job(api, "demo")
    assert next(states, None) is None


def test_patience_is_from_the_last_answer_on(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the job has run before."""
    texts: list[Phase | None] = [Phase.RUNNING, Phase.RUNNING, None, Phase.COMPLETED]

    def read(*_: object) -> Any:
        if (item := texts.pop(0)) is None:
            raise BROKEN
        return state(item)

    monkeypatch.setattr("railhead.kube.jobs.read_state", read)
    job = {"metadata": {"namespace": "training", "name": "demo", "uid": "u"}}
    lasting: Any = SimpleNamespace(find=lambda _: job)
    phases = []
    for entry in submit.watch(lasting, job):
        phases.append(entry.phase)
        clock.now += submit.PATIENCE_SECONDS - 1
    assert phases == [Phase.RUNNING, Phase.RUNNING, Phase.COMPLETED]


@pytest.mark.parametrize("patience", [0.0, 60.0])
def test_a_cluster_that_does_not_answer_is_asked_for_a_while(
    patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "PATIENCE_SECONDS", patience)
    monkeypatch.setattr(submit, "POLL_SECONDS", 0.0)
    answers: list[Any] = [BROKEN, AWAY, None]

    def find(_path: str) -> Any:
        if (answer := answers.pop(0)) is not None:
            raise answer

    cluster: Any = SimpleNamespace(find=find)
    job = {"metadata": {"namespace": "training", "name": "demo", "uid": "u"}}
    if patience:
        assert list(submit.watch(cluster, job)) == []
        return
    with pytest.raises(ApiError):
        list(submit.watch(cluster, job))
    assert answers == [AWAY, None]
