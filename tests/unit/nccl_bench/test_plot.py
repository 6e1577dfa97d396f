"""The picture: valid, the same every time, and drawn from the figures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from railhead.nccl.bench.judge import Judged, judge
from railhead.nccl.bench.parse import read_runs
from railhead.nccl.bench.plot import SVG, heading, limit_of, series_of, svg, terminal
from tests.unit.nccl_bench import tables
from tests.unit.nccl_bench.tables import GIB, MIB, Point


def judged(
    tmp_path: Path, text: str, name: str = "run.log", kind: str | None = None
) -> list[Judged]:
    path = tmp_path / name
    path.write_text(text)
    return [judge(run, instance_type=kind) for run in read_runs([path])]


def test_svg_is_valid_and_the_same_every_time(tmp_path: Path, machine: str) -> None:
    runs = judged(tmp_path, tables.log(started=True), kind=machine)
    drawn = svg(runs)
    assert drawn == svg(runs)
    root = ET.fromstring(drawn)
    assert root.tag == f"{{{SVG}}}svg"
    lines = root.findall(f".//{{{SVG}}}polyline")
    assert len(lines) == 2
    assert len(root.findall(f".//{{{SVG}}}circle")) == 2 * 29
    for line in lines:
        for pair in line.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 80 <= x <= 930
            assert 56 <= y <= 346
    texts = [item.text for item in root.iter(f"{{{SVG}}}text")]
    assert "bound of the NICs, 400 GB/s a node" in texts
    assert any(text and text.startswith("all_reduce, 16 ranks on 2 nodes") for text in texts)


def test_the_limit_is_in_busbw(tmp_path: Path, machine: str) -> None:
    (run,) = judged(tmp_path, tables.log(started=True), kind=machine)
    assert limit_of(run) == pytest.approx(400 * 1.875)


def test_a_panel_a_run(tmp_path: Path) -> None:
    runs = judged(tmp_path, tables.log(rows=tables.points(MIB, GIB), started=True) * 3)
    root = ET.fromstring(svg(runs))
    assert len(root.findall(f"{{{SVG}}}g")) == 3
    assert root.attrib["viewBox"] == "0 0 960 1260"


@pytest.mark.parametrize(
    "name", ['a<b>&"c.log', "a\x01b\x0c.log", "naïve-日本.log", "\U0001f680.log"]
)
def test_any_file_name_gives_valid_xml(tmp_path: Path, name: str) -> None:
    ET.fromstring(svg(judged(tmp_path, tables.log(started=True), name)))


def test_no_runs_and_one_point(tmp_path: Path) -> None:
    ET.fromstring(svg([]))
    (run,) = judged(tmp_path, tables.log(rows=[Point(size=GIB, algbw=1.0)]))
    ET.fromstring(svg([run]))
    assert "1 GiB" in terminal(run) or terminal(run)


def test_terminal(tmp_path: Path) -> None:
    (run,) = judged(tmp_path, tables.log(started=True))
    drawn = terminal(run, width=60, height=13).splitlines()
    assert len(drawn) == 16
    assert drawn[0] == "busbw GB/s"
    assert drawn[1].startswith(" 500 |")
    assert "8 B" in drawn[-1]
    assert "2 GiB" in drawn[-1]
    assert all(len(line) <= 66 for line in drawn)
    # It rises: the first column with ink in the top row is right of the one in the bottom row.
    assert drawn[2].rstrip().rfind("|") == 5


def test_terminal_without_utf8(tmp_path: Path) -> None:
    (run,) = judged(tmp_path, tables.log(started=True))
    drawn = terminal(run, plain=True)
    assert drawn.isascii()
    assert "***" in drawn


def test_nothing_to_draw(tmp_path: Path) -> None:
    (run,) = judged(tmp_path, tables.log(rows=[], closing=False))
    assert terminal(run) == ""
    assert series_of(run) == ()
    assert heading(run).startswith("unknown collective, 16 ranks on 2 nodes")


@pytest.mark.parametrize(
    ("low", "high", "middle"),
    [(MIB, 4 * MIB, "2 MiB"), (MIB, 2 * MIB, ""), (MIB, 8 * MIB, "4 MiB")],
)
def test_the_size_in_the_middle_of_the_axis_stands_at_its_place(
    tmp_path: Path, low: int, high: int, middle: str
) -> None:
    (run,) = judged(tmp_path, tables.log(rows=tables.points(low, high), started=True))
    axis = terminal(run, width=60).splitlines()[-1].strip()
    result = axis.replace("1 MiB", "", 1).strip()
    assert result.split("  ")[0] == (middle or "2 MiB")
    if middle == "4 MiB":
        assert axis.index(middle) > 60 * 0.6
    if not middle:
        assert axis.count("MiB") == 2
