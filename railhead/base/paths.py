"""Paths of what Railhead builds and runs; no other module decides them.

``RAILHEAD_CACHE`` moves all of it. The cache survives ``railhead lab down``; a lab's own directory
does not.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """Return ``$RAILHEAD_CACHE``, or ``railhead`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if explicit := os.environ.get("RAILHEAD_CACHE"):
        return Path(explicit).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "railhead"


def charts_dir() -> Path:
    """Return the directory of charts unpacked from Go modules, as ``<name>-<version>``."""
    return cache_root() / "charts"


def labs_dir() -> Path:
    """Return the directory of labs; it shares the cache's file system, to hard-link images."""
    return cache_root() / "labs"


def lab_dir(name: str) -> Path:
    """Return the directory of one lab: credentials, logs, node file systems, Pulumi state."""
    return labs_dir() / name


def lab_kubeconfig(name: str) -> Path:
    """Return the administrator's kubeconfig of a running lab, mode 0600."""
    return lab_dir(name) / "kubeconfig"
