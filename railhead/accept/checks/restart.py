"""A killed run comes back: the same training, unbroken and harmed, ends with the same losses.

What is done to a job is done to its own processes and pods only. Ranks and launchers are harmed by
the program itself, at a step that is known, so that what is lost is exact and nobody's right to run
commands in pods is needed; a pod is deleted through the API where the user may. A node is
lost where they name one that may be, and a command that does it. Stopping controllers would touch
others, and is no part of this.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from railhead.accept import remedies
from railhead.accept.check import Check, CheckPlan
from railhead.accept.losing import OUT_OF_SERVICE, Losing
from railhead.accept.model import (
    Axis,
    Evidence,
    LinePlot,
    Mark,
    Measured,
    Model,
    Result,
    Series,
    Verdict,
)
from railhead.accept.record import Record, Row
from railhead.accept.site import PREFIX, Facts, Testbed
from railhead.accept.training import HARMS, Harm, LogLine, Shown, Trained, losses, words
from railhead.accept.training import broken as read_broken
from railhead.accept.training import unbroken as read_unbroken
from railhead.base.errors import NotFoundError
from railhead.kube import client as kube
from railhead.kube.jobs import JOBSET_LABEL, JobState, Phase
from railhead.launch.api import Run
from railhead.launch.logs.stream import Gang, Selection

PROMISE = "A run that is killed resumes from its last checkpoint by itself, and loses nothing else."
PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
PROGRAM = "restart.py"
EVERY = 4
NODES = 2
PROCESSES = 2
# The other ranks report a rank that stopped after this; torchrun then gives it 30 s to end.
_WATCHDOG = 20
# What is done from outside, while the program waits for it.
_OUTSIDE = ("wait", "node")
# Lines of a job that a report keeps of those that are not the program's.
_KEPT = 40


class Trainings(Model):
    """The unbroken job, and each that was harmed. ``not_part`` is what was not done, and why."""

    unbroken: Trained
    broken: tuple[Trained, ...]
    not_part: tuple[str, ...] = ()


def harmed(facts: Facts, *, pods: bool) -> tuple[tuple[Harm, ...], ...]:
    """Return the harms of each job. Quick jobs take two each, as many as runtimes allow."""
    kinds = ["kill", "launcher", "hang", *(["wait"] if pods else [])]
    lost = ((Harm(kind="node", step=EVERY + 2),),) if facts.may_lose else ()
    if not facts.quick:
        return (*((Harm(kind=kind, step=EVERY + 2),) for kind in kinds), *lost)
    halves = (kinds[:2], kinds[2:])
    return (
        *(
            tuple(Harm(kind=kind, step=EVERY * (n + 1) + 2) for n, kind in enumerate(half))
            for half in halves
        ),
        *lost,
    )


def steps_of(facts: Facts) -> int:
    """Steps of each job: the last harm is well before the end."""
    return EVERY * 3 + 2 if facts.quick else EVERY * 5


class Restart:
    """See :class:`railhead.accept.check.Check`."""

    name = "restart"
    promise = PROMISE
    order = 40
    evidence = Trainings

    def plan(self, facts: Facts) -> CheckPlan:
        """Return one unbroken job, and those that are harmed."""
        jobs = harmed(facts, pods=True)
        seconds = 30.0 + sum(15.0 + sum(_seconds(harm) for harm in job) for job in jobs)
        return CheckPlan(
            steps=(
                f"train {steps_of(facts)} steps on {NODES} nodes, a checkpoint every {EVERY}",
                *(
                    "the same, and " + ", then ".join(HARMS[harm.kind] for harm in job)
                    for job in jobs
                ),
                "compare every loss with the unbroken run's, to the last digit",
            ),
            nodes=NODES,
            seconds=seconds,
            node_hours=round(NODES * seconds / 3600, 2),
            missing=_missing(facts),
        )

    def run(self, site: Testbed) -> Trainings:
        """Train unbroken, then harmed."""
        site.say(f"an unbroken training of {steps_of(site.facts)} steps")
        whole = train(site, ())
        may = _may_delete_pods(site)
        broken = []
        # Without an unbroken run there is nothing to compare with.
        for job in harmed(site.facts, pods=may) if whole.phase == Phase.COMPLETED else ():
            site.say("the same, and " + ", then ".join(HARMS[harm.kind] for harm in job))
            broken.append(train(site, job))
        not_part = ["no controller was stopped: others use them"]
        if not site.facts.may_lose:
            not_part.append("no node was lost: none was named by --may-lose")
        if not may:
            not_part.append("no pod was deleted: this user may not delete pods here")
        return Trainings(unbroken=whole, broken=tuple(broken), not_part=tuple(not_part))

    def judge(self, evidence: Trainings, facts: Facts) -> Result:
        """Attempts, steps and losses; see :mod:`railhead.accept.training`."""
        first = read_unbroken(evidence.unbroken)
        curve = losses(first.attempts)
        shown = [(job, read_broken(job, curve)) for job in evidence.broken]
        every = [first, *(item for _, item in shown)]
        wrong = [item for each in every for item in each.wrong]
        lacking = [item for each in every for item in each.lacking]
        lacking += _not_done(evidence, facts)
        if wrong:
            verdict, summary = Verdict.FAILED, wrong[0][1]
        elif lacking:
            verdict, summary = Verdict.NOT_PROVEN, lacking[0]
        else:
            verdict = Verdict.PASSED
            count = sum(len(each.came) for each in every)
            slowest = max((came.seconds or 0 for each in every for came in each.came), default=0)
            summary = (
                f"{count} times a training was harmed and came back by itself within "
                f"{slowest:.0f} s from its last checkpoint, with the unbroken run's losses to the "
                "last digit"
            )
        return Result(
            name=self.name,
            promise=PROMISE,
            verdict=verdict,
            summary=summary,
            measured=_measured(shown),
            evidence=_evidence(evidence, [text for _, text in wrong] + lacking),
            plots=(_plot(curve, shown),) if curve else (),
            remedy=_remedy([kind for kind, _ in wrong], lacking, evidence),
            reproduce=("railhead accept --only restart",),
        )


CHECK: Check[Trainings] = Restart()


def _seconds(harm: Harm) -> float:
    """About how long a harm takes: a hang and a node's silence have to be noticed first."""
    return 30.0 + {"hang": _WATCHDOG + 30.0, "node": 180.0}.get(harm.kind, 0.0)


def _missing(facts: Facts) -> str:
    if len(facts.real) < NODES:
        return f"it needs {NODES} nodes, there are {len(facts.real)}"
    if facts.runtime.framework != "torch":
        return f"it needs a runtime of PyTorch, {facts.runtime.name} is {facts.runtime.framework}"
    if facts.runtime.checkpoint is None:
        return f"runtime {facts.runtime.name} mounts no claim for checkpoints"
    return ""


def _may_delete_pods(site: Testbed) -> bool:
    attributes = {"namespace": site.facts.queue.namespace, "verb": "delete", "resource": "pods"}
    body = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = site.cluster.create(path, body)
    return bool((answer.get("status") or {}).get("allowed"))


def train(site: Testbed, harms: tuple[Harm, ...]) -> Trained:
    """Return one job to its end, harmed in that order."""
    facts = site.facts
    words_of_it = ["--steps", str(steps_of(facts)), "--every", str(EVERY)]
    words_of_it += ["--watchdog", str(_WATCHDOG)]
    for harm in harms:
        kind = "wait" if harm.kind in _OUTSIDE else harm.kind
        words_of_it += ["--harm", f"{kind}@{harm.step}"]
    mark = secrets.token_hex(2)
    namespace = facts.queue.namespace
    prefix = f"{PREFIX}-restart-{mark}-"
    with (
        Record(site.cluster, namespace, lambda gang: gang.startswith(prefix)) as record,
        site.job(
            f"restart-{mark}",
            nodes=NODES,
            command=["torchrun", f"/workspace/{PROGRAM}", *words_of_it],
            processes_per_node=PROCESSES,
            folder=PROGRAMS,
            files=[PROGRAM],
        ) as run,
    ):
        losing = Losing(
            site.cluster,
            allowed=facts.may_lose,
            command=facts.lose_with,
            now=lambda: record.now,
        )
        live, state = _follow(site, run, record, harms, losing)
        last = _last(run) if state.phase is Phase.COMPLETED else ()
        child = site.cluster.find(kube.jobset(namespace, run.name))
        restarts = (child.get("status") or {}).get("restarts", 0) if child else None
        return Trained(
            name=run.name,
            nodes=NODES,
            steps=steps_of(facts),
            every=EVERY,
            harms=harms,
            phase=state.phase.value,
            detail=state.detail,
            restarts=restarts,
            rows=tuple(row for row in record.rows() if row.kind == "pod"),
            live=tuple(live),
            last=last,
            lost=losing.lost,
            gap=record.gap,
        )


def _follow(
    site: Testbed, run: Run, record: Record, harms: Sequence[Harm], losing: Losing
) -> tuple[list[LogLine], JobState]:
    """Follow the lines of all attempts until the job has ended or its time is over."""
    live: list[LogLine] = []
    namespace = site.facts.queue.namespace
    waits = {harm.step: harm.kind for harm in harms if harm.kind in _OUTSIDE}
    gang = Gang(site.cluster, namespace=namespace, selection=Selection())
    end, back = time.monotonic() + site.timeout, False
    try:
        while True:
            state = run.state()
            gang.look(state.nodes)
            for line in gang.lines():
                live.append(LogLine(t=record.now, node=line.node, text=line.text))
                message = words(line.text)
                step = next((s for s in waits if message == f"harm kind=wait step={s}"), None)
                if step is not None:
                    _harm(site, run.name, waits.pop(step), losing)
                back = back or message.startswith("resumed ")
            losing.look(back=back)
            if state.phase.finished or time.monotonic() > end:
                break
            time.sleep(0.5)
        live += [
            LogLine(t=record.now, node=line.node, text=line.text) for line in gang.drain(seconds=5)
        ]
    finally:
        gang.close()
    return _kept(live), state


def _kept(lines: list[LogLine]) -> list[LogLine]:
    """Return the program's lines, and the last of the others."""
    others = [line for line in lines if not words(line.text)][-_KEPT:]
    return [line for line in lines if words(line.text) or line in others]


def _last(run: Run) -> tuple[LogLine, ...]:
    """Return the program's lines of the last attempt, from the log itself."""
    return tuple(
        LogLine(t=0, node=line.node, text=line.text) for line in run.logs() if words(line.text)
    )


def _harm(site: Testbed, name: str, kind: str, losing: Losing) -> None:
    """Delete a job's pod of the highest index, or lose a node; the cluster has to do the rest."""
    pods = kube.core(site.facts.queue.namespace, "pods")
    result = site.cluster.list(pods, selector=f"{JOBSET_LABEL}={name}")
    result.sort(key=lambda pod: str(pod["metadata"]["name"]))
    if kind == "node":
        losing.take([str(pod["spec"].get("nodeName") or "") for pod in result])
    elif result:
        with contextlib.suppress(NotFoundError):
            site.cluster.delete(f"{pods}/{result[-1]['metadata']['name']}")


# -- what is said of it ---------------------------------------------------------------------------


def _not_done(evidence: Trainings, facts: Facts) -> list[str]:
    """Harms that belong to the check and were not tried."""
    done = {harm.kind for job in evidence.broken for harm in job.harms}
    wanted = {harm.kind for job in harmed(facts, pods=False) for harm in job}
    results = [f"{HARMS[kind]}: was not tried" for kind in sorted(wanted - done)]
    results += [
        f"{job.name}: {job.steps} steps on {job.nodes} nodes were not asked for"
        for job in (evidence.unbroken, *evidence.broken)
        if job.steps != steps_of(facts) or job.nodes != NODES
    ]
    if evidence.unbroken.harms:
        results.append("the unbroken run was harmed")
    return results


def _measured(shown: Sequence[tuple[Trained, Shown]]) -> tuple[Measured, ...]:
    results = []
    for job, item in shown:
        names = [HARMS[harm.kind] for harm in job.harms]
        made = len(item.attempts)
        wanted = len(job.harms) + 1
        results.append(
            Measured(
                name=f"attempts ({', '.join(names)})",
                value=made,
                limit=wanted,
                at_least=made < wanted,
                source="one more than it was harmed",
            )
        )
        for came in item.came:
            what = HARMS[came.harm.kind]
            results.append(
                Measured(
                    name=f"{what}: steps lost",
                    value=came.lost,
                    unit="steps",
                    limit=EVERY - 1,
                    at_least=False,
                    source=f"a checkpoint every {EVERY} steps",
                )
            )
            if came.seconds is not None:
                value = round(came.seconds, 1)
                results.append(Measured(name=f"{what}: back after", value=value, unit="s"))
    return tuple(results)


def _evidence(evidence: Trainings, told: list[str]) -> tuple[Evidence, ...]:
    results = []
    if told:
        results.append(Evidence(title="What is against it", text="\n".join(told)))
    results.append(Evidence(title="What was not done", text="\n".join(evidence.not_part) or "-"))
    for job in (evidence.unbroken, *evidence.broken):
        title = f"{job.name}: " + (
            ", then ".join(HARMS[harm.kind] for harm in job.harms) or "unbroken"
        )
        lines = [f"{line.t:8.2f} s node-{line.node} {line.text}" for line in job.live]
        pods = [_pod(row) for row in job.rows if row.event in ("ADDED", "DELETED") or row.going]
        text = [f"phase {job.phase}, restarts {job.restarts} {job.detail}".rstrip(), *pods, *lines]
        if (lost := job.lost) is not None:
            seen = "never" if lost.unready is None else f"at {lost.unready:.2f} s"
            text.insert(
                1, f"node {lost.node}: seen not ready {seen}; its pods ended after {lost.after}"
            )
        results.append(Evidence(title=title, text="\n".join(text)))
    return tuple(results)


def _pod(row: Row) -> str:
    going = " going" if row.going else ""
    return f"{row.rv} {row.t:8.2f} s {row.event} {row.pod} on {row.node or 'no node'}{going}"


def _plot(curve: dict[int, str], shown: Sequence[tuple[Trained, Shown]]) -> LinePlot:
    """Return a plot of the losses of all runs over steps, and of their harms."""
    series = [Series(name="unbroken", points=_points(curve), ideal=True)]
    marks = []
    for job, item in shown:
        names = ", then ".join(HARMS[harm.kind] for harm in job.harms)
        for number, attempt in enumerate(item.attempts, 1):
            if attempt.losses:
                series.append(
                    Series(name=f"{names}: attempt {number}", points=_points(attempt.losses))
                )
        marks += [Mark(at=harm.step, label=HARMS[harm.kind]) for harm in job.harms]
    return LinePlot(
        title="Loss with restarts",
        x=Axis(label="step"),
        y=Axis(label="loss"),
        series=tuple(series),
        marks=tuple(marks),
    )


def _points(curve: dict[int, str]) -> tuple[tuple[float, float], ...]:
    return tuple((float(step), float(loss)) for step, loss in sorted(curve.items()))


_REMEDIES = {
    "node": (
        "nothing ended the pods of the node that was lost, and while they are there no gang is "
        "recreated: have the cloud replace machines that do not answer, a node repair delete their "
        "nodes, or Kueue end such pods (`end_lost_pods` in the stack's file); by hand, "
        f"`kubectl taint nodes NODE {OUT_OF_SERVICE}=nodeshutdown:NoExecute` "
        "once the machine is off"
    ),
    "storage": (
        "the runtime's claim is not one that all nodes share: give `checkpoints` a storage class "
        "that is ReadWriteMany on every node, then `pulumi up`; `railhead storage --prove` shows it"
    ),
    "ended": (
        "nothing started it again: the runtime's failurePolicy is what does (`restarts` in the "
        "stack's file, with `gang` above 0), and `pulumi up` puts it back; what the job said last "
        "is in the evidence"
    ),
    "attempts": (
        "more was started again than the gang as a whole: keep `backoffLimit` 0 and torchrun's own "
        "restarts (PET_MAX_RESTARTS) 0, as the runtime has them"
    ),
    "resume": (
        "a checkpoint that was written was not found again: see that CHECKPOINT_DIR stays the same "
        "over attempts, and that the claim is one and the same on all nodes"
    ),
    "loss": (
        "what was read back is not what was written: look at the storage (`railhead storage "
        "--prove`), and at the memory of the nodes that it ran on"
    ),
}


def _remedy(kinds: list[str], lacking: list[str], evidence: Trainings) -> str:
    if kinds:
        return _REMEDIES[kinds[0]]
    if any("cut off" in text for text in lacking):
        return remedies.CUT_OFF
    if any(job.lost is not None and job.phase != "completed" for job in evidence.broken):
        return _REMEDIES["node"]
    return "run it again: `railhead accept --only restart`" if lacking else ""
