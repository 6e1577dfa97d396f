"""The dranet driver: NICs as devices that a ResourceClaim moves into a pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.fabric import efa
from components.fabric.fleet import patience, tolerations
from railhead.catalog.versions import Controller
from railhead.fabric.config import DranetFabric
from railhead.model.cluster import Cluster

# GKE's managed DRANET brings this class for the RDMA NICs of A3 Ultra and newer.
MANAGED_CLASS = "mrdma.google.com"
OWN_CLASS = "railhead-rdma"
DRIVER = "dra.net"


@dataclass(frozen=True, kw_only=True)
class DranetArgs:
    """Arguments of :class:`Dranet`."""

    cluster: Cluster
    fabric: DranetFabric
    driver: Controller
    after: Sequence[pulumi.Resource] = ()


def device_class(cluster: Cluster) -> str:
    """The DeviceClass of the training fabric's NICs."""
    if not isinstance(cluster.fabric, DranetFabric):
        return efa.DEVICE_CLASS
    return MANAGED_CLASS if cluster.fabric.driver == "managed" else OWN_CLASS


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
        self.register_outputs({"device_class": device_class(args.cluster)})
