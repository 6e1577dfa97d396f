"""What took how long: the stages of `make test`, and the files of each whose tests took longest.

``tools/times.py STAGE SECONDS`` notes a stage that has ended and shows it; without arguments
it shows all that were noted. The tests' own times are read from pytest's JUnit XML of that name.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
REPORTS = REPO / "build" / "reports"
SLOWEST = 15
# Characters of why a test failed.
REASON = 300


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of `make test`.

    Args:
        name: the make target's.
        seconds: what it took, all in all.
        outcomes: tests by ``passed``, ``failed`` (errors too) and ``skipped`` (expected failures
            too); empty for a stage without tests.
        files: seconds of each file's tests, with their fixtures.
        failed: the tests that failed, each with the last line of its reason.
    """

    name: str
    seconds: float
    outcomes: Counter[str]
    files: Mapping[str, float]
    failed: Sequence[str] = ()


def read(reports: Path, name: str) -> Stage:
    """A stage that was noted in ``reports``."""
    noted = json.loads((reports / f"{name}.json").read_text())
    outcomes: Counter[str] = Counter()
    files: defaultdict[str, float] = defaultdict(float)
    reasons: list[str] = []
    xml = reports / f"{name}.xml"
    if xml.exists():
        for case in ElementTree.parse(xml).iter("testcase"):  # noqa: S314 - written by our own run
            found = {child.tag for child in case}
            failed = found & {"failure", "error"}
            reasons += [_reason(case, child) for child in case if child.tag in failed]
            outcomes["failed" if failed else "skipped" if "skipped" in found else "passed"] += 1
            files[_file(case.get("classname", ""))] += float(case.get("time", 0))
    return Stage(
        name=name, seconds=noted["seconds"], outcomes=outcomes, files=files, failed=reasons
    )


def _reason(case: ElementTree.Element, verdict: ElementTree.Element) -> str:
    """One line: the test, and what it failed with."""
    message = " ".join((verdict.get("message") or verdict.tag).split())
    name = f"{_file(case.get('classname', ''))}::{case.get('name')}"
    return f"{name}: {message[:REASON]}"


def _file(classname: str) -> str:
    """``tests.unit.test_x.TestY`` is in ``tests/unit/test_x.py``."""
    words = classname.split(".")
    last = max((i for i, word in enumerate(words) if word.startswith("test_")), default=-1)
    return "/".join(words[: last + 1]) + ".py" if last >= 0 else classname


def stages(reports: Path) -> list[Stage]:
    """All stages that were noted, in the order in which they ended."""
    noted = sorted(reports.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [read(reports, path.stem) for path in noted]


def table(shown: Iterable[Stage]) -> str:
    """The stages with their tests and seconds, and the slowest files of all of them."""
    listed = list(shown)
    lines = [f"{'stage':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]

    def line(name: str, outcomes: Counter[str], seconds: float) -> str:
        counts = (outcomes["passed"], outcomes["failed"], outcomes["skipped"])
        told = [str(count) if outcomes else "" for count in counts]
        return f"{name:<14}{told[0]:>8}{told[1]:>8}{told[2]:>9}{seconds:>9.0f}"

    lines += [line(stage.name, stage.outcomes, stage.seconds) for stage in listed]
    files = [
        (took, f"{file} ({stage.name})") for stage in listed for file, took in stage.files.items()
    ]
    if len(listed) > 1:
        every: Counter[str] = Counter()
        for stage in listed:
            every.update(stage.outcomes)
        lines.append(line("all", every, sum(stage.seconds for stage in listed)))
    if files:
        lines += ["", "slowest files, in seconds of their tests:"]
        lines += [f"{took:>8.1f}  {name}" for took, name in sorted(files)[: -SLOWEST - 1 : -1]]
    # Last, because the end of an output is what people are shown.
    if failed := [reason for stage in listed for reason in stage.failed]:
        lines += ["", "failed:", *(f"  {reason}" for reason in failed)]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Note and show one stage, or show all."""
    if not arguments:
        print(table(stages(REPORTS)))
        return
    name, seconds = arguments
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"{name}.json").write_text(json.dumps({"seconds": float(seconds)}))
    print("\n" + table([read(REPORTS, name)]))


if __name__ == "__main__":
    main(sys.argv[1:])
