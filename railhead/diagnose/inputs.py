"""Tells logs, dumps and reports apart by their content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.base.errors import InputError
from railhead.diagnose import dumps, ras
from railhead.diagnose.model import Proof

HEAD = 1 << 16
MAX_FILES = 100_000
Seen = dict[str, tuple[Proof, ...]]


@dataclass
class Sorted:
    """The named paths, sorted by what they hold.

    Attributes:
        logs: paths that are neither dumps nor reports, for the reader of logs.
        dumps: flight-recorder dumps that were read.
        observed: what RAS and the Inspector report, by observation.
        skipped: files that looked like a dump and could not be read, with the reason.
    """

    logs: list[Path | str] = field(default_factory=list)
    dumps: list[dumps.Dump] = field(default_factory=list)
    observed: Seen = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def everything(self) -> Seen:
        """Return all observations, those of the dumps too."""
        return merge(self.observed, dumps.observe(self.dumps) if self.dumps else {})


def merge(*parts: Seen) -> Seen:
    """Return the observations of several sources as one mapping."""
    merged: dict[str, list[Proof]] = {}
    for part in parts:
        for kind, proofs in part.items():
            merged.setdefault(kind, []).extend(proofs)
    return {kind: tuple(proofs) for kind, proofs in merged.items()}


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(item for item in path.rglob("*") if item.is_file())[:MAX_FILES]


def sort(paths: Iterable[Path | str]) -> Sorted:
    """Read dumps and reports among the paths, and leave logs to the reader of logs."""
    result = Sorted()
    for named in paths:
        if str(named) == "-":
            result.logs.append(named)
            continue
        path = Path(named)
        if not path.exists():
            # A pattern, or a mistake: the reader of logs expands it or says so.
            result.logs.append(named)
            continue
        for file in _files(path):
            try:
                if not _take(file, result):
                    result.logs.append(file)
            except InputError as error:
                result.skipped.append(error.problem)
            except OSError as error:
                result.skipped.append(f"{file}: {error.strerror}")
    return result


def _take(file: Path, result: Sorted) -> bool:
    """Read a dump or report; return False when it is neither."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        head = stream.read(HEAD)
    kind = _kind(head)
    if kind == "log":
        return False
    if file.stat().st_size > dumps.LARGEST:
        raise InputError(f"{file}: too large for a {kind}", remedy="name a smaller one")
    data = file.read_bytes()
    if kind == "dump":
        result.dumps.append(dumps.read_dump(data, str(file)))
    elif kind == "inspector":
        result.observed = merge(result.observed, ras.read_inspector(data, str(file)))
    elif kind == "ras-text":
        result.observed = merge(result.observed, ras.read_ras_text(data, str(file)))
    else:
        held = _whole_json(data, file)
        if "communicators" in held:
            result.observed = merge(result.observed, ras.read_ras_json(held, str(file)))
        elif "entries" in held:
            result.dumps.append(dumps.read_dump(data, str(file)))
        else:
            return False
    return True


def _whole_json(data: bytes, file: Path) -> dict[str, Any]:
    try:
        held = json.loads(ras.mended(data))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON: {error}", remedy="was it cut?") from None
    return held if isinstance(held, dict) else {}


def _kind(head: bytes) -> str:
    # Protocol 2 to 5 of a pickle; text never starts so.
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 2:
        return "dump"
    start = head.lstrip()[:1]
    if start == b"{":
        if b'"coll_perf"' in head or b'"p2p_perf"' in head:
            return "inspector"
        if b'"communicators"' in head or b'"entries"' in head:
            return "json"
        return "log"
    if ras.looks_like_ras_text(head):
        return "ras-text"
    return "log"
