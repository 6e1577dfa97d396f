"""Packs the program that proves a job's fabric in its own pods, before the job's command.

Pods have the job's image, which has no Railhead. So the module that judges NCCL's log of each
process travels with the job; `railhead accept` judges by it too, and then by all logs together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import railhead
from railhead.contract import Fabric
from railhead.framework.base import Framework, Gang
from railhead.launch.job import Payload

#: Where it lies in the pods; read-only, and no place of a job's own mounts.
PLACE = "/run/railhead"
PROGRAM = f"{PLACE}/verify.py"
_ROOT = Path(railhead.__file__).parent
# The packages' own files hide another project's `railhead` in the image.
_READER = (
    "__init__.py",
    "base/__init__.py",
    "base/version.py",
    "nccl/__init__.py",
    "nccl/proofs.py",
)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The words before a job's command, and the files that they need in :data:`PLACE`."""

    words: tuple[str, ...]
    files: tuple[Payload, ...]


def prove(framework: Framework, gang: Gang, fabric: Fabric) -> Proof | None:
    """Return what proves ``fabric`` on every process of ``gang``; None if the framework cannot."""
    from railhead.nccl.ranks import DEBUG

    start = framework.proving(PROGRAM)
    if start is None:
        return None
    asked = {
        "start": start,
        "world": gang.world_size,
        "proofs": fabric.proofs,
        "gpudirect": fabric.gpudirect,
        "environment": DEBUG,
    }
    sources = {f"railhead/{name}": _ROOT / name for name in _READER}
    sources["verify.py"] = _ROOT / "launch/programs/verify.py"
    return Proof(
        words=("python3", PROGRAM),
        files=(
            *(Payload(name=name, data=path.read_bytes()) for name, path in sources.items()),
            Payload(name="asked.json", data=json.dumps(asked, indent=1).encode()),
        ),
    )
