"""Commands that a pipeline, a script or a pod runs, and what is gone when they have run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from railhead.review.model import Level, Loss
from railhead.review.reading import strip_comment

# What is between words: in a list of YAML too.
_GAP = r"[\"'\s,]+"
_END = r"(?![\w.-])"
# Options, of which some take the word that follows.
_VALUED = (
    r"(?:[nlfkosCc]|-(?:namespace|selector|filename|kustomize|output|context|cluster|user|as"
    r"|kubeconfig|grace-period|timeout|field-selector|stack|cwd|color|config|config-file))"
)
# Each word ends at a space, so that a line can be read in one way only, and fast.
_NEXT = r"\s[\"'\s,]*"
_OPTIONS = rf"(?:-{_VALUED}[\"',]*\s+\S+{_NEXT}|-(?!{_VALUED}[\"',]*\s)\S+{_NEXT})*"
# A kind, alone or among others, and what may follow its name: a group, an object's name.
_KEPT = (
    r"(?:[\w.]+,|[\w.]+/\S+\s+)*"
    r"(pvcs?|pvs?|persistentvolume(claim)?s?|ns|namespaces?|crds?|customresourcedefinitions?"
    rf"|storageclass(es)?|clusterqueues?)(\.[\w.-]+)?{_END}"
)


_RUNS = r"\b((ba|z|da)?sh|python[\d.]*|perl|node)\b"
#: Endings and names of files with commands for a shell.
SCRIPTS = (
    *(".sh", ".bash", ".mk", ".env", ".sbatch", ".slurm"),
    *("Makefile", "Dockerfile", "justfile"),
)


@dataclass(frozen=True)
class Command:
    """A command as a pattern of its line, and what it does."""

    line: re.Pattern[str]
    level: Level
    loss: Loss
    does: str


def _row(line: str, level: Level, loss: Loss, does: str) -> Command:
    return Command(re.compile(line, re.I), level, loss, does)


# The commands' own references: pulumi.com/docs/iac/cli/commands, kubectl's, AWS CLI's, gcloud's.
COMMANDS: tuple[Command, ...] = (
    _row(
        r"\bpulumi\b.*\bstate\s+unprotect\b",
        "refuse",
        "data",
        "takes the protection off resources of a state: the next change that replaces one deletes "
        "it, file systems and claims with the checkpoints on them",
    ),
    _row(
        r"\bpulumi\b.*\bstate\s+(delete|edit|move)\b|\bpulumi\b.*\bstack\s+(rm|import)\b",
        "refuse",
        "data",
        "changes a state by hand: what it forgets is made a second time, or kept and paid for",
    ),
    _row(
        rf"\bpulumi[\"'}}\s,]+{_OPTIONS}(destroy|down|dn){_END}"
        rf"|\b(terraform|tofu){_GAP}{_OPTIONS}(destroy{_END}|apply\b.*\s-destroy\b)",
        "refuse",
        "data",
        "destroys a stack, with what is in its file systems and the jobs that run",
    ),
    _row(
        r"\bpulumi\b.*\s(up|update)\b.*\s(-y|--yes|-f|--skip-preview)\b"
        r"|\bPULUMI_SKIP_CONFIRMATIONS\s*[=:]\s*[\"']?(true|1)\b"
        r"|\b(terraform|tofu)\b.*-auto-approve",
        "ask",
        "file",
        "applies a plan that nobody has looked at",
    ),
    _row(
        rf"\bkubectl\b.*\bdelete{_GAP}{_OPTIONS}{_KEPT}",
        "refuse",
        "data",
        "deletes claims, namespaces or definitions, with the checkpoints and jobs in them",
    ),
    _row(
        r"\bkubectl\b.*\b(patch|edit|replace)\b.*\bfinalizers\b"
        rf"|\bkubectl\b.*\blabel{_GAP}{_OPTIONS}{_KEPT}.*-(\s|$)",
        "refuse",
        "data",
        "takes away by what the API server keeps an object: it can be deleted, or is",
    ),
    _row(
        r"\bkubectl\b.*[\s\"'](delete|drain|evict)\b|\bkubectl\b.*\sscale\b.*--replicas[ =]0\b",
        "ask",
        "jobs",
        "deletes or stops objects, or drains nodes, with the jobs that run there",
    ),
    _row(
        r"\baws\b.*\bs3(api)?\s+(rm|rb|delete-\S+)\b|\baws\b.*\bs3\s+sync\b.*--delete"
        r"|\bgsutil\b.*\sr[mb]\b|\bgcloud\b.*\bstorage\b.*\b(rm|delete)\b"
        r"|\brclone\s+(delete|purge|sync)\b|\bs5cmd\b.*\srm\b",
        "refuse",
        "data",
        "deletes objects of a bucket",
    ),
    _row(
        r"\brm\s.*(checkpoint|ckpt)|\bfind\b.*(checkpoint|ckpt).*\s(-delete|-exec\s+rm)\b",
        "ask",
        "data",
        "deletes files of checkpoints: a run that needs them begins at step 0",
    ),
    _row(
        rf"\bhelm{_GAP}{_OPTIONS}(uninstall|delete|del|un){_END}",
        "refuse",
        "jobs",
        "takes a chart's controllers away, and with their definitions the jobs of those kinds",
    ),
    _row(
        r"\baws\b.*\s(delete|terminate|cancel|release)-\S+|\bgcloud\b.*\sdelete\b",
        "refuse",
        "capacity",
        "deletes resources of the account beside the program",
    ),
    _row(
        rf"\b(curl|wget)\b[^|]*\|\s*(sudo\s+)?{_RUNS}|({_RUNS}|\b(source|eval))\s(-\S+\s)*[\"']?"
        r"(<\(|\$\(|`)\s*(curl|wget)\b",
        "refuse",
        "rights",
        "runs whatever its address has on that day, with all that the machine may do",
    ),
    _row(
        r"--allow[ =](judges|unjudged)\b",
        "refuse",
        "judges",
        "passes what a review fails, without a second reviewer's word",
    ),
)


# What runs nothing: names of steps, and a text that is printed where it runs no further.
_NAME = re.compile(r"(- )?(run-)?(name|description):\s")
_TELLS = r"(?:echo|printf|log|info|warn|error|die|fail)\b"
_PRINTS = re.compile(
    rf"(- |run: *|script: *|@)*{_TELLS}"
    r"(?!.*(\||`|\$\(|>(?!&2|.*GITHUB_)))"
)
_SHOWN = re.compile(r"cat\s(?:>&2\s)?<<-?\s*['\"]?(\w+)['\"]?(?:\s>&2)?")
_PRINTED = re.compile(rf"(\b{_TELLS}\s+(?:-\w+\s+)*)(['\"]).*?\2")
_TRIES = re.compile(r"\s(--dry-run(=(client|server|true))?|--preview-only)(?=['\"]?(\s|$))")

_BETWEEN = re.compile(r"\s*(?:;|&&|\|\||\s&\s)\s*")


def commands(lines: Sequence[str]) -> Iterator[tuple[int, str, Command]]:
    """Yield (index, text, what it does) of each command that loses something.

    A line that a backslash continues is one with the next, and begins at its own index.
    """
    shown = ""
    for index, joined in _joined(lines):
        line = strip_comment(joined)
        if shown or _NAME.match(line):
            shown = "" if line == shown else shown
            continue
        if match := _SHOWN.fullmatch(line):
            shown = match.group(1)
        run = _PRINTED.sub(r"\1", line) if _PRINTS.match(line) else line
        for text in _BETWEEN.split(run):
            if _PRINTS.match(text) or _TRIES.search(text):
                continue
            row = next((row for row in COMMANDS if row.line.search(text)), None)
            if row is not None:
                yield index, text, row


def _joined(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (index of the first, text) of each line with those that continue it."""
    first, text = 0, ""
    for index, line in enumerate(lines):
        first, text = (first, f"{text} {line.strip()}") if text else (index, line.strip())
        if text.endswith("\\") and not text.startswith("#") and index + 1 < len(lines):
            text = text.removesuffix("\\").rstrip()
        else:
            yield first, text
            text = ""
