"""`railhead wait`, `list`, `describe`, `top`, `restart`, `exec` and `port-forward`.

Heavy imports are made inside the commands.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.errors import InputError, NotFoundError, PrerequisiteError, RailheadError
from railhead.base.options import Context, Json, Kubeconfig, Lab, Namespace
from railhead.launch.console import (
    JobName,
    JobNames,
    connected,
    dump,
    found,
    namespaces_of,
    out,
    say,
    since,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railhead.kube.client import Cluster
    from railhead.kube.jobs import JobState, Node

RoleName = Annotated[
    str | None, typer.Option("--role", metavar="NAME", help="Of which role. Default: its own pods.")
]
NodeIndex = Annotated[
    int, typer.Option("--node", metavar="N", min=0, help="Which node, counted from 0.")
]


def wait(
    names: JobNames,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=1, help="Stop waiting; the jobs go on."),
    ] = None,
    namespace: Namespace = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Wait until jobs have ended; what they print is kept on this machine meanwhile.

    Example: [bold]railhead wait torch-ddp --timeout 3600[/bold]

    Exits 0 when all completed, 1 when one failed, was suspended (its limit of time is over) or was
    deleted, 5 when there is no such job, 7 after --timeout.
    """
    from railhead.kube import jobs
    from railhead.launch import cli

    with connected(kubeconfig, context, lab) as cluster:
        where = namespaces_of(cluster, namespace)
        # A wrong name is reported before anything is waited for.
        several = jobs.find_jobs(cluster, where, names)
        ended, bad = cli.wait_for(cluster, several, timeout=timeout)
    if as_json:
        dump([state.to_json() for state in ended])
    if bad:
        raise RailheadError("; ".join(bad), remedy="`railhead describe NAME` says what happened")


#: What ``--hours`` adds up by.
HOURS_BY = ("job", "user", "queue", "team")


def _hours(cluster: Cluster, states: Sequence[JobState], by: str, *, as_json: bool) -> None:
    """Print what jobs used, those that used most first, and their sum."""
    from railhead.kube.published import find_contract
    from railhead.launch import hours

    key = hours.keys(find_contract(cluster))[by]
    each: dict[str, list[hours.Use]] = {}
    for state in states:
        each.setdefault(key(state), []).append(hours.use_of(cluster, state))
    # No two jobs of a namespace have one name.
    uses = [
        replace(several[0], by=name) if by == "job" else hours.total(several, name)
        for name, several in each.items()
    ]
    uses.sort(key=lambda use: -(use.gpu_hours or 0))
    if as_json:
        dump([use.to_json(by) for use in uses])
        return
    table(hours.columns(by), [use.row(by) for use in (*uses, hours.total(uses, "all"))])
    if any(use.at_most for use in uses):
        say(
            "<=: all time before the last restart, as this machine has not all logs of it; "
            "`railhead logs NAME --previous` brings what the claim has"
        )


def listed(
    phase: Annotated[
        list[str] | None,
        typer.Option("--phase", metavar="PHASE", help="Only jobs in this phase. Repeatable."),
    ] = None,
    hours: Annotated[
        str | None,
        typer.Option(
            "--hours",
            metavar="BY",
            help="GPU hours, and what restarts took of them, by job, user, queue or team.",
        ),
    ] = None,
    namespace: Namespace = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """List jobs, one a line: the names first, for scripts.

    Example: [bold]railhead list --phase running --phase queued[/bold]

    GPU hours of all jobs that are still there, the time they waited in their queue, and what
    restarts took: [bold]railhead list --hours user[/bold]

    Exits 0, even when there are no jobs.
    """
    from railhead.kube import jobs
    from railhead.kube.jobs import Phase

    known = [item.value for item in Phase]
    if wrong := [item for item in phase or () if item not in known]:
        raise InputError(
            f"--phase {wrong[0]}: not a phase; allowed: {', '.join(known)}",
            remedy="name one of them",
        )
    if hours not in (None, *HOURS_BY):
        raise InputError(
            f"--hours {hours}: not known; allowed: {', '.join(HOURS_BY)}",
            remedy="name one of them",
        )
    with connected(kubeconfig, context, lab) as cluster:
        states = jobs.read_states(cluster, namespaces_of(cluster, namespace))
        states = [state for state in states if not phase or state.phase.value in phase]
        if hours is not None:
            _hours(cluster, states, hours, as_json=as_json)
            return
    if as_json:
        dump([state.to_json() for state in states])
        return
    width = len(max((state.name for state in states), key=len, default=""))
    for state in states:
        sizes = "+".join(f"{role.nodes}x{role.gpus_per_node}" for role in state.parts)
        out(
            f"{state.name:<{width}}  {state.phase.value:<10}  {state.namespace}  "
            f"{sizes}  {since(state.age())}"
        )


def describe(
    name: JobName,
    namespace: Namespace = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Show all that is known of one job: its spec, its pods and claims, and its history.

    Example: [bold]railhead describe torch-ddp[/bold]

    Of a job that is gone it shows what this machine kept: `railhead wait` keeps it at the end,
    `railhead cancel` before it deletes the job.

    Exits 0 whatever the job's phase, 5 when there is no such job.
    """
    from railhead.launch import history
    from railhead.launch.logs import kept

    with connected(kubeconfig, context, lab) as cluster:
        where = namespaces_of(cluster, namespace)
        try:
            job, state = found(cluster, where, name)
        except NotFoundError:
            folder = kept.newest(name, where)
            reported = folder.described() if folder else None
            if reported is None:
                raise
            say(f"{name} is gone; this is what was known of it here at the last")
        else:
            reported = history.described(cluster, job, state)
    if as_json:
        dump(reported)
        return
    _described(reported)
    columns = ("WHEN", "OBJECT", "WHAT", "IN WORDS")
    table(
        columns,
        [
            (
                item["at"].partition(".")[0].removesuffix("Z"),
                item["object"],
                item["reason"],
                item["text"],
            )
            for item in reported["history"]
        ],
        folded=columns[1:],
        styles=["yellow" if item["warning"] else None for item in reported["history"]],
    )


def _described(about: dict[str, Any]) -> None:
    from railhead.launch.explain import shown

    detail = f": {about['detail']}" if about["detail"] else ""
    rows = [
        ("job", f"{about['namespace']}/{about['name']}"),
        ("phase", about["phase"] + detail),
        ("age", since(about["age_seconds"])),
        (
            "size",
            f"{about['nodes']} nodes, {about['gpus']} GPUs, {about['ranks']} processes"
            if about.get("roles")
            else f"{about['nodes']} nodes x {about['gpus_per_node']} GPUs, "
            f"{about['processes_per_node']} processes each, {about['ranks']} ranks",
        ),
        *(("role", _role(role)) for role in about.get("roles", ())),
        ("runtime", about["runtime"] or "those of its roles"),
        ("queue", about["queue"] or "none"),
        ("image", about["image"] or "the runtime's"),
        ("command", shown(about["command"])),
        ("environment", ", ".join(about["environment"]) or "nothing of its own"),
        ("restarts", str(about["restarts"])),
        # What an earlier Railhead kept has no names.
        *((pod.get("name", f"node-{pod['index']}"), _place(pod)) for pod in about["pods"]),
        *(("claim", claim) for claim in about.get("claims", ())),
    ]
    for key, value in rows:
        out(f"{key + ':':<13}{value}")
    for line in about.get("waits", ()):
        out(line)
    out("")


def _role(role: dict[str, Any]) -> str:
    return (
        f"{role['name']}, {role['nodes']} nodes x {role['gpus_per_node']} GPUs, "
        f"{role['processes_per_node']} processes each"
    )


def _place(pod: dict[str, Any]) -> str:
    reason = f", {pod['reason']}" if pod["reason"] else ""
    return f"{pod['pod']} on {pod['machine'] or 'no machine yet'}, {pod['phase']}{reason}"


def top(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show one job. Default: the team's queues and jobs."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every five seconds.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="PAGE", help="Write the team's queues and jobs to one HTML page."
        ),
    ] = None,
    namespace: Namespace = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Show what the team's queues have free, whose jobs run and how far, and why others wait.

    Steps, loss and throughput are read from the newest lines of the first node's log, so that
    nothing has to be changed in a script. Of one job all nodes are read, and a node that has
    printed nothing for five minutes is named. A page of --html loads itself again: with --watch it
    is one that a team can keep open.

    Example: [bold]railhead top --watch[/bold]

    Exits 0, 5 when there is no such job.
    """
    from railhead.kube.published import find_contract
    from railhead.launch import board, team

    if html and name:
        raise InputError("--html is of all jobs", remedy=f"leave out {name}, or --html")
    with connected(kubeconfig, context, lab) as cluster:
        where = namespaces_of(cluster, namespace)
        contract = find_contract(cluster) if name is None else None
        # A thousand nodes are some 10 MB: they are read once, not at each look.
        down = team.nodes_down(cluster, contract) if contract else {}
        while True:
            if name is None:
                rooms = team.rooms(cluster, contract, where, down) if contract else []
                read = board.read(cluster, where, rooms)
                if html:
                    title = contract.cluster if contract else "the cluster"
                    board.write(html, board.page(title, read, rooms))
                elif as_json:
                    dump(read)
                else:
                    board.show(read, rooms)
            else:
                state = found(cluster, where, name)[1]
                row = board.job(cluster, state, state.nodes)
                if as_json:
                    dump(row)
                else:
                    board.show_jobs([row])
                if state.over:
                    return
            if not watch:
                return
            time.sleep(5.0)


def restart(
    names: JobNames,
    avoid: Annotated[
        list[str] | None,
        typer.Option(
            "--avoid", metavar="NODE", help="A machine that its pods do not get. Repeatable."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print the logs and wait for the end.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, help="How long to wait for its pods."),
    ] = 120.0,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """End jobs, whatever their phase, and submit them again as they were launched.

    They wait in their queues again, and go on from their newest checkpoints. What one avoided it
    avoids again. --follow is for one job.

    Example: [bold]railhead restart torch-ddp --follow[/bold]

    Exits 0 when it is submitted or, with --follow, when it has completed; 4 when it was not
    launched by `railhead launch`; 5 when there is no such job; 7 when its pods do not go.
    """
    from railhead.kube import jobs
    from railhead.launch import cli, submit

    if follow and len(names) > 1:
        raise InputError("--follow follows one job", remedy="restart them, then `railhead wait`")
    with connected(kubeconfig, context, lab) as cluster:
        where = namespaces_of(cluster, namespace)
        # A wrong name is reported before any job is ended.
        for job in jobs.find_jobs(cluster, where, names):
            cli.keep(cluster, job)
            made = submit.restart(
                cluster, job, timeout_seconds=timeout, progress=say, without=avoid or ()
            )
            metadata = made["metadata"]
            say(f"created {made['kind']} {metadata['namespace']}/{metadata['name']} again")
            if follow:
                cli.follow_to_the_end(cluster, made)


def kubectl_words(cluster: Cluster, *words: str) -> list[str]:
    """Return the words that run kubectl on this cluster, its path first; no shell reads them.

    Raises:
        PrerequisiteError: there is no kubectl.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise PrerequisiteError(
            "kubectl is not on PATH, and this command needs it",
            remedy="install kubectl; everything else works without it",
        )
    target = cluster.target
    where = ["--kubeconfig", str(target.kubeconfig)] if target.kubeconfig else []
    where += ["--context", target.context] if target.context else []
    return [kubectl, *where, *words]


def _kubectl(cluster: Cluster, *words: str) -> None:
    """Become kubectl: streams are its trade."""
    command = kubectl_words(cluster, *words)
    os.execv(command[0], command)  # noqa: S606 - no shell, and a list of words


def running_node(state: JobState, node: int, role: str | None = None) -> Node:
    """Return a node of a job, or of one of its roles, whose container runs.

    Raises:
        InputError: it has no such role.
        PrerequisiteError: it does not run.
        NotFoundError: the job has no such node now.
    """
    part = state.role(role)
    for item in state.nodes:
        if item.index == part.first + node and node < part.nodes:
            if item.started and not item.ended:
                return item
            raise PrerequisiteError(
                f"{state.name}: {item.name} does not run: {item.phase} {item.reason}".rstrip(),
                remedy=f"`railhead status {state.name}` shows its nodes",
            )
    raise NotFoundError(
        f"{state.name} has no pod of {part.name}-{node}; it is {state.phase.value}, and has "
        f"{part.nodes} nodes{f' of role {part.name}' if state.roles else ''}",
        remedy=f"`railhead status {state.name}` shows its nodes",
    )


def execute(
    name: JobName,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ],
    node: NodeIndex = 0,
    role: RoleName = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Run a command in a job's container, by kubectl.

    Example: [bold]railhead exec torch-ddp --node 1 -- ls[/bold]

    Exits with the command's own code; 5 when there is no such job or node.
    """
    from railhead.kube.published import container_of

    with connected(kubeconfig, context, lab) as cluster:
        _, state = found(cluster, namespaces_of(cluster, namespace), name)
        pod = running_node(state, node, role)
        terminal = ["-i", "-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        container = container_of(cluster, state.runtime)
        _kubectl(
            cluster, "-n", state.namespace, "exec", *terminal, pod.pod, "-c", container, "--",
            *command,
        )  # fmt: skip


def check_ports(ports: Sequence[str]) -> None:
    """Check that ports are written as kubectl reads them.

    Raises:
        InputError: one is not.
    """
    for port in ports:
        parts = port.split(":")
        if len(parts) > 2 or not all(p.isdigit() and 0 < int(p) < 65536 for p in parts):
            raise InputError(
                f"{port}: not a port; allowed: REMOTE or LOCAL:REMOTE, from 1 to 65535",
                remedy="such as 6006, or 8080:6006",
            )


def port_forward(
    name: JobName,
    ports: Annotated[
        list[str], typer.Argument(metavar="[LOCAL:]REMOTE", help="Ports of the container.")
    ],
    node: NodeIndex = 0,
    role: RoleName = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Bring ports of a job's node to this machine's loopback, by kubectl, until Ctrl-C.

    Example: [bold]railhead port-forward torch-ddp 6006[/bold]

    Exits with kubectl's own code; 5 when there is no such job or node.
    """
    check_ports(ports)
    with connected(kubeconfig, context, lab) as cluster:
        _, state = found(cluster, namespaces_of(cluster, namespace), name)
        pod = running_node(state, node, role)
        _kubectl(cluster, "-n", state.namespace, "port-forward", f"pod/{pod.pod}", *ports)


def register(app: typer.Typer) -> None:
    """Add the commands to the root application."""
    for command in (wait, describe, top, restart):
        app.command()(command)
    app.command(name="list")(listed)
    app.command(name="exec")(execute)
    app.command(name="port-forward")(port_forward)
