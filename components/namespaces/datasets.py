"""Claims on volumes with data that the pods of a namespace read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, kw_only=True)
class DatasetsArgs:
    """Arguments of :class:`Datasets`; ``claims`` is name -> spec."""

    namespace: pulumi.Input[str]
    claims: Mapping[str, Any]
    after: Sequence[pulumi.Resource] = ()


class Datasets(pulumi.ComponentResource):
    """ReadOnlyMany claims in one namespace."""

    claims: Sequence[kubernetes.core.v1.PersistentVolumeClaim]

    def __init__(
        self, name: str, args: DatasetsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Datasets", name, None, opts)
        self.claims = [
            kubernetes.core.v1.PersistentVolumeClaim(
                f"{name}-{claim}",
                metadata={
                    "name": claim,
                    "namespace": args.namespace,
                    # A volume that is not there yet holds up jobs that read it, not the stack.
                    "annotations": {"pulumi.com/skipAwait": "true"},
                },
                spec=spec,
                # A volume whose claim goes is released, and may be wiped: see docs/storage.md.
                opts=pulumi.ResourceOptions(
                    parent=self, depends_on=list(args.after), retain_on_delete=True
                ),
            )
            for claim, spec in args.claims.items()
        ]
        self.register_outputs({"claims": list(args.claims)})
