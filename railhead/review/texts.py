"""Reads what no plan shows: keys, loose requirements, where a state is."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from railhead.review.judged import Judged, locate
from railhead.review.judges import triggers
from railhead.review.model import Finding, Level
from railhead.review.reading import mapping, strip_comment
from railhead.review.sources import ASIDE, Sources

#: Forms of keys and tokens that their issuers document, and PEM's header (RFC 7468).
FORMS = re.compile(
    r"\b(AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{40,}"
    r"|xox[abprs]-[\w-]{10,}|glpat-[\w-]{20}|github_pat_\w{22,}|AIza[\w-]{35}"
    r"|sk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}|glsa_\w{32,}|dckr_pat_[\w-]{20,}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}|hooks\.slack\.com/services/[\w/]{20,})\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|client-key-data: *LS0t"
)
_NAMED = re.compile(
    r"""(?i)(token|passw(?:or)?d|secret|api[_-]?key|access[_-]?key|credential)s?['"]?\]?\s*"""
    r"""(?:,\s*['"]?value['"]?\s*)?[:=]\s*"""
    r"""(?:(['"])(?P<value>[^'"\s${}<>]{6,})\2|(?P<bare>[A-Za-z0-9+/_=]{20,})\s*$)"""
)
# A user with a password before a host.
_USER = re.compile(r"://[^\s/:@'\"${}<>]+:[^\s/:@'\"${}<>]{6,}@")
# Values that only say where something is, and tokens of texts, which open nothing.
_WHERE = re.compile(r"(?:arn:|projects/|alias/|sha\d+:|\w+://[^@]*$|(?:~|\.{1,2}|/[\w.-]+)/)")
# A variable of a shell that has one without quotes.
_SET = re.compile(
    r"^\s*(?:- |export |ENV )?[A-Z_]*(TOKEN|PASSWORD|SECRET|API_KEY|ACCESS_KEY)="
    r"(?P<value>[\w+-]{8,})\s*$"
)
_OF_TEXTS = re.compile(
    r"(?i)(?:max|min|num|eos|bos|pad|unk|sep|cls|mask|stop|special|added|image|audio|prompt)_?token"
)
# Names of objects and of files, by which a secret is only referred to.
_REFERENCE = re.compile(r"(?i)(name|ref|file|path|class|type|mode)['\"]?\s*[:=]")
_INDEXES = ("--extra-index-url", "--index-url", "-i", "--trusted-host")
_NAMES = re.compile(r"\s*(?:-r|--requirement)[\s=]*(\S+)")
# PEP 440: an exact version, and no prefix of versions such as `==1.*`.
_PINNED = re.compile(r"===?\s*[\w.!+-]+(?![\w.!+*-])")
# The hash of a file at an address (pip, "VCS support" and "Requirement Specifiers").
_HASHED = re.compile(r"#(?:[^\s#]*&)?sha(?:256|384|512)=[0-9a-f]{64}")
_PIN = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,-]*\])?===?[^\s;\\]+")
_HASH = re.compile(r"--hash[= ](sha\d+:[0-9a-f]+)")
_REQUIREMENTS = "requirements*.txt"
_LOCKED = (
    "the stack's secrets cannot be read, unless `pulumi stack change-secrets-provider` wrote it"
)
# Keys of a project and of a stack's file beside its configuration (pulumi/pulumi v3.272.0,
# sdk/go/common/workspace/project.go).
_STATE = {
    "backend": "the state is elsewhere: `up` creates every resource a second time",
    "name": "stacks of another project are new: `up` creates every resource a second time",
    "encryptedkey": _LOCKED,
    "encryptionsalt": _LOCKED,
    "secretsprovider": _LOCKED,
}
_STRANGERS = ("refs/pull/", "gh pr checkout")
# Empty where a comment started it (GitHub documentation, "Contexts").
_OF_EVENT = (*_STRANGERS, "github.event.pull_request.head", "github.head_ref")
# Events that strangers start, with the base branch's secrets and roles (GitHub documentation,
# "Events that trigger workflows").
_COMMENTS = frozenset({"discussion_comment", "issue_comment"})
_OF_BASE = re.compile(r"\b(pull_request_target|issue_comment|discussion_comment)\b")
_BY_STRANGERS = _COMMENTS | {"discussion", "issues", "pull_request_target", "workflow_run"}
# Texts that they write (GitHub documentation, "Script injections"), but for a mere question.
_WRITTEN = re.compile(
    r"\$\{\{(?:(?!\}\}).)*?\b(?<!contains\()(?<!startsWith\()(?<!endsWith\()github\.(head_ref"
    r"|event\.[\w.*]+\.(?:body|title|message|email|page_name|head_branch)"
    r"|event\.[\w.]+\.head\.(?:ref|label|repo\.default_branch))\b"
)


_INSTALLS = "who runs `pulumi up`: what is installed runs with their credentials"


def secrets(source: Sources) -> Iterator[Finding]:
    """Yield each added line that seems to have a key, a token or a password in it."""
    for name in source.changed:
        for line, text in source.added(name):
            if what := _secret(text, strict=name.startswith(ASIDE)):
                says = f"has {what} in plain text: it stays in the history, so replace it where "
                says += "it is valid, and read it from a secret of the stack"
                who = "everyone who reads the repository"
                result = Judged("refuse", "rights", says, who, "secret-in-text")
                yield locate(source, name, f"{name}:{what}", result, line=line)


def requirements(source: Sources) -> Iterator[Finding]:
    """Yield each requirement that a pull request adds without a version, or from another index."""
    installed = _installed(source)
    for name in source.changed:
        if name not in installed and not fnmatchcase(posixpath.basename(name), _REQUIREMENTS):
            continue
        for line, text in source.added(name):
            if what := _loose(text):
                level: Level = "refuse" if name in installed else "note"
                who = _INSTALLS if name in installed else "who installs it"
                result = Judged(level, "judges", what, who, "requirement-loose")
                yield locate(source, name, f"{name}: {text.strip()}", result, line=line)


def hashes(source: Sources) -> Iterator[Finding]:
    """Yield each requirement whose version stays, and of which another file is installed."""
    for name in source.changed:
        if not name.endswith(".txt") or name.startswith(ASIDE):
            continue
        was, now = (_hashed(text or "") for text in source.texts(name))
        for pin, (line, files) in now.items():
            known = was.get(pin, (0, frozenset()))[1]
            if not known or known <= files:
                continue
            if other := sorted(files - known):
                what = f"is another file under the same version ({other[0][:19]}...): a version's "
                what += "files do not change, so it comes from another maker"
            else:
                what = "is installed from fewer of its files, or from any: hashes are gone"
            level: Level = "refuse" if other or not files else "note"
            result = Judged(level, "judges", what, _INSTALLS, "requirement-hash")
            yield locate(source, name, f"{name}: {pin}", result, line=line)


def _hashed(text: str) -> dict[str, tuple[int, frozenset[str]]]:
    """Return pin -> its line and the hashes of its files, of a requirements file."""
    pins: dict[str, tuple[int, frozenset[str]]] = {}
    pin = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _PIN.match(line):
            pin = match.group().lower()
            pins[pin] = number, frozenset()
        if pin:
            pins[pin] = pins[pin][0], pins[pin][1] | set(_HASH.findall(line))
    return pins


def projects(source: Sources) -> Iterator[Finding]:
    """Yield each change of where a stack's state is, or of what its secrets are encrypted with."""
    for name in source.changed:
        if fnmatchcase(posixpath.basename(name), "Pulumi*.y*ml") and not name.startswith(ASIDE):
            old, new = source.texts(name)
            was, now = mapping(old), mapping(new)
            for key, what in _STATE.items():
                # The first secret of a stack brings its key.
                if what == _LOCKED and was and key not in was and "secure:" not in (old or ""):
                    continue
                if was and now and was.get(key) != now.get(key):
                    who = "who runs the next `up`"
                    result = Judged("refuse", "file", what, who, f"project-{key}")
                    yield locate(source, name, f"{name}: {key}", result, key)


def pipelines(source: Sources) -> Iterator[Finding]:
    """Yield each workflow that newly runs what strangers write with the base branch's rights."""
    for name in source.changed:
        if name.startswith(".github/") and name.endswith((".yml", ".yaml")):
            before, after = (text or "" for text in source.texts(name))
            who = "nobody, until a stranger takes them"
            if (event := _runs_strangers(after)) and not _runs_strangers(before):
                what = "runs the code of every pull request, of forks too, with the secrets and "
                what += f"roles of the base branch (`{event}`): use `pull_request`, or let members "
                what += "alone start it (`author_association`)"
                result = Judged("refuse", "rights", what, who, "pipeline-strangers")
                yield locate(source, name, name, result, event, *_OF_EVENT)
            for text in sorted(_stranger_texts(after) - _stranger_texts(before)):
                what = f"puts github.{text} into a script: a stranger writes it, and the shell "
                what += "runs what it says with all that the job may do; hand it over by `env`"
                result = Judged("refuse", "rights", what, who, "pipeline-strangers")
                yield locate(source, name, f"{name}: {text}", result, text)


def _runs_strangers(text: str) -> str:
    """Return the event by which a workflow runs a pull request's code with the base's secrets."""
    lines = "\n".join(map(strip_comment, text.splitlines()))
    starts = {
        event
        for event in _OF_BASE.findall(lines)
        if any(ref in lines for ref in (_STRANGERS if event in _COMMENTS else _OF_EVENT))
    }
    # Members alone may start what asks who wrote the comment.
    return max(starts - _COMMENTS if "author_association" in lines else starts, default="")


def _stranger_texts(text: str) -> set[str]:
    """Return what strangers write and GitHub puts into a workflow's scripts, as they start it."""
    workflow = mapping(text) or {}
    if _BY_STRANGERS.isdisjoint(triggers(workflow)):
        return set()
    return {text for script in _scripts(workflow) for text in _WRITTEN.findall(script)}


def _scripts(part: Any) -> Iterator[str]:
    """Yield the scripts of a workflow, those of actions/github-script too."""
    if isinstance(part, Mapping):
        yield from (str(part[key]) for key in ("run", "script") if key in part)
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from _scripts(inner)


def _installed(source: Sources) -> list[str]:
    """Return the requirements of the program and of its policy pack, and all that they name."""
    patterns = (_REQUIREMENTS, f"policies/{_REQUIREMENTS}", "requirements/*.txt")
    paths = [path for pattern in patterns for path in source.root.glob(pattern)]
    names = [path.relative_to(source.root).as_posix() for path in paths]
    for name in names:
        lines = (source.text(name, head=True) or "").splitlines()
        for match in filter(None, map(_NAMES.match, lines)):
            named = posixpath.normpath(posixpath.join(posixpath.dirname(name), match.group(1)))
            if named not in names and not named.startswith(("/", "..")):
                names.append(named)
    return names


def _loose(text: str) -> str:
    """Return what is wrong with a line of a requirements file; empty for nothing."""
    line = text.partition("#")[0].strip()
    option = line.startswith("-")
    if line.startswith(_INDEXES) or (option and "://" in line):
        return "takes packages from another place too: the highest version of any of them wins"
    if line.startswith(("-e", "--editable")):
        return "installs what a folder or a branch has on that day, and no version"
    # Neither a marker, nor an address, nor an option of one requirement pins it.
    asked = re.split(r"[;@]|://|\s--", line)[0]
    hashed = "--hash" in line or _HASHED.search(text)
    if not line or option or _PINNED.search(asked) or hashed:
        return ""
    if ".whl" in line:
        return "is whatever its address has on that day: add its hash" if "://" in line else ""
    return "has no exact version: other code tomorrow, without a review"


def _secret(text: str, *, strict: bool) -> str:
    """Return what a line seems to hold; empty for nothing."""
    if match := FORMS.search(text):
        return f"a key ({match.group()[:6]}...)"
    if strict:
        return ""
    if _USER.search(text):
        return "a password in an address"
    line = _OF_TEXTS.sub("", text)
    match = _NAMED.search(line) or _SET.search(line)
    if match is None:
        return ""
    value = match["value"] or match["bare"]
    named = _WHERE.match(value) or _REFERENCE.search(line[match.start() : match.end() - len(value)])
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return f"a value of {match.group(1)}" if mixed and not named else ""
