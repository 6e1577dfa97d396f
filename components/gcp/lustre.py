"""A Managed Lustre instance: a parallel file system for data and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import lustre

from railhead.base.names import physical_name
from railhead.components.gcp.outputs import apart_from_rails
from railhead.components.gcp.primary_network import NetworkRefs
from railhead.platform.gcp.model import LustreStorage


@dataclass(frozen=True, kw_only=True)
class LustreArgs:
    """Arguments of :class:`Lustre`.

    Args:
        cluster: the cluster's name, which the instance's name begins with.
        project: id of the GCP project.
        zone: the zone of the instance.
        network: the VPC that reaches the instance.
        storage: name, capacity in GiB, throughput and file system.
        apart: CIDR blocks that nodes reach at further interfaces, where the instance is not to be.
        deletion_protection: whether Pulumi refuses to delete or replace the instance.
        after: the network's private services access, unless that was there before.
    """

    cluster: str
    project: str
    zone: str
    network: NetworkRefs
    storage: LustreStorage
    apart: Sequence[str] = ()
    deletion_protection: bool = True
    after: Sequence[pulumi.Resource] = ()


class Lustre(pulumi.ComponentResource):
    """A Managed Lustre instance in one zone.

    Attributes:
        instance: the instance.
        handle: the instance's name for its CSI driver.
        address: the address of its server.
    """

    instance: lustre.Instance
    handle: pulumi.Output[str]
    address: pulumi.Output[str]

    def __init__(
        self, name: str, args: LustreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:Lustre", name, None, opts)
        storage = args.storage
        self.instance = lustre.Instance(
            f"{name}-instance",
            instance_id=physical_name(args.cluster, storage.name),
            location=args.zone,
            filesystem=storage.filesystem,
            # The API's numbers of 64 bits are texts.
            capacity_gib=str(storage.capacity_gib),
            per_unit_storage_throughput=str(storage.throughput),
            network=args.network.network,
            gke_support_enabled=True if storage.gke_support else None,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                protect=args.deletion_protection,
                custom_timeouts=pulumi.CustomTimeouts(create="4h", update="2h", delete="2h"),
            ),
        )
        self.handle = pulumi.Output.format(
            "{0}/{1}/{2}", args.project, args.zone, self.instance.instance_id
        )
        # Such as 10.0.0.2@tcp:/lustrefs.
        way = "give the network's private services access a range elsewhere, and add a file system"
        self.address = self.instance.mount_point.apply(
            lambda point: apart_from_rails(point.partition("@")[0], args.apart, way)
        )
        self.register_outputs({"instance": self.instance.id})
