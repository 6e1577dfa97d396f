"""Where Railhead keeps what it builds and what it runs; nothing else decides a path.

``RAILHEAD_CACHE`` moves all of it. The cache survives ``railhead lab down``; a lab's own directory
does not.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The cache: ``$RAILHEAD_CACHE``, or ``railhead`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if explicit := os.environ.get("RAILHEAD_CACHE"):
        return Path(explicit).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "railhead"


def charts_dir() -> Path:
    """Charts unpacked from Go modules: one directory ``<name>-<version>`` each."""
    return cache_root() / "charts"


def labs_dir() -> Path:
    """One directory a running lab; on the cache's file system so that images can be hard-linked."""
    return cache_root() / "labs"


def lab_dir(name: str) -> Path:
    """Everything of one lab: credentials (0600), logs, node file systems, Pulumi state."""
    return labs_dir() / name


def lab_kubeconfig(name: str) -> Path:
    """The administrator's kubeconfig of a running lab, mode 0600."""
    return lab_dir(name) / "kubeconfig"
