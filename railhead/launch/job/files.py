"""The local files that a job file names, which travel with the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from railhead.base.errors import did_you_mean
from railhead.base.mistakes import shown
from railhead.base.reading import read_bytes

# What the API server takes in one ConfigMap, all values together (validation, MaxSecretSize).
MAX_FILES_BYTES = 1 << 20
# Eight ConfigMaps: kubelets fetch them again for every pod, so they carry code, not data.
MAX_WORKSPACE_BYTES = 8 << 20
# Folders that are recreated on every machine where the code runs.
SKIPPED = frozenset({"__pycache__", "node_modules", "venv"})


@dataclass(frozen=True, kw_only=True)
class Payload:
    """A local file that travels with the job: its path below /workspace and its bytes."""

    name: str
    data: bytes


def near_miss(path: Path) -> str:
    """Return the question whether a file beside this path was meant; empty where none is near."""
    try:
        beside = [p.name for p in path.parent.iterdir()]
    except OSError:
        return ""
    return did_you_mean(path.name, beside)


def _folder(folder: Path, under: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a folder's files, each with its place in the workspace; no caches, no hidden ones."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name in SKIPPED or entry.suffix == ".pyc":
            continue
        if entry.is_dir():
            # A link to a folder may lead round in a circle.
            if not entry.is_symlink():
                yield from _folder(entry, under / entry.name)
        elif entry.is_file():
            yield entry, under / entry.name


def _sources(source: Path, entry: str) -> Iterator[tuple[Path, Path]]:
    if source.is_dir():
        # `.` is the job file's own folder: its files lie in the workspace itself.
        yield from _folder(source, Path() if entry == "." else Path(source.name))
    else:
        yield source, Path(source.name)


def payloads(
    entries: Iterable[str], folder: Path, wrong: Callable[[str, str], None]
) -> tuple[Payload, ...]:
    """Return the bytes of the files that a job names.

    Args:
        entries: files and folders, as the job file has them.
        folder: what they are relative to.
        wrong: gets a field and what is wrong with it, for each mistake.
    """
    taken: dict[str, Payload] = {}
    total = 0
    for index, entry in enumerate(entries):
        field, source = f"files[{index}]", folder / entry
        try:
            if not source.exists():
                near = near_miss(source)
                wrong(field, f"{shown(entry)}: no such file beside the job file{near}")
                continue
            sources = list(_sources(source, entry))
            for file, place in sources:
                size = file.stat().st_size
                total += size
                if size > MAX_FILES_BYTES:
                    wrong(
                        field,
                        f"{shown(str(place))}: {size} bytes; allowed: {MAX_FILES_BYTES}"
                        " a file (one ConfigMap); put larger ones into the image or on a claim",
                    )
                elif total <= MAX_WORKSPACE_BYTES:
                    taken[str(place)] = Payload(name=str(place), data=read_bytes(file))
            if not sources:
                wrong(field, f"{shown(entry)}: a folder without a file that would be taken along")
        except (OSError, RecursionError) as error:
            wrong(field, f"{shown(entry)}: {getattr(error, 'strerror', None) or error}")
    if total > MAX_WORKSPACE_BYTES:
        wrong(
            "files",
            f"{total} bytes together; allowed: {MAX_WORKSPACE_BYTES};"
            " put larger ones into the image or on a claim",
        )
    return tuple(taken.values())
