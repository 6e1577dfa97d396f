"""The objects that a mode of the fabric makes in the cluster: each mode's file fills this frame.

``components/fabric/modes/<mode>.py`` has a class ``OBJECTS``; a mode without a file makes nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from railhead.catalog.versions import Controller
from railhead.fabric.modes import FabricConfig
from railhead.model.cluster import Pool
from railhead.model.gpu import GpuOperatorConfig
from railhead.model.node_paths import USUAL, NodePaths


@dataclass(frozen=True, kw_only=True)
class FabricArgs:
    """Arguments of :class:`railhead.components.fabric.fabric.Fabric`.

    Args:
        fabric: the fabric, as a stack's file has it under ``fabric``: its kind, its mode, and the
            mode's own fields.
        pools: the GPU nodes: their labels, tolerations, machine types and numbers.
        addons: the catalogue's charts by name; each mode takes those that it needs
            (:attr:`railhead.catalog.versions.Combination.addons`).
        jobs_label: key of the label that every pod of a job has. Drivers are upgraded on a node
            when no such pod is on it.
        gpu_operator: settings of the GPU operator; None where nodes have the driver, the toolkit
            and the device plugin already.
        images: name of an add-on -> the repository from which nodes pull its image, where that is
            not the catalogue's.
        registry_mirrors: registry -> what takes its place in images that no chart names.
        monitor_labels: labels by which a Prometheus selects the ServiceMonitor of GPUs' metrics.
        paths: the nodes' directories of kubelet, containerd and CNI.
        after: resources that must exist before anything of the fabric.
    """

    fabric: FabricConfig
    pools: Sequence[Pool]
    addons: Mapping[str, Controller]
    jobs_label: str
    gpu_operator: GpuOperatorConfig | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    registry_mirrors: Mapping[str, str] = field(default_factory=dict)
    monitor_labels: Mapping[str, str] = field(default_factory=dict)
    paths: NodePaths = USUAL
    after: Sequence[pulumi.Resource] = ()


class ModeObjects:
    """The objects of one mode; this base class makes none."""

    def before_gpus(
        self,
        name: str,  # noqa: ARG002 - each mode's own
        args: FabricArgs,  # noqa: ARG002
        opts: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """Make what the GPU operator waits for: nvidia-peermem needs the NICs' driver."""
        return []

    def after_gpus(
        self,
        name: str,  # noqa: ARG002 - each mode's own
        args: FabricArgs,  # noqa: ARG002
        after: Sequence[pulumi.Resource],  # noqa: ARG002
        opts: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """Make what needs the GPUs' drivers, or waits for nothing."""
        return []

    def attachments(
        self,
        fabric: FabricConfig,  # noqa: ARG002 - each mode's own
        *,
        rails_apart: bool,  # noqa: ARG002
    ) -> dict[str, dict[str, Any]]:
        """Return the networks of each namespace: name -> ``annotations`` and CNI ``config``.

        ``rails_apart``: no rail shares a wire with another.
        """
        return {}


def objects_of(fabric: FabricConfig) -> ModeObjects:
    """Return the objects of a stack's mode."""
    module = f"railhead.components.fabric.modes.{fabric.row.name.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return ModeObjects()
    result: ModeObjects = importlib.import_module(module).OBJECTS
    return result
