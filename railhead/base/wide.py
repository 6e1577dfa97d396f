"""Networks that are too wide: the whole world, or nearly all of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

# 10.0.0.0/8 is the widest private network (RFC 1918).
_WIDEST_4 = 8
_WIDEST_6 = 16


def too_wide(value: Any) -> bool:
    """Return whether a CIDR is wider than any private network; False for what is not a CIDR."""
    try:
        network = ipaddress.ip_network(str(value), strict=False)
    except ValueError:
        return False
    return network.prefixlen < (_WIDEST_4 if network.version == 4 else _WIDEST_6)


def within(value: Any, networks: Iterable[str]) -> bool:
    """Return whether a CIDR lies in one of several; False for what is not a CIDR."""
    try:
        network = ipaddress.ip_network(str(value), strict=False)
    except ValueError:
        return False
    others = (ipaddress.ip_network(text, strict=False) for text in networks)
    return any(
        network.version == other.version
        and network.network_address in other
        and network.prefixlen >= other.prefixlen
        for other in others
    )


def covered(networks: Iterable[Any]) -> str:
    """Return the widest network that several networks form together; empty without any.

    >>> covered(["0.0.0.0/1", "128.0.0.0/1"])
    '0.0.0.0/0'
    """
    by_version: dict[int, list[Any]] = {4: [], 6: []}
    for text in networks:
        try:
            network = ipaddress.ip_network(str(text), strict=False)
        except ValueError:
            continue
        by_version[network.version].append(network)
    merged = [n for same in by_version.values() for n in ipaddress.collapse_addresses(same)]
    return str(min(merged, key=lambda n: (n.prefixlen, n.version))) if merged else ""
