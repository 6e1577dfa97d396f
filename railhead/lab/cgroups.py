"""The cgroups that a lab's nodes keep their pods in, on version 1 (hybrid too) and version 2."""

from __future__ import annotations

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
NEEDED = ("cpu", "memory", "pids", "cpuset")


def unified() -> bool:
    """Return whether cgroup v2 is the only hierarchy."""
    return (ROOT / "cgroup.controllers").exists()


def missing_controllers() -> tuple[str, ...]:
    """Return the controllers that the kubelet needs and this machine lacks."""
    if unified():
        have = set((ROOT / "cgroup.controllers").read_text().split())
    else:
        have = {entry.name for entry in ROOT.iterdir()} if ROOT.is_dir() else set()
    return tuple(c for c in NEEDED if c not in have)


def path(lab: str, node: str) -> str:
    """Return a node's cgroup, as the kubelet's ``cgroupRoot``."""
    return f"/railhead/{lab}/{node}"


def create(lab: str, node: str) -> None:
    """Make a node's cgroup in every hierarchy, unless it exists."""
    if unified():
        current = ROOT
        for part in ("railhead", lab, node, ""):
            _delegate(current)
            if part:
                current = current / part
                current.mkdir(exist_ok=True)
        return
    for hierarchy in _hierarchies():
        directory = hierarchy / path(lab, node).lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        if hierarchy.name == "cpuset":
            _inherit_cpuset(hierarchy, directory)


def remove(lab: str) -> list[Path]:
    """Remove a lab's cgroups; returns those that are still in use after five seconds."""
    # runc also makes groups in a hybrid machine's unified hierarchy.
    hierarchies = [ROOT] if unified() else [*_hierarchies(), ROOT / "unified"]
    tops = [hierarchy / "railhead" / lab for hierarchy in hierarchies]
    deadline = time.monotonic() + 5
    while True:
        left = [top for top in tops if top.exists() and not _remove_tree(top)]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    for top in tops:
        try:
            top.parent.rmdir()
        except OSError:
            continue  # another lab's, or never made
    return left


def _hierarchies() -> list[Path]:
    return [
        entry
        for entry in sorted(ROOT.iterdir())
        if (entry / "cgroup.procs").exists() and not entry.is_symlink() and entry.name != "unified"
    ]


def _delegate(directory: Path) -> None:
    offered = (directory / "cgroup.controllers").read_text().split()
    for controller in offered:
        try:
            (directory / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue  # cpu and others cannot be had where real-time tasks run; the kubelet says so


def _inherit_cpuset(hierarchy: Path, directory: Path) -> None:
    # A new v1 cpuset is empty and takes no process until it names cpus and memory nodes.
    current = hierarchy
    for part in directory.relative_to(hierarchy).parts:
        parent, current = current, current / part
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (current / name).read_text().strip():
                (current / name).write_text((parent / name).read_text())


def _remove_tree(top: Path) -> bool:
    for directory, _, _ in os.walk(top, topdown=False):
        try:
            Path(directory).rmdir()
        except OSError:
            continue  # still in use; the caller tries again
    return not top.exists()
