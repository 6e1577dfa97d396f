"""JobSet: the gang's pods, their stable names and their restarts."""

from __future__ import annotations

from typing import Any

import pulumi

from railhead.components.controllers import charts


def values(args: charts.ControllerArgs) -> dict[str, Any]:
    """Values of JobSet's chart."""
    results: dict[str, Any] = {"image": charts.image(args)}
    if args.resources is not None:
        results["controller"] = {"resources": args.resources.rendered()}
    return results


class JobSet(charts.ControllerRelease):
    """JobSet's release; depend on it to have its webhooks answer."""

    def __init__(
        self,
        name: str,
        args: charts.ControllerArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("JobSet", name, args, values(args), opts=opts)
        self.register_outputs({"version": args.chart.version})
