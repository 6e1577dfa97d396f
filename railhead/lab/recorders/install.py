"""Launchers for the recording providers, in a directory that goes first on `pulumi`'s PATH."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from railhead.lab.recorders.recording import VERSIONS

MODULE = "railhead.lab.recorders.recording"
REPO = Path(__file__).resolve().parents[3]
# As railhead.lab.engine.install does: the project's own directory must not come first.
_BOOT = (
    "import runpy, sys; sys.path[0] = sys.argv.pop(1); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def install(folder: Path) -> None:
    """Write ``pulumi-resource-<package>`` for every package there is a recording provider of."""
    for package in VERSIONS:
        launcher = folder / f"pulumi-resource-{package}"
        words = [sys.executable, "-c", _BOOT, str(REPO), MODULE, package]
        launcher.write_text(
            "#!/bin/sh\nRAILHEAD_ENGINE_PID=$PPID\nexport RAILHEAD_ENGINE_PID\n"
            f'exec {shlex.join(words)} "$@"\n'
        )
        launcher.chmod(0o755)
