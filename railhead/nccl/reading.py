"""What a log says: the result of one pass, and the claims drawn from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railhead.nccl.signs import Evidence, Hits, Sign


@dataclass(frozen=True, kw_only=True)
class Communicator:
    """One communicator, as far as the log shows it.

    Attributes:
        id: ``commId`` where printed, else the address of the first rank's ``comm``.
        ranks: its size (nRanks), None when not printed.
        nodes: nNodes, None when not printed.
        started, completed: the ranks that printed ``Init START`` and ``Init COMPLETE``.
        aborted: the ranks that printed ``Abort COMPLETE``.
    """

    id: str
    ranks: int | None = None
    nodes: int | None = None
    started: frozenset[int] = frozenset()
    completed: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A value and the lines that it rests on.

    Attributes:
        value: in the vocabulary of its kind; ``unknown`` when the log cannot tell.
        why: one sentence.
        evidence: the lines; empty for ``unknown``.
    """

    value: str
    why: str = ""
    evidence: tuple[Evidence, ...] = ()


UNKNOWN = Claim(value="unknown", why="no line tells")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one or more logs of a job say.

    Attributes:
        transport: ib, roce, efa, tcpx, gib, socket, p2p/shm-only or unknown.
        gdr: GPUDirect RDMA in use: yes, no or unknown.
        verdict: ok, tcp-fallback, init-failure, hang, timeout, low-bandwidth or other.
        claims: the same three and finer ones, by name, each with its evidence.
        communicators: those that were seen.
        ranks: the size of the job where some line tells it.
        nodes: the hosts, pods or addresses that wrote lines.
        hits: every sign that was seen, of this package and of `railhead.diagnose`.
        cause: the likeliest cause's id, None when none is likely enough.
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
    files: tuple[str, ...] = ()
    lines: int = 0


def read(inputs: Iterable[Path | str], *, signs: Sequence[Sign] = ()) -> Reading:
    """Read logs in one streaming pass.

    Args:
        inputs: paths of files or directories, ``-`` for standard input.
        signs: what to look for besides this package's own and the causes' signs.

    Raises:
        NotFoundError: an input does not exist.
        InputError: an input cannot be read.
        PrerequisiteError: a compressed input needs a library that is not installed.
    """
    from railhead.nccl.scan import scan

    hits = scan(inputs, signs)
    return Reading(hits=hits)
