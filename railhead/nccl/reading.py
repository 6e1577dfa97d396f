"""A reading of a log: the result of one pass, and the claims drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from railhead.nccl.signs import Evidence, Hits


@dataclass(frozen=True, kw_only=True)
class Communicator:
    """One communicator, as far as the log shows it.

    Attributes:
        id: ``commId`` where printed, else the address of the first rank's ``comm``.
        ranks: its size (nRanks), None when not printed.
        nodes: nNodes, None when not printed.
        started, completed: the ranks that printed ``Init START`` and ``Init COMPLETE``.
        aborted: the ranks that printed ``Abort COMPLETE``.
        transport, gdr: of its own connections, in the words of :class:`Reading`.
        evidence: its first lines.
    """

    id: str
    ranks: int | None = None
    nodes: int | None = None
    started: frozenset[int] = frozenset()
    completed: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()
    transport: str = "unknown"
    gdr: str = "unknown"
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A value and the lines that it rests on.

    Attributes:
        value: in the vocabulary of its kind; ``unknown`` when the log cannot tell.
        why: one sentence.
        evidence: the lines; empty for ``unknown``.
        grade: what kind of evidence a claim about the transport has, strongest first:
            ``connections``, ``choice`` (``Using network``), ``devices`` or ``library``;
            ``contradiction`` where it is unknown since lines name several.
    """

    value: str
    why: str = ""
    evidence: tuple[Evidence, ...] = ()
    grade: str = ""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A fact that the reader should know, in addition to the verdict.

    Attributes:
        id: kebab-case.
        text: one sentence.
        evidence: the lines that it rests on.
    """

    id: str
    text: str
    evidence: tuple[Evidence, ...] = ()


UNKNOWN = Claim(value="unknown", why="no line tells")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The reading of one or more logs of a job.

    Attributes:
        transport: ib, roce, verbs (one of these two, and no line tells which), efa, libfabric (with
            GPUDirect RDMA, and no line tells the provider), tcpx, gib, socket, p2p/shm-only or
            unknown.
        gdr: GPUDirect RDMA in use: yes, no or unknown.
        verdict: ok, measured, wired, tcp-fallback, init-failure, hang, timeout, low-bandwidth or
            other.
        claims: the three above and finer ones, by name, each with its evidence.
        communicators: those that were seen.
        ranks: the size of the job where some line tells it.
        nodes: the hosts, pods or addresses that wrote lines.
        hits: every sign that was seen, of this package and of those that were asked for.
        cause: the likeliest cause's id; None when no cause is likely enough or was looked for.
        causes: the causes that a diagnosis suggests, best first; empty without a diagnosis.
        notes: values that disagree, settings that hurt, devices that were not used.
        files: the inputs' names.
        lines: how many were read; None when they were not all counted.
        bytes: how much was read, after decompression.
        engine: ``hyperscan`` or ``re``.
        sampled: ids of signs whose counts are lower bounds.
    """

    transport: str = "unknown"
    gdr: str = "unknown"
    verdict: str = "other"
    claims: dict[str, Claim] = field(default_factory=dict)
    communicators: tuple[Communicator, ...] = ()
    ranks: int | None = None
    nodes: frozenset[str] = frozenset()
    hits: Hits = field(default_factory=Hits)
    cause: str | None = None
    causes: tuple[Any, ...] = ()
    notes: tuple[Note, ...] = ()
    files: tuple[str, ...] = ()
    lines: int | None = 0
    bytes: int = 0
    engine: str = "re"
    sampled: frozenset[str] = frozenset()
