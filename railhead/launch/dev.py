"""`railhead dev`: a job that holds its pods open, and a terminal in one of them."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from railhead.base.errors import InputError, PrerequisiteError, RailheadError, RefusedError
from railhead.base.options import Context, Json, Kubeconfig, Lab, grouped
from railhead.launch.after import NodeIndex, check_ports, kubectl_words, running_node
from railhead.launch.console import (
    ConsoleProgress,
    Files,
    Image,
    Queue,
    Sets,
    connected,
    dump,
    found,
    namespaces_of,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railhead.kube.client import Cluster, Object
    from railhead.kube.jobs import JobState

IDLE, MOST = "1h", "8h"
#: A fixed text: the seconds and the command are its arguments. It ends once no other process has
#: been in its container for so long: no shell, no command, nothing that one of them has started.
HOLD = """\
trap 'exit 143' TERM
idle=$1
shift
if [ $# -gt 0 ]; then "$@" & fi
quiet=0
while [ $quiet -lt $idle ]; do
  sleep 10 &
  wait $!
  quiet=$((quiet + 10))
  for process in /proc/[0-9]*; do
    if [ $process != /proc/$$ ]; then quiet=0; fi
  done
done
echo "railhead: nothing has run here for $idle s"
"""
#: The name of what runs it; the seconds are the next word of its job.
_HOLDS = "railhead-dev"
#: Bash where the image has it.
SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")
#: Fields of a job file that say how its own command runs.
_OF_ITS_COMMAND = {
    *("command", "timeout", "verify", "min_nodes", "restarts", "roles", "matrix", "sizing")
}
_COMMAND = "railhead.command"
# Between two tries to forward ports.
RETRY_SECONDS = 1.0
# Between two looks at whether a pod is there, and for a job without JupyterLab to be gone.
LOOK_SECONDS, END_SECONDS = 10.0, 120.0


class _Dashes(TyperCommand):
    """A command line whose words after ``--`` are a command, however many stand before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `railhead dev` that make a job; one that runs takes none of them."""

    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Its name; else made up.")
    ] = None
    image: Image = None
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", help="Else the file's, or 1.")
    ] = None
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", help="GPUs on each; else the runtime's.")
    ] = None
    queue: Queue = None
    files: Files = None
    sets: Sets = None
    idle: Annotated[
        str | None,
        typer.Option("--idle", metavar="TIME", help=f"End after so long without use ({IDLE})."),
    ] = None
    most: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help=f"End after so long in any case ({MOST})."),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Run all checks and print the objects; create nothing."),
    ] = False

    def given(self) -> list[str]:
        """Return the names of the options that are given."""
        return [item.name for item in fields(self) if getattr(self, item.name) != item.default]

    def values(self, file: Path | None, command: Sequence[str]) -> dict[str, Any]:
        """Return the fields of the job: those of its job file, these, and what holds it open.

        Args:
            file: its job file, if there is one; paths of files are relative to it.
            command: the words that run beside the shells.

        Raises:
            InputError: the file, a time or a field is not as it must be.
        """
        from railhead.launch.job import override_values, read_job

        idle = _seconds("--idle", self.idle or IDLE)
        _seconds("--for", self.most or MOST)
        read: dict[str, Any] = {"nodes": 1}
        if file is not None:
            job, _ = read_job(file)
            read = job.model_dump(exclude_unset=True, exclude=_OF_ITS_COMMAND)
        folder = file.parent if file else Path()
        own = {
            "name": self.name or f"dev-{secrets.token_hex(3)}",
            "image": self.image,
            "nodes": self.nodes,
            "gpus_per_node": self.gpus,
            "queue": self.queue,
            "files": [
                *read.get("files", ()),
                *(os.path.relpath(f, folder) for f in self.files or ()),
            ],
            "timeout": self.most,
            "command": [
                "sh",
                "-c",
                HOLD,
                _HOLDS,
                str(idle),
                *command,
            ],
            # Each node may train alone here, and every process but the one above is someone's.
            "launcher": "none",
            "logs": "bare",
        }
        values = read | {name: value for name, value in own.items() if value is not None}
        if mistakes := override_values(values, self.sets or ()):
            raise InputError("; ".join(mistakes), remedy="such as --set runtime=torch")
        return values


def _seconds(option: str, text: str) -> int:
    from railhead.launch.job import seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise InputError(
            f"{option} {text}: not a time; allowed: {error}", remedy=f"such as {option} {IDLE}"
        ) from None


@grouped
def dev(
    invoked: typer.Context,
    options: Options,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB.yaml|NAME",
            help="A job file whose fields to take, or the name of a job that runs.",
        ),
    ] = None,
    ports: Annotated[
        list[str] | None,
        typer.Option(
            "--port",
            metavar="[LOCAL:]REMOTE",
            help="Bring a port here while the shell lasts. Repeatable.",
        ),
    ] = None,
    with_jupyter: Annotated[
        bool,
        typer.Option(
            "--jupyter",
            help="Start JupyterLab in it, print its address here, and bring its port until Ctrl-C.",
        ),
    ] = False,
    node: NodeIndex = 0,
    attach: Annotated[
        bool, typer.Option("--attach/--no-attach", help="Open a shell once it runs.")
    ] = True,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Of the queue, or of the job."),
    ] = None,
    as_json: Json = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Open a shell in a pod of the cluster, as a job that is queued and charged like any other.

    COMMAND runs beside the shells. The job stays when a shell is left.
    It ends once neither a shell nor anything else has run in it for --idle, and after --for in any
    case. `railhead dev NAME` opens another shell, `railhead cancel NAME` ends the job.

    Example: [bold]railhead dev --gpus 1 --idle 30m[/bold]

    A notebook instead of a shell: [bold]railhead dev --gpus 1 --jupyter[/bold]

    Exits as `railhead launch` does until the shell is open, then with the shell's own code; with
    --no-attach 0 once the job runs; with --jupyter 0 after Ctrl-C, and 4 where the image has no
    JupyterLab.
    """
    command = invoked.meta[_COMMAND]
    _check(options, what, command, ports=ports or (), attach=attach, as_json=as_json)
    if with_jupyter and not attach:
        raise InputError(
            "--jupyter: its address leads here while this command runs",
            remedy="leave out --no-attach, and add --jupyter when you come back to it by name",
        )
    file = Path(what) if what is not None and _is_file(what) else None
    values = options.values(file, command) if file or what is None else None
    if values and namespace:
        values["namespace"] = namespace
    with connected(kubeconfig, context, lab) as cluster:
        if attach and not options.dry_run:
            # Before anything is created or waited for.
            kubectl_words(cluster)
        if values is not None:
            job = _submit(
                cluster,
                options,
                values,
                file,
                forwards=bool(ports or with_jupyter),
                attach=attach,
                as_json=as_json,
            )
        else:
            job, _ = found(cluster, namespaces_of(cluster, namespace), str(what))
        if job is None:
            return
        state = _until_it_runs(cluster, job)
        if as_json:
            dump(state.to_json())
        if with_jupyter:
            _notebook(cluster, job, state, node, ports or (), new=values is not None)
            return
        code = _enter(cluster, job, state, node, ports or (), attach=attach)
    raise typer.Exit(code)


def _is_file(what: str) -> bool:
    return Path(what).suffix in (".yaml", ".yml")


def _check(
    options: Options,
    what: str | None,
    command: Sequence[str],
    *,
    ports: Sequence[str],
    attach: bool,
    as_json: bool,
) -> None:
    """Refuse options that exclude each other.

    Raises:
        InputError: with the options.
    """
    check_ports(ports)
    given = [*options.given(), *(["a command"] if command else [])]
    if what is not None and not _is_file(what) and given:
        raise InputError(
            f"{what}: a job that runs takes no {', '.join(given)}",
            remedy=f"`railhead dev {what}` opens a shell in it; name a .yaml file for a new job",
        )
    if as_json and attach and not options.dry_run:
        raise InputError(
            "--json: standard output is the shell's", remedy="add --no-attach, or leave it out"
        )
    if ports and not attach:
        raise InputError(
            "--port: no shell is open whose end would end it",
            remedy="leave it out, and use `railhead port-forward NAME PORT`",
        )
    for port in ports:
        _check_free(port)


def _check_free(port: str) -> None:
    """Check that a port of this machine can be had, before a job is created for it.

    Raises:
        InputError: something listens there, or the user may not.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", int(port.partition(":")[0])))
        except OSError as error:
            raise InputError(
                f"--port {port}: this machine's port cannot be had: {error.strerror}",
                remedy=f"choose another one, such as 18080:{port.rpartition(':')[2]}",
            ) from None


def _submit(
    cluster: Cluster,
    options: Options,
    values: dict[str, Any],
    file: Path | None,
    *,
    forwards: bool,
    attach: bool,
    as_json: bool,
) -> Object | None:
    """Check and create the job, as `railhead launch` does; None for a dry run.

    Raises:
        InputError: the job asks for what this cluster does not have.
        RefusedError: a check, or the cluster, says no.
    """
    from railhead.kube.published import read_contract
    from railhead.launch import cli
    from railhead.launch.job import job_of
    from railhead.launch.plan import make_plan

    contract = read_contract(cluster)
    if "timeout" in contract.unsaid and "timeout" not in values:
        say(
            "note: only --idle ends it, unless a forgotten shell of an image without bash keeps "
            f"it: {contract.unsaid['timeout']}"
        )
    else:
        values.setdefault("timeout", MOST)
    folder, where = (file.parent, str(file)) if file else (Path(), "the command line")
    job, payloads = job_of(values, folder=folder, where=where)
    plan = make_plan(job, payloads, contract)
    if plan.command != job.command:
        raise InputError(
            f"runtime: {plan.runtime!r} starts processes of its own: {' '.join(plan.command[:2])}",
            remedy="--set runtime=NAME, of one that runs a command as it is, such as torch or raw",
        )
    if attach and not options.dry_run:
        _check_rights(cluster, plan.namespace, forwards=forwards)
    dry = options.dry_run
    cli.launch_plan(cluster, plan, contract, dry_run=dry, as_json=as_json and dry)
    if dry:
        return None
    ends = f", and {job.timeout} after it began in any case" if job.timeout else ""
    say(f"it ends by itself {options.idle or IDLE} after its last use{ends}")
    return found(cluster, (plan.namespace,), plan.name)[0]


def _check_rights(cluster: Cluster, namespace: str, *, forwards: bool) -> None:
    """Check that the user may open a shell and the ports, before the job waits for its quota.

    Raises:
        RefusedError: RBAC does not let them.
    """
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    rights = {"exec": "open a shell in"} | ({"portforward": "forward ports of"} if forwards else {})
    for right, act in rights.items():
        attributes = {"resource": "pods", "subresource": right, "verb": "create"}
        review = {"spec": {"resourceAttributes": attributes | {"namespace": namespace}}}
        if not cluster.create(path, review)["status"]["allowed"]:
            raise RefusedError(
                f"namespace {namespace}: you may not {act} its pods (pods/{right})",
                remedy="ask the platform team, whose stack says who may (`access.exec`); nothing "
                "was created",
            )


def _until_it_runs(cluster: Cluster, job: Object) -> JobState:
    """Show the job's phases, with the reasons, until all of its pods run.

    Raises:
        RailheadError: it ended, or is gone, or nothing will start it.
    """
    from railhead.kube.jobs import Phase
    from railhead.launch import submit

    name = job["metadata"]["name"]
    progress, last = ConsoleProgress(name=name), None
    try:
        for last in submit.watch(cluster, job):
            progress.changed(last)
            if last.phase is Phase.RUNNING:
                return last
            if last.phase is Phase.SUSPENDED:
                break
    except KeyboardInterrupt:
        say(f"{name} goes on; `railhead dev {name}` comes back, `railhead cancel {name}` ends it")
        raise
    finally:
        progress.close()
    reason = f"is {last.phase.value}: {last.detail}".rstrip(": ") if last else "was deleted"
    raise RailheadError(
        f"{name} {reason}",
        remedy=f"`railhead describe {name}` says what happened; begin another with `railhead dev`",
    )


def _limit(job: Object) -> tuple[str, ...]:
    """Return words before a shell by which bash leaves a prompt at which nobody types.

    A lost connection leaves the shell in its container (kubernetes #89031), where it counts as use.
    """
    idle = _idle(job)
    return ("env", f"TMOUT={idle}") if idle else ()


def _idle(job: Object) -> str:
    """Return the seconds of --idle of a job that `dev` made; empty for another."""
    trainer = (job.get("spec") or {}).get("trainer") or {}
    words = (*trainer.get("command", ()), *trainer.get("args", ()))
    idle = next((after for word, after in itertools.pairwise(words) if word == _HOLDS), "")
    return idle if idle.isdigit() else ""


def _enter(
    cluster: Cluster,
    job: Object,
    state: JobState,
    node: int,
    ports: Sequence[str],
    *,
    attach: bool,
) -> int:
    """Say how to reach the pod, and open a shell in it; return the shell's exit code."""
    from railhead.kube.published import container_of

    pod, container = running_node(state, node).pod, container_of(cluster, state.runtime)
    name, where = state.name, ("-n", state.namespace)
    back = f"`railhead dev {name}` opens another shell, `railhead cancel {name}` ends the job"
    _say_ways_in(state, pod, container)
    for port in ports:
        local, _, remote = port.rpartition(":")
        say(f"port {remote} of the pod is localhost:{local or remote} while the shell is open")
    if not attach:
        say(back)
        return 0
    terminal = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    command = (*_limit(job), *SHELL)
    shell = kubectl_words(
        cluster, *where, "exec", "-i", *terminal, pod, "-c", container, "--", *command
    )
    forward = kubectl_words(cluster, *where, "port-forward", f"pod/{pod}", *ports)
    over = threading.Event()
    with ThreadPoolExecutor() as pool:
        if ports:
            pool.submit(_forward, forward, over)
        try:
            code = subprocess.call(shell)
        finally:
            over.set()
    say(back)
    return code


def _say_ways_in(state: JobState, pod: str, container: str) -> None:
    """Say how files and VS Code get into a pod.

    VS Code asks kubectl, by its current context (code.visualstudio.com,
    docs/devcontainers/attach-container.md).
    """
    say(f"files: kubectl -n {state.namespace} cp FILE {pod}:/tmp/ -c {container}")
    say(
        "VS Code: F1, `Dev Containers: Attach to Running Kubernetes Container...`, namespace "
        f"{state.namespace}, pod {pod}, container {container}"
    )


def _notebook(
    cluster: Cluster,
    job: Object,
    state: JobState,
    node: int,
    ports: Sequence[str],
    *,
    new: bool,
) -> None:
    """Start JupyterLab in a pod, or find it there, say its address, and bring its port.

    A ``new`` job whose image has none is ended.

    Raises:
        PrerequisiteError: the image has no JupyterLab.
        RailheadError: it does not start, or its job has ended.
    """
    from railhead.kube.published import container_of
    from railhead.launch import jupyter, submit

    pod, container = running_node(state, node).pod, container_of(cluster, state.runtime)
    name, where = state.name, ("-n", state.namespace)
    idle = _idle(job) or str(_seconds("--idle", IDLE))
    try:
        server = jupyter.start(
            kubectl_words(
                cluster, *where, "exec", pod, "-c", container, "--", *jupyter.words(idle)
            ),
            name,
        )
    except PrerequisiteError:
        if new:
            submit.cancel(cluster, job, timeout_seconds=END_SECONDS, progress=lambda _: None)
            say(f"{name} was ended")
        raise
    taken = {int(port.partition(":")[0]) for port in ports}
    local = _free_port(0 if server.port in taken else server.port)
    _say_ways_in(state, pod, container)
    say(f"JupyterLab, until Ctrl-C: {server.url(local)}")
    all_ports = (f"{local}:{server.port}", *ports)
    forward = kubectl_words(cluster, *where, "port-forward", f"pod/{pod}", *all_ports)
    over, ended = threading.Event(), False
    with ThreadPoolExecutor() as pool:
        pool.submit(_forward, forward, over)
        try:
            while not (ended := _ended(cluster, job, pod)):
                over.wait(LOOK_SECONDS)
        except KeyboardInterrupt:
            say(
                f"{name} goes on, with JupyterLab; `railhead dev {name} --jupyter` comes back, "
                f"`railhead cancel {name}` ends it"
            )
        finally:
            over.set()
    if ended:
        raise RailheadError(
            f"{name}: pod {pod} does not run any longer",
            remedy=f"`railhead describe {name}` says what happened",
        )


def _ended(cluster: Cluster, job: Object, pod: str) -> bool:
    """Return whether a job's pod is gone or has ended; False while nobody answers."""
    from railhead.kube import client as kube
    from railhead.kube import jobs

    try:
        now = cluster.find(kube.core(job["metadata"]["namespace"], "pods", pod))
    except RailheadError:
        return False
    return now is None or jobs.read_node(now).ended


def _free_port(wanted: int) -> int:
    """Return a port of this machine that is free: the one that is wanted, if it is."""
    for port in (wanted, 0):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    return wanted


def _forward(words: Sequence[str], over: threading.Event) -> None:
    """Forward ports until it is over, without a word among those of the shell.

    kubectl ends with the first connection that the pod refuses, as it does while a server starts
    (kubernetes, staging/src/k8s.io/client-go/tools/portforward/portforward.go, handleConnection).
    """
    while not over.is_set():
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing)
        while process.poll() is None and not over.wait(0.1):
            pass
        process.terminate()
        process.wait()
        over.wait(RETRY_SECONDS)


def register(app: typer.Typer) -> None:
    """Add the command to the root application."""
    app.command(cls=_Dashes)(dev)
