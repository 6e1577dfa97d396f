"""Losses that come with a deleted resource: a row a type, the first that matches counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from railhead.review.compare import Planned
from railhead.review.model import Level, Loss


@dataclass(frozen=True)
class Gone:
    """The loss that comes with resources of a type, and who notices it."""

    type: str
    level: Level
    loss: Loss
    what: str
    who: str


_LATER = "nobody on the day; later the one whose job or data it would have saved"
ROWS: tuple[Gone, ...] = (
    Gone("kubernetes:*:*AdmissionPolicy*", "refuse", "guards", "a guard is gone", _LATER),
    Gone("kubernetes:*:*WebhookConfiguration", "refuse", "guards", "a check is gone", _LATER),
    Gone("kubernetes:*:NetworkPolicy", "refuse", "network", "pods are open to others", _LATER),
    Gone("kubernetes:*:ResourceQuota", "refuse", "guards", "a limit is gone", _LATER),
    Gone("kubernetes:*:LimitRange", "refuse", "guards", "a limit is gone", _LATER),
    Gone(
        "kubernetes:*:PersistentVolume*",
        "refuse",
        "data",
        "new jobs find none of its data",
        "every run that resumes from it: it starts at step 0",
    ),
    Gone("kubernetes:*:StorageClass", "refuse", "data", "claims find no volume", "who claims next"),
    Gone(
        "kubernetes:*:Namespace",
        "refuse",
        "jobs",
        "every job, queue and claim in it goes too",
        "everybody who works in it, at once",
    ),
    Gone("kubernetes:*Queue", "refuse", "quota", "its jobs and its quota go", "its team, at once"),
    Gone("kubernetes:*:Cohort", "refuse", "quota", "nobody borrows", "teams beyond their share"),
    Gone("kubernetes:*:ResourceFlavor", "refuse", "quota", "its nodes admit no job", "its queue"),
    Gone("kubernetes:*:Topology", "refuse", "jobs", "gangs are placed anywhere", "slow jobs"),
    Gone("kubernetes:*PriorityClass", "ask", "jobs", "jobs that name it fail", "who names it"),
    Gone("kubernetes:*Runtime", "ask", "jobs", "jobs that name it cannot start", "who names it"),
    Gone("kubernetes:rbac*", "ask", "access", "its holders lose rights", "they, at once"),
    Gone("kubernetes:helm.sh*", "refuse", "jobs", "what the chart runs ends", "jobs that need it"),
    Gone("kubernetes:apps*", "refuse", "jobs", "what it runs on the nodes ends", _LATER),
    Gone("kubernetes:*NetworkAttachment*", "refuse", "network", "a rail is gone", "its jobs"),
    Gone("kubernetes:*NodePolicy", "refuse", "network", "rails lose their devices", "their jobs"),
    Gone(
        "kubernetes:*:SriovOperatorConfig",
        "refuse",
        "network",
        "its operator does nothing more; where that is others', `pulumi state delete` it before",
        "the next job on new nodes",
    ),
    Gone("kubernetes:*PodMonitor", "ask", "guards", "nothing is measured of it", _LATER),
    Gone("kubernetes:*PrometheusRule", "refuse", "guards", "its alerts never fire", _LATER),
    Gone("*nodeGroup:*", "refuse", "jobs", "its nodes and the jobs on them end", "their owners"),
    Gone("*nodePool:*", "refuse", "jobs", "its nodes and the jobs on them end", "their owners"),
    Gone("*launchTemplate:*", "refuse", "jobs", "its nodes are replaced", "owners of their jobs"),
    Gone("*placementGroup:*", "refuse", "network", "nodes are placed apart", "slow jobs"),
    Gone("*resourcePolicy:*", "refuse", "network", "nodes are placed apart", "slow jobs"),
    Gone("*apacityReservation:*", "refuse", "capacity", "paid machines are let go", "who pays"),
    Gone(
        "*ileSystem:FileSystem",
        "refuse",
        "data",
        "all that is in it is deleted",
        "every run that resumes from it: it starts at step 0",
    ),
    Gone("*lustreFileSystem:*", "refuse", "data", "all that is in it is deleted", "every run"),
    Gone("gcp:filestore*", "refuse", "data", "all that is in it is deleted", "every run"),
    Gone("gcp:lustre*", "refuse", "data", "all that is in it is deleted", "every run"),
    Gone("*bucket:Bucket", "refuse", "data", "all that is in it is deleted", "every run"),
    Gone("*bucketV2:*", "refuse", "data", "all that is in it is deleted", "every run"),
    Gone("aws:s3/bucketVersioning*", "refuse", "data", "no older version is kept", _LATER),
    Gone("aws:s3/bucketPublicAccess*", "refuse", "rights", "it may be made public", _LATER),
    Gone("*backupPolicy*", "refuse", "data", "nothing is backed up", _LATER),
    Gone("aws:kms*", "refuse", "data", "what it encrypts can never be read again", "everybody"),
    Gone("*:Cluster", "refuse", "jobs", "the whole cluster goes", "everybody, at once"),
    Gone("*mountTarget*", "refuse", "data", "nodes there cannot mount it", "their jobs"),
    Gone("*SecurityGroup*Rule", "refuse", "network", "its traffic is refused", "who sends it"),
    Gone("*ecurityGroup:*", "refuse", "network", "its members lose its rules", "who sends it"),
    Gone("*irewall:*", "refuse", "network", "its traffic is refused", "who sends it"),
    Gone("aws:eks/addon*", "refuse", "jobs", "nodes lose what it runs on them", "every new pod"),
    Gone("*podIdentity*", "refuse", "access", "jobs lose their storage rights", "the next job"),
    Gone("aws:eks/access*", "ask", "access", "its holder cannot log in", "they, at once"),
    Gone("*iAM*", "ask", "access", "its holder loses a role", "what uses it, at its next call"),
    Gone("aws:iam*", "ask", "access", "its holder loses rights", "what uses it, at its next call"),
    Gone("aws:ec2/natGateway*", "ask", "network", "one way out fewer", "pulls if the rest fails"),
    Gone("aws:ec2/*", "ask", "network", "a way through the network is gone", "who uses it"),
    Gone("gcp:compute*", "ask", "network", "a way through the network is gone", "who uses it"),
    Gone("aws:budgets*", "ask", "guards", "nobody is warned of what is spent", "who pays"),
    Gone("*:billing/budget*", "ask", "guards", "nobody is warned of what is spent", "who pays"),
    Gone("*metricAlarm*", "ask", "guards", "nobody is warned of it", _LATER),
    Gone("*alertPolicy*", "ask", "guards", "nobody is warned of it", _LATER),
    Gone("*logGroup*", "ask", "guards", "its logs are deleted", "the next audit"),
)
#: The row of a type that has none.
OTHER = Gone("*", "ask", "guards", "the cluster had it and has it no more", _LATER)


#: The row of the object that owns the jobs of `railhead launch` in a namespace.
OWNER = Gone(
    "kubernetes:core/v1:ConfigMap",
    "refuse",
    "jobs",
    "ended jobs that it owns are deleted with it, and `destroy` no longer stops at running ones",
    "who reads an ended job, or runs one when the stack goes",
)


def gone(type_: str) -> Gone:
    """Return what is lost with a resource of a type."""
    return next((row for row in ROWS if fnmatchcase(type_, row.type)), OTHER)


def size(resource: Planned) -> str:
    """Return how much is in it, such as ``30000Gi``; empty where nothing says so."""
    inputs = resource.inputs
    for keys, unit in (
        (("spec", "resources", "requests", "storage"), ""),
        (("spec", "capacity", "storage"), ""),
        (("storageCapacity",), " GiB"),
        (("capacityGib",), " GiB"),
        (("fileShares", "capacityGb"), " GiB"),
        (("scalingConfig", "desiredSize"), " nodes"),
        (("nodeCount",), " nodes"),
    ):
        value: Any = inputs
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return f"{value}{unit}"
    return ""
