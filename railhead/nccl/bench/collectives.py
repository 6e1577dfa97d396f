"""Formulas that turn nccl-tests' times into bandwidth, and the least that a network must carry.

Formulas: ``*GetBw`` and ``*GetCollByteCount`` of each program in NVIDIA/nccl-tests (2.19.6, and the
same since 2.0). Bounds on the wire are derived: every byte that a node lacks crosses its NICs
once, which holds for every algorithm that does not reduce inside the network (SHARP does).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

Ratio = Callable[[int], float]


def _one(_ranks: int) -> float:
    return 1.0


def _share(ranks: int) -> float:
    return (ranks - 1) / ranks


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One program of nccl-tests.

    Args:
        name: the program's name without ``_perf``.
        formula: the factor as text.
        factor: busbw / algbw for n ranks; None when it depends on the traffic.
        base: algbw x time / size for n ranks; None when it depends on the traffic.
        wire: least traffic of the busiest node and direction, divided by algbw, for N nodes of g
            ranks; None when no bound is known.
        why: where that bound comes from.
    """

    name: str
    formula: str
    factor: Ratio | None
    base: Ratio | None = _one
    wire: Callable[[int, int], float] | None = None
    why: str = ""


COLLECTIVES: Mapping[str, Collective] = MappingProxyType(
    {
        item.name: item
        for item in (
            Collective(
                name="all_reduce",
                formula="2(n-1)/n",
                factor=lambda n: 2 * (n - 1) / n,
                wire=lambda nodes, _gpus: 2 * (nodes - 1) / nodes,
                why="each node sends its part of the sums away and takes the others' in",
            ),
            Collective(
                name="all_gather",
                formula="(n-1)/n",
                factor=_share,
                wire=lambda nodes, _gpus: (nodes - 1) / nodes,
                why="each node lacks what the other nodes hold",
            ),
            Collective(
                name="reduce_scatter",
                formula="(n-1)/n",
                factor=_share,
                wire=lambda nodes, _gpus: (nodes - 1) / nodes,
                why="each node sends away the parts that other nodes keep",
            ),
            Collective(
                name="alltoall",
                formula="(n-1)/n",
                factor=_share,
                wire=lambda nodes, gpus: gpus * (nodes - 1) / nodes,
                why="every GPU of a node sends its share to every GPU of the others",
            ),
            Collective(name="alltoallv", formula="by the busiest rank", factor=_share, base=None),
            Collective(
                name="broadcast",
                formula="1",
                factor=_one,
                wire=lambda _nodes, _gpus: 1.0,
                why="each node but the root's takes the whole message in",
            ),
            Collective(
                name="reduce",
                formula="1",
                factor=_one,
                wire=lambda _nodes, _gpus: 1.0,
                why="each node but the root's sends its sum away",
            ),
            Collective(
                name="sendrecv",
                formula="1",
                factor=_one,
                wire=lambda _nodes, _gpus: 1.0,
                why="each rank sends to the next one: one message a node leaves it",
            ),
            Collective(
                name="gather",
                formula="(n-1)/n",
                factor=_share,
                wire=lambda nodes, _gpus: (nodes - 1) / nodes,
                why="the root's node takes in what the other nodes hold",
            ),
            Collective(
                name="scatter",
                formula="(n-1)/n",
                factor=_share,
                wire=lambda nodes, _gpus: (nodes - 1) / nodes,
                why="the root's node sends out what the other nodes get",
            ),
            Collective(name="hypercube", formula="1", factor=_one, base=_share),
        )
    }
)

# The longest names first: `reduce` is in `all_reduce` and in `reduce_scatter`.
_NAMES = "|".join(sorted(COLLECTIVES, key=len, reverse=True))
PROGRAM = re.compile(rf"(?<![A-Za-z0-9])({_NAMES})_perf(?![A-Za-z0-9])".encode())
_WORDS = re.compile(
    r"(?<![a-z])(all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?allv?|broadcast|"
    r"sendrecv|hypercube|gather|scatter|reduce)(?![a-z])",
    re.IGNORECASE,
)


def named_in(text: str) -> str:
    """Return the collective that a file's name holds; empty when it holds none or several."""
    results = {_canonical(word) for word in _WORDS.findall(text)}
    return results.pop() if len(results) == 1 else ""


def _canonical(word: str) -> str:
    plain = word.lower().replace("-", "").replace("_", "")
    return {
        "allreduce": "all_reduce",
        "allgather": "all_gather",
        "reducescatter": "reduce_scatter",
    }.get(plain, plain)


def ranks_of(ratios: Iterable[tuple[float, float]], form: str) -> int | None:
    """Return the only rank count whose factor lies in every interval, or None.

    Args:
        ratios: the least and the greatest busbw/algbw that each row's rounding allows.
        form: a factor's formula, of :data:`COLLECTIVES`.
    """
    scale = {"2(n-1)/n": 2.0, "(n-1)/n": 1.0}.get(form)
    if scale is None:
        return None
    low, high = 0.0, scale
    for least, greatest in ratios:
        low, high = max(low, least), min(high, greatest)
    # factor = scale (1 - 1/n), so n = 1 / (1 - factor/scale).
    if not low <= high or low <= 0 or high >= scale:
        return None
    least_n, most_n = 1 / (1 - low / scale), 1 / (1 - high / scale)
    first, last = -(-least_n // 1), most_n // 1
    return int(first) if first == last and first >= 2 else None
