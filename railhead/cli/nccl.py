"""`railhead nccl ...`. Heavy imports are made inside the commands."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.errors import ExitCode
from railhead.base.options import Context, Json, Kubeconfig, Lab, Namespace
from railhead.nccl.bench.command import register as register_bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from railhead.nccl.sources import Source

app = typer.Typer(
    no_args_is_help=True,
    help="Read NCCL's logs: which transport, how fast, and what hung.\n\n"
    "Example: railhead nccl read job.log",
)

LOG_HELP = (
    "A log: a file, a folder, a pattern such as 'logs/*.log', - for standard input, pod/NAME, "
    "or the name of a job. Plain, gzip, zstd, xz or bzip2."
)
# A job's name, as Kubernetes allows it; a path has a dot, a slash or a wildcard.
JOB_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
SPEAK_EVERY_SECONDS = 2.0


@app.callback()
def group(context: typer.Context) -> None:
    """Read NCCL's logs."""
    if context.invoked_subcommand == "bench":
        # The project's own machines have line rates too.
        from railhead.config import use
        from railhead.config.files import stacks_folder

        use(stacks_folder())


register_bench(app)


READ_HELP = """Print which transport a run used, whether it worked, and why not.

Reads NCCL_DEBUG logs, nccl-tests and framework output in any mixture, with any prefix in front of
the lines. What the log does not show is `unknown`.

Example: [bold]railhead nccl read job.log --expect efa --expect-gdr[/bold]

\b
Exits 0 when the logs were read. With --expect or --expect-gdr,
8 when the log shows something else and 9 when it proves nothing.
With --gate, 10 for tcp-fallback, 11 init-failure, 12 hang,
13 timeout, 14 low-bandwidth, 15 other.
"""


@app.command(help=READ_HELP)
def read(
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help=LOG_HELP)],
    as_json: Json = False,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect",
            metavar="TRANSPORT",
            help="Fail unless connections prove ib, roce, efa, tcpx, gib, socket, p2p or rdma.",
        ),
    ] = None,
    expect_gdr: Annotated[
        bool, typer.Option("--expect-gdr", help="Fail unless every connection uses GPUDirect RDMA.")
    ] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with the verdict's code, 0 for ok only.")
    ] = False,
    evidence: Annotated[
        int, typer.Option("--evidence", metavar="N", min=0, help="Lines of evidence per claim.")
    ] = 1,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Print which transport a run used (the help text is READ_HELP)."""
    from railhead.diagnose import read as read_logs
    from railhead.nccl import expect as gates
    from railhead.nccl import report

    if expect is not None:
        gates.check_word(expect)
    with ExitStack() as stack:
        sources = _sources(logs, stack, namespace, kubeconfig, context, lab)
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


def _sources(
    logs: list[str],
    stack: ExitStack,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    lab: str | None,
) -> list[Source]:
    """Return the named files or, for names without a file, pods and jobs of the cluster."""
    from railhead.nccl.sources import resolve

    sources: list[Source] = []
    cluster = None
    for name in logs:
        pod = name.removeprefix("pod/") if name.startswith("pod/") else None
        job = name.removeprefix("job/") if name.startswith("job/") else name
        in_cluster = pod is not None or JOB_NAME.fullmatch(job) is not None
        if name == "-" or not in_cluster or Path(name).exists():
            sources += resolve([name])
            continue
        from railhead.evidence import live
        from railhead.kube.client import opened
        from railhead.kube.published import namespaces

        if cluster is None:
            cluster = stack.enter_context(opened(kubeconfig, context, lab))
        among = namespaces(cluster, namespace)
        sources += (
            live.of_job(cluster, among, job) if pod is None else live.of_pod(cluster, among, pod)
        )
    return sources


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
