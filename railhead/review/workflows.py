"""Reads workflows of GitHub and scripts: what they newly run, take and may do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

from railhead.review.commands import SCRIPTS, commands
from railhead.review.judged import Judged, few, locate, quoted
from railhead.review.model import Finding
from railhead.review.reading import called, mapping, nodes, plain, single_values, value_of
from railhead.review.rows import flat, parts, several, told
from railhead.review.sources import ASIDE, Sources

_PIPELINES = (".github/*", ".gitlab*", ".ci/*", "Jenkinsfile*", "*/Jenkinsfile*")
# Functions by which a program runs another one.
_STARTS = frozenset({"Popen", "call", "check_call", "check_output", "run", "system"})
_WORKFLOWS = ".github/workflows/*.y*ml"
# Keys of a workflow that change neither what it runs nor what it may do.
_QUIET = re.compile(
    r"(^|\.)(name|run-name|timeout-minutes|retention-days|concurrency|fail-fast)(\.|$)"
)
# Every job has GITHUB_TOKEN; what it may do, `permissions` says.
_SECRET = re.compile(
    r"\bsecrets(?:\.|\[['\"])(?!GITHUB_TOKEN\b)\w+(?:['\"]\])?"
    r"|\bsecrets: *inherit|\btoJSON\(secrets\)"
)
# Commands of Pulumi's action that change something (pulumi/actions, README).
_ACT = re.compile(r"(?<![\w-])(up|update|destroy)(?![\w-])")
_BRANCH = re.compile(r"\buses: *['\"]?([\w./-]+@(?:main|master|HEAD|dev|develop|latest))\b")


def scripts(source: Sources) -> Iterator[Finding]:
    """Yield each command of a pipeline or a script that newly deletes, opens or applies."""
    for name in source.changed:
        old, text = source.texts(name)
        if text is None or not _is_script(name, text):
            continue
        when = _clock(text)
        known = set(_commands(name, old)) if old and bool(_clock(old)) >= bool(when) else set()
        new = {number for number, _ in source.added(name)}
        lines = _lines(name, text)
        for index, line, row in commands(lines):
            if line not in known:
                says = f"runs {quoted(line, 120)}{when}: {row.does}"
                at = next((n for n in _numbers(lines, index) if n in new), index + 1)
                result = Judged(row.level, row.loss, says, rule="pipeline-command")
                yield _finding(source, name, result, line=at)


def _is_script(name: str, text: str) -> bool:
    """Return whether a file has commands that a machine runs."""
    path = PurePath(name)
    if name.startswith(ASIDE) or path.suffix == ".md":
        return False
    if (path.suffix or path.name) in (*SCRIPTS, ".py") or (not path.suffix and text[:2] == "#!"):
        return True
    return any(fnmatchcase(name, row) for row in _PIPELINES)


def _lines(name: str, text: str) -> list[str]:
    """Return a file's lines; of a program only the commands that it runs, at their lines."""
    lines = text.splitlines()
    if not name.endswith(".py"):
        return lines
    names = single_values(text)
    started = dict.fromkeys(range(len(lines)), "")
    for node in nodes(text):
        if isinstance(node, ast.Call) and called(node) in _STARTS and node.args:
            first = value_of(node.args[0], names)
            words = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
            started[node.lineno - 1] = " ".join(plain(word, names) or "?" for word in words)
    return list(started.values())


def _clock(text: str) -> str:
    """Return when a workflow starts by itself, for a sentence."""
    clock = re.findall(r"cron:\s*['\"]([^'\"]+)", text)
    return f" by itself ({', '.join(clock)})" if clock else ""


def _commands(name: str, text: str) -> Iterator[str]:
    return (line for _, line, _ in commands(_lines(name, text)))


def _numbers(lines: Sequence[str], index: int) -> Iterator[int]:
    """Yield the numbers of a command's lines, of which each but the last ends in a backslash."""
    for number, line in enumerate(lines[index:], start=index + 1):
        yield number
        if not line.rstrip().endswith("\\"):
            return


def workflows(source: Sources) -> Iterator[Finding]:
    """Yield what a workflow newly may do and takes, and how it differs otherwise."""
    for name in source.changed:
        texts = source.texts(name)
        if not fnmatchcase(name, _WORKFLOWS) or texts[1] is None:
            continue
        was, now = (_content(text) for text in texts)
        if was is None or now is None:
            text = "cannot be read as YAML: what it may do was not compared"
            yield _finding(source, name, _rights(text))
            continue
        before, after = set(_writes(was)), set(_writes(now))
        if gained := sorted(after - before):
            text = f"may do more with the repository and as it: {', '.join(gained)}"
            words = [right.partition(":")[0] for right in gained]
            yield _finding(source, name, _rights(text), *words, "permissions")
        known = _jobs(was)
        for job, (rights, sources) in _jobs(now).items():
            if rights and sources and not known.get(job, (rights, True))[1]:
                text = f"job {job} has the sources from now on, and may {few(rights, 4)}: who "
                text += "changes them, or a package that they take, does all of that"
                yield _finding(source, name, _rights(text), "checkout")
        for pattern, says in (
            (_SECRET, "takes {}: whatever it runs can read them"),
            (_BRANCH, "runs {}: whatever its branch has on that day"),
        ):
            named = [set(pattern.findall(text or "")) for text in texts]
            if new := sorted(named[1] - named[0]):
                text = says.format(few(new, 6))
                yield _finding(source, name, _rights(text), *new)
        done = set(_acts(was))
        for act in dict.fromkeys(act for act in _acts(now) if act not in done):
            for _, _, row in commands([f"{act} --yes"]):
                says = f"runs {quoted(act, 40)} by pulumi/actions{_clock(texts[1])}: {row.does}"
                result = Judged(row.level, row.loss, says, rule="pipeline-command")
                yield _finding(source, name, result, "command", "pulumi")
        if texts[0] is not None:
            rest = [row for row in parts("", was, now) if not _QUIET.search(row[0])]
            if rest:
                text = f"differs: {told((p.lstrip('.'), a, b) for p, a, b in rest)}"
                result = Judged("ask", "judges", text, rule="pipeline-changes")
                yield _finding(source, name, result, rest[0][0].rpartition(".")[2])


def _rights(what: str) -> Judged:
    return Judged("ask", "rights", what, rule="pipeline-rights")


def _acts(workflow: Any) -> Iterator[str]:
    """Yield what Pulumi's own action does, which asks nobody, also by a condition's words."""
    if isinstance(workflow, Mapping):
        given = workflow.get("with")
        if str(workflow.get("uses")).startswith("pulumi/actions@") and isinstance(given, Mapping):
            yield from (f"pulumi {word}" for word in _ACT.findall(str(given.get("command"))))
        workflow = list(workflow.values())
    for part in workflow if isinstance(workflow, list) else ():
        yield from _acts(part)


def _content(text: str | None) -> Mapping[Any, Any] | None:
    """Return a workflow with its events under `on`, which YAML 1.1 reads as a boolean."""
    content = mapping(text)
    return content and {"on" if key is True else key: value for key, value in content.items()}


def _writes(workflow: Mapping[Any, Any]) -> Iterator[str]:
    """Yield each right to write of a workflow and of its jobs."""
    for path, value in flat(workflow):
        if "permissions" in path and value in ("write", "write-all"):
            yield f"{path.rpartition('.')[2]}: {value}"


def _jobs(workflow: Mapping[Any, Any]) -> dict[str, tuple[list[str], bool]]:
    """Return job -> its rights to write, and whether it has the sources."""
    jobs = workflow.get("jobs")
    results = {}
    for name, job in jobs.items() if isinstance(jobs, Mapping) else ():
        if isinstance(job, Mapping):
            rights = {"permissions": job.get("permissions", workflow.get("permissions"))}
            uses = [str(s.get("uses")) for s in several(job.get("steps")) if isinstance(s, Mapping)]
            checked = any(use.startswith("actions/checkout@") for use in uses)
            results[str(name)] = (sorted(_writes(rights)), checked)
    return results


def _finding(source: Sources, name: str, result: Judged, *words: str, line: int = 0) -> Finding:
    told_ = replace(result, who="nobody, until it has run")
    return locate(source, name, name, told_, *words, line=line)
