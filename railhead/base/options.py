"""Options that several commands have, so that they mean and say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="The cluster's kubeconfig. Default: $KUBECONFIG, ~/.kube/config, the running lab.",
    ),
]
Context = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="A context of the kubeconfig.")
]
Lab = Annotated[
    str | None, typer.Option("--lab", metavar="NAME", help="Use this running lab's kubeconfig.")
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Search only this namespace. Default: every training namespace.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Stack = Annotated[
    str, typer.Argument(metavar="STACK", help="A stack's name, such as lab, or its file.")
]
