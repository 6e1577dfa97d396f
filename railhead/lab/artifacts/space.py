"""The space that a build's steps need, looked at before they begin."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from railhead.base.paths import cache_root
from railhead.lab.artifacts import golang
from railhead.lab.artifacts.files import existing_parent, require_space
from railhead.lab.artifacts.steps import Step

#: GiB that steps write: (into the cache, into Go's caches), measured and rounded up.
_SPACE_GIB: dict[str, tuple[float, float]] = {
    "sources": (0.0, 1.1),
    "core": (1.1, 4.0),
    "pulumi": (0.2, 1.6),
    "pulumi-sources": (0.0, 1.3),
    "training": (2.9, 0.0),
    "base": (2.6, 0.0),
    "template": (0.4, 0.0),
    "frameworks": (8.0, 0.0),
    "twin-operators": (0.2, 3.0),
}


def check_space(steps: Sequence[Step]) -> None:
    """Refuse a machine whose disks cannot hold what the steps write.

    Raises:
        PrerequisiteError: names the path, the need and what is free.
    """
    into_cache = sum(_SPACE_GIB.get(s.name, (0.0, 0.0))[0] for s in steps)
    into_go = sum(_SPACE_GIB.get(s.name, (0.0, 0.0))[1] for s in steps)
    where: dict[Path, float] = {cache_root(): into_cache}
    if into_go:
        message = subprocess.run(
            [str(golang.find_go()[0]), "env", "GOCACHE"],
            capture_output=True,
            text=True,
            check=True,
            env=golang.go_environment(),
        )
        go_cache = Path(message.stdout.strip())
        device = _device(go_cache)
        if device == _device(cache_root()):
            where[cache_root()] += into_go
        else:
            where[go_cache] = into_go
    for path, needed in where.items():
        if needed:
            require_space(path, needed, "building the lab")


def _device(path: Path) -> int:
    return existing_parent(path).stat().st_dev
