"""Proof of each `ok` and transport, on every log of the set, whole and without its proofs.

The tests remove the lines that prove a transport or an `ok`, all of them or some of them. The rest
must claim no other transport than before, and no new `ok`. A log of the part that is kept aside is
counted and never named.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from railhead.diagnose import read
from railhead.nccl.reading import Reading
from railhead.nccl.sources import Source

pytestmark = pytest.mark.slow

HERE = Path(__file__).resolve().parent
PARTS = ("tune", "held_out")
# With the ports' link layer no longer shown, InfiniBand and RoCE are verbs; without the provider
# EFA is libfabric.
COARSER = {"ib": "verbs", "roce": "verbs", "efa": "libfabric"}
# What an `ok` may rest on: an end, or a figure.
END_OR_FIGURE = re.compile(
    r"(?:Init|Destroy) COMPLETE|\bRUNNING\s+OK\b"
    r"|\d\s+(?:float|half|double|bfloat16|u?int\d+|fp8_\w+|f8e\w+)\s|^\s*\d+[KMG]B\s+\d|GB/s"
    r"|busbw: \d+\.\d+ GBps|\d+x\d+\s+[\d.]+ ms\s+[\d.]+\s+[\d.]+\s*$"
)


def reading_of(lines: list[bytes]) -> Reading:
    data = b"\n".join(lines)
    return read([Source(name="log", open=partial(io.BytesIO, data))])


@cache
def whole(path: Path) -> Reading:
    return reading_of(path.read_bytes().split(b"\n"))


def proofs(reading: Reading) -> set[int]:
    """Numbers of the lines that a transport or an ``ok`` rests on.

    Where the verdict is a problem, its own lines stay: without a failure's lines no log fails.
    """
    lines = {at.line for at in reading.claims["transport"].evidence}
    for name in ("link-layer", "network"):
        if name in reading.claims:
            lines |= {at.line for at in reading.claims[name].evidence}
    if reading.claims["gdr"].value == "yes":
        lines |= {at.line for at in reading.claims["gdr"].evidence}
    verdict = {at.line for at in reading.claims["verdict"].evidence}
    return lines | verdict if reading.verdict == "ok" else lines - verdict


def without_proof(path: Path) -> Iterator[Reading]:
    """Readings of the log with all its proofs gone, and then theirs; and with some of them gone."""
    lines = path.read_bytes().split(b"\n")
    rest, reading = lines, whole(path)
    for _ in range(2):
        gone = proofs(reading)
        if not gone:
            break
        rest = [line for number, line in enumerate(rest, 1) if number not in gone]
        reading = reading_of(rest)
        yield reading
    # The name alone decides, so that a failure comes back.
    choice = random.Random(path.name)
    every = proofs(whole(path))
    some = {number for number in sorted(every) if choice.random() < 0.5}
    if some and some != every:
        yield reading_of([line for number, line in enumerate(lines, 1) if number not in some])


def invented(before: Reading, after: Reading) -> bool:
    """Is a transport claimed that was not, beyond being less exact?"""
    allowed = {"unknown", before.transport, COARSER.get(before.transport)}
    return after.transport not in allowed


@cache
def counted(part: str) -> dict[str, list[str]]:
    """Return the breaches of the rule in a part: their kind -> the logs."""
    results: dict[str, list[str]] = {
        "ok without an end or a figure": [],
        "transport without a line": [],
        "ok raised": [],
        "transport invented": [],
    }
    for path in sorted((HERE / part).glob("*.log")):
        before = whole(path)
        for reading in (before, *without_proof(path)):
            verdict, transport = reading.claims["verdict"], reading.claims["transport"]
            shown = any(END_OR_FIGURE.search(at.text) for at in verdict.evidence)
            if reading.verdict == "ok" and not shown:
                results["ok without an end or a figure"].append(path.name)
            if reading.transport != "unknown" and not transport.evidence:
                results["transport without a line"].append(path.name)
            if reading.verdict == "ok" and before.verdict != "ok":
                results["ok raised"].append(path.name)
            if invented(before, reading):
                results["transport invented"].append(path.name)
    return results


def test_no_ok_and_no_transport_without_proof() -> None:
    assert {kind: logs for kind, logs in counted("tune").items() if logs} == {}


def test_held_out_logs_are_proven_too() -> None:
    numbers = {kind: len(logs) for kind, logs in counted("held_out").items()}
    assert numbers == dict.fromkeys(numbers, 0)


@pytest.mark.parametrize("part", PARTS)
def test_rule_applies_to_many_logs(part: str) -> None:
    """A rule that no log reaches would hold for nothing."""
    readings = [whole(path) for path in (HERE / part).glob("*.log")]
    assert sum(reading.transport != "unknown" for reading in readings) >= 50
    assert sum(reading.verdict == "ok" for reading in readings) >= 10
