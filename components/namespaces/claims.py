"""NICs by ResourceClaim: the templates that each training namespace has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.runtimes import gpus_of
from railhead.catalog.machines import MACHINES
from railhead.fabric.mode import NicClaim
from railhead.model.cluster import Cluster
from railhead.resolve.wiring import claim_of, share


@dataclass(frozen=True, kw_only=True)
class ClaimsArgs:
    """Arguments of :class:`Claims`."""

    namespace: pulumi.Input[str]
    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def templates(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Name -> spec of every ResourceClaimTemplate that a runtime, or a whole node, asks for."""
    asked = cluster.fabric.nic_claim()
    if asked is None:
        return {}
    wanted: list[tuple[str, int | None]] = [
        (runtime.pool, gpus_of(cluster, runtime)) for runtime in cluster.runtimes
    ]
    wanted += [(pool.name, None) for pool in cluster.pools]
    machines = {pool.name: MACHINES[pool.instance_type] for pool in cluster.pools}
    sizes = sorted({share(machines[pool], gpus) for pool, gpus in wanted})
    found = {str(claim_of(cluster, nics)): _template(asked, nics) for nics in sizes}
    return dict(sorted(found.items()))


def _template(asked: NicClaim, nics: int) -> dict[str, Any]:
    request: dict[str, Any] = {
        "deviceClassName": asked.device_class,
        "allocationMode": "ExactCount",
        "count": nics,
    }
    if asked.selector is not None:
        request["selectors"] = [{"cel": {"expression": asked.selector}}]
    return {"spec": {"devices": {"requests": [{"name": "nics", "exactly": request}]}}}


class Claims(pulumi.ComponentResource):
    """The templates in one namespace."""

    def __init__(
        self, name: str, args: ClaimsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Claims", name, None, opts)
        found = templates(args.cluster)
        for template, spec in found.items():
            kubernetes.apiextensions.CustomResource(
                f"{name}-{template}",
                api_version="resource.k8s.io/v1",
                kind="ResourceClaimTemplate",
                metadata={"name": template, "namespace": args.namespace},
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
        self.register_outputs({"templates": list(found)})
