"""Options that several commands have, so that they mean and say the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

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


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that Typer gives one option for each field of its dataclass parameters.

    A parameter whose type is a dataclass stands for that class's fields, each annotated with its
    ``typer.Option``; the command gets an object of the class.
    """
    hints = get_type_hints(command)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def ungrouped(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    own = signature(command, eval_str=True)
    parameters = [
        option
        for parameter in own.parameters.values()
        for option in (
            _options(groups[parameter.name]) if parameter.name in groups else [parameter]
        )
    ]
    ungrouped.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return ungrouped


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = Parameter.POSITIONAL_OR_KEYWORD
    return [
        Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]
