"""A Filestore instance: NFS for checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import filestore

from components.gcp.outputs import when_made
from components.gcp.primary_network import NetworkRefs
from railhead.base.names import physical_name
from railhead.platform.gcp.model import FilestoreStorage, GcpPlatform

# The instance's only share; file.v1 takes 1 to 16 characters for any tier.
SHARE = "share"


@dataclass(frozen=True, kw_only=True)
class FilestoreArgs:
    """Arguments of :class:`Filestore`; ``cluster`` begins the instance's name."""

    cluster: str
    platform: GcpPlatform
    network: NetworkRefs
    storage: FilestoreStorage


class Filestore(pulumi.ComponentResource):
    """One instance with one share. ``handle`` is how its CSI driver names it."""

    instance: filestore.Instance
    handle: pulumi.Output[str]
    address: pulumi.Output[str]

    def __init__(
        self, name: str, args: FilestoreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:Filestore", name, None, opts)
        platform = args.platform
        regional = args.storage.tier == "regional"
        location = platform.region if regional else platform.zone
        self.instance = filestore.Instance(
            f"{name}-instance",
            name=physical_name(args.cluster, args.storage.name),
            location=location,
            tier=args.storage.tier.upper(),
            # What the CSI driver mounts unless a volume says otherwise.
            protocol="NFS_V3",
            file_shares={"name": SHARE, "capacity_gb": args.storage.capacity_gib},
            networks=[
                {
                    "network": args.network.network_name,
                    "modes": ["MODE_IPV4"],
                    "connect_mode": "DIRECT_PEERING",
                }
            ],
            deletion_protection_enabled=platform.deletion_protection,
            deletion_protection_reason="checkpoints of a training cluster"
            if platform.deletion_protection
            else None,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=platform.deletion_protection,
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="60m", delete="60m"),
            ),
        )
        self.handle = pulumi.Output.format(
            "modeInstance/{0}/{1}/{2}", location, self.instance.name, SHARE
        )
        self.address = when_made(self.instance, self.instance.networks).apply(
            lambda networks: _address(networks[0])
        )
        self.register_outputs({"instance": self.instance.id})


def _address(network: filestore.outputs.InstanceNetwork) -> str:
    # A volume without an address would be found out by the first job.
    if not network.ip_addresses:
        raise ValueError("GCP gave the Filestore instance no address")
    return network.ip_addresses[0]
