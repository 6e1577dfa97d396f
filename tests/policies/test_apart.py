"""Resources that no training stands on pass; those that it stands on, and the unknown, do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pulumi_policy import PolicyResource, ResourceValidationArgs, StackValidationArgs
from pulumi_policy.proxy import unknown_checking_proxy

from railhead.policies import inputs
from tests.policies.planning import UNKNOWN, judge, options, provider
from tests.policies.test_inputs import rule

DEPLOYMENT = "kubernetes:apps/v1:Deployment"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    inputs.forget()
    yield
    inputs.forget()


def seen(token: str, *, component: bool = False, **config: Any) -> list[str]:
    """Return what `plan-is-seen` says of one resource."""
    messages: list[str] = []
    of = None if component else provider()
    item = PolicyResource(
        token, unknown_checking_proxy({"a": 1}), "urn", "it", options(), of, None, [], {}
    )
    rule("plan-is-seen").validate(
        StackValidationArgs([item], config, {}),
        lambda message, urn=None: messages.append(message),
    )
    return messages


HARMLESS = [
    "aws:cloudwatch/metricAlarm:MetricAlarm",
    "aws:s3/bucket:Bucket",
    "aws:budgets/budget:Budget",
    "random:index/randomPassword:RandomPassword",
    "gcp:monitoring/alertPolicy:AlertPolicy",
    "gcp:compute/address:Address",
    "aws:sns/topicSubscription:TopicSubscription",
    "aws:s3/bucketWebsiteConfiguration:BucketWebsiteConfiguration",
    "aws:glue/catalogTable:CatalogTable",
    "aws:ec2/flowLog:FlowLog",
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
]


@pytest.mark.parametrize("token", HARMLESS)
def test_what_no_training_stands_on_passes_unless_closed(token: str) -> None:
    assert not seen(token)
    assert seen(token, apart=False)


@pytest.mark.parametrize(
    "token",
    [
        # A copy's ACL, a public database, a public address: no rule reads their inputs.
        "aws:s3/objectCopy:ObjectCopy",
        "aws:redshift/cluster:Cluster",
        "aws:ecs/service:Service",
        "aws:ebs/volume:Volume",
        "aws:dynamodb/resourcePolicy:ResourcePolicy",
        "aws:glue/resourcePolicy:ResourcePolicy",
        "command:local:Command",
    ],
)
def test_what_may_open_something_is_still_reported(token: str) -> None:
    assert seen(token)


def test_component_passes_and_a_resource_of_its_package_not() -> None:
    assert not seen("acme:index:Notebooks", component=True)
    assert seen("acme:index:Notebooks")
    assert seen("acme:index:Notebooks", component=True, apart=False)
    assert seen("aws:ebs/volume:Volume", component=True)


@pytest.mark.parametrize(
    ("metadata", "passes"), [({}, True), ({"labels": {}}, True), ({"name": UNKNOWN}, False)]
)
def test_a_name_that_pulumi_gives_is_known_enough(metadata: Any, *, passes: bool) -> None:
    given = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    rule("plan-is-kept").validate(
        ResourceValidationArgs(
            DEPLOYMENT, unknown_checking_proxy(given), "urn", "it", options(), provider(), None, {}
        ),
        lambda message, urn=None: pytest.fail(message),
    )
    assert bool(seen(DEPLOYMENT)) is not passes


def _claim(namespace: str | None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", **({"namespace": namespace} if namespace else {})},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }


QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "q", "namespace": "training"},
    "spec": {"clusterQueue": "training"},
}


def test_claim_of_another_namespace_is_not_a_checkpoint() -> None:
    assert not judge("checkpoints-are-kept", QUEUE, _claim("grafana"))
    assert judge("checkpoints-are-kept", QUEUE, _claim("training"))
    # Where no queue says which namespaces are training's, each may be.
    assert judge("checkpoints-are-kept", _claim("grafana"))
    hidden = {**QUEUE, "metadata": {"name": "q", "namespace": UNKNOWN}}
    assert judge("checkpoints-are-kept", hidden, _claim("grafana"))


def test_claim_without_a_namespace_is_in_the_default_one() -> None:
    in_default = {**QUEUE, "metadata": {"name": "q"}}
    assert not judge("checkpoints-are-kept", QUEUE, _claim(None))
    assert judge("checkpoints-are-kept", in_default, _claim(None))
    assert judge("checkpoints-are-kept", in_default, _claim("default"))
    assert judge("checkpoints-are-kept", _claim(None))


def test_attached_policy_of_the_same_program_is_judged_by_itself() -> None:
    policy = PolicyResource(
        "aws:iam/policy:Policy", {}, "urn:p", "p", options(), provider(), None, [], {}
    )
    bucket = PolicyResource(
        "aws:s3/bucket:Bucket", {}, "urn:b", "b", options(), provider(), None, [], {}
    )
    for token, body, made_from, passes in (
        ("rolePolicyAttachment:RolePolicyAttachment", {"policyArn": UNKNOWN}, [policy], True),
        ("userPolicyAttachment:UserPolicyAttachment", {"policyArn": UNKNOWN}, [bucket], False),
        ("rolePolicyAttachment:RolePolicyAttachment", {"policyArn": UNKNOWN}, [], False),
        ("role:Role", {"managedPolicyArns": [UNKNOWN, "arn:a"]}, [policy], True),
        ("role:Role", {"managedPolicyArns": UNKNOWN}, [policy, bucket], False),
    ):
        messages: list[str] = []
        props, refers = unknown_checking_proxy(body), dict.fromkeys(body, made_from)
        item = PolicyResource(
            f"aws:iam/{token}", props, "urn", "it", options(), provider(), None, [], refers
        )
        rule("plan-is-seen").validate(
            StackValidationArgs([item], {}, {}),
            lambda message, urn=None, into=messages: into.append(message),
        )
        assert bool(messages) is not passes, (token, body, messages)
        assert not judge("nobody-has-everything", body, types={0: f"aws:iam/{token}"})
