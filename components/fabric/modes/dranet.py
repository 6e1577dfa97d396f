"""The dranet driver: NICs as devices that a ResourceClaim moves into a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.controllers import charts
from railhead.components.fabric.fleet import patience, tolerations
from railhead.components.fabric.gke import installed
from railhead.components.fabric.objects import FabricArgs, ModeObjects
from railhead.fabric.modes.dranet import MANAGED_CLASS, OWN_CLASS, DranetFabric

DRIVER = "dra.net"


@dataclass(frozen=True, kw_only=True)
class DranetArgs:
    """Arguments of :class:`Dranet`.

    Args:
        chart: dranet's chart; None where the cluster or its cloud runs dranet already.
        device_class: the DeviceClass that claims name; it is made unless it is the cloud's own
            (:data:`railhead.fabric.modes.dranet.MANAGED_CLASS`).
        tolerations: Kubernetes tolerations of the driver's pods.
        timeout_seconds: how long the release may take.
        after: resources that must exist before the driver.
    """

    chart: charts.Chart | None = None
    device_class: str = OWN_CLASS
    tolerations: Sequence[Mapping[str, Any]] = ()
    timeout_seconds: int = charts.RELEASE_SECONDS
    after: Sequence[pulumi.Resource] = ()


def class_spec() -> dict[str, Any]:
    """Return a DeviceClass of every RDMA NIC that dranet publishes."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].rdma'
    return {"selectors": [{"cel": {"expression": expression}}]}


class Dranet(pulumi.ComponentResource):
    """The driver's release where the stack brings it, and the class of RDMA NICs."""

    def __init__(
        self, name: str, args: DranetArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Dranet", name, None, opts)
        before: list[pulumi.Resource] = list(args.after)
        if args.chart is not None:
            before.append(
                charts.release(
                    f"{name}-release",
                    args.chart,
                    {"tolerations": [dict(item) for item in args.tolerations]},
                    pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
                    timeout=args.timeout_seconds,
                    wait=False,
                )
            )
        if args.device_class != MANAGED_CLASS:
            kubernetes.apiextensions.CustomResource(
                f"{name}-device-class",
                api_version="resource.k8s.io/v1",
                kind="DeviceClass",
                metadata={"name": args.device_class},
                spec=class_spec(),
                opts=pulumi.ResourceOptions(parent=self, depends_on=before),
            )
        self.register_outputs({"device_class": args.device_class})


class DranetObjects(ModeObjects):
    """Google's plugin where the fabric needs it, and the driver with its class."""

    def after_gpus(
        self,
        name: str,
        args: FabricArgs,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """Return the plugin first, then the NICs."""
        fabric = args.fabric
        if not isinstance(fabric, DranetFabric):
            return []
        ready = installed(name, args, fabric.install, after, opts)
        install = fabric.driver == "install"
        wanted = DranetArgs(
            chart=charts.Chart.of(args.addons["dranet"]) if install else None,
            device_class=fabric.device_class,
            tolerations=tolerations(args.pools),
            timeout_seconds=patience(args.pools),
            after=[*after, *ready],
        )
        return [*ready, Dranet(f"{name}-dranet", wanted, opts=opts)]


OBJECTS = DranetObjects()
