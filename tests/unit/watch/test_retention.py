"""Tests of what is removed from a claim by its age, and above all of what stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from railhead.watch import retention
from railhead.watch.retention import GOING, MARK

DAY = 86400.0


def checkpoint(run: Path, name: str, *, days: float, mark: bool = True) -> Path:
    """Return a checkpoint with a shard, marked so many days ago."""
    path = run / name
    (path / "shards").mkdir(parents=True)
    (path / "shards" / "0").write_bytes(b"x")
    if mark:
        (path / MARK).touch()
        when = time.time() - days * DAY
        os.utime(path / MARK, (when, when))
    return path


def clear(root: Path, *, days: float = 30, keep: int = 2, delete: bool = True) -> int:
    return retention.main(
        [str(root), "--days", str(days), "--keep", str(keep), *(["--delete"] if delete else [])]
    )


def there(root: Path) -> set[str]:
    """Directories two levels down, the checkpoints of each run."""
    return {str(path.relative_to(root)) for path in root.glob("*/*") if path.is_dir()}


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """Two runs: five checkpoints of the first, all but one of them old, and one of the second."""
    for at, days in enumerate((100, 90, 80, 70, 1)):
        checkpoint(tmp_path / "first", f"epoch-{at}", days=days)
    checkpoint(tmp_path / "second", "epoch-0", days=400)
    return tmp_path


def test_newest_checkpoints_of_each_run_stay(claim: Path) -> None:
    assert clear(claim) == 0
    assert there(claim) == {"first/epoch-3", "first/epoch-4", "second/epoch-0"}


def test_young_checkpoints_stay_too(claim: Path) -> None:
    assert clear(claim, days=85, keep=1) == 0
    assert there(claim) == {*(f"first/epoch-{at}" for at in (2, 3, 4)), "second/epoch-0"}


def test_it_says_what_would_go_and_removes_nothing(
    claim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(claim.rglob("*"))
    assert clear(claim, delete=False) == 0
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [item["retention"] for item in reported] == ["would remove"] * 3
    assert [Path(item["path"]).name for item in reported] == ["epoch-0", "epoch-1", "epoch-2"]
    assert sorted(claim.rglob("*")) == before


def test_unmarked_folders_are_neither_removed_nor_counted(claim: Path) -> None:
    """A half-written one is the newest by its number, and none by its mark."""
    checkpoint(claim / "first", "epoch-9", days=0, mark=False)
    checkpoint(claim / "first", "epoch-10", days=500, mark=False)
    (claim / "first" / "latest").write_text("epoch-4")
    assert clear(claim) == 0
    assert there(claim) == {
        *("first/epoch-3", "first/epoch-4", "second/epoch-0", "first/epoch-9", "first/epoch-10")
    }
    assert (claim / "first" / "latest").exists()


def link(claim: Path, outside: Path) -> None:
    (claim / "first" / "epoch-8").symlink_to(outside / "old")


def linked_run(claim: Path, outside: Path) -> None:
    (claim / "third").symlink_to(outside)


def linked_mark(claim: Path, outside: Path) -> None:
    path = checkpoint(claim / "first", "epoch-8", days=0, mark=False)
    (path / MARK).symlink_to(outside / "old" / MARK)


def directory_for_a_mark(claim: Path, _outside: Path) -> None:
    path = checkpoint(claim / "first", "epoch-8", days=0, mark=False)
    (path / MARK).mkdir()


def link_inside(claim: Path, outside: Path) -> None:
    (claim / "first" / "epoch-0" / "shards" / "1").symlink_to(outside, target_is_directory=True)


@pytest.mark.parametrize(
    "trick", [link, linked_run, linked_mark, directory_for_a_mark, link_inside]
)
def test_links_lead_nowhere(
    claim: Path, tmp_path_factory: pytest.TempPathFactory, trick: Callable[[Path, Path], None]
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for at in range(4):
        checkpoint(outside, f"old{at or ''}", days=1000)
    before = sorted(outside.rglob("*"))
    trick(claim, outside)
    assert clear(claim, keep=1) == 0
    assert sorted(outside.rglob("*")) == before
    kept = there(claim)
    assert {"first/epoch-4", "second/epoch-0"} <= kept
    assert ("first/epoch-8" in kept) == (trick not in (linked_run, link_inside))


def test_marked_run_is_not_a_checkpoint(claim: Path) -> None:
    """All runs of the claim would otherwise be one, and all but its newest would go."""
    for name in ("first", "second"):
        (claim / name / MARK).touch()
        os.utime(claim / name / MARK, (0, 0))
    checkpoint(claim / "third", "epoch-0", days=400)
    before = there(claim)
    assert clear(claim, keep=1) == 0
    assert there(claim) == before


def test_names_with_anything_in_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a\nb", "-rf", "$(x)", "\udcff", "n" * 255]
    for at, name in enumerate(names):
        checkpoint(tmp_path / "run", name, days=100 + at)
    checkpoint(tmp_path / "run", "last", days=0)
    assert clear(tmp_path, keep=1) == 0
    assert there(tmp_path) == {"run/last"}
    assert len(capsys.readouterr().out.splitlines()) == len(names), "one line each"


def test_a_mark_from_the_future_is_the_newest(claim: Path) -> None:
    checkpoint(claim / "first", "epoch-7", days=-3650)
    assert clear(claim, keep=1) == 0
    assert there(claim) == {"first/epoch-7", "first/epoch-4", "second/epoch-0"}


def test_a_clock_that_is_days_off_stops_it(
    claim: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = there(claim)
    real = time.time()
    for off in (-3, 3):
        monkeypatch.setattr(time, "time", lambda off=off: real + off * DAY)
        assert clear(claim) == 2
    assert "a day apart" in capsys.readouterr().out
    assert there(claim) == before


def test_checkpoint_that_is_rewritten_meanwhile_stays(
    claim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run begins again, and marks it again, between the look and the removal."""
    real = retention.old

    def then_marked(*arguments: object, **named: object) -> list[retention.Checkpoint]:
        result = real(*arguments, **named)  # type: ignore[arg-type]
        for item in result:
            if item.path.name == "epoch-1":
                (item.path / MARK).touch()
                os.utime(item.path / MARK)
        return result

    monkeypatch.setattr(retention, "old", then_marked)
    assert clear(claim) == 0
    assert there(claim) == {"first/epoch-1", "first/epoch-3", "first/epoch-4", "second/epoch-0"}


def test_checkpoint_that_vanishes_does_not_stop_the_others(
    claim: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Path.rename

    def gone(self: Path, target: Path) -> Path:
        if self.name == "epoch-0":
            raise FileNotFoundError(2, "No such file or directory")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", gone)
    assert clear(claim) == 1
    assert "No such file" in capsys.readouterr().out
    assert there(claim) == {"first/epoch-0", "first/epoch-3", "first/epoch-4", "second/epoch-0"}


def test_an_interrupted_removal_is_finished(claim: Path) -> None:
    begun = claim / "first" / f"{GOING}epoch-x-1"
    (begun / "shards").mkdir(parents=True)
    assert clear(claim, delete=False) == 0
    assert begun.exists()
    assert clear(claim) == 0
    assert not begun.exists()


def test_a_claim_that_cannot_be_written_is_left_alone(
    claim: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    before = there(claim)
    monkeypatch.setattr(os, "open", full)
    assert clear(claim) == 2
    monkeypatch.undo()
    assert "No space left" in capsys.readouterr().out
    assert there(claim) == before


@pytest.mark.parametrize("wrong", [["--keep", "0"], ["--days", "0"], ["--days", "-1"]])
def test_nonsense_removes_nothing(claim: Path, wrong: list[str]) -> None:
    before = there(claim)
    with pytest.raises(SystemExit):
        retention.main([str(claim), "--days", "1", "--keep", "1", "--delete", *wrong])
    assert there(claim) == before


def test_program_runs_from_its_text_alone(claim: Path) -> None:
    """The pod runs it like this: without Railhead's modules, and with nowhere to write to."""
    text = Path(retention.__file__).read_text(encoding="utf-8")
    asked = [sys.executable, "-I", "-c", text, str(claim), "--days", "30", "--keep", "2"]
    done = subprocess.run(asked, cwd="/", env={}, capture_output=True, text=True, check=True)
    assert done.stdout.count("would remove") == 3
