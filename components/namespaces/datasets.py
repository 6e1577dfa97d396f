"""Claims on volumes with data that the pods of a namespace read."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.namespaces.checkpoints import CheckpointsArgs, kept


class Datasets(pulumi.ComponentResource):
    """ReadOnlyMany claims in one namespace, which are kept when the stack goes.

    Attributes:
        claims: the claims.
    """

    claims: Sequence[kubernetes.core.v1.PersistentVolumeClaim]

    def __init__(
        self, name: str, args: CheckpointsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Datasets", name, None, opts)
        self.claims = kept(self, name, args, {})
        self.register_outputs({"claims": list(args.claims)})
