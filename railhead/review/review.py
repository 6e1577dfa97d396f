"""Puts a review together: both sides of each changed stack, compared and judged."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railhead.base.errors import RefusedError
from railhead.config import edits
from railhead.config.edits import Edit
from railhead.config.edits.doubts import doubts
from railhead.config.files import stack_name
from railhead.contract import ClusterContract
from railhead.lab.planning import Violation, priced
from railhead.lab.stack_plans import StackPlan, stack_plans, violations
from railhead.model.removals import RemovalConfig
from railhead.review import place
from railhead.review.compare import Change, Planned, compare, resources
from railhead.review.intervals import intervals
from railhead.review.jobs import contents, deletions, jobs, marks, programs, unsecrets
from railhead.review.judge import judged
from railhead.review.judged import Judged, few, locate
from railhead.review.judges import differs, judges
from railhead.review.machines import machines
from railhead.review.model import (
    Finding,
    Judges,
    Level,
    Loss,
    Place,
    Pool,
    Review,
    StackReview,
    ordered,
    verdict,
)
from railhead.review.outputs import outputs
from railhead.review.reasons import reasoned
from railhead.review.references import references
from railhead.review.settings import settings
from railhead.review.shared import orders, places, seals
from railhead.review.sources import Hunk, Sources
from railhead.review.statements import statements
from railhead.review.texts import hashes, pipelines, projects, requirements, secrets
from railhead.review.unseen import unseen
from railhead.review.workflows import scripts, workflows

#: Changes below these reach no stack's plan: they run on a user's machine, or on none.
_ELSEWHERE = (
    *("docs/", "tests/", "benchmarks/", "examples/", "tools/", "distributions/"),
    *(".ci/", ".github/", ".gitlab/", "railhead/accept/", "railhead/cli/", "railhead/diagnose/"),
    *("railhead/drift/", "railhead/evidence/", "railhead/launch/", "railhead/lab/"),
    *("railhead/nccl/", "railhead/review/", "railhead/twin/"),
)
#: Of those, what launches jobs and looks at them.
_ON_MACHINES = tuple(
    f"railhead/{name}/"
    for name in ("accept", "cli", "diagnose", "drift", "evidence", "launch", "nccl")
)
_CODE = (".py", ".yaml", ".yml", ".json", ".toml")
_WHO: dict[str, str] = {
    "data": "runs that need it, on the day when it is gone",
    "jobs": "the people whose jobs run or wait there",
    "quota": "the teams of the queue, whose jobs wait",
}


_OF_TEXTS = (
    *(secrets, requirements, hashes, projects, pipelines, scripts, workflows, machines),
    *(jobs, programs, contents, marks, deletions, intervals, unsecrets, references),
    *(places, seals, orders),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Words of the pull request's reviewers, who allow what fails otherwise."""

    judges: bool = False
    unjudged: bool = False


def review(
    source: Sources, base: str, files: Sequence[str], options: Options, started: float
) -> Review:
    """Review the stacks ``files`` of a pull request, by their names below its root."""
    who = judges(source, allowed=options.judges)
    findings = list(_of_judges(source, who))
    stacks: list[StackReview] = []
    before, after, between = _planned(source, files)
    reported = violations(list(after.values()), source.judge)
    # Asked only where there is something to compare.
    again = [before[f] for f in files if f in before and f in after and reported.get(after[f].file)]
    standing = violations(again, source.judge)
    for file in files:
        if file in after:
            pack = _Pack(
                reported=reported.get(after[file].file, ()),
                standing=standing.get(before[file].file, ()) if file in before else (),
            )
            head = _Head(side=after[file], by_base=between.get(file))
            stack, of_stack = _stack(source, file, before.get(file), head, pack)
        else:
            name = stack_name(Path(file))
            stack, of_stack = StackReview(stack=name, file=file, compared=False), []
        stacks.append(stack)
        findings += of_stack
    for rule in (*_OF_TEXTS, _gone_files, _unplanned):
        findings += rule(source)
    # Where a plan knows a document, its finding says more.
    rights = [f for f in findings if f.loss in ("rights", "access") and "not known" not in f.what]
    known = {f.place.file for f in rights if f.place}
    findings += [f for f in statements(source) if f.place and f.place.file not in known]
    planned = [
        name
        for name in source.changed
        if reaches_plans(name, files) or _in_another_project(source, name)
    ]
    # A guess shows nothing of the file that it points to.
    shown = {f.place.file for f in findings if f.place and not isinstance(f.place, place.Guess)}
    ran = {
        frame
        for side in before.values()
        for resource in _resources(side, source.base).values()
        for frame in resource.frames
    }
    findings += unseen(source, planned, shown, ran)
    if options.unjudged:
        findings = [
            f.model_copy(update={"level": "ask"}) if f.level == "unjudged" else f for f in findings
        ]
    sorted_findings = tuple(reasoned(source, ordered(findings)))
    return Review(
        verdict=verdict(sorted_findings),
        base=base,
        compared_with=source.fork,
        judges=who,
        stacks=tuple(stacks),
        findings=sorted_findings,
        not_looked_at=tuple(_not_looked_at(source, stacks)),
        seconds=round(time.monotonic() - started, 1),
    )


def stacks_of(source: Sources, known: Sequence[str]) -> list[str]:
    """Return the stacks' files that the pull request may change: all of them where code does."""
    if any(reaches_plans(name, known) for name in source.changed):
        return list(known)
    return [name for name in known if name in source.changed]


def reaches_plans(name: str, known: Sequence[str]) -> bool:
    """Return whether a changed file may change every stack's plan."""
    path = Path(name)
    if name in known or name.startswith(_ELSEWHERE) or path.name.startswith("Pulumi."):
        return path.name == "Pulumi.yaml"
    if name.endswith("schema.json") or path.name.startswith("."):
        return False
    return name.endswith(_CODE)


def _in_another_project(source: Sources, name: str) -> bool:
    """Return whether a file is below a project of Pulumi of its own, whose stacks are not here."""
    folders = Path(name).parents
    return any((source.root / folder / "Pulumi.yaml").is_file() for folder in list(folders)[:-1])


@dataclass(frozen=True, kw_only=True)
class _Pack:
    """Violations that the pack reports of a stack: of the head, and of the base where asked."""

    reported: Sequence[Violation]
    standing: Sequence[Violation]

    def new(self) -> list[Violation]:
        """Return the violations that the base does not have."""
        known = {(v.rule, v.urn, v.message) for v in self.standing}
        return [v for v in self.reported if (v.rule, v.urn, v.message) not in known]


def _planned(
    source: Sources, files: Sequence[str]
) -> tuple[dict[str, StackPlan], dict[str, StackPlan], dict[str, StackPlan]]:
    """Return the stacks of base and head by their files, and those of the head by the base's code.

    The last are asked for where a file and code have changed: what follows from the file is no
    alarm, and the same from code is.
    """
    code = any(reaches_plans(name, files) for name in source.changed)
    mixed = [file for file in files if code and file in source.changed]
    wanted = (
        (source.base, source.base, files),
        (source.root, source.root, files),
        (source.root, source.base, mixed),
    )
    with ThreadPoolExecutor(2) as workers:
        jobs = [
            workers.submit(stack_plans, [root / file for file in names], code=by)
            for root, by, names in wanted
        ]
        before, after, between = [
            {str(path.relative_to(root)): side for path, side in job.result().items()}
            for (root, *_), job in zip(wanted, jobs, strict=True)
        ]
    return before, after, between


def _of_judges(source: Sources, who: Judges) -> Iterator[Finding]:
    for row in who.changed:
        name, _, changes = row.partition(": ")
        says = _says(source.hunks(name))
        what = f"this pull request changes {changes}{says}; the base branch's judged here"
        sees = "nobody, if nobody looks: ask a second pair of eyes"
        level: Level = "ask" if who.allowed else "refuse"
        finding = locate(source, name, name, Judged(level, "judges", what, sees, "judges-change"))
        allow = "a second reviewer's word: `--allow judges`, by a label that authors cannot set"
        yield finding.model_copy(update={"allow": allow})


def _says(hunks: Sequence[Hunk]) -> str:
    """Return the first lines that a file has newly, in parentheses; else those that went."""
    lines = [line.strip() for hunk in hunks for line in hunk.after if line.strip()]
    gone = [line.strip() for hunk in hunks for line in hunk.before if line.strip()]
    text = " / ".join((lines or gone)[:3])
    text = text.replace("`", "'")
    text = text if len(text) <= 160 else f"{text[:157]}..."
    return f" ({'' if lines else 'without '}`{text}`)" if text else ""


def _gone_files(source: Sources) -> Iterator[Finding]:
    for name in source.changed:
        path = Path(name)
        stack = path.name.startswith("Pulumi.") and path.suffix == ".yaml" and path.stem != "Pulumi"
        if stack and not (source.root / name).exists() and (source.base / name).exists():
            what = "the stack's file is removed: nobody can update or destroy its cluster"
            who = "who has to upgrade it or pays for it"
            result = Judged("refuse", "file", what, who, "stack-removed")
            yield locate(source, name, name, result).model_copy(update={"place": None})


def _unplanned(source: Sources) -> Iterator[Finding]:
    """Yield changed code that runs beside the program, which no plan shows."""
    for name in source.changed:
        if name.startswith(_ON_MACHINES) and name.endswith(_CODE) and differs(source, name):
            what = "runs on users' machines, and no plan shows what it does"
            what += _says(source.hunks(name))
            who = "who launches or diagnoses a job next"
            yield locate(source, name, name, Judged("ask", "jobs", what, who, "code-unplanned"))


def _not_looked_at(source: Sources, stacks: Sequence[StackReview]) -> Iterator[str]:
    charts = sum(stack.charts for stack in stacks)
    yield "what is live: nodes, running jobs, drift, changes by hand"
    yield "the account: quotas, capacity, names that are taken, prices, what a prefix list holds"
    if charts:
        yield f"the insides of {charts} Helm releases: their values were compared, not templates"
    yield "answers that only a cloud gives (ids, zones, reservations): recorders made them up"
    if source.large:
        yield f"changed files that are too large to read: {few(source.large, 8)}"
    known = {stack.file for stack in stacks}
    rest = [
        name
        for name in source.changed
        if name not in known and not reaches_plans(name, list(known))
    ]
    if rest:
        yield f"{len(rest)} changed files that no plan runs: {few(rest, 8)}"
    if not stacks:
        yield "any stack: no changed file reaches a plan"


@dataclass(frozen=True, kw_only=True)
class _Head:
    """A stack as the head has it, and as the base's code makes the head's file, if both changed."""

    side: StackPlan
    by_base: StackPlan | None = None


def _stack(
    source: Sources,
    file: str,
    before: StackPlan | None,
    head: _Head,
    pack: _Pack,
) -> tuple[StackReview, list[Finding]]:
    name, after = stack_name(Path(file)), head.side
    build = _Builder(source=source, file=file, stack=name)
    findings = list(build.failures(before, after))
    named: set[tuple[str, str]] = set()
    if before and before.contract and after.contract:
        # The guard of edits names these: their resources are not named again.
        named = {(edit.kind, edit.name) for edit in edits.edits(before.contract, after.contract)}
        findings += build.edits(before.contract, after.contract, after.cluster)
        findings += build.settings(before.cluster, after.cluster)
    changes: list[Change] = []
    if after.plan and after.plan.states:
        new = _resources(after, source.root)
        if before and before.plan and before.plan.states:
            old = _resources(before, source.base)
            changes = compare(old, new)
            findings += build.outputs(outputs(before.plan, after.plan))
            # What follows from the file is judged apart from what follows from code.
            if middle := _resources(head.by_base, source.base):
                findings += build.changes(compare(old, middle), middle, named, code=False)
                findings += build.changes(compare(middle, new), new, named, code=True)
            else:
                code = file not in source.changed or head.by_base is not None
                findings += build.changes(changes, new, named, code=code)
        findings += build.violations(pack.new(), new)
    pools = tuple(_pools(before, after)) if after.cluster else ()
    findings += build.capacity(pools)
    return StackReview(
        stack=name,
        file=file,
        compared=bool(changes) or bool(before and before.plan and after.plan),
        added=_labels(changes, "added"),
        deleted=_labels(changes, "deleted"),
        replaced=_labels(changes, "replaced"),
        changed=_labels(changes, "changed"),
        pools=pools,
        paid_before=_paid(before),
        paid_after=_paid(after),
        charts=sum(
            1 for s in (after.plan.states.values() if after.plan else ()) if "helm.sh" in s["type"]
        ),
        seconds=round((after.plan.seconds if after.plan else 0.0), 1),
    ), findings


def _resources(of: StackPlan | None, root: Path) -> dict[str, Planned]:
    return resources(of.plan, str(root)) if of and of.plan else {}


def _labels(changes: Sequence[Change], kind: str) -> tuple[str, ...]:
    return tuple(
        f"{change.either.label} ({change.either.type.partition(':')[0]})"
        for change in changes
        if change.kind == kind
    )


def _paid(of: StackPlan | None) -> tuple[str, ...]:
    if of is None or of.plan is None:
        return ()
    rows = []
    for item in priced(of.plan):
        details = ", ".join(f"{k} {v}" for k, v in item.details.items())
        rows.append(f"{item.what} {item.name}{f' ({details})' if details else ''}")
    return tuple(rows)


def _pools(before: StackPlan | None, after: StackPlan) -> Iterator[Pool]:
    was = {p["name"]: p for p in (before.cluster.get("pools") if before else None) or ()}
    now = {p["name"]: p for p in after.cluster.get("pools") or ()}
    for name in dict.fromkeys((*was, *now)):
        old, new = was.get(name), now.get(name)
        row: dict[str, Any] = new or old or {}
        yield Pool(
            pool=name,
            instance_type=row["instance_type"],
            nodes_before=old["nodes"] if old else None,
            nodes_after=new["nodes"] if new else None,
            gpus_before=old["nodes"] * before.gpus[name] if old and before else 0,
            gpus_after=new["nodes"] * after.gpus[name] if new else 0,
        )


@dataclass(frozen=True, kw_only=True)
class _Builder:
    """Findings of one stack, with their places."""

    source: Sources
    file: str
    stack: str

    def of_file(
        self,
        rule: str,
        level: Level,
        loss: Loss,
        subject: str,
        what: str,
        *,
        who: str = "",
        suggestion: str | None = None,
        allow: str = "",
        words: Sequence[str] = (),
    ) -> Finding:
        where, hunk = place.of_stack(self.source, self.file, [*words, *subject.split()])
        return Finding(
            rule=rule,
            level=level,
            loss=loss,
            subject=subject,
            what=what,
            who=who or _WHO.get(loss, ""),
            stack=self.stack,
            place=where or Place(file=self.file, line=1),
            suggestion=place.restored(hunk) if suggestion is None else suggestion,
            allow=allow,
        )

    def failures(self, before: StackPlan | None, after: StackPlan) -> Iterator[Finding]:
        """Yield why a side could not be planned, and warnings that the base does not have."""
        for text in after.mistakes:
            yield self.mistake(text)
        if after.failed:
            yield self.unjudged(f"cannot be planned: {after.failed}", "plan-failed")
        if before is not None and (before.failed or before.mistakes):
            why = before.failed or before.mistakes[0]
            yield self.unjudged(f"the base's file cannot be planned: {why}", "base-failed")
        known = {self.placed(text)[1] for text in (before.warnings if before else ())}
        for text in after.warnings:
            if self.placed(text)[1] not in known:
                yield self.warning(text)

    def warning(self, text: str) -> Finding:
        """Return the finding of a warning, which begins with its file and line."""
        where, what = self.placed(text)
        return Finding(
            rule="config-warning",
            level="ask",
            loss="file",
            subject=what.partition(": ")[0] or self.file,
            what=what.partition(": ")[2] or what,
            stack=self.stack,
            place=where,
        )

    def placed(self, text: str) -> tuple[Place, str]:
        """Return where a message of `config check` points, and the message itself."""
        head, _, what = text.partition(": ")
        line = head.rpartition(":")[2]
        if not line.isdigit():
            return Place(file=self.file, line=1), text
        return Place(file=self.file, line=int(line)), what

    def mistake(self, text: str) -> Finding:
        """Return the finding of a mistake, which begins with its file and line."""
        where, what = self.placed(text)
        _, hunk = place.of_stack(self.source, self.file, what.split())
        return Finding(
            rule="config-mistake",
            level="refuse",
            loss="file",
            subject=what.partition(": ")[0] or self.file,
            what=f"{what.partition(': ')[2] or what}: `pulumi up` stops there",
            stack=self.stack,
            place=where,
            suggestion=place.restored(hunk),
        )

    def unjudged(self, what: str, rule: str) -> Finding:
        # The end of a traceback says what failed, and where.
        text = what if len(what) <= 1500 else f"{what[:200]} ... {what[-1300:]}"
        return self.of_file(rule, "unjudged", "judges", self.stack, f"could not be judged: {text}")

    def edits(
        self,
        before: ClusterContract,
        after: ClusterContract,
        cluster: Mapping[str, Any],
    ) -> Iterator[Finding]:
        """Yield what the guard of edits refuses or warns of."""
        removals = [RemovalConfig.model_validate(r) for r in cluster.get("removals") or ()]
        for edit in edits.edits(before, after):
            yield self._edit(edit, removals)
        try:
            edits.stop(before, after, removals)
        except RefusedError as error:
            if error.problem.startswith("removals:"):
                yield self.of_file("removals", "refuse", "file", "removals", error.problem)
        for text in doubts(before, after):
            subject, _, what = text.partition(": ")
            loss: Loss = "quota" if "quota" in text or subject.startswith("team") else "jobs"
            if "checkpoint" in text:
                loss = "data"
            yield self.of_file(f"edit-{subject.split()[0]}", "ask", loss, subject, what or text)

    def settings(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what a stack's settings lose."""
        for path, result in settings(before, after):
            yield self.of_file(
                f"setting-{path.partition('[')[0]}",
                result.level,
                result.loss,
                path,
                result.what,
                who=result.who,
                words=path.replace("[", ".").replace("]", "").split("."),
            )

    def _edit(self, edit: Edit, removals: Sequence[RemovalConfig]) -> Finding:
        loss: Loss = "data" if "data" in edit.loses else "jobs"
        if not edit.loses:
            loss = "file"
        may = edit.allowed_by(removals)
        suggestion = None
        if "`claim:" in edit.way:
            new = edit.way.partition("`name: ")[2].partition("`")[0]
            claim = edit.way.partition("`claim: ")[2].partition("`")[0]
            suggestion = f"      - name: {new}\n        claim: {claim}"
        entry = f"- {{kind: {edit.kind}, name: {edit.name}, loses: [{', '.join(edit.loses)}]}}"
        return self.of_file(
            f"edit-{edit.kind.replace(' ', '-')}",
            "ask" if may else "refuse",
            loss,
            f"{edit.kind} {edit.name}",
            f"{edit.tells}{'; the file allows it' if may else ''}. Instead: {edit.way}",
            suggestion=suggestion,
            allow="" if may or not edit.loses else f"under `removals`: `{entry}`",
            words=[edit.name.rpartition("/")[2], edit.kind],
        )

    def changes(
        self,
        changes: Sequence[Change],
        after: dict[str, Planned],
        named: set[tuple[str, str]],
        *,
        code: bool,
    ) -> Iterator[Finding]:
        """Yield what is said of changes of resources, ``named`` by the guard of edits or not."""
        added = {change.either.urn for change in changes if change.kind == "added"}
        for change in changes:
            for rule, result in judged(change, after, code=code, named=named, added=added):
                where, hunk = place.of_change(self.source, self.file, change, result.what)
                yield Finding(
                    rule=rule,
                    level=result.level,
                    loss=result.loss,
                    subject=change.either.label,
                    what=result.what,
                    who=result.who or _WHO.get(result.loss, ""),
                    stack=self.stack,
                    place=where or Place(file=self.file, line=1),
                    suggestion=place.restored(hunk) if result.level == "refuse" else "",
                )

    def outputs(self, rows: Iterable[tuple[str, Judged]]) -> Iterator[Finding]:
        """Yield what is said of the stack's outputs, at the change of a program that has it."""
        for name, result in rows:
            where = place.of_output(self.source, name)
            yield Finding(
                rule="output",
                level=result.level,
                loss=result.loss,
                subject=f"output {name}",
                what=result.what,
                who=result.who,
                stack=self.stack,
                place=where or Place(file=self.file, line=1),
            )

    def violations(
        self, violations: Sequence[Violation], after: Mapping[str, Planned]
    ) -> Iterator[Finding]:
        for violation in violations:
            name = violation.urn.rsplit("::", 1)[-1]
            where, _ = place.of_stack(self.source, self.file, name.split("-"))
            if where is None and (made := after.get(violation.urn)):
                change = Change(kind="changed", before=made, after=made)
                where, _ = place.of_change(self.source, self.file, change, "")
            yield Finding(
                rule=f"pack-{violation.rule}",
                level="refuse" if violation.mandatory else "ask",
                loss=_LOSS_OF_RULE.get(violation.rule, "guards"),
                subject=name,
                what=" ".join(violation.message.split()),
                stack=self.stack,
                place=where or Place(file=self.file, line=1),
            )

    def capacity(self, pools: Sequence[Pool]) -> Iterator[Finding]:
        for pool in pools:
            if pool.gpus_after > pool.gpus_before:
                more = pool.gpus_after - pool.gpus_before
                counts = f"{pool.gpus_before} to {pool.gpus_after} GPUs"
                text = f"{counts}: {more * 24} GPU hours a day more"
                yield self.of_file(
                    "capacity-grows",
                    "note",
                    "capacity",
                    f"pool {pool.pool}",
                    text,
                    who="who pays",
                    suggestion="",
                    words=[pool.pool, "nodes"],
                )


_LOSS_OF_RULE: dict[str, Loss] = {
    "checkpoints-are-kept": "data",
    "cloud-is-closed": "network",
    "cloud-is-hardened": "rights",
    "images-are-named": "jobs",
    "jobs-stay-on-the-fabric": "network",
    "no-capacity-bought": "capacity",
    "no-reach-into-nodes": "rights",
    "nobody-has-everything": "rights",
    "queue-covers-devices": "quota",
    "quotas-hold-a-gang": "quota",
    "training-has-shared-memory": "jobs",
    "versions-ran": "jobs",
}
