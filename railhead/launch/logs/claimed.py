"""Logs on the claim of a job's namespace: written by the job's pods, read by a pod of the team's.

Each pod of a job whose runtime mounts a claim starts :mod:`railhead.launch.programs.keep`, which
starts the job's command. What is on a claim is for whoever may mount it: the namespace's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from railhead.base.programs import program
from railhead.contract import Mount
from railhead.launch.logs import kept

PROGRAMS = "railhead.launch.programs"
#: Below the claim, then the namespace, the job's name and the uid of its JobSet.
FOLDER = ".railhead/logs"
#: What stays: of each node so many starts, and of the claim so many runs and bytes (and no more
#: than a twentieth of its file system).
STARTS = 10
RUNS = 50
MOST_BYTES_OF_A_CLAIM = 10 << 30

# A fixed text: settings and the job's words are its arguments, and never part of it. An image
# without a Python that can run the program starts the command as if there were no claim.
_START = (
    "program=$1; settings=$2; shift 2; "
    "if python3 -ISc 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null; "
    'then exec python3 -ISc "$program" "$settings" "$@"; fi; exec "$@"'
)
_STARTED = ("sh", "-c", _START, "railhead")

Object = dict[str, Any]


def words(mount: Mount, *, namespace: str, about: Object, first: int) -> tuple[str, ...]:
    """What stands before a job's command, in pods that mount ``mount``.

    Args:
        mount: the claim.
        namespace: of the job.
        about: what a reader is told of the job: ``name``, ``nodes``, ``processes``, ``runtime``.
        first: which node the first of these pods is.
    """
    settings = {
        "mount": mount.path,
        "folder": f"{mount.path.rstrip('/')}/{FOLDER}/{namespace}/{about['name']}",
        "most": kept.most_bytes(int(about["nodes"])),
        "first": first,
        "starts": STARTS,
        "runs": RUNS,
        "bytes": MOST_BYTES_OF_A_CLAIM,
        "about": about,
    }
    return (*_STARTED, program(PROGRAMS, "keep.py"), json.dumps(settings))


def without(words: Sequence[str]) -> list[str]:
    """A pod's words without what :func:`words` put before them."""
    kept_one = tuple(words[: len(_STARTED)]) == _STARTED
    return list(words[len(_STARTED) + 2 :] if kept_one else words)
