"""Looking at processes through /proc, across PID namespaces."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def _parents() -> dict[int, list[int]]:
    """Return every live process below its parent, in the host's numbers."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue  # it has ended since
        children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    return children


def children(pid: int) -> list[int]:
    """Return the live children of ``pid``."""
    return _parents().get(pid, [])


def descendants(pid: int) -> list[int]:
    """Return ``pid`` and every live process below it."""
    parents = _parents()
    results = [pid]
    for item in results:
        results.extend(parents.get(item, []))
    return results


def inner_pid(pid: int) -> int:
    """Return the process's number in the PID namespace of its parent; -1 when it has ended.

    An isolated child has one number more, as 1 of its own namespace; the parent's is before it.
    """
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return -1
    numbers = next(([int(n) for n in line.split()[1:]] for line in lines if "NSpid:" in line), [-1])
    return numbers[-2] if numbers[-1] == 1 and len(numbers) > 1 else numbers[-1]


def pss_mib(pid: int) -> float:
    """Proportional set size in MiB: a shared page is counted once over all that share it."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
