"""Volcano's own programs, built on request (``python -m railhead.lab.artifacts.volcano``).

No part of a lab. Of the releases, v1.14.1 is the newest whose module and whose API module (v1.14.0)
a Go module proxy serves; what a stack installs is the catalogue's.
"""

from __future__ import annotations

from pathlib import Path

from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.files import publish, scratch
from railhead.lab.artifacts.golang import BUILD_ROOT, Program, bin_dir, build, lock_key

SOURCES = BUILD_ROOT / "volcano"
PROGRAMS = tuple(
    Program(name=f"vc-{name}", package=f"volcano.sh/volcano/cmd/{name}")
    for name in ("controller-manager", "scheduler")
)


def directory() -> Path:
    """Where the programs are, or will be."""
    return bin_dir(f"volcano-{lock_key(SOURCES, PROGRAMS)}")


def main() -> None:
    """Build what is missing, and print where it is."""
    if not directory().is_dir():
        with scratch("volcano") as work:
            build(SOURCES, PROGRAMS, work, "volcano", Runner(), lambda _fraction, _detail: None)
            publish(work, directory())
    print(directory())  # noqa: T201 - what it is run for


if __name__ == "__main__":
    main()
