"""A record goes on where a watch broke, and says so where it cannot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from railhead.accept.record import Record, Watcher
from railhead.kube.client import Cluster
from railhead.kube.errors import ApiError

Watch = list[str | Exception]


def event(version: int, name: str = "accept-1-gang", **what: Any) -> str:
    """Return a line of a watch of pods."""
    labels = {"jobset.sigs.k8s.io/jobset-name": name}
    meta = {"name": f"{name}-0", "namespace": "training", "labels": labels}
    body = {"metadata": meta | {"resourceVersion": str(version)}, "spec": {}, "status": {}}
    return json.dumps({"type": "MODIFIED", "object": body | what})


class Server:
    """Answers watches: one list of lines after the other, then nothing more."""

    def __init__(self, *watches: Watch) -> None:
        self.watches = list(watches)
        self.asked: list[str] = []
        self.done = threading.Event()

    def get(self, path: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "5"}, "items": []}

    @contextmanager
    def lines(
        self, path: str, *, query: dict[str, str], quiet_seconds: float
    ) -> Iterator[Iterator[str]]:
        if "workloads" in path or not self.watches:
            self.done.wait(30)
            raise TimeoutError
        self.asked.append(query["resourceVersion"])
        result = self.watches.pop(0)
        if not self.watches:
            self.done.set()

        def each() -> Iterator[str]:
            for line in result:
                if isinstance(line, Exception):
                    raise line
                yield line

        yield each()


def watched(server: Server) -> tuple[list[int], Watcher]:
    """Follow a server to the end of what it has."""
    seen: list[int] = []

    def note(kind: str, body: dict[str, Any]) -> None:
        seen.append(int(body["metadata"]["resourceVersion"]))
        if not server.watches and seen[-1] == 99:
            watcher.stopped = True

    watcher = Watcher(cast(Cluster, server), "/api/v1/pods", note)
    watcher.start()
    watcher.join(30)
    assert not watcher.is_alive()
    return seen, watcher


def test_a_watch_that_breaks_goes_on_after_the_last_whole_change() -> None:
    broken = event(8)[:20]
    server = Server([event(6), event(7), broken], [event(8), TimeoutError()], [event(99)])
    seen, watcher = watched(server)
    assert seen == [6, 7, 8, 99]
    assert server.asked == ["5", "7", "8"]
    assert watcher.failed is None


def refused(status: int) -> ApiError:
    return ApiError(status=status, reason="", message="no", details=None, remedy="")


@pytest.mark.slow
@pytest.mark.parametrize(
    "last",
    [
        json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}),
        json.dumps({"type": "MODIFIED", "object": {}}),
        event(8).replace('"8"', '"x"'),
        refused(403),
        refused(410),
    ],
)
def test_a_record_with_a_gap_says_so(last: str | Exception) -> None:
    seen, watcher = watched(Server([event(6), last], [event(99)]))
    assert 99 not in seen
    assert watcher.failed


@pytest.mark.slow
def test_an_answer_that_is_not_now_is_asked_for_again() -> None:
    seen, watcher = watched(Server([refused(500)], [event(99)]))
    assert (seen, watcher.failed) == ([99], None)


def test_only_ours_are_recorded() -> None:
    server = Server([event(6, "another-job"), event(7), event(8, "accept-1-b")], [event(9, "x")])
    record = Record(cast(Cluster, server), "training", lambda gang: gang.startswith("accept-1-"))
    with record:
        assert server.done.wait(30)
        for _ in range(300):
            if len(record.rows()) == 2:
                break
            threading.Event().wait(0.1)
        rows = record.rows()
    assert [(row.rv, row.gang) for row in rows] == [(7, "accept-1-gang"), (8, "accept-1-b")]
    assert record.gap == ""
