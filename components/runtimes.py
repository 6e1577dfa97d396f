"""The stack's ClusterTrainingRuntimes (:mod:`railhead.resolve.runtimes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import TRAINER_API
from railhead.resolve.runtimes import Runtime


@dataclass(frozen=True, kw_only=True)
class RuntimesArgs:
    """Arguments of :class:`Runtimes`."""

    runtimes: Sequence[Runtime]
    after: Sequence[pulumi.Resource] = ()


class Runtimes(pulumi.ComponentResource):
    """The stack's ClusterTrainingRuntimes."""

    runtimes: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: RuntimesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Runtimes", name, None, opts)
        self.runtimes = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{runtime.name}",
                api_version=TRAINER_API,
                kind="ClusterTrainingRuntime",
                metadata={"name": runtime.name, "labels": runtime.labels},
                spec=runtime.spec,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=list(args.after),
                    # Trainer holds it while a TrainJob names it.
                    custom_timeouts=pulumi.CustomTimeouts(delete="2m"),
                ),
            )
            for runtime in args.runtimes
        ]
        self.register_outputs({"runtimes": [runtime.name for runtime in args.runtimes]})
