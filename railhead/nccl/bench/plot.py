"""The curve as a picture: in the terminal, and as SVG that is the same for the same figures."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from railhead.nccl.bench.judge import Judged, size_text

WIDTH, HEIGHT = 64, 13
# Characters that XML 1.0 forbids in text.
_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
SVG = "http://www.w3.org/2000/svg"
COLOURS = ("#1f5fa8", "#c2571a")
MAX_PANELS = 24


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one half of a run: size in bytes, busbw in GB/s."""

    name: str
    points: tuple[tuple[int, float], ...]


def series_of(judged: Judged) -> tuple[Series, ...]:
    """Return the out-of-place and the in-place series, as far as measured, sizes in order."""
    rows = sorted((row for row in judged.run.rows if row.size > 0), key=lambda row: row.size)
    outs = tuple((row.size, row.out_of_place.busbw) for row in rows if row.out_of_place)
    ins = tuple((row.size, row.in_place.busbw) for row in rows if row.in_place)
    both = (Series(name="out-of-place", points=outs), Series(name="in-place", points=ins))
    return tuple(item for item in both if item.points)


def limit_of(judged: Judged) -> float | None:
    """Return the busbw in GB/s that the NICs bound, or None."""
    if judged.line is None or judged.factor is None:
        return None
    return judged.line.bound * judged.factor


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """The mapping of sizes (logarithmic) and bandwidths to a unit square."""

    left: float
    right: float
    top: float

    def x(self, size: int) -> float:
        return (math.log2(size) - self.left) / (self.right - self.left)

    def y(self, busbw: float) -> float:
        return min(1.0, max(0.0, busbw / self.top))


def _scale(series: Sequence[Series], limit: float | None) -> _Scale | None:
    sizes = [size for row in series for size, _ in row.points]
    values = [value for row in series for _, value in row.points]
    if not sizes:
        return None
    left, right = math.log2(min(sizes)), math.log2(max(sizes))
    if left == right:
        left, right = left - 1, right + 1
    top = max(values)
    if limit is not None and limit < 4 * top:
        top = max(top, limit)
    return _Scale(left=left, right=right, top=_round_up(top))


def _round_up(value: float) -> float:
    """Return the next 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)


# -- terminal -------------------------------------------------------------------------------------

# The dots of one braille character, by column and row.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def terminal(
    judged: Judged, *, width: int = WIDTH, height: int = HEIGHT, plain: bool = False
) -> str:
    """Return the curve in characters, or an empty string when nothing was measured.

    Args:
        judged: the run.
        width: of the drawing in characters, without the axis.
        height: of the drawing in characters, without the axis.
        plain: draw with ASCII only.
    """
    series = series_of(judged)
    scale = _scale(series, limit_of(judged))
    if scale is None:
        return ""
    width, height = max(16, width), max(4, height)
    cells = (
        _plain(series, scale, width, height) if plain else _braille(series, scale, width, height)
    )
    label = max(len(f"{scale.top:g}"), 4)
    lines = ["busbw GB/s"]
    for index, line in enumerate(cells):
        share = 1 - index / (height - 1)
        mark = f"{scale.top * share:.4g}" if index in (0, height // 2, height - 1) else ""
        lines.append(f"{mark:>{label}} |{line}".rstrip())
    lines.append(f"{'':>{label}} +{'-' * width}")
    lines.append(f"{'':>{label}}  {_axis(scale, width)}")
    return "\n".join(lines)


def _axis(scale: _Scale, width: int) -> str:
    """Return the sizes under the drawing: both ends, and a power of two at its place between."""
    left, right = size_text(round(2**scale.left)), size_text(round(2**scale.right))
    axis = f"{left:<{width - len(right)}}{right}"
    power = round((scale.left + scale.right) / 2)
    middle = size_text(1 << power)
    at = round((power - scale.left) / (scale.right - scale.left) * (width - 1)) - len(middle) // 2
    if at > len(left) and at + len(middle) < width - len(right):
        axis = axis[:at] + middle + axis[at + len(middle) :]
    return axis


def _columns(one: Series, scale: _Scale, columns: int) -> dict[int, float]:
    """Return the height of each column, with lines drawn between neighbouring points."""
    results: dict[int, float] = {}
    last: tuple[float, float] | None = None
    for size, value in one.points:
        x, y = scale.x(size) * (columns - 1), scale.y(value)
        if last is not None and x > last[0]:
            for column in range(math.ceil(last[0]), math.floor(x) + 1):
                share = (column - last[0]) / (x - last[0])
                results[column] = last[1] + (y - last[1]) * share
        results[round(x)] = y
        last = (x, y)
    return results


def _braille(series: Sequence[Series], scale: _Scale, width: int, height: int) -> list[str]:
    grid = [[0] * width for _ in range(height)]
    dots = height * 4
    for item in series:
        before: int | None = None
        for column, share in sorted(_columns(item, scale, width * 2).items()):
            row = dots - 1 - round(share * (dots - 1))
            # Steep lines fill the rows between two columns.
            start, end = sorted((row, row if before is None else before))
            for dot in range(start, end + 1):
                grid[dot // 4][column // 2] |= _DOTS[column % 2][dot % 4]
            before = row
    return ["".join(chr(0x2800 + cell) if cell else " " for cell in line) for line in grid]


def _plain(series: Sequence[Series], scale: _Scale, width: int, height: int) -> list[str]:
    grid = [[" "] * width for _ in range(height)]
    for item, mark in zip(reversed(series), "o*"[-len(series) :], strict=True):
        for column, share in _columns(item, scale, width).items():
            grid[height - 1 - round(share * (height - 1))][column] = mark
    return ["".join(line) for line in grid]


# -- SVG ------------------------------------------------------------------------------------------

_WIDE, _TALL = 960, 420
_BOX = (80, 56, 850, 290)  # left, top, width, height of the drawing in a panel


def svg(runs: Sequence[Judged]) -> str:
    """Return every run as a panel of one SVG 1.1 document, without a script, a font file or a date.

    Args:
        runs: at most :data:`MAX_PANELS` are drawn.
    """
    shown = [run for run in runs if series_of(run)][:MAX_PANELS]
    tall = _TALL * max(1, len(shown))
    root = ET.Element(
        "svg",
        {
            "xmlns": SVG,
            "viewBox": f"0 0 {_WIDE} {tall}",
            "width": str(_WIDE),
            "height": str(tall),
            "font-family": "sans-serif",
            "font-size": "13",
            "role": "img",
        },
    )
    _text(root, "title", "Bus bandwidth by message size")
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    for index, judged in enumerate(shown):
        panel = ET.SubElement(root, "g", {"transform": f"translate(0 {index * _TALL})"})
        _panel(panel, judged)
    if not shown:
        _text(root, "text", "no size was measured", x="40", y="60")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    named = {key.replace("_", "-"): value for key, value in attributes.items()}
    ET.SubElement(parent, tag, named).text = _FORBIDDEN.sub("?", text)


def _panel(panel: ET.Element, judged: Judged) -> None:
    series, limit = series_of(judged), limit_of(judged)
    scale = _scale(series, limit)
    if scale is None:
        return
    left, top, width, height = _BOX
    _text(panel, "text", heading(judged), x=str(left), y="28", font_size="16", font_weight="bold")
    for step in range(6):
        y = top + height - height * step / 5
        line = {"x1": str(left), "x2": str(left + width), "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
        ET.SubElement(panel, "line", {**line, "stroke": "#d8d8d8"})
        mark = f"{scale.top * step / 5:.4g}"
        _text(panel, "text", mark, x=str(left - 8), y=f"{y + 4:.1f}", text_anchor="end")
    first, last = math.ceil(scale.left), math.floor(scale.right)
    every = max(1, math.ceil((last - first) / 10))
    for power in range(first, last + 1, every):
        x = left + width * scale.x(1 << power) if power >= 0 else left
        label = size_text(1 << power) if power >= 0 else ""
        _text(panel, "text", label, x=f"{x:.1f}", y=str(top + height + 20), text_anchor="middle")
    if limit is not None and limit <= scale.top:
        _limit(panel, judged, limit, scale)
    for item, colour in zip(series, COLOURS, strict=False):
        _line(panel, item, scale, colour)
    for index, item in enumerate(series):
        x = left + index * 130
        y = top + height + 48
        ET.SubElement(
            panel,
            "rect",
            {"x": str(x), "y": str(y - 10), "width": "14", "height": "10", "fill": COLOURS[index]},
        )
        _text(panel, "text", item.name, x=str(x + 20), y=str(y))
    _text(panel, "text", "busbw GB/s", x=str(left - 60), y="48", fill="#555555")


def _limit(panel: ET.Element, judged: Judged, limit: float, scale: _Scale) -> None:
    left, top, width, height = _BOX
    y = top + height - height * scale.y(limit)
    line = {"x1": str(left), "x2": str(left + width), "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
    ET.SubElement(panel, "line", {**line, "stroke": "#777777", "stroke-dasharray": "6 4"})
    assert judged.line is not None  # noqa: S101 - a limit comes from it
    text = f"bound of the NICs, {judged.line.rate:g} GB/s {unit_text(judged.line.unit)}"
    _text(panel, "text", text, x=str(left + 8), y=f"{y - 6:.1f}", fill="#555555")


def _line(panel: ET.Element, one: Series, scale: _Scale, colour: str) -> None:
    left, top, width, height = _BOX
    places = [
        (left + width * scale.x(size), top + height - height * scale.y(value), size, value)
        for size, value in one.points
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
    ET.SubElement(
        panel,
        "polyline",
        {"points": points, "fill": "none", "stroke": colour, "stroke-width": "2"},
    )
    for x, y, size, value in places:
        dot = ET.SubElement(
            panel, "circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3", "fill": colour}
        )
        _text(dot, "title", f"{one.name}, {size_text(size)}: {value:g} GB/s")


def unit_text(unit: int) -> str:
    """Return ``a node``, or the NVLink domain that stands for several nodes."""
    return "a node" if unit == 1 else f"an NVLink domain of {unit} nodes"


def heading(judged: Judged) -> str:
    """Return a heading such as ``all_reduce, 16 ranks on 2 nodes (run.log:12)``."""
    run = judged.run
    parts = [run.collective or "unknown collective"]
    if run.ranks:
        parts.append(f"{run.ranks} ranks" if run.ranks > 1 else "1 rank")
    where = f"{run.file}:{run.line}" if run.line else run.file
    on = f" on {run.nodes} node{'s' if run.nodes > 1 else ''}" if run.nodes else ""
    return f"{', '.join(parts)}{on} ({where})"
