"""The JSON that nccl-tests writes with ``-J`` / ``--output_file`` (2.17 and later).

Keys: ``jsonOutputInit``, ``writeDeviceReport``, ``writeBenchmarkLineBody`` and
``writeResultFooter`` of src/util.cu in NVIDIA/nccl-tests. A run that was
killed leaves the object open, which is read as far as it goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from railhead.nccl.bench.collectives import COLLECTIVES
from railhead.nccl.bench.model import (
    MAX_DEVICES,
    MAX_ROWS,
    MAX_RUNS,
    BenchRun,
    Device,
    Measure,
    Row,
)

# JSON prints six decimals, so what rounding takes is far below the table's.
STEP = 1e-6


def runs_of_json(name: str, data: bytes) -> list[BenchRun] | None:
    """Return the runs of a JSON output, or None when the bytes are not such output.

    Args:
        name: of the input.
        data: one object, or several one after the other; the last may be truncated.
    """
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    results: list[BenchRun] = []
    at = 0
    while len(results) < MAX_RUNS:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            break
        cut = False
        try:
            held, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            repaired = _closed(text[at:])
            if repaired is None:
                return results or None
            held, at, cut = repaired, len(text), True
        if not isinstance(held, dict) or not isinstance(held.get("results"), list):
            return results or None
        results.append(_run(name, held, cut))
    return results or None


def _closed(text: str) -> Any:
    """Return a cut object, cut back to its last whole result and closed; None when it has none."""
    at = text.find('"results"')
    if at < 0:
        return None
    end = len(text)
    for _ in range(64):
        end = text.rfind("}", at, end)
        if end < 0:
            return None
        for tail in ("]}", "}]}", ""):
            try:
                return json.loads(text[: end + 1] + tail)
            except (ValueError, RecursionError):
                continue
    return None


def _run(name: str, held: Mapping[str, Any], cut: bool) -> BenchRun:
    args = held.get("args")
    program = PurePath(str(args[0])).name if isinstance(args, list) and args else ""
    collective = program.removesuffix(".exe").removesuffix("_perf")
    known = collective in COLLECTIVES
    config = held.get("config")
    devices = _devices(config if isinstance(config, dict) else {})
    rows = [row for result in held["results"][:MAX_ROWS] if (row := _row(result)) is not None]
    bounds, average = held.get("out_of_bounds"), held.get("average_bus_bandwidth")
    errors = held.get("errors")
    checked = _integer(config.get("validation")) if isinstance(config, dict) else None
    code = _integer(held.get("nccl_version")) or 0
    hosts = {device.host for device in devices}
    groups = {device.group for device in devices}
    item = [device for device in devices if device.group == min(groups)] if devices else []
    return BenchRun(
        file=name,
        collective=collective if known else "",
        collective_from="named" if known else "",
        ranks=len(item) or None,
        ranks_from="devices" if item else "",
        nodes=len({device.host for device in item}) or None if hosts else None,
        devices=devices,
        nccl=release(code) if code else "",
        cpu_time=any(_cpu(result) for result in held["results"][:1]),
        checked=None if checked is None else checked != 0,
        rows=tuple(rows),
        out_of_bounds=_integer(bounds.get("count")) if isinstance(bounds, dict) else None,
        average=_figure(average.get("bandwidth")) if isinstance(average, dict) else None,
        average_failed=isinstance(average, dict) and average.get("okay") == "false",
        complete=not cut and isinstance(bounds, dict),
        dropped=max(0, len(held["results"]) - MAX_ROWS),
        errors=tuple(str(e)[:300] for e in errors[:8] if e) if isinstance(errors, list) else (),
    )


def release(code: int) -> str:
    """Return NCCL's version code, such as ``23004`` or ``2708``, as NCCL writes the version."""
    major, rest = divmod(code, 10000 if code >= 10000 else 1000)
    minor, patch = divmod(rest, 100)
    return f"{major}.{minor}.{patch}"


def _devices(config: Mapping[str, Any]) -> tuple[Device, ...]:
    listed = config.get("devices")
    devices = []
    for item in listed[:MAX_DEVICES] if isinstance(listed, list) else ():
        rank = _integer(item.get("rank")) if isinstance(item, dict) else None
        if rank is not None:
            devices.append(
                Device(
                    rank=rank,
                    group=_integer(item.get("group")) or 0,
                    pid=_integer(item.get("pid")) or 0,
                    host=str(item.get("hostname", ""))[:253],
                    name=str(item.get("device_info", ""))[:80],
                )
            )
    return tuple(devices)


def _row(held: object) -> Row | None:
    if not isinstance(held, dict):
        return None
    size, count = _integer(held.get("size")), _integer(held.get("count"))
    if size is None or count is None:
        return None
    return Row(
        size=size,
        count=count,
        type=str(held.get("type", "")).strip()[:16],
        redop=str(held.get("redop", "")).strip()[:16],
        root=_integer(held.get("root")),
        out_of_place=_half(held.get("out_of_place")),
        in_place=_half(held.get("in_place")),
    )


def _half(held: object) -> Measure | None:
    if not isinstance(held, dict):
        return None
    time = _figure(held.get("time", held.get("cpu_time")))
    algbw, busbw = _figure(held.get("alg_bw")), _figure(held.get("bus_bw"))
    if time is None or algbw is None or busbw is None:
        return None
    return Measure(
        time=time,
        algbw=algbw,
        busbw=busbw,
        wrong=_integer(held.get("nwrong")),
        time_step=STEP,
        algbw_step=STEP,
        busbw_step=STEP,
    )


def _cpu(held: object) -> bool:
    half = held.get("out_of_place") or held.get("in_place") if isinstance(held, dict) else None
    return isinstance(half, dict) and "cpu_time" in half


def _figure(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number == number and abs(number) < 1e18 else None


def _integer(value: object) -> int | None:
    number = _figure(value)
    return None if number is None else int(number)
