"""Flight-recorder dumps of PyTorch: which rank never reached a collective, which rank differed.

PyTorch writes one pickle per rank (``TORCH_NCCL_DUMP_ON_TIMEOUT=1``, ``TORCH_FR_BUFFER_SIZE=2000``)
or, over HTTP, the same as JSON. A pickle can run any program when it is loaded as PyTorch's own
analyser loads it; here only plain containers, numbers and text are loaded.

The keys are those of torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.0 to 2.10.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import re
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.base.errors import InputError
from railhead.diagnose.model import Proof

LARGEST = 256 << 20
# A pickle of a few bytes can ask for a memo of many gigabytes.
MEMORY = 4 << 30
MAX_ENTRIES = 1_000_000
RANK = re.compile(r"(\d+)(?:\.(?:pickle|pkl|json|bin|dump))?$")
# Operations whose inputs and outputs are of one size on every rank of the group.
EVEN = frozenset({"all_reduce", "broadcast", "_all_gather_base", "_reduce_scatter_base"})
POINT_TO_POINT = frozenset({"send", "recv"})


class _Restricted(pickle.Unpickler):
    """An unpickler of containers, numbers and text; it refuses every class and function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it wants to load {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002 - the name is the base class's
        raise pickle.UnpicklingError("it refers to an object outside of itself")


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Limit the address space, so that a hostile memo raises an error and fills no memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        yield
        return
    limit = used + MEMORY
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def load_pickle(data: bytes, name: str) -> Any:
    """Return the content of a pickle, if it is plain data.

    Raises:
        InputError: it holds code, is truncated, or is not a pickle.
    """
    try:
        with _bounded_memory():
            return _Restricted(io.BytesIO(data)).load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        MemoryError,
        RecursionError,
        ImportError,
    ) as error:
        raise InputError(
            f"{name}: not a dump that can be read: {str(error) or type(error).__name__}",
            remedy="a flight-recorder dump holds plain data only; was this file written by "
            "PyTorch, "
            "and whole?",
        ) from None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One operation in a dump. ``seq`` counts within the group; ``state`` is PyTorch's word."""

    seq: int
    op: str
    state: str
    inputs: str
    outputs: str
    dtypes: str
    where: str


@dataclass(frozen=True, kw_only=True)
class Dump:
    """One rank's dump.

    Attributes:
        entries: by group (its name and ranks), in the order of the sequence.
        groups: group -> the ranks in it, where the dump tells.
    """

    name: str
    rank: int
    version: str
    entries: Mapping[str, tuple[Entry, ...]]
    groups: Mapping[str, frozenset[int]]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One disagreement between the dumps of a group.

    Args:
        kind: an observation's id: fr-missing-ranks, fr-mismatch, fr-stuck or fr-no-dump.
        ranks: the ranks that it is about.
        waiting: the ranks that are stuck in the operation.
    """

    kind: str
    group: str
    seq: int
    ranks: tuple[int, ...]
    waiting: tuple[int, ...] = ()
    text: str


def _text(value: Any, longest: int = 200) -> str:
    return str(value)[:longest] if isinstance(value, str | int | float) else ""


def _number(value: Any, default: int = -1) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _sizes(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return ""
    shapes = [
        "x".join(str(_number(side)) for side in shape[:16])
        for shape in value[:16]
        if isinstance(shape, list | tuple)
    ]
    return ",".join(shapes)


def _words(value: Any) -> str:
    return (
        ",".join(_text(item, 40) for item in value[:16]) if isinstance(value, list | tuple) else ""
    )


def _where(frames: Any) -> str:
    """Return the first line of the program that is not PyTorch's own."""
    if not isinstance(frames, list | tuple):
        return ""
    for frame in frames[:64]:
        if isinstance(frame, dict):
            file = _text(frame.get("filename"))
            if file and "/torch/" not in file and file != "??":
                return f"{file}:{_text(frame.get('line'))}"
    return ""


def _operation(name: Any) -> str:
    """Return ``all_reduce`` for ``nccl:all_reduce``, ``send`` for ``nccl:send 0->1``."""
    return _text(name).rpartition(":")[2].split(" ")[0]


def _entry(raw: Mapping[str, Any]) -> Entry:
    seq = raw.get("collective_seq_id", raw.get("seq_id"))
    return Entry(
        seq=_number(seq),
        op=_operation(raw.get("profiling_name")),
        state=_text(raw.get("state"), 20),
        inputs=_sizes(raw.get("input_sizes")),
        outputs=_sizes(raw.get("output_sizes")),
        dtypes=_words(raw.get("input_dtypes")),
        where=_where(raw.get("frames")),
    )


def _ranks(value: Any) -> frozenset[int]:
    """Return the ranks of a text such as ``"[0, 1, 2]"``, or of a list."""
    if isinstance(value, str):
        return frozenset(int(item) for item in re.findall(r"\d{1,9}", value[:1_000_000]))
    if isinstance(value, list | tuple):
        return frozenset(item for item in value if isinstance(item, int))
    return frozenset()


def _group_names(held: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    config = held.get("pg_config")
    groups: dict[str, frozenset[int]] = {}
    for name, about in (config if isinstance(config, dict) else {}).items():
        if isinstance(about, dict):
            groups[_text(name, 80)] = _ranks(about.get("ranks"))
    return groups


def _group_of(raw: Mapping[str, Any]) -> str:
    group = raw.get("process_group")
    if isinstance(group, list | tuple) and group:
        return _text(group[0], 80)
    return _text(raw.get("pg_id"), 80)


def _rank_of(held: Mapping[str, Any], name: str) -> int:
    if isinstance(held.get("rank"), int):
        return int(held["rank"])
    match = RANK.search(Path(name).name)
    if match is None:
        raise InputError(
            f"{name}: the file's name does not end in a rank",
            remedy="PyTorch names dumps <prefix><rank>, such as nccl_trace_rank_3; keep that name",
        )
    return int(match[1])


def read_dump(data: bytes, name: str) -> Dump:
    """Return one rank's dump, from its pickle or JSON form.

    Args:
        data: the file's bytes.
        name: the file's name; the rank is taken from its end, as PyTorch writes it.

    Raises:
        InputError: too large, not a dump, or its name tells no rank.
    """
    if len(data) > LARGEST:
        raise InputError(
            f"{name}: {len(data) >> 20} MiB is more than a dump of {LARGEST >> 20} MiB",
            remedy="lower TORCH_FR_BUFFER_SIZE, or dump without stack traces",
        )
    held = _json(data, name) if data[:1] in b"{[" else load_pickle(data, name)
    if isinstance(held, list):
        held = {"entries": held, "version": "1"}
    if not isinstance(held, dict) or not isinstance(held.get("entries"), list):
        raise InputError(
            f"{name}: no list of entries in it", remedy="name a flight-recorder dump of PyTorch"
        )
    groups = _group_names(held)
    entries: dict[str, list[Entry]] = {}
    for raw in held["entries"][:MAX_ENTRIES]:
        if not isinstance(raw, dict):
            continue
        item = _entry(raw)
        # Point-to-point operations have numbers of their own and no group-wide order.
        if raw.get("is_p2p") is True or item.op in POINT_TO_POINT:
            continue
        label = _group_of(raw)
        entries.setdefault(_labelled(label, groups), []).append(item)
    return Dump(
        name=name,
        rank=_rank_of(held, name),
        version=_text(held.get("version"), 20),
        entries={group: tuple(entry) for group, entry in entries.items()},
        groups={_labelled(label, groups): ranks for label, ranks in groups.items()},
    )


def _labelled(label: str, groups: Mapping[str, frozenset[int]]) -> str:
    # Groups made by split_group share a name; their ranks tell them apart.
    ranks = groups.get(label)
    return f"{label}:{','.join(map(str, sorted(ranks)))}" if ranks else label


def _json(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON: {error}", remedy="was it cut?") from None


@dataclass
class _Group:
    """The dumps of one group, by rank and sequence number."""

    ranks: frozenset[int]
    by_rank: dict[int, dict[int, list[Entry]]] = field(default_factory=dict)

    def add(self, rank: int, entries: Sequence[Entry]) -> None:
        table = self.by_rank.setdefault(rank, {})
        for entry in entries:
            table.setdefault(entry.seq, []).append(entry)

    def window(self) -> range:
        """Return the sequence numbers that no rank's ring buffer has dropped yet."""
        firsts = [min(table) for table in self.by_rank.values() if table]
        lasts = [max(table) for table in self.by_rank.values() if table]
        if not firsts or max(lasts) - max(firsts) > MAX_ENTRIES:
            return range(0)
        return range(max(firsts), max(lasts) + 1)


def _call(entry: Entry) -> str:
    shape = f"({entry.inputs or '?'}{' ' + entry.dtypes if entry.dtypes else ''})"
    return f"{entry.op}{shape}" + (f" at {entry.where}" if entry.where else "")


def _signature(entry: Entry) -> tuple[str, str, str, str]:
    if entry.op in EVEN:
        return entry.op, entry.inputs, entry.outputs, entry.dtypes
    return entry.op, "", "", ""


def _listed(ranks: Iterable[int]) -> str:
    ordered = sorted(ranks)
    shown = ", ".join(map(str, ordered[:8]))
    return shown + (f" and {len(ordered) - 8} more" if len(ordered) > 8 else "")


def _mismatch(name: str, seq: int, present: Mapping[int, list[Entry]]) -> Trouble | None:
    # Coalesced operations share one number; only single ones can be compared one to one.
    single = {rank: entries[0] for rank, entries in present.items() if len(entries) == 1}
    calls: dict[tuple[str, str, str, str], list[int]] = {}
    for rank, entry in single.items():
        calls.setdefault(_signature(entry), []).append(rank)
    if len(calls) < 2:
        return None
    ordered = sorted(calls.values(), key=len)
    few, many = ordered[0], ordered[-1]
    return Trouble(
        kind="fr-mismatch",
        group=name,
        seq=seq,
        ranks=tuple(sorted(few)),
        text=f"group {name}, operation {seq}: rank {_listed(few)} calls {_call(single[few[0]])}, "
        f"rank {_listed(many)} calls {_call(single[many[0]])}",
    )


def _missing(name: str, seq: int, group: _Group, present: Mapping[int, list[Entry]]) -> Trouble:
    absent = [rank for rank in group.by_rank if rank not in present]
    entry = next(iter(present.values()))[0]
    last = {rank: max(group.by_rank[rank], default=-1) for rank in absent}
    furthest = ", ".join(f"rank {rank} ended at {last[rank]}" for rank in sorted(absent)[:4])
    return Trouble(
        kind="fr-missing-ranks",
        group=name,
        seq=seq,
        ranks=tuple(sorted(absent)),
        waiting=tuple(sorted(present)),
        text=f"group {name}, operation {seq}: rank {_listed(absent)} never came to {_call(entry)}, "
        f"in which {len(present)} ranks wait ({furthest})",
    )


def _check(name: str, group: _Group) -> Trouble | None:
    """Return the first operation that went wrong; later ones are only consequences."""
    for seq in group.window():
        present = {rank: table[seq] for rank, table in group.by_rank.items() if seq in table}
        if not present:
            continue
        if trouble := _mismatch(name, seq, present):
            return trouble
        if len(present) < len(group.by_rank):
            return _missing(name, seq, group, present)
        waiting = [
            rank
            for rank, entries in present.items()
            if any(entry.state in ("scheduled", "started") for entry in entries)
        ]
        if waiting:
            entry = present[waiting[0]][0]
            return Trouble(
                kind="fr-stuck",
                group=name,
                seq=seq,
                ranks=tuple(sorted(waiting)),
                waiting=tuple(sorted(waiting)),
                text=f"group {name}, operation {seq}: all {len(present)} ranks of the dumps are in "
                f"{_call(entry)}; it is not complete on rank {_listed(waiting)}",
            )
    return None


def analyse(dumps: Sequence[Dump]) -> tuple[Trouble, ...]:
    """Return the disagreements that a job's dumps show, ordered by the groups' names."""
    groups: dict[str, _Group] = {}
    for dump in dumps:
        for name in {*dump.entries, *dump.groups}:
            known = dump.groups.get(name, frozenset())
            group = groups.setdefault(name, _Group(ranks=known))
            if not known or dump.rank in known:
                group.add(dump.rank, dump.entries.get(name, ()))
    results: list[Trouble] = []
    for name, group in sorted(groups.items()):
        if len(group.by_rank) > 1 and (trouble := _check(name, group)):
            results.append(trouble)
        if silent := group.ranks - group.by_rank.keys():
            results.append(
                Trouble(
                    kind="fr-no-dump",
                    group=name,
                    seq=-1,
                    ranks=tuple(sorted(silent)),
                    text=f"group {name}: no dump of rank {_listed(silent)}",
                )
            )
    return _first_of_chain(results)


def _first_of_chain(troubles: Sequence[Trouble]) -> tuple[Trouble, ...]:
    """Drop disagreements whose missing ranks are themselves held up in another group."""
    kept = []
    for trouble in troubles:
        held_up = {
            rank for other in troubles if other.group != trouble.group for rank in other.waiting
        }
        if trouble.kind == "fr-missing-ranks" and set(trouble.ranks) <= held_up:
            continue
        kept.append(trouble)
    # Two groups that wait for each other are a circle: then all of it is shown.
    return tuple(kept) or tuple(troubles)


def observe(dumps: Sequence[Dump]) -> dict[str, tuple[Proof, ...]]:
    """Return the same as observations, for :func:`railhead.diagnose.rank`."""
    seen: dict[str, list[Proof]] = {}
    where = f"{len(dumps)} flight-recorder dumps"
    for trouble in analyse(dumps):
        seen.setdefault(trouble.kind, []).append(
            Proof(id=trouble.kind, where=where, text=trouble.text)
        )
    return {kind: tuple(proofs) for kind, proofs in seen.items()}
