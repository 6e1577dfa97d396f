"""Resources of a plan as the policy SDK hands them to a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi_policy import (
    PolicyProviderResource,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    StackValidationArgs,
)
from pulumi_policy.policy import PolicyCustomTimeouts
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from railhead.policies import RULES

UNKNOWN = UNKNOWN_STRING_VALUE


def options() -> PolicyResourceOptions:
    return PolicyResourceOptions(
        protect=False,
        ignore_changes=[],
        delete_before_replace=None,
        aliases=[],
        custom_timeouts=PolicyCustomTimeouts(0, 0, 0),
        additional_secret_outputs=[],
        parent=None,
    )


def token(props: Mapping[str, Any]) -> str:
    version = str(props["apiVersion"])
    group = version if "/" in version else f"core/{version}"
    return f"kubernetes:{group}:{props['kind']}"


def name_of(props: Mapping[str, Any]) -> str:
    metadata = props.get("metadata")
    return str(metadata["name"]) if isinstance(metadata, dict) else "it"


def provider() -> PolicyProviderResource:
    return PolicyProviderResource("pulumi:providers:kubernetes", {}, "urn:provider", "kubernetes")


def judge(rule: str, *objects: Mapping[str, Any], types: Mapping[int, str] | None = None) -> list:
    """Messages of one rule of the pack over a plan of these objects."""
    results: list[str] = []
    policy: Any = next(p for p in RULES if p.name == rule)
    resources = []
    for index, props in enumerate(objects):
        resource_type = (types or {}).get(index) or token(props)
        urn = f"urn:pulumi:lab::railhead::{resource_type}::{name_of(props)}"
        proxied = unknown_checking_proxy(dict(props))
        if policy.__class__.__name__ == "ResourceValidationPolicy":
            args = ResourceValidationArgs(
                resource_type, proxied, urn, name_of(props), options(), provider(), None, {}
            )
            policy.validate(args, lambda message, urn=None: results.append(message))
        resources.append(
            PolicyResource(
                resource_type, proxied, urn, name_of(props), options(), provider(), None, [], {}
            )
        )
    if policy.__class__.__name__ == "StackValidationPolicy":
        policy.validate(
            StackValidationArgs(resources, None, {}),
            lambda message, urn=None: results.append(message),
        )
    return results
