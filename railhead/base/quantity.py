"""Kubernetes quantities as numbers."""

from __future__ import annotations

import re
from decimal import Decimal

_SUFFIX = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(1000),
    **{s: Decimal(1000) ** (i + 2) for i, s in enumerate("MGTPE")},
    **{f"{s}i": Decimal(1024) ** (i + 1) for i, s in enumerate("KMGTPE")},
}
#: Bytes of ``/dev/shm`` in a container without a volume of its own there.
RUNTIME_SHM = 64 << 20
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]i?|Ki)|[eE]([+-]?\d{1,3}))?")


def parse(text: str | int) -> Decimal:
    """Return the number behind a quantity such as ``8``, ``500m``, ``1Ti`` or ``2e3``.

    Raises:
        ValueError: the text is not a quantity (``k8s.io/apimachinery/pkg/api/resource``).
    """
    match = _QUANTITY.fullmatch(str(text).strip())
    if not match or (match[2] or "") not in _SUFFIX:
        raise ValueError(f"{text!r} is not a quantity")
    exponent = Decimal(10) ** int(match[3]) if match[3] else Decimal(1)
    return Decimal(match[1]) * _SUFFIX[match[2] or ""] * exponent


def show(number: Decimal) -> str:
    """Return a quantity in the shortest plain form: ``16``, ``0.5``."""
    return f"{number.normalize():f}"
