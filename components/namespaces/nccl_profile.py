"""The fabric's NCCL settings as a file, in every training namespace.

Runtimes set the same variables in the environment, where they win; the file is what NCCL reads in
processes that lost their environment, and what a person reads: each variable with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.fabric.kinds import FABRICS
from railhead.model.cluster import Cluster
from railhead.resolve.pods import PROFILE
from railhead.resolve.wiring import wiring

# What NCCL itself reads; the rest belongs to other libraries and to the process.
_NCCL = "NCCL_"


@dataclass(frozen=True, kw_only=True)
class NcclProfileArgs:
    """Arguments of :class:`NcclProfile`."""

    namespace: pulumi.Input[str]
    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def profile(cluster: Cluster) -> dict[str, str]:
    """The files: ``nccl.conf`` for NCCL, ``environment`` for any tool, ``reasons.txt`` for people.

    Variables that differ between the pools' machines are in the runtimes' environment only.
    """
    environments = [dict(wiring(cluster, pool).environment) for pool in cluster.pools]
    common = {
        name: value
        for name, value in environments[0].items()
        if all(environment.get(name) == value for environment in environments)
    }
    nccl = [f"{name}={value}" for name, value in common.items() if name.startswith(_NCCL)]
    return {
        "nccl.conf": "".join(f"{line}\n" for line in sorted(nccl)),
        "environment": "".join(f"{name}={value}\n" for name, value in sorted(common.items())),
        "reasons.txt": _reasons(cluster, common),
    }


def _reasons(cluster: Cluster, common: dict[str, str]) -> str:
    fabric = FABRICS[cluster.fabric.kind]
    mode = cluster.fabric.row
    rows = {
        variable.name: variable
        for pool in cluster.pools
        for variable in fabric.environment_on(pool.instance_type)
    }
    lines = [f"Fabric {fabric.name}, mode {mode.name}: {mode.summary}.", "", "Set:"]
    for name, value in sorted(common.items()):
        row = rows.get(name)
        reason = f"{row.reason} [{row.source}]" if row else "the stack's own, fabric.environment"
        lines.append(f"{name}={value}: {reason}")
    lines += ["", "Not set:"]
    lines += [
        f"{name}: {why}" for name, why in sorted(fabric.not_set.items()) if name not in common
    ]
    lines += ["", "In the image:"] + [f"- {item}" for item in fabric.userspace or ("nothing",)]
    lines += ["", "NCCL's log proves the transport by:"] + [f"- {p}" for p in fabric.proofs]
    lines += ["", "and GPUDirect, on each rank and in each direction, by:"] * bool(fabric.gpudirect)
    lines += [f"- {fabric.gpudirect}"] if fabric.gpudirect else []
    return "\n".join(lines) + "\n"


class NcclProfile(pulumi.ComponentResource):
    """The profile's ConfigMap in one namespace."""

    def __init__(
        self, name: str, args: NcclProfileArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:NcclProfile", name, None, opts)
        kubernetes.core.v1.ConfigMap(
            f"{name}-config-map",
            metadata={"name": PROFILE, "namespace": args.namespace},
            data=profile(args.cluster),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        self.register_outputs({"config_map": PROFILE})
