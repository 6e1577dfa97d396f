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
    """Arguments of :class:`Checkpoints` and of :class:`Datasets`.

    Args:
        namespace: the training namespace.
        claims: name -> spec of a PersistentVolumeClaim.
        after: resources that must exist before the claims, such as the namespace.
    """

    namespace: pulumi.Input[str]
    claims: Mapping[str, Any]
    after: Sequence[pulumi.Resource] = ()


def kept(
    parent: pulumi.Resource, name: str, args: CheckpointsArgs, labels: Mapping[str, str]
) -> list[kubernetes.core.v1.PersistentVolumeClaim]:
    """Return the claims, not waited for, and left where they are when the stack goes."""
    return [
        kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-{claim}",
            metadata={
                "name": claim,
                "namespace": args.namespace,
                **({"labels": dict(labels)} if labels else {}),
                # A class that binds on first use binds no claim before a job runs, and a volume
                # that is not there yet holds up jobs that read it, not the stack.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec=spec,
            # The data stays when the stack is destroyed: see docs/editing.md.
            opts=pulumi.ResourceOptions(
                parent=parent, depends_on=list(args.after), retain_on_delete=True
            ),
        )
        for claim, spec in args.claims.items()
    ]


class Checkpoints(pulumi.ComponentResource):
    """ReadWriteMany claims in one namespace, which are kept when the stack goes.

    Attributes:
        claims: the claims.
    """

    claims: Sequence[kubernetes.core.v1.PersistentVolumeClaim]

    def __init__(
        self, name: str, args: CheckpointsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Checkpoints", name, None, opts)
        self.claims = kept(self, name, args, {CHECKPOINT_LABEL: "true"})
        self.register_outputs({"claims": list(args.claims)})
