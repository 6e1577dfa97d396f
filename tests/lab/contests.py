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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from railhead.accept import contests as accept
from railhead.accept.contests import ContestFaults
from railhead.accept.record import Row, Watcher, of_pod, of_workload
from railhead.base.names import KUEUE_API, TRAINING_LABEL
from railhead.config import parse
from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from railhead.lab.bootstrap import SIMULATED_TAINT
from railhead.resolve.cluster import resolve
from tests.kueues import kueues
from tests.lab.conftest import railhead, succeed
from tests.lab.jobs import IMAGE, wait

STACK = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.lab.yaml"
NODE_LABEL = "railhead.test/contests"
PLACES = 4
PRIORITIES = {"production": 1000, "research": 0, "spare": -1000}
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2"
_CPU_MILLI = 10
_CONTEST, _GANG = "railhead.test/contest", "railhead.test/gang"


@dataclass(frozen=True, kw_only=True)
class Gang:
    """A gang of ``size`` pods; it is submitted ``after`` seconds of its contest."""

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
    """Return the contests of a seed; one in ten loses a real node, all of those in one round."""
    source = random.Random(seed)
    rounds = count // arenas
    results = []
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
        results.append(
            Contest(
                number=number,
                arena=arena,
                gangs=gangs,
                held=held,
                loses_node=loses,
                simulated=simulated and not loses,
            )
        )
    return results


@dataclass
class Record:
    """Every change that the watcher saw."""

    rows: list[Row] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    begin: float = field(default_factory=time.monotonic)

    @property
    def now(self) -> float:
        """Seconds since the record's begin."""
        return round(time.monotonic() - self.begin, 3)

    def add(self, row: Row) -> None:
        """Write one down."""
        with self._lock:
            self.rows.append(row)

    def write(self, path: Path) -> None:
        """Write one JSON object per line, in the server's order."""
        rows = sorted(self.rows, key=lambda row: row.rv)
        path.write_text("".join(row.model_dump_json() + "\n" for row in rows))


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
        """Return the name of an arena's namespace, team and queue."""
        return f"{self.prefix}-{arena}"

    def make(self) -> None:
        """Create a namespace, a queue and a share for each arena, as for a stack's teams."""
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
        ours = kueues(resolved).flavors["gpu"].name
        flavor: dict[str, Any] = dict(kueues(resolved).flavors["gpu"].spec)
        flavor["nodeLabels"] = {NODE_LABEL: "true"}
        self._ensure("", "resourceflavors", "ResourceFlavor", self.flavor, {"spec": flavor})
        for queue in kueues(resolved).cluster_queues:
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
        """Delete all that `make` created; namespaces with their contents."""
        places = [f"/api/v1/namespaces/{self.namespace(arena)}" for arena in range(self.count)]
        for place in places:
            self.cluster.delete(place)
        wait(lambda: not any(map(self.cluster.find, places)), 180, "the arenas to go")
        for arena in range(self.count):
            path = kube.kueue("", "clusterqueues", self.namespace(arena))
            wait(partial(self._released, path), 60, f"{path} to be let go")
        self.cluster.delete(kube.kueue("", "resourceflavors", self.flavor))

    def _released(self, path: str) -> bool:
        """Delete a queue; returns False while a guard has its status count a job that is gone."""
        try:
            self.cluster.delete(path)
        except kube.ApiError as error:
            if "hold quota" not in error.message:
                raise
            return False
        return True

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
        if not obj["metadata"]["namespace"].startswith(f"{self.prefix}-"):
            return
        row = of_workload(event, obj, self.record.now)
        if row is None:
            return
        self.known[row.arena].add(row.gang)
        if row.finished:
            self.ended[row.gang] = row.finished
        self.record.add(row)

    def _pod(self, event: str, obj: dict[str, Any]) -> None:
        gang = (obj["metadata"].get("labels") or {}).get(_GANG)
        if gang:
            self.record.add(of_pod(event, obj, self.record.now, gang))

    def submit(self, contest: Contest, gang: Gang, seconds: float) -> None:
        """Create one JobSet of sleeping pods."""
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

        ``losing`` is called once, from the thread that comes first, when all arenas run pods of a
        contest that loses a node, which they began together.
        """
        by_arena: dict[int, list[Contest]] = defaultdict(list)
        for contest in contests:
            by_arena[contest.arena].append(contest)
        ends: dict[int, dict[str, str]] = {}
        begun = threading.Barrier(len(by_arena))
        running = threading.Barrier(len(by_arena), action=losing)

        def arena(mine: list[Contest]) -> None:
            try:
                for contest in mine:
                    if contest.loses_node:
                        # The slowest is minutes behind; one that fails ends the others.
                        begun.wait()
                    ends[contest.number] = self._one(contest, seconds, running, limit)
            except BaseException:
                begun.abort()
                running.abort()
                raise

        with ThreadPoolExecutor(len(by_arena)) as pool:
            arenas = [pool.submit(arena, mine) for mine in by_arena.values()]
        failures = [failure for done in arenas if (failure := done.exception())]
        # What broke the barrier says more than what met it broken.
        failures.sort(key=lambda failure: isinstance(failure, threading.BrokenBarrierError))
        if failures:
            raise failures[0]
        return ends

    def _one(
        self, contest: Contest, seconds: float, running: threading.Barrier, limit: float
    ) -> dict[str, str]:
        if contest.held:
            self.hold(contest.arena, "Hold")
        begin = time.monotonic()
        # The first to be let in must still run when the last, half a minute later, is let in, too.
        lasting = 45.0 if contest.loses_node else seconds
        for gang in sorted(contest.gangs, key=lambda g: g.after):
            time.sleep(max(0.0, begin + gang.after - time.monotonic()))
            self.submit(contest, gang, lasting)
        if contest.held:
            names = {gang.name for gang in contest.gangs}
            known = self.known[self.namespace(contest.arena)]
            wait(lambda: names <= known, 60, f"{contest.number}'s Workloads")
            self.hold(contest.arena, "None")
        if contest.loses_node:
            wait(lambda: self._begun(contest) > 0, 120, f"{contest.number}'s first pods")
            running.wait(180)
        everyone = [gang.name for gang in contest.gangs]
        wait(
            lambda: all(name in self.ended for name in everyone),
            limit,
            f"contest {contest.number} to end",
        )
        self.clear(contest)
        return {name: self.ended[name] for name in everyone}

    def _begun(self, contest: Contest) -> int:
        """Return how many pods run or did: a busy kubelet may tell only of their end."""
        pods = self.cluster.list(
            kube.core(self.namespace(contest.arena), "pods"),
            selector=f"{_CONTEST}={contest.number}",
        )
        return sum(
            (pod.get("status") or {}).get("phase") in ("Running", "Succeeded") for pod in pods
        )


def job_set(gang: Gang, contest: Contest, namespace: str, seconds: float) -> dict[str, Any]:
    """Return a gang as people write it: so many pods of one job, a queue and a priority."""
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


def judge(rows: Sequence[Row], contests: Sequence[Contest]) -> ContestFaults:
    """Judge the record of these contests by :func:`railhead.accept.contests.judge`."""
    held = {gang.name for contest in contests if contest.held for gang in contest.gangs}
    return accept.judge(rows, places=PLACES, held=held)


def waits(rows: Sequence[Row]) -> Iterator[float]:
    """Seconds from a gang's first sight to its first quota."""
    first: dict[str, float] = {}
    reported: set[str] = set()
    for row in sorted(rows, key=lambda row: row.rv):
        if row.kind == "gang":
            first.setdefault(row.gang, row.t)
            if row.reserved and row.gang not in reported:
                reported.add(row.gang)
                yield row.t - first[row.gang]


# -- a whole run ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Done:
    """A run of contests, and what its record shows.

    ``ended``: gang -> how; ``lost``: the node that was taken away; ``struck``: contests that had
    pods on it at that moment.
    """

    contests: list[Contest]
    rows: list[Row]
    ended: dict[str, str]
    verdict: ContestFaults
    seconds: float
    lost: str | None
    struck: frozenset[int]


def lab_status(lab: str) -> dict[str, Any]:
    """Return the output of `railhead lab status --json`."""
    done = subprocess.run(
        [sys.executable, "-m", "railhead", "lab", "status", "--name", lab, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def fresh_nodes(lab: str, count: int, *words: str) -> list[str]:
    """Add nodes to a running lab, on which none of its controllers run; their names.

    ``words`` are more of what `railhead lab up` takes.
    """
    before = [node["name"] for node in lab_status(lab)["nodes"]]
    wanted = str(len(before) + count)
    succeed(railhead("lab", "up", "--name", lab, "--nodes", wanted, *words))
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
