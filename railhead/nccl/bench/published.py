"""Published bandwidths of the catalogue beside a run: the same collective and node count."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.machines import Machine, Measurement
from railhead.nccl.bench.model import BenchRun, Row


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published figure, and what the run shows at the same size or above.

    Attributes:
        busbw: GB/s, published.
        size: bytes of the message.
        nodes: of the published run.
        source: where it was published.
        measured: GB/s of the run, at that size or, where it has none, at its largest above it.
    """

    busbw: float
    size: int
    nodes: int
    source: str
    measured: float

    @property
    def part(self) -> float:
        """Measured over published."""
        return self.measured / self.busbw


def published_for(run: BenchRun, machine: Machine, nodes: int) -> tuple[Published, ...]:
    """Return the catalogue's figures that the run can be compared with, largest size last.

    Only measurements over the network count, of the same collective and as many nodes, and only
    where the run reached their size: a smaller message is slower and proves nothing.

    Args:
        run: what was measured.
        machine: its machine type.
        nodes: its hosts.
    """
    results = []
    for entry in machine.published:
        # Nothing in a run's table says whether switches did the sums.
        if entry.sharp:
            continue
        if (entry.collective, entry.nodes, entry.transport) != (run.collective, nodes, "network"):
            continue
        row = _row(run, entry)
        if row is not None and row.best is not None and entry.busbw > 0:
            results.append(
                Published(
                    busbw=entry.busbw,
                    size=entry.size_bytes,
                    nodes=entry.nodes,
                    source=entry.source,
                    measured=row.best.busbw,
                )
            )
    return tuple(sorted(results, key=lambda item: (item.size, item.busbw)))


def _row(run: BenchRun, one: Measurement) -> Row | None:
    same = [row for row in run.rows if row.size == one.size_bytes and row.best]
    if same:
        return same[-1]
    largest = run.largest
    return largest if largest is not None and largest.size > one.size_bytes else None
