"""The page: well formed whatever a report holds, nothing unescaped, readable by everybody."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from railhead.accept import document
from railhead.accept.model import (
    Axis,
    Cell,
    Evidence,
    LinePlot,
    Map,
    Mark,
    Report,
    Series,
    Span,
    Timeline,
    Verdict,
)
from railhead.accept.report import REPORT_BEGIN, SEAL_BEGIN, page
from railhead.accept.report.html import visible
from railhead.accept.report.plots import DESK, ROWS, draw
from railhead.accept.report.scales import figure, scale, with_unit
from railhead.accept.report.style import COLOURS, GRAPHICS_ON, TEXT_ON, sheet
from tests.unit.accept.reports import NAMES, any_report, report, result, waiver

VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
TAGS = frozenset(
    "html head meta title style body a header h1 h2 h3 bdi dl div dt dd main p ul li nav table "
    "caption thead tbody tr th td span section strong details summary pre code figure figcaption "
    "svg desc text line rect polygon polyline circle ol footer script".split()
)
# What may name another place, or run.
REACHES = frozenset("src srcset action formaction data poster background cite ping style".split())


@dataclass
class Node:
    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str = "") -> list[Node]:
        inner = [item for c in self.children if isinstance(c, Node) for item in c.all(tag)]
        return [self, *inner] if tag in ("", self.tag) else inner

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)


class Strict(HTMLParser):
    """Builds the tree, and refuses what a browser would mend in silence."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"a processing instruction: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


def parsed(text: str) -> Node:
    parser = Strict()
    parser.feed(text)
    parser.close()
    assert parser.open == [parser.root], "something is left open"
    return parser.root


def check_page(found: Report, text: str) -> Node:
    """Check the properties of every page."""
    root = parsed(text)
    nodes = root.all()
    assert {n.tag for n in nodes} <= {"", *TAGS}
    for node in nodes:
        assert not REACHES & node.attributes.keys(), node.attributes
        assert not [name for name in node.attributes if name.startswith("on")]
        if "href" in node.attributes:
            assert node.tag == "a"
            assert node.attributes["href"].startswith("#")
    for script in root.all("script"):
        assert script.attributes["type"] == "application/json"
    assert text.count(REPORT_BEGIN) == text.count(SEAL_BEGIN) == 1
    # Every verdict, and every word, is in it as it is.
    main = root.all("main")[0].text
    for check in found.checks:
        for item in (check.summary, check.promise, *(e.text for e in check.evidence)):
            assert visible(item) in main
        assert check.verdict.value.replace("-", " ") in main
        for m in check.measured:
            assert visible(with_unit(m.value, m.unit)) in main
        if check.waiver is not None:
            assert visible(check.waiver.by) in main
            assert visible(check.waiver.reason) in main
    word = root.all("main")[0].all("p")[0].text
    assert word.endswith("Accepted") is found.accepted
    assert word.endswith("Not accepted") is not found.accepted
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]", text)
    ids = [n.attributes["id"] for n in nodes if "id" in n.attributes]
    assert len(ids) == len(set(ids))
    for n in nodes:
        for name in n.attributes.get("aria-labelledby", "").split():
            assert name in ids
        if n.attributes.get("href", "").startswith("#"):
            assert n.attributes["href"][1:] in ids
    return root


@pytest.mark.slow
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(any_report)
def test_any_report_is_a_whole_page_that_leaks_nothing(found: Report) -> None:
    root = check_page(found, page(found, signer="SHA256:x"))
    held = next(s for s in root.all("script") if s.attributes["id"] == "report")
    assert json.loads(held.text) == document.body(found)


HOSTILE = "</script><script>alert(1)</script><!-- \" onload=x ' &lt; ]]>"


def test_hostile_text_is_shown_as_it_is() -> None:
    lines = LinePlot(
        title=HOSTILE,
        x=Axis(label=HOSTILE, unit=HOSTILE),
        y=Axis(label=HOSTILE),
        series=(Series(name=HOSTILE, points=((0, 0), (1, 1))),),
        marks=(Mark(at=0.5, label=HOSTILE),),
    )
    spans = (Span(lane=HOSTILE, begin=0, end=1, state=HOSTILE, label=HOSTILE),)
    cells = (Cell(row=HOSTILE, column=HOSTILE, value=1, verdict=Verdict.PASSED),)
    match = report(
        result(
            HOSTILE,
            summary=HOSTILE,
            promise=HOSTILE,
            remedy=HOSTILE,
            reproduce=(HOSTILE,),
            evidence=(Evidence(title=HOSTILE, text=HOSTILE),),
            plots=(
                lines,
                Timeline(title=HOSTILE, spans=spans),
                Map(title=HOSTILE, unit=HOSTILE, cells=cells),
            ),
        ),
        cluster=HOSTILE,
        platform=HOSTILE,
        nodes=(HOSTILE,),
        hardware={HOSTILE: HOSTILE},
    )
    text = page(match)
    check_page(match, text)
    assert "<script>" not in text
    assert "<!--" not in text


def test_missing_evidence_is_named() -> None:
    assert visible("a\u202eb\x1b[0m\x00\r") == "a\u27e8U+202E\u27e9b\u241b[0m\u2400\u240d"
    assert visible("caf\u00e9 \u6d4b\n\t\u2713") == "caf\u00e9 \u6d4b\n\t\u2713"


def test_the_verdict_comes_first_and_says_what_is_missing() -> None:
    match = report(result("rdma", Verdict.FAILED), result("gangs"))
    root = check_page(match, page(match))
    main = root.all("main")[0].text
    assert main.startswith("\u2717 Not acceptedFailed: rdma.Passed: gangs.")
    assert "want of a result: slow-nodes, scaling, launch, restart" in main
    assert "mend it" in main
    passed = report(*(result(n) for n in NAMES))
    assert "mend it" not in check_page(passed, page(passed)).all("main")[0].text


def test_a_waiver_is_printed_with_its_name_day_and_reason() -> None:
    match = report(
        result("rdma", Verdict.FAILED, waiver=waiver("rdma")), *(result(n) for n in NAMES[1:])
    )
    main = check_page(match, page(match)).all("main")[0].text
    assert main.startswith("\u2713 AcceptedFailed: rdma (waived).")
    assert main.count("N. Otis") == main.count("2026-05-01") == main.count("parts come in May") == 2


def test_ineffective_waiver_is_reported() -> None:
    early = result("rdma", Verdict.FAILED, waiver=waiver("gangs"))
    main = check_page(match := report(early), page(match)).all("main")[0].text
    assert "This waiver does not count. N. Otis accepts gangs" in main
    assert "Failed: rdma." in main


def test_it_loads_nothing_and_allows_its_own_sheet_alone() -> None:
    text = page(report())
    root = parsed(text)
    (style,) = root.all("style")
    hashed = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    policy = next(n.attributes["content"] for n in root.all("meta") if "http-equiv" in n.attributes)
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{hashed}';")
    assert not re.search(r"url\(|@import|https?:", text)
    # It would be escaped, and browsers do not undo that in a style sheet.
    assert not set("<>&") & set(sheet())


def test_it_is_the_same_each_time() -> None:
    assert page(report()) == page(report())


# -- for everybody --------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    line = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_it_is_defined() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_contrast_is_enough(mode: int) -> None:
    for pairs, least in ((TEXT_ON, 4.5), (GRAPHICS_ON, 3.0)):
        for front, ground in pairs:
            got = contrast(COLOURS[front][mode], COLOURS[ground][mode])
            assert got >= least, (front, ground, round(got, 2))
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", sheet()))
    assert used == COLOURS.keys()


def test_landmarks_headings_and_tables_for_readers_of_screens() -> None:
    root = parsed(page(report()))
    for tag in ("header", "main", "nav", "footer", "h1"):
        assert len(root.all(tag)) == 1, tag
    assert root.all("html")[0].attributes["lang"] == "en"
    skip = root.all("body")[0].all("a")[0]
    assert skip.attributes == {"href": "#main", "class": "skip"}
    for section in root.all("section"):
        assert section.attributes["aria-labelledby"]
    for table in root.all("table"):
        assert table.all("caption")[0].text
        heads = [h.attributes["scope"] for h in table.all("th")]
        assert heads.count("col") == len(table.all("thead")[0].all("th"))
        assert heads.count("row") == len(table.all("tbody")[0].all("tr"))
    for svg in root.all("svg"):
        if "aria-hidden" not in svg.attributes:
            assert svg.attributes["role"] == "img"
            assert [c.tag for c in svg.children[:2] if isinstance(c, Node)] == ["title", "desc"]
    for figure_ in root.all("figure"):
        assert figure_.all("table"), "no table beside the drawing"
    for box in (n for n in root.all() if n.attributes.get("class") == "wide" or n.tag == "pre"):
        assert box.attributes["tabindex"] == "0"
    assert ":focus-visible{outline:" in sheet()
    assert "@media print" in sheet()


# -- plots ----------------------------------------------------------------------------------------

NUMBERS = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf", re.IGNORECASE)
EDGE = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1.7e308, -1.7e308, 1e-9, 3.0, 2.0**34)


@pytest.mark.parametrize("x_log", [False, True])
@pytest.mark.parametrize("y_log", [False, True])
@pytest.mark.parametrize("unit", ["", "B"])
def test_lines_stay_inside_whatever_the_numbers_are(x_log: bool, y_log: bool, unit: str) -> None:
    for x in EDGE:
        for y in EDGE:
            plot = LinePlot(
                title="t",
                x=Axis(label="x", unit=unit, logarithmic=x_log),
                y=Axis(label="y", logarithmic=y_log),
                series=(
                    Series(name="a", points=((x, y), (y, x)), low=(y, x), high=(y, x)),
                    Series(name="b", points=((1, 1),)),
                ),
                marks=(Mark(at=x, label="m"),),
            )
            for svg in draw(plot, "p").findall("svg"):
                wide, high = map(float, svg.attrib["viewBox"].split()[2:])
                for shape in svg.iter():
                    for key in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "points"):
                        for number in NUMBERS.findall(shape.attrib.get(key, "")):
                            assert -1 <= float(number) <= max(wide, high) + 1, (x, y, key)


def test_marks_in_one_place_are_one_line_with_all_their_numbers() -> None:
    plot = LinePlot(
        title="t",
        x=Axis(label="x", logarithmic=True),
        y=Axis(label="y"),
        series=(Series(name="a", points=((1, 1), (100, 2))),),
        marks=tuple(Mark(at=at, label=f"at {at}") for at in (-1, 10, 20, 10)),
    )
    made = draw(plot, "p")
    texts = ["".join(t.itertext()) for t in made.findall("svg")[0].findall("text[@class='marked']")]
    assert texts == ["2, 4", "3"]
    items = ["".join(item.itertext()) for item in made.findall("ol/li")]
    assert items[1] == "at 10 (at 10)"


def test_values_outside_an_axis_are_reported() -> None:
    plot = LinePlot(
        title="t",
        x=Axis(label="x", logarithmic=True),
        y=Axis(label="y"),
        series=(Series(name="a", points=((0, 1), (1, 1), (-1, 1))),),
    )
    assert "2 values that the axes cannot show" in "".join(draw(plot, "p").itertext())


def test_a_band_is_drawn_only_where_every_point_has_one() -> None:
    def bands(low: tuple[float, ...]) -> int:
        points = ((1, 1), (2, 2), (3, 3))
        series = Series(name="a", points=points, low=low, high=(2, 3, 4))
        plot = LinePlot(title="t", x=Axis(label="x"), y=Axis(label="y"), series=(series,))
        return len(draw(plot, "p").findall(".//polygon"))

    assert (bands((0, 1, 2)), bands((0, 1))) == (2, 0)


def test_a_long_plot_has_a_table_that_says_where_the_rest_is() -> None:
    points = tuple((float(n), float(n)) for n in range(ROWS + 5))
    plot = LinePlot(
        title="t",
        x=Axis(label="x"),
        y=Axis(label="y"),
        series=(Series(name="a", points=points),),
    )
    made = draw(plot, "p")
    assert len(made.findall(".//tbody/tr")) == ROWS
    assert f"the first {ROWS}" in "".join(made.itertext())


def test_states_of_a_timeline_are_distinguishable() -> None:
    states = ("pending", "queued", "running", "admitted", "failed", "finished")
    spans = tuple(Span(lane="a", begin=n, end=n + 1, state=s) for n, s in enumerate(states))
    made = draw(Timeline(title="t", spans=spans), "p")
    keys = [made.find(f"ul/li[{n + 1}]/svg/rect") for n in range(len(states))]
    kinds = [key.attrib["class"] for key in keys if key is not None]
    assert len(set(kinds)) == len(states)
    assert kinds[0] == "waits"
    assert kinds[2:] == ["runs", "holds", "lost", "done"]
    swapped = draw(Timeline(title="t", spans=(Span(lane="a", begin=9, end=2, state="x"),)), "p")
    assert all(float(r.attrib["width"]) > 0 for r in swapped.iter("rect"))


def test_a_map_shows_verdicts_without_colour() -> None:
    cells = tuple(
        Cell(row=f"n{r}", column=f"rail {c}", value=48.123456 if c else None, verdict=v)
        for r in range(3)
        for c, v in enumerate(Verdict)
    )
    svg = draw(Map(title="t", unit="GB/s", cells=cells), "p").findall("svg")[0]
    texts = ["".join(t.itertext()) for t in svg.findall("text")]
    assert texts[:3] == ["rail 0", "rail 1", "rail 2"]
    assert texts[6:9] == ["\u2713", "\u2717 48.12", "? 48.12"]
    many = tuple(
        Cell(row="n", column=f"rail {c}", value=1, verdict=Verdict.PASSED) for c in range(32)
    )
    svg = draw(Map(title="t", cells=many), "p").findall("svg")[0]
    texts = ["".join(t.itertext()) for t in svg.findall("text")]
    assert texts[:3] == ["0", "1", "2"]
    assert float(svg.attrib["viewBox"].split()[2]) == DESK


@pytest.mark.parametrize(
    ("values", "logarithmic", "unit", "ticks"),
    [
        ([0, 10], False, "", [0, 2, 4, 6, 8, 10]),
        ([0.9, 1.0], False, "", [0.9, 0.92, 0.94, 0.96, 0.98, 1.0]),
        ([3, 300], False, "", [0, 50, 100, 150, 200, 250, 300]),
        ([2**20, 2**30], True, "B", [2**20, 2**22, 2**24, 2**26, 2**28, 2**30]),
        ([1, 1e4], True, "", [1, 10, 100, 1000, 10000]),
        ([], False, "", [0.6, 0.8, 1.0, 1.2, 1.4]),
    ],
)
def test_ticks_are_where_people_count(
    values: list[float], logarithmic: bool, unit: str, ticks: list[float]
) -> None:
    made = scale(Axis(label="", unit=unit, logarithmic=logarithmic), values)
    assert list(made.ticks) == pytest.approx(ticks)
    for value in values:
        assert -1e-9 <= made.at(value) <= 1 + 1e-9
    assert all(math.isfinite(made.at(t)) for t in made.ticks)


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (2**34, "bytes", "16 GiB"),
        (1536, "B", "1.5 KiB"),
        (12, "", "12"),
        (1234567, "", "1\u202f234\u202f567"),
        (0.95, "", "0.95"),
        (0.9499999, "", "0.95"),
        (98.5, "%", "98.5%"),
        (3.1, "GB/s", "3.1 GB/s"),
        (1e300, "", "1e+300"),
        (-0.0, "", "0"),
    ],
)
def test_figures_as_people_read_them(value: float, unit: str, said: str) -> None:
    assert with_unit(value, unit) == said
    assert figure(5) == "5"
