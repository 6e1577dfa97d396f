"""Verdict on a job's whole log: the proofs of every process, and the reading of all together."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from railhead.base.verdict import Verdict
from railhead.nccl import proofs as by_process
from railhead.nccl.build import build
from railhead.nccl.sources import Source
from railhead.nccl.transport import RDMA

#: Settings that make NCCL print all that is judged here; nodes of one rack would go by NVLink, past
#: the NICs that are to be proven.
DEBUG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET,GRAPH",
    "NCCL_MNNVL_ENABLE": "0",
}
_NCCL = re.compile(r"NCCL (?:INFO|WARN)|NCCL version ")


@dataclass(frozen=True, kw_only=True)
class Process:
    """The verdict on one process of a pod; ``text`` says why, ``lines`` are its evidence."""

    pod: int
    name: str
    verdict: Verdict
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Transport:
    """The verdict on a whole job."""

    verdict: Verdict
    text: str
    processes: tuple[Process, ...] = ()
    reading: str = "unknown"


def is_nccl(line: str) -> bool:
    """Return whether NCCL or one of its plugins wrote the line."""
    return _NCCL.search(line) is not None


def judge(
    log: Mapping[int, Sequence[str]],
    *,
    processes: int,
    proofs: Sequence[str],
    gpudirect: str | None,
) -> Transport:
    """Check the log of every pod for the proofs of the fabric, and then all of it at once.

    The arguments are those of :func:`railhead.nccl.proofs.judge`.
    """
    judgement = by_process.judge(log, processes=processes, proofs=proofs, gpudirect=gpudirect)
    verdict, text = Verdict(judgement.verdict), judgement.text
    reading = "socket" if judgement.tcp else "unknown"
    if verdict is Verdict.PASSED:
        reading = _read(line for lines in log.values() for line in lines)
        text = f"all {len(judgement.processes)} processes show {reading}"
        if reading not in RDMA:
            verdict = Verdict.FAILED if reading == "socket" else Verdict.NOT_PROVEN
            text = f"the whole log says that the transport is {reading}"
    rows = (row._asdict() | {"verdict": Verdict(row.verdict)} for row in judgement.processes)
    results = tuple(Process(**row) for row in rows)
    return Transport(verdict=verdict, text=text, processes=results, reading=reading)


def _read(lines: Iterable[str]) -> str:
    data = "\n".join(lines).encode()
    return build([Source(name="job", open=lambda: io.BytesIO(data), size=len(data))]).transport
