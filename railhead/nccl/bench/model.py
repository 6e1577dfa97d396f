"""The measurements of nccl-tests: runs, rows, and the two halves of a row.

Sizes are bytes, times microseconds and bandwidths GB/s (1e9 bytes), as nccl-tests prints them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One half of a row: out-of-place or in-place.

    Attributes:
        time: microseconds; of the CPU when the run was made with ``-C 1``.
        algbw, busbw: GB/s.
        wrong: values that were wrong; None when the run did not check (``-c 0`` or an old release).
        time_step, algbw_step, busbw_step: the last printed digit, which bounds the rounding.
    """

    time: float
    algbw: float
    busbw: float
    wrong: int | None = None
    time_step: float = 0.01
    algbw_step: float = 0.01
    busbw_step: float = 0.01


@dataclass(frozen=True, kw_only=True)
class Row:
    """One message size.

    Attributes:
        size: bytes, the larger of what a rank sends and receives.
        count: elements.
        type: of an element, such as ``float``.
        redop: the reduction; empty where the release printed none.
        root: rank; None where the release printed none, -1 where the collective has none.
        out_of_place, in_place: None where that half is missing or ``N/A``.
        line: where it was read, counted from 1; 0 in JSON.
    """

    size: int
    count: int
    type: str = ""
    redop: str = ""
    root: int | None = None
    out_of_place: Measure | None = None
    in_place: Measure | None = None
    line: int = 0

    @property
    def halves(self) -> tuple[tuple[str, Measure], ...]:
        """The halves that are there, by name."""
        both = (("out-of-place", self.out_of_place), ("in-place", self.in_place))
        return tuple((name, half) for name, half in both if half is not None)

    @property
    def best(self) -> Measure | None:
        """Out-of-place where it was measured, else in-place: the half that figures quote."""
        return self.out_of_place or self.in_place


@dataclass(frozen=True, kw_only=True)
class Device:
    """A line of ``# Using devices``."""

    rank: int
    group: int
    pid: int
    host: str
    name: str


@dataclass(frozen=True, kw_only=True)
class BenchRun:
    """One run of one nccl-tests program.

    Attributes:
        file: the input's name.
        line: of its first line.
        collective: such as ``all_reduce``; empty when neither named nor inferable.
        collective_from: ``named`` by the program, ``file name``, ``factor`` (inferred from
            busbw and algbw) or empty.
        ranks: of the communicator; None when no line tells and the factor does not either.
        ranks_from: ``devices``, ``nccl``, ``factor`` or empty.
        nodes: hosts; None when no line tells.
        devices: what ``# Using devices`` listed, at most :data:`MAX_DEVICES`.
        version: of nccl-tests; empty before 2.17.
        nccl: of the library, such as ``2.30.4``; empty when no line tells.
        cpu_time: True when times are of the CPU (``-C 1``).
        checked: whether results were validated; None when unknown.
        out_of_bounds: the count of the closing line; None when it is missing.
        average: ``Avg bus bandwidth``, GB/s; None when it is missing.
        average_failed: the program's own ``-m`` style minimum was missed.
        complete: True when the closing lines are there.
        dropped: rows beyond :data:`MAX_ROWS`.
        errors: what NCCL's own last line said.
        hints: machine types that the log names, in order of first mention.
        without_mpi: several processes each call themselves rank 0: built without ``MPI=1``.
    """

    file: str
    line: int = 0
    collective: str = ""
    collective_from: str = ""
    ranks: int | None = None
    ranks_from: str = ""
    nodes: int | None = None
    devices: tuple[Device, ...] = ()
    version: str = ""
    nccl: str = ""
    cpu_time: bool = False
    checked: bool | None = None
    rows: tuple[Row, ...] = ()
    out_of_bounds: int | None = None
    average: float | None = None
    average_failed: bool = False
    complete: bool = False
    dropped: int = 0
    errors: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    without_mpi: bool = False

    @property
    def gpus_per_node(self) -> int | None:
        """Ranks a node, where both are known and it comes out even."""
        if not self.ranks or not self.nodes or self.ranks % self.nodes:
            return None
        return self.ranks // self.nodes

    @property
    def largest(self) -> Row | None:
        """The row of the largest size that has a measurement."""
        return max((r for r in self.rows if r.best), key=lambda r: r.size, default=None)

    @property
    def wrong(self) -> int | None:
        """Wrong values in all rows and the closing line; None when nothing was checked."""
        counts = [half.wrong for row in self.rows for _, half in row.halves]
        known = [count for count in counts if count is not None]
        if self.out_of_bounds is not None and self.checked is not False:
            known.append(self.out_of_bounds)
        return max(known) if known else None


MAX_ROWS = 4096
MAX_DEVICES = 16384
MAX_RUNS = 512
