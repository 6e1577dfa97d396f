"""Cloud Storage at addresses that a network policy can name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import dns

from railhead.base.names import physical_name
from railhead.components.gcp.primary_network import NetworkRefs
from railhead.platform.gcp.model import PRIVATE_GOOGLE_APIS, STORAGE_HOST


@dataclass(frozen=True, kw_only=True)
class StorageNamesArgs:
    """Arguments of :class:`StorageNames`.

    Args:
        cluster: the cluster's name, which the zone's name begins with.
        network: the network in which the names are answered.
    """

    cluster: str
    network: NetworkRefs


class StorageNames(pulumi.ComponentResource):
    """A private zone in which storage.googleapis.com has the addresses of private.googleapis.com.

    Its addresses on the internet are many and change. These are four, reached from subnets with
    Private Google Access by the network's own way out (VPC documentation, Configure Private Google
    Access: domain options, DNS configuration).

    Attributes:
        ready: the DNS records; a pod that mounts a bucket needs the first.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: StorageNamesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:StorageNames", name, None, opts)
        below = pulumi.ResourceOptions(parent=self)
        zone = dns.ManagedZone(
            f"{name}-zone",
            name=physical_name(args.cluster, "storage-names"),
            dns_name=STORAGE_HOST,
            description="Cloud Storage at the addresses that training pods may reach",
            visibility="private",
            private_visibility_config={"networks": [{"network_url": args.network.network}]},
            opts=below,
        )
        # The zone answers for names below its own too, where buckets are in requests of the S3 kind
        # (Cloud Storage documentation, Request endpoints): without a record they do not exist.
        self.ready = [
            dns.RecordSet(
                f"{name}-{what}",
                managed_zone=zone.name,
                name=host,
                type="A",
                ttl=300,
                rrdatas=[str(address) for address in PRIVATE_GOOGLE_APIS],
                opts=below,
            )
            for what, host in (("record", STORAGE_HOST), ("buckets", f"*.{STORAGE_HOST}"))
        ]
        self.register_outputs({"zone": zone.name})
