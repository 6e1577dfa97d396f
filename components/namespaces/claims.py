"""NICs by ResourceClaim: the templates that each training namespace has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, kw_only=True)
class ClaimsArgs:
    """Arguments of :class:`Claims`.

    Args:
        namespace: the training namespace.
        templates: name -> spec of a ResourceClaimTemplate.
        after: resources that must exist before the templates, such as the namespace.
    """

    namespace: pulumi.Input[str]
    templates: Mapping[str, Mapping[str, Any]]
    after: Sequence[pulumi.Resource] = ()


class Claims(pulumi.ComponentResource):
    """ResourceClaimTemplates in one namespace, by which pods get their NICs."""

    def __init__(
        self, name: str, args: ClaimsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Claims", name, None, opts)
        for template, spec in args.templates.items():
            kubernetes.apiextensions.CustomResource(
                f"{name}-{template}",
                api_version="resource.k8s.io/v1",
                kind="ResourceClaimTemplate",
                metadata={"name": template, "namespace": args.namespace},
                spec=spec,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=list(args.after),
                    # Fixed once it is there (Kubernetes' ValidateResourceClaimTemplateUpdate), and
                    # so is its name, which jobs have. Claims made of the old one stay.
                    replace_on_changes=["spec"],
                    delete_before_replace=True,
                ),
            )
        self.register_outputs({"templates": list(args.templates)})
