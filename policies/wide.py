"""Networks that are no network: the world, or so large a part of it that it might as well be."""

from __future__ import annotations

import ipaddress
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
