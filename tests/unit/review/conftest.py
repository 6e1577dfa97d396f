"""The repository of the pull requests under review."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.review.pulled import git_in


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "policies").mkdir(parents=True)
    (root / "policies" / "exempt.py").write_text('"""A."""\n\nNAMES = ("a",)\n')
    (root / "a.txt").write_text("1\n2\n3\n")
    git_in(tmp_path, "init", "-q", "-b", "main", str(root))
    git_in(root, "add", ".")
    git_in(root, "commit", "-q", "-m", "a")
    return root
