"""The troubles of claims that a job's pods report: which does not answer, is full or lost.

:mod:`railhead.launch.programs.keep` prints those lines into the pods' own logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from railhead.kube.jobs import named

_LINE = re.compile(r"\S+ railhead: (claim \S+ at (\S+) (?:does not|is|has|cannot) .*)")
_WELL = " is as it should be again"
_SINCE = re.compile(r"since (\S+?Z)")


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A trouble of a claim that one or more nodes report, in the words of the first."""

    nodes: tuple[int, ...]
    line: str

    def text(self) -> str:
        """Return the trouble in one line."""
        names = [f"node-{index}" for index in self.nodes]
        return f"{named(names)}: {self.line}"

    def to_json(self) -> dict[str, Any]:
        """Return the trouble as ``--json`` prints it."""
        return {"nodes": list(self.nodes), "said": self.line}


def troubles(tails: Mapping[int, Iterable[str]]) -> tuple[Trouble, ...]:
    """Return the troubles that are not over yet.

    Args:
        tails: the newest lines of each node, with the kubelet's timestamp in front.
    """
    same: dict[str, list[tuple[str, int, str]]] = {}
    for index, lines in tails.items():
        last = {match[2]: match[1] for line in lines if (match := _LINE.fullmatch(line))}
        for item in last.values():
            since = _SINCE.search(item)
            if _WELL not in item and since:
                same.setdefault(_SINCE.sub("", item), []).append((since[1], index, item))
    return tuple(
        Trouble(nodes=tuple(sorted(index for _, index, _ in alike)), line=min(alike)[2])
        for alike in same.values()
    )
