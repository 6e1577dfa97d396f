"""`railhead launch`, `status`, `logs` and `cancel`. Heavy imports are made inside the commands."""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.errors import InputError, NotFoundError, RailheadError, RefusedError
from railhead.base.options import Context, Json, Kubeconfig, Lab, Namespace, grouped
from railhead.launch.console import (
    ConsoleProgress,
    Explain,
    JobName,
    JobNames,
    connected,
    dump,
    found,
    namespaces_of,
    out,
    print_objects,
    say,
    since,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from railhead.contract import ClusterContract
    from railhead.kube.client import Cluster, Object
    from railhead.kube.jobs import JobState
    from railhead.launch.insight import Insight
    from railhead.launch.job import JobFile, Payload
    from railhead.launch.logs.stream import Gang, Line, Selection
    from railhead.launch.plan import Plan

JOB_FILE_EXAMPLE = """\
name: torch-ddp
runtime: torch
nodes: 2
gpus_per_node: 8
command: [torchrun, /workspace/train.py]
files: [torch_ddp/train.py]
env:
  EPOCHS: 10
"""

LAUNCH_HELP = """Launch a multi-node job from a job file.

Everything is checked first: a mistake in the file, more nodes than the cluster has, a name that is
taken are refused before anything is created.

Example: [bold]railhead launch examples/torch-ddp.yaml --follow[/bold]

One job for each value: [bold]railhead launch JOB.yaml --matrix env.LR=1e-3,1e-4[/bold]; for each
number: [bold]--array 0-9[/bold]

Once another job has completed: [bold]railhead launch JOB.yaml --after pretrain[/bold]. This
command waits for it, and nothing in the cluster does: in a terminal that is closed, it launches
nothing.

A complete job file:

\b
{example}
Exits 0 when the job is submitted or, with --wait or --follow, when it has completed; 1 when it
failed; 3 for a mistake in the file; 4 after five minutes without the API server; 5 when there is no
job of --after; 6 when the cluster or a check refuses it, or a job of --after failed or was deleted;
7 after --timeout; 130 after Ctrl-C.
""".format(example=JOB_FILE_EXAMPLE.replace("[", "\\["))


def _describe(plan: Plan) -> str:
    gpus = f", {plan.gpus_per_node} {plan.gpu_resource} a node" if plan.gpus_per_node else ""
    return (
        f"{plan.name}: {plan.nodes} x {plan.processes_per_node} = {plan.world_size} processes"
        f"{gpus}, runtime {plan.runtime}, queue {plan.namespace}/{plan.queue}"
        + "".join(f"; {part.role}: {part.nodes} nodes" for part in plan.roles)
    )


def _plan(
    cluster: Cluster, job: JobFile, files: tuple[Payload, ...]
) -> tuple[Plan, ClusterContract]:
    from railhead.kube.published import read_contract
    from railhead.launch.plan import make_plan

    contract = read_contract(cluster)
    return make_plan(job, files, contract), contract


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """The options of `railhead launch` that set fields of its job."""

    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Launch under this name.")
    ] = None
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", help="Ask for this many nodes.")
    ] = None
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Submit to this queue.")
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Override a field, such as env.EPOCHS=3. Repeatable.",
        ),
    ] = None
    matrix: Annotated[
        list[str] | None,
        typer.Option(
            "--matrix",
            metavar="FIELD=VALUE,VALUE",
            help="Launch one job for each value, or each combination. Repeatable.",
        ),
    ] = None
    array: Annotated[
        str | None,
        typer.Option(
            "--array",
            metavar="NUMBERS",
            help="Launch one job for each number, such as 0-9 or 1,3,5-7, in ARRAY_INDEX.",
        ),
    ] = None
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Run the command only if an all-reduce of the gang proves the fabric.",
        ),
    ] = False

    def sets(self) -> list[str]:
        """Return each field that an option sets, as ``field=value``."""
        named = [f"{field}={value}" for field, value in self._named().items()]
        return [*(self.set_ or ()), *named]

    def options(self) -> dict[str, str]:
        """Field -> the option that sets it."""
        fields = (item.partition("=")[0].partition(".")[0] for item in self.set_ or ())
        return dict.fromkeys(fields, "--set") | {field: f"--{field}" for field in self._named()}

    def _named(self) -> dict[str, Any]:
        values = {
            "name": self.name,
            "nodes": self.nodes,
            "queue": self.queue,
            "verify": self.verify or None,
        }
        return {field: value for field, value in values.items() if value is not None}


@grouped
def launch(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")],
    overrides: Overrides,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print the logs and wait for the end.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            help="Stop waiting, also for --after; jobs go on.",
        ),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="JOB[:any]",
            help="Check now, wait here, and launch when this job has completed; with :any, when it "
            "has ended. Repeatable.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Run all checks and print the objects; create nothing."),
    ] = False,
    api: Annotated[
        str | None,
        typer.Option(
            "--api", metavar="KIND", help="Print the job as another kind; see docs/launching.md."
        ),
    ] = None,
    explain: Explain = False,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Launch a multi-node job from a job file (the help text is LAUNCH_HELP)."""
    from railhead.launch import matrix as matrices
    from railhead.launch.job import read_job

    if api and after:
        raise InputError("--after: --api prints a job and launches none", remedy="leave one out")
    given = matrices.asked(overrides.matrix or (), overrides.array)
    sets = [*overrides.sets(), *(f"{field}={values[0]}" for field, values in given.items())]
    # A mistake in the file is reported without a cluster.
    job, files = read_job(job_file, sets=sets)
    if fields := job.matrix | given:
        single = {
            "follow": follow,
            "wait": wait,
            "timeout": timeout,
            "explain": explain,
            "api": api,
        }
        rows = matrices.combinations(fields, single)
        several = matrices.read(job_file, overrides.sets(), rows)
        with connected(kubeconfig, context, lab) as cluster:
            from railhead.kube.published import read_contract
            from railhead.launch.plan import make_plan

            contract = read_contract(cluster)
            plans = [make_plan(job, files, contract) for job, files in several]
            needed = _needed(cluster, after or (), [plan.namespace for plan in plans])
            matrices.launch(
                cluster,
                plans,
                contract,
                rows,
                dry_run=dry_run,
                as_json=as_json,
                first=lambda: _wait_first(cluster, needed),
            )
        return
    with connected(kubeconfig, context, lab) as cluster:
        plan, contract = _plan(cluster, job, files)
        if explain:
            print_explanation(job, plan, contract, options=overrides.options(), as_json=as_json)
            return
        launch_plan(
            cluster,
            plan,
            contract,
            follow=follow,
            wait=wait,
            timeout=timeout,
            after=after or (),
            dry_run=dry_run,
            api=api,
            as_json=as_json,
        )


def print_explanation(
    job: JobFile,
    plan: Plan,
    contract: ClusterContract,
    *,
    options: Mapping[str, str],
    as_json: bool,
) -> None:
    """Print every value of a plan with its origin, and the figures of its sizing."""
    from railhead.launch import explain

    rows = explain.derived(job, plan, contract, options)
    numbers = explain.estimated(job, plan, contract)
    if as_json:
        dump(explain.to_json(rows, numbers))
        return
    explain.show(rows, numbers)


def launch_plan(
    cluster: Cluster,
    plan: Plan,
    contract: ClusterContract,
    *,
    follow: bool = False,
    wait: bool = False,
    timeout: float | None = None,
    after: Sequence[str] = (),
    dry_run: bool = False,
    api: str | None = None,
    as_json: bool = False,
) -> None:
    """Check a plan, then print its objects or submit it; the options are `railhead launch`'s.

    Raises:
        NotFoundError: there is no job that it is to come after.
        RefusedError: a check, or the cluster, says no; or such a job did not complete.
        TimedOutError: it, or such a job, had not ended in time.
        RailheadError: it was waited for, and did not complete.
    """
    from railhead.launch.apis import objects
    from railhead.launch.preflight import preflight

    needed = _needed(cluster, after, [plan.namespace])
    checks = preflight(cluster, plan, contract, api=api)
    say(f"{_describe(plan)} on {contract.cluster} ({cluster.target.why})")
    for check in checks:
        if check.passed is None:
            say(f"note: not checked: {check.text}")
    for note in plan.notes:
        say(f"note: {note}")
    if api is not None:
        print_objects(_as_another_kind(cluster, plan, api), as_json=as_json)
        return
    if dry_run:
        print_objects(objects(plan), as_json=as_json)
        return
    begin = time.monotonic()
    _wait_first(cluster, needed, timeout=timeout)
    if timeout is not None:
        # One limit for both.
        timeout = max(1.0, timeout - round(time.monotonic() - begin))
    _submit(cluster, plan, follow=follow, wait=wait, timeout=timeout, as_json=as_json)


def _needed(
    cluster: Cluster, after: Sequence[str], own: Sequence[str]
) -> list[tuple[Object, bool]]:
    """Return the jobs of ``--after``, each with whether any end of it will do.

    They are those of the launch's ``own`` namespaces; of all where these have none of a name.

    Raises:
        InputError: something else than ``any`` stands behind a name.
        NotFoundError: there is no such job.
    """
    from railhead.kube import jobs

    needed = []
    for item in after:
        name, colon, end = item.partition(":")
        if colon and end != "any":
            raise InputError(
                f"--after {item}: {end!r} is no end of a job",
                remedy=f"{name} for when it has completed, {name}:any for when it has ended",
            )
        try:
            several = jobs.find_jobs(cluster, tuple(dict.fromkeys(own)), [name])
        except NotFoundError:
            several = jobs.find_jobs(cluster, namespaces_of(cluster, None), [name])
        needed += [(job, bool(colon)) for job in several]
    return needed


def _wait_first(
    cluster: Cluster, needed: Sequence[tuple[Object, bool]], *, timeout: float | None = None
) -> None:
    """Wait for the jobs that a launch comes after.

    Raises:
        RefusedError: one that was to complete did not.
        TimedOutError: not all had ended in time; they go on.
    """
    if not needed:
        return
    ends = [
        f"{job['metadata']['namespace']}/{job['metadata']['name']} has "
        f"{'ended' if any_end else 'completed'}"
        for job, any_end in needed
    ]
    say(
        f"all checks passed; to be launched when {' and '.join(ends)}; Ctrl-C launches nothing, "
        "nor does a terminal that is closed"
    )
    to_complete = {job["metadata"]["uid"] for job, any_end in needed if not any_end}
    try:
        with closing(_each_end(cluster, [job for job, _ in needed], timeout)) as over:
            for job, _, bad in over:
                metadata = job["metadata"]
                if bad and metadata["uid"] in to_complete:
                    raise RefusedError(
                        f"--after: {bad}",
                        remedy=f"`railhead describe {metadata['name']} --namespace "
                        f"{metadata['namespace']}` says what happened",
                    )
    except BaseException:
        say("nothing was launched")
        raise


def wait_for(
    cluster: Cluster, several: Sequence[Object], *, timeout: float | None = None
) -> tuple[list[JobState], list[str]]:
    """Wait until jobs have ended; return their last states, and what became of those that failed.

    Raises:
        TimedOutError: not all had ended in time; they go on.
    """
    over = {
        job["metadata"]["uid"]: (last, bad)
        for job, last, bad in _each_end(cluster, several, timeout)
    }
    results = [over[job["metadata"]["uid"]] for job in several]
    return [last for last, _ in results if last], [bad for _, bad in results if bad]


def _each_end(
    cluster: Cluster, several: Sequence[Object], timeout: float | None
) -> Generator[tuple[Object, JobState | None, str], None, None]:
    """Yield each job once it has ended, with its last state, and what became of it if it failed.

    All are looked at in turn; their phases are shown, and their logs kept.

    Raises:
        TimedOutError: not all had ended in time; they go on.
    """
    from railhead.kube.jobs import Phase
    from railhead.launch import submit

    alone = several[0]["metadata"]["name"] if len(several) == 1 else ""
    progress = ConsoleProgress(name=alone)
    gangs = {job["metadata"]["uid"]: _gang(cluster, job) for job in several}
    states: dict[str, JobState] = {}
    try:
        for job, now in submit.watch_all(cluster, several, timeout_seconds=timeout):
            name, uid = job["metadata"]["name"], job["metadata"]["uid"]
            if now is not None:
                states[uid] = now
                progress.changed(now)
                gangs[uid].look(now.nodes)
            # They are kept; none is shown.
            deque(gangs[uid].lines(), maxlen=0)
            if now is not None and not now.over:
                continue
            gang, last = gangs.pop(uid), states.get(uid)
            deque(gang.drain(), maxlen=0)
            gang.close()
            if last is not None:
                _keep_history(cluster, job, last)
            if now is None:
                yield job, last, f"{name} was deleted"
            elif now.phase is Phase.COMPLETED:
                yield job, last, ""
            else:
                yield job, last, f"{name} {_how(now)}: {now.detail}"
    finally:
        progress.close()
        for gang in gangs.values():
            gang.close()


def _how(state: JobState) -> str:
    """Return how a job ended that did not complete."""
    return "failed" if state.phase.finished else "was suspended"


def _as_another_kind(cluster: Cluster, plan: Plan, api: str) -> list[dict[str, Any]]:
    """Return the plan's objects with a job of another kind in place of its TrainJob."""
    from railhead.base.errors import did_you_mean
    from railhead.launch import render
    from railhead.launch.apis import apis

    if api not in apis():
        raise InputError(
            f"--api: {api!r} is no kind of job that launch writes{did_you_mean(api, apis())}",
            remedy=f"one of {', '.join(apis())}; without it, a TrainJob is submitted",
        )
    rendered = apis()[api].objects(plan)
    apis()[api].require(cluster)
    return [*render.config_maps(plan), *rendered]


def _submit(
    cluster: Cluster,
    plan: Plan,
    *,
    follow: bool,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    from railhead.kube import jobs
    from railhead.launch import submit

    job = submit.submit(cluster, plan)
    say(f"created {job['kind']} {plan.namespace}/{plan.name}")
    if not (follow or wait):
        if as_json:
            # Kueue has not looked at it yet, and the job leaves its GPUs to the runtime.
            seen = replace(jobs.read_state(cluster, job), gpus_per_node=plan.gpus_per_node)
            dump(seen.to_json())
        say(f"see it with `railhead status {plan.name}` and `railhead logs {plan.name} --follow`")
        return
    follow_to_the_end(cluster, job, logs=follow, timeout=timeout, as_json=as_json)


def follow_to_the_end(
    cluster: Cluster,
    job: dict[str, Any],
    *,
    logs: bool = True,
    timeout: float | None = None,
    as_json: bool = False,
) -> None:
    """Show a job's logs, or its phases alone, until it ends; exit as it ended.

    Raises:
        RailheadError: it did not complete.
        TimedOutError: it had not ended in time; it goes on.
    """
    name = job["metadata"]["name"]
    try:
        last = watch(cluster, job, follow=logs, timeout=timeout)
    except KeyboardInterrupt:
        say(f"the job goes on; `railhead cancel {name}` ends it")
        raise
    if as_json and last is not None:
        dump(last.to_json())
    _verdict(cluster, name, last, shown=logs)


def watch(
    cluster: Cluster, job: dict[str, Any], *, follow: bool = False, timeout: float | None = None
) -> JobState | None:
    """Show a job's phases until it ends, and with ``follow`` its logs.

    The logs are kept either way, and what `describe` says at the end.

    Raises:
        TimedOutError: it had not ended in time; it goes on.
    """
    from railhead.launch import submit
    from railhead.launch.logs import stream

    progress = ConsoleProgress(name=job["metadata"]["name"])
    gang = _gang(cluster, job)
    try:
        last = stream.print_states(
            gang,
            submit.watch(cluster, job, timeout_seconds=timeout),
            line=progress.line if follow else _silently,
            changed=progress.changed,
        )
    finally:
        progress.close()
        if follow:
            _unread(gang)
    if last is not None:
        _keep_history(cluster, job, last)
    return last


def _gang(cluster: Cluster, job: Object) -> Gang:
    """Return the logs of all of a job's pods, which are kept as they are read."""
    from railhead.launch.logs import kept, stream

    metadata = job["metadata"]
    return stream.Gang(
        cluster,
        namespace=metadata["namespace"],
        selection=stream.Selection(),
        keep=kept.folder(metadata["namespace"], metadata["name"], metadata["uid"]),
    )


def _silently(line: Line) -> None:
    del line


def _unread(gang: Gang) -> None:
    """Say which logs could not be read: their lines are missing from what was printed."""
    for error in gang.errors():
        say(f"note: part of a log could not be read: {error.problem}")


def _verdict(cluster: Cluster, name: str, last: JobState | None, *, shown: bool) -> None:
    """Exit as the job ended.

    Raises:
        RailheadError: it did not complete.
    """
    from railhead.kube.jobs import Phase
    from railhead.launch import insight
    from railhead.launch.logs import stream

    if last is not None and last.phase is Phase.COMPLETED:
        say(f"{name} completed in {since(last.age())}")
        return
    if last is None or not last.over:
        raise RailheadError(
            f"{name}: the job was deleted before it ended",
            remedy="launch it again if that was not you",
        )
    if not shown:
        try:
            for line in stream.last_lines(cluster, last, 20):
                say(str(line))
        except RailheadError as error:
            say(f"note: its last log lines could not be read: {error.problem}")
    for text in insight.failure(cluster, last):
        say(text)
    raise RailheadError(
        f"{name} {_how(last)}: {last.detail}",
        remedy=f"`railhead logs {name}` shows what it printed",
    )


def status(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show one job in detail, or list those of a pattern such as 'sweep-*'. Default: "
            "list all jobs.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every two seconds until the job ends.")
    ] = False,
    silent: Annotated[
        float,
        typer.Option(
            "--silent",
            metavar="MINUTES",
            min=0.1,
            help="Report a possible hang after so long without output.",
        ),
    ] = 5.0,
    namespace: Namespace = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Show what jobs are doing, and why one that waits is waiting.

    Example: [bold]railhead status torch-ddp --watch[/bold]

    Of one job it also says what holds it up and what to change: its place in the queue and who
    holds the quota, a guard, the scheduler, an image, a claim; which rank failed first and what
    that rank said; which node fell silent while it seems to run; and, of these two, the likeliest
    cause and its fix, as `railhead diagnose --job` finds them.

    Exits 0 whatever the job's phase (read it from --json), 5 when there is no such job.
    """
    from railhead.kube import jobs
    from railhead.launch import insight

    with connected(kubeconfig, context, lab) as cluster:
        namespaces = namespaces_of(cluster, namespace)
        seen: Insight | None = None
        while True:
            if name is None or jobs.is_pattern(name):
                states = jobs.matching(jobs.read_states(cluster, namespaces), name)
            else:
                job, state = found(cluster, namespaces, name)
                states = [state]
                limit = round(silent * 60)
                seen = insight.read(cluster, job, state, silent=limit, before=seen)
            _show(states, seen, as_json=as_json)
            ended = all(state.over for state in states)
            if not watch or (name is not None and ended):
                return
            time.sleep(2.0)


def _show(states: list[JobState], seen: Insight | None, *, as_json: bool) -> None:
    """Print one job in detail, with its insight if there is one; or a table of all of them."""
    if as_json:
        dump(states[0].to_json() | seen.to_json() if seen else [s.to_json() for s in states])
        return
    if not states:
        out("no jobs")
        return
    table(
        ("NAME", "PHASE", "NODES", "PROCESSES", "GPUS", "QUEUE", "RESTARTS", "AGE"),
        [
            (
                state.name,
                state.phase.value,
                str(state.wanted),
                str(state.ranks),
                str(state.gpus),
                state.queue or "-",
                str(state.restarts),
                since(state.age()),
            )
            for state in states
        ],
    )
    if len(states) > 1:
        counts = Counter(state.phase.value for state in states)
        out(f"{len(states)} jobs: {', '.join(f'{n} {phase}' for phase, n in counts.items())}")
    for state in states:
        if state.detail:
            out(state.detail if seen else f"{state.name}: {state.detail}")
    if seen is None:
        return
    for line in seen.lines():
        out(line)
    if states[0].nodes:
        _pods(states[0])


def _pods(state: JobState) -> None:
    rows = []
    for node in state.nodes:
        mine = state.ranks_of(node.index)
        first, last = mine[0], mine[-1]
        rows.append(
            (
                node.name,
                f"{first}-{last}" if last > first else str(first),
                node.pod,
                node.machine or "-",
                node.phase,
                str(node.restarts),
                node.reason,
            )
        )
    columns = ("NODE", "RANKS", "POD", "MACHINE", "PHASE", "RESTARTS", "REASON")
    table(columns, rows, folded=("REASON",))


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """The options of `railhead logs` that choose its lines and their form."""

    rank: Annotated[
        int | None,
        typer.Option("--rank", metavar="N", help="Print only this process, counted from 0."),
    ] = None
    node: Annotated[
        int | None,
        typer.Option("--node", metavar="N", help="Print only this node, counted from 0."),
    ] = None
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="NAME", help="Print only this role; --node counts in it."),
    ] = None
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Follow until the job ends, also from before it has pods."
        ),
    ] = False
    tail: Annotated[
        int | None,
        typer.Option(
            "--tail", metavar="N", min=0, help="Print only the last N lines of each node."
        ),
    ] = None
    merged: Annotated[bool, typer.Option("--merged", help="Merge all nodes by time.")] = False
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Put its time before each line, and merge by time.")
    ] = False
    previous: Annotated[
        bool,
        typer.Option("--previous", "-p", help="Print earlier attempts, as far as they are kept."),
    ] = False


@grouped
def logs(
    name: JobName,
    lines: LogOptions,
    namespace: Namespace = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Print the logs of all of a job's nodes, each line with its node in front.

    The cluster keeps the logs of pods that are there. Those of pods that are gone lie on the claim
    of the job's runtime, where it has one: --previous shows them, and once the job is gone no
    option is needed. A pod of the namespace reads them, which takes some seconds.

    With --json each line is an object with its node, its time and its text.

    Example: [bold]railhead logs torch-ddp --rank 0 --follow[/bold]

    Exits 0 when the logs were read, whatever became of the job; 5 when there is no such job.
    """
    from railhead.kube.published import process_prefix
    from railhead.launch.logs import past, stream

    shape: Callable[[Line], str] = str
    if as_json or lines.timestamps:
        shape = stream.Line.as_json if as_json else stream.Line.dated

    def show(line: Line) -> None:
        out(shape(line))

    if lines.previous and (lines.follow or lines.tail is not None):
        raise InputError(
            "--previous is of attempts that are over; --follow and --tail are of the present one",
            remedy="leave one of them out",
        )
    with connected(kubeconfig, context, lab) as cluster:
        where = namespaces_of(cluster, namespace)
        if lines.previous:
            _previous(cluster, where, name, lines, show)
            return
        together = lines.merged or lines.timestamps
        try:
            job, now = found(cluster, where, name)
        except NotFoundError as missing:
            if lines.follow:
                raise
            for line in past.gone(
                cluster,
                where,
                name,
                missing,
                rank=lines.rank,
                node=lines.node,
                role=lines.role,
                tail=lines.tail,
                merged=together,
                say=say,
            ):
                show(line)
            return
        prefix = None if lines.rank is None else process_prefix(cluster, now.runtime)
        selection = stream.select(
            now, rank=lines.rank, node=lines.node, role=lines.role, prefix=prefix
        )
        if lines.follow:
            _follow(cluster, job, now, selection, lines.tail, shape)
            return
        for line in stream.read(cluster, now, selection, tail=lines.tail, merged=together):
            show(line)
        if not now.nodes:
            say(f"{name} has no pods: {now.phase.value} {now.detail}".rstrip())
            say(f"`railhead logs {name} --previous` has those of pods that are gone")


def _follow(
    cluster: Cluster,
    job: Object,
    now: JobState,
    selection: Selection,
    tail: int | None,
    shape: Callable[[Line], str],
) -> None:
    """Print a job's lines as they come, until it has finished or is gone."""
    from railhead.launch import submit
    from railhead.launch.logs import kept, stream

    progress = ConsoleProgress(name=now.name, text=shape)
    gang = stream.Gang(
        cluster,
        namespace=now.namespace,
        selection=selection,
        tail=tail,
        keep=kept.folder(now.namespace, now.name, now.uid),
    )
    try:
        last = stream.print_states(
            gang,
            submit.watch(cluster, job),
            line=progress.line,
            changed=progress.changed,
        )
    finally:
        progress.close()
        _unread(gang)
    if last is None or not last.over:
        say(f"{now.name} was deleted")


def _previous(
    cluster: Cluster,
    where: tuple[str, ...],
    name: str,
    lines: LogOptions,
    show: Callable[[Line], None],
) -> None:
    """Print what is known of attempts that are over; the job itself may be gone."""
    from railhead.launch.logs import past

    shown = False
    which: dict[str, Any] = {"rank": lines.rank, "node": lines.node, "role": lines.role}
    for line in past.before(cluster, where, name, **which, say=say):
        show(line)
        shown = True
    if not shown:
        say(
            f"nothing is kept of earlier attempts of {name}: neither on a claim nor on this "
            "machine, which keeps what is followed or waited for from here, and what `cancel` and "
            "`restart` take away"
        )


def keep(cluster: Cluster, job: dict[str, Any]) -> None:
    """Keep the output of a job's pods and the job's history, before they are deleted."""
    from railhead.kube import jobs
    from railhead.launch.logs import stream

    state = jobs.read_state(cluster, job)
    _keep_history(cluster, job, state)
    if stream.keep(cluster, state):
        say(f"what it has printed is kept: `railhead logs {state.name} --previous`")


def _keep_history(cluster: Cluster, job: dict[str, Any], state: JobState) -> None:
    """Keep what is known of a job now; nothing fails where it cannot be read."""
    from railhead.kube import jobs
    from railhead.launch import history
    from railhead.launch.logs import kept

    try:
        # Its own conditions are as old as the object.
        now = jobs.find_again(cluster, job) or job
        reported = history.described(cluster, now, state)
    except RailheadError:
        return
    kept.folder(state.namespace, state.name, state.uid).describe(reported)


def cancel(
    names: JobNames,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, help="How long to wait for its pods."),
    ] = 120.0,
    namespace: Namespace = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """End jobs, queued, running or done, and remove everything that belongs to them.

    Checkpoints stay, and what their pods have printed is kept on this machine.

    Example: [bold]railhead cancel torch-ddp[/bold]

    Exits 0 when nothing of them is left, 5 when there is no such job, 7 when pods do not go.
    """
    with connected(kubeconfig, context, lab) as cluster:
        where = namespaces_of(cluster, namespace)
        # A wrong name is reported before any job is ended.
        ends = {
            job["metadata"]["uid"]: job for name in names for job in _to_end(cluster, where, name)
        }
        rows = [_end(cluster, job, timeout, as_json=as_json) for job in ends.values()]
    if as_json and rows:
        dump(rows[0] if len(rows) == 1 else rows)


def _to_end(cluster: Cluster, where: tuple[str, ...], name: str) -> list[Object]:
    """Return the jobs; none where a killed launch left only files, which are removed."""
    from railhead.kube import jobs
    from railhead.launch import submit

    try:
        return jobs.find_jobs(cluster, where, [name])
    except NotFoundError:
        if not (swept := submit.sweep(cluster, where, name)):
            raise
    say(f"no job is called {name}; removed what a launch of it left: {', '.join(swept)}")
    return []


def _end(cluster: Cluster, job: Any, timeout: float, *, as_json: bool) -> dict[str, object]:
    from railhead.launch import submit

    keep(cluster, job)
    done = submit.cancel(cluster, job, timeout_seconds=timeout, progress=say)
    if not as_json:
        pods = f"its {done.pods} pods are gone" if done.pods else "it had no pods"
        out(f"{done.name} cancelled (it was {done.was.value}); {pods}, {done.seconds:.1f} s")
    return {
        "name": done.name,
        "namespace": done.namespace,
        "was": done.was.value,
        "pods": done.pods,
        "seconds": round(done.seconds, 1),
    }


def register(app: typer.Typer) -> None:
    """Add the four commands to the root application."""
    app.command(help=LAUNCH_HELP)(launch)
    for command in (status, logs, cancel):
        app.command()(command)
