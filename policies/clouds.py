"""Rules for a cluster on a cloud: closed to the world, protected, nothing bought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.wide import too_wide, within
from railhead.policies.plan import UNKNOWN, at, plain

CLUSTERS = frozenset({"aws:eks/cluster:Cluster", "gcp:container/cluster:Cluster"})
FILE_SYSTEMS = frozenset(
    {
        "aws:efs/fileSystem:FileSystem",
        "aws:fsx/lustreFileSystem:LustreFileSystem",
        "gcp:filestore/instance:Instance",
        "gcp:lustre/instance:Instance",
        "gcp:storage/bucket:Bucket",
    }
)
# Without this key the cluster's Secrets can never be read again.
_KEYS = frozenset({"aws:kms/key:Key"})
_AWS_POOL = "aws:eks/nodeGroup:NodeGroup"
_GCP_POOL = "gcp:container/nodePool:NodePool"
_BOUGHT = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"


@dataclass(frozen=True, kw_only=True)
class CloudResource:
    """One planned resource of a cloud; ``body`` is plain, with UNKNOWN for what is not known."""

    urn: str
    name: str
    kind: str
    protect: bool
    body: Mapping[str, Any]


def cloud_resource(
    resource_type: str, urn: str, name: str, props: Any, *, protect: bool
) -> CloudResource | None:
    """Return a planned resource of a cloud; None for anything else."""
    if resource_type.partition(":")[0] not in ("aws", "gcp"):
        return None
    return CloudResource(urn=urn, name=name, kind=resource_type, protect=protect, body=plain(props))


def outside(network: Any, allowed: Sequence[str] | None) -> bool:
    """Return whether a network may not be let in: by the site's list, else by its width."""
    return too_wide(network) if allowed is None else not within(network, allowed)


def open_to_the_world(
    resource: CloudResource, allowed: Sequence[str] | None = None
) -> Iterator[str]:
    """Yield a message for each way in from anywhere, and for each that cannot be judged.

    Args:
        resource: a resource of a cloud.
        allowed: the site's own networks; None allows any that is not wide.
    """
    for path, value in _ways_in(resource):
        if value is UNKNOWN:
            yield (
                f"{resource.name}: {path} is not known before the update, so nothing can be said "
                "of who gets in: give it a value that the plan knows"
            )
        elif value is not None and outside(value, allowed):
            what = "much of the internet" if allowed is None else "which the site does not list"
            yield f"{resource.name}: {path} lets in {value}, {what}: name networks"
    if _of_anybody(resource):
        yield (
            f"{resource.name}: neither sourceRanges nor a source tag or account is named, which is "
            "0.0.0.0/0: name networks"
        )


def _of_anybody(resource: CloudResource) -> bool:
    """Return whether it is a GCP firewall rule that lets traffic in from any source."""
    body = resource.body
    return (
        resource.kind == "gcp:compute/firewall:Firewall"
        and body.get("direction") != "EGRESS"
        and bool(body.get("allows"))
        and not any(body.get(k) for k in ("sourceRanges", "sourceTags", "sourceServiceAccounts"))
    )


def _ways_in(resource: CloudResource) -> Iterator[tuple[str, Any]]:
    body, kind = resource.body, resource.kind.rpartition(":")[2]
    if kind == "SecurityGroupIngressRule":
        for key in ("cidrIpv4", "cidrIpv6"):
            yield key, body.get(key)
    elif kind in ("SecurityGroup", "DefaultSecurityGroup"):
        for path, rule in _elements(body, "ingress"):
            if rule is UNKNOWN:
                yield path, UNKNOWN
                continue
            for key in ("cidrBlocks", "ipv6CidrBlocks"):
                yield from _elements(rule, key, f"{path}.")
    elif kind == "SecurityGroupRule" and body.get("type") != "egress":
        for key in ("cidrBlocks", "ipv6CidrBlocks"):
            yield from _elements(body, key)
    elif kind == "Firewall" and body.get("direction") != "EGRESS":
        yield from _elements(body, "sourceRanges")
    elif resource.kind == "aws:eks/cluster:Cluster":
        yield from _endpoint(body.get("vpcConfig"))
    elif resource.kind == "gcp:container/cluster:Cluster":
        yield from _gke_endpoint(body)


def _gke_endpoint(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield who can reach a GKE API server by address; its DNS name needs an IAM identity."""
    by_address = at(body, "controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled")
    private = at(body, "privateClusterConfig", "enablePrivateEndpoint")
    if by_address is False or private is True:
        return
    for path, value in (
        ("controlPlaneEndpointsConfig.ipEndpointsConfig.enabled", by_address),
        ("privateClusterConfig.enablePrivateEndpoint", private),
    ):
        if value is UNKNOWN:
            yield path, UNKNOWN
            return
    blocks = at(body, "masterAuthorizedNetworksConfig", "cidrBlocks")
    path = "masterAuthorizedNetworksConfig.cidrBlocks"
    if blocks is UNKNOWN:
        yield path, UNKNOWN
        return
    public = at(body, "masterAuthorizedNetworksConfig", "gcpPublicCidrsAccessEnabled")
    if public:
        # Every virtual machine of every customer of Google has such an address.
        yield (
            "masterAuthorizedNetworksConfig.gcpPublicCidrsAccessEnabled",
            UNKNOWN if public is UNKNOWN else "0.0.0.0/0",
        )
    # Without the section the address serves everyone.
    for index, block in enumerate(blocks or [{"cidrBlock": "0.0.0.0/0"}]):
        value = block if block is UNKNOWN else block.get("cidrBlock")
        yield f"{path}[{index}].cidrBlock", value


def _endpoint(config: Any) -> Iterator[tuple[str, Any]]:
    if config is UNKNOWN or not isinstance(config, Mapping):
        yield "vpcConfig", UNKNOWN
        return
    public = config.get("endpointPublicAccess", True)
    if public is UNKNOWN:
        yield "vpcConfig.endpointPublicAccess", UNKNOWN
    elif public:
        # EKS' own default if no network is named.
        given = config.get("publicAccessCidrs") or ["0.0.0.0/0"]
        yield from _elements({"publicAccessCidrs": given}, "publicAccessCidrs", "vpcConfig.")


def _elements(holder: Mapping[str, Any], key: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    value = holder.get(key)
    if value is UNKNOWN:
        yield f"{prefix}{key}", UNKNOWN
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield f"{prefix}{key}[{index}]", inner


def bought(resource: CloudResource) -> Iterator[str]:
    """Yield a message for capacity that is paid for when it is created, without a refund."""
    if resource.kind == _BOUGHT:
        yield (
            f"{resource.name}: a capacity block is bought by making it, and destroying it only "
            "forgets it: buy it by hand, and give its id to the pool"
        )


def unprotected(resources: Iterable[CloudResource]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for what a cluster with deletion protection could lose by mistake."""
    results = list(resources)
    texts = [r.body.get("deletionProtection") for r in results if r.kind in CLUSTERS]
    if not any(value is True or value is UNKNOWN for value in texts):
        return
    for resource in results:
        if not resource.protect and _precious(resource):
            yield (
                f"{resource.name}: the cluster has deletion protection, and this could be deleted "
                "or replaced by a slip: pass protect=True",
                resource.urn,
            )


def _precious(resource: CloudResource) -> bool:
    if resource.kind == _AWS_POOL:
        # An unknown image may have a GPU driver.
        image = resource.body.get("amiType")
        return image is UNKNOWN or "NVIDIA" in str(image)
    if resource.kind == _GCP_POOL:
        config = resource.body.get("nodeConfig")
        return config is UNKNOWN or (
            isinstance(config, Mapping) and bool(config.get("guestAccelerators"))
        )
    return resource.kind in CLUSTERS | FILE_SYSTEMS | _KEYS
