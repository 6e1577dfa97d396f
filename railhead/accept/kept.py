"""An acceptance's folder: whose it is, and the evidence of every check that finished.

Evidence is written once its check has ended and read again by ``--resume``. What belongs to another
cluster, to other nodes or to another size of run is never taken for this one's.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from railhead.base.errors import InputError, RefusedError

#: Evidence that is older says what the cluster was, not what it is.
MOST_AGE = timedelta(days=7)


class Identity(BaseModel):
    """The subject of evidence. Two runs that differ in any field share none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str
    uid: str
    railhead: str
    runtime: str
    queue: str
    nodes: tuple[str, ...]
    quick: bool
    contract: str


class Kept(BaseModel):
    """One check's evidence as it was brought, and what bringing it took."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str
    identity: Identity
    begun: AwareDatetime
    seconds: float
    node_hours: float
    evidence: dict[str, Any]


class Folder:
    """The folder of one acceptance.

    Args:
        path: where; it is made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--out {path}: {error.strerror}", remedy="name a folder that can be written"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other runs.

        Raises:
            RefusedError: another run works in it.
        """
        with (self.path / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RefusedError(
                    f"another acceptance runs in {self.path}",
                    remedy="wait for its end, or name another folder with --out",
                ) from None
            yield

    def _file(self, check: str) -> Path:
        return self.path / f"{check}.evidence.json"

    def keep(self, kept: Kept) -> None:
        """Write a check's evidence, whole or not at all."""
        target = self._file(kept.check)
        partial = target.with_suffix(".part")
        with partial.open("w", encoding="utf-8") as file:
            file.write(kept.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)

    def find(self, check: str, identity: Identity, now: datetime) -> tuple[Kept | None, str]:
        """Return a check's evidence where it fits and is fresh, else why it was not reused."""
        try:
            result = Kept.model_validate_json(self._file(check).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None, "no evidence is kept"
        except (OSError, UnicodeDecodeError, ValidationError):
            return None, "the kept evidence cannot be read"
        if result.check != check:
            return None, f"the kept evidence is of {result.check}"
        differ = [
            name
            for name in Identity.model_fields
            if getattr(result.identity, name) != getattr(identity, name)
        ]
        if differ:
            return None, f"the kept evidence is of another {', '.join(differ)}"
        if not timedelta() <= now - result.begun <= MOST_AGE:
            return None, f"the kept evidence is of {result.begun:%Y-%m-%d}"
        return result, ""

    def forget(self, check: str) -> None:
        """Take away a check's earlier evidence, so that it is not taken for this run's."""
        self._file(check).unlink(missing_ok=True)


def record(
    check: str,
    identity: Identity,
    *,
    begun: datetime,
    seconds: float,
    node_hours: float,
    evidence: BaseModel,
) -> Kept:
    """Evidence to keep.

    Raises:
        ValueError: it holds what JSON cannot say, such as an infinity; it then could not be read
            again as what it was.
    """
    text = evidence.model_dump_json()
    if json.loads(text) != evidence.model_dump(mode="json"):
        raise ValueError("the evidence does not survive being written")
    return Kept(
        check=check,
        identity=identity,
        begun=begun,
        seconds=seconds,
        node_hours=node_hours,
        evidence=json.loads(text),
    )
