"""Networks that are no network: the world, or so large a part of it that it might as well be."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

# 10.0.0.0/8 is the widest network that anybody may call their own (RFC 1918).
_WIDEST_4 = 8
_WIDEST_6 = 16


def too_wide(value: Any) -> bool:
    """Whether a CIDR holds more than a private network can; what is no CIDR is not."""
    try:
        network = ipaddress.ip_network(str(value), strict=False)
    except ValueError:
        return False
    return network.prefixlen < (_WIDEST_4 if network.version == 4 else _WIDEST_6)


def covered(networks: Iterable[Any]) -> str:
    """The widest network that several make up between them; empty for none.

    >>> covered(["0.0.0.0/1", "128.0.0.0/1"])
    '0.0.0.0/0'
    """
    found: dict[int, list[Any]] = {4: [], 6: []}
    for text in networks:
        try:
            network = ipaddress.ip_network(str(text), strict=False)
        except ValueError:
            continue
        found[network.version].append(network)
    merged = [n for same in found.values() for n in ipaddress.collapse_addresses(same)]
    return str(min(merged, key=lambda n: (n.prefixlen, n.version))) if merged else ""
