"""A node's own trees, and what every proof reads in them.

Nothing here changes the node, and nothing needs a privilege: the trees are mounted read-only, and a
test gives trees of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from railhead.base.finding import Finding
from railhead.gate.dcb import Dcb
from railhead.gate.expectation import Expectation


@dataclass(frozen=True, kw_only=True)
class Node:
    """Where a node's own trees are, and what its status offers.

    Args:
        sys: the node's /sys.
        dev: the node's /dev.
        proc: a /proc; what is read there is the kernel's, not a process's.
        plugins: where GKE keeps the driver's libraries and NCCL plugins on its nodes.
        kernel: its release, such as ``6.8.0-45-generic``.
        allocatable: extended resources of the node's status.
        dcb: reads a port's lossless settings.
        now: seconds of a clock that only goes forward.
        counted: counter -> since when, and from what value, it is watched; kept between looks.
    """

    sys: Path
    dev: Path
    proc: Path
    kernel: str
    allocatable: Mapping[str, str]
    plugins: Path = Path("/home/kubernetes/bin")
    dcb: Callable[[str], Dcb]
    now: float = 0.0
    counted: dict[str, tuple[float, int]] = field(default_factory=dict)


def text_of(path: Path) -> str:
    """A file's text; empty where it is not there or the driver refuses to say."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def entries(directory: Path) -> list[str]:
    """What is in a directory, ``mlx5_2`` before ``mlx5_10``; nothing where it is not there."""
    try:
        found = [entry.name for entry in directory.iterdir()]
    except OSError:
        return []
    return sorted(found, key=lambda n: [part.zfill(9) for part in re.findall(r"\d+|\D+", n)])


def number(text: str) -> float:
    """The number that a text begins with, such as ``400 Gb/sec (4X NDR)``; 0 without one."""
    found = re.match(r"\d+(?:\.\d+)?", text)
    return float(found[0]) if found else 0.0


def link_of(path: Path) -> str:
    """The last element of a symbolic link; empty where it is none."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def absent(subject: str, expected: Expectation, text: str, remedy: str) -> Finding:
    """What is not there: a fault, or none that can be told where pods take NICs with them."""
    if expected.movable:
        return Finding(name=subject, passed=None, text=f"{text}: a pod may have it")
    return Finding(name=subject, passed=False, text=text, remedy=remedy)


def named_devices(node: Node, expected: Expectation) -> list[str]:
    """The fabric's RDMA devices that are in the node's sight, where it is known which they are."""
    base = node.sys / "class" / "infiniband"
    if expected.devices:
        return [name for name in expected.devices if (base / name).exists()]
    return [
        name
        for one in expected.interfaces
        for name in entries(node.sys / "class" / "net" / one.name / "device" / "infiniband")
    ]
