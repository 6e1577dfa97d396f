"""Every change of Workloads and pods, in the API server's own order, as jobs compete.

What is asserted of gangs is read from such a record alone. Its order is that of resource versions:
one counter for all objects of a cluster's store (etcd's revision), so that a pod's change and a
Workload's can be distinguished. Seconds are of this machine's monotonic clock, from the record's
begin: no node's clock is asked.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from railhead.accept.model import Model
from railhead.base.errors import RailheadError
from railhead.kube import client as kube
from railhead.kube.client import ApiError, Cluster
from railhead.kube.conditions import condition, holds
from railhead.kube.jobs import INDEX_LABEL, JOBSET_LABEL, charged

# Answers after which asking again gives the same.
_FINAL = (401, 403, 404, 410)


class Row(Model):
    """One change that the API server told.

    ``t`` are seconds from the record's begin, ``rv`` the resource version. Of a gang's Workload:
    ``size`` its pods, ``charged`` those that quota is reserved for (None where it does not say),
    ``priority`` and ``created``; ``reserved`` whether it has quota, ``finished`` and ``evicted``
    the reasons. Of a pod: ``node`` where it is bound, ``index`` in its gang, ``uid``, ``phase``;
    ``going`` that it is being deleted, ``refused`` that the scheduler found no place for it.
    """

    t: float
    rv: int
    kind: Literal["gang", "pod"]
    event: str
    gang: str
    arena: str = ""
    size: int = 0
    charged: int | None = None
    priority: int = 0
    created: str = ""
    reserved: bool = False
    finished: str = ""
    evicted: str = ""
    pod: str = ""
    uid: str = ""
    index: int = 0
    node: str = ""
    phase: str = ""
    going: bool = False
    refused: bool = False


def of_workload(event: str, obj: Mapping[str, Any], t: float) -> Row | None:
    """Return a Workload's change; None where nobody owns it."""
    meta = obj["metadata"]
    owners = meta.get("ownerReferences") or []
    if not owners:
        return None
    evicted = condition(obj, "Evicted")
    admission = (obj.get("status") or {}).get("admission") or {}
    assigned = [
        podsetassignment.get("count")
        for podsetassignment in admission.get("podSetAssignments") or []
    ]
    return Row(
        t=t,
        rv=int(meta["resourceVersion"]),
        kind="gang",
        event=event,
        arena=meta["namespace"],
        gang=owners[0]["name"],
        size=charged(dict(obj)) or 0,
        # Kueue leaves the count out where it is the pod set's own.
        charged=sum(assigned) if assigned and None not in assigned else None,
        priority=obj["spec"].get("priority") or 0,
        created=meta["creationTimestamp"],
        reserved=holds(obj, "QuotaReserved"),
        finished=str(condition(obj, "Finished").get("reason") or ""),
        evicted=str(evicted.get("reason") or "") if evicted.get("status") == "True" else "",
    )


def of_pod(event: str, obj: Mapping[str, Any], t: float, gang: str) -> Row:
    """Return a pod's change; ``gang`` is whose pod it is."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = (meta.get("labels") or {}) | (meta.get("annotations") or {})
    scheduled = condition(obj, "PodScheduled")
    return Row(
        t=t,
        rv=int(meta["resourceVersion"]),
        kind="pod",
        event=event,
        arena=meta["namespace"],
        gang=gang,
        pod=meta["name"],
        uid=meta.get("uid") or "",
        index=int(labels.get(INDEX_LABEL) or 0),
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "",
        going=bool(meta.get("deletionTimestamp")),
        # One that a gate holds back is not refused: its reason is SchedulingGated.
        refused=scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable",
    )


class Watcher(threading.Thread):
    """Follows one kind of object until it is stopped.

    ``failed`` says why the record has a gap; what it shows is no proof then.
    """

    def __init__(
        self, cluster: Cluster, path: str, note: Callable[[str, dict[str, Any]], None]
    ) -> None:
        super().__init__(daemon=True)
        self._cluster, self._path, self._note = cluster, path, note
        first = cluster.get(path)
        self._version = first["metadata"]["resourceVersion"]
        self.stopped = False
        self.failed: str | None = None

    def run(self) -> None:
        """Watch again from where the last watch ended."""
        while not self.stopped and self.failed is None:
            try:
                self._once()
            except TimeoutError:
                continue
            except ApiError as error:
                if error.status in _FINAL:
                    self.failed = f"{self._path}: {error}"
                time.sleep(0.5)
            except RailheadError:
                # No answer: the server starts again, and has the changes still.
                time.sleep(0.5)
            except (KeyError, TypeError, ValueError) as error:
                self.failed = f"{self._path}: a change that cannot be read: {error!r}"

    def _once(self) -> None:
        query = {"watch": "true", "resourceVersion": self._version}
        with self._cluster.lines(self._path, query=query, quiet_seconds=30.0) as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    # Cut off in the middle: told again from the last whole one on.
                    return
                if event["type"] == "ERROR":
                    self.failed = f"{self._path}: {event['object'].get('message')}"
                    return
                if self.stopped:
                    return
                self._note(event["type"], event["object"])
                self._version = event["object"]["metadata"]["resourceVersion"]


class Record:
    """The changes of some gangs' Workloads and pods from now on; a context in which they are kept.

    Args:
        cluster: where.
        namespace: of the gangs.
        ours: whether a gang of that name is one of them.
    """

    def __init__(self, cluster: Cluster, namespace: str, ours: Callable[[str], bool]) -> None:
        self._begin = time.monotonic()
        self._lock = threading.Lock()
        self._rows: list[Row] = []
        self._ours = ours
        paths = {
            kube.kueue(namespace, "workloads"): self._workload,
            kube.core(namespace, "pods"): self._pod,
        }
        self._watchers = [Watcher(cluster, path, note) for path, note in paths.items()]

    def __enter__(self) -> Record:
        for watcher in self._watchers:
            watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        for watcher in self._watchers:
            watcher.stopped = True

    @property
    def now(self) -> float:
        """Seconds since the record's begin."""
        return round(time.monotonic() - self._begin, 3)

    def rows(self) -> tuple[Row, ...]:
        """Return the rows so far, in the server's order."""
        with self._lock:
            return tuple(sorted(self._rows, key=lambda row: row.rv))

    @property
    def gap(self) -> str:
        """Return why rows may be missing; empty where none are."""
        return "; ".join(watcher.failed for watcher in self._watchers if watcher.failed)

    def _add(self, row: Row) -> None:
        with self._lock:
            self._rows.append(row)

    def _workload(self, event: str, obj: dict[str, Any]) -> None:
        row = of_workload(event, obj, self.now)
        if row is not None and self._ours(row.gang):
            self._add(row)

    def _pod(self, event: str, obj: dict[str, Any]) -> None:
        gang = (obj["metadata"].get("labels") or {}).get(JOBSET_LABEL)
        if gang and self._ours(gang):
            self._add(of_pod(event, obj, self.now, gang))


def disorder(rows: Sequence[Row]) -> str:
    """Return why a record cannot be true, such as a clock that goes back; empty if it can."""
    last: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.rv):
        before = last.get(row.kind)
        if row.t < 0 or row.rv <= 0:
            return f"{row.gang}: a change at {row.t:g} s, resource version {row.rv}"
        if before and row.t < before.t:
            return (
                f"{row.gang}: version {row.rv} came at {row.t:g} s, an older one at {before.t:g} s"
            )
        if before and row.rv == before.rv:
            return f"{row.gang}: two changes have the resource version {row.rv}"
        last[row.kind] = row
    return ""
