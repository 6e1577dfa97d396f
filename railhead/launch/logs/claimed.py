"""Logs on the claim of a job's namespace: written by the job's pods, read by a pod of the team's.

Each pod of a job that mounts a claim starts :mod:`railhead.launch.programs.keep`, which its
runtime mounts, starts the job's command, and says when a claim does not answer. Anyone who may
mount a claim can read it: the pods of its namespace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from railhead.contract import Mount
from railhead.launch.logs import kept

PROGRAMS = "railhead.launch.programs"
#: Below the claim, then the namespace, the job's name and the uid of its JobSet.
FOLDER = ".railhead/logs"
#: Below the claim; then the namespace and the pod's host name: a file that is there for a moment.
PROBE = ".railhead/probe"
#: What stays: of each node so many starts, and of the claim so many runs and bytes (and no more
#: than a twentieth of its file system).
STARTS = 10
RUNS = 50
MOST_BYTES_OF_A_CLAIM = 10 << 30

# A fixed text: settings and the job's words are its arguments, and never part of it. An image
# without a Python that can run the program starts the command as if there were no claim.
_START = (
    '[ -r "$0" ] && '
    "python3 -ISc 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null "
    '&& exec python3 -IS "$0" "$@"; shift; exec "$@"'
)
_STARTED = ("sh", "-c", _START)

Object = dict[str, Any]


def words(
    programs: str,
    checkpoint: Mount | None,
    *,
    others: Mapping[str, str],
    namespace: str,
    about: Object,
    first: int,
    logs: bool,
) -> tuple[str, ...]:
    """Return the words before a job's command, in pods that mount claims.

    Args:
        programs: the directory in which the pods have the programs. They may be another version's:
            settings that are there keep their meaning.
        checkpoint: the claim for checkpoints, if there is one.
        others: path -> claim of the other mounts, to which nothing is written.
        namespace: the namespace of the job.
        about: kept for readers of the job's logs: ``name``, ``nodes``, ``processes``, ``runtime``.
        first: the node number of the first of these pods.
        logs: whether the output is kept on the claim for checkpoints.
    """
    mounts = [{"claim": claim, "path": path, "file": ""} for path, claim in others.items()]
    settings: Object = {"folder": "", "mounts": mounts}
    if checkpoint is not None:
        root = f"{checkpoint.path.rstrip('/')}/"
        file = f"{root}{PROBE}-{namespace}"
        mounts.insert(0, {"claim": checkpoint.claim, "path": checkpoint.path, "file": file})
        if logs:
            settings |= {
                "mount": checkpoint.path,
                "folder": f"{root}{FOLDER}/{namespace}/{about['name']}",
                "most": kept.most_bytes(int(about["nodes"])),
                "first": first,
                "starts": STARTS,
                "runs": RUNS,
                "bytes": MOST_BYTES_OF_A_CLAIM,
                "about": about,
            }
    return (*_STARTED, f"{programs}/keep.py", json.dumps(settings, separators=(",", ":")))


def without(words: Sequence[str]) -> list[str]:
    """Return a pod's words without what :func:`words` put before them."""
    kept_one = tuple(words[: len(_STARTED)]) == _STARTED
    return list(words[len(_STARTED) + 2 :] if kept_one else words)
