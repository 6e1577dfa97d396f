"""AWS' Elastic Fabric Adapter in pods: the device plugin, or the DRA driver, never both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.controllers import charts
from railhead.components.fabric.fleet import patience, tolerations
from railhead.components.fabric.objects import FabricArgs, ModeObjects
from railhead.fabric.modes.efa import DEVICE_CLASS, EfaFabric


@dataclass(frozen=True, kw_only=True)
class EfaArgs:
    """Arguments of :class:`Efa`.

    Args:
        allocation: how pods get the devices: by the device plugin's extended resource, or by
            claims of the DRA driver.
        chart: the chart of the device plugin, or of the DRA driver.
        instance_types: EC2's types of the nodes that the driver runs on; the chart's own list may
            lag.
        image: the repository that nodes pull from, without a tag; None leaves the chart's own.
        tolerations: Kubernetes tolerations of the driver's pods.
        timeout_seconds: how long the release may take.
        after: resources that must exist before the driver.
    """

    allocation: Literal["device-plugin", "dra"]
    chart: charts.Chart
    instance_types: Sequence[str]
    image: str | None = None
    tolerations: Sequence[Mapping[str, Any]] = ()
    timeout_seconds: int = charts.RELEASE_SECONDS
    after: Sequence[pulumi.Resource] = ()


def values(args: EfaArgs) -> dict[str, Any]:
    """Return the values of either chart: nodes, tolerations, and the image where it is another."""
    results: dict[str, Any] = {
        "tolerations": [dict(item) for item in args.tolerations],
        "supportedInstanceLabels": {
            "keys": ["node.kubernetes.io/instance-type"],
            "values": sorted(set(args.instance_types)),
        },
    }
    if args.image is not None:
        results["image"] = {"repository": args.image}
    if args.allocation == "dra":
        results["deviceClass"] = {"create": True, "name": DEVICE_CLASS}
    return results


def efa_args(args: FabricArgs, fabric: EfaFabric, after: Sequence[pulumi.Resource] = ()) -> EfaArgs:
    """Return the arguments of a fabric's driver."""
    return EfaArgs(
        allocation=fabric.allocation,
        chart=charts.Chart.of(args.addons[fabric.addon]),
        instance_types=[pool.instance_type for pool in args.pools],
        image=args.images.get(fabric.addon),
        tolerations=tolerations(args.pools),
        timeout_seconds=patience(args.pools),
        after=after,
    )


class Efa(pulumi.ComponentResource):
    """EFA's device plugin or its DRA driver, on the nodes that have EFA.

    Attributes:
        release: the Helm release.
    """

    release: kubernetes.helm.v3.Release

    def __init__(
        self, name: str, args: EfaArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Efa", name, None, opts)
        self.release = charts.release(
            f"{name}-{args.allocation}",
            args.chart,
            values(args),
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            timeout=args.timeout_seconds,
            wait=False,
        )
        self.register_outputs({"allocation": args.allocation})


class EfaObjects(ModeObjects):
    """The chart, where the stack installs it."""

    def after_gpus(
        self,
        name: str,
        args: FabricArgs,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """Return the device plugin or the DRA driver."""
        fabric = args.fabric
        if not isinstance(fabric, EfaFabric) or not fabric.install:
            return []
        return [Efa(f"{name}-efa", efa_args(args, fabric, after), opts=opts)]


OBJECTS = EfaObjects()
