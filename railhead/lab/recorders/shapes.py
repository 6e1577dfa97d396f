"""Outputs that a provider would add to a resource's inputs, made up from the SDK's declarations.

An output that the SDK declares as always set and the program did not give gets a value of its
type; one that is optional stays absent, as it would for a resource that does not use it.
"""

from __future__ import annotations

import collections.abc
import functools
import importlib
import re
import threading
import typing
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import pulumi

ACCOUNT = "123456789012"
REGION = "us-east-1"
# Outputs whose readers need a certain form.
_CERTIFICATE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
_DEPTH = 3
_IMPORTING = threading.Lock()
# What is in the account already, by type and id, for the resources that components only read.
EXISTING: dict[tuple[str, str], Mapping[str, Any]] = {}
# Nested outputs that the SDK declares as optional and the clouds always fill.
_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "aws:eks/cluster:Cluster": {
        "certificateAuthority": {"data": _CERTIFICATE},
        "vpcConfig": {"clusterSecurityGroupId": "sg-0c1c1c1c1c1c1c1c1", "vpcId": "vpc-0a1a1a1a1"},
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "resources": [{"autoscalingGroups": [{"name": "eks-nodes-id"}]}],
    },
    "gcp:container/cluster:Cluster": {
        "masterAuth": {"clusterCaCertificate": _CERTIFICATE},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"endpoint": "gke-0123456789ab-1.europe-west1.gke.goog"}
        },
    },
    "gcp:lustre/instance:Instance": {"mountPoint": "10.8.0.2@tcp:/lustrefs"},
    "gcp:filestore/instance:Instance": {
        "networks": [{"modes": ["MODE_IPV4"], "network": "vpc", "ipAddresses": ["10.255.0.2"]}]
    },
}


def _words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def resource_class(token: str) -> Any:
    """Return the SDK's class of a type token such as ``aws:eks/cluster:Cluster``."""
    package, module, name = token.split(":")
    # The SDK's modules load when they are first looked into, which two threads must not do at once.
    with _IMPORTING:
        sdk = importlib.import_module(f"pulumi_{package}.{module.split('/')[0]}")
        return getattr(sdk, name)


@functools.cache
def _required(cls: Any) -> dict[str, Any]:
    """Pulumi name -> type, for each property that is declared without Optional."""
    results: dict[str, Any] = {}
    namespace = {**vars(typing), "pulumi": pulumi}
    for name, member in vars(cls).items():
        if not isinstance(member, property) or member.fget is None:
            continue
        module = importlib.import_module(cls.__module__)
        hints = typing.get_type_hints(member.fget, {**namespace, **vars(module)})
        kind = hints.get("return")
        if get_origin(kind) is pulumi.Output:
            (kind,) = get_args(kind)
        if get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind):
            continue
        getter = getattr(member.fget, "_pulumi_name", name)
        results[getter] = kind
    return results


def _value(kind: Any, path: tuple[str, ...], name: str, depth: int) -> Any:
    last = path[-1]
    if get_origin(kind) in (Union, UnionType):
        kind = next(a for a in get_args(kind) if a is not NoneType)
    origin = get_origin(kind)
    if kind is bool:
        return False
    if kind is int:
        return 1
    if kind is float:
        return 1.0
    if origin in (collections.abc.Mapping, dict):
        return {}
    if origin in (collections.abc.Sequence, list):
        (element,) = get_args(kind)
        return [_value(element, path, name, depth)]
    if isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__mro__"):
        if depth >= _DEPTH:
            return {}
        return {
            key: _value(inner, (*path, key), name, depth + 1)
            for key, inner in _required(kind).items()
        }
    return _text(path, last, name)


def _text(path: tuple[str, ...], last: str, name: str) -> str:
    lower = last.lower()
    if lower == "arn" or last.endswith("Arn"):
        return f"arn:aws:{path[0]}:{REGION}:{ACCOUNT}:{name}"
    if lower == "endpoint":
        return f"https://{name}.example.invalid"
    if lower == "selflink":
        return f"https://www.googleapis.com/compute/v1/projects/acme/{path[0]}/{name}"
    if "cidr" in lower:
        return "10.255.0.0/24"
    if lower == "accountid":
        return ACCOUNT
    if "ipaddress" in lower or lower in ("gatewayaddress", "gatewayip"):
        return "10.255.0.2"
    return f"{name}-{_words(last)}"


def fabricated(token: str, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a new resource: its inputs, and what its provider would add."""
    outputs = dict(inputs)
    if not token.startswith(("aws:", "gcp:")):
        return outputs
    service = token.split(":")[1].split("/", maxsplit=1)[0]
    for key, kind in _required(resource_class(token)).items():
        if outputs.get(key) is None:
            outputs[key] = _value(kind, (service, key), name, 0)
    return completed(token, outputs)


def completed(token: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs with those that the SDK calls optional and the clouds always fill."""
    results = dict(outputs)
    for key, more in _ALWAYS.get(token, {}).items():
        results[key] = {**(results.get(key) or {}), **more} if isinstance(more, dict) else more
    return results
