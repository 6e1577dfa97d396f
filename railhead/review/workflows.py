"""Reads workflows of GitHub and scripts: what they newly run, take and may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import yaml

from railhead.review.commands import commands
from railhead.review.judged import few
from railhead.review.model import Finding, Level, Loss, Place
from railhead.review.rows import flat, parts, told
from railhead.review.sources import Sources

_SCRIPTS = (
    *(".github/*", ".gitlab*", ".ci/*", "Jenkinsfile*", "*/Jenkinsfile*", "Makefile"),
    *("*.sh", "*.mk"),
)
_ASIDE = ("tests/", "docs/", "examples/")
_WORKFLOWS = ".github/workflows/*.y*ml"
# Keys of a workflow that change neither what it runs nor what it may do.
_QUIET = re.compile(
    r"(^|\.)(name|run-name|timeout-minutes|retention-days|concurrency|fail-fast)(\.|$)"
)
_SECRET = re.compile(r"\bsecrets\.\w+|\bsecrets: *inherit|\btoJSON\(secrets\)")
_BRANCH = re.compile(r"\buses: *['\"]?([\w./-]+@(?:main|master|HEAD|dev|develop|latest))\b")


def scripts(source: Sources) -> Iterator[Finding]:
    """Yield each command of a pipeline or a script that newly deletes, opens or applies."""
    for name in source.changed:
        if name.startswith(_ASIDE) or not any(fnmatchcase(name, row) for row in _SCRIPTS):
            continue
        clock = re.findall(r"cron:\s*['\"]([^'\"]+)", source.text(name, head=True) or "")
        when = f" by itself ({', '.join(clock)})" if clock else ""
        known = {line.strip() for line in (source.text(name, head=False) or "").splitlines()}
        for hunk in source.hunks(name):
            for offset, line, row in commands(hunk.after):
                if line not in known:
                    text = f"runs `{line[:120]}`{when}: {row.does}"
                    place = Place(file=name, line=hunk.line + offset)
                    yield _finding("pipeline-command", row.level, row.loss, text, place)


def workflows(source: Sources) -> Iterator[Finding]:
    """Yield what a workflow newly may do and takes, and how it differs otherwise."""
    for name in source.changed:
        texts = [source.text(name, head=head) for head in (False, True)]
        if not fnmatchcase(name, _WORKFLOWS) or texts[1] is None:
            continue
        place = Place(file=name, line=next((h.line for h in source.hunks(name)), 1))
        was, now = (_content(text) for text in texts)
        before, after = set(_writes(was)), set(_writes(now))
        if gained := sorted(after - before):
            text = f"may do more with the repository and as it: {', '.join(gained)}"
            yield _finding("pipeline-rights", "ask", "rights", text, place)
        for pattern, says in (
            (_SECRET, "takes {}: whatever it runs can read them"),
            (_BRANCH, "runs {}: whatever its branch has on that day"),
        ):
            named = [set(pattern.findall(text or "")) for text in texts]
            if new := sorted(named[1] - named[0]):
                text = says.format(few(new, 6))
                yield _finding("pipeline-rights", "ask", "rights", text, place)
        if texts[0] is not None:
            rest = [row for row in parts("", was, now) if not _QUIET.search(row[0])]
            if rest:
                text = f"runs otherwise: {told((p.lstrip('.'), a, b) for p, a, b in rest)}"
                yield _finding("pipeline-changes", "ask", "judges", text, place)


def _content(text: str | None) -> Mapping[Any, Any]:
    try:
        content = yaml.safe_load(text or "")
    except (yaml.YAMLError, ValueError, OverflowError):
        return {}
    return content if isinstance(content, Mapping) else {}


def _writes(workflow: Mapping[Any, Any]) -> Iterator[str]:
    """Yield each right to write of a workflow and of its jobs."""
    for path, value in flat(workflow):
        if "permissions" in path and value in ("write", "write-all"):
            yield f"{path.rpartition('.')[2]}: {value}"


def _finding(rule: str, level: Level, loss: Loss, what: str, place: Place) -> Finding:
    return Finding(
        rule=rule,
        level=level,
        loss=loss,
        subject=place.file,
        what=what,
        who="nobody, until it has run",
        place=place,
    )
