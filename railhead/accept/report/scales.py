"""Places of values and of ticks on an axis; pure, and defined for any finite numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from railhead.accept.model import Axis

_PREFIXES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
# Below it arithmetic loses digits, and no figure of a cluster is so small.
_TINY = 1e-280
_BYTES = frozenset({"B", "bytes", "byte"})


@dataclass(frozen=True, kw_only=True)
class Scale:
    """An axis over values: ``low`` is drawn at 0, ``high`` at 1, ``ticks`` lie between them."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, 0 to 1 within the axis."""
        if self.logarithmic:
            low, high, value = math.log(self.low), math.log(self.high), math.log(value)
        else:
            # Halves first: the difference of two finite numbers may be infinite.
            low, high, value = self.low / 2, self.high / 2, value / 2
        return (value - low) / (high - low)


def scale(axis: Axis, values: Iterable[float], *, ticks: int = 6) -> Scale:
    """Return the axis of these values; what a logarithm cannot show must have been left out."""
    matches = sorted(values)
    low, high = (matches[0], matches[-1]) if matches else (1.0, 1.0)
    return _logarithmic(axis, low, high, ticks) if axis.logarithmic else _linear(low, high, ticks)


def drawable(axis: Axis, value: float) -> bool:
    """Return whether the axis can show a value."""
    return value > _TINY if axis.logarithmic else True


def _logarithmic(axis: Axis, low: float, high: float, ticks: int) -> Scale:
    base = 2.0 if _is_bytes(axis.unit) else 10.0
    first, last = _floor_log(low, base), -_floor_log(1 / high, base)
    if first >= last:
        first, last = first - 1, first + 1
    step = max(1, math.ceil((last - first) / ticks))
    marks = tuple(
        base**n for n in range(first, last + 1, step) if -300 < n * math.log10(base) < 308
    )
    # The ends lie at the data, so that one decade of values does not fill a tenth of the axis.
    if low < high:
        return Scale(low=low, high=high, ticks=_within(marks, low, high), logarithmic=True)
    low, high = max(low / base, sys.float_info.min), min(high * base, sys.float_info.max)
    return Scale(low=low, high=high, ticks=_within(marks, low, high), logarithmic=True)


def _within(marks: tuple[float, ...], low: float, high: float) -> tuple[float, ...]:
    inside = tuple(mark for mark in marks if low <= mark <= high)
    return inside if len(inside) > 1 else (low, high)


def _floor_log(value: float, base: float) -> int:
    result = math.log2(value) if base == 2.0 else math.log10(value)
    return math.floor(round(result, 9))


def _linear(low: float, high: float, ticks: int) -> Scale:
    span = high / 2 - low / 2
    # Equal values, or too near each other for floating point.
    if span <= max(abs(low), abs(high)) * 1e-12 or span < _TINY:
        pad = max(abs(low), abs(high)) / 2
        pad = pad if pad > _TINY else 1.0
        low, high = max(low - pad, -sys.float_info.max), min(high + pad, sys.float_info.max)
        span = high / 2 - low / 2
    elif 0 <= low < high / 2:
        # A figure that grows from near zero is read from zero.
        low, span = 0.0, high / 2
    step = _nice(span / ticks * 2)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Scale(low=low, high=high, ticks=tuple(n * step for n in range(first, last + 1)))


def _nice(step: float) -> float:
    """Return the least of 1, 2, 5 times a power of ten that is not less."""
    if step < 1e-300 or step > 1e300:
        return step
    power = 10.0 ** math.floor(math.log10(step))
    return next(n * power for n in (1, 2, 5, 10, 20) if n * power >= step * 0.999999)


def _is_bytes(unit: str) -> bool:
    return unit in _BYTES


def figure(value: float, unit: str = "") -> str:
    """Return a number as people read it; bytes by powers of 1024, others without their unit."""
    if _is_bytes(unit):
        for size, name in _PREFIXES:
            if abs(value) >= size:
                return f"{value / size:.4g} {name}"
        return f"{value:.4g} B"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.6g}"


def with_unit(value: float, unit: str) -> str:
    """Return a number and its unit."""
    if _is_bytes(unit) or not unit:
        return figure(value, unit)
    return f"{figure(value)}{'' if unit == '%' else ' '}{unit}"
