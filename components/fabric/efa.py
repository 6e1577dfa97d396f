"""AWS' Elastic Fabric Adapter in pods: the device plugin, or the DRA driver, never both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.fabric.fleet import patience, tolerations
from railhead.catalog.versions import Controller
from railhead.fabric.config import EfaFabric
from railhead.model.cluster import Cluster

# What AWS' DRA chart makes, and what claims ask for.
DEVICE_CLASS = "efa.networking.k8s.aws"


@dataclass(frozen=True, kw_only=True)
class EfaArgs:
    """Arguments of :class:`Efa`."""

    cluster: Cluster
    fabric: EfaFabric
    device_plugin: Controller
    dra_driver: Controller
    after: Sequence[pulumi.Resource] = ()


def values(cluster: Cluster, fabric: EfaFabric) -> dict[str, Any]:
    """Values of either chart: the pools' nodes and taints; its own list of types may lag."""
    found: dict[str, Any] = {
        "tolerations": tolerations(cluster),
        "supportedInstanceLabels": {
            "keys": ["node.kubernetes.io/instance-type"],
            "values": sorted({pool.instance_type for pool in cluster.pools}),
        },
    }
    if fabric.allocation == "dra":
        found["deviceClass"] = {"create": True, "name": DEVICE_CLASS}
    return found


class Efa(pulumi.ComponentResource):
    """The chart that the allocation takes."""

    release: kubernetes.helm.v3.Release

    def __init__(
        self, name: str, args: EfaArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Efa", name, None, opts)
        dra = args.fabric.allocation == "dra"
        self.release = charts.release(
            f"{name}-{'dra' if dra else 'device-plugin'}",
            args.dra_driver if dra else args.device_plugin,
            values(args.cluster, args.fabric),
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            timeout=patience(args.cluster),
        )
        self.register_outputs({"allocation": args.fabric.allocation})
