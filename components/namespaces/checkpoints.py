"""Claims that every pod of a gang mounts, on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import CHECKPOINT_LABEL


@dataclass(frozen=True, kw_only=True)
class CheckpointsArgs:
    """Arguments of :class:`Checkpoints`; ``claims`` is name -> spec."""

    namespace: pulumi.Input[str]
    claims: Mapping[str, Any]
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
                f"{name}-{claim}",
                metadata={
                    "name": claim,
                    "namespace": args.namespace,
                    "labels": {CHECKPOINT_LABEL: "true"},
                    # A class that binds on first use binds no claim before a job runs.
                    "annotations": {"pulumi.com/skipAwait": "true"},
                },
                spec=spec,
                # Whoever takes the stack away leaves the data: see docs/editing.md.
                opts=pulumi.ResourceOptions(
                    parent=self, depends_on=list(args.after), retain_on_delete=True
                ),
            )
            for claim, spec in args.claims.items()
        ]
        self.register_outputs({"claims": list(args.claims)})
