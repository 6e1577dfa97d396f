"""`railhead nccl`: `railhead-nccl`, which also reads jobs and pods in their cluster."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.options import Context, Json, Kubeconfig, Lab, Namespace
from railhead.diagnose.nccl import (
    READ_HELP,
    Evidence,
    Expect,
    ExpectGdr,
    Gate,
    check_transport,
    show,
)
from railhead.nccl.bench.command import register as register_bench

if TYPE_CHECKING:
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


@app.callback()
def group(context: typer.Context) -> None:
    """Read NCCL's logs."""
    if context.invoked_subcommand == "bench":
        # The project's own machines have line rates too.
        from railhead.config import use
        from railhead.config.files import stacks_folder

        use(stacks_folder())


register_bench(app)


@app.command(help=READ_HELP.format(program="railhead nccl"))
def read(
    logs: Annotated[list[str], typer.Argument(metavar="LOG", help=LOG_HELP)],
    as_json: Json = False,
    expect: Expect = None,
    expect_gdr: ExpectGdr = False,
    gate: Gate = False,
    evidence: Evidence = 1,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Print which transport a run used (the help text is READ_HELP)."""
    check_transport(expect)
    with ExitStack() as stack:
        show(
            _sources(logs, stack, namespace, kubeconfig, context, lab),
            as_json=as_json,
            expect=expect,
            expect_gdr=expect_gdr,
            gate=gate,
            evidence=evidence,
        )


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
