"""Rules for clusters on clouds: closed to the world, protected as they say, nothing bought."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from railhead.policies import hardened
from railhead.policies.clouds import (
    CloudResource,
    bought,
    cloud_resource,
    open_to_the_world,
    unprotected,
)
from railhead.policies.known import KNOWN, apart
from tests.components.recording import STACKS, recorded
from tests.policies.planning import judge

CLOUDS = [stack for stack in STACKS if stack.startswith(("aws-", "gcp-"))]
RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
CLUSTER = "aws:eks/cluster:Cluster"
POOL = "aws:eks/nodeGroup:NodeGroup"
FIREWALL = "gcp:compute/firewall:Firewall"


def planned(token: str, protect: bool = False, **body: Any) -> CloudResource:
    result = cloud_resource(token, "urn", "it", unknown_checking_proxy(body), protect=protect)
    assert result is not None
    return result


@pytest.mark.slow
@pytest.mark.parametrize("stack", CLOUDS)
def test_the_stacks_that_are_shipped_obey(stack: str) -> None:
    recording = recorded(stack)
    resources = [
        result
        for r in recording.resources.values()
        if r.custom
        and (result := cloud_resource(r.type, r.urn, r.name, r.inputs, protect=r.protect))
    ]
    assert len(resources) > 20
    judged = (open_to_the_world, bought, hardened.problems)
    assert not [m for r in resources for rule in judged for m in rule(r)]
    assert not list(unprotected(resources))


@pytest.mark.parametrize(
    ("token", "body", "where"),
    [
        (RULE, {"cidrIpv4": "0.0.0.0/0"}, "cidrIpv4"),
        (RULE, {"cidrIpv6": "::/0"}, "cidrIpv6"),
        (GROUP, {"ingress": [{"cidrBlocks": ["10.0.0.0/8", "0.0.0.0/0"]}]}, "[0].cidrBlocks[1]"),
        (
            "aws:ec2/securityGroupRule:SecurityGroupRule",
            {"type": "ingress", "cidrBlocks": ["0.0.0.0/0"]},
            "cidrBlocks[0]",
        ),
        (CLUSTER, {"vpcConfig": {"endpointPublicAccess": True}}, "publicAccessCidrs[0]"),
        (CLUSTER, {"vpcConfig": {}}, "publicAccessCidrs[0]"),
        (
            CLUSTER,
            {"vpcConfig": {"endpointPublicAccess": True, "publicAccessCidrs": ["0.0.0.0/0"]}},
            "publicAccessCidrs[0]",
        ),
        (FIREWALL, {"sourceRanges": ["0.0.0.0/0"]}, "sourceRanges[0]"),
    ],
)
def test_rule_that_admits_the_internet_is_refused(
    token: str, body: dict[str, Any], where: str
) -> None:
    (message,) = open_to_the_world(planned(token, **body))
    assert where in message
    assert "the internet" in message


@pytest.mark.parametrize(
    ("token", "body"),
    [
        (RULE, {"cidrIpv4": UNKNOWN_STRING_VALUE}),
        (GROUP, {"ingress": UNKNOWN_STRING_VALUE}),
        (GROUP, {"ingress": [{"cidrBlocks": UNKNOWN_STRING_VALUE}]}),
        (CLUSTER, {"vpcConfig": UNKNOWN_STRING_VALUE}),
        (CLUSTER, {"vpcConfig": {"endpointPublicAccess": UNKNOWN_STRING_VALUE}}),
    ],
)
def test_what_is_not_known_is_not_passed(token: str, body: dict[str, Any]) -> None:
    (message,) = open_to_the_world(planned(token, **body))
    assert "not known before the update" in message


@pytest.mark.parametrize(
    ("token", "body"),
    [
        (RULE, {"cidrIpv4": "10.0.0.0/8"}),
        (RULE, {"referencedSecurityGroupId": UNKNOWN_STRING_VALUE}),
        (GROUP, {"egress": [{"cidrBlocks": ["0.0.0.0/0"]}]}),
        (CLUSTER, {"vpcConfig": {"endpointPublicAccess": False}}),
        (FIREWALL, {"direction": "EGRESS", "sourceRanges": ["0.0.0.0/0"]}),
        ("aws:ec2/route:Route", {"destinationCidrBlock": "0.0.0.0/0"}),
    ],
)
def test_egress_and_named_networks_are_accepted(token: str, body: dict[str, Any]) -> None:
    assert not list(open_to_the_world(planned(token, **body)))


def test_plan_that_buys_a_capacity_block_is_refused() -> None:
    block = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
    (message,) = bought(planned(block, instancePlatform="Linux/UNIX"))
    assert "buy it by hand" in message
    assert not list(bought(planned("aws:ec2/capacityReservation:CapacityReservation")))


class TestProtection:
    GPU = planned(POOL, amiType="AL2023_x86_64_NVIDIA")

    @pytest.mark.parametrize("value", [True, UNKNOWN_STRING_VALUE])
    def test_a_protected_cluster_protects_what_it_has(self, value: Any) -> None:
        cluster = planned(CLUSTER, True, deletionProtection=value)
        (result,) = unprotected([cluster, self.GPU])
        assert "pass protect=True" in result[0]

    def test_the_controllers_pool_may_go(self) -> None:
        cluster = planned(CLUSTER, True, deletionProtection=True)
        assert not list(unprotected([cluster, planned(POOL, amiType="AL2023_x86_64_STANDARD")]))

    def test_file_systems_and_the_cluster_itself(self) -> None:
        cluster = planned(CLUSTER, deletionProtection=True)
        lustre = planned("aws:fsx/lustreFileSystem:LustreFileSystem", storageCapacity=1200)
        assert len(list(unprotected([cluster, lustre]))) == 2

    def test_unprotected_cluster_may_have_unprotected_pools(self) -> None:
        assert not list(unprotected([planned(CLUSTER, deletionProtection=False), self.GPU]))


class TestPack:
    """The same, as the engine hands them to the pack."""

    def test_rules_report_to_the_resource(self) -> None:
        body = {"cidrIpv4": "0.0.0.0/0"}
        (message,) = judge("cloud-is-closed", body, types={0: RULE})
        assert "the internet" in message
        block = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
        assert len(judge("no-capacity-bought", {}, types={0: block})) == 1

    def test_protection_is_read_from_the_options(self) -> None:
        cluster, pool = {"deletionProtection": True}, {"amiType": "AL2023_x86_64_NVIDIA"}
        # What the tests hand over is not protected.
        assert len(judge("protected-is-protected", cluster, pool, types={0: CLUSTER, 1: POOL})) == 2

    @pytest.mark.parametrize(
        "rule", ["cloud-is-closed", "no-capacity-bought", "protected-is-protected"]
    )
    def test_cloud_rules_ignore_objects_of_the_cluster(self, rule: str) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        assert judge(rule, pod) == []


def test_what_is_in_the_cluster_is_no_cloud_resource() -> None:
    assert cloud_resource("kubernetes:core/v1:Pod", "urn", "it", {}, protect=False) is None


@pytest.mark.parametrize("must", hardened.MUST, ids=lambda must: ".".join(must.path))
def test_hardening_field_is_required(must: hardened.Must) -> None:
    def with_(value: Any) -> CloudResource:
        body = value
        for key in reversed(must.path):
            body = [body] if key == "[]" else {key: body}
        return planned(must.kind, **body)

    def of(value: Any) -> list[str]:
        leaf = [key for key in must.path if key != "[]"][-1]
        return [m for m in hardened.problems(with_(value)) if f"{leaf} is" in m]

    for value in must.values:
        assert not of(value)
    for value in {"other", None, UNKNOWN_STRING_VALUE} - {v for v in must.values if v is None}:
        assert len(of(value)) == 1


TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
POLICY = "aws:s3/bucketPolicy:BucketPolicy"
TLS = {"Condition": {"Bool": {"aws:SecureTransport": "true"}}}
BUCKET = "aws:s3/bucket:Bucket"
ALL = "http://acs.amazonaws.com/groups/global/AllUsers"
GRANTED = {"accessControlPolicy": {"grants": [{"grantee": {"uri": ALL}, "permission": "READ"}]}}
OPENED = (
    *("aws:ecr/repositoryPolicy:RepositoryPolicy", "aws:sns/topic:Topic", BUCKET),
    *("aws:sns/topicPolicy:TopicPolicy", "aws:sqs/queue:Queue", "aws:sqs/queuePolicy:QueuePolicy"),
)
ANYBODY = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}


@pytest.mark.parametrize(
    ("token", "body", "said"),
    [
        (CLUSTER, {}, "encryptionConfig is missing"),
        (TEMPLATE, {"networkInterfaces": [{"associatePublicIpAddress": "true"}]}, "internet"),
        (MEMBER, {"member": "allUsers"}, "everybody"),
        (
            "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
            {"member": "allUsers"},
            "everybody",
        ),
        (MEMBER, {"members": ["user:a", "allAuthenticatedUsers"]}, "everybody"),
        (MEMBER, {"member": UNKNOWN_STRING_VALUE}, "not known"),
        (POLICY, {"policy": json.dumps({"Statement": ANYBODY})}, "everybody"),
        (POLICY, {"policy": UNKNOWN_STRING_VALUE}, "not known"),
        *((token, {"policy": json.dumps({"Statement": ANYBODY})}, "everybody") for token in OPENED),
        (POLICY, {"policy": json.dumps({"Statement": ANYBODY | TLS})}, "everybody"),
        (BUCKET, {"acl": "public-read"}, "acl is 'public-read', that is everybody"),
        (BUCKET, {"acl": UNKNOWN_STRING_VALUE}, "acl is not known"),
        (BUCKET, {"grants": [{"uri": ALL}]}, "grants[0].uri"),
        ("aws:s3/bucketAcl:BucketAcl", GRANTED, "grants[0].grantee.uri"),
        ("aws:s3/bucketObjectv2:BucketObjectv2", {"acl": "authenticated-read"}, "everybody"),
        ("aws:iam/accessKey:AccessKey", {"user": "ci"}, "a key that never ends"),
        ("aws:iam/userLoginProfile:UserLoginProfile", {"user": "ann"}, "a password"),
    ],
)
def test_public_grant_is_refused(token: str, body: dict[str, Any], said: str) -> None:
    assert [m for m in hardened.problems(planned(token, **body)) if said in m]


def test_conditional_or_named_policy_is_not_public() -> None:
    for more in ({"Condition": {"Bool": {"x": "y"}}}, {"Principal": {"AWS": "arn"}}):
        text = json.dumps({"Statement": [ANYBODY | more]})
        assert not list(hardened.problems(planned(POLICY, policy=text)))
    assert not list(hardened.problems(planned(MEMBER, member="user:a")))
    for token in (*OPENED, "aws:iam/user:User", "aws:iam/groupMembership:GroupMembership"):
        body: dict[str, Any] = {"acl": "private", "grants": [{"id": "a", "permissions": ["READ"]}]}
        assert not list(hardened.problems(planned(token, **body))), token
        assert token in KNOWN or apart(token, component=False), token
