"""Gangs are whole: jobs that cannot all fit compete, and the record of their pods is read.

Contests come from a seed that the report has. No node is taken away from a cluster that others
use: that part runs in the lab alone (tests/lab/test_contests.py), and the report says so.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

from pydantic import Field

from railhead.accept.check import Check, CheckPlan
from railhead.accept.contests import ContestFaults, Gang, GangState, draw, judge, put
from railhead.accept.model import (
    Evidence,
    Mark,
    Measured,
    Model,
    Result,
    Span,
    Timeline,
    Verdict,
)
from railhead.accept.record import Record, Row, disorder
from railhead.accept.site import PREFIX, Facts, Testbed
from railhead.base.errors import NotFoundError, PrerequisiteError
from railhead.base.quantity import parse
from railhead.kube import client as kube
from railhead.kube.conditions import holds
from railhead.kube.jobs import JOBSET_LABEL
from railhead.kube.queues import quota
from railhead.launch.api import Run

PROMISE = "A gang's pods start all together or not at all, no matter who else wants the same nodes."
# Seconds that a gang trains, so to say; long enough that the next one has to wait.
_LASTS = 3
# Seconds after which what a queue still holds belongs to others.
_SETTLES = 15
# Of one contest of two nodes, as measured in the lab on 2 cores; most of it is pods that start.
_CONTEST_SECONDS = 45.0


class Wanted(Model):
    """One gang that was submitted. ``turn`` is its contest, -1 the case of one node short."""

    name: str
    turn: int
    size: int
    priority: str | None = None


class Competition(Model):
    """The gangs that were submitted, and their record.

    ``places`` were idle when it began, ``most`` is what there is at all, both in nodes.
    ``holder`` held one node while ``short`` waited for all of ``places``, from ``held`` until
    ``released``, in the record's seconds. ``ended`` is each job's phase at the end, as the cluster
    told it beside the record; ``gap`` why the record may lack something.
    """

    seed: int
    places: int = Field(ge=1)
    most: int = Field(ge=1)
    any_order: bool = False
    wanted: tuple[Wanted, ...]
    holder: str
    short: str
    held: float
    released: float
    rows: tuple[Row, ...]
    ended: dict[str, str]
    gap: str = ""


def idle(site: Testbed) -> tuple[int, int, bool]:
    """Nodes on which nobody's job is and that the queue has quota for; the most of both; order.

    The third is whether the queue lets small gangs go before larger ones that do not fit.
    """
    facts, cluster = site.facts, site.cluster
    used: set[str] = set()
    for pod in cluster.list("/api/v1/pods"):
        spec, status = pod["spec"], pod.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed") or not spec.get("nodeName"):
            continue
        labels = pod["metadata"].get("labels") or {}
        requests = [(c.get("resources") or {}).get("requests") or {} for c in spec["containers"]]
        if JOBSET_LABEL in labels or any(
            facts.pool.gpu_resource in request for request in requests
        ):
            used.add(spec["nodeName"])
    free = len([node for node in facts.real if node not in used])
    most = len(facts.real)
    queue = cluster.get(kube.kueue("", "clusterqueues", facts.queue.cluster_queue))
    spec = queue.get("spec") or {}
    if not spec.get("cohortName"):
        # With a cohort it may borrow, and how much is not known from here.
        nominal, left = _rooms(facts, queue)
        most, free = min(most, nominal), min(free, left)
    return free, most, spec.get("queueingStrategy") != "StrictFIFO"


def _settled(site: Testbed) -> tuple[int, int, bool]:
    """Return the idle quota, once Kueue no longer counts the job of the check before this one."""
    until = time.monotonic() + _SETTLES
    while True:
        places, most, any_order = idle(site)
        if places >= most or time.monotonic() > until:
            return places, most, any_order
        time.sleep(0.5)


def _rooms(facts: Facts, queue: kube.Object) -> tuple[int, int]:
    """Nodes that a queue's quota is enough for: all of it, and what is left."""
    flavors = dict(zip(facts.queue.pools, facts.queue.flavors, strict=False))
    amounts = quota(queue, flavors.get(facts.pool.name))
    nominal, left = Decimal(len(facts.real)), Decimal(len(facts.real))
    for name, each in facts.runtime.devices.items():
        if name in amounts and (item := parse(each)) > 0:
            total, taken = amounts[name]
            nominal, left = min(nominal, total // item), min(left, (total - taken) // item)
    return int(nominal), max(0, int(left))


def _priorities(site: Testbed) -> tuple[str | None, ...]:
    """Return the two lowest priorities where nobody else waits or runs, else the lowest alone.

    With the second lowest priority a gang could preempt others' lowest; so the queue must be empty.
    """
    facts = site.facts
    known = sorted(facts.contract.priorities, key=lambda name: facts.contract.priorities[name])
    if len(known) < 2:
        return (facts.priority,)
    others = site.cluster.list("/apis/kueue.x-k8s.io/v1beta2/workloads")
    busy = [other for other in others if not holds(other, "Finished")]
    return (known[0],) if busy else (known[0], known[1])


class _Run:
    """One run of the check; what it holds is given back by :meth:`clear`."""

    def __init__(self, site: Testbed) -> None:
        self.site = site
        self.seed = secrets.randbits(31)
        self.mark = secrets.token_hex(2)
        self.prefix = f"{PREFIX}-{self.mark}-"
        self.runs: dict[str, Run] = {}
        self.wanted: list[Wanted] = []

    def submit(self, stem: str, *, turn: int, size: int, seconds: int, priority: str | None) -> str:
        fields = {"priority": priority} if priority else {}
        run = self.site.submit(
            f"{self.mark}-{stem}",
            nodes=size,
            command=["sleep", str(seconds)],
            launcher="own",
            **fields,
        )
        self.runs[run.name] = run
        self.wanted.append(Wanted(name=run.name, turn=turn, size=size, priority=priority))
        return run.name

    def contest(self, turn: int, gangs: tuple[Gang, ...], ranks: tuple[str | None, ...]) -> None:
        begin = time.monotonic()
        names = []
        for index, gang in enumerate(sorted(gangs, key=lambda gang: gang.after)):
            time.sleep(max(0.0, begin + gang.after - time.monotonic()))
            names.append(
                self.submit(
                    f"gang-{turn}-{index}",
                    turn=turn,
                    size=gang.size,
                    seconds=_LASTS,
                    priority=ranks[gang.rank],
                )
            )
        self.site.say(f"contest {turn}: gangs of {', '.join(str(g.size) for g in gangs)} nodes")
        self.until(lambda: self.over(names))

    def over(self, names: Iterable[str]) -> bool:
        """Return whether all of them have ended."""
        ended = self.ended()
        return all(ended.get(name) in ("completed", "failed", "gone") for name in names)

    def ended(self) -> dict[str, str]:
        """Return the phase of each job, as its own status says it."""
        listed = self.site.cluster.list(kube.trainjobs(self.site.facts.queue.namespace))
        results = {job["metadata"]["name"]: job for job in listed}
        return {name: _phase(results.get(name)) for name in self.runs}

    def until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait for something; whether it came in time."""
        end = time.monotonic() + (self.site.timeout if seconds is None else seconds)
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.5)
        return True

    def clear(self) -> None:
        """Take every job away, all at once: each takes its time to go."""
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(_cancel, self.runs.values()))


def _cancel(run: Run) -> None:
    with contextlib.suppress(NotFoundError):
        run.cancel()


def _phase(job: kube.Object | None) -> str:
    if job is None:
        return "gone"
    if holds(job, "Complete"):
        return "completed"
    return "failed" if holds(job, "Failed") else "unfinished"


def _missing(facts: Facts) -> str:
    """Return why gangs cannot be judged here."""
    if facts.contract.scheduler != "kueue":
        return (
            f"its evidence is Kueue's Workloads, and {facts.contract.scheduler} admits gangs here"
        )
    nodes = len(facts.real)
    return "" if nodes > 1 else f"it needs 2 nodes, there are {nodes}"


class Gangs:
    """See :class:`railhead.accept.check.Check`."""

    name = "gangs"
    promise = PROMISE
    order = 20
    evidence = Competition

    def plan(self, facts: Facts) -> CheckPlan:
        """Return the plan: so many contests, and the case of one node short."""
        nodes, rounds = len(facts.real), _rounds(facts)
        seconds = _CONTEST_SECONDS * (rounds + 1)
        return CheckPlan(
            steps=(
                f"{rounds} contests of 3 or 4 gangs that want more than the idle ones of {nodes} "
                "nodes together, from a seed",
                "one gang that wants every idle node while one is held: none of it may run",
                "read every change of their Workloads and pods, in the API server's order",
                "no node is taken away, and nobody's job is stopped",
            ),
            nodes=nodes,
            seconds=seconds,
            node_hours=round(nodes * seconds / 3600, 2),
            missing=_missing(facts),
        )

    def run(self, site: Testbed) -> Competition:
        """Contests one after the other, then the case of one node short."""
        places, most, any_order = _settled(site)
        if places < 2:
            raise PrerequisiteError(
                f"{places} of {most} nodes are idle and within the queue's quota; a competition "
                "needs two",
                remedy="run it when nodes are idle, or name a queue that has some",
            )
        ranks = _priorities(site)
        going = _Run(site)
        rounds = _rounds(site.facts)
        contests = draw(going.seed, places=places, rounds=rounds, ranks=len(ranks))
        site.say(f"seed {going.seed}: {rounds} contests for {places} idle nodes")
        namespace = site.facts.queue.namespace
        with Record(site.cluster, namespace, lambda gang: gang.startswith(going.prefix)) as record:
            try:
                for turn, gangs in enumerate(contests):
                    going.contest(turn, gangs, ranks)
                holder, short, held, released = self._one_short(going, record, places)
                ending = [item for item in going.wanted if item.name != holder]
                going.until(lambda: not _missing_end(record.rows(), ending), 30)
                ended = going.ended()
                rows, gap = record.rows(), record.gap
            finally:
                going.clear()
        return Competition(
            seed=going.seed,
            places=places,
            most=most,
            any_order=any_order,
            wanted=tuple(going.wanted),
            holder=holder,
            short=short,
            held=held,
            released=released,
            rows=rows,
            ended=ended,
            gap=gap,
        )

    def _one_short(self, going: _Run, record: Record, places: int) -> tuple[str, str, float, float]:
        """Hold one node: a gang that wants all of them waits whole, and runs whole afterwards."""
        site = going.site
        holder = going.submit("holder", turn=-1, size=1, seconds=3600, priority=None)
        going.until(lambda: _runs(record.rows(), holder, 1))
        held = record.now
        short = going.submit("short", turn=-1, size=places, seconds=_LASTS, priority=None)
        going.until(lambda: any(row.gang == short for row in record.rows()), 60)
        site.say(f"one node is held; a gang of {places} nodes must wait whole")
        time.sleep(_short_seconds(site.facts))
        released = record.now
        _cancel(going.runs[holder])
        site.say("the node is free again: the gang must run whole")
        going.until(lambda: going.over([short]))
        return holder, short, held, released

    def judge(self, evidence: Competition, facts: Facts) -> Result:
        """Return what the record shows; see :func:`railhead.accept.contests.judge`."""
        sizes = {gang.name: gang.size for gang in evidence.wanted}
        shown = judge(
            evidence.rows, places=evidence.most, sizes=sizes, any_order=evidence.any_order
        )
        early = _early(evidence)
        wrong = shown.wrong + early
        stuck = _stuck(evidence, shown)
        lacking = _lacking(evidence, shown, facts)
        if wrong or stuck:
            verdict, summary = Verdict.FAILED, (stuck or wrong)[0]
        elif lacking:
            verdict, summary = Verdict.NOT_PROVEN, lacking[0]
        else:
            verdict = Verdict.PASSED
            summary = (
                f"{len(evidence.wanted) - 1} gangs wanted {evidence.places} nodes, more than once "
                "over: each was wholly admitted or wholly pending at every moment, and all ended"
            )
        return Result(
            name=self.name,
            promise=PROMISE,
            verdict=verdict,
            summary=summary,
            measured=_measured(evidence, shown, early),
            evidence=_evidence(evidence, shown, [*stuck, *wrong, *lacking]),
            plots=(_timeline(evidence),) if evidence.rows and not disorder(evidence.rows) else (),
            remedy=_remedy(shown, early, stuck, lacking),
            reproduce=("railhead accept --only gangs",),
        )


CHECK: Check[Competition] = Gangs()


def _rounds(facts: Facts) -> int:
    return 2 if facts.quick else 5


def _short_seconds(facts: Facts) -> float:
    """Return the seconds for which the gang that is one node short is watched."""
    return 8.0 if facts.quick else 30.0


# -- what the record says -------------------------------------------------------------------------


def _runs(rows: Iterable[Row], gang: str, size: int) -> bool:
    """Return whether so many pods of a gang have run."""
    pods = {r.pod for r in rows if r.gang == gang and r.kind == "pod" and r.phase == "Running"}
    return len(pods) >= size


def _missing_end(rows: Iterable[Row], wanted: Iterable[Wanted]) -> list[str]:
    """Gangs of whose end the record does not have all."""
    pods: dict[str, dict[str, bool]] = {}
    finished: set[str] = set()
    for row in rows:
        if row.kind == "gang" and row.finished:
            finished.add(row.gang)
        elif row.kind == "pod":
            over = row.phase in ("Succeeded", "Failed") or row.event == "DELETED"
            pods.setdefault(row.gang, {})[row.pod] = over
    results = []
    for item in wanted:
        seen = pods.get(item.name, {})
        if len(seen) < item.size:
            results.append(f"{item.name}: {len(seen)} of {item.size} pods are in the record")
        elif item.name not in finished or not all(seen.values()):
            results.append(f"{item.name}: the record has not its end")
    return results


def _early(evidence: Competition) -> list[str]:
    """Return the pods of the gang that ran before its last node was free."""
    if disorder(evidence.rows):
        return []
    for row in evidence.rows:
        if row.gang != evidence.short or row.t >= evidence.released:
            continue
        if row.reserved or row.node:
            # A node of another job may have become free, where not all were idle.
            if evidence.places < evidence.most:
                return []
            what = f"its pod {row.pod} was on {row.node}" if row.node else "it was admitted"
            return [
                f"one node short: {what} at {row.t} s, and the node that it lacked was held until "
                f"{evidence.released} s"
            ]
    return []


def _stuck(evidence: Competition, shown: ContestFaults) -> list[str]:
    """Gangs that never ended while parts of one held places."""
    left = [n for n, phase in evidence.ended.items() if phase != "completed"]
    left = [name for name in left if name != evidence.holder]
    if left and (shown.half_placed or shown.unpaid):
        return [f"deadlock: {', '.join(sorted(left))} never ended, parts of gangs hold nodes"]
    failed = sorted(name for name in left if evidence.ended[name] == "failed")
    return [f"{', '.join(failed)} failed"] if failed else []


def _lacking(evidence: Competition, shown: ContestFaults, facts: Facts) -> list[str]:
    """Return why the record proves nothing, though nothing in it is wrong."""
    results = []
    if evidence.gap:
        results.append(f"the record has a gap: {evidence.gap}")
    if text := disorder(evidence.rows):
        results.append(f"the record cannot be true: {text}")
    names = [gang.name for gang in evidence.wanted]
    if len(names) != len(set(names)) or not {evidence.holder, evidence.short} <= set(names):
        results.append("the gangs that were asked for are not told apart")
    turns = {gang.turn for gang in evidence.wanted if gang.turn >= 0}
    if len(turns) < _rounds(facts):
        results.append(f"{len(turns)} of {_rounds(facts)} contests were run")
    for turn in sorted(turns):
        asked = sum(gang.size for gang in evidence.wanted if gang.turn == turn)
        if asked <= evidence.places:
            results.append(
                f"contest {turn}: {asked} nodes were wanted of {evidence.places}: all fit"
            )
        if not shown.waited & {gang.name for gang in evidence.wanted if gang.turn == turn}:
            results.append(f"contest {turn}: no gang had to wait, so nothing was contended")
    results += [
        f"{name} did not end in time: {evidence.ended.get(name, 'not asked')}"
        for name in names
        if name != evidence.holder and evidence.ended.get(name) != "completed"
    ]
    wanted = [gang for gang in evidence.wanted if gang.name != evidence.holder]
    results += [f"the record is cut off: {text}" for text in _missing_end(evidence.rows, wanted)]
    return results + _short_lacking(evidence, facts)


def _short_lacking(evidence: Competition, facts: Facts) -> list[str]:
    """Return why the case of one node short proves nothing."""
    rows = [row for row in evidence.rows if row.gang == evidence.short]
    before = [row for row in rows if row.t < evidence.released]
    if not _runs([r for r in evidence.rows if r.t <= evidence.held], evidence.holder, 1):
        return ["one node short: nothing held the node"]
    if not before:
        return ["one node short: the gang was not seen to wait"]
    if any(row.reserved or row.node for row in before):
        return ["one node short: another node came free while it waited"]
    waited = evidence.released - before[0].t
    if waited < _short_seconds(facts) / 2:
        return [f"one node short: it was looked at for {waited:.1f} s only"]
    return []


def _measured(
    evidence: Competition, shown: ContestFaults, early: list[str]
) -> tuple[Measured, ...]:
    record = "the record of pods over time"
    none = {"unit": "moments", "limit": 0.0, "at_least": False, "source": record}
    counts = (
        ("half-placed gangs", len(shown.half_placed)),
        ("admitted beyond what there is", len(shown.overfull)),
        ("pods placed without quota", len(shown.unpaid)),
        ("gangs charged for another number of pods", len(shown.partly_charged)),
        ("out of the order of priorities", len(shown.out_of_order)),
        ("ended without all pods at once", len(shown.never_whole)),
        ("ran one node short", len(early)),
    )
    waits = list(_waits(evidence.rows))
    return (
        *(Measured.model_validate({"name": name, "value": n} | none) for name, n in counts),
        Measured(name="gangs", value=len(evidence.wanted)),
        Measured(name="gangs that had to wait", value=len(shown.waited)),
        Measured(name="pods", value=shown.pods),
        Measured(name="preemptions", value=sum(shown.evictions.values())),
        Measured(name="changes recorded", value=len(evidence.rows)),
        Measured(name="longest wait", value=round(max(waits, default=0.0), 2), unit="s"),
    )


def _waits(rows: Iterable[Row]) -> Iterable[float]:
    """Seconds from each gang's first sight to its first quota."""
    first: dict[str, float] = {}
    reported: set[str] = set()
    for row in rows:
        if row.kind == "gang":
            first.setdefault(row.gang, row.t)
            if row.reserved and row.gang not in reported:
                reported.add(row.gang)
                yield row.t - first[row.gang]


def _evidence(evidence: Competition, shown: ContestFaults, told: list[str]) -> tuple[Evidence, ...]:
    lines = [
        f"{row.rv} {row.t:8.3f} s {_short_name(row.gang)} {_said(row)}" for row in evidence.rows
    ]
    keep = 400
    if len(lines) > keep:
        lines = [*lines[:keep], f"... {len(lines) - keep} more in the evidence's file"]
    about = [
        f"seed {evidence.seed}, {evidence.places} idle nodes of {evidence.most}",
        "priorities: "
        + (", ".join(sorted({w.priority for w in evidence.wanted if w.priority})) or "none"),
        "preemptions: "
        + (", ".join(f"{n} {why}" for why, n in sorted(shown.evictions.items())) or "none"),
        "taking a node away is no part of this: it would stop the jobs of others",
    ]
    results = [Evidence(title="The contests", text="\n".join(about))]
    if told:
        results.append(Evidence(title="What is against it", text="\n".join(told)))
    record = "Workloads and pods, by resource version"
    return (*results, Evidence(title=record, text="\n".join(lines)))


def _short_name(gang: str) -> str:
    """Return a gang's name without what makes it unique."""
    return "-".join(gang.split("-")[2:-1]) or gang


def _said(row: Row) -> str:
    if row.kind == "gang":
        what = row.finished or row.evicted or ("admitted" if row.reserved else "pending")
        return f"{row.event} Workload of {row.size}: {what}"
    state = "no place" if row.refused else row.phase
    leaving = ", going" if row.going else ""
    return f"{row.event} pod {row.index} on {row.node or 'no node'}: {state}{leaving}"


def _timeline(evidence: Competition) -> Timeline:
    """Return a lane a gang: it waits, its pods are placed, it runs."""
    spans: list[Span] = []
    last = max(row.t for row in evidence.rows)
    for item in evidence.wanted:
        state, since, seen = "", 0.0, GangState(size=item.size)
        lane = f"{_short_name(item.name)} ({item.size})"
        for row in [*(r for r in evidence.rows if r.gang == item.name), None]:
            at = last if row is None else row.t
            now = "" if row is None else _state(row, seen, item.size)
            if now != state:
                if state:
                    spans.append(Span(lane=lane, begin=since, end=max(at, since), state=state))
                state, since = now, at
            if row is not None and now == "ended":
                break
    marks = (
        Mark(at=evidence.held, label="one node is held"),
        Mark(at=evidence.released, label="it is free"),
    )
    return Timeline(title="Gangs that compete", spans=tuple(spans), marks=marks)


def _state(row: Row, seen: GangState, size: int) -> str:
    """Return the state of a gang from this row on."""
    if row.kind == "gang":
        seen.reserved = row.reserved
        seen.finished = seen.finished or bool(row.finished) or row.event == "DELETED"
    elif row.event == "DELETED" or row.going or row.phase in ("Failed", "Succeeded"):
        seen.bound.discard(row.pod)
    else:
        put(seen.bound, row.pod, row.phase == "Running")
    if seen.finished:
        return "ended"
    if not seen.reserved:
        seen.whole = False
        return "waits"
    if seen.live >= size:
        seen.whole = True
        return "runs"
    return "ends" if seen.whole else "starts"


def _remedy(shown: ContestFaults, early: list[str], stuck: list[str], lacking: list[str]) -> str:
    """Return the remedy of the first fault."""
    if shown.unpaid:
        return (
            "pods are placed that Kueue has not admitted: see that its controller manages "
            "TrainJobs (`integrations.frameworks` has trainer.kubeflow.org/trainjob), that the "
            "namespace is one of `managedJobsNamespaceSelector`, and that jobs carry "
            "kueue.x-k8s.io/queue-name; `pulumi up` puts all three back"
        )
    if shown.partly_charged:
        return (
            "Kueue charges the runtime's template and not the job (before 0.15.2, with Trainer "
            "2.1): take a combination of `versions` that the catalogue has, and `pulumi up`"
        )
    if shown.half_placed or shown.overfull or early:
        return (
            "the queue hands out more than the nodes have: make its quota what the pool has "
            "(`railhead drift` shows who changed it), give its flavor the topology, and keep "
            "waitForPodsReady on, so that a gang that cannot start whole is taken back; `pulumi "
            "up` puts all three back"
        )
    if shown.out_of_order:
        return "Kueue's order is not the queue's: look at its queueingStrategy and preemption"
    if shown.never_whole or stuck:
        return "look at why the gang's pods ended: `kubectl describe workload,jobset,pod`"
    if lacking:
        return "run it again when its nodes are idle, without a limit of nodes: --only gangs"
    return ""
