"""Commands that a pipeline, a script or a pod runs, and what is gone when they have run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from railhead.review.model import Level, Loss

_KEPT = (
    r"(pvcs?|pvs?|persistentvolume(claim)?s?|ns|namespaces?|crds?|customresourcedefinitions?"
    r"|storageclass(es)?|clusterqueues?)"
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
        r"\bpulumi\b.*\s(destroy|down)\b|\b(terraform|tofu)\b.*\bdestroy\b",
        "refuse",
        "data",
        "destroys a stack, with what is in its file systems and the jobs that run",
    ),
    _row(
        r"\bpulumi\b.*\s(up|update)\b.*\s(-y|--yes|-f|--skip-preview)\b"
        r"|\b(terraform|tofu)\b.*-auto-approve",
        "ask",
        "file",
        "applies a plan that nobody has looked at",
    ),
    _row(
        rf"\bkubectl\b.*\bdelete\b.*\b{_KEPT}\b",
        "refuse",
        "data",
        "deletes claims, namespaces or definitions, with the checkpoints and jobs in them",
    ),
    _row(
        r"\bkubectl\b.*\b(patch|edit|replace)\b.*\bfinalizers\b"
        rf"|\bkubectl\b.*\blabel\b.*\b{_KEPT}\b.*-(\s|$)",
        "refuse",
        "data",
        "takes away by what the API server keeps an object: it can be deleted, or is",
    ),
    _row(
        r"\bkubectl\b.*\s(delete|drain|evict)\b",
        "ask",
        "jobs",
        "deletes objects, or drains nodes, with the jobs that run there",
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
        r"\bhelm\b.*\s(uninstall|delete)\b",
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
        r"\b(curl|wget)\b[^|]*\|\s*(sudo\s+)?(ba|z|da)?sh\b",
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


def commands(lines: Sequence[str]) -> Iterator[tuple[int, str, Command]]:
    """Yield (index, line, what it does) of each line that runs one; comments do not."""
    for index, line in enumerate(lines):
        text = line.strip()
        if text.startswith("#"):
            continue
        row = next((row for row in COMMANDS if row.line.search(text)), None)
        if row is not None:
            yield index, text, row
