"""Promises that a person accepts unproven: by name, with a reason, until a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from railhead.accept.model import Result, Verdict, Waiver
from railhead.base.errors import InputError, choices
from railhead.base.reading import read_text

_SHAPE = "a list of entries with check, by, reason and until (a day, such as 2026-12-31)"


def given(
    checks: Sequence[str], *, by: str | None, reason: str | None, until: str | None
) -> tuple[Waiver, ...]:
    """Return the waivers of a command line: one for each check, all by the same person.

    Raises:
        InputError: something of it is missing, or is no day.
    """
    texts = {"--by": by, "--reason": reason, "--until": until}
    if not checks:
        if stray := [name for name, value in texts.items() if value is not None]:
            raise InputError(
                f"{', '.join(stray)}: nothing is waived", remedy="name a check with --waive"
            )
        return ()
    if missing := [name for name, value in texts.items() if not (value or "").strip()]:
        raise InputError(
            f"--waive {checks[0]}: {', '.join(missing)} is missing",
            remedy="a waiver says who accepts it, why, and until which day",
        )
    return _read(
        [{"check": c, "by": by, "reason": reason, "until": until} for c in checks], "--waive"
    )


def read(path: Path) -> tuple[Waiver, ...]:
    """Return the waivers of a YAML file.

    Raises:
        InputError: it cannot be read, or is not such a list.
    """
    try:
        data = yaml.safe_load(read_text(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--waivers {path}: {error}", remedy="name a file of waivers") from None
    except yaml.YAMLError as error:
        raise InputError(
            f"--waivers {path}: not YAML: {str(error).splitlines()[0]}", remedy=_SHAPE
        ) from None
    return _read([] if data is None else data, f"--waivers {path}")


def _read(data: Any, where: str) -> tuple[Waiver, ...]:
    if isinstance(data, list):
        # YAML reads an unquoted day as a date already; JSON's own types are what is validated.
        data = [
            {k: v.isoformat() if isinstance(v, date) else v for k, v in entry.items()}
            if isinstance(entry, dict)
            else entry
            for entry in data
        ]
    try:
        return TypeAdapter(tuple[Waiver, ...]).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(f"{where}: {path}: {first['msg']}", remedy=_SHAPE) from None


def check(waivers: Iterable[Waiver], names: Sequence[str], today: date) -> None:
    """Refuse what waives nothing.

    Raises:
        InputError: a check that there is not, one that is waived twice, or a day that is over.
    """
    seen: set[str] = set()
    for waiver in waivers:
        if waiver.check not in names:
            raise InputError(
                f"waiver of {waiver.check!r}: there is no such check{choices(waiver.check, names)}",
                remedy="name one of them",
            )
        if waiver.check in seen:
            raise InputError(
                f"waiver of {waiver.check!r}: given twice", remedy="leave one of the two"
            )
        if waiver.until < today:
            raise InputError(
                f"waiver of {waiver.check!r} by {waiver.by}: it ended on {waiver.until}",
                remedy="prove the promise, or have it waived again",
            )
        seen.add(waiver.check)


def apply(result: Result, waivers: Iterable[Waiver]) -> Result:
    """Return the result with its waiver. What passed needs none; the verdict stays what it is."""
    if result.verdict is Verdict.PASSED:
        return result
    for waiver in waivers:
        if waiver.check == result.name:
            return result.model_copy(update={"waiver": waiver})
    return result
