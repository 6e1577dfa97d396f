"""Judges networks that security groups and firewalls of a cloud let in."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from railhead.review.compare import Change
from railhead.review.judged import Judged, unjudged
from railhead.review.rows import differing, prefix, several, short

KINDS = (
    *("DefaultSecurityGroup", "Firewall", "SecurityGroup", "SecurityGroupRule"),
    *("SecurityGroupEgressRule", "SecurityGroupIngressRule"),
)
#: The parts of them that :func:`networks` reads, as a pattern of paths.
READ = r"^(cidr|prefixList|sourceRanges|ingress|ipv6Cidr)|ort|rotocol|allows|ecurityGroup"


# EC2 user guide, "Get started with EFA": its security group allows all traffic to itself, by name.
_MEMBERS = "members of the group are no longer named, and EFA's traffic passes by no network's rule"


def networks(change: Change) -> Iterator[Judged]:
    """Yield networks that a rule of a security group or firewall newly lets in."""
    kind = change.either.type.rpartition(":")[2]
    if not change.now or kind not in KINDS:
        return
    way_in = "Egress" not in kind and change.now.get("direction") != "EGRESS"
    was, now = set(_networks(change.was)), set(_networks(change.now))
    for network in sorted(now - was):
        if way_in and UNKNOWN in network:
            yield unjudged([network.partition("=")[0]])
        elif network.startswith("pl-"):
            yield Judged("ask", "network", f"lets in {network}: the list was not read")
        elif way_in and prefix(network) < 16:
            yield Judged("refuse", "network", f"lets in {network}, {_hosts(network)} addresses")
        elif way_in and change.kind != "added":
            yield Judged("ask", "network", f"lets in {network}")
        else:
            text = f"{'lets in' if way_in else 'reaches'} {short(network)}"
            yield Judged("note", "network", text)
    if change.stays:
        for path, (old, new) in differing(change).items():
            if "ort" in path or "rotocol" in path or "allows" in path or "ecurityGroup" in path:
                text = f"{path}: {short(old)} -> {short(new)}"
                if "referenced" in path and new is None:
                    text += f": {_MEMBERS}"
                yield Judged("refuse", "network", text, "who sends what is refused")


def _hosts(network: str) -> str:
    return f"{ipaddress.ip_network(network, strict=False).num_addresses:,}"


def _networks(inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield each network of a rule, and ``key=UNKNOWN`` for what is not known yet."""
    for key in ("cidrIpv4", "cidrIpv6", "prefixListId"):
        if inputs.get(key):
            yield _known(key, inputs[key])
    for key in ("cidrBlocks", "ipv6CidrBlocks", "sourceRanges", "prefixListIds"):
        for network in several(inputs.get(key)):
            yield _known(key, network)
    for rule in several(inputs.get("ingress")):
        if isinstance(rule, Mapping):
            yield from _networks(rule)
        else:
            yield _known("ingress", rule)


def _known(key: str, network: Any) -> str:
    return f"{key}={UNKNOWN}" if UNKNOWN in str(network) else str(network)
