"""Any bytes give runs or nothing, never a traceback, and in time that grows with their size."""

from __future__ import annotations

import random
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from railhead.nccl.bench.judge import judge
from railhead.nccl.bench.parse import read_runs
from railhead.nccl.bench.plot import svg, terminal
from railhead.nccl.bench.report import Gate, to_json
from tests.unit.nccl_bench import tables

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
PIECES = [line.encode() + b"\n" for line in tables.log(started=True).splitlines()] + [
    b'{"results": [{"size": 1, "count": 1, "out_of_place": {"time": 1, "alg_bw": 1}}]}\n',
    b"  1073741824  268435456  float  sum  -1  1e300  1e300  1e300  1e300\n",
    b"  99999999999999999999  1  float  sum  -1  1  1  1  0\n",
    b"  8  2  float  sum  -1  nan  inf  -nan  N/A  0  0  0  0\n",
    b"#  Rank 99999999 Group 9 Pid 1 on x device 1 [0x1] y\n",
    b"\x00\xff\x1b[0m\r",
    b"[0]" * 40,
    b"# Avg bus bandwidth    : 1e999 FAILED\n",
]


def everything(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    judged = [judge(run) for run in read_runs([path])]
    to_json(judged, Gate(min_busbw=1.0, min_fraction=0.5))
    for item in judged:
        terminal(item)
        terminal(item, plain=True)
    ET.fromstring(svg(judged))


@QUICK
@given(data=st.binary(max_size=2000))
@example(data=b"{")
@example(data=b"\x1f\x8b")
@example(data=b"{" * 100_000)
def test_any_bytes(tmp_path: Path, data: bytes) -> None:
    everything(tmp_path, data)


@QUICK
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_order_of_real_lines(tmp_path: Path, pieces: list[bytes]) -> None:
    everything(tmp_path, b"".join(pieces))


def test_flipped_bytes_of_real_output(tmp_path: Path) -> None:
    chance = random.Random(4711)
    whole = bytearray(tables.log(started=True).encode())
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 40)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        everything(tmp_path, bytes(data))


@pytest.mark.parametrize(
    "line",
    [
        b"8 " * 4000,
        b"8 2 float sum -1 " + b"1 " * 3000,
        b"# size count time algbw busbw " * 250,
        b"[0] " * 2000,
        b"Rank 0 Group 0 Pid 1 on " * 300,
        b"\x1b[" * 3000,
    ],
)
def test_no_line_takes_quadratic_time(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes((line + b"\n") * 40)
    start = time.process_time()
    read_runs([path])
    assert time.process_time() - start < 2


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    bandwidths=st.lists(st.sampled_from([0.0, 0.01, 1.0, 90.0, 100.0, 400.0]), max_size=8),
    low=st.sampled_from([0, 8, 1 << 20, 1 << 30]),
)
@example(bandwidths=[100.0, 1.0], low=1 << 30)
@example(bandwidths=[], low=0)
def test_every_shape_of_curve(tmp_path: Path, bandwidths: list[float], low: int) -> None:
    rows = [tables.Point(size=low << at, algbw=value) for at, value in enumerate(bandwidths)]
    everything(tmp_path, tables.log(rows=rows, started=True).encode())
