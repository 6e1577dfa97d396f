"""Requests to Google's API that the GCP provider makes from a resource's inputs.

The provider's argument names are Terraform's; the API's differ. Every input of every resource must
be named here, as what it becomes or as the provider's own business, or translating it fails: an
input that nobody mapped would be an input that nobody checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.components.discovery import violations

Value = Any
Rule = str | None | Callable[[Value], dict[str, Any]]


def integral(value: Any) -> Any:
    """Numbers as they were before the engine's protocol made them all floating."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [integral(v) for v in value]
    if isinstance(value, dict):
        return {k: integral(v) for k, v in value.items()}
    return value


def _put(target: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for folder in folders:
        target = target.setdefault(folder, {})
    assert last not in target, f"{path} is set twice"
    target[last] = value


def _merge(target: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def translate(inputs: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """``inputs`` by ``rules``: a path in the request, None for what never reaches the API."""
    request: dict[str, Any] = {}
    for name, value in inputs.items():
        assert name in rules, f"{name} is not mapped; add it to tests/components/gcp_requests.py"
        rule = rules[name]
        if callable(rule):
            _merge(request, rule(value))
        elif rule is not None:
            _put(request, rule, value)
    return request


def _same(*names: str) -> dict[str, Rule]:
    return {name: name for name in names}


def _accelerators(value: Value) -> dict[str, Any]:
    rules: dict[str, Rule] = {
        "type": "acceleratorType",
        "count": lambda count: {"acceleratorCount": str(count)},
        "gpuDriverInstallationConfig": "gpuDriverInstallationConfig",
    }
    return {"accelerators": [translate(item, rules) for item in value]}


NODE_CONFIG: Mapping[str, Rule] = {
    **_same(
        "machineType",
        "diskSizeGb",
        "diskType",
        "imageType",
        "serviceAccount",
        "oauthScopes",
        "labels",
        "resourceLabels",
        "taints",
        "metadata",
        "spot",
        "flexStart",
        "maxRunDuration",
        "gvnic",
        "gcfsConfig",
        "secondaryBootDisks",
        "hostMaintenancePolicy",
        "reservationAffinity",
        "shieldedInstanceConfig",
        "workloadMetadataConfig",
        "ephemeralStorageLocalSsdConfig",
    ),
    "guestAccelerators": _accelerators,
}


def _autoscaling(value: Value) -> dict[str, Any]:
    return {"autoscaling": {"enabled": True, **value}}


NODE_POOL: Mapping[str, Rule] = {
    **_same(
        "name",
        "management",
        "upgradeSettings",
        "placementPolicy",
        "queuedProvisioning",
        "networkConfig",
        "initialNodeCount",
    ),
    "nodeLocations": "locations",
    # The provider creates a pool at its size.
    "nodeCount": "initialNodeCount",
    "autoscaling": _autoscaling,
    "nodeConfig": lambda value: {"config": translate(value, NODE_CONFIG)},
    # Both are in the request's URL.
    "cluster": None,
    "location": None,
}


def _maintenance(value: Value) -> dict[str, Any]:
    window: dict[str, Any] = {}
    if recurring := value.get("recurringWindow"):
        window["recurringWindow"] = {
            "window": {"startTime": recurring["startTime"], "endTime": recurring["endTime"]},
            "recurrence": recurring["recurrence"],
        }
    for maintenanceexclusion in value.get("maintenanceExclusions", []):
        window.setdefault("maintenanceExclusions", {})[maintenanceexclusion["exclusionName"]] = {
            "startTime": maintenanceexclusion["startTime"],
            "maintenanceExclusionOptions": maintenanceexclusion["exclusionOptions"],
        }
    return {"maintenancePolicy": {"window": window}}


def _monitoring(value: Value) -> dict[str, Any]:
    rules: dict[str, Rule] = {
        "enableComponents": "componentConfig.enableComponents",
        "managedPrometheus": "managedPrometheusConfig",
    }
    return {"monitoringConfig": translate(value, rules)}


def _authorized(value: Value) -> dict[str, Any]:
    return {"masterAuthorizedNetworksConfig": {"enabled": True, **value}}


CLUSTER: Mapping[str, Rule] = {
    **_same(
        "name",
        "network",
        "subnetwork",
        "addonsConfig",
        "releaseChannel",
        "workloadIdentityConfig",
        "privateClusterConfig",
        "controlPlaneEndpointsConfig",
    ),
    "nodeLocations": "locations",
    "ipAllocationPolicy": lambda value: {"ipAllocationPolicy": {"useIpAliases": True, **value}},
    "datapathProvider": "networkConfig.datapathProvider",
    "enableMultiNetworking": "networkConfig.enableMultiNetworking",
    "masterAuthorizedNetworksConfig": _authorized,
    "minMasterVersion": "initialClusterVersion",
    "maintenancePolicy": _maintenance,
    "authenticatorGroupsConfig": lambda value: {
        "authenticatorGroupsConfig": {"enabled": True, **value}
    },
    "enableShieldedNodes": "shieldedNodes.enabled",
    "enableLegacyAbac": "legacyAbac.enabled",
    "loggingConfig": lambda value: {"loggingConfig": {"componentConfig": value}},
    "monitoringConfig": _monitoring,
    "nodeConfig": lambda value: {"nodeConfig": translate(value, NODE_CONFIG)},
    "initialNodeCount": "initialNodeCount",
    # In the request's URL.
    "location": None,
    # The provider's own: how it creates and deletes.
    "networkingMode": None,
    "removeDefaultNodePool": None,
    "deletionProtection": None,
}

NETWORK: Mapping[str, Rule] = {
    **_same("name", "autoCreateSubnetworks", "mtu", "networkProfile"),
    "routingMode": "routingConfig.routingMode",
}


def _secondary(value: Value) -> dict[str, Any]:
    return {"secondaryIpRanges": value}


SUBNETWORK: Mapping[str, Rule] = {
    **_same("name", "region", "network", "ipCidrRange", "privateIpGoogleAccess", "stackType"),
    "secondaryIpRanges": _secondary,
}


def _allowed(value: Value) -> dict[str, Any]:
    rules: dict[str, Rule] = {"protocol": "IPProtocol", "ports": "ports"}
    return {"allowed": [translate(item, rules) for item in value]}


FIREWALL: Mapping[str, Rule] = {
    **_same("name", "network", "direction", "sourceRanges"),
    "allows": _allowed,
}
NAT: Mapping[str, Rule] = {
    **_same(
        "name",
        "natIpAllocateOption",
        "enableDynamicPortAllocation",
        "enableEndpointIndependentMapping",
        "minPortsPerVm",
        "maxPortsPerVm",
        "logConfig",
    ),
    "sourceSubnetworkIpRangesToNat": "sourceSubnetworkIpRangesToNat",
    # In the URL, and the router that the NAT is a part of.
    "router": None,
    "region": None,
}


def _file_shares(value: Value) -> dict[str, Any]:
    rules: dict[str, Rule] = {
        "name": "name",
        "capacityGb": lambda capacity: {"capacityGb": str(capacity)},
    }
    return {"fileShares": [translate(value, rules)]}


FILESTORE: Mapping[str, Rule] = {
    **_same("tier", "protocol", "networks", "deletionProtectionEnabled"),
    "deletionProtectionReason": "deletionProtectionReason",
    "fileShares": _file_shares,
    # The instance's id and its place are in the URL.
    "name": None,
    "location": None,
}
# There is no discovery document of Managed Lustre; Cluster Director's has the same instance.
LUSTRE: Mapping[str, Rule] = {
    "capacityGib": "capacityGb",
    "filesystem": "filesystem",
    "perUnitStorageThroughput": "perUnitStorageThroughput",
    "instanceId": lambda name: {
        "lustre": f"projects/railhead-training/locations/europe-west1-b/instances/{name}"
    },
    "location": None,
    "network": None,
}
BUCKET: Mapping[str, Rule] = {
    **_same("name", "location", "storageClass", "hierarchicalNamespace"),
    "uniformBucketLevelAccess": "iamConfiguration.uniformBucketLevelAccess.enabled",
    "publicAccessPrevention": "iamConfiguration.publicAccessPrevention",
    "forceDestroy": None,
}


def _visible(value: Value) -> dict[str, Any]:
    networks = [{"networkUrl": network["networkUrl"]} for network in value["networks"]]
    return {"privateVisibilityConfig": {"networks": networks}}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A resource type: the API, the schema of its request, and how inputs become it."""

    api: str
    schema: str
    rules: Mapping[str, Rule] = field(default_factory=dict)
    method: str = ""


KINDS: Mapping[str, Kind] = {
    "gcp:container/cluster:Cluster": Kind(api="container.v1", schema="Cluster", rules=CLUSTER),
    # `hostMaintenancePolicy` is of the beta API only, which is the provider's.
    "gcp:container/nodePool:NodePool": Kind(
        api="container.v1beta1", schema="NodePool", rules=NODE_POOL
    ),
    "gcp:compute/network:Network": Kind(
        api="compute.v1", schema="Network", rules=NETWORK, method="compute.networks.insert"
    ),
    "gcp:compute/subnetwork:Subnetwork": Kind(
        api="compute.v1", schema="Subnetwork", rules=SUBNETWORK
    ),
    "gcp:compute/firewall:Firewall": Kind(
        api="compute.v1", schema="Firewall", rules=FIREWALL, method="compute.firewalls.insert"
    ),
    "gcp:compute/router:Router": Kind(
        api="compute.v1",
        schema="Router",
        rules={**_same("name", "network"), "region": None},
        method="compute.routers.insert",
    ),
    "gcp:compute/routerNat:RouterNat": Kind(api="compute.v1", schema="RouterNat", rules=NAT),
    # `maxDistance` is of the beta API only, which is the provider's.
    "gcp:compute/resourcePolicy:ResourcePolicy": Kind(
        api="compute.beta",
        schema="ResourcePolicy",
        rules={
            **_same("name", "groupPlacementPolicy", "workloadPolicy"),
            "region": None,
        },
        method="compute.instances.insert",
    ),
    "gcp:compute/globalAddress:GlobalAddress": Kind(
        api="compute.v1",
        schema="Address",
        rules=_same("name", "purpose", "addressType", "address", "prefixLength", "network"),
        method="compute.addresses.insert",
    ),
    "gcp:servicenetworking/connection:Connection": Kind(
        api="servicenetworking.v1",
        schema="Connection",
        # The policy is the provider's, for its own delete.
        rules={
            **_same("network", "reservedPeeringRanges"),
            "service": None,
            "deletionPolicy": None,
        },
    ),
    "gcp:filestore/instance:Instance": Kind(api="file.v1", schema="Instance", rules=FILESTORE),
    "gcp:lustre/instance:Instance": Kind(
        api="hypercomputecluster.v1", schema="NewLustreConfig", rules=LUSTRE
    ),
    "gcp:storage/bucket:Bucket": Kind(
        api="storage.v1", schema="Bucket", rules=BUCKET, method="storage.buckets.insert"
    ),
    "gcp:dns/managedZone:ManagedZone": Kind(
        api="dns.v1",
        schema="ManagedZone",
        rules={
            **_same("name", "dnsName", "description", "visibility"),
            "privateVisibilityConfig": _visible,
        },
        method="dns.managedZones.create",
    ),
    "gcp:dns/recordSet:RecordSet": Kind(
        api="dns.v1",
        schema="ResourceRecordSet",
        rules={**_same("name", "type", "ttl", "rrdatas"), "managedZone": None},
        method="dns.resourceRecordSets.create",
    ),
    "gcp:serviceaccount/account:Account": Kind(
        api="iam.v1",
        schema="CreateServiceAccountRequest",
        rules={"accountId": "accountId", "displayName": "serviceAccount.displayName"},
    ),
}
# A role for a principal: neither has a schema beyond text.
UNCHECKED = {
    "gcp:projects/iAMMember:IAMMember",
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    "pulumi:providers:gcp",
}


def request(token: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request that a resource's inputs become."""
    return translate(integral(dict(inputs)), KINDS[token].rules)


def refused(token: str, body: Mapping[str, Any]) -> list[str]:
    """Return what the API would refuse in a request, as far as its document says."""
    kind = KINDS[token]
    return violations(kind.api, kind.schema, dict(body), method=kind.method)
