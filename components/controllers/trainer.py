"""Kubeflow Trainer: TrainJobs and the runtimes that they name."""

from __future__ import annotations

from typing import Any

import pulumi

from railhead.components.controllers import charts


def values(args: charts.ControllerArgs) -> dict[str, Any]:
    """Values of Trainer's chart, whose image has its registry apart."""
    registry, _, repository = args.image.partition("/")
    results: dict[str, Any] = {
        # JobSet has a component of its own.
        "jobset": {"install": False},
        "image": charts.image(args) | {"registry": registry, "repository": repository},
    }
    if args.resources is not None:
        results["manager"] = {"resources": args.resources.rendered()}
    return results


class Trainer(charts.ControllerRelease):
    """Trainer's release without the JobSet of its chart; depend on it for its webhooks."""

    def __init__(
        self,
        name: str,
        args: charts.ControllerArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "Trainer", name, args, values(args), webhooks="controller-manager", opts=opts
        )
        self.register_outputs({"version": args.chart.version})
