"""A node's own file trees, and readers for the proofs.

Nothing here changes the node or needs a privilege: the trees are mounted read-only; tests use
trees of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from railhead.base.finding import Finding
from railhead.gate.api import ACCOUNT
from railhead.gate.dcb import Dcb
from railhead.gate.expectation import Expectation, Interface

#: The folder of a node in which what sets it up at boot leaves its results.
RESULTS = "/run/railhead"
#: The file with the number of EFA devices that carry Lustre.
LUSTRE_EFA_RESULT = f"{RESULTS}/lustre-efa"


@dataclass(frozen=True, kw_only=True)
class Node:
    """The places of a node's file trees, and the resources in its status.

    Args:
        sys: the node's /sys.
        dev: the node's /dev.
        proc: a /proc; only the kernel's own files in it are read, not a process's.
        run: the node's /run/railhead, where what sets it up at boot leaves its results.
        plugins: where GKE keeps the driver's libraries and NCCL plugins on its nodes.
        kernel: its release, such as ``6.8.0-45-generic``.
        allocatable: extended resources of the node's status.
        dcb: reads a port's lossless settings.
        token: that of the gate's own service account.
        now: seconds of a clock that only goes forward.
        counted: counter -> the time and the value at which its watch began, kept between checks.
    """

    sys: Path
    dev: Path
    proc: Path
    kernel: str
    allocatable: Mapping[str, str]
    run: Path = Path(RESULTS)
    plugins: Path = Path("/home/kubernetes/bin")
    dcb: Callable[[str], Dcb]
    token: Path = ACCOUNT / "token"
    now: float = 0.0
    counted: dict[str, tuple[float, int]] = field(default_factory=dict)


def text_of(path: Path) -> str:
    """Return a file's text; empty if it does not exist or the driver refuses to read it."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def entries(directory: Path) -> list[str]:
    """Return a directory's names, ``mlx5_2`` before ``mlx5_10``; empty if it does not exist."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except OSError:
        return []
    return sorted(names, key=lambda n: [part.zfill(9) for part in re.findall(r"\d+|\D+", n)])


def number(text: str) -> float:
    """Return the number that a text begins with, such as ``400 Gb/sec (4X NDR)``; 0 without one."""
    match = re.match(r"\d+(?:\.\d+)?", text)
    return float(match[0]) if match else 0.0


def link_of(path: Path) -> str:
    """Return the last element of a symbolic link; empty for any other file."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def named(node: Node, expected: Expectation) -> tuple[Interface, ...]:
    """Return the rails' interfaces by the names that this node has; the first where it has none."""
    net = node.sys / "class" / "net"
    return tuple(
        replace(interface, name=name)
        for interface in expected.interfaces
        for name in [n for n in (interface.name, *interface.others) if (net / n).exists()]
        or [interface.name]
    )


def absent(subject: str, expected: Expectation, text: str, remedy: str) -> Finding:
    """Return the finding on something absent: a failure, or unknown where pods may hold NICs."""
    if expected.movable:
        return Finding(name=subject, passed=None, text=f"{text}: a pod may have it")
    return Finding(name=subject, passed=False, text=text, remedy=remedy)


def named_devices(node: Node, expected: Expectation) -> list[str]:
    """Return the fabric's RDMA devices that the node sees, if their names are known."""
    base = node.sys / "class" / "infiniband"
    if expected.devices:
        return [name for name in expected.devices if (base / name).exists()]
    return [
        name
        for interface in expected.interfaces
        for name in entries(node.sys / "class" / "net" / interface.name / "device" / "infiniband")
    ]
