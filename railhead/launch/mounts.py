"""What a job's pods say of the claims that they mount: which does not answer, is full or lost.

The lines are :mod:`railhead.launch.programs.keep`'s, in the pods' own logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(r"\S+ railhead: (claim \S+ at (\S+) (?:does not|is|has|cannot) .*)")
_WELL = " is as it should be again"
_SINCE = re.compile(r"since (\S+?Z)")
#: Nodes that are named; more are counted.
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What one or more nodes say of a claim, in the words of the first that met it."""

    nodes: tuple[int, ...]
    said: str

    def text(self) -> str:
        """In one line."""
        named = [f"node-{index}" for index in self.nodes[:_NAMED]]
        more = len(self.nodes) - _NAMED
        return f"{', '.join(named)}{f' and {more} more' if more > 0 else ''}: {self.said}"

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"nodes": list(self.nodes), "said": self.said}


def troubles(tails: Mapping[int, Iterable[str]]) -> tuple[Trouble, ...]:
    """What is not over yet.

    Args:
        tails: of each node the newest lines, with the kubelet's timestamp in front.
    """
    same: dict[str, list[tuple[str, int, str]]] = {}
    for index, lines in tails.items():
        last = {found[2]: found[1] for line in lines if (found := _LINE.fullmatch(line))}
        for said in last.values():
            since = _SINCE.search(said)
            if _WELL not in said and since:
                same.setdefault(_SINCE.sub("", said), []).append((since[1], index, said))
    return tuple(
        Trouble(nodes=tuple(sorted(index for _, index, _ in alike)), said=min(alike)[2])
        for alike in same.values()
    )
