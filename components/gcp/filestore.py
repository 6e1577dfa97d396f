"""A Filestore instance: NFS for checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute, filestore

from railhead.base.names import physical_name
from railhead.components.gcp.outputs import apart_from_rails, when_made
from railhead.components.gcp.primary_network import NetworkRefs
from railhead.platform.gcp.model import FilestoreStorage

# The instance's only share; file.v1 takes 1 to 16 characters for any tier.
SHARE = "share"


@dataclass(frozen=True, kw_only=True)
class FilestoreArgs:
    """Arguments of :class:`Filestore`.

    Args:
        cluster: the cluster's name, which the instance's name begins with.
        location: the zone of a zonal instance, the region of a regional one.
        network: the VPC that reaches the instance.
        storage: name, tier, capacity in GiB, and its addresses unless Google chooses them.
        apart: CIDR blocks that nodes reach at further interfaces, where the instance is not to be.
        calls_in: whether to let the instance's own connections into the network, if its addresses
            are known: a lock of NFS 3 that a node waits for is granted by a call to the node.
        deletion_protection: whether GCP and Pulumi refuse to delete or replace the instance.
        after: what else takes addresses of the network: Google chooses the instance's among those
            that are free by then.
    """

    cluster: str
    location: str
    network: NetworkRefs
    storage: FilestoreStorage
    apart: Sequence[str] = ()
    calls_in: bool = False
    deletion_protection: bool = True
    after: Sequence[pulumi.Resource] = ()


class Filestore(pulumi.ComponentResource):
    """A Filestore instance with one share, and its way back to the nodes.

    Without that a node which waits for a lock asks again after 30 s (linux, fs/lockd/clntproc.c:
    NLMCLNT_POLL_TIMEOUT), and no node hears that the instance has restarted and its locks are to be
    claimed again (Filestore documentation, Supported file system protocols: NFSv3 is bidirectional;
    gcp-filestore-csi-driver, README: networks other than `default` need firewall rules). The ports
    are each node's own: rpcbind's is 111, lockd's and statd's are any.

    Attributes:
        instance: the instance.
        handle: the instance's name for its CSI driver.
        address: the instance's IP address.
    """

    instance: filestore.Instance
    handle: pulumi.Output[str]
    address: pulumi.Output[str]

    def __init__(
        self, name: str, args: FilestoreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:Filestore", name, None, opts)
        after = list(args.after)
        if args.calls_in and args.storage.addresses is not None:
            firewall = compute.Firewall(
                f"{name}-locks",
                name=physical_name(args.cluster, args.storage.name, "locks"),
                network=args.network.network,
                direction="INGRESS",
                allows=[{"protocol": protocol} for protocol in ("tcp", "udp")],
                source_ranges=[args.storage.addresses],
                opts=pulumi.ResourceOptions(parent=self),
            )
            after.append(firewall)
        self.instance = filestore.Instance(
            f"{name}-instance",
            name=physical_name(args.cluster, args.storage.name),
            location=args.location,
            tier=args.storage.tier.upper(),
            # What the CSI driver mounts unless a volume says otherwise.
            protocol="NFS_V3",
            file_shares={"name": SHARE, "capacity_gb": args.storage.capacity_gib},
            networks=[
                filestore.InstanceNetworkArgs(
                    network=args.network.network_name,
                    modes=["MODE_IPV4"],
                    connect_mode="DIRECT_PEERING",
                    reserved_ip_range=args.storage.addresses,
                )
            ],
            deletion_protection_enabled=args.deletion_protection,
            deletion_protection_reason="checkpoints of a training cluster"
            if args.deletion_protection
            else None,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=after,
                protect=args.deletion_protection,
                custom_timeouts=pulumi.CustomTimeouts(create="4h", update="2h", delete="2h"),
            ),
        )
        self.handle = pulumi.Output.format(
            "modeInstance/{0}/{1}/{2}", args.location, self.instance.name, SHARE
        )
        self.address = when_made(self.instance, self.instance.networks).apply(
            lambda networks: _address(networks[0], args.apart)
        )
        self.register_outputs({"instance": self.instance.id})


def _address(network: filestore.outputs.InstanceNetwork, apart: Sequence[str]) -> str:
    # A volume without an address would be found out by the first job.
    if not network.ip_addresses:
        raise ValueError("GCP gave the Filestore instance no address")
    way = "add a file system with `addresses` elsewhere"
    return apart_from_rails(network.ip_addresses[0], apart, way)
