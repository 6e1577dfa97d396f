"""The knowledge base: every clue, observation and cause; the rows are YAML, one file a family.

The rows are read when this module is imported, which only the first reading of a log does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from railhead.base.data import load
from railhead.diagnose.model import Cause, Clue, Observation

# What the reader of logs looks for already: its signs, under the names that rules use.
SHARED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bootstrap-using": ("nccl.bootstrap", "nccl.bootstrap-old"),
        "init-complete": ("nccl.init-complete", "nccl.rings", "nccl.trees", "tests.average"),
        "channel-line": (
            "nccl.channel-net",
            "nccl.channel-p2p",
            "nccl.channel-shm",
            "nccl.channel-shm-old",
        ),
        "nccl-version": ("nccl.version",),
        "nccltests-rank": ("tests.rank",),
    }
)

FOLDER = Path(__file__).parent
#: Files of rows, in the order of the documentation's tables.
FAMILIES = ("containers", "sockets", "rdma", "plugins", "gpu", "framework", "cluster")


class Family(BaseModel):
    """The rows of a file."""

    model_config = ConfigDict(frozen=True)

    clues: tuple[Clue, ...]
    observations: tuple[Observation, ...]
    causes: tuple[Cause, ...]


def _connect(error: str) -> str:
    """Return the pattern of a connection that failed with ``error``.

    NCCL's `retrying` lines are no failure.
    """
    return (
        rf"[Cc]onnect.*(?:failed|timeout) ?:.*{error}|[Cc]onnect.*returned \d+ ?\({error}"
        rf"|[Cc]onnect.*returned {error}, exceeded|[Cc]onnect.*failed with error.*{error}"
    )


def _clue(raw: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(raw)
    if "connect" in row:
        row["pattern"] = _connect(row.pop("connect"))
    elif isinstance(row.get("pattern"), list):
        row["pattern"] = "".join(row["pattern"])
    return row


def family(raw: Mapping[str, Any]) -> Family:
    """Return the rows of a file.

    Args:
        raw: ``family``, the heading of each cause that has no other, and lists of rows. A clue's
            ``pattern`` may be in pieces, or be that of a connection that failed (``connect``).

    Raises:
        pydantic.ValidationError: a field is unknown, missing or of another type.
    """
    heading = {"family": raw["family"]}
    rows = {key: value for key, value in raw.items() if key != "family"}
    rows["clues"] = [_clue(row) for row in raw["clues"]]
    rows["causes"] = [heading | row for row in raw["causes"]]
    return Family.model_validate(rows, extra="forbid")


def _read(file: Path) -> Family:
    raw = load(file)
    try:
        return family(raw)
    except ValidationError as error:
        error.add_note(f"in {file}")
        raise


_FILES = [_read(FOLDER / f"{name}.yaml") for name in FAMILIES]

CLUES: Mapping[str, Clue] = MappingProxyType(
    {clue.id: clue for file in _FILES for clue in file.clues}
)
OBSERVATIONS: Mapping[str, Observation] = MappingProxyType(
    {observation.id: observation for file in _FILES for observation in file.observations}
)
CAUSES: Mapping[str, Cause] = MappingProxyType(
    {cause.id: cause for file in _FILES for cause in file.causes}
)
