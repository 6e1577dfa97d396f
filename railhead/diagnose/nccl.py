"""`railhead-nccl`, and what `railhead nccl` shares with it. Heavy imports are lazy."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base import running
from railhead.base.errors import ExitCode
from railhead.base.options import Json
from railhead.nccl.bench.command import register as register_bench

if TYPE_CHECKING:
    from railhead.nccl.sources import Source

READ_HELP = """Print which transport a run used, whether it worked, and why not.

Reads NCCL_DEBUG logs, nccl-tests and framework output in any mixture, with any prefix in front of
the lines. What the log does not show is `unknown`.

Example: [bold]{program} read job.log --expect efa --expect-gdr[/bold]

\b
Exits 0 when the logs were read. With --expect or --expect-gdr,
8 when the log shows something else and 9 when it proves nothing.
With --gate, 10 for tcp-fallback, 11 init-failure, 12 hang,
13 timeout, 14 low-bandwidth, 15 other, 16 measured, 17 wired.
"""
Expect = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="TRANSPORT",
        help="Fail unless connections prove ib, roce, efa, tcpx, gib, socket, p2p or rdma.",
    ),
]
ExpectGdr = Annotated[
    bool, typer.Option("--expect-gdr", help="Fail unless every connection uses GPUDirect RDMA.")
]
Gate = Annotated[bool, typer.Option("--gate", help="Exit with the verdict's code, 0 for ok only.")]
Evidence = Annotated[
    int, typer.Option("--evidence", metavar="N", min=0, help="Lines of evidence per claim.")
]
SPEAK_EVERY_SECONDS = 2.0

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Read NCCL's logs: which transport, how fast, and what hung.\n\n"
    "Example: railhead-nccl read job.log",
)
register_bench(app, program="railhead-nccl")


@app.command(help=READ_HELP.format(program="railhead-nccl"))
def read(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG",
            help="A log: a file, a folder, a pattern such as 'logs/*.log', - for standard input. "
            "Plain, gzip, zstd, xz or bzip2.",
        ),
    ],
    as_json: Json = False,
    expect: Expect = None,
    expect_gdr: ExpectGdr = False,
    gate: Gate = False,
    evidence: Evidence = 1,
) -> None:
    """Print which transport a run used (the help text is READ_HELP)."""
    from railhead.nccl.sources import resolve

    check_transport(expect)
    show(
        resolve(logs),
        as_json=as_json,
        expect=expect,
        expect_gdr=expect_gdr,
        gate=gate,
        evidence=evidence,
    )


def check_transport(name: str | None) -> None:
    """Raise InputError for the name of a transport that no log can prove."""
    from railhead.nccl import expect

    if name is not None:
        expect.check_word(name)


def show(
    sources: Sequence[Source],
    *,
    as_json: bool,
    expect: str | None,
    expect_gdr: bool,
    gate: bool,
    evidence: int,
) -> None:
    """Print what logs show, then hold it against what is expected.

    Args:
        sources: the logs.
        as_json: print JSON.
        expect: the transport that connections must prove.
        expect_gdr: whether each must use GPUDirect RDMA.
        gate: whether any verdict but ``ok`` fails.
        evidence: how many lines of evidence each claim shows.

    Raises:
        RailheadError: the log shows something else, or proves nothing.
        typer.Exit: with the verdict's code.
    """
    from railhead.diagnose.reading import read as read_logs
    from railhead.nccl import expect as gates
    from railhead.nccl import report

    reading = read_logs(sources, tick=_ticker())
    if as_json:
        typer.echo(json.dumps(report.to_json(reading), indent=1))
    else:
        from rich.console import Console

        report.show(reading, Console(soft_wrap=True), evidence=evidence)
    if expect is not None:
        gates.require(gates.transport(reading, expect))
    if expect_gdr:
        gates.require(gates.gdr(reading))
    if gate and reading.verdict != "ok":
        raise typer.Exit(int(ExitCode[reading.verdict.replace("-", "_").upper()]))


def _ticker() -> Callable[[int, str], None]:
    """Return a function that prints progress to standard error after two seconds."""
    spoken = [time.monotonic()]
    terminal = sys.stderr.isatty()

    def tick(size: int, name: str) -> None:
        now = time.monotonic()
        if now - spoken[0] >= (0.2 if terminal and size > 1 << 28 else SPEAK_EVERY_SECONDS):
            spoken[0] = now
            typer.echo(
                f"\rread {size / 1e6:.0f} MB, {name}" if terminal else f"read {size / 1e6:.0f} MB",
                err=True,
                nl=not terminal,
            )

    return tick


def main() -> None:
    """Run the console script."""
    running.end_with(lambda: running.run(app, sys.argv[1:], name="railhead-nccl"))
