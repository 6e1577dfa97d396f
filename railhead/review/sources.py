"""The two sides of a pull request, by git: the base branch's files, and what was changed."""

from __future__ import annotations

import difflib
import io
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

from railhead.base.errors import InputError, PrerequisiteError
from railhead.review.model import Place

# Above so many lines git compares: `difflib` takes minutes for 40,000 of them.
_LINES = 4000
_BYTES = 4_000_000  # What is larger was made by a tool, and is not read.
_RANGES = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.M)

_ALIKE = 0.5  # The part of two files' lines that both have, of one that was renamed, as in git.
#: Folders of which no cluster, job or pipeline runs anything.
ASIDE = ("tests/", "docs/", "examples/")


def git(folder: Path, *words: str) -> bytes:
    """Run git in a folder and return its output.

    Raises:
        PrerequisiteError: there is no git, or the folder is in no repository.
        InputError: it failed.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, check=False, timeout=120
        )
    except FileNotFoundError:
        raise PrerequisiteError("there is no `git`", remedy="install it") from None
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        raise InputError(
            f"`git {' '.join(words)}` failed: {text}",
            remedy="name a branch or commit that this clone has; a pipeline fetches the whole "
            "history (`fetch-depth: 0`, GIT_DEPTH: 0)",
        )
    return done.stdout


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """Lines ``before`` of the base that became ``after``, which begin at ``line`` of the head."""

    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    was: int


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A pull request's repository: the head is the working tree, ``base`` a copy of the base.

    ``tip`` is the base branch's own commit, whose pack judges, ``fork`` the commit that the pull
    request started from, which it is compared with; ``judge`` is a copy of the former.
    """

    root: Path
    base: Path
    judge: Path
    tip: str
    fork: str

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Files that differ, those that git does not know yet included."""
        listed = git(self.root, "diff", "--name-only", "-z", "--no-renames", self.fork)
        new = git(self.root, "ls-files", "-z", "--others", "--exclude-standard")
        names = {name for name in (listed + new).decode(errors="replace").split("\0") if name}
        return tuple(sorted(names))

    @cached_property
    def stacks(self) -> tuple[str, ...]:
        """Files of the head's stacks, those that git does not know yet included."""
        words = ("--cached", "--others", "--exclude-standard", "--", ":(glob)**/Pulumi.*.yaml")
        names = git(self.root, "ls-files", "-z", *words).decode(errors="replace").split("\0")
        return tuple(n for n in sorted(filter(None, names)) if not n.startswith(ASIDE))

    def text(self, name: str, *, head: bool) -> str | None:
        """Return a file's text on one side; None if it is not there, or too large to read."""
        path = (self.root if head else self.base) / name
        try:
            if path.stat().st_size > _BYTES:
                return None
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def texts(self, name: str) -> tuple[str | None, str | None]:
        """Return the base's text of a file, by the name that it had there, and its own."""
        return self.text(self.renamed.get(name, name), head=False), self.text(name, head=True)

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """Names of new files, and of those that are gone and whose lines they have."""
        sides = [{n: self.text(n, head=head) for n in self.changed} for head in (False, True)]
        gone, new = (
            {n: Counter(t.splitlines()) for n, t in of.items() if t and other[n] is None}
            for of, other in (sides, sides[::-1])
        )
        results: dict[str, str] = {}
        for name, lines in new.items():
            suffix = PurePath(name).suffix
            same = {
                n: 2 * (lines & was).total() / (lines.total() + was.total())
                for n, was in gone.items()
                if PurePath(n).suffix == suffix
            }
            if same and same[old := max(same, key=lambda n: same[n])] >= _ALIKE:
                results[name] = old
        return results

    @cached_property
    def large(self) -> tuple[str, ...]:
        """Changed files that are not read, because one of their sides is too large."""
        return tuple(
            name
            for name in self.changed
            if any(
                path.is_file() and path.stat().st_size > _BYTES
                for path in (self.base / name, self.root / name)
            )
        )

    @cached_property
    def _known(self) -> dict[str, list[Hunk]]:
        return {}

    def hunks(self, name: str) -> list[Hunk]:
        """Return what was changed in a file; nothing of one that has no lines, such as a wheel."""
        if name not in self._known:
            self._known[name] = self._compared(name)
        return self._known[name]

    def added(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield (line, text) of the lines that a file has newly."""
        for hunk in self.hunks(name):
            yield from enumerate(hunk.after, hunk.line)

    def at(self, name: str, words: Sequence[str] = ()) -> Place | None:
        """Return the first changed line that has the first of the words which any has.

        Without one it is the first change; where ``name`` did not change, of the first that did.
        """
        name = name if name in self.changed else self.changed[0]
        hunks = self.hunks(name)
        for word in words:
            pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])|--{re.escape(word)}\b")
            for hunk in hunks:
                lines = [n for n, text in enumerate(hunk.after, hunk.line) if pattern.search(text)]
                if lines or any(map(pattern.search, hunk.before)):
                    return Place(file=name, line=next(iter(lines), hunk.line))
        return Place(file=name, line=hunks[0].line) if hunks else None

    def _compared(self, name: str) -> list[Hunk]:
        texts = [text or "" for text in self.texts(name)]
        if any("\0" in text for text in texts):
            return []
        before, after = (text.splitlines() for text in texts)
        return [
            Hunk(
                line=min(j1 + 1, max(len(after), 1)),
                before=tuple(before[i1:i2]),
                after=tuple(after[j1:j2]),
                was=i1 + 1,
            )
            for i1, i2, j1, j2 in _ranges(before, after)
        ]


def _ranges(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield which lines became which, each as a half-open range that counts from 0."""
    if len(before) + len(after) <= _LINES:
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        for tag, *ends in matcher.get_opcodes():
            if tag != "equal":
                yield ends[0], ends[1], ends[2], ends[3]
        return
    with tempfile.TemporaryDirectory(prefix="railhead-diff-") as folder:
        for name, lines in (("before", before), ("after", after)):
            text = "".join(f"{line}\n" for line in lines)
            (Path(folder) / name).write_text(text, encoding="utf-8", errors="replace")
        # It exits 1 where files differ. The options come before a user's configuration.
        words = ["git", "diff", "--no-index", "--text", "--no-color", "--no-ext-diff"]
        words += ["--no-textconv", "-U0", "--inter-hunk-context=0", "--", "before", "after"]
        done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    for ranges in _RANGES.finditer(done.stdout.decode(errors="replace")):
        first, count, other, others = (int(n) if n else 1 for n in ranges.groups())
        # git names the line above where one side has none.
        start, to = first - (count > 0), other - (others > 0)
        yield start, start + count, to, to + others


def sources(root: Path, base: str, folder: Path) -> Sources:
    """Lay out the base of a pull request in ``folder``, which is empty.

    Raises:
        InputError: the base is not known here, or has no commit in common with the head.
    """
    tip = git(root, "rev-parse", "--verify", f"{base}^{{commit}}").decode().strip()
    fork = git(root, "merge-base", tip, "HEAD").decode().strip()
    laid = _laid(root, fork, folder / "base")
    judge = laid if tip == fork else _laid(root, tip, folder / "judge")
    return Sources(root=root, base=laid, judge=judge, tip=tip, fork=fork)


def _laid(root: Path, commit: str, folder: Path) -> Path:
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(git(root, "archive", commit))) as archive:
        # An attribute, since the argument is newer than Debian 12's Python, 3.11.2.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(folder)  # noqa: S202, git made it of its own tree
    return folder
