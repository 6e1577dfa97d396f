"""Volcano: its scheduler, its controllers and its webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from railhead.components.controllers import charts


@dataclass(frozen=True, kw_only=True)
class VolcanoArgs(charts.ControllerArgs):
    """Arguments of :class:`Volcano`.

    Args:
        scheduler: text of the scheduler's configuration file
            (:mod:`railhead.resolve.schedulers.volcano`).
        scheduler_image: the scheduler's image with its registry, without the tag.
        webhooks_image: the same of the webhooks'.
        topology: the controllers' configuration file, as an object; empty for none.
    """

    scheduler: str
    scheduler_image: str
    webhooks_image: str
    topology: Mapping[str, Any] = field(default_factory=dict)


def values(args: VolcanoArgs) -> dict[str, Any]:
    """Values of Volcano's chart (v1.15.1, installer/helm/chart/volcano)."""
    registry, _, name = args.image.partition("/")
    custom: dict[str, Any] = {"scheduler_config_override": args.scheduler}
    if args.topology:
        # Not as text: templates/controllers.yaml renders it by toYaml, which would quote that.
        custom["controller_config_override"] = dict(args.topology)
    if args.resources is not None:
        parts = ("admission", "controller", "scheduler")
        custom |= {f"{part}_resources": args.resources.rendered() for part in parts}
    return {
        "basic": {
            "image_registry": registry,
            "image_pull_policy": "IfNotPresent",
            "image_tag_version": args.tag,
            "controller_image_name": name,
            "scheduler_image_name": args.scheduler_image.partition("/")[2],
            "admission_image_name": args.webhooks_image.partition("/")[2],
        },
        "custom": custom,
    }


class Volcano(charts.ControllerRelease):
    """Volcano's release; depend on it to have its webhooks answer."""

    def __init__(
        self, name: str, args: VolcanoArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "Volcano",
            name,
            args,
            values(args),
            webhooks="admission-service",
            # All of its containers add DAC_OVERRIDE (values.yaml there: default_csc).
            level="baseline",
            # All of its pods are system-cluster-critical (templates/*.yaml there).
            critical=True,
            opts=opts,
        )
        self.register_outputs({"version": args.chart.version})
