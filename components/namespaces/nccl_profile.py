"""The fabric's NCCL settings as a file, in every training namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.resolve.pods import PROFILE


@dataclass(frozen=True, kw_only=True)
class NcclProfileArgs:
    """Arguments of :class:`NcclProfile`.

    Args:
        namespace: the training namespace.
        files: name -> text, such as ``nccl.conf``.
        after: resources that must exist before the ConfigMap, such as the namespace.
    """

    namespace: pulumi.Input[str]
    files: Mapping[str, str]
    after: Sequence[pulumi.Resource] = ()


class NcclProfile(pulumi.ComponentResource):
    """A ConfigMap with the fabric's NCCL settings as files, in one namespace."""

    def __init__(
        self, name: str, args: NcclProfileArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:NcclProfile", name, None, opts)
        kubernetes.core.v1.ConfigMap(
            f"{name}-config-map",
            metadata={"name": PROFILE, "namespace": args.namespace},
            data=args.files,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        self.register_outputs({"config_map": PROFILE})
