"""Keys, publication, the build lock and the free space."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.base.errors import PrerequisiteError
from railhead.lab.artifacts import files

texts = st.lists(st.text(max_size=5), max_size=4)


@given(texts, texts)
def test_digest_tells_different_parts_apart(one: list[str], other: list[str]) -> None:
    assert (files.digest(*one) == files.digest(*other)) == (one == other)


def test_tree_digest_sees_names_contents_and_nothing_else(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a" / "main.go").write_text("package main")
    before = files.tree_digest(tree, "*.go")
    (tree / "a" / "notes.txt").write_text("no source")
    assert files.tree_digest(tree, "*.go") == before
    (tree / "a" / "main.go").write_text("package main // changed")
    changed = files.tree_digest(tree, "*.go")
    (tree / "a" / "main.go").rename(tree / "a" / "other.go")
    assert len({before, changed, files.tree_digest(tree, "*.go")}) == 3


def test_scratch_goes_after_errors_and_hides_once_published(cache: Path) -> None:
    def fail() -> None:
        with files.scratch("part") as work:
            (work / "half").write_text("made")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        fail()
    assert list((cache / "tmp").iterdir()) == []
    with files.scratch("part") as work:
        (work / "whole").write_text("new")
        files.publish(work, cache / "done")
    assert (cache / "done" / "whole").read_text() == "new"
    assert list((cache / "tmp").iterdir()) == []


def test_publish_replaces_what_was_there(cache: Path) -> None:
    for content in ("old", "new"):
        with files.scratch("part") as work:
            (work / content).touch()
            files.publish(work, cache / "done")
    assert [p.name for p in (cache / "done").iterdir()] == ["new"]


def test_sweep_removes_what_a_killed_build_left(cache: Path) -> None:
    left = cache / "tmp" / "core-1"
    left.mkdir(parents=True)
    (left / "kubelet").touch()
    files.sweep_scratch()
    assert list((cache / "tmp").iterdir()) == []


_HOLD = """
import sys
from railhead.lab.artifacts.files import building
with building(print):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_is_waited_for_and_freed_by_a_kill(cache: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RAILHEAD_CACHE": str(cache)},
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        waits: list[str] = []

        def on_wait(who: str) -> None:
            waits.append(who)
            holder.kill()

        with files.building(on_wait):
            assert waits == [f"process {holder.pid}"]


def test_too_little_space_names_path_need_and_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 2**30, total=0, used=0)
    )
    files.require_space(tmp_path / "not" / "there", 2.9, "building")
    with pytest.raises(PrerequisiteError) as caught:
        files.require_space(tmp_path / "not" / "there", 8, "building the lab")
    assert f"{tmp_path}/not/there has 3.0 GiB free; building the lab needs 8.0 GiB" in str(
        caught.value
    )
    assert "RAILHEAD_CACHE" in caught.value.remedy


def test_size_counts_a_hard_link_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1_000_000)
    alone = files.size_bytes(tmp_path)
    os.link(tmp_path / "a", tmp_path / "b")
    assert files.size_bytes(tmp_path) == alone >= 1_000_000
