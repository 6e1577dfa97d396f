"""What keeps a cloud's data encrypted, and its nodes and buckets to themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies import documents
from policies.clouds import CloudResource
from policies.plan import UNKNOWN

_EACH = "[]"
_ANYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})
# Policies that a resource has itself: who is named there needs no other right.
_RESOURCE_POLICIES = frozenset(
    {
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "aws:kms/key:Key",
        "aws:s3/bucketPolicy:BucketPolicy",
    }
)


@dataclass(frozen=True, kw_only=True)
class Must:
    """A field that must have one of some values; ``[]`` in ``path`` is each element of a list."""

    kind: str
    path: tuple[str, ...]
    values: tuple[Any, ...]
    else_: str


_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_BUCKET = "gcp:storage/bucket:Bucket"
_NODE_POOL = "gcp:container/nodePool:NodePool"
_GKE = "gcp:container/cluster:Cluster"
_PUBLIC = ("networkInterfaces", _EACH, "associatePublicIpAddress")
_NO_ADDRESS = "its nodes have addresses of the internet"
MUST = (
    Must(
        kind="aws:efs/fileSystem:FileSystem",
        path=("encrypted",),
        values=(True,),
        else_="what is in it lies in the clear",
    ),
    Must(
        kind=_TEMPLATE,
        path=("blockDeviceMappings", _EACH, "ebs", "encrypted"),
        values=("true", True),
        else_="nodes' volumes lie in the clear",
    ),
    Must(
        kind=_TEMPLATE,
        path=("metadataOptions", "httpTokens"),
        values=("required",),
        else_="whatever fetches a URL for a pod can fetch the node's credentials",
    ),
    Must(
        kind=_TEMPLATE,
        path=("metadataOptions", "httpPutResponseHopLimit"),
        values=(1,),
        else_="pods get the node's credentials",
    ),
    Must(
        kind=_BUCKET,
        path=("publicAccessPrevention",),
        values=("enforced",),
        else_="one more binding opens it to everybody",
    ),
    Must(
        kind=_BUCKET,
        path=("uniformBucketLevelAccess",),
        values=(True,),
        else_="each object may have readers of its own",
    ),
    Must(
        kind=_NODE_POOL,
        path=("networkConfig", "enablePrivateNodes"),
        values=(True,),
        else_=_NO_ADDRESS,
    ),
    Must(
        kind=_NODE_POOL,
        path=("nodeConfig", "workloadMetadataConfig", "mode"),
        values=("GKE_METADATA",),
        else_="pods get the node's credentials",
    ),
    Must(
        kind=_BUCKET,
        path=("forceDestroy",),
        values=(False, None),
        else_="destroying the bucket deletes what is in it",
    ),
    Must(
        kind=_GKE,
        path=("privateClusterConfig", "enablePrivateNodes"),
        values=(True,),
        else_=_NO_ADDRESS,
    ),
    Must(
        kind=_GKE,
        path=("removeDefaultNodePool",),
        values=(True,),
        else_="the pool that GKE makes stays, with nodes that nobody hardened",
    ),
    Must(
        kind=_GKE,
        path=("nodePools",),
        values=(None, []),
        else_="no rule looks at its nodes",
    ),
    Must(
        kind=_GKE,
        path=("enableLegacyAbac",),
        values=(False, None),
        else_="every service account may do anything, whatever RBAC says",
    ),
    Must(
        kind=_GKE,
        path=("masterAuth", "clientCertificateConfig", "issueClientCertificate"),
        values=(False, None),
        else_="there is a key of the cluster that nobody can take back",
    ),
)
# Sections that a resource must have, whatever they say.
_HAS: Mapping[str, Mapping[str, str]] = {
    "aws:eks/cluster:Cluster": {"encryptionConfig": "Secrets have no key of the stack's"},
    "aws:eks/nodeGroup:NodeGroup": {
        "launchTemplate": "its disks lie in the clear and pods get the node's credentials"
    },
    _GKE: {"workloadIdentityConfig": "pods get the node's credentials"},
}


def problems(resource: CloudResource) -> Iterator[str]:
    """A message for each field that is not as it must be, or that is not known."""
    for must in MUST:
        if must.kind == resource.kind:
            for path, value in _values(resource.body, must.path):
                if value is UNKNOWN:
                    yield _unjudged(resource, path)
                elif value not in must.values:
                    yield (
                        f"{resource.name}: {path} is {value!r}, so {must.else_}: "
                        f"set {must.values[0]!r}"
                    )
    for key, else_ in _HAS.get(resource.kind, {}).items():
        given = resource.body.get(key)
        if given is UNKNOWN:
            yield _unjudged(resource, key)
        elif not given:
            yield f"{resource.name}: {key} is missing, so {else_}"
    for path, value in _values(resource.body, _PUBLIC):
        if resource.kind == _TEMPLATE and value in (True, "true", UNKNOWN):
            yield f"{resource.name}: {path} is {value!r}, so {_NO_ADDRESS}: leave it out"
    yield from _everybody(resource)


def _everybody(resource: CloudResource) -> Iterator[str]:
    """Rights of a cloud for whoever asks."""
    # Of a project nobody can be so: IAM takes no such member there.
    if resource.kind.startswith("gcp:storage/bucketIAM"):
        members = resource.body.get("members")
        listed = members if isinstance(members, list) else [members]
        for member in (resource.body.get("member"), *listed):
            if member is UNKNOWN:
                yield _unjudged(resource, "member")
            elif member in _ANYBODY:
                yield f"{resource.name}: member is {member!r}, that is everybody: name who may"
    if resource.kind in _RESOURCE_POLICIES:
        text = resource.body.get("policy")
        if text is UNKNOWN:
            yield _unjudged(resource, "policy")
        elif any(documents.anybody(one) for _, one in documents.allowed(text)):
            yield f"{resource.name}: policy lets everybody in, without a condition: name who may"


def _values(body: Any, path: tuple[str, ...], said: str = "") -> Iterator[tuple[str, Any]]:
    """Every value at a path; None where the path ends before."""
    if not path or body is UNKNOWN:
        yield said, body
        return
    key, *rest = path
    if key == _EACH:
        # An empty list says as little of what must be in each as none.
        for index, one in enumerate(body if isinstance(body, list) and body else [None]):
            yield from _values(one, tuple(rest), f"{said}[{index}]")
        return
    inner = body.get(key) if isinstance(body, Mapping) else None
    yield from _values(inner, tuple(rest), f"{said}.{key}" if said else key)


def _unjudged(resource: CloudResource, path: str) -> str:
    return (
        f"{resource.name}: {path} is not known before the update, so nothing can be said of it: "
        "give it a value that the plan knows"
    )
