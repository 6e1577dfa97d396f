"""Fields whose change means something, as rows: which, when, how grave, and in words."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from railhead.base.quantity import parse
from railhead.review.compare import Change
from railhead.review.judged import Judged
from railhead.review.model import Level, Loss

When = Callable[[Any, Any], bool]
_MISSING = "(nothing)"


def _any(was: Any, now: Any) -> bool:
    return bool(was != now)


def _number(value: Any) -> float | None:
    try:
        return float(parse(str(value)))
    except ValueError:
        return None


def _less(was: Any, now: Any) -> bool:
    before, after = _number(was), _number(now)
    return before is not None and (after is None or after < before)


def _more(was: Any, now: Any) -> bool:
    before, after = _number(was), _number(now)
    return after is not None and before is not None and after > before


def _off(was: Any, now: Any) -> bool:
    return was in (True, "true", "ENABLED") and now not in (True, "true", "ENABLED")


def _on(was: Any, now: Any) -> bool:
    return now in (True, "true") and was not in (True, "true")


def _gone(was: Any, now: Any) -> bool:
    if isinstance(was, list):
        rest = now if isinstance(now, list) else []
        return any(item not in rest for item in was)
    return was not in (None, "", {}) and now in (None, "", {})


def _came(was: Any, now: Any) -> bool:
    return _gone(now, was)


def _fewer(was: Any, now: Any) -> bool:
    return isinstance(was, list) and len(now if isinstance(now, list) else []) < len(was)


def _wide(was: Any, now: Any) -> bool:
    """Networks were added that are wider than a /16, or a single one became wider."""
    added = [n for n in _several(now) if n not in _several(was)]
    return any(_prefix(n) < 16 for n in added)


def _prefix(text: Any) -> int:
    try:
        return ipaddress.ip_network(str(text), strict=False).prefixlen
    except ValueError:
        return 128


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A field of a type, both as shell patterns, and what it means when ``when`` holds."""

    type: str
    path: str
    when: When
    level: Level
    loss: Loss
    says: str
    who: str = ""


def _row(type_: str, path: str, when: When, level: Level, loss: Loss, says: str) -> Row:
    return Row(type=type_, path=path, when=when, level=level, loss=loss, says=says)


_EKS = "aws:eks/cluster:Cluster"
_GKE = "gcp:container/cluster:Cluster"
_FSX = "aws:fsx/lustreFileSystem:*"
_EFS = "aws:efs/fileSystem:*"
_GROUP = "aws:eks/nodeGroup:*"
_POOL = "gcp:container/nodePool:*"
_TEMPLATE = "aws:ec2/launchTemplate:*"
_BUCKET = "gcp:storage/bucket:*"
_ROLLS = "its nodes are replaced one after the other, with the jobs on them"

ROWS: tuple[Row, ...] = (
    _row(_EKS, "deletionProtection", _off, "refuse", "data", "can be deleted by one command"),
    _row(_EKS, "vpcConfig.endpointPublicAccess", _on, "ask", "network", "gets a public API server"),
    _row(
        _EKS,
        "vpcConfig.endpointPrivateAccess",
        _off,
        "refuse",
        "network",
        "has no private API server: nodes reach it over the internet, or not at all",
    ),
    _row(_EKS, "vpcConfig.publicAccessCidrs", _wide, "refuse", "network", "opens its API server"),
    _row(_EKS, "vpcConfig.publicAccessCidrs", _came, "ask", "network", "opens its API server"),
    _row(
        _EKS,
        "enabledClusterLogTypes",
        _gone,
        "refuse",
        "guards",
        "stops logs: {gone}; who did what is no longer recorded",
    ),
    _row(_EKS, "encryptionConfig*", _any, "refuse", "data", "changes the key of Secrets"),
    _row(_EKS, "accessConfig.authenticationMode", _any, "ask", "access", "authenticates otherwise"),
    _row(_EKS, "version", _less, "refuse", "jobs", "goes back in its Kubernetes version"),
    _row(_EKS, "version", _any, "ask", "jobs", "is upgraded: nodes follow"),
    _row(_GKE, "deletionProtection", _off, "refuse", "data", "can be deleted by one command"),
    _row(_GKE, "masterAuthorizedNetworksConfig*", _any, "ask", "network", "opens its API server"),
    _row(_GKE, "privateClusterConfig*", _any, "refuse", "network", "is less private"),
    _row(_GKE, "controlPlaneEndpointsConfig*", _any, "ask", "network", "is reached otherwise"),
    _row(_GKE, "networkPolicy*", _any, "refuse", "network", "enforces network policies otherwise"),
    _row(_GKE, "loggingConfig*", _gone, "refuse", "guards", "stops logs"),
    _row(_GKE, "databaseEncryption*", _any, "refuse", "data", "changes the key of Secrets"),
    _row(_GKE, "*inMasterVersion", _less, "refuse", "jobs", "goes back in its version"),
    _row(_GKE, "maintenancePolicy*", _any, "ask", "jobs", "is maintained at other times"),
    _row(_GKE, "releaseChannel*", _any, "ask", "jobs", "is upgraded at other times"),
    _row(_GKE, "workloadIdentityConfig*", _gone, "refuse", "rights", "hands nodes' keys to pods"),
    _row(_FSX, "storageCapacity", _less, "refuse", "data", "shrinks, which cannot be done"),
    _row(_FSX, "storageCapacity", _more, "note", "capacity", "grows"),
    _row(_FSX, "perUnitStorageThroughput", _less, "ask", "jobs", "is slower"),
    _row(_FSX, "metadataConfiguration.iops", _less, "ask", "jobs", "has fewer metadata operations"),
    _row(_FSX, "automaticBackupRetentionDays", _less, "refuse", "data", "keeps backups for less"),
    _row(_FSX, "skipFinalBackup", _on, "refuse", "data", "leaves no last backup when it goes"),
    _row(_FSX, "copyTagsToBackups", _off, "ask", "data", "makes backups without its tags"),
    _row(_FSX, "securityGroupIds", _any, "refuse", "network", "is reached by others, or by none"),
    _row(_EFS, "encrypted", _off, "refuse", "data", "lies in the clear"),
    _row(_EFS, "lifecyclePolicies", _any, "ask", "jobs", "moves files to slower storage otherwise"),
    _row(_EFS, "throughputMode", _any, "ask", "jobs", "has another throughput"),
    _row("aws:efs/backupPolicy:*", "backupPolicy.status", _off, "refuse", "data", "stops backups"),
    _row("aws:kms/key:*", "enableKeyRotation", _off, "ask", "rights", "is never rotated"),
    _row("aws:kms/key:*", "deletionWindowInDays", _less, "ask", "data", "is gone sooner"),
    _row(
        "aws:cloudwatch/logGroup:*",
        "retentionInDays",
        _less,
        "ask",
        "guards",
        "keeps logs for less",
    ),
    _row(_GROUP, "scalingConfig.maxSize", _less, "ask", "capacity", "holds fewer nodes"),
    _row(_GROUP, "scalingConfig.maxSize", _more, "note", "capacity", "holds more nodes"),
    _row(_GROUP, "scalingConfig.minSize", _more, "ask", "capacity", "never has fewer nodes"),
    _row(_GROUP, "scalingConfig.minSize", _less, "ask", "capacity", "may have fewer nodes"),
    _row(_GROUP, "taints", _gone, "refuse", "jobs", "lets pods that need no GPU fill its nodes"),
    _row(_GROUP, "labels*", _gone, "refuse", "jobs", "loses labels by which its pods find it"),
    _row(_GROUP, "nodeRepairConfig*", _off, "refuse", "jobs", "no longer repairs broken nodes"),
    _row(_GROUP, "updateConfig*", _any, "ask", "jobs", "updates another number of nodes at once"),
    _row(_GROUP, "launchTemplate*", _any, "refuse", "jobs", _ROLLS),
    _row(_GROUP, "version", _any, "ask", "jobs", _ROLLS),
    _row(_GROUP, "amiType", _any, "refuse", "jobs", f"gets another image: {_ROLLS}"),
    _row(_GROUP, "subnetIds", _any, "refuse", "jobs", "has nodes in other subnets"),
    _row(
        _TEMPLATE,
        "networkInterfaces",
        _fewer,
        "refuse",
        "network",
        "starts nodes with {now_count} interfaces in place of {was_count}: NCCL loses the others",
    ),
    _row(
        _TEMPLATE,
        "capacityReservationSpecification*",
        _any,
        "refuse",
        "capacity",
        "buys other capacity",
    ),
    _row(_TEMPLATE, "instanceMarketOptions*", _any, "refuse", "capacity", "buys otherwise"),
    _row(_TEMPLATE, "placement*", _any, "refuse", "network", "places nodes otherwise"),
    _row(_TEMPLATE, "*", _any, "refuse", "jobs", _ROLLS),
    _row("aws:ec2/subnet:*", "mapPublicIpOnLaunch", _on, "refuse", "network", "is public"),
    _row("aws:ec2/vpcEndpoint:*", "policy*", _any, "ask", "network", "admits others"),
    _row("aws:ec2/vpcEndpoint:*", "privateDnsEnabled", _off, "refuse", "network", "has no name"),
    _row("aws:ec2/route:*", "*", _any, "ask", "network", "leads elsewhere"),
    _row("aws:eks/addon:*", "addonVersion", _any, "ask", "jobs", "gets another version"),
    _row("aws:eks/addon:*", "configurationValues*", _any, "ask", "jobs", "is set otherwise"),
    _row("aws:eks/podIdentityAssociation:*", "*", _any, "ask", "access", "gives other rights"),
    _row("aws:eks/accessEntry:*", "*", _any, "ask", "access", "names others"),
    _row(_POOL, "nodeConfig.taints", _gone, "refuse", "jobs", "lets pods without GPUs fill it"),
    _row(_POOL, "nodeConfig.labels*", _gone, "refuse", "jobs", "loses labels that pods look for"),
    _row(_POOL, "management.autoRepair", _off, "refuse", "jobs", "no longer repairs broken nodes"),
    _row(_POOL, "management.autoUpgrade", _on, "refuse", "jobs", "is upgraded under its jobs"),
    _row(_POOL, "autoscaling.*", _less, "ask", "capacity", "holds fewer nodes"),
    _row(_POOL, "autoscaling.*", _more, "note", "capacity", "holds more nodes"),
    _row(_POOL, "nodeCount", _more, "note", "capacity", "holds more nodes"),
    _row(_POOL, "nodeCount", _less, "ask", "capacity", "holds fewer nodes"),
    _row(_POOL, "initialNodeCount", _any, "ask", "capacity", "begins with other nodes"),
    _row(_POOL, "upgradeSettings*", _any, "ask", "jobs", "updates other numbers of nodes at once"),
    _row(_POOL, "networkConfig*", _any, "refuse", "network", "has other interfaces"),
    _row(_POOL, "nodeConfig.gvnic*", _any, "refuse", "network", "has another network driver"),
    _row(_POOL, "nodeConfig*", _any, "refuse", "jobs", _ROLLS),
    _row(_POOL, "*", _any, "ask", "jobs", "changes its nodes"),
    _row(_BUCKET, "lifecycleRules", _any, "refuse", "data", "deletes or moves objects otherwise"),
    _row(_BUCKET, "versioning*", _off, "refuse", "data", "keeps no older versions"),
    _row(_BUCKET, "softDeletePolicy*", _any, "refuse", "data", "keeps deleted objects for less"),
    _row(_BUCKET, "forceDestroy", _on, "refuse", "data", "is deleted with what is in it"),
    _row("gcp:filestore/instance:*", "fileShares*", _any, "ask", "data", "has another size"),
    _row("gcp:filestore/instance:*", "deletionProtection*", _off, "refuse", "data", "unprotected"),
    _row("gcp:lustre/instance:*", "capacityGib", _less, "refuse", "data", "shrinks"),
    _row("gcp:compute/network:*", "mtu", _any, "refuse", "network", "has another frame size"),
    _row("gcp:compute/router*:*", "*", _any, "ask", "network", "leads elsewhere"),
    _row(
        "kubernetes:*:StorageClass",
        "reclaimPolicy",
        _any,
        "refuse",
        "data",
        "treats volumes otherwise when their claim goes: {was} to {now}",
    ),
    _row("kubernetes:*:StorageClass", "*", _any, "ask", "data", "makes other volumes"),
    _row(
        "kubernetes:*:PersistentVolume",
        "spec.persistentVolumeReclaimPolicy",
        _any,
        "refuse",
        "data",
        "is treated otherwise when its claim goes: {was} to {now}",
    ),
    _row("kubernetes:*:PersistentVolumeClaim", "spec.*storage", _less, "refuse", "data", "shrinks"),
    _row(
        "kubernetes:*:PersistentVolumeClaim",
        "metadata.labels*",
        _gone,
        "refuse",
        "data",
        "loses a label by which the API server keeps it",
    ),
    _row("kubernetes:*:ClusterQueue", "spec.stopPolicy", _came, "refuse", "quota", "admits no job"),
    _row("kubernetes:*:LocalQueue", "spec.stopPolicy", _came, "refuse", "quota", "admits no job"),
    _row("kubernetes:*:LocalQueue", "spec.clusterQueue", _any, "refuse", "jobs", "moves"),
    _row(
        "kubernetes:*PriorityClass",
        "value",
        _any,
        "ask",
        "quota",
        "is worth {now} in place of {was}: other jobs go first",
    ),
    _row("kubernetes:*PriorityClass", "globalDefault", _on, "refuse", "quota", "is everyone's"),
    _row(
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
    for path in change.paths:
        if not any(leaf == path or leaf.startswith(f"{path}.") for leaf in leaves):
            before = change.before.refers.get(path, ()) if change.before else ()
            after = change.after.refers.get(path, ()) if change.after else ()
            if before != after:
                leaves[path] = (_names(before), _names(after))
    return leaves


def _names(urns: tuple[str, ...]) -> list[str]:
    return [urn.rsplit("::", 1)[-1] for urn in urns]


def short(value: Any) -> str:
    """Return a value for a sentence."""
    if value is None:
        return _MISSING
    text = ", ".join(map(short, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def fields(change: Change) -> Iterator[Judged]:
    """Yield what the rows say of each changed field; of a field the first row that holds."""
    if change.kind == "added" or change.kind == "deleted":
        return
    for path, (was, now) in differing(change).items():
        for row in ROWS:
            if (
                fnmatchcase(change.either.type, row.type)
                and fnmatchcase(path, row.path)
                and row.when(was, now)
            ):
                gone = [item for item in _several(was) if item not in _several(now)]
                text = row.says.format(
                    was=short(was),
                    now=short(now),
                    gone=short(gone),
                    was_count=len(_several(was)),
                    now_count=len(_several(now)),
                )
                what = f"{text} ({path}: {short(was)} -> {short(now)})"
                yield Judged(row.level, row.loss, what, row.who, rule=f"field-{path}")
                break
