"""The troubles of claims that a job's pods report: which does not answer, is full or lost.

:mod:`railhead.launch.programs.keep` prints those lines into the pods' own logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from railhead.kube.jobs import named

_LINE = re.compile(r"\S+ railhead: (claim \S+ at (\S+) (?:does not|is|has|cannot) .*)")
_WELL = " is as it should be again"
_SINCE = re.compile(r"since (\S+?Z)")


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A trouble of a claim that one or more nodes, of these names, report in the first's words."""

    nodes: tuple[int, ...]
    names: tuple[str, ...]
    line: str

    def text(self) -> str:
        """Return the trouble in one line."""
        return f"{named(self.names)}: {self.line}"

    def to_json(self) -> dict[str, Any]:
        """Return the trouble as ``--json`` prints it."""
        return {"nodes": list(self.nodes), "said": self.line}


def troubles(
    tails: Mapping[int, Iterable[str]], name_of: Callable[[int], str]
) -> tuple[Trouble, ...]:
    """Return the troubles that are not over yet.

    Args:
        tails: the newest lines of each node, with the kubelet's timestamp in front.
        name_of: returns a node's name.
    """
    same: dict[str, list[tuple[str, int, str]]] = {}
    for index, lines in tails.items():
        last = {match[2]: match[1] for line in lines if (match := _LINE.fullmatch(line))}
        for item in last.values():
            since = _SINCE.search(item)
            if _WELL not in item and since:
                same.setdefault(_SINCE.sub("", item), []).append((since[1], index, item))
    results = []
    for alike in same.values():
        nodes = tuple(sorted(index for _, index, _ in alike))
        names = tuple(name_of(index) for index in nodes)
        results.append(Trouble(nodes=nodes, names=names, line=min(alike)[2]))
    return tuple(results)
