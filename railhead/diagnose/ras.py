"""Reports of NCCL's RAS subsystem and of its Inspector.

RAS (NCCL 2.24 and newer) answers `ncclras` or port 28028 with text, from 2.28.7 also with JSON; the
Inspector profiler plugin writes JSON lines. Formats: NVIDIA/nccl docs/userguide ras.rst,
src/ras/client_support.cc and plugins/profiler/inspector.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from railhead.base.errors import InputError
from railhead.diagnose.model import Proof

LARGEST = 256 << 20
MAX_PROOFS = 8
COMMUNICATOR = re.compile(r"^#\d+-\d+ \([0-9a-f]+\) ([A-Z,]+)")
RANK = re.compile(r"^\s+Rank (\d+) ")
MISSING = re.compile(r"^\s+The missing ranks?: (.{1,200})")
PROCESS = re.compile(r"^\s+Process \d+ on node \S+ managing GPUs? .{1,80}")
COUNTS = re.compile(
    r"^\s+(\d+) ranks? ha(?:ve|s) (?:launched up to operation (\d+)|not launched any)"
)
COMMALESS = re.compile(rb'("nvml_dev": -?\d+)(\s+"status")')
# A rank this much slower than the middle one, in this share of the operations, is behind.
SLOW_FACTOR = 1.5
SLOW_SHARE = 0.5
FEWEST_OPERATIONS = 10

Seen = dict[str, tuple[Proof, ...]]


def _seen(found: Mapping[str, list[str]], name: str) -> Seen:
    return {
        kind: tuple(Proof(id=kind, where=name, text=text) for text in texts[:MAX_PROOFS])
        for kind, texts in found.items()
        if texts
    }


def looks_like_ras_text(head: bytes) -> bool:
    """True for the text that `ncclras` prints."""
    return b"Communicators..." in head and b"Ranks" in head


def read_ras_text(data: bytes, name: str) -> Seen:
    """Return missing ranks, and ranks with other counts, from the text form."""
    results: dict[str, list[str]] = {"ras-missing-ranks": [], "ras-mismatch": []}
    section = ""
    for line in data[:LARGEST].decode("utf-8", "replace").splitlines():
        if match := COMMUNICATOR.match(line):
            section = match[1]
            if "MISMATCH" in section:
                results["ras-mismatch"].append(line.strip()[:200])
        elif line.startswith(("INCOMPLETE", "DEAD")):
            section = "INCOMPLETE"
        elif MISSING.match(line) or (section == "INCOMPLETE" and _names(line)):
            results["ras-missing-ranks"].append(line.strip()[:200])
        elif "MISMATCH" in section and (COUNTS.match(line) or RANK.match(line)):
            results["ras-mismatch"].append(line.strip()[:200])
    return _seen(results, name)


def _names(line: str) -> bool:
    return bool(PROCESS.match(line) or RANK.match(line))


def mended(data: bytes) -> bytes:
    """Return a report as JSON: NCCL 2.28 leaves out the comma before a missing rank's status.

    v2.28.7-1 to v2.28.9-1, src/ras/client_support.cc; v2.29.2-1 writes it.
    """
    return COMMALESS.sub(rb"\1,\2", data)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def read_ras_json(held: Mapping[str, Any], name: str) -> Seen:
    """Return the same from the JSON form."""
    results: dict[str, list[str]] = {"ras-missing-ranks": [], "ras-mismatch": []}
    for communicator in _objects(held.get("communicators")):
        identity = str(communicator.get("hash"))[:40]
        for rank in _objects(communicator.get("missing_ranks")):
            status = rank.get("status")
            status = status if isinstance(status, dict) else {}
            dead = status.get("considered_dead") is True
            if dead or status.get("unresponsive") is True:
                results["ras-missing-ranks"].append(
                    f"communicator {identity}: rank {rank.get('rank')} on {rank.get('host')}, "
                    f"process {rank.get('pid')}, is {'dead' if dead else 'unresponsive'}"
                )
        if text := _counts_differ(communicator):
            results["ras-mismatch"].append(f"communicator {identity}: {text}")
    return _seen(results, name)


def _counts_differ(communicator: Mapping[str, Any]) -> str:
    by_operation: dict[str, dict[int, list[str]]] = {}
    for rank in _objects(communicator.get("ranks")):
        counts = rank.get("collective_counts")
        for operation, count in (counts if isinstance(counts, dict) else {}).items():
            if isinstance(count, int):
                by_operation.setdefault(str(operation), {}).setdefault(count, []).append(
                    str(rank.get("rank"))
                )
    for operation, counts in by_operation.items():
        if len(counts) > 1:
            low = min(counts)
            return (
                f"rank {', '.join(counts[low][:8])} has launched {low} {operation}, others up to "
                f"{max(counts)}"
            )
    return ""


def read_inspector(data: bytes, name: str) -> Seen:
    """Return a rank that is slower than the others in most operations that all ranks report.

    Raises:
        InputError: the Inspector wrote none of its lines.
    """
    times: dict[tuple[str, str, int], dict[int, float]] = {}
    lines = 0
    for line in _json_lines(data):
        header, performance = line.get("header"), line.get("coll_perf")
        if not isinstance(header, dict) or not isinstance(performance, dict):
            continue
        lines += 1
        rank, number = header.get("rank"), performance.get("coll_sn")
        spent = performance.get("coll_exec_time_us")
        if isinstance(rank, int) and isinstance(number, int) and isinstance(spent, int | float):
            key = (str(header.get("id")), str(performance.get("coll")), number)
            times.setdefault(key, {})[rank] = float(spent)
    if not lines:
        raise InputError(f"{name}: no operation of the Inspector in it", remedy="name its output")
    return _seen({"inspector-slow-rank": _slow(times)}, name)


def _json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield one JSON object per line; skip truncated and foreign lines."""
    for line in data[:LARGEST].split(b"\n"):
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            held = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(held, dict):
            yield held


def _slow(times: Mapping[tuple[str, str, int], Mapping[int, float]]) -> list[str]:
    """Return slow ranks by their own time: in a collective the late rank waits least."""
    early: dict[int, int] = {}
    together: dict[int, int] = {}
    for by_rank in times.values():
        if len(by_rank) < 3:
            continue
        middle = statistics.median(by_rank.values())
        for rank, spent in by_rank.items():
            together[rank] = together.get(rank, 0) + 1
            if spent * SLOW_FACTOR < middle:
                early[rank] = early.get(rank, 0) + 1
    return [
        f"rank {rank} spent less than {1 / SLOW_FACTOR:.0%} of the others' time in {late} of "
        f"{together[rank]} operations: they waited for it"
        for rank, late in sorted(early.items())
        if together[rank] >= FEWEST_OPERATIONS and late >= SLOW_SHARE * together[rank]
    ]
