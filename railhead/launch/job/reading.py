"""A job file, or values from elsewhere, read into a job: every mistake reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from railhead.base.errors import InputError
from railhead.base.mistakes import told_by_rule
from railhead.base.reading import read_text
from railhead.launch.job.files import Payload, near_miss, payloads
from railhead.launch.job.model import EXPECTED, JobFile, RoleFile
from railhead.launch.job.text import Mistake, Reader, compose, override

MAX_JOB_FILE_BYTES = 1 << 20


def read_job(path: Path, *, sets: Iterable[str] = ()) -> tuple[JobFile, tuple[Payload, ...]]:
    """Read a job file and the local files that it names.

    Raises:
        InputError: as :func:`parse_job`; or the job file or one of its files is missing,
            unreadable, larger than a ConfigMap may be or, all together, than eight of them.
    """
    read = _read(_read_text(path), where=str(path), sets=sets)
    sent = payloads(read.files, path.parent, read.wrong)
    return _accept(read, str(path)), sent


def parse_job(text: str, *, where: str, sets: Iterable[str] = ()) -> JobFile:
    """Read a job file's text.

    Args:
        text: the YAML.
        where: how errors call it, such as the file's name.
        sets: overrides, ``field=value`` or ``env.NAME=value``, applied before checking.

    Raises:
        InputError: with every mistake, each on its own line with line number, field, value and
            what is allowed.
    """
    read = _read(text, where=where, sets=sets)
    return _accept(read, where)


def job_of(
    values: Mapping[str, Any], *, folder: Path, where: str
) -> tuple[JobFile, tuple[Payload, ...]]:
    """Return a job from values instead of a file's text, by the same rules.

    Args:
        values: the fields of a job file; sequences may be lists.
        folder: what `files` are relative to.
        where: how errors call it.

    Raises:
        InputError: as :func:`read_job`.
    """
    read = _judge(_plain(values), lines={}, mistakes=[])
    sent = payloads(read.files, folder, read.wrong)
    return _accept(read, where), sent


def _plain(value: Any) -> Any:
    """Return the value with tuples for lists, as a file's text is read."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _read_text(path: Path) -> str:
    remedy = "name a job file; `railhead init job.yaml` writes one"
    try:
        if path.is_dir():
            raise InputError(f"{path}: a folder", remedy=remedy)
        if not path.is_file():
            raise InputError(f"{path}: no such file{near_miss(path)}", remedy=remedy)
        if path.stat().st_size > MAX_JOB_FILE_BYTES:
            raise InputError(f"{path}: larger than a job file can be (1 MiB)", remedy=remedy)
        return read_text(path, MAX_JOB_FILE_BYTES)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", remedy=remedy) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text", remedy=remedy) from None


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A job file as far as it could be read: ``job`` is None if the text alone has mistakes."""

    job: JobFile | None
    files: tuple[str, ...]
    lines: dict[str, int]
    mistakes: list[Mistake]

    def wrong(self, field: str, text: str) -> None:
        """Note what is wrong with a field."""
        self.mistakes.append(Mistake(line=self.lines.get(field, 0), text=f"{field}: {text}"))


def _read(text: str, *, where: str, sets: Iterable[str]) -> _Read:
    reader = Reader()
    values = reader.value(compose(text, where), "")
    mistakes = reader.mistakes + override(values, sets, reader.lines)
    return _judge(values, lines=reader.lines, mistakes=mistakes)


def _judge(values: Mapping[str, Any], *, lines: dict[str, int], mistakes: list[Mistake]) -> _Read:
    # An optional field without a value means that it was left out.
    optional = [n for n, f in JobFile.model_fields.items() if not f.is_required()]
    given = {k: v for k, v in values.items() if not (v is None and k in optional)}
    job: JobFile | None = None
    bad_files = False
    try:
        job = JobFile.model_validate(given)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            path, wrong = _told(item)
            bad_files = bad_files or path.startswith("files")
            mistakes.append(Mistake(line=lines.get(path, 0), text=f"{path}: {wrong}"))
    files = () if bad_files else given.get("files", ())
    return _Read(job=job, files=files, lines=lines, mistakes=mistakes)


def _told(error: ErrorDetails) -> tuple[str, str]:
    """Return one mistake's path and what is allowed there; a role's fields are as a job's."""
    field, *rest = error["loc"]
    if field != "roles" or len(rest) < 2 or rest[1] == "[key]":
        return told_by_rule(JobFile, error, EXPECTED)
    path, wrong = told_by_rule(RoleFile, error | {"loc": tuple(rest[1:])}, EXPECTED)
    return f"roles.{rest[0]}.{path}", wrong


def _accept(read: _Read, where: str) -> JobFile:
    if read.job is None or read.mistakes:
        raise InputError(
            _report(where, read.mistakes),
            remedy="nothing was created; `railhead launch --help` shows a complete job file",
        )
    return read.job


def _report(where: str, mistakes: Sequence[Mistake]) -> str:
    ordered = sorted(mistakes, key=lambda m: m.line)
    count = "1 mistake" if len(ordered) == 1 else f"{len(ordered)} mistakes"
    lines = [f"  line {m.line}: {m.text}" if m.line else f"  {m.text}" for m in ordered]
    return "\n".join([f"{where}: {count}", *lines])
