"""Requests to a kubelet for a job's logs, and what Railhead makes of its answers."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.base.errors import (
    InputError,
    NotFoundError,
    PrerequisiteError,
    RailheadError,
    TimedOutError,
)
from railhead.contract import Mount
from railhead.kube.client import ApiError
from railhead.kube.jobs import JobState, Node, Phase
from railhead.launch import failing
from railhead.launch.logs import claimed, kept, past, stream
from railhead.launch.logs.stream import Line, Selection, select
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api, Stored

PREFIX = r"\[default(\d+)\]:"
NODE = Node(
    index=0, pod="demo-0", uid="u0", machine="m", phase="Running", started=True, ended=False,
    restarts=0, reason="",
)  # fmt: skip
NEXT = replace(NODE, index=1, pod="demo-1", uid="u1")
GONE = ApiError(status=404, reason="NotFound", message="no pod")
BROKEN = ApiError(status=500, reason="", message="broken")


def state(*nodes: Node, processes: int = 2) -> JobState:
    return JobState(
        name="demo", namespace="training", uid="job", phase=Phase.RUNNING, detail="", queue="q",
        runtime="torch", wanted=len(nodes), processes_per_node=processes, gpus_per_node=8,
        charged=None, created=datetime(2026, 1, 2, tzinfo=UTC), nodes=nodes, restarts=0,
    )  # fmt: skip


def at(second: int, text: str) -> str:
    return f"2026-01-02T03:04:{second:02}.000000001Z {text}"


class Kubelet:
    """Logs by pod, an error among them where one breaks; and what was asked for."""

    def __init__(self, logs: dict[str, list[str | Exception]]) -> None:
        self.logs = logs
        self.asked: list[dict[str, Any]] = []

    @contextmanager
    def log_lines(self, namespace: str, pod: str, **how: Any) -> Iterator[Iterator[str]]:
        self.asked.append({"of": f"{namespace}/{pod}"} | how)
        yield self._lines(f"{pod} before" if how.get("previous") else pod)

    def _lines(self, name: str) -> Iterator[str]:
        for line in self.logs[name]:
            if isinstance(line, Exception):
                raise line
            yield line

    def find(self, path: str) -> None:
        """Find no pod any more."""


def kubelet(**logs: list[str | Exception]) -> Any:
    return Kubelet({name.replace("_", "-"): lines for name, lines in logs.items()})


def asked(pod: str, **more: Any) -> dict[str, Any]:
    """Return the request for a whole log."""
    how = {"container": "node", "follow": False, "tail": None, "previous": False}
    return {"of": f"training/{pod}"} | how | {"quiet_seconds": 60.0} | more


TWO = kubelet(
    demo_0=[at(1, "[default0]:a"), at(3, "[default1]:b")], demo_1=[at(2, "c"), at(4, "no time")]
).logs


# -- which lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "node", "found"),
    [
        (None, None, Selection()),
        (0, None, Selection(node=0, local_rank=0, prefix=PREFIX)),
        (3, None, Selection(node=1, local_rank=1, prefix=PREFIX)),
        (None, 1, Selection(node=1)),
        (-1, None, "--rank -1: demo has ranks 0 to 3\n  fix: name one of them"),
        (4, None, "--rank 4: demo has ranks 0 to 3\n  fix: name one of them"),
        (None, -1, "--node -1: demo has nodes 0 to 1\n  fix: name one of them"),
        (None, 2, "--node 2: demo has nodes 0 to 1\n  fix: name one of them"),
        (0, 0, "--rank and --node both pick one\n  fix: give one of the two"),
    ],
)
def test_a_rank_or_a_node_is_a_selection(
    rank: int | None, node: int | None, found: Selection | str
) -> None:
    if isinstance(found, Selection):
        assert select(state(NODE, NEXT), rank=rank, node=node, prefix=PREFIX) == found
        return
    with pytest.raises(InputError) as refused:
        select(state(NODE, NEXT), rank=rank, node=node, prefix=PREFIX)
    assert str(refused.value) == found


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), "abc"),
        (Selection(node=0), "ab"),
        (Selection(node=1), "c"),
        (Selection(local_rank=0, prefix=PREFIX), "ac"),
        (Selection(node=0, local_rank=1, prefix=PREFIX), "b"),
        (Selection(node=0, local_rank=1), "ab"),
        (Selection(node=0, prefix=PREFIX), "ab"),
    ],
)
def test_a_selection_takes_lines_of_no_process_too(selection: Selection, taken: str) -> None:
    lines = [
        Line(node=0, text="[default0]:a"),
        Line(node=0, text="[default1]:b"),
        Line(node=1, text="c"),
    ]
    assert "".join(line.text[-1] for line in lines if selection.takes(line)) == taken


def test_line_is_printed_in_three_ways() -> None:
    line = Line(node=1, text='say "hi"', at="2026-01-02T03:04:05Z")
    assert str(line) == '[node-1] say "hi"'
    assert line.dated() == '2026-01-02T03:04:05Z [node-1] say "hi"'
    assert json.loads(line.as_json()) == {
        "node": 1,
        "name": "node-1",
        "at": "2026-01-02T03:04:05Z",
        "text": 'say "hi"',
    }


# -- what is there now ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("merged", "texts"),
    [
        (False, ["[default0]:a", "[default1]:b", "c", "no time"]),
        (True, ["[default0]:a", "c", "[default1]:b", "no time"]),
    ],
)
def test_nodes_are_read_one_after_the_other_or_by_time(merged: bool, texts: list[str]) -> None:
    cluster: Any = Kubelet(TWO)
    waiting = replace(NODE, index=2, started=False)
    results = [
        *stream.read(cluster, state(NODE, NEXT, waiting), Selection(), tail=7, merged=merged)
    ]
    assert [line.text for line in results] == texts
    assert cluster.asked == [asked("demo-0", tail=7), asked("demo-1", tail=7)]
    assert (results[0].node, results[0].at) == (0, "2026-01-02T03:04:01.000000001Z")


def test_only_the_requested_node_is_queried() -> None:
    cluster: Any = Kubelet(TWO)
    chosen = Selection(node=0, local_rank=1, prefix=PREFIX)
    results = [*stream.read(cluster, state(NODE, NEXT), chosen, tail=None)]
    assert [line.text for line in results] == ["[default1]:b"]
    assert cluster.asked == [asked("demo-0")]


def test_log_that_stops_midway_is_reported() -> None:
    cluster = kubelet(demo_0=[at(1, "a"), TimeoutError()])
    with pytest.raises(TimedOutError) as reported:
        list(stream.read(cluster, state(NODE), Selection(), tail=None))
    assert str(reported.value) == "the log of demo-0 stopped in the middle\n  fix: try again"


def test_a_look_at_the_last_lines_is_content_with_less() -> None:
    look = [asked("demo-0", tail=5)]
    del look[0]["previous"], look[0]["quiet_seconds"]
    look[0]["most_bytes"] = None
    for broken in (TimeoutError(), BROKEN):
        cluster = kubelet(demo_0=[at(1, "a"), broken, at(2, "b")])
        assert stream.stamped(cluster, state(NODE), NODE, tail=5) == [at(1, "a")]
        assert cluster.asked == look
    cluster = kubelet(demo_0=[at(1, "a"), at(2, "b")])
    assert stream.stamped(cluster, state(NODE), NODE, tail=5) == [at(1, "a"), at(2, "b")]


FAILED = replace(NEXT, reason="exited 1")


@pytest.mark.parametrize(
    ("nodes", "texts"),
    [
        ((), []),
        ((NODE, NEXT), ["[default0]:a", "[default1]:b"]),
        ((NODE, FAILED), ["c", "no time"]),
        ((NODE, replace(FAILED, started=False)), ["[default0]:a", "[default1]:b"]),
        ((replace(NODE, reason="exited 1"), FAILED), ["[default0]:a", "[default1]:b"]),
    ],
)
def test_the_last_lines_are_of_the_node_that_failed_first(
    nodes: tuple[Node, ...], texts: list[str]
) -> None:
    cluster: Any = Kubelet(TWO)
    assert [line.text for line in stream.last_lines(cluster, state(*nodes), 20)] == texts
    assert [item["tail"] for item in cluster.asked] == [20] * bool(nodes)


# -- what was before ------------------------------------------------------------------------------


def wrote(folder: kept.Folder, node: Node, *lines: str) -> None:
    writer = folder.writer(index=node.index, uid=node.uid, restarts=node.restarts, of=2)
    for line in lines:
        writer.write(line)
    writer.close()


AGAIN = replace(NODE, restarts=1)


def test_earlier_lines_come_from_this_machine_and_the_kubelet(tmp_path: Path) -> None:
    """Lines come by time, without those of present containers; kept ones are not requested."""
    folder = kept.Folder(path=tmp_path)
    wrote(folder, replace(NEXT, uid="old"), at(5, "c"), at(1, "a"))
    wrote(folder, AGAIN, at(4, "present"))
    cluster = Kubelet({"demo-0 before": [at(2, "b"), at(9, "d")]})
    now = state(AGAIN, NEXT)
    results = [*stream.earlier(cluster, now, Selection(), folder)]  # type: ignore[arg-type]
    assert [(line.node, line.text) for line in results] == [(0, "b"), (1, "c"), (1, "a"), (0, "d")]
    assert cluster.asked == [asked("demo-0", previous=True)]
    wrote(folder, NODE, at(3, "e"))
    results = [*stream.earlier(cluster, now, Selection(node=0), folder)]  # type: ignore[arg-type]
    assert [line.text for line in results] == ["e"]
    assert len(cluster.asked) == 1
    # Of a job that is gone no container is the present one.
    results = [*stream.earlier(cluster, None, Selection(node=0), folder)]  # type: ignore[arg-type]
    assert [line.text for line in results] == ["e", "present"]


@pytest.mark.parametrize("merged", [False, True])
def test_pods_that_went_meanwhile_have_no_lines(merged: bool) -> None:
    job = state(NODE, NEXT)
    how: Any = {"tail": None, "merged": merged}
    some, none = kubelet(demo_0=[GONE], demo_1=[at(2, "c")]), kubelet(demo_0=[GONE], demo_1=[])
    assert [line.text for line in stream.read(some, job, Selection(), **how)] == ["c"]
    with pytest.raises(ApiError, match="no pod"):
        list(stream.read(none, job, Selection(), **how))


@pytest.mark.parametrize("status", [400, 404, 403])
def test_a_container_before_that_the_kubelet_has_no_more(tmp_path: Path, status: int) -> None:
    refused = ApiError(status=status, reason="", message="no")
    cluster: Any = Kubelet({"demo-0 before": [refused]})
    lines = stream.earlier(cluster, state(AGAIN), Selection(), kept.Folder(path=tmp_path))
    if status == 403:
        with pytest.raises(ApiError):
            list(lines)
    else:
        assert list(lines) == []


def job_of(api: Api) -> Any:
    """Return a job that runs, of which nothing is on a claim."""
    publish(api, CONTRACT.model_copy(update={"checkpoints": ()}))
    owner = world.job(api, "demo")
    world.admit(api, owner)
    return owner


def told_of(tell: Callable[..., Iterator[Line]], *given: Any, **how: Any) -> list[str] | str:
    try:
        return [f"{line.node}{line.text[-1]}" for line in tell(*given, **how)]
    except RailheadError as error:
        return error.problem


LINES = [at(n, f"[default{n % 2}]:{text}") for n, text in enumerate("abcd")]
MISSING = NotFoundError("no such job")


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ({}, ["0a", "0c", "1b", "1d"]),
        ({"merged": True}, ["0a", "1b", "0c", "1d"]),
        ({"tail": 1}, ["0c", "1d"]),
        ({"tail": 1, "merged": True}, ["0c", "1d"]),
        ({"node": 1}, ["1b", "1d"]),
        ({"node": 2}, "--node 2: demo has nodes 0 to 1"),
        ({"rank": 1}, ["1b", "1d"]),
        ({"rank": 2}, "--rank 2: demo has ranks 0 to 1"),
        ({"about": True, "rank": 1}, []),
        ({"about": True, "rank": 2}, []),
        ({"about": True, "rank": 3}, ["1b", "1d"]),
        ({"about": True, "rank": 4}, "--rank 4: demo has ranks 0 to 3"),
        ({"where": ("other",)}, "no such job"),
        ({"empty": True}, []),
        ({"empty": True, "node": 1}, "--node 1: demo has nodes 0 to 0"),
    ],
)
def test_logs_of_a_deleted_job(how: dict[str, Any], lines: list[str] | str) -> None:
    """The kept logs give the job's size, since nothing records it."""
    api = Api()
    publish(api, CONTRACT.model_copy(update={"checkpoints": ()}))
    folder = kept.folder("training", "demo", "job")
    folder.describe({})
    if not how.pop("empty", False):
        wrote(folder, NODE, LINES[0], LINES[2])
        wrote(folder, NEXT, LINES[1], LINES[3])
    if how.pop("about", False):
        folder.tell({"name": "demo", "nodes": 2, "processes": 2, "runtime": "torch"}, at=1.0)
    asked = {"rank": None, "node": None} | how
    where = asked.pop("where", ("training",))
    result = told_of(past.gone, Stored(api, {}), where, "demo", MISSING, **asked)
    assert result == lines


def test_before_any_stack_nothing_is_looked_for() -> None:
    none = told_of(past.gone, Stored(Api(), {}), ("a",), "demo", MISSING, rank=None, node=None)
    assert none == "no such job"


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ({}, ["0a", "1b", "0c", "1d"]),
        ({"node": 0}, ["0a", "0c"]),
        ({"rank": 0}, ["0a", "0c"]),
        ({"rank": 1}, []),
        ({"rank": 4}, "--rank 4: demo has ranks 0 to 3"),
    ],
)
@pytest.mark.parametrize("run", ["of this job", "before this job"])
def test_lines_before_now(run: str, how: dict[str, Any], lines: list[str] | str) -> None:
    api = Api()
    uid = job_of(api)["metadata"]["uid"]
    folder = kept.folder("training", "demo", uid if run == "of this job" else "older")
    wrote(folder, NODE, LINES[0], LINES[2])
    wrote(folder, NEXT, LINES[1], LINES[3])
    asked = {"rank": None, "node": None} | how
    assert told_of(past.before, Stored(api, {}), ("training",), "demo", **asked) == lines


def test_unread_claim_is_reported() -> None:
    api = Api()
    publish(api, CONTRACT)
    texts: list[str] = []
    cluster = Stored(api, {world.JOBSETS: 403})
    note = (
        "note: no claim with logs can be read in training; ask someone who "
        "may submit jobs there: a pod of the namespace reads them"
    )
    how = {"rank": None, "node": None, "say": texts.append}
    assert "no job is called 'demo'" in told_of(past.before, cluster, ("training",), "demo", **how)
    assert texts == [note]
    world.admit(api, world.job(api, "demo"))
    assert told_of(past.before, cluster, ("training",), "demo", **how) == []
    assert texts == [note] * 2
    assert told_of(past.gone, cluster, ("training",), "demo", MISSING, **how) == "no such job"
    assert texts == [note] * 3


# -- what is about to go --------------------------------------------------------------------------


def on_disk() -> list[tuple[int, str]]:
    folder = kept.folder("training", "demo", "job")
    return [(node, text) for _, node, text in folder.lines()]


def test_lines_about_to_vanish_are_appended_to_kept_ones() -> None:
    folder = kept.folder("training", "demo", "job")
    wrote(folder, NODE, at(0, "older"), at(1, "[default0]:a"))
    cluster: Any = Kubelet(TWO)
    waiting = replace(NODE, index=2, uid="u2", started=False)
    assert stream.keep(cluster, state(NODE, NEXT, waiting)) == 2
    assert on_disk() == [
        *((0, "older"), (0, "[default0]:a"), (1, "c"), (0, "[default1]:b"), (1, "no time"))
    ]
    for entry in sorted(cluster.asked, key=lambda item: str(item["of"])):
        assert 0 < entry.pop("quiet_seconds") <= stream.KEEP_SECONDS
    assert {each["of"]: each["tail"] for each in cluster.asked} == {
        "training/demo-0": None,
        "training/demo-1": None,
    }
    assert stream.keep(cluster, state(waiting)) == 0


def test_logs_that_take_too_long_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, closed: list[Any]
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: clock.now))

    class Slow(Kubelet):
        def _lines(self, name: str) -> Iterator[str]:
            for line in super()._lines(name):
                clock.now += 11.0
                yield line

    cluster: Any = Slow({"demo-0": [at(n, str(n)) for n in range(9)]})
    assert stream.keep(cluster, state(NODE)) == 1
    assert on_disk() == [(0, "0"), (0, "1")]
    assert cluster.asked == [asked("demo-0", quiet_seconds=20.0)]
    # The others' time was taken by the first.
    monkeypatch.setattr(stream, "READERS", 1)
    cluster.logs["demo-1"] = [at(1, "c")]
    assert stream.keep(cluster, state(NODE, NEXT)) == 2
    assert [item["of"] for item in cluster.asked] == ["training/demo-0"] * 2
    assert len(closed) == 3
    # Also where the first took just that, and was kept whole.
    monkeypatch.setattr(stream, "KEEP_SECONDS", 22.0)
    cluster.logs["demo-0"] = [at(9, "9"), at(10, "10")]
    cluster.asked.clear()
    assert stream.keep(cluster, state(NODE, NEXT)) == 2
    assert [item["of"] for item in cluster.asked] == ["training/demo-0"]
    assert on_disk()[-1] == (0, "10")


def test_number_of_kubelets_asked_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[int | None] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, max_workers: int | None = None) -> None:
            pools.append(max_workers)
            super().__init__(max_workers)

    monkeypatch.setattr(stream, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(failing, "ThreadPoolExecutor", Pool)
    cluster: Any = Kubelet(TWO)
    assert stream.keep(cluster, state(NODE, NEXT)) == 2
    assert list(failing.tails_of(cluster, state(NODE, NEXT), [NODE, NEXT])) == [0, 1]
    assert failing.tails_of(cluster, state(), []) == {}
    assert pools == [16, 16, 16]


# -- what is followed -----------------------------------------------------------------------------


def followed(cluster: Any, *, keep: kept.Folder | None = None, **how: Any) -> list[str]:
    """Return all lines of a gang of two whose logs end at once."""
    gang = stream.Gang(cluster, namespace="training", keep=keep, **how)
    gang.look((NODE, NEXT, replace(NODE, index=2, uid="u2", started=False)))
    gang.look((NODE, NEXT))
    return sorted(line.dated() for line in gang.drain(60))


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Files of logs to which nothing is written any more."""
    results: list[Any] = []

    def close(writer: kept.Writer) -> None:
        results.append(writer)

    monkeypatch.setattr(kept.Writer, "close", close)
    return results


def test_each_container_that_has_started_is_followed_once(
    tmp_path: Path, closed: list[Any]
) -> None:
    folder = kept.Folder(path=tmp_path)
    cluster: Any = Kubelet(TWO)
    assert followed(cluster, selection=Selection(), keep=folder) == [
        "2026-01-02T03:04:01.000000001Z [node-0] [default0]:a",
        "2026-01-02T03:04:02.000000001Z [node-1] c",
        "2026-01-02T03:04:03.000000001Z [node-0] [default1]:b",
        "2026-01-02T03:04:04.000000001Z [node-1] no time",
    ]
    how = {"container": "node", "follow": True, "since_time": None, "tail": None}
    assert sorted(cluster.asked, key=str) == [
        {"of": "training/demo-0"} | how,
        {"of": "training/demo-1"} | how,
    ]
    assert len(list(folder.lines())) == 4
    assert len(closed) == 2


def test_a_part_of_a_log_does_not_take_the_place_of_all_of_it(tmp_path: Path) -> None:
    cluster: Any = Kubelet(TWO)
    result = followed(cluster, selection=Selection(node=1), tail=3, keep=kept.Folder(path=tmp_path))
    assert [line.partition(" ")[2] for line in result] == ["[node-1] c", "[node-1] no time"]
    assert [(item["of"], item["tail"]) for item in cluster.asked] == [("training/demo-1", 3)]
    assert list(tmp_path.iterdir()) == []


def pod_that(state: Any, restarts: int = 0) -> Any:
    statuses = [{"name": "node", "restartCount": restarts, "state": state}]
    metadata = {"name": "demo-0", "uid": "u0", "labels": {}, "annotations": {}}
    status = {"phase": "Running", "containerStatuses": statuses}
    return {"metadata": metadata, "spec": {"nodeName": "m"}, "status": status}


class Breaks(Kubelet):
    """Kubelet whose stream ends once within a second, then begins with that second again."""

    def _lines(self, name: str) -> Iterator[str]:
        yield from super()._lines(name) if len(self.asked) == 1 else self.logs["again"]  # type: ignore[misc]

    def find(self, path: str) -> Any:
        assert path == "/api/v1/namespaces/training/pods/demo-0"
        return pod_that({"terminated": {"exitCode": 0}} if len(self.asked) > 1 else {"running": {}})


def test_a_stream_that_breaks_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.1)
    before = time.monotonic()
    first: list[str | Exception] = [at(1, "a"), at(2, "b"), at(2, "c")]
    again: list[str | Exception] = [at(1, "x"), at(2, "b"), at(2, "c"), at(2, "d"), at(3, "b")]
    cluster: Any = Breaks({"demo-0": first, "again": again})
    lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
    tail = stream._Tail(cluster, "training", NODE, tail=9, sink=lines)
    assert tail.ended.wait(10)
    assert "".join(lines.get().text for _ in range(lines.qsize())) == "abcdb"
    assert [(item["since_time"], item["tail"]) for item in cluster.asked] == [
        (None, 9),
        ("2026-01-02T03:04:02Z", None),
    ]
    assert time.monotonic() - before >= 0.1


AWAY = PrerequisiteError("the cluster does not answer", remedy="wait")
#: What a pod is after a stream of its log has ended.
PODS = {
    "goes on": pod_that({"running": {}}),
    "was restarted": pod_that({"running": {}}, restarts=1),
    "is gone": None,
}


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([BROKEN] * 5, None),
        ([BROKEN] * 6, BROKEN),
        ([*[BROKEN] * 5, "goes on", *[BROKEN] * 5], None),
        ([AWAY] * 30, None),
        ([AWAY] * 31, AWAY),
        ([GONE], None),
        (["was restarted"], None),
    ],
)
def test_how_often_a_log_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, answers: list[str | Exception], error: Exception | None
) -> None:
    """A server in trouble for a while, one that is away for longer; and what is over not at all."""
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.0)
    over = error is not None or answers[-1] in (GONE, "was restarted")
    left = [*answers, "is gone"]

    class Unsteady(Kubelet):
        def _lines(self, name: str) -> Iterator[str]:
            yield from ()
            self.answer = left.pop(0)
            if isinstance(self.answer, Exception):
                raise self.answer

        def find(self, path: str) -> Any:
            return PODS[str(self.answer)]

    cluster: Any = Unsteady({})
    tail = stream._Tail(cluster, "training", NODE, tail=None, sink=queue.SimpleQueue())
    assert tail.ended.wait(10)
    assert tail.error is error
    assert len(left) == over


def test_silent_cluster_does_not_end_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.0)
    cluster = kubelet(demo_0=[TimeoutError()])
    answers: list[Exception | None] = [BROKEN, BROKEN, None, None]

    def find(_path: str) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    cluster.find = find
    tail = stream._Tail(cluster, "training", NODE, tail=None, sink=queue.SimpleQueue())
    assert tail.ended.wait(10)
    assert (len(cluster.asked), tail.error) == (4, None)


def test_stopped_reader_gets_no_more_lines() -> None:
    """Ctrl-C stops the reader like this, though the server goes on."""

    looked = threading.Event()

    class Endless(Kubelet):
        def _lines(self, name: str) -> Iterator[str]:
            assert looked.wait(60)
            for number in range(1000):
                if number == 2:
                    gang.close()
                yield at(1, str(number))

    cluster: Any = Endless({})
    gang = stream.Gang(cluster, namespace="training", selection=Selection())
    gang.look((NODE,))
    # Nor does the process wait for it.
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "log-demo-0"] == [
        True
    ]
    looked.set()
    assert [line.text for line in gang.drain(60)] == ["0", "1"]
    assert gang.errors() == []


@pytest.mark.parametrize("stopped", [True, False])
def test_closed_client_is_not_an_error_after_stopping(
    monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda given: failed.append(given.exc_type))

    class Closed(Kubelet):
        def _lines(self, name: str) -> Iterator[str]:
            yield from ()
            tail.stop.set() if stopped else None
            raise RuntimeError("the client has been closed")

    looked = threading.Event()
    cluster: Any = Closed({})
    begin = cluster.log_lines
    cluster.log_lines = lambda *of, **how: looked.wait(60) and begin(*of, **how)
    tail = stream._Tail(cluster, "training", NODE, tail=None, sink=queue.SimpleQueue())
    looked.set()
    assert tail.ended.wait(10)
    for thread in threading.enumerate():
        if thread.name == "log-demo-0":
            thread.join(10)
    assert failed == ([] if stopped else [RuntimeError])


def test_the_rest_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    times = iter([0.0, 5.0, 9.9, 10.1])
    fake = SimpleNamespace(monotonic=times.__next__, sleep=slept.append)
    monkeypatch.setattr(stream, "time", fake)
    gang = stream.Gang(kubelet(), namespace="training", selection=Selection())
    never: Any = SimpleNamespace(ended=SimpleNamespace(is_set=lambda: False))
    gang._tails["u0", 0] = never
    assert list(gang.drain()) == []
    assert slept == [0.05, 0.05]


# -- this machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "most"), [(1, 8 << 20), (32, 8 << 20), (64, 4 << 20), (9999, 64 << 10)]
)
def test_a_large_gang_shares_what_a_job_may_take(nodes: int, most: int) -> None:
    assert kept.most_bytes(nodes) == most


@pytest.mark.parametrize(
    ("said", "base"),
    [(None, ".local/state"), ("", ".local/state"), ("here", ".local/state"), ("/x/y", "/x/y")],
)
def test_logs_are_where_states_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str | None, base: str
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("XDG_STATE_HOME")
    if said is not None:
        monkeypatch.setenv("XDG_STATE_HOME", said)
    assert kept.home() == tmp_path / base / "railhead" / "logs"


def test_a_log_from_elsewhere_takes_the_place_of_one_with_less(tmp_path: Path) -> None:
    folder = kept.Folder(path=tmp_path / "a" / "b")
    for name in ("../x.log", "0-u.log", "0-u-0.txt", "0-u-0.log.before"):
        folder.put(name, b"x\n")
    assert not folder.path.exists()
    folder.put("0-u-0.log", b"1 x\n")
    (folder.path / "0-u-0.log.before").write_bytes(b"0 z\n")
    for data, item in ((b"1 b\n1 b\n", "zx"), (b"1 c\n1 \xff\n1\n", "c\ufffd")):
        folder.put("0-u-0.log", data)
        assert "".join(text for _, _, text in folder.lines()) == item
    assert {oct(p.stat().st_mode & 0o777) for p in tmp_path.rglob("*")} == {
        "0o700",
        "0o600",
        "0o755",
    }
    assert oct(folder.path.stat().st_mode & 0o777) == "0o700"


def test_kept_record_of_a_job_is_read_back(tmp_path: Path) -> None:
    folder = kept.Folder(path=tmp_path)
    assert folder.about() is None
    assert folder.described() is None
    reported = {"name": "demo", "nodes": 2, "processes": "4", "runtime": "torch"}
    folder.tell(reported, at=77.0)
    about = kept.About(name="demo", wanted=2, processes_per_node=4, runtime="torch")
    assert (folder.about(), about.ranks) == (about, 8)
    assert tmp_path.stat().st_mtime == 77.0
    assert (tmp_path / "about.json").stat().st_mode & 0o777 == 0o600
    for broken in ({}, reported | {"nodes": "x"}, reported | {"nodes": None}):
        folder.tell(broken, at=1.0)
        assert folder.about() is None
    (tmp_path / "history.json").write_text("[1]")
    assert folder.described() is None
    (tmp_path / "history.json").write_text("{")
    assert folder.described() is None


def test_newest_run_is_chosen_among_the_given_namespaces() -> None:
    for number, where in enumerate(("a/demo/4", "a/demo/3", "a/demo/2", "b/demo/1", "b/other/0")):
        path = kept.home() / where
        path.mkdir(parents=True)
        os.utime(path, (number, number))
    (kept.home() / "a/demo/note").touch()

    def found(*namespaces: str) -> str:
        folder = kept.newest("demo", namespaces or None)
        return folder.path.name if folder else "none"

    assert (found(), found("a"), found("a", "b"), found("c")) == ("1", "2", "1", "none")
    assert kept.newest("d*mo") is None
    (kept.home() / "a/demo/note").unlink()
    before = kept.before("a", "demo", "2")
    assert before is not None
    assert before.path.name == "3"
    assert kept.before("c", "demo", "2") is None


def test_foreign_log_joins_the_folder_of_its_containers() -> None:
    folder = kept.folder("a", "demo", "1")
    wrote(folder, NODE, at(1, "x"))
    assert kept.of_run("a", "demo", "run", ["9-u-0.log", "0-u0-0.log"]) == folder
    for name, files in (("demo", ["1-u0-0.log"]), ("demo", []), ("other", ["0-u0-0.log"])):
        assert kept.of_run("a", name, "run", files).path == kept.home() / "a" / name / "run"


def test_a_disk_that_failed_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And what is written is there at once, and closed at the end or once it is full."""
    monkeypatch.setattr(kept, "MOST_BYTES", 40)
    monkeypatch.setattr(kept, "LEAST_BYTES", 40)
    opened: list[Any] = []
    whole = os.fdopen

    def fdopen(descriptor: int, mode: str) -> Any:
        opened.append(whole(descriptor, mode))
        return opened[-1]

    monkeypatch.setattr(os, "fdopen", fdopen)
    folder = kept.Folder(path=tmp_path)
    writer = folder.writer(index=0, uid="u", restarts=0, of=1)
    for number in range(2):
        writer.write(at(number, "x"))
        assert len(list(folder.lines())) == 1 + number
    assert [file.closed for file in opened] == [True, False]
    writer.close()
    assert opened[1].closed
    tries: list[bytes] = []

    def fails(data: bytes) -> None:
        tries.append(data)
        raise OSError

    full = SimpleNamespace(write=fails, close=lambda: None, tell=lambda: 0)
    monkeypatch.setattr(os, "fdopen", lambda _descriptor, _mode: full)
    writer = folder.writer(index=1, uid="u", restarts=0, of=1)
    for _ in range(2):
        writer.write("line")
    assert tries == [b"line\n"]


# -- what a pod's program is passed ----------------------------------------------------------------


@pytest.mark.parametrize(("logs", "path"), [(True, "/box"), (True, "/box/"), (False, "/box")])
def test_words_before_a_command(logs: bool, path: str) -> None:
    about = {"name": "demo", "nodes": 64, "processes": 8, "runtime": "torch"}
    words = claimed.words(
        "/etc/railhead/nccl", Mount(claim="c", path=path), others={"/data": "corpus"},
        namespace="training", about=about, first=1, logs=logs,
    )  # fmt: skip
    assert claimed.without([*words, "train", "x"]) == ["train", "x"]
    assert claimed.without(["sh", "-c", "x", "y", "z"]) == ["sh", "-c", "x", "y", "z"]
    assert words[3] == "/etc/railhead/nccl/keep.py"
    mounts = [
        {"claim": "c", "path": path, "file": "/box/.railhead/probe-training"},
        {"claim": "corpus", "path": "/data", "file": ""},
    ]
    keeping = {
        "mount": path,
        "folder": "/box/.railhead/logs/training/demo",
        "most": 4 << 20,
        "first": 1,
        "starts": 10,
        "runs": 50,
        "bytes": 10 << 30,
        "about": about,
    }
    assert json.loads(words[4]) == {"folder": "", "mounts": mounts} | (keeping if logs else {})


def test_without_a_claim_for_checkpoints_nothing_is_written() -> None:
    words = claimed.words(
        "/etc/railhead/nccl",
        None,
        others={"/data": "corpus"},
        namespace="training",
        about={},
        first=0,
        logs=True,
    )
    mounts = [{"claim": "corpus", "path": "/data", "file": ""}]
    assert json.loads(words[-1]) == {"folder": "", "mounts": mounts}
