"""The facts of each rule, and the parameters that a site may set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, validate
from jsonschema.exceptions import ValidationError
from pulumi_policy import (
    EnforcementLevel,
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
)
from pulumi_policy.proxy import unknown_checking_proxy

from railhead.base.errors import InputError
from railhead.policies import RULES
from railhead.policies.settings import LEVEL, read
from tests.policies.planning import options, provider

NAMES = [str(rule.name) for rule in RULES]
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
SERVICE = "kubernetes:core/v1:Service"
POD = "kubernetes:core/v1:Pod"


def reported(name: str, token: str, body: dict[str, Any], config: dict[str, Any]) -> list[str]:
    """Return what one rule reports of one resource, with a configuration."""
    rule: Any = next(rule for rule in RULES if rule.name == name)
    messages: list[str] = []
    props, urn = unknown_checking_proxy(body), f"urn:pulumi:a::b::{token}::it"
    if isinstance(rule, ResourceValidationPolicy):
        args: Any = ResourceValidationArgs(
            token, props, urn, "it", options(), provider(), config, {}
        )
    else:
        item = PolicyResource(token, props, urn, "it", options(), provider(), None, [], {})
        args = StackValidationArgs([item], config, {})
    rule.validate(args, lambda message, urn=None: messages.append(message))
    return messages


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_rule_says_what_it_is_and_what_mends_it(rule: Any) -> None:
    assert rule.display_name
    assert rule.severity
    assert rule.remediation_steps.endswith(".")
    assert rule.url == f"https://railhead.dev/rules/{rule.name}"
    assert rule.tags[0] == "railhead"
    if rule.config_schema:
        Draft202012Validator.check_schema({"properties": rule.config_schema.properties})


def test_namespace_is_left_alone_until_its_day() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "tools"},
        "spec": {"hostNetwork": True, "containers": [{"name": "a", "image": "a:1"}]},
    }
    row = {"namespace": "tools", "reason": "moves in May", "until": "2999-01-31"}
    rule = "no-reach-into-nodes"
    assert reported(rule, POD, body, {})
    assert not reported(rule, POD, body, {"exempt": [row]})
    assert reported(rule, POD, body, {"exempt": [row | {"namespace": "other"}]})
    assert reported(rule, POD, body, {"exempt": [row | {"until": "2020-01-31"}]})


def test_exempt_namespace_passes_a_rule_over_the_plan() -> None:
    container = {"name": "node", "env": [{"name": "NCCL_NET", "value": "Socket"}]}
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "a", "namespace": "tools"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    token = "kubernetes:trainer.kubeflow.org/v1alpha1:TrainingRuntime"
    row = {"namespace": "tools", "reason": "no rails there", "until": "2999-01-31"}
    assert reported("jobs-stay-on-the-fabric", token, body, {})
    assert not reported("jobs-stay-on-the-fabric", token, body, {"exempt": [row]})


@pytest.mark.parametrize(
    ("network", "allowed", "refused"),
    [
        ("10.0.0.0/8", None, False),
        ("0.0.0.0/0", None, True),
        ("10.0.0.0/8", ["10.20.0.0/16"], True),
        ("10.20.3.0/24", ["10.20.0.0/16"], False),
        ("0.0.0.0/0", ["0.0.0.0/0"], False),
        ("2001:db8::/32", ["10.0.0.0/8"], True),
    ],
)
def test_sites_own_networks_decide(network: str, allowed: Any, *, refused: bool) -> None:
    config = {} if allowed is None else {"networks": allowed}
    key = "cidrIpv6" if ":" in network else "cidrIpv4"
    assert bool(reported("cloud-is-closed", INGRESS, {key: network}, config)) == refused
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": [network]},
    }
    assert bool(reported("cloud-is-closed", SERVICE, service, config)) == refused


def test_network_that_is_not_a_cidr_lets_nothing_in() -> None:
    config = {"networks": ["10.0.0.0/99"]}
    assert reported("cloud-is-closed", INGRESS, {"cidrIpv4": "10.0.0.0/8"}, config)
    (message,) = reported("cloud-is-closed", "pulumi:pulumi:Stack", {}, config)
    assert "'10.0.0.0/99' is not a CIDR: write one" in message


def test_type_that_the_site_knows_passes() -> None:
    token = "acme:index:Quota"
    assert reported("plan-is-seen", token, {"a": 1}, {})
    assert not reported("plan-is-seen", token, {"a": 1}, {"known": ["acme:*"]})


def test_unknown_parameter_and_wrong_day_are_reported() -> None:
    (message,) = reported("plan-is-seen", SERVICE, {}, {"knwon": []})[:1]
    assert "plan-is-seen has no parameter 'knwon'; it has: apart, known" in message
    stack = "pulumi:pulumi:Stack"
    row = {"namespace": "a", "reason": "b", "until": "2026-13-01"}
    (message,) = reported("images-are-named", stack, {}, {"exempt": [row]})
    assert "'2026-13-01', which is not a day" in message


@pytest.mark.parametrize(
    "rows",
    [
        "all",
        [{"namespace": "a", "reason": "b"}],
        [{"namespace": "a", "reason": "", "until": "2026-01-01"}],
        [{"namespace": "a", "reason": "b", "until": "tomorrow"}],
        [{"namespace": "a", "reason": "b", "until": "2026-01-01", "more": 1}],
    ],
)
def test_schema_refuses_an_exemption_without_its_reason_and_day(rows: Any) -> None:
    rule = next(rule for rule in RULES if rule.name == "no-reach-into-nodes")
    assert rule.config_schema
    schema = {"type": "object", "properties": rule.config_schema.properties}
    with pytest.raises(ValidationError):
        validate({"exempt": rows}, schema)


def test_parameter_alone_leaves_a_rule_its_level(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("plan-is-seen: {apart: false}\nversions-ran: {}\nall: advisory\n")
    settings = read(file, RULES)
    assert settings["plan-is-seen"] == {"apart": False, LEVEL: EnforcementLevel.MANDATORY}
    assert settings["versions-ran"] == {LEVEL: EnforcementLevel.ADVISORY}
    assert settings["all"] == {LEVEL: EnforcementLevel.ADVISORY}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan-is-sen: disabled\n", "'plan-is-sen' is no rule"),
        ("plan-is-seen: {apat: false}\n", "'apat' is no parameter"),
        ("versions-ran: {exempt: []}\n", "'exempt' is no parameter"),
        ("versions-ran: never\n", "'never' is no level"),
    ],
)
def test_wrong_settings_name_the_mistake(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read(file, RULES)
