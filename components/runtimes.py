"""The stack's ClusterTrainingRuntimes (:mod:`railhead.resolve.runtimes`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import TRAINER_API


@dataclass(frozen=True, kw_only=True)
class TrainingRuntime:
    """A ClusterTrainingRuntime.

    Args:
        name: the name that jobs give.
        spec: its spec, as Kubeflow Trainer has it.
        labels: its labels, such as the framework's, which Kubeflow's SDK reads.
        stays: paths of fields that stay as they were made.
    """

    name: str
    spec: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    stays: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class RuntimesArgs:
    """Arguments of :class:`Runtimes`.

    Args:
        runtimes: the runtimes.
        after: resources that must exist before the runtimes: Trainer, and what their pods ask for.
    """

    runtimes: Sequence[TrainingRuntime]
    after: Sequence[pulumi.Resource] = ()


class Runtimes(pulumi.ComponentResource):
    """Kubeflow Trainer's ClusterTrainingRuntimes, which jobs name.

    Attributes:
        runtimes: the ClusterTrainingRuntimes.
    """

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
                    ignore_changes=list(runtime.stays),
                    # Trainer holds it while a TrainJob names it.
                    custom_timeouts=pulumi.CustomTimeouts(delete="2m"),
                ),
            )
            for runtime in args.runtimes
        ]
        self.register_outputs({"runtimes": [runtime.name for runtime in args.runtimes]})
