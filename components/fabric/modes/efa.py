"""AWS' Elastic Fabric Adapter in pods: the device plugin, or the DRA driver, never both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.fabric.fleet import patience, tolerations
from components.fabric.objects import FabricArgs, Objects
from railhead.catalog.versions import Controller
from railhead.fabric.modes.efa import DEVICE_CLASS, EfaFabric
from railhead.model.cluster import Cluster
from railhead.platform.registry import platform_of


@dataclass(frozen=True, kw_only=True)
class EfaArgs:
    """Arguments of :class:`Efa`."""

    cluster: Cluster
    fabric: EfaFabric
    driver: Controller
    after: Sequence[pulumi.Resource] = ()


def values(cluster: Cluster, fabric: EfaFabric, driver: Controller) -> dict[str, Any]:
    """Values of either chart: the pools' nodes and taints, and the image that is nearest.

    The chart's own list of types may lag.
    """
    found: dict[str, Any] = {
        "tolerations": tolerations(cluster),
        "supportedInstanceLabels": {
            "keys": ["node.kubernetes.io/instance-type"],
            "values": sorted({pool.instance_type for pool in cluster.pools}),
        },
    }
    nearest = platform_of(cluster).image(cluster, driver.image)
    if nearest != driver.image:
        found["image"] = {"repository": cluster.mirrored(nearest)}
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
        self.release = charts.release(
            f"{name}-{args.fabric.allocation}",
            args.driver,
            values(args.cluster, args.fabric, args.driver),
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            timeout=patience(args.cluster),
            wait=False,
        )
        self.register_outputs({"allocation": args.fabric.allocation})


class EfaObjects(Objects):
    """The chart, where the stack installs it."""

    def after_gpus(
        self,
        name: str,
        args: FabricArgs,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """The device plugin or the DRA driver."""
        fabric = args.cluster.fabric
        if not isinstance(fabric, EfaFabric) or not fabric.install:
            return []
        driver = args.combination.addon(fabric.addon)
        wanted = EfaArgs(cluster=args.cluster, fabric=fabric, driver=driver, after=after)
        return [Efa(f"{name}-efa", wanted, opts=opts)]


OBJECTS = EfaObjects()
