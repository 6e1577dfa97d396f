"""One streaming pass over any amount of log, for any number of signs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from railhead.nccl.lines import TEXT_BYTES, parse
from railhead.nccl.signs import Evidence, Hit, Hits, Sign

KEPT = 5


def scan(inputs: Iterable[Path | str], signs: Sequence[Sign]) -> Hits:
    """Count the signs and keep the first lines of each.

    Args:
        inputs: paths of files or directories, ``-`` for standard input.
        signs: what to look for.
    """
    hits = Hits()
    for name in inputs:
        with Path(name).open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                for line in parse(raw):
                    for sign in signs:
                        if not (match := sign.regex.search(line.message)):
                            continue
                        hit = hits[sign.id]
                        kept = hit.evidence
                        if len(kept) < KEPT:
                            evidence = Evidence(
                                file=str(name),
                                line=number,
                                text=line.message[:TEXT_BYTES].decode("utf-8", "replace"),
                                rank=line.rank,
                                node=line.node,
                                time=line.time,
                                groups={
                                    key: value.decode("utf-8", "replace")
                                    for key, value in match.groupdict().items()
                                    if value is not None
                                },
                            )
                            kept = (*kept, evidence)
                        hits[sign.id] = Hit(count=hit.count + 1, evidence=kept)
    return hits
