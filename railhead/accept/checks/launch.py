"""Launches need no help: the documented examples, submitted as a researcher would.

Their job files are what the package ships, word for word; what is added is a name that nobody has
and the cluster's lowest priority, so that no team is pushed aside. Who submits has the groups of a
researcher and nothing else: the check asks the cluster as such a user. Where they may not,
their own rights are used if those are no more than a researcher's; else nothing is proven.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pydantic import Field

from railhead.accept import remedies
from railhead.accept.check import Check, CheckPlan
from railhead.accept.examples import Example, examples, unfit
from railhead.accept.model import Evidence, Measured, Model, Result, Verdict
from railhead.accept.site import Facts, Testbed
from railhead.base.errors import InputError, PrerequisiteError, RefusedError, TimedOutError
from railhead.contract import ClusterContract, Queue
from railhead.kube.client import ApiError, Cluster
from railhead.kube.jobs import JobState, Phase
from railhead.launch.api import Run

PROMISE = "The documented examples run as they stand, with a researcher's rights and no help."
USER = "railhead-accept"
_RANK = re.compile(r"\b(?:rank|process)=(\d+) (?:world_size|processes)=(\d+)\b")
_SECONDS = 30.0
# An example is small: one that runs so much longer waits for something that does not come.
_HANGS = 300.0
# What no researcher may: (group, resource, verb), in the training namespace where it has one.
BEYOND = (
    ("", "nodes", "delete"),
    ("", "pods", "create"),
    ("kueue.x-k8s.io", "clusterqueues", "patch"),
    ("rbac.authorization.k8s.io", "clusterroles", "create"),
)


class Launched(Model):
    """An example: its job file, what became of it, and what its processes said.

    ``refused`` is why it was not submitted, in words; ``hung`` that it ran and was aborted.
    ``lines`` are those that name a rank, and the last ones.
    """

    example: str
    text: str
    name: str = ""
    nodes: int = 0
    ranks: int = 0
    refused: str = ""
    phase: str = ""
    detail: str = ""
    hung: bool = False
    lines: tuple[str, ...] = ()


class Launches(Model):
    """The user that submitted, their further rights, and the examples.

    ``beyond`` is, for each right that no researcher has, whether this user has it. ``skipped`` are
    examples that the cluster has no runtime for, each with why.
    """

    user: str
    groups: tuple[str, ...]
    beyond: dict[str, bool]
    launched: tuple[Launched, ...]
    skipped: dict[str, str] = Field(default_factory=dict)


def groups_of(contract: ClusterContract, queue: Queue) -> tuple[str, ...]:
    """Return the groups of those who may submit to a queue's namespace."""
    team = next((item for item in contract.teams if item.name == queue.team), None)
    if team is not None:
        return team.researchers
    return (contract.researchers,) if contract.researchers else ()


class Launch:
    """See :class:`railhead.accept.check.Check`."""

    name = "launch"
    promise = PROMISE
    order = 10
    evidence = Launches

    def plan(self, facts: Facts) -> CheckPlan:
        """Return one job an example that the cluster has a runtime for."""
        fit = [example for example in examples() if not unfit(example, facts.contract)]
        nodes = max((item.job.nodes for item in fit), default=0)
        missing = ""
        if not examples():
            missing = "the documentation's examples are not installed"
        elif not fit:
            missing = "the cluster has no runtime that an example is for"
        elif nodes > len(facts.real):
            missing = f"the examples take {nodes} nodes, there are {len(facts.real)}"
        seconds = _SECONDS * len(fit)
        return CheckPlan(
            steps=tuple(f"launch examples/{item.name}.yaml as a researcher" for item in fit),
            nodes=nodes,
            seconds=seconds,
            node_hours=round(nodes * seconds / 3600, 2),
            missing=missing,
        )

    def run(self, site: Testbed) -> Launches:
        """Submit each as a researcher, and read what it said."""
        fit: list[Example] = []
        skipped: dict[str, str] = {}
        for example in examples():
            why = unfit(example, site.facts.contract)
            if why:
                skipped[example.name] = why
            else:
                fit.append(example)
        with _researcher(site) as (theirs, user, groups):
            beyond = {
                f"{verb} {resource}": _may(theirs, group, resource, verb)
                for group, resource, verb in BEYOND
            }
            return Launches(
                user=user,
                groups=groups,
                beyond=beyond,
                launched=tuple(_launched(theirs, fit)),
                skipped=skipped,
            )

    def judge(self, evidence: Launches, facts: Facts) -> Result:
        """Pass where all completed, in the world that they asked for, with no more rights."""
        wrong = [text for launch in evidence.launched for text in _wrong(launch)]
        lacking = [text for launch in evidence.launched for text in _lacking(launch)]
        lacking += _not_done(evidence, facts)
        if wrong:
            verdict, summary = Verdict.FAILED, wrong[0]
        elif lacking:
            verdict, summary = Verdict.NOT_PROVEN, lacking[0]
        else:
            verdict = Verdict.PASSED
            names = ", ".join(launch.example for launch in evidence.launched)
            summary = f"{names} ran as documented, with a researcher's rights alone"
        completed = sum(launch.phase == "completed" for launch in evidence.launched)
        return Result(
            name=self.name,
            promise=PROMISE,
            verdict=verdict,
            summary=summary,
            measured=(
                Measured(
                    name="examples that completed",
                    value=completed,
                    limit=max(1, len(evidence.launched)),
                    source="every documented example that the cluster has a runtime for",
                ),
            ),
            evidence=_evidence(evidence, wrong + lacking),
            remedy=_remedy(evidence, facts, wrong, lacking),
            reproduce=tuple(
                f"railhead launch examples/{launch.example}.yaml --follow"
                for launch in evidence.launched
            ),
        )


CHECK: Check[Launches] = Launch()


@contextmanager
def _researcher(site: Testbed) -> Iterator[tuple[Testbed, str, tuple[str, ...]]]:
    """Yield the site as a researcher has it; as it is where nobody may be asked as another."""
    groups = groups_of(site.facts.contract, site.facts.queue)
    asked = [("users", USER), *(("groups", group) for group in (*groups, "system:authenticated"))]
    if not groups or not all(_may(site, "", kind, "impersonate", name) for kind, name in asked):
        site.say("nobody may be asked as a researcher here: with the rights that there are")
        yield site, "the user of this run", ()
        return
    whole = (*groups, "system:authenticated")
    cluster = Cluster(site.cluster.target, user=USER, groups=whole)
    try:
        yield replace(site, cluster=cluster), USER, groups
    finally:
        cluster.close()


def _may(site: Testbed, group: str, resource: str, verb: str, name: str = "") -> bool:
    """Return whether the site's user has a right, as the API server says."""
    attributes = {"group": group, "resource": resource, "verb": verb, "name": name}
    if verb != "impersonate" and resource == "pods":
        attributes["namespace"] = site.facts.queue.namespace
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = site.cluster.create(path, {"spec": {"resourceAttributes": attributes}})
    return bool(answer["status"]["allowed"])


def _launched(site: Testbed, fit: Sequence[Example]) -> Iterator[Launched]:
    """Launch one after the other; stop at the first that waits in vain, as all others would."""
    for item in fit:
        reported = _launch(site, item)
        yield reported
        if _apart(reported):
            return


def _launch(site: Testbed, example: Example) -> Launched:
    """Return one example to its end."""
    site.say(f"examples/{example.name}.yaml")
    # Only what the file says: the rest is launch's to choose, as for everybody.
    fields = example.job.model_dump(exclude_unset=True, exclude={"name", "nodes", "command"})
    fields = {key: list(v) if isinstance(v, tuple) else v for key, v in fields.items()}
    fields.setdefault("runtime", None)
    reported = Launched(example=example.name, text=example.text)
    try:
        with site.job(
            example.name,
            nodes=example.job.nodes,
            command=list(example.job.command),
            folder=example.folder,
            **fields,
        ) as run:
            state, hung = _followed(run, site.timeout)
            lines = [str(line) for line in run.logs()] if state.phase.finished or hung else []
            return reported.model_copy(
                update={
                    "name": run.name,
                    "nodes": state.wanted,
                    "ranks": state.ranks,
                    "phase": state.phase.value,
                    "detail": state.detail,
                    "hung": hung,
                    "lines": _kept(lines, whole=state.phase is not Phase.COMPLETED),
                }
            )
    except (InputError, PrerequisiteError, RefusedError) as error:
        return reported.model_copy(update={"refused": str(error)})
    except ApiError as error:
        if error.status not in (400, 403, 422):
            raise
        return reported.model_copy(update={"refused": str(error)})


def _followed(run: Run, timeout: float) -> tuple[JobState, bool]:
    """Return the last state, and whether no rank met another long after the job began to run."""
    state = run.state()
    began, met = math.inf, False
    with contextlib.suppress(TimedOutError):
        for state in run.watch(timeout=timeout):
            if met or state.phase is not Phase.RUNNING:
                continue
            now = time.monotonic()
            began = min(began, now)
            if now - began > _HANGS:
                # Those that have met are at work, however long that takes.
                met = any(_RANK.search(line.text) for line in run.logs())
                if not met:
                    return state, True
    return state, False


def _kept(lines: list[str], *, whole: bool) -> tuple[str, ...]:
    """Return the lines that name a rank, and the last ones: more where the job failed."""
    last = lines[-40 if whole else -6 :]
    return tuple(line for line in lines if _RANK.search(line) or line in last)


# -- what is said of it ---------------------------------------------------------------------------


def _world(one: Launched) -> dict[int, int]:
    """Rank -> how large its world is, as it said."""
    result = (_RANK.search(line) for line in one.lines)
    return {int(match[1]): int(match[2]) for match in result if match}


def _apart(one: Launched) -> bool:
    """Return whether its processes ran, and never met."""
    return one.hung and not _world(one)


def _wrong(one: Launched) -> list[str]:
    if _apart(one):
        return [
            f"{one.example} ran for {_HANGS:.0f} s, and none of its {one.ranks} ranks met another"
        ]
    if one.refused:
        return [f"{one.example} was refused: {one.refused.splitlines()[0]}"]
    if one.phase == "failed":
        return [f"{one.example} failed: {one.detail}"]
    sizes = set(_world(one).values())
    if one.phase == "completed" and sizes and sizes != {one.ranks}:
        text = ", ".join(str(size) for size in sorted(sizes))
        return [f"{one.example}: its processes saw a world of {text}, it asked for {one.ranks}"]
    return []


def _lacking(one: Launched) -> list[str]:
    if _apart(one) or one.refused or one.phase == "failed":
        return []
    if one.phase != "completed":
        return [
            f"{one.example} did not end in time: {one.phase or 'unknown'} {one.detail}".rstrip()
        ]
    ranks = _world(one)
    if one.ranks < 1 or sorted(ranks) != list(range(one.ranks)):
        return [f"{one.example}: {len(ranks)} of {one.ranks} ranks said that they were there"]
    return []


def _not_done(evidence: Launches, facts: Facts) -> list[str]:
    """Return why the launches do not prove the promise."""
    results = []
    if set(evidence.beyond) != {f"{verb} {resource}" for _, resource, verb in BEYOND}:
        results.append("whose rights were used is not known")
    if more := sorted(right for right, has in evidence.beyond.items() if has):
        results.append(
            f"{evidence.user} may more than a researcher ({', '.join(more)}), so that a launch "
            "shows nothing of a researcher's rights"
        )
    wanted = {item.name for item in examples() if not unfit(item, facts.contract)}
    results += [
        f"{name} was not launched"
        for name in sorted(wanted - {item.example for item in evidence.launched})
    ]
    if not evidence.launched:
        results.append("no example was launched")
    for launch in evidence.launched:
        known = next((each for each in examples() if each.name == launch.example), None)
        if known is not None and known.text != launch.text:
            results.append(f"{launch.example}: what was launched is not the documented file")
        elif known is not None and launch.phase and launch.nodes != known.job.nodes:
            results.append(
                f"{launch.example}: it ran on {launch.nodes} nodes, {known.job.nodes} are asked"
            )
    return results


def _evidence(evidence: Launches, told: list[str]) -> tuple[Evidence, ...]:
    rights = [f"{what}: {'yes' if has else 'no'}" for what, has in evidence.beyond.items()]
    about = [
        f"as {evidence.user}, groups {', '.join(evidence.groups) or 'its own'}",
        "further rights: " + ", ".join(rights),
        "added to the files: a name, and the cluster's lowest priority",
        *(f"{name} was not launched: {why}" for name, why in evidence.skipped.items()),
    ]
    results = [Evidence(title="What is against it", text="\n".join(told))] if told else []
    results.append(Evidence(title="Who launched", text="\n".join(about)))
    for launch in evidence.launched:
        what = launch.refused or f"{launch.phase} {launch.detail}".rstrip()
        text = "\n".join([what, *launch.lines])
        results.append(Evidence(title=f"examples/{launch.example}.yaml", text=text))
    return tuple(results)


def _remedy(evidence: Launches, facts: Facts, wrong: list[str], lacking: list[str]) -> str:
    refused = " ".join(launch.refused for launch in evidence.launched)
    if any(_apart(launch) for launch in evidence.launched):
        return remedies.unreached(facts.queue.namespace)
    if wrong and "forbidden" in refused:
        return (
            "the role of researchers lacks a right, or its group is not bound: `pulumi up` writes "
            "both again (docs/access.md has every right and why)"
        )
    if wrong and refused:
        return "what refused it says what to do; `railhead launch FILE --dry-run` says it again"
    if wrong:
        return (
            "look at the lines of the job in the evidence; an example needs what its file says "
            "and an image with its framework, data and nothing else"
        )
    if any(evidence.beyond.values()):
        return (
            "accept as someone who may impersonate the researchers' group, or with a "
            "researcher's own kubeconfig"
        )
    if any(launch.phase == "completed" and _lacking(launch) for launch in evidence.launched):
        return remedies.CUT_OFF
    return "run it again: `railhead accept --only launch`" if lacking else ""
