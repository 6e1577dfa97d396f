"""Fields whose change means something, as rows: which, when, how grave, and in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from railhead.base.quantity import parse
from railhead.base.wide import network_of
from railhead.review.compare import Change
from railhead.review.judged import Judged, few, unjudged
from railhead.review.model import Level, Loss

When = Callable[[Any, Any], bool]
_MISSING = "(nothing)"
_UNKNOWN = "(known after the update)"


def _any(was: Any, now: Any) -> bool:
    return bool(was != now)


def _number(value: Any) -> float | None:
    try:
        return float(parse(str(value)))
    except ValueError:
        return None


def less(was: Any, now: Any) -> bool:
    """Return whether a quantity fell, or is gone."""
    before, after = _number(was), _number(now)
    return before is not None and (after is None or after < before)


def lowered(was: Any, now: Any) -> bool:
    """Return whether a quantity fell; not one that is gone, which holds nothing back."""
    return now is not None and less(was, now)


def more(was: Any, now: Any) -> bool:
    """Return whether a quantity rose."""
    before, after = _number(was), _number(now)
    return after is not None and before is not None and after > before


def _off(was: Any, now: Any) -> bool:
    on = (True, "true", "ENABLED", "Enabled")
    return was in on and now not in on


def _on(was: Any, now: Any) -> bool:
    return now in (True, "true") and was not in (True, "true")


def _allowed(was: Any, now: Any) -> bool:
    return was is False and now is not False


def lost(was: Any, now: Any) -> bool:
    """Return whether a value, or an element of a list, is there no more."""
    if isinstance(was, list):
        rest = now if isinstance(now, list) else []
        return any(item not in rest for item in was)
    return was not in (None, "", {}) and now in (None, "", {})


def came(was: Any, now: Any) -> bool:
    """Return whether a value, or an element of a list, is there newly."""
    return lost(now, was)


def _fewer(was: Any, now: Any) -> bool:
    """Return whether a list has fewer elements; not where that is not known yet."""
    if not isinstance(was, list) or now == UNKNOWN:
        return False
    return len(now if isinstance(now, list) else []) < len(was)


def _wide(was: Any, now: Any) -> bool:
    """Networks were added that are wider than a /16, or a single one became wider."""
    added = [n for n in several(now) if n not in several(was)]
    return any(prefix(n.get("cidrBlock") if isinstance(n, Mapping) else n) < 16 for n in added)


def _fewer_efa(was: Any, now: Any) -> bool:
    """Return whether fewer of a node's interfaces carry EFA; not where that is not known yet."""
    if not all(isinstance(nic, Mapping) for nics in (was, now) for nic in several(nics)):
        return False
    before, after = (
        sum(nic.get("interfaceType") not in (None, "interface") for nic in several(nics))
        for nics in (was, now)
    )
    return after < before


def swapped(was: Any, now: Any) -> bool:
    """Return whether one value took another's place; not one that newly came, or that went."""
    return was is not None and now is not None and bool(was != now)


def _lets_more(was: Any, now: Any) -> bool:
    """Return whether a list of what is let in is gone, or has more; not where it newly came."""
    return bool(was) and (not now or came(was, now))


def _stopped(was: Any, now: Any) -> bool:
    """Return whether a switch that is on by default was turned off."""
    return was is not False and now is False


def _kept_less(was: Any, now: Any) -> bool:
    """Return whether deleted objects are kept for less; without a policy a bucket has 7 days.

    One that goes from the program stays on the bucket (pulumi-gcp 10, storage.Bucket).
    """
    return now is not None and less(7 * 24 * 3600 if was is None else was, now)


def prefix(text: Any) -> int:
    """Return the length of a network's prefix; 128 for what is not a network."""
    network = network_of(text)
    return 128 if network is None else network.prefixlen


def several(value: Any) -> list[Any]:
    """Return a list as it is, one value as a list of it, and nothing as an empty one."""
    return value if isinstance(value, list) else [] if value is None else [value]


@dataclass(frozen=True)
class Row:
    """A field of a type, both as shell patterns, and what it means when ``when`` holds."""

    type: str
    path: str
    when: When
    level: Level
    loss: Loss
    says: str


_EKS = "aws:eks/cluster:Cluster"
_GKE = "gcp:container/cluster:Cluster"
_FSX = "aws:fsx/lustreFileSystem:*"
_EFS = "aws:efs/fileSystem:*"
_GROUP = "aws:eks/nodeGroup:*"
_POOL = "gcp:container/nodePool:*"
_TEMPLATE = "aws:ec2/launchTemplate:*"
_BUCKET = "gcp:storage/bucket:*"
_NAT = "gcp:compute/routerNat:*"
_ALARM = "aws:cloudwatch/*larm:*"
_ALERT = "gcp:monitoring/alertPolicy:*"
_BUDGET = "aws:budgets/budget:*"
_INTO_CLUSTER = "pulumi:providers:kubernetes"
#: Fields that mark a resource, which no row means that speaks of every field.
MARKS = ("tags", "labels", "userLabels")
# Annotations for people and for Pulumi: controllers read others, such as networks and topology.
_REMARK = re.compile(r"\bannotations\.([^/]*$|pulumi\.com/)")
_ROLLS = "its nodes are replaced one after the other, with the jobs on them"

ROWS: tuple[Row, ...] = (
    Row(_EKS, "deletionProtection", _off, "refuse", "data", "can be deleted by one command"),
    Row(_EKS, "vpcConfig.endpointPublicAccess", _on, "ask", "network", "gets a public API server"),
    Row(
        _EKS,
        "vpcConfig.endpointPrivateAccess",
        _off,
        "refuse",
        "network",
        "has no private API server: nodes reach it over the internet, or not at all",
    ),
    Row(_EKS, "vpcConfig.publicAccessCidrs", _wide, "refuse", "network", "opens its API server"),
    Row(_EKS, "vpcConfig.publicAccessCidrs", came, "ask", "network", "opens its API server"),
    Row(
        _EKS,
        "enabledClusterLogTypes",
        lost,
        "refuse",
        "guards",
        "stops logs: {gone}; who did what is no longer recorded",
    ),
    Row(_EKS, "encryptionConfig*", _any, "refuse", "data", "changes the key of Secrets"),
    Row(_EKS, "accessConfig.authenticationMode", _any, "ask", "access", "authenticates otherwise"),
    Row(_EKS, "version", less, "refuse", "jobs", "goes back in its Kubernetes version"),
    Row(_EKS, "version", _any, "ask", "jobs", "is upgraded: nodes follow"),
    Row(_GKE, "deletionProtection", _off, "refuse", "data", "can be deleted by one command"),
    Row(_GKE, "masterAuthorizedNetworks*", _wide, "refuse", "network", "opens its API server"),
    Row(_GKE, "masterAuthorizedNetworks*", _any, "ask", "network", "opens its API server"),
    Row(_GKE, "privateClusterConfig*", _any, "refuse", "network", "is less private"),
    Row(_GKE, "controlPlaneEndpointsConfig*", _any, "ask", "network", "is reached otherwise"),
    Row(_GKE, "networkPolicy*", _any, "refuse", "network", "enforces network policies otherwise"),
    Row(_GKE, "loggingConfig*", lost, "refuse", "guards", "stops logs"),
    Row(
        _GKE,
        "monitoringConfig*",
        lost,
        "ask",
        "guards",
        "no longer measures {gone}: what watches it, such as GPUs' health, is blind",
    ),
    Row(
        _GKE,
        "monitoringConfig.managed*",
        _off,
        "ask",
        "guards",
        "has no Prometheus of Google any more",
    ),
    Row(_GKE, "databaseEncryption*", _any, "refuse", "data", "changes the key of Secrets"),
    Row(_GKE, "*inMasterVersion", less, "refuse", "jobs", "goes back in its version"),
    Row(
        _GKE,
        "maintenancePolicy.maintenanceExclusions",
        lost,
        "ask",
        "jobs",
        "is upgraded by Google: nodes are replaced in the window, with the jobs on them",
    ),
    Row(_GKE, "maintenancePolicy*", _any, "ask", "jobs", "is maintained at other times"),
    Row(_GKE, "releaseChannel*", _any, "ask", "jobs", "is upgraded at other times"),
    Row(_GKE, "workloadIdentityConfig*", lost, "refuse", "rights", "hands nodes' keys to pods"),
    Row(_FSX, "storageCapacity", less, "refuse", "data", "shrinks, which cannot be done"),
    Row(_FSX, "storageCapacity", more, "note", "capacity", "grows"),
    Row(_FSX, "perUnitStorageThroughput", less, "ask", "jobs", "is slower"),
    Row(_FSX, "metadataConfiguration.iops", less, "ask", "jobs", "has fewer metadata operations"),
    Row(_FSX, "automaticBackupRetentionDays", less, "refuse", "data", "keeps backups for less"),
    Row(_FSX, "skipFinalBackup", _on, "refuse", "data", "leaves no last backup when it goes"),
    Row(_FSX, "copyTagsToBackups", _off, "ask", "data", "makes backups without its tags"),
    Row(_FSX, "securityGroupIds", _any, "refuse", "network", "is reached by others, or by none"),
    Row(_EFS, "encrypted", _off, "refuse", "data", "lies in the clear"),
    Row(_EFS, "lifecyclePolicies", _any, "ask", "jobs", "moves files to slower storage otherwise"),
    Row(_EFS, "throughputMode", _any, "ask", "jobs", "has another throughput"),
    Row("aws:efs/backupPolicy:*", "backupPolicy.status", _off, "refuse", "data", "stops backups"),
    Row("aws:kms/key:*", "enableKeyRotation", _off, "ask", "rights", "is never rotated"),
    Row("aws:kms/key:*", "deletionWindowInDays", less, "ask", "data", "is gone sooner"),
    Row(
        "aws:cloudwatch/logGroup:*",
        "retentionInDays",
        less,
        "ask",
        "guards",
        "keeps logs for less",
    ),
    Row(_GROUP, "scalingConfig.maxSize", less, "ask", "capacity", "holds fewer nodes"),
    Row(_GROUP, "scalingConfig.maxSize", more, "note", "capacity", "holds more nodes"),
    Row(_GROUP, "scalingConfig.minSize", more, "ask", "capacity", "never has fewer nodes"),
    Row(_GROUP, "scalingConfig.minSize", less, "ask", "capacity", "may have fewer nodes"),
    Row(_GROUP, "taints", lost, "refuse", "jobs", "lets pods that need no GPU fill its nodes"),
    Row(_GROUP, "labels*", lost, "refuse", "jobs", "loses labels by which its pods find it"),
    Row(_GROUP, "nodeRepairConfig*", _off, "refuse", "jobs", "no longer repairs broken nodes"),
    Row(
        _GROUP,
        "nodeRepairConfig.nodeRepairConfigOverrides",
        lost,
        "ask",
        "jobs",
        "repairs nodes by EKS' own rule where it had another: one that is replaced ends its jobs",
    ),
    Row(_GROUP, "nodeRepairConfig*", _any, "ask", "jobs", "repairs nodes otherwise"),
    # EKS user guide, managed-node-update-behavior.
    Row(
        _GROUP,
        "updateConfig.updateStrategy",
        lambda _, now: now == "DEFAULT",
        "ask",
        "jobs",
        "starts a new node before an old one goes: reserved capacity has no room for it, and the "
        "update fails",
    ),
    Row(
        _GROUP,
        "updateConfig.updateStrategy",
        _any,
        "ask",
        "jobs",
        "ends an old node before a new one starts",
    ),
    Row(
        _GROUP,
        "updateConfig*",
        _any,
        "ask",
        "jobs",
        "replaces another number of nodes at once, with the jobs on them",
    ),
    Row(_GROUP, "launchTemplate*", _any, "refuse", "jobs", _ROLLS),
    Row(_GROUP, "version", _any, "ask", "jobs", _ROLLS),
    Row(_GROUP, "amiType", _any, "refuse", "jobs", f"gets another image: {_ROLLS}"),
    Row(_GROUP, "subnetIds", _any, "refuse", "jobs", "has nodes in other subnets"),
    Row(
        _TEMPLATE,
        "networkInterfaces",
        _fewer_efa,
        "refuse",
        "network",
        f"starts nodes with fewer EFA interfaces: NCCL loses the others; {_ROLLS}",
    ),
    Row(
        _TEMPLATE,
        "networkInterfaces",
        _fewer,
        "refuse",
        "network",
        "starts nodes with {now_count} interfaces in place of {was_count}: NCCL loses the others",
    ),
    Row(
        _TEMPLATE,
        "capacityReservationSpecification*",
        _any,
        "refuse",
        "capacity",
        "buys other capacity",
    ),
    Row(_TEMPLATE, "instanceMarketOptions*", _any, "refuse", "capacity", "buys otherwise"),
    Row(_TEMPLATE, "placement*", _any, "refuse", "network", "places nodes otherwise"),
    Row(_TEMPLATE, "*", _any, "refuse", "jobs", _ROLLS),
    Row("aws:ec2/subnet:*", "mapPublicIpOnLaunch", _on, "refuse", "network", "is public"),
    Row("aws:ec2/vpcEndpoint:*", "policy*", _any, "ask", "network", "admits others"),
    Row("aws:ec2/vpcEndpoint:*", "privateDnsEnabled", _off, "refuse", "network", "has no name"),
    Row("aws:ec2/route:*", "*", _any, "ask", "network", "leads elsewhere"),
    # As the recorder answers getAddonVersion (railhead/lab/recorders/answers.py).
    Row(
        "aws:eks/addon:*",
        "addonVersion",
        lambda _, now: str(now).startswith(("default-for-", "newest-for-")),
        "ask",
        "jobs",
        "gets whichever version EKS names on the day of an `up`, in place of one that was chosen",
    ),
    Row("aws:eks/addon:*", "addonVersion", _any, "ask", "jobs", "gets another version"),
    Row("aws:eks/addon:*", "configurationValues*", _any, "ask", "jobs", "is set otherwise"),
    Row("aws:eks/podIdentityAssociation:*", "*", _any, "ask", "access", "gives other rights"),
    Row("aws:eks/accessEntry:*", "*", _any, "ask", "access", "names others"),
    Row(_POOL, "nodeConfig.taints", lost, "refuse", "jobs", "lets pods without GPUs fill it"),
    Row(_POOL, "nodeConfig.labels*", lost, "refuse", "jobs", "loses labels that pods look for"),
    # In place (GKE documentation, update-existing-nodepools; the provider's node_pool.go).
    Row(_POOL, "nodeConfig.resourceLabels*", _any, "note", "capacity", "is billed otherwise"),
    Row(_POOL, "nodeConfig.labels*", _any, "ask", "jobs", "labels its nodes otherwise"),
    Row(_POOL, "nodeConfig.taints", _any, "ask", "jobs", "taints its nodes otherwise"),
    Row(_POOL, "management.autoRepair", _off, "refuse", "jobs", "no longer repairs broken nodes"),
    Row(_POOL, "management.autoUpgrade", _on, "refuse", "jobs", "is upgraded under its jobs"),
    Row(_POOL, "autoscaling.*", less, "ask", "capacity", "holds fewer nodes"),
    Row(_POOL, "autoscaling.*", more, "note", "capacity", "holds more nodes"),
    Row(_POOL, "nodeCount", more, "note", "capacity", "holds more nodes"),
    Row(_POOL, "nodeCount", less, "ask", "capacity", "holds fewer nodes"),
    Row(_POOL, "initialNodeCount", _any, "ask", "capacity", "begins with other nodes"),
    Row(_POOL, "upgradeSettings*", _any, "ask", "jobs", "updates other numbers of nodes at once"),
    Row(_POOL, "networkConfig*", _any, "refuse", "network", "has other interfaces"),
    Row(_POOL, "nodeConfig.gvnic*", _any, "refuse", "network", "has another network driver"),
    Row(_POOL, "nodeConfig*", _any, "refuse", "jobs", _ROLLS),
    Row(_POOL, "*", _any, "ask", "jobs", "changes its nodes"),
    Row(_BUCKET, "lifecycleRules", _any, "ask", "data", "moves or deletes otherwise"),
    Row(_BUCKET, "versioning*", _off, "refuse", "data", "keeps no older versions"),
    Row(
        _BUCKET, "softDeletePolicy*", _kept_less, "refuse", "data", "keeps deleted objects for less"
    ),
    Row(_BUCKET, "forceDestroy", _on, "refuse", "data", "is deleted with what is in it"),
    Row("aws:s3/bucket*", "forceDestroy", _on, "refuse", "data", "is deleted with what is in it"),
    Row("aws:s3/bucketVersioning*", "*.status", _off, "refuse", "data", "keeps no older versions"),
    Row("aws:s3/bucketLifecycle*", "rules", _any, "ask", "data", "moves or deletes otherwise"),
    Row("aws:s3/bucketPublicAccessBlock:*", "*", _off, "refuse", "rights", "may be made public"),
    Row(_ALARM, "alarmActions", lost, "refuse", "guards", "no longer tells {gone}"),
    Row(_ALARM, "actionsEnabled", _stopped, "refuse", "guards", "tells nobody"),
    Row(_ALARM, "*", _any, "ask", "guards", "fires otherwise"),
    Row("aws:sns/topicSubscription:*", "*", _any, "ask", "guards", "calls others"),
    Row(_ALERT, "notificationChannels", lost, "refuse", "guards", "no longer tells {gone}"),
    Row(_ALERT, "enabled", _stopped, "refuse", "guards", "tells nobody"),
    Row(_ALERT, "*", _any, "ask", "guards", "fires otherwise"),
    Row(_BUDGET, "limitAmount", less, "note", "capacity", "warns earlier"),
    Row(_BUDGET, "limitAmount", _any, "ask", "capacity", "warns of more money only"),
    Row(_BUDGET, "notifications", _fewer, "refuse", "capacity", "warns fewer times, or of more"),
    Row(_BUDGET, "notifications", _any, "ask", "capacity", "warns otherwise"),
    Row("gcp:billing/budget:*", "*", _fewer, "refuse", "capacity", "warns fewer times, or others"),
    Row("gcp:billing/budget:*", "*", _any, "ask", "capacity", "warns otherwise"),
    # pulumi-kubernetes 010f5d8, provider/pkg/provider/provider.go, DiffConfig; what its switches do
    # is in the SDK's own words (pulumi_kubernetes 4.34.2, provider.py).
    Row(
        _INTO_CLUSTER,
        "clusterIdentifier",
        lost,
        "refuse",
        "data",
        "tells its cluster by address and certificate from now on: when a kubeconfig has another "
        "of either, every object in the cluster is replaced, claims included",
    ),
    Row(
        _INTO_CLUSTER,
        "clusterIdentifier",
        swapped,
        "refuse",
        "data",
        "speaks of another cluster from now on: every object is replaced, claims included",
    ),
    Row(
        _INTO_CLUSTER,
        "deleteUnreachable",
        _on,
        "refuse",
        "data",
        "forgets every object of a cluster that it cannot reach just then",
    ),
    Row(
        _INTO_CLUSTER,
        "skipUpdateUnreachable",
        _on,
        "ask",
        "file",
        "ends without an error, and without a change, where it cannot reach the cluster",
    ),
    Row(
        _INTO_CLUSTER,
        "upsertExistingObjects",
        _on,
        "ask",
        "data",
        "takes over what is there already: an object that is renamed without an alias is updated, "
        "and then deleted",
    ),
    Row(
        _INTO_CLUSTER,
        "enableConfigMapMutable",
        _off,
        "ask",
        "jobs",
        "deletes and recreates a ConfigMap whose content changes: no pod that mounts it starts "
        "meanwhile",
    ),
    Row(
        _INTO_CLUSTER,
        "enablePatchForce",
        _off,
        "ask",
        "file",
        "no longer takes back what others wrote into its objects: `up` ends there as a conflict",
    ),
    Row(
        "pulumi:providers:aws",
        "allowedAccountIds",
        _lets_more,
        "refuse",
        "file",
        "takes credentials of other accounts: an `up` with those makes everything again there",
    ),
    Row(
        "pulumi:providers:aws",
        "forbiddenAccountIds",
        lost,
        "refuse",
        "file",
        "takes credentials of {gone}: an `up` with those makes everything again there",
    ),
    *(
        Row(
            "pulumi:providers:*",
            field,
            swapped,
            "refuse",
            "file",
            "looks in {now} for what is in {was}: it finds nothing, and makes everything again",
        )
        for field in ("region", "project")
    ),
    Row("gcp:filestore/instance:*", "fileShares*", more, "note", "capacity", "grows"),
    Row("gcp:filestore/instance:*", "fileShares*", less, "refuse", "data", "shrinks"),
    Row("gcp:filestore/instance:*", "fileShares*", _any, "ask", "data", "has another share"),
    Row("gcp:filestore/instance:*", "deletionProtection*", _off, "refuse", "data", "unprotected"),
    Row("gcp:lustre/instance:*", "capacityGib", less, "refuse", "data", "shrinks"),
    Row("gcp:compute/network:*", "mtu", _any, "refuse", "network", "has another frame size"),
    Row(_NAT, "*PortsPerVm", more, "note", "network", "gives each node more ports"),
    Row(_NAT, "*PortsPerVm", less, "ask", "network", "gives each node fewer ports: pulls wait"),
    Row("gcp:compute/router*:*", "*", _any, "ask", "network", "leads elsewhere"),
    Row(
        "kubernetes:*:StorageClass",
        "reclaimPolicy",
        _any,
        "refuse",
        "data",
        "treats volumes otherwise when their claim goes: {was} to {now}",
    ),
    Row(
        "kubernetes:*",
        "*automountServiceAccountToken",
        _allowed,
        "refuse",
        "rights",
        "gives pods a token of the API server, which their code can use",
    ),
    Row(
        "kubernetes:*:StorageClass",
        "parameters.*",
        lambda was, now: "namespace" in str(was) and "namespace" not in str(now),
        "refuse",
        "data",
        "gives claims of one name in two namespaces the same directory: jobs of the one overwrite "
        "the other's checkpoints",
    ),
    Row("kubernetes:*:StorageClass", "*", _any, "ask", "data", "makes other volumes"),
    Row(
        "kubernetes:*:PersistentVolume",
        "spec.persistentVolumeReclaimPolicy",
        _any,
        "refuse",
        "data",
        "is treated otherwise when its claim goes: {was} to {now}",
    ),
    Row("kubernetes:*:PersistentVolumeClaim", "spec.*storage", less, "refuse", "data", "shrinks"),
    Row(
        "kubernetes:*:PersistentVolumeClaim",
        "metadata.labels*",
        lost,
        "refuse",
        "data",
        "loses a label by which the API server keeps it",
    ),
    Row(
        "kubernetes:*:ResourceFlavor",
        "spec.nodeLabels*",
        lost,
        "refuse",
        "jobs",
        "admits jobs to nodes of other pools, and to nodes that did not pass the gate",
    ),
    Row(
        "kubernetes:*:ResourceFlavor",
        "spec.topologyName",
        lost,
        "refuse",
        "jobs",
        "places the pods of a gang anywhere: collectives are slow",
    ),
    Row("kubernetes:*:Topology", "spec.levels", lost, "ask", "jobs", "places gangs more loosely"),
    Row("kubernetes:*:ClusterQueue", "spec.stopPolicy", came, "refuse", "quota", "admits no job"),
    Row("kubernetes:*:LocalQueue", "spec.stopPolicy", came, "refuse", "quota", "admits no job"),
    Row("kubernetes:*:LocalQueue", "spec.clusterQueue", _any, "refuse", "jobs", "moves"),
    Row(
        "kubernetes:*PriorityClass",
        "value",
        _any,
        "ask",
        "quota",
        "is worth {now} in place of {was}: other jobs go first",
    ),
    Row("kubernetes:*PriorityClass", "globalDefault", _on, "refuse", "quota", "is everyone's"),
    Row(
        "kubernetes:*PriorityClass",
        "preemptionPolicy",
        _any,
        "ask",
        "jobs",
        "preempts otherwise",
    ),
)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of every leaf; a list is one."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif path:
        yield path, value


def differing(change: Change) -> dict[str, tuple[Any, Any]]:
    """Path -> (before, after) of each leaf that differs; a reference that does is one too."""
    was, now = dict(flat(change.was)), dict(flat(change.now))
    leaves = {
        path: (was.get(path), now.get(path))
        for path in sorted({*was, *now})
        if was.get(path) != now.get(path)
    }
    for path, values in leaves.items():
        if path in change.paths and all(_made_up(value) for value in values):
            # An id is made up before there is one: the resource's name says more.
            leaves[path] = _referred(change, path, values)
    for path in change.paths:
        if not any(leaf == path or leaf.startswith(f"{path}.") for leaf in leaves):
            before = change.before.refers.get(path, ()) if change.before else ()
            after = change.after.refers.get(path, ()) if change.after else ()
            if before != after:
                leaves[path] = (names(before), names(after))
    return leaves


def _made_up(value: Any) -> bool:
    """Return whether a value may hold ids that a recorder made up."""
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | None)


def _referred(change: Change, path: str, values: tuple[Any, Any]) -> tuple[Any, Any]:
    sides = (change.before, change.after)
    named = [side.refers.get(path, ()) if side else () for side in sides]
    if named[0] == named[1]:
        return values
    was, now = (names(urns) if urns else value for urns, value in zip(named, values, strict=True))
    return was, now


def names(urns: tuple[str, ...]) -> list[str]:
    """Return the names that resources have in the program."""
    return [urn.rsplit("::", 1)[-1] for urn in urns]


def short(value: Any) -> str:
    """Return a value for a sentence."""
    if value in (None, [], {}):
        return _MISSING
    text = ", ".join(map(short, value)) if isinstance(value, list) else str(value)
    text = text.replace(UNKNOWN, _UNKNOWN)
    return text if len(text) <= 80 else f"{text[:77]}..."


def parts(path: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each part of two values that differs, with its path; a list's elements go by name."""
    before, after = _elements(was), _elements(now)
    if before is None or after is None:
        if was != now:
            yield path, was, now
        return
    elements = isinstance(now, list)
    for key in sorted({*before, *after}, key=str):
        inner = f"{path}[{key}]" if elements else f"{path}.{key}"
        yield from parts(inner, before.get(key), after.get(key))


def _elements(value: Any) -> Mapping[Any, Any] | None:
    """Return a mapping, or a list's elements by their names or places; None for a plain value."""
    if not isinstance(value, list):
        return value if isinstance(value, Mapping) else None
    if not value or not all(isinstance(item, Mapping) for item in value):
        return None
    for keys in (("name",), ("namespace", "name"), ("alert",), ("expression",), ("key",)):
        names = [tuple(item.get(key) for key in keys) for item in value]
        if all(isinstance(n, str) for name in names for n in name) and len({*names}) == len(names):
            return dict(zip(("/".join(name) for name in names), value, strict=True))
    return dict(enumerate(value))


def told(differences: Iterable[tuple[str, Any, Any]]) -> str:
    """Return parts that differ for a sentence: the first four, and how many more there are."""
    texts = [f"{path}: {short(was)} -> {short(now)}" for path, was, now in differences]
    return few(texts, 4, "; ")


# Conditions on one value, which say nothing of a list or a section.
_OF_VALUES = frozenset({less, more, _off, _on, _allowed, _stopped})


def _reads(row: Row, was: Any, now: Any) -> bool:
    """Return whether a row's condition says something of such values."""
    whole = any(isinstance(value, list | Mapping) for value in (was, now))
    return not (whole and row.when in _OF_VALUES)


def _means(row: Row, change: Change, path: str) -> bool:
    """Return whether a row speaks of a field."""
    if row.path == "*" and path.startswith(MARKS):
        return False
    return fnmatchcase(change.either.type, row.type) and fnmatchcase(path, row.path)


def unread(change: Change, read: str) -> dict[str, tuple[Any, Any]]:
    """Return the parts that differ and that neither a row nor a rule, by ``read``, looks at."""
    return {
        part: (before, after)
        for path, (was, now) in differing(change).items()
        if not any(_means(row, change, path) and _reads(row, was, now) for row in ROWS)
        for part, before, after in parts(path, was, now)
        # An empty mapping that comes or goes says nothing.
        if (before, after) not in (({}, None), (None, {}))
        if not (read and re.search(read, part)) and not _REMARK.search(part)
    }


def fields(change: Change) -> Iterator[Judged]:
    """Yield what the rows say of each changed field; of a field the first row that holds.

    A value that is not known is unjudged, unless it is refused whatever it may be.
    """
    if change.kind in ("added", "deleted"):
        return
    inputs = dict(flat(change.now))
    for path, (was, now) in differing(change).items():
        rows = [row for row in ROWS if _means(row, change, path)]
        first = next((row for row in rows if row.when(was, now)), None)
        if UNKNOWN in str(inputs.get(path)) and _may_be_worse(rows, first):
            yield unjudged([path])
        elif first is not None:
            yield _field(first, path, was, now)


def _may_be_worse(rows: list[Row], first: Row | None) -> bool:
    """Return whether some value could meet a graver row than the first that holds, if any does."""
    if first is None:
        return bool(rows)
    return first.level != "refuse" and any(row.level == "refuse" for row in rows)


def _field(row: Row, path: str, was: Any, now: Any) -> Judged:
    """Return what a row says of a field."""
    text = row.says.format(
        was=short(was),
        now=short(now),
        gone=short([item for item in several(was) if item not in several(now)]),
        was_count=len(several(was)),
        now_count=len(several(now)),
    )
    what = f"{text} ({told(parts(path, was, now))})"
    return Judged(row.level, row.loss, what, rule=f"field-{path}")
