"""The way from bytes to a reading: one pass, then the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from railhead.nccl import trouble
from railhead.nccl.details import details, notes
from railhead.nccl.facts import SIGNS, Facts
from railhead.nccl.reading import UNKNOWN, Claim, Note, Reading
from railhead.nccl.scan import Scanner, Sink
from railhead.nccl.signs import Sign
from railhead.nccl.sources import Source, resolve
from railhead.nccl.transport import Judge
from railhead.nccl.verdict import LogVerdict

# One line a collective is most of a big log, and shows something only where there are few.
CALLS_UP_TO_BYTES = 1 << 19


def proven(claim: Claim) -> Claim:
    """Return the claim, or ``unknown`` for a transport or an ``ok`` that no line shows."""
    if claim.evidence or claim.value in ("unknown", "other"):
        return claim
    if claim.value == "ok":
        return replace(claim, value="other", why=f"{claim.why}, but no line shows it")
    return replace(UNKNOWN, why=f"{claim.why}, but no line shows it")


def build(
    inputs: Iterable[Path | str | Source],
    *,
    signs: Sequence[Sign] = (),
    native: bool = True,
    tick: Callable[[int, str], None] | None = None,
) -> Reading:
    """Read logs in one streaming pass; it is :func:`railhead.nccl.read`.

    Args:
        inputs: paths of files or directories, ``-`` for standard input, or open sources.
        signs: signs to look for in addition to this package's own.
        native: False to go without hyperscan where it is installed.
        tick: called with the bytes read so far and the input's name.

    Raises:
        NotFoundError: an input does not exist.
        InputError: an input cannot be read.
        PrerequisiteError: a compressed input needs a library that is not installed.
    """
    facts = Facts()
    sinks: dict[str, Sink] = {sign.id: partial(facts.take, sign.id) for sign in SIGNS}
    sources = resolve(inputs)
    own = SIGNS
    if sum(source.size for source in sources) >= CALLS_UP_TO_BYTES:
        own = tuple(sign for sign in SIGNS if sign.id != "nccl.calls")
    known = {sign.id: sign for sign in (*own, *trouble.SIGNS, *signs)}
    scanner = Scanner(
        tuple(known.values()),
        sinks=sinks,
        counted=facts.counted(),
        dense=frozenset({"nccl.channel-net"}),
        rank_of=facts.rank_of,
        native=native,
        tick=tick,
    )
    scan = scanner.run(sources)
    judge = Judge(facts, scan.hits)
    transport = proven(judge.transport())
    gdr, finer = judge.gdr(transport)
    verdict = proven(
        LogVerdict(facts, scan.hits, judge, transport, gdr, scan.last, scan.tail).claim()
    )
    return Reading(
        transport=transport.value,
        gdr=gdr.value,
        verdict=verdict.value,
        claims={
            "transport": transport,
            "gdr": gdr,
            "verdict": verdict,
            "several-nodes": judge.several_nodes(),
            "link-layer": judge.link_layer(transport),
            **details(facts, scan.hits, finer),
        },
        communicators=tuple(judge.communicator(key, comm) for key, comm in facts.comms.items()),
        ranks=judge.ranks(),
        nodes=frozenset(facts.hosts),
        hits=scan.hits,
        notes=(
            *notes(facts, scan.hits),
            *(Note(id="input-cut", text=text) for text in scan.cut),
        ),
        files=scan.files,
        lines=scan.lines,
        bytes=scan.bytes,
        engine=scan.engine,
        sampled=scan.sampled,
    )
