"""`railhead lab ...`: a whole cluster on this machine, from real parts."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.errors import ExitCode, InputError, RailheadError
from railhead.base.options import Json

if TYPE_CHECKING:
    from rich.console import Console

    from railhead.lab.cluster import Lab, Status
    from railhead.lab.spec import LabSpec

app = typer.Typer(
    no_args_is_help=True,
    help="A whole cluster on this machine, from real parts.\n\nExample: railhead lab up",
)

Name = Annotated[str, typer.Option("--name", help="Name of the lab.")]


@app.command()
def up(
    name: Name = "lab",
    nodes: Annotated[
        int | None, typer.Option(min=1, max=8, help="Real nodes; 2 in a new lab.")
    ] = None,
    simulated_nodes: Annotated[
        int | None, typer.Option(min=0, max=5000, help="KWOK nodes, in addition.")
    ] = None,
    rails: Annotated[
        int | None, typer.Option(min=1, max=8, help="Rail interfaces per node; 1 in a new lab.")
    ] = None,
    fabric: Annotated[
        str | None, typer.Option(help="Fabric of the catalogue whose devices each node advertises.")
    ] = None,
    disk_mib: Annotated[
        int | None,
        typer.Option(
            "--disk",
            min=64,
            max=1 << 20,
            help="Size in MiB of a disk in memory for the volumes and logs of each node that "
            "starts from now on. Default: the machine's disk.",
        ),
    ] = None,
    api_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Build what is missing and bring the cluster up; run again, it restarts what has ended.

    Example: railhead lab up --nodes 2 --simulated-nodes 1000
    """
    from railhead.base import paths
    from railhead.lab import artifacts as parts
    from railhead.lab import preflight
    from railhead.lab.cluster import Lab, locked

    console = _console(to_error=as_json)
    lab = Lab(name)
    preflight.check_machine()
    with locked(name):
        existing = lab.spec()
        wanted = _wanted(lab, name, nodes, simulated_nodes, rails, fabric, disk_mib, api_port)
        preflight.check_paths(lab.directory, paths.cache_root())
        preflight.check_space(paths.labs_dir())
        listener = None
        if not lab.gateway_runs():
            listener = preflight.listen(wanted.api_port)
            wanted = wanted.model_copy(update={"api_port": listener.getsockname()[1]})
        built = parts.ensure(console)
        preflight.check_commands()
        if existing is None:
            preflight.check_kernel()
        seconds = lab.up(wanted, built, _Reporter(console), listener=listener)
        environment(name)  # makes the lab's tools, for shells that had its PATH before
        status_now = lab.status()
    if not preflight.has_ip_sets():
        console.print(
            "Network policies are not enforced in this lab: the kernel has no IP sets "
            "(modprobe ip_set ip_set_hash_ip ip_set_hash_net xt_set)."
        )
    if as_json:
        typer.echo(json.dumps(asdict(status_now), indent=1, default=dict))
        return
    _print_status(console, status_now)
    which = "" if name == "lab" else f" --name {name}"
    console.print(
        f'\nUp in {seconds["total"]:.1f} s. Next: [bold]eval "$(railhead lab env{which})"[/] '
        "then `kubectl get nodes`, or `pulumi stack select --create lab` and `pulumi up`."
    )


@app.command()
def build(
    only: Annotated[
        str | None,
        typer.Option(
            help="Build only this, and print its files: `pulumi`, which needs no lab; or what no "
            "lab has by itself: the image `frameworks`, the controllers of `upgraded` or "
            "`trainer-upgraded`, `volcano`, the `twin-operators` of `railhead rehearse`.",
        ),
    ] = None,
) -> None:
    """Build and install everything a lab needs into the cache, without starting it.

    Example: railhead lab build
    """
    from railhead.lab import artifacts as parts
    from railhead.lab import preflight

    if only != "pulumi":
        preflight.check_machine()
    if only is None:
        parts.main_build(_console())
    else:
        for archive in parts.build_on_request(only, _console(to_error=True)):
            typer.echo(archive)


@app.command("load-image")
def load_image(
    archive: Annotated[
        Path,
        typer.Argument(help="A file that `docker save` or `podman save` wrote."),
    ],
    name: Name = "lab",
) -> None:
    """Load an image of your own onto every node of a lab, because labs cannot pull images.

    Example: railhead lab load-image train.tar
    """
    from railhead.lab.cluster import Lab, locked

    lab = Lab(name)
    lab.require()
    if not archive.is_file():
        raise InputError(
            f"there is no file {archive}", remedy="write one with `docker save IMAGE -o FILE`"
        )
    with locked(name):
        for reference in lab.load_image(archive):
            typer.echo(reference)


@app.command()
def watch(
    name: Name = "lab",
    webhook: Annotated[
        str | None,
        typer.Option(help="Address that Alertmanager posts alerts to; pods must reach it."),
    ] = None,
) -> None:
    """Run Prometheus, Alertmanager and kube-state-metrics in a lab; run again to update rules.

    Example: railhead lab watch
    """
    from railhead.lab import artifacts as parts
    from railhead.lab import watching
    from railhead.lab.artifacts.watching import archives
    from railhead.lab.cluster import Lab, locked

    console = _console()
    lab = Lab(name)
    lab.require()
    built, images = parts.installed(), archives(console)
    with locked(name):
        for image in images:
            lab.load_image(image)
        rules = watching.of_stack(lab, watching.RULES)
        scrapes = watching.of_stack(lab, watching.SCRAPES)
        lab.apply(built, watching.objects(rules, scrapes, webhook))
        lab.wait_for_rollout(built, watching.NAMESPACE, watching.WORKLOADS)
    console.print(
        f"Prometheus watches lab {name!r}, on "
        + ("its stack's rules." if rules else "no rules yet: see docs/watching.md.")
        + f"\nTo ask it: kubectl -n {watching.NAMESPACE} port-forward service/prometheus 9090",
        highlight=False,
    )


@app.command()
def status(name: Name = "lab", as_json: Json = False) -> None:
    """Show a lab's processes and nodes; exits 1 unless everything runs.

    Example: railhead lab status --json
    """
    from railhead.lab.cluster import Lab

    result = Lab(name).status()
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=1, default=dict))
    else:
        _print_status(_console(), result)
    if result.state != "running":
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def down(name: Name = "lab") -> None:
    """End a lab and remove everything except the cache of builds.

    Example: railhead lab down
    """
    from railhead.lab.cluster import Lab, locked
    from railhead.lab.cluster import names as labs

    console = _console()
    lab = Lab(name)
    if not lab.directory.exists():
        known = ", ".join(labs()) or "none"
        console.print(f"There is no lab {name!r}; labs on this machine: {known}.")
        return
    with locked(name):
        started = time.monotonic()
        left = lab.down()
    if left:
        raise RailheadError(
            f"lab {name!r} is down, but some of it could not be removed: {'; '.join(left)}",
            remedy="end what holds it, then run `railhead lab down` again",
        )
    console.print(f"Lab {name!r} is down in {time.monotonic() - started:.1f} s; nothing is left.")


@app.command()
def kubeconfig(
    name: Name = "lab",
    path: Annotated[bool, typer.Option("--path", help="Print its path instead.")] = False,
) -> None:
    """Print the administrator's kubeconfig; it is a credential.

    Example: export KUBECONFIG=$(railhead lab kubeconfig --path)
    """
    from railhead.base import paths
    from railhead.lab.cluster import Lab

    Lab(name).require()
    file = paths.lab_kubeconfig(name)
    typer.echo(str(file) if path else file.read_text(), nl=path)


@app.command()
def logs(
    component: Annotated[
        str | None, typer.Argument(help="A component, such as kube-apiserver or node-0/kubelet.")
    ] = None,
    name: Name = "lab",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Also print new lines.")] = False,
    lines: Annotated[int, typer.Option(min=1, help="Number of lines from the end.")] = 50,
) -> None:
    """Print a component's log; without a component, list the logs.

    Example: railhead lab logs node-0/kubelet --follow
    """
    from railhead.base.errors import did_you_mean
    from railhead.lab.cluster import Lab

    lab = Lab(name)
    lab.require()
    files = lab.log_files()
    if component is None:
        for role, file in files.items():
            typer.echo(f"{role:40} {file.stat().st_size:>10}  {file}")
        return
    chosen = files.get(component.replace("/", "."))
    if chosen is None:
        raise InputError(
            f"no log of {component!r} in lab {name!r}{did_you_mean(component, files)}",
            remedy=f"choose one of: {', '.join(files)}",
        )
    with chosen.open(errors="replace") as stream:
        for line in stream.readlines()[-lines:]:
            typer.echo(line, nl=False)
        while follow:
            if line := stream.readline():
                typer.echo(line, nl=False)
            else:
                time.sleep(0.2)


@app.command()
def env(name: Name = "lab") -> None:
    """Print shell exports that point kubectl, helm and pulumi at the lab.

    Example: eval "$(railhead lab env)"
    """
    for key, value in environment(name).items():
        typer.echo(f"export {key}={shlex.quote(value)}")


@app.command("exec", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def execute(ctx: typer.Context, name: Name = "lab") -> None:
    """Run a command with the lab's environment.

    Example: railhead lab exec -- pulumi up -s lab
    """
    if not ctx.args:
        raise InputError("no command was given", remedy="railhead lab exec -- pulumi up -s lab")
    variables = {**os.environ, **environment(name)}
    sys.stdout.flush()
    try:
        os.execvpe(ctx.args[0], ctx.args, variables)  # noqa: S606 - the user's own command
    except OSError as error:
        raise InputError(
            f"cannot run {ctx.args[0]!r}: {error.strerror}",
            remedy="name a program on PATH; the lab adds kubectl, helm and pulumi to it",
        ) from None


def environment(name: str) -> dict[str, str]:
    """Return variables that point tools at a lab: PATH, KUBECONFIG, Pulumi's state in the lab.

    The passphrase is empty on purpose: the lab's stack holds no secret, and the state lies in the
    lab's own directory, which only root may enter.
    """
    from railhead.base import paths
    from railhead.lab import artifacts as parts
    from railhead.lab.cluster import Lab
    from railhead.lab.engine.install import install

    lab = Lab(name)
    lab.require()
    built = parts.installed()
    tools = lab.directory / "tools"
    tools.mkdir(exist_ok=True)
    for program in ("kubectl", "helm"):
        _link(tools / program, built.bin_dir / program)
    install(tools, python=Path(sys.executable), helm=built.bin_dir / "helm", pulumi=built.pulumi)
    # The lab's tools come last, so that a pulumi or kubectl of the user's own is the one that runs.
    inherited = [p for p in os.environ.get("PATH", "").split(os.pathsep) if p and p != str(tools)]
    return {
        "PATH": os.pathsep.join([*inherited, str(tools)]),
        "KUBECONFIG": str(paths.lab_kubeconfig(name)),
        # The stack `lab` then means this lab, whatever its name.
        "RAILHEAD_LAB": name,
        "PULUMI_BACKEND_URL": f"file://{lab.directory / 'pulumi'}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "RAILHEAD_HELM": str(built.bin_dir / "helm"),
    }


def _link(link: Path, target: Path) -> None:
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def _wanted(
    lab: Lab,
    name: str,
    nodes: int | None,
    simulated_nodes: int | None,
    rails: int | None,
    fabric: str | None,
    disk_mib: int | None,
    api_port: int,
) -> LabSpec:
    """Return the lab that was asked for; options that are not given stay as they are.

    Raises:
        InputError: the name is not a label, the fabric is unknown, or the lab would shrink.
    """
    from pydantic import ValidationError

    from railhead.base.errors import did_you_mean
    from railhead.fabric.kinds import FABRICS
    from railhead.lab.spec import LabSpec

    existing = lab.spec()
    if fabric is not None and fabric not in FABRICS:
        raise InputError(
            f"--fabric: {fabric!r} is not in the catalogue{did_you_mean(fabric, FABRICS)}",
            remedy=f"choose one of: {', '.join(FABRICS)}",
        )
    base = existing.model_dump() if existing else {"name": name, "api_port": 1}
    asked = {
        "nodes": nodes,
        "simulated_nodes": simulated_nodes,
        "rails": rails,
        "fabric": fabric,
        "disk_mib": disk_mib,
    }
    try:
        wanted = LabSpec.model_validate(base | {k: v for k, v in asked.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"--{'.'.join(map(str, first['loc']))}: {first['input']!r}: {first['msg']}",
            remedy="a lab's name has at most 20 lower-case letters, digits and dashes",
        ) from None
    if existing:
        changed = [
            f"{field}: has {was}, asked for {now}"
            for field, was, now in (
                ("rails", existing.rails, wanted.rails),
                ("fabric", existing.fabric, wanted.fabric),
                ("api_port", existing.api_port, api_port or existing.api_port),
            )
            if was != now
        ]
        changed += [
            f"{field}: has {was}, asked for fewer ({now})"
            for field, was, now in (
                ("nodes", existing.nodes, wanted.nodes),
                ("simulated_nodes", existing.simulated_nodes, wanted.simulated_nodes),
            )
            if now < was
        ]
        if changed:
            raise InputError(
                f"lab {name!r} is there already with other settings: {'; '.join(changed)}",
                remedy=f"run `railhead lab down --name {name}` first, or leave the option out",
            )
        return wanted
    return wanted.model_copy(update={"api_port": api_port})


class _Reporter:
    """A reporter that prints one line per phase, with a spinner on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(name):
                yield
        else:
            yield
        self._console.print(f"  {time.monotonic() - started:6.1f} s  {name}", highlight=False)


def _console(*, to_error: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=to_error, soft_wrap=True)


def _print_status(console: Console, found: Status) -> None:
    from rich.table import Table

    colour = {"running": "green", "degraded": "yellow"}.get(found.state, "red")
    console.print(
        f"Lab [bold]{found.name}[/] is [{colour}]{found.state}[/], {found.memory_mib:.0f} MiB, "
        f"API at https://127.0.0.1:{found.api_port}"
    )
    table = Table("component", "state", "pid", "MiB")
    for component in found.components:
        state = "running" if component.running else f"[red]ended with {component.exit_code}[/]"
        table.add_row(
            component.role, state, str(component.pid or ""), f"{component.memory_mib:.0f}"
        )
    console.print(table)
    nodes = Table("node", "ready", "devices")
    simulated = [n for n in found.nodes if n.simulated]
    for node in found.nodes:
        if not node.simulated:
            devices = ", ".join(f"{k}: {v}" for k, v in node.allocatable.items())
            nodes.add_row(node.name, "yes" if node.ready else "[red]no[/]", devices)
    if simulated:
        nodes.add_row(
            f"{len(simulated)} simulated (KWOK)", str(sum(n.ready for n in simulated)), ""
        )
    console.print(nodes)


def register(root: typer.Typer) -> None:
    """Add the commands to the root application."""
    root.add_typer(app, name="lab")
