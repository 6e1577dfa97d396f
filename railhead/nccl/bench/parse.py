"""Parser of nccl-tests runs: tables in any log, and its JSON files.

Columns are identified by the header, or by the number of figures in a table without a header, as
people paste them. Text that NCCL or a launcher prints into the middle of a row is removed: a row's
head and its figures are printed by different calls, minutes apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from railhead.nccl.bench.collectives import COLLECTIVES, PROGRAM, named_in, ranks_of
from railhead.nccl.bench.jsonfile import release, runs_of_json
from railhead.nccl.bench.model import (
    MAX_DEVICES,
    MAX_ROWS,
    MAX_RUNS,
    BenchRun,
    Device,
    Measure,
    Row,
)
from railhead.nccl.lines import parse as split_line
from railhead.nccl.sources import CutError, Source, blocks, resolve

# A line longer than this holds no row.
MAX_LINE = 8192
MAX_JSON = 1 << 26

_HEAD = re.compile(
    rb"^[#\s]*(?P<size>\d{1,18})\s+(?P<count>\d{1,18})\s+(?P<type>[a-z][a-z0-9_]{1,15})"
    rb"(?:\s+(?P<redop>[a-z]{3,8}))?(?:\s+(?P<root>-?\d{1,6}))?(?=\s|$|[A-Za-z\[])"
)
_TYPES = frozenset(
    b"float half double char int int8 uint8 int32 uint32 int64 uint64 bfloat16 float16 float32"
    b" float64 f8e4m3 f8e5m2 fp8_e4m3 fp8_e5m2 float8_e4m3 float8_e5m2 nccl".split()
)
_FIGURE = re.compile(rb"^(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|nan|-nan|inf)$", re.IGNORECASE)
# A rank that a launcher puts before each write, in the middle of a line too.
_INNER = re.compile(rb"\[\d{1,6}\](?=\s)")
_STAMP = re.compile(rb"(?<!\s)\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")
_DEVICE = re.compile(
    rb"#?\s*Rank\s+(?P<rank>\d{1,7})(?:\s+Group\s+(?P<group>\d{1,7}))?\s+Pid\s+(?P<pid>\d{1,10})\s+on\s+"
    rb"(?P<host>\S{1,253})\s+device\s+\d{1,4}\s+\[[0-9A-Fa-fx:.]{1,20}\]\s*(?P<name>.{0,80})"
)
_CONFIG = re.compile(
    rb"#?\s*nThread \d+ nGpus \d+ minBytes .*?(?:validation: (?P<checked>\d+))?[^:]*(?:$|graph)"
)
_VERSION = re.compile(
    rb"# nccl-tests version (?P<tests>[\w.]{1,20}).{0,80}?nccl-library=(?P<nccl>\d{3,6})"
)
_STARTING = re.compile(rb"Collective test starting: (?P<program>[\w.\-/]{1,80})")
_BOUNDS = re.compile(
    rb"Out of bounds values\s*:\s*(?P<count>-?\d{1,18})(?:\s+(?P<said>OK|FAILED))?"
)
_AVERAGE = re.compile(
    rb"Avg bus bandwidth\s*:\s*(?P<value>[0-9.]{1,20}(?:e[+-]?\d+)?|-?nan|inf)"
    rb"(?:\s+(?P<said>OK|FAILED))?"
)
_ERROR = re.compile(rb"^# error: (?P<text>.{1,300})")
_NCCL = re.compile(rb"NCCL version (?P<version>2\.\d{1,2}\.\d{1,2})")
_COMM = re.compile(rb"nRanks (?P<ranks>\d{1,7}) nNodes (?P<nodes>\d{1,6})")
_HEADER = re.compile(rb"size\s+count.*\b(?:c?p?u?time)\b.*algbw.*busbw")
_ITER = re.compile(rb"\bi_min\b")
_ROOT = re.compile(rb"\broot\b")
# What each line that matters holds at least one of; the rest of a log is never looked at.
_TOKENS = (
    *(
        b"float",
        b"double",
        b"half",
        b" int ",
        b" char ",
        b"int8",
        b"int32",
        b"int64",
        b"f8e",
        b"fp8",
    ),
    *(b" Pid ", b"algbw", b"nThread", b"_perf", b"bus bandwidth", b"Out of bounds", b"# error"),
    *(b"nccl-tests", b"test starting", b"Running on ", b"nstance"),
)
# So many lines after the head of a row its figures may come.
_APART = 4096


@dataclass
class _Open:
    """A run being read."""

    run: BenchRun
    rows: list[Row] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    pending: tuple[Row, int] | None = None
    iterations: bool = False
    columns: bool = False
    rooted: bool = True
    dropped: int = 0

    @property
    def begun(self) -> bool:
        return bool(self.rows or self.devices or self.pending or self.columns)


class _Reader:
    """One input's lines, in order."""

    def __init__(self, name: str, machines: re.Pattern[bytes] | None) -> None:
        self.name = name
        self.machines = machines
        self.done: list[BenchRun] = []
        self.program = ""
        self.nccl = ""
        self.comm: tuple[int, int] | None = None
        self.hints: list[str] = []
        self.more = 0
        self.number = 0
        self.open = self._fresh(0)

    def _fresh(self, line: int) -> _Open:
        return _Open(BenchRun(file=self.name, line=line))

    def piece(self, data: bytes) -> None:
        """Read whole lines: those that hold a token, and those between the two parts of a row."""
        for match in _COMM.finditer(data):
            self.comm = max(self.comm or (0, 0), (int(match["ranks"]), int(match["nodes"])))
        for match in _NCCL.finditer(data):
            self.nccl = match["version"].decode()
        seen = 0
        for start in _starts(data):
            if start < seen:
                continue
            self.number += data.count(b"\n", seen, start)
            seen = self._from(data, start)
            left = _APART
            while self.open.pending and left and seen < len(data):
                seen = self._from(data, seen)
                left -= 1
        self.number += data.count(b"\n", seen)

    def _from(self, data: bytes, start: int) -> int:
        """Read the line that begins at an offset; return where the next one begins."""
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        self.number += 1
        self._line(self.number, data[start:end])
        return end + 1

    def _line(self, number: int, raw: bytes) -> None:
        if len(raw) > MAX_LINE:
            return
        if self.machines is not None:
            for hint in self.machines.finditer(raw):
                if (text := hint.group().decode()) not in self.hints:
                    self.hints.append(text)
        for part in split_line(raw.rstrip(b"\r\n")):
            self._message(number, part.message)

    def _message(self, number: int, text: bytes) -> None:
        if self._facts(number, text) or self._closing(text) or self._header(number, text):
            return
        text = _STAMP.sub(b"", _INNER.sub(b" ", text))
        if head := _HEAD.match(text):
            if head["type"] in _TYPES:
                self._row(number, head, text[head.end() :])
        elif self.open.pending and (halves := _figures(text.split(), self.open.iterations)):
            row, at = self.open.pending
            self._keep(_filled(row, halves, at))

    # -- around the table -------------------------------------------------------------------------

    def _facts(self, number: int, text: bytes) -> bool:
        if match := _DEVICE.match(text.lstrip()):
            self._device(number, match)
        elif match := _VERSION.search(text):
            self._start(number)
            code = int(match["nccl"])
            self.open.run = replace(
                self.open.run, version=match["tests"].decode(), nccl=release(code), line=number
            )
        elif match := _STARTING.search(text):
            name = match["program"].decode().rsplit("/", 1)[-1].removesuffix(".exe")
            self._name(name.removesuffix("_perf").removesuffix("_perf_mpi"))
        elif match := _ERROR.match(text):
            run = self.open.run
            message = match["text"].decode("utf-8", "replace").strip()
            self.open.run = replace(run, errors=(*run.errors, message)[:8])
        elif match := _CONFIG.match(text):
            if self.open.rows or (self.open.devices and not self._repeated()):
                self._start(number)
            checked = match["checked"]
            if checked is not None:
                self.open.run = replace(self.open.run, checked=checked != b"0")
        else:
            if match := PROGRAM.search(text):
                self.program = match[1].decode()
            return False
        return True

    def _repeated(self) -> bool:
        """True while every device so far is rank 0: processes that know nothing of each other."""
        return all(device.rank == 0 for device in self.open.devices)

    def _name(self, name: str) -> None:
        if name in COLLECTIVES:
            self.open.run = replace(self.open.run, collective=name, collective_from="named")

    def _device(self, number: int, match: re.Match[bytes]) -> None:
        device = Device(
            rank=int(match["rank"]),
            group=int(match["group"] or 0),
            pid=int(match["pid"]),
            host=match["host"].decode("utf-8", "replace"),
            name=match["name"].decode("utf-8", "replace").strip(),
        )
        if self.open.rows:
            self._start(number)
        if len(self.open.devices) < MAX_DEVICES and device not in self.open.devices[-64:]:
            self.open.devices.append(device)

    def _closing(self, text: bytes) -> bool:
        run = self.open.run
        if match := _BOUNDS.search(text):
            self.open.run = replace(run, out_of_bounds=int(match["count"]), complete=True)
            return True
        if match := _AVERAGE.search(text):
            self.open.run = replace(
                run,
                average=_number(match["value"]),
                average_failed=match["said"] == b"FAILED",
                complete=True,
            )
            return True
        return False

    def _header(self, number: int, text: bytes) -> bool:
        if not _HEADER.search(text):
            return False
        if self.open.rows:
            same = self.open.run
            self._start(number)
            if not same.complete:
                # A program in a loop (-N) prints the header again and nothing else.
                self.open.run = replace(same, line=number, rows=())
        self.open.columns = True
        self.open.iterations = bool(_ITER.search(text))
        self.open.rooted = bool(_ROOT.search(text))
        self.open.run = replace(self.open.run, cpu_time=b"cputime" in text)
        return True

    # -- the table --------------------------------------------------------------------------------

    def _row(self, number: int, head: re.Match[bytes], rest: bytes) -> None:
        root = head["root"]
        redop = (head["redop"] or b"").decode()
        row = Row(
            size=int(head["size"]),
            count=int(head["count"]),
            type=head["type"].decode(),
            redop=redop,
            root=None if root is None else int(root),
            line=number,
        )
        if self._restarts(row):
            self._start(number)
        # Without a column for the root, and so perhaps too where no header was seen, the whole
        # number after the operation is a time of 10 ms and more.
        figures = [(row, rest.split())]
        if root is not None:
            figures.append((replace(row, root=None), [root, *rest.split()]))
        for item, tokens in figures if self.open.rooted else figures[::-1]:
            if halves := _figures(tokens, self.open.iterations):
                self._keep(_filled(item, halves, number))
                return
        self.open.pending = (row, number)

    def _restarts(self, row: Row) -> bool:
        """True when the row begins another table: closed above, or sizes start over."""
        if not self.open.rows:
            return False
        last = self.open.rows[-1]
        first = self.open.rows[0]
        return self.open.run.complete or (row.size < last.size and row.size <= first.size)

    def _keep(self, row: Row) -> None:
        self.open.pending = None
        if len(self.open.rows) < MAX_ROWS:
            self.open.rows.append(row)
        else:
            self.open.dropped += 1

    # -- runs -------------------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        """End the open run, if there is one, and open another."""
        if not self.open.begun:
            return
        closed = self.open
        self.open = self._fresh(number)
        if not closed.rows and not closed.devices:
            return
        if len(self.done) >= MAX_RUNS:
            self.more += 1
            return
        self.done.append(self._finished(closed))

    def _finished(self, closed: _Open) -> BenchRun:
        run = replace(
            closed.run,
            rows=tuple(closed.rows),
            devices=tuple(closed.devices),
            dropped=closed.dropped,
            nccl=closed.run.nccl or self.nccl,
            hints=tuple(self.hints),
        )
        if not run.collective and self.program:
            run = replace(run, collective=self.program, collective_from="named")
        run = _sized(run, self.comm)
        return named(run)

    def end(self) -> list[BenchRun]:
        """Return every run of the input."""
        self._start(0)
        return self.done


def _starts(data: bytes) -> list[int]:
    """Return where the lines that hold a token begin, in order."""
    starts: set[int] = set()
    for token in _TOKENS:
        at = data.find(token)
        while at >= 0:
            starts.add(data.rfind(b"\n", 0, at) + 1)
            after = data.find(b"\n", at)
            at = data.find(token, after) if after >= 0 else -1
    return sorted(starts)


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value and abs(value) < 1e18 else None


def _step(text: bytes) -> float:
    """Return the step of the last printed digit; rounding may have changed half of it."""
    if b"e" in text.lower():
        return (_number(text) or 0.0) * 0.1
    _, dot, decimals = text.partition(b".")
    return 10.0 ** -len(decimals) if dot else 1.0


def _half(tokens: Sequence[bytes]) -> Measure | None:
    """Return time, algbw, busbw and, if it is printed, the count of wrong values."""
    time, algbw, busbw = (_number(token) for token in tokens[:3])
    if time is None or algbw is None or busbw is None:
        return None
    wrong = _number(tokens[3]) if len(tokens) > 3 else None
    # Releases before 2.11 print the largest error, a fraction: any beyond rounding is wrong.
    if wrong is not None and (wrong != int(wrong) or b"e" in tokens[3].lower()):
        wrong = 0.0 if wrong < 1e-2 else 1.0
    return Measure(
        time=time,
        algbw=algbw,
        busbw=busbw,
        wrong=None if wrong is None else int(wrong),
        time_step=_step(tokens[0]),
        algbw_step=_step(tokens[1]),
        busbw_step=_step(tokens[2]),
    )


def _figures(
    tokens: Sequence[bytes], iterations: bool
) -> tuple[Measure | None, Measure | None] | None:
    """Return the two halves of a row; None when the tokens are not a row's figures."""
    if not tokens or not all(_FIGURE.match(token) for token in tokens):
        return None
    width = len(tokens)
    if iterations and width in (8, 16):
        halves = [tokens[i : i + 4] for i in range(0, width, 8)]
    elif width in (4, 8):
        halves = [tokens[i : i + 4] for i in range(0, width, 4)]
    elif width in (3, 6):
        halves = [tokens[i : i + 3] for i in range(0, width, 3)]
    elif width == 16:
        halves = [tokens[0:4], tokens[8:12]]
    else:
        return None
    first = _half(halves[0])
    second = _half(halves[1]) if len(halves) > 1 else None
    return (first, second) if first or second else None


def _filled(row: Row, halves: tuple[Measure | None, Measure | None], line: int) -> Row:
    return replace(row, out_of_place=halves[0], in_place=halves[1], line=line)


def _sized(run: BenchRun, comm: tuple[int, int] | None) -> BenchRun:
    """Fill in the number of ranks and nodes of the run, from the best evidence in the log."""
    if run.devices:
        processes = {(d.host, d.pid) for d in run.devices}
        zeros = {(d.host, d.pid) for d in run.devices if d.rank == 0}
        if len(zeros) > 1 and len(zeros) == len(processes):
            return replace(run, ranks=1, ranks_from="devices", nodes=1, without_mpi=True)
        groups = {d.group for d in run.devices}
        item = [d for d in run.devices if d.group == min(groups)]
        seen = {d.rank for d in item}
        if len(groups) > 1 or seen == set(range(len(seen))):
            nodes = len({d.host for d in item})
            return replace(run, ranks=len(seen), ranks_from="devices", nodes=nodes)
        # Lines were cut: the highest rank is a lower bound; NCCL's own line or the factor decide.
    if comm is not None:
        return replace(run, ranks=comm[0], ranks_from="nccl", nodes=comm[1])
    return run


def intervals(run: BenchRun) -> list[tuple[float, float]]:
    """Return the least and the greatest busbw/algbw that rounding allows, of rows that tell."""
    results = []
    for row in run.rows:
        for _, half in row.halves:
            if half.algbw <= half.algbw_step * 10:
                continue
            low = (half.busbw - half.busbw_step * 0.51) / (half.algbw + half.algbw_step * 0.51)
            high = (half.busbw + half.busbw_step * 0.51) / (half.algbw - half.algbw_step * 0.51)
            results.append((low, high))
    return results


def _sums(run: BenchRun) -> bool:
    """True where every rank takes part in a sum alike: no root, which `reduce` has.

    Some releases print ``sum`` for programs that add nothing; those leave in-place unchecked.
    """
    first = run.rows[0]
    unchecked = (
        first.out_of_place is not None
        and first.in_place is not None
        and first.out_of_place.wrong is not None
        and first.in_place.wrong is None
    )
    return first.redop == "sum" and first.root in (None, -1) and not unchecked


def named(run: BenchRun) -> BenchRun:
    """Fill in the collective and the ranks from each other, the file's name and the figures."""
    if not run.collective and (word := named_in(Path(run.file).name)):
        run = replace(run, collective=word, collective_from="file name")
    ratios = intervals(run)
    if run.ranks is None and ratios and max(high for _, high in ratios) < 0.1:
        # A bandwidth without bus bandwidth: nothing went over a bus.
        run = replace(run, ranks=1, ranks_from="factor")
    if not run.collective and run.ranks and run.ranks > 1 and ratios and _sums(run):
        n = run.ranks
        # Of the programs that reduce to every rank or to parts, one factor each.
        for name, factor in (("all_reduce", 2 * (n - 1) / n), ("reduce_scatter", (n - 1) / n)):
            if all(low <= factor <= high for low, high in ratios):
                run = replace(run, collective=name, collective_from="factor")
                break
    if not run.collective and ratios and max(low for low, _ in ratios) > 1.0:
        # No other program's busbw exceeds its algbw.
        run = replace(run, collective="all_reduce", collective_from="factor")
    if run.ranks is None and run.collective:
        ranks = ranks_of(ratios, COLLECTIVES[run.collective].formula)
        if ranks is not None:
            run = replace(run, ranks=ranks, ranks_from="factor")
    if run.checked is None:
        known = [half.wrong for row in run.rows for _, half in row.halves]
        if known:
            run = replace(run, checked=any(wrong is not None for wrong in known))
    return run


def machine_names(names: Iterable[str]) -> re.Pattern[bytes] | None:
    """Return a pattern that finds any of the machine types as a word."""
    escaped = sorted((re.escape(name.encode()) for name in names if len(name) > 3), key=len)
    if not escaped:
        return None
    return re.compile(rb"(?<![\w.-])(?:" + b"|".join(reversed(escaped)) + rb")(?![\w-])")


def read_runs(inputs: Iterable[Path | str], machines: Iterable[str] = ()) -> list[BenchRun]:
    """Return every run in files, directories or standard input (``-``), compressed or not.

    Args:
        inputs: what to read.
        machines: names of machine types to look for in the text.

    Raises:
        NotFoundError: an input does not exist.
        InputError: an input cannot be read.
        PrerequisiteError: a compressed input needs a library that is not installed.
    """
    pattern = machine_names(machines)
    results: list[BenchRun] = []
    for source in resolve(inputs):
        results.extend(runs_of(source, pattern))
    return results


def runs_of(source: Source, machines: re.Pattern[bytes] | None = None) -> list[BenchRun]:
    """Return every run in one source; ``machines`` finds names of machine types."""
    pieces = _whole(source)
    first = next(pieces, b"")
    if first.lstrip()[:1] == b"{":
        # A JSON file is read whole; a collector's lines begin with a brace too and are lines.
        held = bytearray(first)
        for piece in pieces:
            held += piece
            if len(held) > MAX_JSON:
                break
        runs = runs_of_json(source.name, bytes(held))
        if runs:
            return [named(run) for run in runs]
        first = bytes(held)
    reader = _Reader(source.name, machines)
    for piece in chain((first,), pieces):
        reader.piece(piece)
    return reader.end()


def _whole(source: Source) -> Iterator[bytes]:
    """Yield the bytes in pieces that end where lines end, as far as they can be read.

    Damage ends the stream; it does not undo what came before it.
    """
    try:
        for block in blocks(source):
            data = bytes(block.view)
            block.free()
            yield data
    except CutError:
        return
