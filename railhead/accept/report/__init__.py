"""A report as one HTML page that needs no network, drawn from the report's data alone.

The page holds its own JSON and, once it is sealed (:mod:`railhead.accept.signing`), its seal. It
runs no script, and its content security policy lets it load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import Element

from railhead.accept import document
from railhead.accept.model import Evidence, Measured, Report, Result, Verdict
from railhead.accept.report.html import el, write
from railhead.accept.report.plots import draw, stacked, table
from railhead.accept.report.scales import with_unit
from railhead.accept.report.style import sheet
from railhead.accept.report.words import (
    SIGNS,
    WORDS,
    badge,
    duration,
    missing,
    sentences,
    verdict_of,
    waived,
)

# Where a page keeps its data and its seal. No text can hold it: `<` is escaped in all of it.
REPORT_BEGIN = '<script type="application/json" id="report">'
SEAL_BEGIN = '<script type="application/json" id="seal">'
END = "</script>"
_SAFE = re.compile(r"[a-z][a-z0-9-]{0,40}")
# More lines than this are shown when asked for; fewer stand open.
_OPEN_LINES = 12
_SIGN = {True: "\u2265", False: "\u2264"}


def page(report: Report, *, signer: str = "") -> str:
    """Return the whole page, its seal's place still empty.

    Args:
        report: what is shown.
        signer: the fingerprint of the key that will sign it; empty where nobody does.
    """
    text = write(
        el(
            "html",
            {"lang": "en"},
            head(f"{_word(report)}: acceptance of {report.cluster}"),
            el(
                "body",
                {},
                el("a", {"href": "#main", "class": "skip"}, "To the verdict"),
                el(
                    "header",
                    {},
                    el("h1", {}, "Acceptance of cluster ", el("bdi", {}, report.cluster)),
                ),
                el(
                    "main",
                    {"id": "main"},
                    _verdict(report),
                    _summary(report),
                    _contents(report),
                    *(_check(report, result, n) for n, result in enumerate(report.checks)),
                    _waivers(report),
                    _environment(report),
                    _seal(report, signer),
                ),
                el("footer", {}, f"Made by Railhead {report.railhead}. No part of it is loaded."),
            ),
        )
    )
    data = REPORT_BEGIN + embedded(document.body(report)) + END + "\n" + SEAL_BEGIN + END + "\n"
    before, last, tail = text.rpartition("</body>")
    return before + data + last + tail


def embedded(value: Any) -> str:
    """JSON that may stand in a script element, whatever its texts hold."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def head(title: str) -> Element:
    """Return the head of a page that loads nothing: its title and the style sheet."""
    style = sheet()
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"
    sheet_element = Element("style")
    # Read as it is written, so it may hold nothing that is escaped; a test looks.
    sheet_element.text = style
    return el(
        "head",
        {},
        el("meta", {"charset": "utf-8"}),
        el("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        el("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        el("meta", {"name": "color-scheme", "content": "light dark"}),
        el("meta", {"name": "referrer", "content": "no-referrer"}),
        el("title", {}, title),
        sheet_element,
    )


def _word(report: Report) -> str:
    return "Accepted" if report.accepted else "Not accepted"


# -- the top --------------------------------------------------------------------------------------


def _summary(report: Report) -> Element:
    seconds = (report.ended - report.begun).total_seconds()
    facts = {
        "Platform": report.platform,
        "Nodes": str(len(report.nodes)),
        "Begun": _moment(report.begun),
        "Took": duration(seconds),
        "Node-hours": f"{sum(result.node_hours for result in report.checks):.3g}",
        "Railhead": report.railhead,
        "Size": "quick: fewer repeats, smaller sizes" if report.quick else "whole",
    }
    return _facts(facts)


def _facts(facts: Mapping[str, str]) -> Element:
    return el(
        "dl",
        {"class": "facts"},
        *(el("div", {}, el("dt", {}, k), el("dd", {}, v)) for k, v in facts.items()),
    )


def _moment(moment: datetime) -> str:
    # Its zone's name would be another one after it was read again.
    return moment.isoformat(" ", "minutes").replace("+00:00", " UTC")


def _verdict(report: Report) -> Element:
    verdict = verdict_of(report)
    return el(
        "div",
        {"class": f"verdict {verdict.value}", "role": "region", "aria-label": "Verdict"},
        el("p", {"class": "word"}, f"{SIGNS[verdict]} {_word(report)}"),
        el("ul", {}, *(el("li", {}, sentence) for sentence in sentences(report))),
    )


def _contents(report: Report) -> Element:
    rows = []
    for n, result in enumerate(report.checks):
        link = el("a", {"href": f"#{_anchor(result, n)}"}, result.name)
        rows.append(_promise(link, _badges(result, report), result.summary))
    unproven = f"{SIGNS[Verdict.NOT_PROVEN]} {WORDS[Verdict.NOT_PROVEN]}"
    rows += [
        _promise(name, [_badge(Verdict.NOT_PROVEN, unproven)], "It has no result.")
        for name in missing(report)
    ]
    made = stacked("Every promise and its verdict", _PROMISE_HEADS, rows)
    return el("nav", {"aria-label": "Promises"}, made)


_PROMISE_HEADS = (("Check", ""), ("Verdict", ""), ("What was found", ""))


def _promise(
    name: Element | str, badges: Sequence[Element], summary: str
) -> tuple[Element, list[Element]]:
    return el("th", {}, name), [el("td", {}, *badges), el("td", {}, summary)]


def _anchor(result: Result, n: int) -> str:
    return f"check-{n}-{result.name}" if _SAFE.fullmatch(result.name) else f"check-{n}"


def _badge(verdict: Verdict, text: str) -> Element:
    return el("span", {"class": f"badge {verdict.value}"}, text)


def _badges(result: Result, report: Report) -> list[Element]:
    badges = [_badge(result.verdict, badge(result))]
    if waived(report, result):
        badges.append(el("span", {"class": "badge waived"}, "waived"))
    return badges


# -- one promise ----------------------------------------------------------------------------------


def _check(report: Report, result: Result, n: int) -> Element:
    anchor = _anchor(result, n)
    used = f"Took {duration(result.seconds)}, {result.node_hours:.3g} node-hours."
    passed = result.verdict is Verdict.PASSED
    return el(
        "section",
        {"id": anchor, "aria-labelledby": f"{anchor}-h"},
        el("h2", {"id": f"{anchor}-h"}, result.name, *_badges(result, report)),
        el("p", {"class": "soft"}, result.promise),
        el("p", {}, result.summary),
        _waiver(report, result),
        el("div", {"class": "box"}, el("strong", {}, "What to do. "), result.remedy)
        if result.remedy and not passed
        else None,
        _measured(result.measured, result.name),
        *(draw(plot, f"{anchor}-p{k}") for k, plot in enumerate(result.plots)),
        *_evidence(result.evidence),
        *_reproduce(result.reproduce),
        el("p", {"class": "soft"}, used),
    )


def _measured(measured: Sequence[Measured], name: str) -> Element | None:
    if not measured:
        return None
    return stacked(f"What was measured for {name}", _HEADS, map(_figure_row, measured))


_HEADS = (("Figure", ""), ("Measured", "n"), ("Limit", "n"), ("Held", ""), ("Limit from", ""))


def _class(kind: str, attributes: dict[str, str]) -> dict[str, str]:
    return {**attributes, "class": kind} if kind else attributes


def _figure_row(one: Measured) -> tuple[Element, list[Element]]:
    limit = ""
    if one.limit is not None:
        limit = f"{_SIGN[one.at_least]} {with_unit(one.limit, one.unit)}"
    texts = {None: ("", "\u2014"), True: ("yes", "\u2713 yes"), False: ("no", "\u2717 no")}
    kind, held = texts[one.passed]
    return el("th", {}, one.name), [
        el("td", {"class": "n"}, with_unit(one.value, one.unit), _interval(one)),
        el("td", {"class": "n"}, limit),
        el("td", _class(kind, {}), held),
        el("td", {"class": "source"}, one.source),
    ]


def _interval(one: Measured) -> Element | None:
    if one.low is None or one.high is None:
        return None
    text = f" ({with_unit(one.low, one.unit)} to {with_unit(one.high, one.unit)}, 95 %)"
    return el("span", {"class": "soft"}, text)


def _evidence(evidence: Sequence[Evidence]) -> list[Element]:
    if not evidence:
        return []
    return [el("h3", {}, "Evidence"), *(_lines(item) for item in evidence)]


def _lines(one: Evidence) -> Element:
    lines = one.text.count("\n") + 1
    shown = {"open": "open"} if lines <= _OPEN_LINES else {}
    label = f"{one.title} ({lines} line{'s' if lines > 1 else ''})"
    text = {"tabindex": "0", "role": "region", "aria-label": one.title}
    # A reader drops the first line end of a `pre`, which is part of the evidence.
    return el("details", shown, el("summary", {}, label), el("pre", text, "\n" + one.text))


def _reproduce(lines: Sequence[str]) -> list[Element]:
    if not lines:
        return []
    text = {"tabindex": "0", "role": "region", "aria-label": "Commands that show the same"}
    return [el("h3", {}, "To see it again"), el("pre", text, "\n" + "\n".join(lines))]


# -- the rest -------------------------------------------------------------------------------------


def _waiver(report: Report, result: Result) -> Element | None:
    waiver = result.waiver
    if waiver is None:
        return None
    counts = "Waived. " if report.stands(result) else "This waiver does not count. "
    return el(
        "div",
        {"class": "box open"},
        el("strong", {}, counts),
        f"{waiver.by} accepts {waiver.check} unproven until {waiver.until.isoformat()}: "
        f"{waiver.reason}",
    )


def _waivers(report: Report) -> Element | None:
    rows = [
        (
            result.name,
            WORDS[result.verdict],
            waiver.by,
            waiver.until.isoformat(),
            waiver.reason,
            "yes" if report.stands(result) else "no",
        )
        for result in report.checks
        if (waiver := result.waiver) is not None
    ]
    if not rows:
        return None
    heads = ["Check", "Verdict", "Waived by", "Until", "Why", "Counts"]
    return _section("waivers", "Waivers", table("What was accepted unproven", heads, rows))


def _environment(report: Report) -> Element:
    parts: list[Element] = []
    for title, rows in (
        ("Hardware", report.hardware),
        ("Versions", report.versions),
        ("Environment of jobs", report.environment),
    ):
        if rows:
            parts.append(table(title, ["Name", "Value"], sorted(rows.items())))
    nodes = el("p", {}, el("strong", {}, f"{len(report.nodes)} nodes: "), ", ".join(report.nodes))
    return _section("environment", "Where it ran", nodes, *parts)


def _seal(report: Report, signer: str) -> Element:
    reported = (
        f"Signed by {signer}. "
        if signer
        else "Nobody signed it: its digest shows an edit, not a page that was written again. "
    )
    return _section(
        "seal",
        "Seal",
        el("p", {}, "SHA-256 of all verdicts, figures and evidence: "),
        el("p", {}, el("code", {}, document.digest(report))),
        el("p", {}, reported, "Whether anything was changed since:"),
        el("pre", {"tabindex": "0"}, "\nrailhead accept check-report FILE" + _key(signer)),
    )


def _key(signer: str) -> str:
    return " --key PUBLIC-KEY" if signer else ""


def _section(name: str, title: str, *children: Element) -> Element:
    return el(
        "section",
        {"id": f"about-{name}", "aria-labelledby": f"about-{name}-h"},
        el("h2", {"id": f"about-{name}-h"}, title),
        *children,
    )
