"""NICs by ResourceClaim: the templates that each training namespace has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.fabric.dranet import device_class
from components.runtimes import wiring_of
from railhead.catalog.machines import MACHINES
from railhead.fabric.config import DranetFabric
from railhead.model.cluster import Cluster
from railhead.resolve.wiring import claim_of, wiring


@dataclass(frozen=True, kw_only=True)
class ClaimsArgs:
    """Arguments of :class:`Claims`."""

    namespace: pulumi.Input[str]
    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def templates(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Name -> spec of every ResourceClaimTemplate that a runtime, or a whole node, asks for."""
    sizes: dict[str, int] = {}
    for pool in cluster.pools:
        machine = MACHINES[pool.instance_type]
        for gpus in range(1, machine.gpus + 1):
            nics = max(1, len(machine.nics) * gpus // machine.gpus)
            if (name := claim_of(cluster, nics)) is not None:
                sizes[name] = nics
    wanted = {wiring_of(cluster, runtime).claim for runtime in cluster.runtimes}
    wanted |= {wiring(cluster, pool).claim for pool in cluster.pools}
    return {
        name: _template(cluster, nics) for name, nics in sorted(sizes.items()) if name in wanted
    }


def _template(cluster: Cluster, nics: int) -> dict[str, Any]:
    request: dict[str, Any] = {
        "deviceClassName": device_class(cluster),
        "allocationMode": "ExactCount",
        "count": nics,
    }
    fabric = cluster.fabric
    if isinstance(fabric, DranetFabric) and fabric.selector is not None:
        request["selectors"] = [{"cel": {"expression": fabric.selector}}]
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
