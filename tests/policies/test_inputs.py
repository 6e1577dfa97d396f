"""A rule over the whole stack judges what the program gave, where it is shown nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pulumi_policy import PolicyResource, ResourceValidationArgs, StackValidationArgs
from pulumi_policy.proxy import unknown_checking_proxy

from railhead.policies import RULES, inputs
from railhead.policies.plan import UNKNOWN
from tests.policies.planning import UNKNOWN as GUID
from tests.policies.planning import options, provider

QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
BODY = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    inputs.forget()
    yield
    inputs.forget()


def rule(name: str) -> Any:
    return next(p for p in RULES if p.name == name)


def ask(name: str, token: str, shown: dict[str, Any]) -> list[str]:
    results: list[str] = []
    item = PolicyResource(
        token, unknown_checking_proxy(shown), "urn", "q", options(), provider(), None, [], {}
    )
    rule(name).validate(
        StackValidationArgs([item], None, {}), lambda message, urn=None: results.append(message)
    )
    return results


def pass_by(token: str, given: dict[str, Any]) -> None:
    rule("plan-is-kept").validate(
        ResourceValidationArgs(
            token, unknown_checking_proxy(given), "urn", "q", options(), provider(), None, {}
        ),
        lambda message, urn=None: pytest.fail(message),
    )


def test_object_without_visible_inputs_is_refused() -> None:
    assert "no rule can judge" in ask("plan-is-seen", QUEUE, {})[0]
    pass_by(QUEUE, BODY)
    assert not ask("plan-is-seen", QUEUE, {})


@pytest.mark.parametrize("key", ["apiVersion", "kind", "metadata"])
def test_an_object_whose_identity_is_not_known_is_refused(key: str) -> None:
    pass_by(QUEUE, BODY | {key: GUID})
    assert f"its {key} is not known" in ask("plan-is-seen", QUEUE, {})[0]


@pytest.mark.parametrize("token", ["aws:eks/cluster:Cluster", "gcp:compute/firewall:Firewall"])
def test_a_cloud_s_resource_that_shows_nothing_is_refused(token: str) -> None:
    assert ask("plan-is-seen", token, {})
    assert not ask("plan-is-seen", token, {"id": "it"})


def test_components_and_providers_are_ignored() -> None:
    assert not ask("plan-is-seen", "railhead:index:TrainingCluster", {})
    assert not ask("plan-is-seen", "pulumi:providers:aws", {})


def test_what_is_known_of_either_is_known() -> None:
    inputs.remember("urn", unknown_checking_proxy({"spec": {"a": 1, "b": [1, GUID], "c": GUID}}))
    shown = unknown_checking_proxy({"spec": {"a": 2, "b": [GUID, 3], "d": GUID}, "status": {}})
    assert inputs.complete("urn", shown) == {
        "spec": {"a": 2, "b": [1, 3], "d": UNKNOWN, "c": UNKNOWN},
        "status": {},
    }
