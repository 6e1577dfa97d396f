"""Kubeflow Trainer: TrainJobs and the runtimes that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from railhead.catalog.versions import Controller


@dataclass(frozen=True, kw_only=True)
class TrainerArgs:
    """Arguments of :class:`Trainer`."""

    controller: Controller
    resources: charts.Resources | None
    after: Sequence[pulumi.Resource] = ()


class Trainer(pulumi.ComponentResource):
    """Trainer's release without the JobSet of its chart; depend on it for its webhooks."""

    namespace: kubernetes.core.v1.Namespace
    release: kubernetes.helm.v3.Release

    def __init__(
        self, name: str, args: TrainerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Trainer", name, None, opts)
        controller = args.controller
        self.namespace = charts.namespace(
            f"{name}-namespace", controller.namespace, pulumi.ResourceOptions(parent=self)
        )
        registry, _, repository = controller.image.partition("/")
        values: dict[str, Any] = {
            # JobSet has a component of its own.
            "jobset": {"install": False},
            "image": {
                "registry": registry,
                "repository": repository,
                "tag": controller.tag,
                "pullPolicy": "IfNotPresent",
            },
        }
        if args.resources is not None:
            values["manager"] = {"resources": args.resources.rendered()}
        self.release = charts.release(
            f"{name}-release",
            controller,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[*args.after, self.namespace]),
        )
        charts.webhooks_answer(
            f"{name}-webhooks",
            f"{controller.name}-controller-manager",
            controller.namespace,
            pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
        )
        self.register_outputs({"version": controller.version})
