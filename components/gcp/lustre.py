"""A Managed Lustre instance: a parallel file system for data and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import lustre

from components.gcp.primary_network import NetworkRefs
from railhead.base.names import physical_name
from railhead.platform.gcp.model import GcpPlatform, LustreStorage


@dataclass(frozen=True, kw_only=True)
class LustreArgs:
    """Arguments of :class:`Lustre`.

    ``cluster`` begins the instance's name. ``after`` holds the network's private services access,
    unless that was there before.
    """

    cluster: str
    platform: GcpPlatform
    network: NetworkRefs
    storage: LustreStorage
    after: Sequence[pulumi.Resource] = ()


class Lustre(pulumi.ComponentResource):
    """One instance. ``handle`` is how its CSI driver names it, ``address`` its server's."""

    instance: lustre.Instance
    handle: pulumi.Output[str]
    address: pulumi.Output[str]

    def __init__(
        self, name: str, args: LustreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:Lustre", name, None, opts)
        platform, storage = args.platform, args.storage
        self.instance = lustre.Instance(
            f"{name}-instance",
            instance_id=physical_name(args.cluster, storage.name),
            location=platform.zone,
            filesystem=storage.filesystem,
            # The API's numbers of 64 bits are texts.
            capacity_gib=str(storage.capacity_gib),
            per_unit_storage_throughput=str(storage.throughput),
            network=args.network.network,
            gke_support_enabled=True if storage.gke_support else None,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                protect=platform.deletion_protection,
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="60m", delete="60m"),
            ),
        )
        self.handle = pulumi.Output.format(
            "{0}/{1}/{2}", platform.project, platform.zone, self.instance.instance_id
        )
        # Such as 10.0.0.2@tcp:/lustrefs.
        self.address = self.instance.mount_point.apply(lambda point: point.partition("@")[0])
        self.register_outputs({"instance": self.instance.id})
