"""Networks that are too wide: the whole world, or nearly all of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

# 10.0.0.0/8 is the widest private network (RFC 1918).
_WIDEST_4 = 8
_WIDEST_6 = 16
#: The private networks of RFC 1918, in words.
PRIVATE = "10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))


def network_of(value: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network of a CIDR, whatever the bits of its host; None for what is not a CIDR."""
    try:
        return ipaddress.ip_network(str(value), strict=False)
    except ValueError:
        return None


def too_wide(value: Any) -> bool:
    """Return whether a CIDR is wider than any private network; False for what is not a CIDR."""
    network = network_of(value)
    if network is None:
        return False
    return network.prefixlen < (_WIDEST_4 if network.version == 4 else _WIDEST_6)


def private(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    """Return whether all addresses of a network are of RFC 1918."""
    return isinstance(network, ipaddress.IPv4Network) and any(map(network.subnet_of, _PRIVATE))


def within(value: Any, networks: Iterable[Any]) -> bool:
    """Return whether a CIDR lies in one of several; what is not a CIDR lies in none."""
    network = network_of(value)
    return network is not None and any(
        other is not None
        and network.version == other.version
        and network.network_address in other
        and network.prefixlen >= other.prefixlen
        for other in map(network_of, networks)
    )


def covered(networks: Iterable[Any]) -> str:
    """Return the widest network that several networks form together; empty without any.

    >>> covered(["0.0.0.0/1", "128.0.0.0/1"])
    '0.0.0.0/0'
    """
    by_version: dict[int, list[Any]] = {4: [], 6: []}
    for network in map(network_of, networks):
        if network is not None:
            by_version[network.version].append(network)
    merged = [n for same in by_version.values() for n in ipaddress.collapse_addresses(same)]
    return str(min(merged, key=lambda n: (n.prefixlen, n.version))) if merged else ""
