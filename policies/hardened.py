"""Rules for a cloud's encryption, and against public nodes and buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from railhead.policies import documents
from railhead.policies.clouds import CloudResource
from railhead.policies.plan import UNKNOWN

_EACH = "[]"
_ANYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})
# Policies of a resource itself: those who are named there need no other right.
_RESOURCE_POLICIES = frozenset(
    {
        "aws:ecr/repositoryPolicy:RepositoryPolicy",
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "aws:kms/key:Key",
        "aws:s3/bucket:Bucket",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:s3/bucketV2:BucketV2",
        "aws:sns/topic:Topic",
        "aws:sns/topicPolicy:TopicPolicy",
        "aws:sqs/queue:Queue",
        "aws:sqs/queuePolicy:QueuePolicy",
    }
)
# Canned ACLs and groups of S3's that name everybody (AWS, S3 user guide, "Access control list").
_OPEN_ACLS = ("public-read", "public-read-write", "authenticated-read")
_OPEN_GROUPS = ("/groups/global/AllUsers", "/groups/global/AuthenticatedUsers")
# What outlives its use: the secret is in the state, and nothing ends it.
_LASTING: Mapping[str, str] = {
    "aws:iam/accessKey:AccessKey": "a key that never ends, in the state: let a role be taken",
    "aws:iam/userLoginProfile:UserLoginProfile": "a password, in the state: use single sign-on",
}


@dataclass(frozen=True, kw_only=True)
class Must:
    """A field that must have one of several values; ``[]`` in ``path`` is each list element."""

    kind: str
    path: tuple[str, ...]
    values: tuple[Any, ...]
    else_: str


_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_BUCKET = "gcp:storage/bucket:Bucket"
_NODE_POOL = "gcp:container/nodePool:NodePool"
_GKE = "gcp:container/cluster:Cluster"
_PUBLIC = ("networkInterfaces", _EACH, "associatePublicIpAddress")
_ACLS = (
    ("acl",),
    ("grants", _EACH, "uri"),
    ("accessControlPolicy", "grants", _EACH, "grantee", "uri"),
)
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
    # S3 user guide, "Blocking public access": each of the four is off where it is left out.
    *(
        Must(
            kind=f"aws:s3/{kind[0].lower()}{kind[1:]}:{kind}",
            path=(path,),
            values=(True,),
            else_="a policy or an ACL opens what is in it to everybody",
        )
        for kind in ("BucketPublicAccessBlock", "AccountPublicAccessBlock")
        for path in (
            *("blockPublicAcls", "ignorePublicAcls"),
            *("blockPublicPolicy", "restrictPublicBuckets"),
        )
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
# Sections that a resource must have, with any content.
_HAS: Mapping[str, Mapping[str, str]] = {
    "aws:eks/cluster:Cluster": {"encryptionConfig": "Secrets have no key of the stack's"},
    "aws:eks/nodeGroup:NodeGroup": {
        "launchTemplate": "its disks lie in the clear and pods get the node's credentials"
    },
    _GKE: {"workloadIdentityConfig": "pods get the node's credentials"},
}


def problems(resource: CloudResource) -> Iterator[str]:
    """Yield a message for each field that is wrong or unknown."""
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
    if what := _LASTING.get(resource.kind):
        yield f"{resource.name}: is {what}"


def _everybody(resource: CloudResource) -> Iterator[str]:
    """Yield a message for each right of a cloud that everyone has."""
    if resource.kind.startswith("gcp:") and "iam" in resource.kind.lower():
        yield from _members(resource)
    if resource.kind in _RESOURCE_POLICIES:
        text = resource.body.get("policy")
        if text is UNKNOWN:
            yield _unjudged(resource, "policy")
        elif any(documents.anybody(item) for _, item in documents.allowed(text)):
            yield f"{resource.name}: policy lets everybody in, without a condition: name who may"
    if resource.kind.startswith("aws:s3/"):
        yield from _grants(resource)


def _members(resource: CloudResource) -> Iterator[str]:
    """Yield a message for each member of an IAM binding of Google's that is everybody."""
    members = resource.body.get("members")
    listed = members if isinstance(members, list) else [members]
    for member in (resource.body.get("member"), *listed):
        # Other bindings name accounts that the same update makes.
        if member is UNKNOWN and resource.kind.startswith("gcp:storage/"):
            yield _unjudged(resource, "member")
        elif member in _ANYBODY:
            yield _open(resource, "member", member)


def _grants(resource: CloudResource) -> Iterator[str]:
    """Yield a message for each part of an ACL of S3's that names everybody."""
    for keys in _ACLS:
        for path, value in _values(resource.body, keys):
            if value is UNKNOWN:
                yield _unjudged(resource, path)
            elif value in _OPEN_ACLS or str(value).endswith(_OPEN_GROUPS):
                yield _open(resource, path, value)


def _values(body: Any, path: tuple[str, ...], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value at a path; None if the path ends early."""
    if not path or body is UNKNOWN:
        yield prefix, body
        return
    key, *rest = path
    if key == _EACH:
        # An empty list lacks the required fields just as a missing one does.
        for index, item in enumerate(body if isinstance(body, list) and body else [None]):
            yield from _values(item, tuple(rest), f"{prefix}[{index}]")
        return
    inner = body.get(key) if isinstance(body, Mapping) else None
    yield from _values(inner, tuple(rest), f"{prefix}.{key}" if prefix else key)


def _open(resource: CloudResource, path: str, value: Any) -> str:
    return f"{resource.name}: {path} is {value!r}, that is everybody: name who may"


def _unjudged(resource: CloudResource, path: str) -> str:
    return (
        f"{resource.name}: {path} is not known before the update, so nothing can be said of it: "
        "give it a value that the plan knows"
    )
