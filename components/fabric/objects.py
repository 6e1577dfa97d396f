"""What a mode of the fabric makes in the cluster: the frame that each mode's file fills.

``components/fabric/modes/<mode>.py`` has a class ``OBJECTS``; a mode without a file makes nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from railhead.catalog.versions import Combination
from railhead.fabric.mode import BaseFabric
from railhead.model.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class FabricArgs:
    """Arguments of :class:`components.fabric.fabric.Fabric`.

    ``after`` is what the platform makes inside the cluster.
    """

    cluster: Cluster
    combination: Combination
    after: Sequence[pulumi.Resource] = ()


class Objects:
    """The objects of one mode; by itself, none."""

    def before_gpus(
        self,
        name: str,  # noqa: ARG002 - each mode's own
        args: FabricArgs,  # noqa: ARG002
        opts: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """What the GPU operator waits for: nvidia-peermem is built against the NICs' driver."""
        return []

    def after_gpus(
        self,
        name: str,  # noqa: ARG002 - each mode's own
        args: FabricArgs,  # noqa: ARG002
        after: Sequence[pulumi.Resource],  # noqa: ARG002
        opts: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """What needs the GPUs' drivers, or waits for nothing."""
        return []

    def attachments(self, cluster: Cluster) -> dict[str, dict[str, Any]]:  # noqa: ARG002
        """Network -> metadata and CNI configuration, which the stack writes in each namespace."""
        return {}


def objects_of(fabric: BaseFabric) -> Objects:
    """The objects of a stack's mode."""
    module = f"components.fabric.modes.{fabric.row.name.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return Objects()
    found: Objects = importlib.import_module(module).OBJECTS
    return found
