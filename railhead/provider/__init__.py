"""The package `railhead` of Pulumi: the training cluster for programs in any language.

The engine starts it as a plugin and speaks with it over gRPC. Its one component is the one that a
Python program composes, with the same type and names, so every language gives the same plan.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.errors import InputPropertyError
from pulumi.provider import ConstructResult, Provider
from pulumi.provider import main as serve

from railhead import __version__, config
from railhead.base.errors import RailheadError
from railhead.components.training_cluster import TrainingCluster, TrainingClusterArgs
from railhead.provider.schema import COMPONENT, INPUT, text


class Railhead(Provider):
    """The package: its schema, and its component."""

    def __init__(self) -> None:
        super().__init__(__version__, text())

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Build a cluster from the section of a stack's file.

        Args:
            name: the component's.
            resource_type: its type.
            inputs: ``cluster``, the section, of plain values.
            options: the component's.

        Raises:
            InputPropertyError: the section has a mistake, or a value that is not known yet.
        """
        if resource_type != COMPONENT:
            raise InputPropertyError("", f"{resource_type} is no component of this package")
        raw = inputs.get(INPUT)
        if not isinstance(raw, Mapping) or _waits(raw):
            raise InputPropertyError(
                INPUT, "must be a section of plain values, as a stack's file has it: no outputs"
            )
        try:
            cluster = config.parse(plain(raw), where=INPUT)
            built = TrainingCluster(name, TrainingClusterArgs(cluster=cluster), options)
        except RailheadError as error:
            raise InputPropertyError(INPUT, str(error)) from None
        state: dict[str, Any] = {
            "contract": built.contract.model_dump(mode="json"),
            "details": dict(built.details),
        }
        if built.kubeconfig is not None:
            state["kubeconfig"] = pulumi.Output.secret(built.kubeconfig)
        return ConstructResult(built.urn, state)


def _waits(value: Any) -> bool:
    """Return whether a value holds an output, or what is unknown at a preview."""
    if isinstance(value, Mapping):
        return any(_waits(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_waits(inner) for inner in value)
    return not isinstance(value, str | int | float | bool | None)


def plain(value: Any) -> Any:
    """Return a value with whole numbers as integers: the engine's protocol has floats alone."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def main() -> None:
    """Serve the package until the engine ends it."""
    serve(Railhead(), sys.argv[1:])
