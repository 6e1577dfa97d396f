"""Claims that every pod of a gang mounts, on every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.model.cluster import CheckpointConfig


@dataclass(frozen=True, kw_only=True)
class CheckpointsArgs:
    """Arguments of :class:`Checkpoints`."""

    namespace: pulumi.Input[str]
    checkpoints: Sequence[CheckpointConfig]
    after: Sequence[pulumi.Resource] = ()


class Checkpoints(pulumi.ComponentResource):
    """ReadWriteMany claims in one namespace."""

    claims: Sequence[kubernetes.core.v1.PersistentVolumeClaim]

    def __init__(
        self, name: str, args: CheckpointsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Checkpoints", name, None, opts)
        self.claims = [
            kubernetes.core.v1.PersistentVolumeClaim(
                f"{name}-{checkpoint.name}",
                metadata={
                    "name": checkpoint.name,
                    "namespace": args.namespace,
                    # A class that binds on first use binds no claim before a job runs.
                    "annotations": {"pulumi.com/skipAwait": "true"},
                },
                spec={
                    "access_modes": ["ReadWriteMany"],
                    "storage_class_name": checkpoint.storage_class,
                    "resources": {"requests": {"storage": checkpoint.size}},
                },
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for checkpoint in args.checkpoints
        ]
        self.register_outputs({"claims": [checkpoint.name for checkpoint in args.checkpoints]})
