"""`railhead diagnose`: `railhead-diagnose`, which also reads a job or a pod in its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from railhead.base.errors import InputError
from railhead.base.options import Context, Json, Kubeconfig, Lab, Namespace
from railhead.diagnose.cli import Collect, Logs, Output, answer, check_output


def diagnose(
    logs: Logs = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="Diagnose this job in the cluster.")
    ] = None,
    pod: Annotated[
        str | None, typer.Option("--pod", metavar="NAME", help="Diagnose this pod in the cluster.")
    ] = None,
    as_json: Json = False,
    collect: Collect = False,
    output: Output = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Say why a run hung, failed or crawls, and what to do about it.

    Reads logs, flight-recorder dumps and NCCL's reports; with --job or --pod also pod
    specifications, events, nodes and network policies. It never changes anything. Several causes
    are ranked, with what distinguishes them; if the evidence names no cause, it says so and what
    to collect.

    Example: [bold]railhead diagnose job.log dumps/[/bold]

    Exits 0 when everything could be read, with or without a cause.
    """
    _check(logs or [], job, pod, collect=collect, output=output)
    from railhead.diagnose.report import collect_command

    with ExitStack() as stack:
        live = None
        if job or pod:
            from railhead.evidence.live import evidence
            from railhead.kube.client import opened
            from railhead.kube.published import namespaces

            cluster = stack.enter_context(opened(kubeconfig, context, lab))
            live = evidence(cluster, namespaces(cluster, namespace), job=job, pod=pod)
        answer(
            logs or [],
            command=collect_command(job, pod, logs or []),
            as_json=as_json,
            collect=collect,
            output=output,
            live=live,
            subject=job or pod or "logs",
        )


def _check(
    logs: Sequence[str], job: str | None, pod: str | None, *, collect: bool, output: Path | None
) -> None:
    if job and pod:
        raise InputError("--job and --pod both name what to look at", remedy="give one of the two")
    if not logs and not job and not pod:
        raise InputError(
            "nothing to diagnose", remedy="name logs, or a job with --job, or a pod with --pod"
        )
    check_output(logs, collect=collect, output=output)
