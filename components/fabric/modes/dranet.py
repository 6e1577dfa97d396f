"""The dranet driver: NICs as devices that a ResourceClaim moves into a pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.fabric.fleet import patience, tolerations
from components.fabric.gke import installed
from components.fabric.objects import FabricArgs, Objects
from railhead.catalog.versions import Controller
from railhead.fabric.modes.dranet import OWN_CLASS, DranetFabric
from railhead.model.cluster import Cluster

DRIVER = "dra.net"


@dataclass(frozen=True, kw_only=True)
class DranetArgs:
    """Arguments of :class:`Dranet`."""

    cluster: Cluster
    fabric: DranetFabric
    driver: Controller
    after: Sequence[pulumi.Resource] = ()


def class_spec() -> dict[str, Any]:
    """A DeviceClass of every RDMA NIC that dranet publishes."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].rdma'
    return {"selectors": [{"cel": {"expression": expression}}]}


class Dranet(pulumi.ComponentResource):
    """The driver's release where the stack brings it, and the class of RDMA NICs."""

    def __init__(
        self, name: str, args: DranetArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Dranet", name, None, opts)
        before: list[pulumi.Resource] = list(args.after)
        if args.fabric.driver == "install":
            before.append(
                charts.release(
                    f"{name}-release",
                    args.driver,
                    {"tolerations": tolerations(args.cluster)},
                    pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
                    timeout=patience(args.cluster),
                    wait=False,
                )
            )
        if args.fabric.driver != "managed":
            kubernetes.apiextensions.CustomResource(
                f"{name}-device-class",
                api_version="resource.k8s.io/v1",
                kind="DeviceClass",
                metadata={"name": OWN_CLASS},
                spec=class_spec(),
                opts=pulumi.ResourceOptions(parent=self, depends_on=before),
            )
        self.register_outputs({"device_class": args.fabric.device_class})


class DranetObjects(Objects):
    """Google's plugin where the fabric needs it, and the driver with its class."""

    def after_gpus(
        self,
        name: str,
        args: FabricArgs,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """The plugin first, then the NICs."""
        fabric = args.cluster.fabric
        if not isinstance(fabric, DranetFabric):
            return []
        ready = installed(name, args.cluster, fabric.install, after, opts)
        wanted = DranetArgs(
            cluster=args.cluster,
            fabric=fabric,
            driver=args.combination.addon("dranet"),
            after=[*after, *ready],
        )
        return [*ready, Dranet(f"{name}-dranet", wanted, opts=opts)]


OBJECTS = DranetObjects()
