"""A pull request in a repository of its own: what its base and its head have."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from railhead.review.sources import Sources, sources


def git_in(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def laid(repository: Path, base: str = "HEAD") -> Sources:
    """Lay out the base of a pull request beside its repository."""
    folder = repository.parent / "laid"
    folder.mkdir()
    return sources(repository, base, folder)


def gone(repository: Path, name: str, text: str) -> Sources:
    """Lay out a pull request that removes a file."""
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git_in(repository, "add", ".")
    git_in(repository, "commit", "-q", "-m", name)
    path.unlink()
    return laid(repository)


def write(source: Sources, name: str, before: str | None, after: str) -> Sources:
    """Write a file as base and head have it, and return the pull request that changes it."""
    for top, text in ((source.base, before), (source.root, after)):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).unlink(missing_ok=True)
        if text is not None:
            (top / name).write_text(text)
    return replace(source)
