"""`railhead review` of whole pull requests, on a copy of this checkout, by the real engine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from railhead.review import review as reviewing
from railhead.review.markdown import LIMIT, MARKER, markdown
from railhead.review.side import Side, side
from railhead.review.sources import Sources, git, sources
from tests.engine.controlplane import locate
from tests.engine.review_cases import CASES, Case
from tests.marks import few

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[2]
_FEW = (
    "claim renamed",
    "a loss that the file allows",
    "better image",
    "EFA egress gone",
    "a guard gone",
    "an exemption",
    "an alarm",
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Copy what git would ship of this checkout, and commit it: the base of every case."""
    if locate("pulumi") is None:
        pytest.skip("no pulumi: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    folder = tmp_path_factory.mktemp("review")
    root = folder / "repository"
    listed = git(REPO, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode()
    for name in filter(None, listed.split("\0")):
        source, target = REPO / name, root / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(source.readlink())
            else:
                target.write_bytes(source.read_bytes())
    git(folder, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "base")
    return sources(root, "HEAD", _made(folder / "laid"))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def pulled(checkout: Sources, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    """Yield the copy, for one case; the base's side of a stack is planned once for all cases."""
    monkeypatch.setattr(
        reviewing,
        "_side",
        lambda source, file, *, head: (
            _PLAN(source, file, head=True) if head else _base(checkout.base, file)
        ),
    )
    yield replace(checkout)
    subprocess.run(["git", "-C", str(checkout.root), "checkout", "-q", "."], check=True)


_PLAN = reviewing._side


@cache
def _base(base: Path, file: str) -> Side:
    return side(base / file, code=base, pack_of=None)


def _edited(root: Path, case: Case) -> None:
    for edit in case.edits:
        path = root / edit.file
        text = path.read_text()
        assert edit.old in text, f"{case.name}: {edit.file} has no {edit.old!r}"
        path.write_text(text.replace(edit.old, edit.new) if edit.old else text + edit.new)


@pytest.mark.parametrize("name", few([case.name for case in CASES], list(_FEW)))
def test_pull_request_gets_its_verdict(name: str, pulled: Sources) -> None:
    case = next(case for case in CASES if case.name == name)
    _edited(pulled.root, case)
    result = reviewing.review(
        pulled,
        "main",
        [f"stacks/Pulumi.{case.stack}.yaml"],
        reviewing.Options(),
        time.monotonic(),
    )
    text = markdown(result)
    assert result.verdict in case.verdict, text
    assert case.says in text
    assert text.startswith(MARKER)
    assert len(text) < LIMIT
    assert "**Not looked at:**" in text
    changed = {edit.file for edit in case.edits}
    for finding in result.findings:
        assert finding.place is None or finding.place.file in {*changed, result.stacks[0].file}
