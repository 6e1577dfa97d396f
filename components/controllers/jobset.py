"""JobSet: the gang's pods, their stable names and their restarts."""

from __future__ import annotations

from typing import Any

import pulumi

from components.controllers import charts


def values(args: charts.ControllerArgs) -> dict[str, Any]:
    """Values of JobSet's chart."""
    found: dict[str, Any] = {"image": charts.image(args.controller)}
    if args.resources is not None:
        found["controller"] = {"resources": args.resources.rendered()}
    return found


class JobSet(charts.ControllerRelease):
    """JobSet's release; depend on it to have its webhooks answer."""

    def __init__(
        self,
        name: str,
        args: charts.ControllerArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("JobSet", name, args, values(args), opts=opts)
        self.register_outputs({"version": args.controller.version})
