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
]


@pytest.mark.parametrize("token", HARMLESS)
def test_what_no_training_stands_on_passes_unless_closed(token: str) -> None:
    assert not seen(token)
    assert seen(token, apart=False)


@pytest.mark.parametrize(
    "token",
    [
        "aws:s3/bucketAclV2:BucketAclV2",
        # An ACL of one object, a public database, a public address: no rule reads their inputs.
        "aws:s3/bucketObject:BucketObject",
        "aws:s3/bucketObjectv2:BucketObjectv2",
        "aws:redshift/cluster:Cluster",
        "aws:ecs/service:Service",
        "aws:ebs/volume:Volume",
        "aws:dynamodb/resourcePolicy:ResourcePolicy",
        "aws:glue/resourcePolicy:ResourcePolicy",
        "aws:sns/topicPolicy:TopicPolicy",
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


def _claim(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
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
