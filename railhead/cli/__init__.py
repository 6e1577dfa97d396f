"""The root of the command line. It prints an error as a sentence and a remedy, no traceback."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from railhead import __version__
from railhead.accept import cli as accept_cli
from railhead.base.errors import ExitCode, PrerequisiteError, RailheadError
from railhead.cli.catalog import app as catalog_app
from railhead.cli.config import app as config_app
from railhead.cli.dashboards import dashboards
from railhead.cli.drift import drift
from railhead.cli.nccl import app as nccl_app
from railhead.cli.plan import plan
from railhead.diagnose import cli as diagnose_cli
from railhead.launch import after as after_cli
from railhead.launch import cli as launch_cli
from railhead.launch import starting as starting_cli
from railhead.storage.cli import storage

SETTINGS: dict[str, Any] = {
    "name": "railhead",
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
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


def _no_lab() -> None:
    """Run a whole cluster on this machine; needs railhead-lab, which is not installed."""
    raise PrerequisiteError(
        "`railhead lab` is a distribution of its own, railhead-lab, which is not installed",
        remedy=f"pip install railhead-lab=={__version__}",
    )


launch_cli.register(app)
starting_cli.register(app)
after_cli.register(app)
diagnose_cli.register(app)
accept_cli.register(app)
if find_spec("railhead.lab"):
    from railhead.lab.cli import app as lab_app

    app.add_typer(lab_app, name="lab")
else:
    # Whatever follows it, `--help` too.
    app.command(
        name="lab",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_no_lab)
app.command()(plan)
app.command()(dashboards)
app.command()(drift)
app.command()(storage)
app.add_typer(catalog_app, name="catalog")
app.add_typer(config_app, name="config")
app.add_typer(nccl_app, name="nccl")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Args:
        arguments: without the program's name; None takes the process's own.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _app_of(words)(args=words, prog_name="railhead")
    except RailheadError as error:
        typer.echo(f"error: {error.problem}", err=True)
        if error.remedy:
            typer.echo(f"  fix: {error.remedy}", err=True)
        return int(error.exit_code)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ExitCode.OK)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK)


def _app_of(words: Sequence[str]) -> typer.Typer:
    """Return the application with only the command that the words name, or with all commands.

    To prepare the options of all forty commands takes a tenth of a second.
    """
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", None)
        if words[:1] == [name]:
            alone = typer.Typer(**SETTINGS)
            # The root's own options and help stay.
            alone.registered_callback = app.registered_callback
            alone.registered_commands = [command]
            return alone
    return app


def main() -> None:
    """Run the console script."""
    # Imported modules stay in memory; to search them for garbage, again and again, takes a third of
    # the time of a short command.
    gc.set_threshold(100_000, 20, 20)
    try:
        code = run()
    finally:
        gc.freeze()
    sys.exit(code)
