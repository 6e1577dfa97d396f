"""The API server's own refusals: the stack's guards (:mod:`railhead.resolve.guards`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.resolve.guards import Guard


@dataclass(frozen=True, kw_only=True)
class GuardsArgs:
    """Arguments of :class:`Guards`.

    Args:
        guards: name -> policy and bindings (:mod:`railhead.resolve.guards`).
        after: resources that must exist before the guards; a guard may take one as its parameter.
    """

    guards: Mapping[str, Guard]
    after: Sequence[pulumi.Resource] = ()


class Guards(pulumi.ComponentResource):
    """ValidatingAdmissionPolicies and their bindings, which refuse jobs that cannot work.

    They must outlive the namespaces that they watch.
    """

    def __init__(
        self, name: str, args: GuardsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Guards", name, None, opts)
        for policy_name, guard in args.guards.items():
            short = policy_name.removeprefix("railhead-")
            spec: Any = dict(guard.policy)
            policy = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
                f"{name}-{short}",
                metadata={"name": policy_name},
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for bound, binding in guard.bound(policy_name).items():
                bound_spec: Any = binding
                kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
                    f"{name}-{short}-binding{bound.removeprefix(policy_name)}",
                    metadata={"name": bound},
                    spec=bound_spec,
                    opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
                )
        self.register_outputs({"policies": list(args.guards)})
