"""The root of the command line, which other distributions add commands to by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead import __version__
from railhead.base import running
from railhead.base.errors import PrerequisiteError
from railhead.base.version import installing
from railhead.cli.catalog import app as catalog_app
from railhead.cli.completion import completion
from railhead.cli.config import app as config_app
from railhead.cli.diagnose import diagnose
from railhead.cli.doctor import doctor
from railhead.cli.drift import drift
from railhead.cli.nccl import app as nccl_app
from railhead.cli.new import new
from railhead.cli.release import verify_release
from railhead.cli.state import state
from railhead.cli.upgrade import upgrade
from railhead.launch import after as after_cli
from railhead.launch import cli as launch_cli
from railhead.launch import dev as dev_cli
from railhead.launch import starting as starting_cli
from railhead.preflight.cli import preflight
from railhead.storage.cli import storage

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Register = Callable[[typer.Typer], None]
#: An entry point of this group has a command's name and adds it to the root: ``register(app)``.
GROUP = "railhead.commands"
#: Commands of our other distributions, so that the error for an absent one names its distribution.
BROUGHT_BY: Mapping[str, str] = MappingProxyType(
    {
        "accept": "railhead-accept",
        "dashboards": "railhead-accept",
        "lab": "railhead-lab",
        "plan": "railhead-lab",
        "rehearse": "railhead-lab",
        "review": "railhead-lab",
    }
)
SETTINGS: dict[str, Any] = {
    "name": "railhead",
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
#: The commands of this distribution.
app = typer.Typer(**SETTINGS)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"railhead {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Multi-node GPU training on Kubernetes, from fabric to launcher.

    Example: [bold]railhead launch examples/torch-ddp.yaml --follow[/bold]
    """


launch_cli.register(app)
starting_cli.register(app)
after_cli.register(app)
dev_cli.register(app)
app.command()(diagnose)
app.command()(completion)
app.command()(doctor)
app.command()(drift)
app.command()(state)
app.command()(new)
app.command()(preflight)
app.command()(upgrade)
app.command("verify-release")(verify_release)
app.command()(storage)
app.add_typer(catalog_app, name="catalog")
app.add_typer(config_app, name="config")
app.add_typer(nccl_app, name="nccl")


def everything() -> typer.Typer:
    """Return the application with the commands of all distributions that are installed."""
    whole = _root()
    whole.registered_commands = [*app.registered_commands]
    whole.registered_groups = [*app.registered_groups]
    for add in _added().values():
        add(whole)
    return whole


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Args:
        arguments: without the program's name; None takes the process's own.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    return running.run(_app_of(words), words, name="railhead")


def main() -> None:
    """Run the console script."""
    running.end_with(run)


def _root() -> typer.Typer:
    """Return an application with the root's own options and help, and no command."""
    empty = typer.Typer(**SETTINGS)
    empty.registered_callback = app.registered_callback
    return empty


def _app_of(words: Sequence[str]) -> typer.Typer:
    """Return the application with only the command that the words name, or with all commands.

    To prepare the options of all forty commands takes a tenth of a second, and to look for other
    distributions a hundredth.
    """
    alone = _root()
    name = words[0] if words else ""
    for command in app.registered_commands:
        if name == (command.name or getattr(command.callback, "__name__", None)):
            alone.registered_commands = [command]
            return alone
    for group in app.registered_groups:
        if name == group.name:
            return app
    if not name or name.startswith("-"):
        return everything()
    if add := _added().get(name):
        add(alone)
        return alone
    return everything()


def _added() -> dict[str, Register]:
    """Return what adds each command of another distribution, by the command's name.

    A command of ours that is not installed is added too: it fails, and names its distribution.
    """
    from importlib.metadata import entry_points

    added: dict[str, Register] = {
        name: partial(_add_absent, name, distribution) for name, distribution in BROUGHT_BY.items()
    }
    return added | {point.name: partial(_add, point) for point in entry_points(group=GROUP)}


def _add(point: EntryPoint, to: typer.Typer) -> None:
    point.load()(to)


def _add_absent(name: str, distribution: str, to: typer.Typer) -> None:
    def absent() -> None:
        raise PrerequisiteError(
            f"`railhead {name}` comes with {distribution}, which is not installed",
            remedy=installing("deploy"),
        )

    # Whatever follows it, `--help` too.
    to.command(
        name=name,
        help=f"Comes with {distribution}, which is not installed.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(absent)
