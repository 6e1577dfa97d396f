"""Contests of gangs that cannot all fit: made from a seed, run in the lab, and judged by a record.

Each arena is a team with a namespace and a share of a few places. In a contest two to five gangs
want more places than there are. A watcher writes down every change of every Workload and pod, in
the API server's own order (resourceVersion); what is asserted is read from that record alone.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from railhead.base.names import KUEUE_API, TRAINING_LABEL
from railhead.config import parse
from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from railhead.lab.bootstrap import SIMULATED_TAINT
from railhead.resolve.cluster import resolve
from tests.lab.jobs import IMAGE, wait

STACK = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.lab.yaml"
NODE_LABEL = "railhead.test/contests"
PLACES = 4
PRIORITIES = {"production": 1000, "research": 0, "spare": -1000}
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2"
_CPU_MILLI = 10
# Seconds between two looks of Kueue at its queues, and then some.
_MOMENT = 2.0
_CONTEST, _GANG = "railhead.test/contest", "railhead.test/gang"


@dataclass(frozen=True, kw_only=True)
class Gang:
    """So many pods that start together or not at all; ``after`` is seconds into its contest."""

    name: str
    size: int
    priority: str
    after: float


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Gangs that want more than PLACES together.

    ``held``: all are submitted before the first is let in, so that their order is known. Otherwise
    they come one after another, and a more important one may stop others. ``loses_node``: its pods
    run until a node is taken from under them. ``simulated``: its pods run on KWOK's nodes, where
    they end as soon as they run; all that decides where and when is real.
    """

    number: int
    arena: int
    gangs: tuple[Gang, ...]
    held: bool
    loses_node: bool
    simulated: bool


def draw(seed: int, count: int, arenas: int, simulated: bool = True) -> list[Contest]:
    """The contests of a seed; one in ten loses a real node, all of those in one round."""
    source = random.Random(seed)
    rounds = count // arenas
    found = []
    for number in range(count):
        turn, arena = divmod(number, arenas)
        loses = rounds >= 10 and turn % 10 == 5
        while True:
            gangs_of_it = source.randint(2, 3 if loses else 5)
            sizes = [source.randint(1, PLACES) for _ in range(gangs_of_it)]
            if sum(sizes) > PLACES:
                break
        held = source.random() < 0.5 or loses
        gangs = tuple(
            Gang(
                name=f"c{number}-g{index}",
                size=size,
                priority=source.choice(list(PRIORITIES)),
                after=0 if held else round(source.uniform(0, 3), 2),
            )
            for index, size in enumerate(sizes)
        )
        found.append(
            Contest(
                number=number,
                arena=arena,
                gangs=gangs,
                held=held,
                loses_node=loses,
                simulated=simulated and not loses,
            )
        )
    return found


@dataclass
class Record:
    """Every change that the watcher saw: (resourceVersion, seconds, kind, what)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    begin: float = field(default_factory=time.monotonic)

    def add(self, kind: str, event: str, version: int, **what: Any) -> None:
        """Write one down."""
        row = {"t": round(time.monotonic() - self.begin, 3), "rv": version, "kind": kind}
        with self._lock:
            self.rows.append({**row, "event": event, **what})

    def write(self, path: Path) -> None:
        """As one JSON object a line, in the server's order."""
        rows = sorted(self.rows, key=lambda row: row["rv"])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _is(obj: Mapping[str, Any], kind: str) -> dict[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((dict(c) for c in conditions if c["type"] == kind), {})


class Watcher(threading.Thread):
    """Follows one kind of object until it is told to stop."""

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
        while not self.stopped:
            query = {"watch": "true", "resourceVersion": self._version}
            try:
                with self._cluster.lines(self._path, query=query, quiet_seconds=30.0) as lines:
                    for line in lines:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            # The record would have a gap, and what it shows would be no proof.
                            self.failed = str(event["object"])
                            return
                        self._version = event["object"]["metadata"]["resourceVersion"]
                        self._note(event["type"], event["object"])
            except (TimeoutError, kube.ApiError):
                continue


@dataclass
class Arenas:
    """The arenas of a lab, and what runs in them."""

    cluster: Cluster
    count: int
    flavor: str
    prefix: str
    record: Record = field(default_factory=Record)
    #: gang -> how it ended
    ended: dict[str, str] = field(default_factory=dict)
    #: arena -> gangs that Kueue has seen
    known: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    watchers: list[Watcher] = field(default_factory=list)

    def namespace(self, arena: int) -> str:
        """Of an arena, its team and its queue."""
        return f"{self.prefix}-{arena}"

    def make(self) -> None:
        """A namespace, a queue and a share for each arena, as a stack's teams have them."""
        raw = yaml.safe_load(STACK.read_text())["config"]["railhead:cluster"]
        names = [self.namespace(arena) for arena in range(self.count)]
        quota = {"cpu": f"{PLACES * _CPU_MILLI}m"}
        share = {"pool": "gpu", "nodes": 0, "quota": quota, "borrow": 0, "lend": 0}
        raw["namespaces"], raw["queues"], raw["checkpoints"] = [], [], []
        raw["runtimes"] = [row | {"checkpoint": None} for row in raw["runtimes"]]
        raw["teams"] = [
            {
                "name": name,
                "namespaces": [name],
                "researchers": ["nobody"],
                "shares": [share],
                "order": "strict",
            }
            for name in names
        ]
        resolved = resolve(parse(raw, where="the contests' stack"))
        ours = resolved.queues.flavors["gpu"].name
        flavor: dict[str, Any] = dict(resolved.queues.flavors["gpu"].spec)
        flavor["nodeLabels"] = {NODE_LABEL: "true"}
        self._ensure("", "resourceflavors", "ResourceFlavor", self.flavor, {"spec": flavor})
        for queue in resolved.queues.cluster_queues:
            # On nodes of the contests' own, where no controller runs that could be lost with one.
            text = json.dumps(queue.spec).replace(json.dumps(ours), json.dumps(self.flavor))
            whole = {"spec": json.loads(text)}
            self._ensure("", "clusterqueues", "ClusterQueue", queue.name, whole)
        for namespace in resolved.namespaces:
            labels = {TRAINING_LABEL: "true"}
            body = {"metadata": {"name": namespace.name, "labels": labels}}
            if self.cluster.find(f"/api/v1/namespaces/{namespace.name}") is None:
                self.cluster.create("/api/v1/namespaces", body)
            for name, spec in namespace.queues.items():
                local = {"spec": dict(spec)}
                self._ensure(namespace.name, "localqueues", "LocalQueue", name, local)

    def _ensure(
        self, namespace: str, plural: str, kind: str, name: str, body: dict[str, Any]
    ) -> None:
        if self.cluster.find(kube.kueue(namespace, plural, name)) is None:
            metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
            about = {"apiVersion": KUEUE_API, "kind": kind, "metadata": metadata}
            self.cluster.create(kube.kueue(namespace, plural), about | body)

    def take_away(self) -> None:
        """All that `make` made; namespaces with what is in them."""
        for arena in range(self.count):
            self.cluster.delete(f"/api/v1/namespaces/{self.namespace(arena)}")
        for arena in range(self.count):
            path = kube.kueue("", "clusterqueues", self.namespace(arena))
            self.cluster.delete(path)
        self.cluster.delete(kube.kueue("", "resourceflavors", self.flavor))

    def watch(self) -> None:
        """Write down every Workload and pod from now on."""
        paths = {"/apis/kueue.x-k8s.io/v1beta2/workloads": self._workload}
        paths["/api/v1/pods"] = self._pod
        self.watchers = [Watcher(self.cluster, path, note) for path, note in paths.items()]
        for watcher in self.watchers:
            watcher.start()

    def stop(self) -> None:
        """End the watching; raises where the record has a gap."""
        for watcher in self.watchers:
            watcher.stopped = True
            assert watcher.failed is None, watcher.failed

    def _workload(self, event: str, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        if not meta["namespace"].startswith(f"{self.prefix}-") or not meta.get("ownerReferences"):
            return
        evicted, gang = _is(obj, "Evicted"), meta["ownerReferences"][0]["name"]
        self.known[meta["namespace"]].add(gang)
        if ended := _is(obj, "Finished").get("reason"):
            self.ended[gang] = ended
        self.record.add(
            "gang",
            event,
            int(meta["resourceVersion"]),
            arena=meta["namespace"],
            gang=gang,
            size=sum(int(s["count"]) for s in obj["spec"]["podSets"]),
            priority=obj["spec"].get("priority", 0),
            created=meta["creationTimestamp"],
            reserved=_is(obj, "QuotaReserved").get("status") == "True",
            finished=_is(obj, "Finished").get("reason", ""),
            evicted=evicted.get("reason", "") if evicted.get("status") == "True" else "",
        )

    def _pod(self, event: str, obj: dict[str, Any]) -> None:
        meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        gang = (meta.get("labels") or {}).get(_GANG)
        if gang:
            self.record.add(
                "pod",
                event,
                int(meta["resourceVersion"]),
                arena=meta["namespace"],
                gang=gang,
                pod=meta["name"],
                node=spec.get("nodeName", ""),
                phase=status.get("phase", ""),
                going=bool(meta.get("deletionTimestamp")),
            )

    def submit(self, contest: Contest, gang: Gang, seconds: float) -> None:
        """One JobSet of sleeping pods."""
        namespace = self.namespace(contest.arena)
        body = job_set(gang, contest, namespace, seconds)
        path, until = f"{JOBSETS}/namespaces/{namespace}/jobsets", time.monotonic() + 90
        while True:
            try:
                self.cluster.create(path, body)
                return
            except kube.ApiError as error:
                # A busy machine's controllers miss their leases, and start again.
                if "webhook" not in error.message or time.monotonic() > until:
                    raise
                time.sleep(1)

    def hold(self, arena: int, policy: str) -> None:
        """Keep an arena's queue shut (``Hold``) or open it (``None``)."""
        name = self.namespace(arena)
        path = kube.kueue(name, "localqueues", name)
        self.cluster.patch(path, {"spec": {"stopPolicy": policy}})

    def clear(self, contest: Contest) -> None:
        """Take a contest's gangs away."""
        namespace = self.namespace(contest.arena)
        for gang in contest.gangs:
            self.cluster.delete(f"{JOBSETS}/namespaces/{namespace}/jobsets/{gang.name}")

    def run(
        self,
        contests: Sequence[Contest],
        seconds: float = 1.0,
        losing: Callable[[], None] | None = None,
        limit: float = 400,
    ) -> dict[int, dict[str, str]]:
        """Run contests, one after another in each arena; contest -> gang -> how it ended.

        ``losing`` is called once, from the thread that comes first, when all arenas have reached a
        contest that loses a node and run its pods.
        """
        by_arena: dict[int, list[Contest]] = defaultdict(list)
        for contest in contests:
            by_arena[contest.arena].append(contest)
        ends: dict[int, dict[str, str]] = {}
        barrier = threading.Barrier(len(by_arena), action=losing)

        def arena(mine: list[Contest]) -> None:
            for contest in mine:
                ends[contest.number] = self._one(contest, seconds, barrier, limit)

        with ThreadPoolExecutor(len(by_arena)) as pool:
            for done in [pool.submit(arena, mine) for mine in by_arena.values()]:
                done.result()
        return ends

    def _one(
        self, contest: Contest, seconds: float, barrier: threading.Barrier, limit: float
    ) -> dict[str, str]:
        if contest.held:
            self.hold(contest.arena, "Hold")
        begin = time.monotonic()
        # The first to be let in must still run when the node goes.
        lasting = 12.0 if contest.loses_node else seconds
        for gang in sorted(contest.gangs, key=lambda g: g.after):
            time.sleep(max(0.0, begin + gang.after - time.monotonic()))
            self.submit(contest, gang, lasting)
        if contest.held:
            names = {gang.name for gang in contest.gangs}
            known = self.known[self.namespace(contest.arena)]
            wait(lambda: names <= known, 60, f"{contest.number}'s Workloads")
            self.hold(contest.arena, "None")
        if contest.loses_node:
            wait(lambda: self._running(contest) > 0, 120, f"{contest.number}'s first pods")
            barrier.wait(180)
        everyone = [gang.name for gang in contest.gangs]
        wait(
            lambda: all(name in self.ended for name in everyone),
            limit,
            f"contest {contest.number} to end",
        )
        self.clear(contest)
        return {name: self.ended[name] for name in everyone}

    def _running(self, contest: Contest) -> int:
        pods = self.cluster.list(
            kube.core(self.namespace(contest.arena), "pods"),
            selector=f"{_CONTEST}={contest.number}",
        )
        return sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods)


def job_set(gang: Gang, contest: Contest, namespace: str, seconds: float) -> dict[str, Any]:
    """A gang as people write it: so many pods of one job, a queue and a priority."""
    labels = {_CONTEST: str(contest.number), _GANG: gang.name}
    container = {
        "name": "node",
        "image": IMAGE,
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": f"{_CPU_MILLI}m"}},
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    template: dict[str, Any] = {
        "metadata": {
            "labels": labels,
            "annotations": {"kueue.x-k8s.io/podset-unconstrained-topology": "true"},
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 5,
                }
                for key in ("not-ready", "unreachable")
            ],
            "containers": [container],
        },
    }
    if contest.simulated:
        template["spec"]["nodeSelector"] = {"type": "kwok"}
        template["spec"]["tolerations"].append(
            {"key": SIMULATED_TAINT["key"], "operator": "Exists"}
        )
    job = {
        "parallelism": gang.size,
        "completions": gang.size,
        "backoffLimit": 0,
        "template": template,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": gang.name,
            "namespace": namespace,
            "labels": {
                **labels,
                "kueue.x-k8s.io/queue-name": namespace,
                "kueue.x-k8s.io/priority-class": gang.priority,
            },
        },
        "spec": {
            "suspend": True,
            "network": {"enableDNSHostnames": False},
            "failurePolicy": {"maxRestarts": 10},
            "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}],
        },
    }


# -- what the record says -------------------------------------------------------------------------


@dataclass
class _Seen:
    """A gang as far as the record has been read."""

    size: int = 0
    priority: int = 0
    created: str = ""
    since: float = -1.0
    reserved: bool = False
    finished: bool = False
    whole: bool = False
    bound: dict[str, bool] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)

    @property
    def live(self) -> int:
        """Pods that hold a place on a node."""
        return sum(self.bound.values())


@dataclass
class Verdict:
    """What a record shows; every list must be empty of a cluster that keeps its word."""

    half_placed: list[str] = field(default_factory=list)
    overfull: list[str] = field(default_factory=list)
    unpaid: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    never_whole: list[str] = field(default_factory=list)
    evictions: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    most_at_once: int = 0

    @property
    def wrong(self) -> list[str]:
        """Everything that must not be, in words."""
        return [
            f"{what}: {one}"
            for what in ("half_placed", "overfull", "unpaid", "out_of_order", "never_whole")
            for one in getattr(self, what)
        ]

    def to_json(self) -> dict[str, Any]:
        """For the benchmark."""
        return asdict(self)


def judge(rows: Sequence[Mapping[str, Any]], contests: Sequence[Contest]) -> Verdict:
    """Read a record in the server's order.

    * half placed: two gangs of an arena hold places, neither is whole, and what both want together
      is more than the arena has: each would wait for the other's places.
    * overfull: admitted gangs of an arena want more than it has.
    * unpaid: a pod is bound while its gang has no quota.
    * out of order: a gang is admitted while a more important one of its arena waits that had been
      there before; of a held contest, of equal importance the older goes first.
    * never whole: a gang that ended without having had places for all of its pods at one time.
    """
    verdict = Verdict()
    held = {gang.name for contest in contests if contest.held for gang in contest.gangs}
    arenas: dict[str, dict[str, _Seen]] = defaultdict(lambda: defaultdict(_Seen))
    everyone: set[str] = set()
    let_in: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row["rv"]):
        if row["kind"] == "gang" and row["reserved"]:
            let_in.setdefault(row["gang"], row["t"])
    for row in sorted(rows, key=lambda row: row["rv"]):
        gangs = arenas[row["arena"]]
        seen = gangs[row["gang"]]
        if row["kind"] == "gang":
            _read_gang(row, gangs, seen, verdict, held, let_in)
        else:
            everyone.add(f"{row['arena']}/{row['pod']}")
            alive = bool(row["node"]) and not row["going"] and row["event"] != "DELETED"
            starting = alive and not seen.bound.get(row["pod"], False)
            seen.bound[row["pod"]] = alive and row["phase"] not in ("Failed", "Succeeded")
            if starting and not seen.reserved and not seen.finished:
                verdict.unpaid.append(f"{row['gang']} at {row['t']}: {row['pod']}")
            if starting:
                seen.placed.add(row["pod"])
            elif row["going"] or row["event"] == "DELETED" or row["phase"] == "Failed":
                seen.placed.discard(row["pod"])
            seen.whole = seen.whole or (seen.size > 0 and len(seen.placed) >= seen.size)
        _look(row, gangs, verdict)
        verdict.most_at_once = max(
            verdict.most_at_once, sum(s.live for every in arenas.values() for s in every.values())
        )
    verdict.pods = len(everyone)
    verdict.never_whole = [
        name
        for gangs in arenas.values()
        for name, seen in gangs.items()
        if seen.finished and not seen.whole
    ]
    return verdict


def _read_gang(
    row: Mapping[str, Any],
    gangs: dict[str, _Seen],
    seen: _Seen,
    verdict: Verdict,
    held: set[str],
    let_in: Mapping[str, float],
) -> None:
    seen.size, seen.priority = row["size"], row["priority"]
    seen.created = row["created"]
    if row["evicted"] and seen.reserved and not row["reserved"]:
        verdict.evictions[row["evicted"]] = verdict.evictions.get(row["evicted"], 0) + 1
    if seen.since < 0 or (seen.reserved and not row["reserved"]):
        seen.since = row["t"]
    admitted = row["reserved"] and not seen.reserved and not row["finished"]
    if admitted:
        seen.placed.clear()
    seen.reserved = row["reserved"] and row["event"] != "DELETED"
    seen.finished = seen.finished or bool(row["finished"]) or row["event"] == "DELETED"
    if seen.finished:
        seen.reserved = False
    if not admitted:
        return
    for name, other in gangs.items():
        waiting = other.size and not other.reserved and not other.finished and name != row["gang"]
        if not waiting:
            continue
        if row["gang"] in held and name in held:
            # Of one second nobody can say which is older.
            before = (-other.priority, other.created) < (-seen.priority, seen.created)
        else:
            # One that came a moment ago may have come after the decision.
            before = other.priority > seen.priority and row["t"] - other.since > _MOMENT
        # Kueue writes down what it let in side by side, in any order: what follows at once was let
        # in with it (pkg/scheduler/scheduler.go, admit).
        if before and not 0 <= let_in.get(name, -_MOMENT) - row["t"] < _MOMENT / 2:
            verdict.out_of_order.append(f"{row['gang']} at {row['t']} before {name}")


def _look(row: Mapping[str, Any], gangs: Mapping[str, _Seen], verdict: Verdict) -> None:
    paid = [seen for seen in gangs.values() if seen.reserved]
    if sum(seen.size for seen in paid) > PLACES:
        verdict.overfull.append(f"{row['arena']} at {row['t']}")
    partly = [s for s in gangs.values() if s.reserved and 0 < len(s.placed) < s.size]
    if len(partly) > 1 and sum(seen.size for seen in partly) > PLACES:
        verdict.half_placed.append(f"{row['arena']} at {row['t']}")


def waits(rows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """Seconds from a gang's first sight to its first quota."""
    first: dict[str, float] = {}
    told: set[str] = set()
    for row in sorted(rows, key=lambda row: row["rv"]):
        if row["kind"] == "gang":
            first.setdefault(row["gang"], row["t"])
            if row["reserved"] and row["gang"] not in told:
                told.add(row["gang"])
                yield row["t"] - first[row["gang"]]


# -- a whole run ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Done:
    """A run of contests, and what its record shows.

    ``ended``: gang -> how; ``lost``: the node that was taken away; ``struck``: contests that had
    pods on it at that moment.
    """

    contests: list[Contest]
    rows: list[dict[str, Any]]
    ended: dict[str, str]
    verdict: Verdict
    seconds: float
    lost: str | None
    struck: frozenset[int]


def lab_status(lab: str) -> dict[str, Any]:
    """What `railhead lab status --json` says."""
    done = subprocess.run(
        [sys.executable, "-m", "railhead", "lab", "status", "--name", lab, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fresh_nodes(lab: str, count: int) -> list[str]:
    """Add nodes to a running lab, on which none of its controllers run; their names."""
    before = [node["name"] for node in lab_status(lab)["nodes"]]
    wanted = str(len(before) + count)
    subprocess.run(
        [sys.executable, "-m", "railhead", "lab", "up", "--name", lab, "--nodes", wanted],
        capture_output=True,
        text=True,
        check=True,
    )
    return [n["name"] for n in lab_status(lab)["nodes"] if n["name"] not in before]


def conduct(
    lab: str,
    *,
    seed: int,
    count: int,
    arenas: int,
    nodes: Sequence[str],
    record: Path,
    lose: bool = True,
    simulated: bool = True,
    prefix: str = "arena",
) -> Done:
    """Run the contests of a seed on ``nodes`` of a lab whose stack is up; leaves the record."""
    contests = draw(seed, count, arenas, simulated)
    if not lose:
        contests = [replace(contest, loses_node=False) for contest in contests]
    cluster = Cluster(choose_target(lab=lab))
    made = Arenas(cluster=cluster, count=arenas, flavor=f"{prefix}-contests", prefix=prefix)
    lost: list[str] = []
    struck: set[int] = set()

    def losing() -> None:
        """End a node as a power cut does, and take its object away as a cloud does then."""
        on: dict[str, set[int]] = defaultdict(set)
        for pod in cluster.list("/api/v1/pods", selector=_CONTEST):
            if (pod.get("status") or {}).get("phase") == "Running":
                on[pod["spec"]["nodeName"]].add(int(pod["metadata"]["labels"][_CONTEST]))
        name = max(on, key=lambda node: len(on[node]))
        struck.update(on[name])
        role = name.removeprefix(f"{lab}-")
        (pid,) = (row["pid"] for row in lab_status(lab)["components"] if row["role"] == role)
        os.kill(pid, signal.SIGKILL)
        cluster.delete(f"/api/v1/nodes/{name}")
        lost.append(name)

    try:
        for name in nodes:
            cluster.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {NODE_LABEL: "true"}}})
        made.make()
        made.watch()
        begin = time.monotonic()
        made.run(contests, losing=losing)
        seconds = time.monotonic() - begin
    finally:
        made.stop()
        made.record.write(record)
        made.take_away()
        cluster.close()
    rows = made.record.rows
    return Done(
        contests=contests,
        rows=rows,
        ended=dict(made.ended),
        verdict=judge(rows, contests),
        seconds=seconds,
        lost=lost[0] if lost else None,
        struck=frozenset(struck),
    )
