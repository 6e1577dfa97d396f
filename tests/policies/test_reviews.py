"""Edits of a shipped stack that a reviewer would catch, and the rules that refuse them."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from pulumi_policy import (
    PolicyResource,
    ResourceValidationArgs,
    StackValidationArgs,
)
from pulumi_policy.policy import PolicyResourceOptions
from pulumi_policy.proxy import unknown_checking_proxy

from railhead.base.wide import too_wide
from railhead.catalog.switches import SWITCHES
from railhead.policies import RULES, inputs
from railhead.policies.clouds import cloud_resource
from railhead.policies.plan import UNKNOWN as NOT_KNOWN
from railhead.policies.switches import forbidden
from tests.components.recording import STACKS, recorded
from tests.policies.planning import UNKNOWN, judge, options, provider

RELEASE = "kubernetes:helm.sh/v3:Release"
FIREWALL = "gcp:compute/firewall:Firewall"
GKE = "gcp:container/cluster:Cluster"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
MEMBER = "gcp:projects/iAMMember:IAMMember"
SERVICE = "kubernetes:core/v1:Service"

Body = dict[str, Any]
Plan = list[tuple[str, str, bool, Body]]


@functools.cache
def _shipped(stack: str) -> Plan:
    plan: Plan = []
    for r in recorded(stack, known=False).resources.values():
        if r.custom:
            # What is not known yet becomes the SDK's own mark of it.
            body = json.loads(json.dumps(r.inputs, default=lambda _: UNKNOWN))
            plan.append((r.type, r.name, r.protect, body))
    return plan


def shipped(stack: str) -> Plan:
    return copy.deepcopy(_shipped(stack))


def violations(plan: Plan) -> set[str]:
    """Names of the rules that refuse a plan, with what they say."""
    results: dict[str, list[str]] = {}
    resources, each = [], []
    for token, name, protect, body in plan:
        given: PolicyResourceOptions = options()
        given.protect = protect
        props, urn = unknown_checking_proxy(body), f"urn:{token}::{name}"
        resources.append(PolicyResource(token, props, urn, name, given, provider(), None, [], {}))
        each.append(ResourceValidationArgs(token, props, urn, name, given, provider(), None, {}))
    for rule in RULES:
        messages = results.setdefault(rule.name, [])
        report = lambda message, urn=None, into=messages: into.append(message)  # noqa: E731
        policy: Any = rule
        if policy.__class__.__name__ == "StackValidationPolicy":
            policy.validate(StackValidationArgs(resources, None, {}), report)
            continue
        for args in each:
            policy.validate(args, report)
    inputs.forget()
    return {name for name, entry in results.items() if entry} or set()


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_that_is_shipped_passes_every_rule(stack: str) -> None:
    assert violations(shipped(stack)) == set()


def of(plan: Plan, kind: str) -> Body:
    return next(b for t, _, _, b in plan if b.get("kind") == kind or t == kind)


def trainer(plan: Plan) -> Body:
    spec = of(plan, "ClusterTrainingRuntime")["spec"]["template"]["spec"]
    containers = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    return next(c for c in containers if c["name"] == "node")


def env(name: str, value: str) -> Callable[[Plan], None]:
    def edit(plan: Plan) -> None:
        variables = trainer(plan).setdefault("env", [])
        variables[:] = [v for v in variables if v["name"] != name] + [
            {"name": name, "value": value}
        ]

    return edit


def put(kind: str, *path: Any, value: Any) -> Callable[[Plan], None]:
    def edit(plan: Plan) -> None:
        at: Any = of(plan, kind)
        for key in path[:-1]:
            at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
        at[path[-1]] = value

    return edit


def add(token: str, body: Body) -> Callable[[Plan], None]:
    return lambda plan: plan.append((token, "added", False, body))


def _pool_twice(plan: Plan) -> None:
    again = copy.deepcopy(of(plan, "ResourceFlavor"))
    again["metadata"]["name"] = "again"
    again["spec"]["nodeLabels"]["team"] = "nlp"
    plan.append(("kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor", "again", False, again))


def _quota_1(plan: Plan) -> None:
    for group in of(plan, "ClusterQueue")["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            for row in flavor["resources"]:
                if row["name"] == "nvidia.com/gpu":
                    row["nominalQuota"] = "1"


def _never_ran(plan: Plan) -> None:
    (release,) = [
        body
        for kind, _, _, body in plan
        if kind == "kubernetes:helm.sh/v3:Release" and body["name"] == "kueue"
    ]
    release["version"] = "0.19.2"


def _impatient(plan: Plan) -> None:
    manager = next(
        b["values"]["managerConfig"]
        for t, _, _, b in plan
        if t == RELEASE and b.get("name") == "kueue"
    )
    key = "controllerManagerConfigYaml"
    manager[key] = manager[key].replace("waitForPodsReady:", "waitForPodsReadyNot:")


def _no_claim(plan: Plan) -> None:
    plan[:] = [item for item in plan if item[3].get("kind") != "PersistentVolumeClaim"]


def _sys_admin(plan: Plan) -> None:
    trainer(plan)["securityContext"]["capabilities"] = {"add": ["IPC_LOCK", "SYS_ADMIN"]}


def _latest(plan: Plan) -> None:
    trainer(plan)["image"] = trainer(plan)["image"].rpartition(":")[0] + ":latest"


def _branch(plan: Plan) -> None:
    trainer(plan)["image"] = trainer(plan)["image"].rpartition(":")[0] + ":main"


def _untagged(plan: Plan) -> None:
    trainer(plan)["image"] = "registry:5000/team/train"


def _pod(plan: Plan) -> Body:
    spec = of(plan, "ClusterTrainingRuntime")["spec"]["template"]["spec"]
    pod: Body = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod


def _privileged(plan: Plan) -> None:
    trainer(plan)["securityContext"]["privileged"] = True


def _host_path(plan: Plan) -> None:
    _pod(plan)["volumes"].append({"name": "root", "hostPath": {"path": "/"}})


def _host_network(plan: Plan) -> None:
    _pod(plan)["hostNetwork"] = True


def _no_shm(plan: Plan) -> None:
    mounts = trainer(plan)["volumeMounts"]
    mounts[:] = [mount for mount in mounts if mount["mountPath"] != "/dev/shm"]


def _shm_on_disk(plan: Plan) -> None:
    for volume in _pod(plan)["volumes"]:
        if "medium" in volume.get("emptyDir", {}):
            volume["emptyDir"] = {"sizeLimit": "64Gi"}


def _unprotected(plan: Plan) -> None:
    kind = "aws:fsx/lustreFileSystem:LustreFileSystem"
    plan[:] = [(t, name, p and t != kind, body) for t, name, p, body in plan]


def _without_efa(plan: Plan) -> None:
    device = "vpc.amazonaws.com/efa"
    for group in of(plan, "ClusterQueue")["spec"]["resourceGroups"]:
        group["coveredResources"].remove(device)
        for flavor in group["flavors"]:
            flavor["resources"] = [r for r in flavor["resources"] if r["name"] != device]


AWS, GCP = "aws-p5-prod", "gcp-a3-ultra"
BINDING = "ValidatingAdmissionPolicyBinding"
EDITS: dict[str, tuple[str, Callable[[Plan], None], str]] = {
    "half the internet": (
        AWS,
        add("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", {"cidrIpv4": "0.0.0.0/1"}),
        "cloud-is-closed",
    ),
    "the other half": (
        GCP,
        add(FIREWALL, {"allows": [{"protocol": "tcp"}], "sourceRanges": ["128.0.0.0/1"]}),
        "cloud-is-closed",
    ),
    "a firewall rule for anybody": (
        GCP,
        add(FIREWALL, {"allows": [{"protocol": "tcp"}]}),
        "cloud-is-closed",
    ),
    "a share in the clear": (
        AWS,
        put("aws:efs/fileSystem:FileSystem", "encrypted", value=False),
        "cloud-is-hardened",
    ),
    "a public GKE endpoint": (
        GCP,
        put(GKE, "controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled", value=True),
        "cloud-is-closed",
    ),
    "a public EKS endpoint": (
        AWS,
        put("aws:eks/cluster:Cluster", "vpcConfig", value={"endpointPublicAccess": True}),
        "cloud-is-closed",
    ),
    "privileged": (AWS, _privileged, "no-reach-into-nodes"),
    "hostNetwork": (AWS, _host_network, "no-reach-into-nodes"),
    "hostPath": (AWS, _host_path, "no-reach-into-nodes"),
    "no shm": (AWS, _no_shm, "training-has-shared-memory"),
    "shm on disk": (AWS, _shm_on_disk, "training-has-shared-memory"),
    "protect dropped": (AWS, _unprotected, "protected-is-protected"),
    "a device left out": (AWS, _without_efa, "queue-covers-devices"),
    "a kind that no rule knows": (
        AWS,
        add("aws:ec2/networkAclRule:NetworkAclRule", {"cidrBlock": "0.0.0.0/0"}),
        "plan-is-seen",
    ),
    "a guard unbound": (AWS, put(BINDING, "spec", "policyName", value="none"), "guards-refuse"),
    "SYS_ADMIN": (AWS, _sys_admin, "no-reach-into-nodes"),
    "a claim gone": (AWS, _no_claim, "checkpoints-are-kept"),
    "a claim that may be deleted": (
        AWS,
        put("PersistentVolumeClaim", "metadata", "labels", value={}),
        "checkpoints-are-kept",
    ),
    "a class that deletes": (
        AWS,
        put("StorageClass", "reclaimPolicy", value="Delete"),
        "checkpoints-are-kept",
    ),
    "a claim for one node": (
        AWS,
        put("PersistentVolumeClaim", "spec", "accessModes", value=["ReadWriteOnce"]),
        "checkpoints-are-kept",
    ),
    "a volume that goes with its claim": (
        AWS,
        put("PersistentVolume", "spec", "persistentVolumeReclaimPolicy", value="Delete"),
        "checkpoints-are-kept",
    ),
    "latest": (AWS, _latest, "images-are-named"),
    "no tag": (GCP, _untagged, "images-are-named"),
    "a branch as a tag": (AWS, _branch, "images-are-named"),
    "a chart without a version": (
        AWS,
        add(RELEASE, {"name": "mlflow", "chart": "mlflow"}),
        "images-are-named",
    ),
    "a public load balancer": (
        AWS,
        add(
            SERVICE,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "board"},
                "spec": {"type": "LoadBalancer"},
            },
        ),
        "cloud-is-closed",
    ),
    "all of S3": (
        AWS,
        add(ATTACHMENT, {"policyArn": "arn:aws:iam::aws:policy/AmazonS3FullAccess"}),
        "nobody-has-everything",
    ),
    "all of S3 by hand": (
        AWS,
        add(
            "aws:iam/rolePolicy:RolePolicy",
            {"policy": '{"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "a"}]}'},
        ),
        "nobody-has-everything",
    ),
    **{
        f"a role that gets {resource}": (
            AWS,
            put(
                "ClusterRole",
                "rules",
                value=[{"apiGroups": [""], "resources": [resource], "verbs": ["get", "create"]}],
            ),
            "nobody-has-everything",
        )
        for resource in ("secrets", "nodes/proxy", "serviceaccounts/token")
    },
    "IB off": (AWS, env("NCCL_IB_DISABLE", "1"), "jobs-stay-on-the-fabric"),
    "sockets": (AWS, env("NCCL_NET", "Socket"), "jobs-stay-on-the-fabric"),
    "loopback": (GCP, env("NCCL_SOCKET_IFNAME", "lo"), "jobs-stay-on-the-fabric"),
    "P2P off": (GCP, env("NCCL_P2P_DISABLE", "1"), "jobs-stay-on-the-fabric"),
    "a Kueue that was only read": (AWS, _never_ran, "versions-ran"),
    "waits for ever": (AWS, _impatient, "gangs-start-or-give-back"),
    "administrator": (
        AWS,
        add(ATTACHMENT, {"policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}),
        "nobody-has-everything",
    ),
    "everything by hand": (
        AWS,
        add(
            "aws:iam/rolePolicy:RolePolicy",
            {
                "policy": json.dumps(
                    {"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": "*"}]}
                )
            },
        ),
        "nobody-has-everything",
    ),
    "a role for any account": (
        AWS,
        add(
            "aws:iam/role:Role",
            {
                "assumeRolePolicy": json.dumps(
                    {"Statement": {"Effect": "Allow", "Principal": {"AWS": "*"}}}
                )
            },
        ),
        "nobody-has-everything",
    ),
    "owner in a policy as a whole": (
        GCP,
        add(
            "gcp:projects/iAMPolicy:IAMPolicy",
            {"policyData": json.dumps({"bindings": [{"role": "roles/owner", "members": []}]})},
        ),
        "nobody-has-everything",
    ),
    "owner": (GCP, add(MEMBER, {"role": "roles/owner"}), "nobody-has-everything"),
    "researchers may all": (
        AWS,
        put(
            "ClusterRole",
            "rules",
            value=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}],
        ),
        "nobody-has-everything",
    ),
    "cluster-admin": (
        AWS,
        put(
            "ClusterRoleBinding", "roleRef", value={"kind": "ClusterRole", "name": "cluster-admin"}
        ),
        "nobody-has-everything",
    ),
    "for everybody": (
        AWS,
        put(
            "ClusterRoleBinding",
            "subjects",
            value=[{"kind": "Group", "name": "system:authenticated"}],
        ),
        "nobody-has-everything",
    ),
    "audit": (AWS, put(BINDING, "spec", "validationActions", value=["Audit"]), "guards-refuse"),
    "fails open": (
        AWS,
        put("ValidatingAdmissionPolicy", "spec", "failurePolicy", value="Ignore"),
        "guards-refuse",
    ),
    "one pool twice": (AWS, _pool_twice, "pools-are-apart"),
    "quota 1": (AWS, _quota_1, "quotas-hold-a-gang"),
}


#: What a review of a change must catch -> the edits above that are it.
REVIEW = {
    "privileged, hostNetwork, hostPath": ("privileged", "hostNetwork", "hostPath"),
    "no or disk-backed shm": ("no shm", "shm on disk"),
    "protect dropped": ("protect dropped",),
    "queue omits a device": ("a device left out",),
    "0.0.0.0/0, 0.0.0.0/1": ("half the internet", "the other half"),
    "a GCP rule without source ranges": ("a firewall rule for anybody",),
    "public endpoint": ("a public EKS endpoint", "a public GKE endpoint"),
    "SYS_ADMIN in a runtime": ("SYS_ADMIN",),
    "checkpoint deleted, ReadWriteOnce": ("a claim gone", "a claim for one node"),
    ":latest": ("latest",),
    "NCCL_IB_DISABLE, NCCL_SOCKET_IFNAME": ("IB off", "loopback"),
    "waitForPodsReady off": ("waits for ever",),
    "AdministratorAccess, roles/owner": ("administrator", "owner"),
    "researchers *": ("researchers may all",),
    "guards from Deny to Audit": ("audit",),
    "two pools one selector": ("one pool twice",),
    "quota 1": ("quota 1",),
}


@pytest.mark.parametrize("line", REVIEW)
def test_each_line_of_a_review_is_an_edit_that_is_tried(line: str) -> None:
    """The engine's own protection refuses the replacement of a pool, a file system or a name."""
    assert set(REVIEW[line]) <= set(EDITS)


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_refused_by_its_rule_and_by_no_other(edit: str) -> None:
    stack, change, rule = EDITS[edit]
    plan = shipped(stack)
    change(plan)
    assert violations(plan) == {rule}


_TRAINER = (
    *("ClusterTrainingRuntime", "spec", "template", "spec", "replicatedJobs", 0, "template"),
    *("spec", "template", "spec"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (put(BINDING, "spec", "validationActions", value=UNKNOWN), "guards-refuse"),
        (put("ResourceFlavor", "spec", "nodeLabels", value=UNKNOWN), "pools-are-apart"),
        (
            put("PersistentVolumeClaim", "spec", "accessModes", value=UNKNOWN),
            "checkpoints-are-kept",
        ),
        (put("ClusterRole", "rules", value=UNKNOWN), "nobody-has-everything"),
        (env("NCCL_NET", UNKNOWN), "jobs-stay-on-the-fabric"),
        (put("ClusterQueue", "spec", value=UNKNOWN), "queue-covers-devices"),
        (
            put("ClusterQueue", "spec", "resourceGroups", 0, "flavors", value=UNKNOWN),
            "queue-covers-devices",
        ),
        (
            put(
                *("ClusterQueue", "spec", "resourceGroups", 0, "flavors", 0, "resources", 0),
                "nominalQuota",
                value=UNKNOWN,
            ),
            "queue-covers-devices",
        ),
        (put(*_TRAINER, "containers", value=UNKNOWN), "jobs-stay-on-the-fabric"),
        (put(*_TRAINER, "containers", 0, value=UNKNOWN), "jobs-stay-on-the-fabric"),
        (
            put("ClusterTrainingRuntime", "spec", "mlPolicy", "numNodes", value=UNKNOWN),
            "quotas-hold-a-gang",
        ),
        (put("ClusterTrainingRuntime", "spec", "mlPolicy", value=UNKNOWN), "quotas-hold-a-gang"),
        (add(ATTACHMENT, {"policyArn": UNKNOWN}), "plan-is-seen"),
        (add(MEMBER, {"role": UNKNOWN}), "nobody-has-everything"),
        (add("aws:iam/rolePolicy:RolePolicy", {"policy": UNKNOWN}), "nobody-has-everything"),
        (add("aws:iam/role:Role", {"assumeRolePolicy": UNKNOWN}), "nobody-has-everything"),
        (
            add("aws:iam/role:Role", {"inlinePolicies": [{"policy": UNKNOWN}]}),
            "nobody-has-everything",
        ),
        (add("aws:s3/bucketPolicy:BucketPolicy", {"policy": UNKNOWN}), "nobody-has-everything"),
        (
            add("gcp:projects/iAMPolicy:IAMPolicy", {"policyData": UNKNOWN}),
            "nobody-has-everything",
        ),
    ],
)
def test_what_is_not_known_is_refused(edit: Callable[[Plan], None], rule: str) -> None:
    plan = shipped(AWS)
    edit(plan)
    assert rule in violations(plan)


def _changed(old: Any, new: Any) -> list[tuple[Any, ...]]:
    """Paths at which a value is another, as deep as both have the same shape."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(k for k in new if k not in old)]
        return [
            (key, *path)
            for key in keys
            for path in (_changed(old[key], new[key]) if key in old and key in new else [()])
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [(at, *path) for at, (item, other) in pairs for path in _changed(item, other)]
    return [] if old == new else [()]


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS)
def test_where_an_edit_is_refused_nothing_known_is_refused_too(edit: str) -> None:
    """The edited value, or the object that holds it, is unknown."""
    stack, change, _ = EDITS[edit]
    before, after = shipped(stack), shipped(stack)
    change(after)
    # What is added is at the end, and what it lacks is for the tests of its rule.
    for index, ((_, _, _, old), (_, _, _, new)) in enumerate(zip(before, after, strict=False)):
        for path in _changed(old, new)[:1]:
            for depth in range(max(1, len(path) - 1), len(path) + 1):
                plan = copy.deepcopy(after)
                at: Any = plan[index][3]
                for key in path[: depth - 1]:
                    at = at[key]
                if isinstance(at, dict) and path[depth - 1] not in at:
                    continue
                at[path[depth - 1]] = UNKNOWN
                assert violations(plan), (path[:depth], "passes")


def test_every_rule_of_this_page_is_tried() -> None:
    elsewhere = {
        "plan-is-kept",
        "no-capacity-bought",
    }
    assert {rule for _, _, rule in EDITS.values()} == {r.name for r in RULES} - elsewhere


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/7", "::/0", "2000::/3"])
def test_network_of_everyone_is_too_wide(cidr: str) -> None:
    assert too_wide(cidr)


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "203.0.113.0/24", "fd00::/16", "no network", None])
def test_limited_network_is_accepted(cidr: str) -> None:
    assert not too_wide(cidr)


def test_the_list_of_switches_is_the_catalogue_s() -> None:
    assert set(SWITCHES) <= set(forbidden(None))


def test_the_dns_endpoint_and_a_private_address_are_closed() -> None:
    by_name = {"controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": False}}}
    private = {"privateClusterConfig": {"enablePrivateEndpoint": True}}
    named = {"masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": "203.0.113.0/24"}]}}
    for body in (by_name, private, named):
        assert not judge("cloud-is-closed", body, types={0: GKE})
    assert judge("cloud-is-closed", {"name": "it"}, types={0: GKE})
    result = cloud_resource(GKE, "urn", "it", unknown_checking_proxy({"a": UNKNOWN}), protect=False)
    assert result is not None
    assert result.body["a"] is NOT_KNOWN
