"""JobSet: the gang's pods, their stable names and their restarts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from railhead.catalog.versions import Controller


@dataclass(frozen=True, kw_only=True)
class JobSetArgs:
    """Arguments of :class:`JobSet`."""

    controller: Controller
    resources: charts.Resources | None


class JobSet(pulumi.ComponentResource):
    """JobSet's release; depend on it to have its webhooks answer."""

    namespace: kubernetes.core.v1.Namespace
    release: kubernetes.helm.v3.Release

    def __init__(
        self, name: str, args: JobSetArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:JobSet", name, None, opts)
        controller = args.controller
        self.namespace = charts.namespace(
            f"{name}-namespace", controller.namespace, pulumi.ResourceOptions(parent=self)
        )
        values: dict[str, Any] = {
            "image": {
                "repository": controller.image,
                "tag": controller.tag,
                "pullPolicy": "IfNotPresent",
            }
        }
        if args.resources is not None:
            values["controller"] = {"resources": args.resources.rendered()}
        self.release = charts.release(
            f"{name}-release",
            controller,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[self.namespace]),
        )
        charts.webhooks_answer(
            f"{name}-webhooks",
            f"{controller.name}-webhook-service",
            controller.namespace,
            pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
        )
        self.register_outputs({"version": controller.version})
