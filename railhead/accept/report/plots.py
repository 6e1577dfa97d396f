"""Plots as SVG, each beside a table of the same data; pure functions of what the report holds.

Each is drawn twice, for desks and for phones, and the sheet shows the one that fits: letters stay
as large as the text around them. Nothing depends on colour alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from xml.etree.ElementTree import Element

from railhead.accept.model import Axis, Cell, LinePlot, Map, Mark, Series, Span, Timeline
from railhead.accept.report.html import el, visible
from railhead.accept.report.scales import Scale, drawable, figure, scale, with_unit
from railhead.accept.report.style import SERIES
from railhead.accept.report.words import SIGNS, WORDS

DESK, PHONE = 880, 330
# Rows of a table beside a plot; the page's own JSON holds all.
ROWS = 400
# About how wide a letter is in the sheet's 12 px.
LETTER = 6.7
DASHES = ("", "9 4", "3 3", "12 4 3 4", "6 3", "4 2")


def draw(plot: LinePlot | Timeline | Map, name: str) -> Element:
    """Return a figure with its drawing, legend and data.

    Args:
        plot: what is drawn.
        name: unique in the page, for identifiers.
    """
    if isinstance(plot, LinePlot):
        return _lines(plot, name)
    return _timeline(plot, name) if isinstance(plot, Timeline) else _map(plot, name)


def _figure(
    title: str, said: str, name: str, drawn: Sequence[tuple[str, Element]], *rest: Element | None
) -> Element:
    """``drawn`` is each drawing with the class of where it is shown."""
    for where, svg in drawn:
        item = f"{name}-{where}"
        svg.set("class", where)
        svg.set("role", "img")
        svg.set("aria-labelledby", f"{item}-t {item}-d")
        svg.insert(0, el("desc", {"id": f"{item}-d"}, said))
        svg.insert(0, el("title", {"id": f"{item}-t"}, title))
    return el("figure", {}, el("figcaption", {}, title), *(svg for _, svg in drawn), *rest)


def _svg(width: float, height: float, *children: Element) -> Element:
    return el("svg", {"viewBox": f"0 0 {_px(width)} {_px(height)}"}, *children)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, said: str, anchor: str = "start", kind: str = "") -> Element:
    attributes = {"x": _px(x), "y": _px(y)}
    if anchor != "start":
        attributes["text-anchor"] = anchor
    if kind:
        attributes["class"] = kind
    return el("text", attributes, said)


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> Element:
    ends = {"x1": _px(x1), "y1": _px(y1), "x2": _px(x2), "y2": _px(y2)}
    return el("line", {**ends, "class": kind})


def _rect(
    x: float, y: float, wide: float, high: float, kind: str, *children: Element | None
) -> Element:
    box = {"x": _px(x), "y": _px(y), "width": _px(wide), "height": _px(high)}
    return el("rect", {**box, "rx": "2", "class": kind}, *children)


def _clip(text: str, width: float) -> str:
    letters = max(1, int(width / LETTER))
    return text if len(text) <= letters else text[: letters - 1] + "\u2026"


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Element:
    """Return a table whose first column names the row."""
    shown = list(itertools.islice(rows, ROWS + 1))
    if len(shown) > ROWS:
        caption += f" (the first {ROWS}; the page's own JSON has all)"
    cells = [[el("td", {}, cell) for cell in row[1:]] for row in shown[:ROWS]]
    return stacked(
        caption,
        [(head, "") for head in heads],
        [(el("th", {}, row[0]), made) for row, made in zip(shown, cells, strict=False)],
    )


def stacked(
    caption: str,
    heads: Sequence[tuple[str, str]],
    rows: Iterable[tuple[Element, Sequence[Element]]],
) -> Element:
    """Return a table that is a list of cards on phones.

    Args:
        caption: what it holds.
        heads: of each column, with a class or an empty text.
        rows: the heading of each row and its cells.
    """
    body = []
    for head, cells in rows:
        head.attrib.update({"scope": "row", "role": "rowheader"})
        for cell, (label, _) in zip(cells, heads[1:], strict=True):
            # A table that is shown as blocks is one no more to readers of screens, unless told so.
            cell.attrib.update({"role": "cell", "data-label": visible(label)})
        body.append(el("tr", {"role": "row"}, head, *cells))
    tops = []
    for label, kind in heads:
        top = el("th", {"scope": "col", "role": "columnheader"}, label)
        if kind:
            top.set("class", kind)
        tops.append(top)
    made = el(
        "table",
        {"class": "stack", "role": "table"},
        el("caption", {}, caption),
        el("thead", {"role": "rowgroup"}, el("tr", {"role": "row"}, *tops)),
        el("tbody", {"role": "rowgroup"}, *body),
    )
    return scrolled(made, caption)


def scrolled(inner: Element, label: str) -> Element:
    """Return a frame for what may be wider than the window, moved by the arrow keys."""
    return el(
        "div", {"class": "wide", "role": "region", "aria-label": label, "tabindex": "0"}, inner
    )


def _data(inner: Element) -> Element:
    return el("details", {}, el("summary", {}, "The same as a table"), inner)


def _marks(marks: Sequence[Mark], unit: str) -> Element | None:
    if not marks:
        return None
    return el(
        "ol",
        {"class": "marks"},
        *(el("li", {}, f"{mark.label} (at {with_unit(mark.at, unit)})") for mark in marks),
    )


# -- lines ----------------------------------------------------------------------------------------


def _lines(plot: LinePlot, name: str) -> Element:
    shown = [(series, _drawable(plot, series)) for series in plot.series]
    left_out = sum(len(series.points) - len(points) for series, points in shown)
    drawn = [(where, _curves(plot, shown, width)) for where, width in _SIZES]
    note = (
        el("p", {"class": "soft"}, f"{left_out} values that the axes cannot show are not drawn.")
        if left_out
        else None
    )
    text = f"{_axis(plot.y)} against {_axis(plot.x)}. " + " ".join(
        _told(s, plot) for s in plot.series
    )
    return _figure(
        plot.title,
        text.strip(),
        name,
        drawn,
        _legend(plot.series),
        note,
        _marks(plot.marks, plot.x.unit),
        _data(table(f"{plot.title}, data", _heads(plot), _rows(plot))),
    )


_SIZES = (("desk", DESK), ("phone", PHONE))


def _axis(axis: Axis) -> str:
    return f"{axis.label} ({axis.unit})" if axis.unit else axis.label


def _told(series: Series, plot: LinePlot) -> str:
    if not series.points:
        return f"{series.name}: no points."
    (x0, y0), (x1, y1) = series.points[0], series.points[-1]
    return (
        f"{series.name}: {len(series.points)} points, from {with_unit(y0, plot.y.unit)} at "
        f"{with_unit(x0, plot.x.unit)} to {with_unit(y1, plot.y.unit)} at "
        f"{with_unit(x1, plot.x.unit)}."
    )


def _drawable(plot: LinePlot, series: Series) -> list[tuple[float, float]]:
    return [(x, y) for x, y in series.points if drawable(plot.x, x) and drawable(plot.y, y)]


def _has_band(series: Series) -> bool:
    return 0 < len(series.points) == len(series.low) == len(series.high)


def _band(plot: LinePlot, series: Series) -> list[tuple[float, float, float]]:
    if not _has_band(series):
        return []
    return [
        (x, low, high)
        for (x, _), low, high in zip(series.points, series.low, series.high, strict=True)
        if drawable(plot.x, x) and drawable(plot.y, low) and drawable(plot.y, high)
    ]


def _curves(
    plot: LinePlot, shown: Sequence[tuple[Series, list[tuple[float, float]]]], width: float
) -> Element:
    phone = width == PHONE
    bands = [_band(plot, series) for series, _ in shown]
    ys = [y for _, points in shown for _, y in points]
    ys += [edge for band in bands for _, low, high in band for edge in (low, high)]
    marks = [(n, mark) for n, mark in enumerate(plot.marks, 1) if drawable(plot.x, mark.at)]
    xs = [x for _, points in shown for x, _ in points] + [mark.at for _, mark in marks]
    across = scale(plot.x, xs, ticks=4 if phone else 8)
    up = scale(plot.y, ys, ticks=5)
    labels = [figure(tick, plot.y.unit) for tick in up.ticks]
    left = min(max([len(label) for label in labels] + [3]) * LETTER + 10, width * 0.3)
    top, right = (50 if marks else 28), 14
    height = (260 if phone else 340) + (22 if marks else 0)
    inner, tall = width - left - right, height - top - 44

    def px(x: float) -> float:
        return left + across.at(x) * inner

    def py(y: float) -> float:
        return top + (1 - up.at(y)) * tall

    parts: list[Element] = [_text(2, 14, _clip(_axis(plot.y), width - 8), kind="name")]
    for tick, label in zip(up.ticks, labels, strict=True):
        parts.append(_rule(left, py(tick), left + inner, py(tick), "grid"))
        parts.append(_text(left - 6, py(tick) + 4, _clip(label, left - 6), "end"))
    parts += _ticks_across(plot.x, across, px, top + tall, width)
    parts.append(_text(left + inner / 2, height - 6, _clip(_axis(plot.x), inner), "middle", "name"))
    parts.append(_rule(left, top + tall, left + inner, top + tall, "axis"))
    for n, band in enumerate(bands):
        if len(band) > 1:
            edge = [(px(x), py(low)) for x, low, _ in band]
            edge += [(px(x), py(high)) for x, _, high in reversed(band)]
            parts.append(el("polygon", {"points": _points(edge), "class": f"band f{n % SERIES}"}))
    # What is drawn for comparison lies on top: where both are equal, both are seen.
    for n, (series, points) in sorted(enumerate(shown), key=lambda item: item[1][0].ideal):
        parts += _curve(series, [(px(x), py(y)) for x, y in points], n)
    parts += _flags([(number, px(mark.at)) for number, mark in marks], top, top + tall)
    return _svg(width, height, *parts)


def _ticks_across(
    axis: Axis, across: Scale, px: Callable[[float], float], y: float, width: float
) -> list[Element]:
    parts: list[Element] = []
    free = 0.0
    for tick in across.ticks:
        label = figure(tick, axis.unit)
        x, half = px(tick), len(label) * LETTER / 2
        parts.append(_rule(x, y, x, y + 4, "axis"))
        # What would stand over its neighbour is left out.
        if x - half >= free and x - half > 0:
            end = x + half > width
            parts.append(_text(width - 2 if end else x, y + 18, label, "end" if end else "middle"))
            free = x + half + 8
    return parts


def _dash(n: int) -> str:
    """Return the dashes of a series' line; with its colour, 36 can be distinguished."""
    return DASHES[(n + n // SERIES) % len(DASHES)]


def _flags(marks: Sequence[tuple[int, float]], top: float, bottom: float) -> list[Element]:
    """Draw a line for each mark with its number above; one line for marks in one place."""
    places: dict[str, list[int]] = {}
    for number, at in marks:
        places.setdefault(_px(at), []).append(number)
    parts: list[Element] = []
    for n, (place, numbers) in enumerate(places.items()):
        x, text = float(place), ", ".join(map(str, numbers))
        parts.append(_rule(x, top - 8, x, bottom, "mark"))
        # Neighbours stand on two lines, so that numbers of near marks can be read.
        parts.append(_text(x, top - (10 if n % 2 else 22), text, "middle", "marked"))
    return parts


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_px(x)},{_px(y)}" for x, y in points)


def _curve(series: Series, points: list[tuple[float, float]], n: int) -> list[Element]:
    if series.ideal:
        return [el("polyline", {"points": _points(points), "class": "ideal"})] if points else []
    parts = []
    if len(points) > 1:
        line = {"points": _points(points), "class": f"line s{n % SERIES}"}
        if dash := _dash(n):
            line["stroke-dasharray"] = dash
        parts.append(el("polyline", line))
    # Dots where they can be distinguished.
    if len(points) <= 40:
        parts += [
            el("circle", {"cx": _px(x), "cy": _px(y), "r": "3.2", "class": f"f{n % SERIES}"})
            for x, y in points
        ]
    return parts


def _legend(series: Sequence[Series]) -> Element | None:
    if not series:
        return None
    items = []
    for n, row in enumerate(series):
        line = {"x1": "0", "y1": "6", "x2": "26", "y2": "6"}
        line["class"] = "ideal" if row.ideal else f"line s{n % SERIES}"
        if not row.ideal and (dash := _dash(n)):
            line["stroke-dasharray"] = dash
        key = el("svg", {"viewBox": "0 0 26 12", "aria-hidden": "true"}, el("line", line))
        band = " (shaded: confidence interval)" if _has_band(row) else ""
        items.append(el("li", {}, key, el("span", {}, row.name + band)))
    return el("ul", {"class": "legend"}, *items)


def _heads(plot: LinePlot) -> list[str]:
    return ["Series", _axis(plot.x), _axis(plot.y), "Interval"]


def _rows(plot: LinePlot) -> Iterable[Sequence[str]]:
    for series in plot.series:
        banded = _has_band(series)
        for n, (x, y) in enumerate(series.points):
            interval = f"{series.low[n]:.6g} to {series.high[n]:.6g}" if banded else ""
            yield series.name, figure(x, plot.x.unit), figure(y, plot.y.unit), interval


# -- timelines ------------------------------------------------------------------------------------

_STATES = (
    ("waits", ("pend", "wait", "queue", "suspend")),
    ("lost", ("fail", "kill", "lost", "dead", "evict", "hung", "hang", "gone")),
    ("done", ("done", "finish", "complet", "succe", "ended")),
    ("runs", ("run", "train", "work", "step")),
    ("holds", ("admit", "reserv", "start", "place", "bound")),
)


def _state_kinds(spans: Sequence[Span]) -> dict[str, str]:
    """Return a style class for each state; unknown states take the series' colours."""
    kinds: dict[str, str] = {}
    free = itertools.cycle(f"f{n}" for n in range(1, SERIES))
    for span in spans:
        if span.state not in kinds:
            low = span.state.lower()
            known = [kind for kind, words in _STATES if any(word in low for word in words)]
            # Two states of one look could not be distinguished.
            kind = next((kind for kind in known if kind not in kinds.values()), None)
            kinds[span.state] = kind or next(free)
    return kinds


def _timeline(plot: Timeline, name: str) -> Element:
    kinds = _state_kinds(plot.spans)
    lanes = list(dict.fromkeys(span.lane for span in plot.spans))
    legend = el(
        "ul",
        {"class": "legend"},
        *(
            el(
                "li",
                {},
                el(
                    "svg",
                    {"viewBox": "0 0 26 12", "aria-hidden": "true"},
                    _rect(1, 1, 24, 10, kind),
                ),
                el("span", {}, state),
            )
            for state, kind in kinds.items()
        ),
    )
    rows = (
        (s.lane, s.state, figure(s.begin), figure(s.end), s.label)
        for s in sorted(plot.spans, key=lambda span: (lanes.index(span.lane), span.begin))
    )
    ends = [edge for span in plot.spans for edge in (span.begin, span.end)]
    text = (
        f"{len(lanes)} lanes, {len(plot.spans)} spans from {figure(min(ends))} to "
        f"{figure(max(ends))} s; states: {', '.join(kinds)}."
        if ends
        else "No spans."
    )
    return _figure(
        plot.title,
        text,
        name,
        [(where, _lanes(plot, lanes, kinds, width)) for where, width in _SIZES],
        legend if kinds else None,
        _marks(plot.marks, "s"),
        _data(
            table(f"{plot.title}, data", ["Lane", "State", "Begin (s)", "End (s)", "Label"], rows)
        ),
    )


def _lanes(plot: Timeline, lanes: Sequence[str], kinds: dict[str, str], width: float) -> Element:
    phone = width == PHONE
    # On a phone a lane's name stands above its bars.
    left = (
        4.0 if phone else min(max([len(lane) for lane in lanes] + [4]) * LETTER + 12, width * 0.3)
    )
    top = 42.0 if plot.marks else 8.0
    pitch, bar = (38.0, 16.0) if phone else (26.0, 18.0)
    tall = pitch * len(lanes)
    inner = width - left - 14
    times = [edge for span in plot.spans for edge in (span.begin, span.end)]
    across = scale(
        Axis(label="", unit="s"), times + [m.at for m in plot.marks], ticks=4 if phone else 8
    )

    def px(x: float) -> float:
        return left + across.at(x) * inner

    parts = [_rule(px(tick), top, px(tick), top + tall, "grid") for tick in across.ticks]
    parts += _ticks_across(Axis(label="", unit="s"), across, px, top + tall, width)
    parts.append(_text(left + inner / 2, top + tall + 36, "time (s)", "middle", "name"))
    rows = {lane: top + n * pitch + (20 if phone else 4) for n, lane in enumerate(lanes)}
    for lane, y in rows.items():
        if phone:
            parts.append(_text(left, y - 4, _clip(lane, inner), kind="name"))
        else:
            parts.append(_text(left - 8, y + 13, _clip(lane, left - 8), "end", "name"))
    for span in plot.spans:
        begin, end = sorted((px(span.begin), px(span.end)))
        text = (
            f"{span.lane}: {span.state} {figure(span.begin)} to {figure(span.end)} s {span.label}"
        )
        parts.append(
            _rect(
                begin,
                rows[span.lane],
                max(end - begin, 1.5),
                bar,
                kinds[span.state],
                el("title", {}, text.rstrip()),
            )
        )
    flags = [(number, px(mark.at)) for number, mark in enumerate(plot.marks, 1)]
    parts += _flags(flags, top, top + tall)
    return _svg(width, top + tall + 44, *parts)


# -- maps -----------------------------------------------------------------------------------------


def _map(plot: Map, name: str) -> Element:
    rows = list(dict.fromkeys(cell.row for cell in plot.cells))
    columns = list(dict.fromkeys(cell.column for cell in plot.cells))
    legend = el(
        "ul",
        {"class": "legend"},
        *(
            el("li", {}, el("span", {"class": verdict.value}, SIGNS[verdict]), WORDS[verdict])
            for verdict in SIGNS
        ),
    )
    data = (
        (cell.row, cell.column, _value(cell, plot.unit), WORDS[cell.verdict]) for cell in plot.cells
    )
    reported = [f"{sum(c.verdict is v for c in plot.cells)} {word}" for v, word in WORDS.items()]
    unit = el("p", {"class": "soft"}, f"Values in {plot.unit}.") if plot.unit else None
    return _figure(
        plot.title,
        f"{len(rows)} rows by {len(columns)} columns: {', '.join(reported)}.",
        name,
        [(where, _grid(plot, rows, columns, width)) for where, width in _SIZES],
        legend,
        unit,
        _data(table(f"{plot.title}, data", ["Row", "Column", "Value", "Verdict"], data)),
    )


def _value(cell: Cell, unit: str) -> str:
    return "not measured" if cell.value is None else with_unit(cell.value, unit)


def _short(names: Sequence[str], wide: float) -> list[str]:
    """Names as they fit: whole, without what all begin with, as numbers, not at all."""
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = sum(1 for _ in same)
    numbers = [str(n) for n in range(1, len(names) + 1)]
    for tried in (list(names), [name[prefix:] for name in names], numbers):
        if all(tried) and max(map(len, tried), default=0) * LETTER + 4 <= wide:
            return tried
    return []


def _grid(plot: Map, rows: Sequence[str], columns: Sequence[str], width: float) -> Element:
    longest = max([len(row) for row in rows] + [3])
    left = min(longest * LETTER + 12, width * 0.4)
    wide = min((width - left - 4) / max(len(columns), 1), 150)
    high, top = 26.0, 24.0
    parts: list[Element] = []
    for n, label in enumerate(_short(columns, wide)):
        parts.append(_text(left + (n + 0.5) * wide, 16, label, "middle", "name"))
    for n, row in enumerate(rows):
        y = top + n * high + 17
        parts.append(_text(left - 8, y, _clip(row, left - 8), "end", "name"))
    place_x = {column: n for n, column in enumerate(columns)}
    place_y = {row: n for n, row in enumerate(rows)}
    values = [f"{cell.value:.4g}" for cell in plot.cells if cell.value is not None]
    fits = (max(map(len, values), default=0) + 2) * LETTER <= wide - 6
    for cell in plot.cells:
        x, y = left + place_x[cell.column] * wide, top + place_y[cell.row] * high
        text = f"{cell.row}, {cell.column}: {_value(cell, plot.unit)}, {WORDS[cell.verdict]}"
        parts.append(
            _rect(
                x + 1.5,
                y + 1.5,
                max(wide - 3, 1),
                high - 3,
                f"cell {cell.verdict.value}",
                el("title", {}, text),
            )
        )
        label = SIGNS[cell.verdict]
        if fits and cell.value is not None:
            label += f" {cell.value:.4g}"
        if wide >= 12:
            parts.append(_text(x + wide / 2, y + 17, label, "middle", f"sign {cell.verdict.value}"))
    return _svg(width, top + len(rows) * high + 6, *parts)
