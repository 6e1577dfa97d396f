"""A stack's typed configuration, read with or without Pulumi.

>>> from pathlib import Path
>>> from railhead.config import load
>>> load(Path("stacks/Pulumi.lab.yaml")).name  # doctest: +SKIP
'lab'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from railhead.base.errors import InputError, choices
from railhead.base.mistakes import described
from railhead.base.reading import read_text
from railhead.base.sections import Problem, read
from railhead.catalog import digests, own
from railhead.config import doubts, sense, site
from railhead.config.checks import problems
from railhead.config.lines import Lines, lines
from railhead.config.lines import read as read_lines
from railhead.fabric.kinds import FABRICS
from railhead.model.cluster import Cluster
from railhead.platform.registry import PLATFORMS

PROJECT = "railhead"
KEY = "cluster"

__all__ = ["KEY", "PROJECT", "Checked", "Cluster", "check", "check_values", "load", "parse", "use"]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A cluster, and what of its file may be meant and mostly is not: a line of text each."""

    cluster: Cluster
    doubts: tuple[str, ...]


def load(path: Path) -> Cluster:
    """Read the cluster of a stack's file, ``Pulumi.<stack>.yaml``.

    Raises:
        InputError: the file cannot be read, or one line for each mistake in it.
    """
    return check(path).cluster


def check(path: Path, *, now: datetime | None = None) -> Checked:
    """Read the cluster of a stack's file, with its doubts.

    Args:
        path: the stack's file.
        now: the time, with its zone, with which moments in the file are compared; None takes
            the clock's.

    Raises:
        InputError: the file cannot be read, or one line for each mistake in it.
    """
    data, at = _read(path)
    settings = data.get("config") if isinstance(data, dict) else None
    raw = settings.get(f"{PROJECT}:{KEY}") if isinstance(settings, dict) else None
    checked = _checked(raw, str(path), at, now)
    unread = [*_unread(settings or {}, checked.cluster)]
    messages = _told(unread, str(path), lines(_text(path), "config")) if unread else ()
    return replace(checked, doubts=(*messages, *checked.doubts))


def check_values(raw: Any, *, where: str, now: datetime | None = None) -> Checked:
    """Check a value that was read elsewhere; messages have line numbers if the file exists.

    Raises:
        InputError: one line for each mistake.
    """
    path = Path(where)
    return _checked(raw, where, _read(path)[1] if path.is_file() else None, now)


def _checked(raw: Any, where: str, at: Lines | None, now: datetime | None) -> Checked:
    use(Path(where).parent)
    cluster = parse(raw, where=where, at=at)
    rows = doubts.doubts(cluster, now or datetime.now(UTC))
    return Checked(cluster=cluster, doubts=tuple(_told(rows, where, at)))


def _unread(settings: Mapping[str, Any], cluster: Cluster) -> Iterator[Problem]:
    """Yield the keys of Railhead's own, other than the cluster, that nothing in it names."""
    read_by = {secret.config for secret in cluster.access.image_pull_secrets} | {KEY}
    for key in settings:
        project, _, name = str(key).partition(":")
        if project == PROJECT and name not in read_by:
            yield str(key), f"is read by nothing{choices(name, filter(None, read_by))}"


def use(folder: Path) -> None:
    """Let the machines of a folder's ``machines.yaml`` join the catalogue, and its digests.

    Raises:
        InputError: a line for each mistake in them.
    """
    own.use(folder, frozenset(FABRICS), frozenset(PLATFORMS))
    digests.use(folder)


def _read(path: Path) -> tuple[Any, Lines]:
    text = _text(path)
    try:
        return read_lines(text, "config", f"{PROJECT}:{KEY}")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{mark.line + 1}: " if mark else " "
        reason = getattr(error, "problem", None) or "no YAML"
        raise InputError(f"{path}:{line}{reason}", remedy="correct the YAML") from None
    except (ValueError, RecursionError) as error:
        # A date such as 2026-13-41, or brackets without an end.
        raise InputError(f"{path}: {error}", remedy="correct the YAML") from None


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}",
            remedy="name a stack's file, such as stacks/Pulumi.NAME.yaml",
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text: {error.reason}", remedy="save it as UTF-8"
        ) from None


def parse(raw: Any, *, where: str, at: Lines | None = None) -> Cluster:
    """Check the value of ``railhead:cluster``.

    Args:
        raw: the value, as YAML or JSON gives it.
        where: names its file in messages.
        at: the lines of its fields, for messages; also finds keys that are there twice, and
            values that Pulumi would read as something else.

    Raises:
        InputError: one line ``<where>:<line>: <path>: <what is wrong>`` for each mistake, all at
            once.
    """
    if raw is None:
        raise InputError(
            f"{where}: {PROJECT}:{KEY} is missing",
            remedy="describe the cluster under `config:`, as `railhead new` does",
        )
    model, mistakes = _model(raw)
    cluster = None
    try:
        cluster = model.model_validate(raw)
    except ValidationError as error:
        mistakes.extend(
            described(model, details)
            for details in error.errors(include_url=False)
            # A list whose every element is malformed is reported as too short, too; it is not.
            if (details["type"] != "too_short" or not details["input"])
            # The fields of a platform and its pools are not known while its kind is not.
            and not (model is Cluster and _of_platform(details["loc"]))
        )
    known = read(model, raw) if cluster is None else cluster
    mistakes.extend(problems(known))
    mistakes.extend(site.problems(known))
    mistakes.extend(sense.texts(raw))
    mistakes.extend(sense.problems(known))
    wrong = at.wrong if at else ()
    if cluster is None or mistakes or wrong:
        messages = [f"{where}:{line}: {path}: {text}" for line, path, text in wrong]
        messages += _told(
            sorted(mistakes, key=lambda row: at.of(row[0]) or 0) if at else mistakes, where, at
        )
        raise InputError(
            "\n".join(dict.fromkeys(messages)), remedy=f"edit {where}; nothing was changed"
        )
    return cluster


def _told(found: Iterable[Problem], where: str, at: Lines | None) -> list[str]:
    messages = []
    for path, text in found:
        line = at.of(path) if at else None
        place = f"{where}:{line}" if line else where
        messages.append(f"{place}: {path}: {text}" if path else f"{place}: {text}")
    return messages


def _of_platform(loc: tuple[int | str, ...]) -> bool:
    return len(loc) > 1 and loc[0] in ("platform", "pools")


def _model(raw: Any) -> tuple[type[Cluster], list[tuple[str, str]]]:
    """Return the model of the platform's clusters; the common one, and a mistake, if unknown."""
    platform = raw.get("platform") if isinstance(raw, dict) else None
    kind = platform.get("kind") if isinstance(platform, dict) else None
    if isinstance(kind, str) and kind in PLATFORMS:
        return PLATFORMS[kind].cluster, []
    if kind is None:
        return Cluster, [("platform.kind", "is missing")] if isinstance(platform, dict) else []
    return Cluster, [("platform.kind", f"{kind!r} is not known{choices(str(kind), PLATFORMS)}")]
