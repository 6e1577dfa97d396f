"""Output of linux-rdma/perftest: a bandwidth or a latency test over verbs. Pure.

Formats are those of src/perftest_parameters.h and .c, v4.5-0.20. Bandwidths are Gbit/s (1e9 bits),
times microseconds, sizes bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEST = re.compile(r"^\s+((?:Send|RDMA_Write|RDMA_Read|Atomic)\S*)\s.*?\b(BW|Latency)\b.*Test\s*$")
_FIELD = re.compile(r"(?:^|\s{2,}|\t)\s*([A-Z][\w* .]*?)\s*:\s*(\S+)")
_COLUMN = re.compile(r"#bytes|#iterations|(?:BW \w+|MsgRate|t_\w+|[\d.]+% percentile)\[[\w/]+\]")
_RULE = re.compile(r"^-{40,}\s*$")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d+)?")
#: The rounding of a message rate of six decimals, and more.
_NEAR = 0.02
_GBITS = {"Gb/sec": 1.0, "MiB/sec": 8 * 1.048576 / 1000, "MB/sec": 8 * 1.048576 / 1000}


@dataclass(frozen=True, kw_only=True)
class Perftest:
    """One size of one test, as its client prints it.

    Attributes:
        test: such as ``RDMA_Write BW``.
        device: the RDMA device.
        link: its link layer, ``IB`` or ``Ethernet``.
        size: bytes of a message.
        iterations: messages.
        gbps: average of a bandwidth test, Gbit/s; None of a latency test.
        usec: average of a latency test, microseconds; None of a bandwidth test.
        low, high: least and most of a latency test.
    """

    test: str
    device: str
    link: str
    size: int
    iterations: int
    gbps: float | None = None
    usec: float | None = None
    low: float | None = None
    high: float | None = None


def read(text: str) -> Perftest:
    """Return the test that a text holds.

    Raises:
        ValueError: it holds no test, several, one without its end, or figures that contradict
            each other.
    """
    lines = text.splitlines()
    heads = [match for line in lines if (match := _TEST.match(line))]
    tables = [at for at, line in enumerate(lines) if line.lstrip().startswith("#bytes")]
    if len(heads) != 1 or len(tables) != 1:
        raise ValueError(f"{len(heads)} tests and {len(tables)} tables where one is wanted")
    columns = _COLUMN.findall(lines[tables[0]])
    after = lines[tables[0] + 1 :]
    ends = [at for at, line in enumerate(after) if _RULE.match(line)]
    if not ends:
        raise ValueError("the table has no end")
    rows = [row for line in after[: ends[0]] if (row := _row(line, len(columns)))]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows where one is wanted")
    fields = {name: value for line in lines for name, value in _FIELD.findall(line)}
    if "Device" not in fields or "Link type" not in fields:
        raise ValueError("no device or no link type is named")
    test = f"{heads[0][1]} {heads[0][2]}"
    named = dict(zip(columns, rows[0], strict=True))
    read = _bandwidth if heads[0][2] == "BW" else _latency
    return Perftest(
        test=test,
        device=fields["Device"],
        link=fields["Link type"],
        size=int(named["#bytes"]),
        iterations=int(named["#iterations"]),
        **read(named),
    )


def _row(line: str, width: int) -> list[float] | None:
    words = line.split()
    if len(words) != width or not all(_NUMBER.fullmatch(word) for word in words):
        return None
    return [float(word) for word in words]


def _bandwidth(row: dict[str, float]) -> dict[str, float]:
    unit = next((u for u in _GBITS if f"BW average[{u}]" in row), None)
    if unit is None or "MsgRate[Mpps]" not in row:
        raise ValueError("the columns of a bandwidth test are not there")
    gbps = row[f"BW average[{unit}]"] * _GBITS[unit]
    moved = row["MsgRate[Mpps]"] * row["#bytes"] * 8 / 1000
    if gbps <= 0 or abs(gbps - moved) > _NEAR * gbps:
        raise ValueError(f"{gbps:.2f} Gbit/s on average, and {moved:.2f} by the rate of messages")
    return {"gbps": gbps}


def _latency(row: dict[str, float]) -> dict[str, float]:
    try:
        low, high, mean = (row[f"t_{name}[usec]"] for name in ("min", "max", "avg"))
    except KeyError:
        raise ValueError("the columns of a latency test are not there") from None
    if not 0 < low <= mean <= high:
        raise ValueError(f"{mean} us on average, and {low} to {high}")
    return {"usec": mean, "low": low, "high": high}
