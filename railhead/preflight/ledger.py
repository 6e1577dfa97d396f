"""The ledger of assumptions: rows in YAML beside this module, one file a platform."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from railhead.base.data import load

_FOLDER = Path(__file__).resolve().parent / "rows"
#: Rows of every platform.
_ALL = "all"


class Row(BaseModel):
    """One thing that a stack takes for granted.

    Attributes:
        id: its name, unique on a platform.
        assumes: what is taken for granted, as a sentence.
        proof: ``offline`` without a cloud or a cluster, ``call`` by a call that reads, ``up`` by
            nothing before `pulumi up`.
        how: which command, test or step shows it.
        calls: the calls of ``call``, as the cloud names them.
        of: the stacks that take it for granted; empty for all.
        remedy: what to do when it does not hold.
        source: where it was read that this is needed.
        sure: ``inferred`` where the source does not say it in so many words.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    assumes: str
    proof: Literal["offline", "call", "up"]
    how: str
    calls: tuple[str, ...] = ()
    of: str = ""
    remedy: str = ""
    source: str = ""
    sure: Literal["read", "inferred"] = "read"


def platforms() -> tuple[str, ...]:
    """Return the platforms that have a ledger."""
    stems = (file.stem for file in _FOLDER.glob("*.yaml"))
    return tuple(sorted(stem for stem in stems if stem != _ALL and "." not in stem))


@cache
def ledger(platform: str) -> tuple[Row, ...]:
    """Return a platform's rows: those that are asked first, those that only `up` shows last."""
    rows = [
        row
        for name in (platform, _ALL)
        for row in TypeAdapter(tuple[Row, ...]).validate_python(data(name))
    ]
    order = ("call", "offline", "up")
    return tuple(sorted(rows, key=lambda row: order.index(row.proof)))


def data(name: str) -> Any:
    """Return the data of a file of the ledger, such as ``aws`` or ``aws.rights``."""
    return load(_FOLDER / f"{name}.yaml")
