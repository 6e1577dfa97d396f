"""Shows what took how long: the stages of `make test`, and the slowest test files of each.

``tools/times.py STAGE SECONDS`` records a stage that has ended and shows it; without arguments
it shows all that were recorded. The tests' own times are read from pytest's JUnit XML of that name,
and what a second try of the failed ones gave from that of ``STAGE-again``.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
        seconds: how long it took in all.
        outcomes: tests by ``passed``, ``failed`` (errors too), ``skipped`` (expected failures
            too) and ``unsteady``; empty for a stage without tests.
        files: seconds of each file's tests, with their fixtures.
        failed: the tests that failed, each with the last line of its reason.
        unsteady: the tests that failed and then passed when run once more, with their reason.
    """

    name: str
    seconds: float
    outcomes: Counter[str]
    files: Mapping[str, float]
    failed: Sequence[str] = ()
    unsteady: Sequence[str] = ()


def read(reports: Path, name: str) -> Stage:
    """Return a stage that was noted in ``reports``."""
    noted = json.loads((reports / f"{name}.json").read_text())
    outcomes: Counter[str] = Counter()
    files: defaultdict[str, float] = defaultdict(float)
    again = _cases(reports / f"{name}-again.xml")
    reasons: dict[str, list[str]] = {"failed": [], "unsteady": []}
    for key, case in _cases(reports / f"{name}.xml").items():
        second = again.get(key)
        steady = case.outcome != "failed" or second is None or second.outcome != "passed"
        outcome = case.outcome if steady else "unsteady"
        if outcome in reasons:
            reasons[outcome].append(f"{case.file}::{key[1]}: {case.reason}")
        outcomes[outcome] += 1
        files[case.file] += case.seconds
    return Stage(name=name, seconds=noted["seconds"], outcomes=outcomes, files=files, **reasons)


@dataclass(frozen=True, kw_only=True)
class _Case:
    file: str
    outcome: str
    reason: str
    seconds: float


def _cases(xml: Path) -> dict[tuple[str, str], _Case]:
    """Return class and name of each test -> how it went; empty without the file.

    A test that passed and whose fixture did not end well stands there twice, and has failed.
    """
    cases: dict[tuple[str, str], _Case] = {}
    if not xml.exists():
        return cases
    for element in ElementTree.parse(xml).iter("testcase"):  # noqa: S314 - written by our own run
        case = _case(element)
        key = element.get("classname", ""), element.get("name", "")
        before = cases.get(key)
        if before is not None:
            worse = before if before.outcome == "failed" else case
            case = replace(worse, seconds=before.seconds + case.seconds)
        cases[key] = case
    return cases


def _case(element: ElementTree.Element) -> _Case:
    results = {child.tag: child for child in element}
    verdict = results.get("failure", results.get("error"))
    reason = ""
    outcome = "skipped" if "skipped" in results else "passed"
    if verdict is not None:
        outcome = "failed"
        reason = " ".join((verdict.get("message") or verdict.tag).split())[:REASON]
    return _Case(
        file=_file(element.get("classname", "")),
        outcome=outcome,
        reason=reason,
        seconds=float(element.get("time", 0)),
    )


def _file(classname: str) -> str:
    """Return the file of a class: ``tests.unit.test_x.TestY`` is in ``tests/unit/test_x.py``."""
    words = classname.split(".")
    last = max((i for i, word in enumerate(words) if word.startswith("test_")), default=-1)
    return "/".join(words[: last + 1]) + ".py" if last >= 0 else classname


def stages(reports: Path) -> list[Stage]:
    """Return all stages that were noted, in the order in which they ended."""
    noted = sorted(reports.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [read(reports, path.stem) for path in noted]


def table(shown: Iterable[Stage]) -> str:
    """Return the stages with their tests and seconds, and the slowest files of all of them."""
    listed = list(shown)
    columns = ("passed", "failed", "unsteady", "skipped")
    lines = [f"{'stage':<14}" + "".join(f"{name:>9}" for name in (*columns, "seconds"))]

    def line(name: str, outcomes: Counter[str], seconds: float) -> str:
        reported = [str(outcomes[column]) if outcomes else "" for column in columns]
        return f"{name:<14}" + "".join(f"{item:>9}" for item in (*reported, f"{seconds:.0f}"))

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
    if unsteady := [reason for stage in listed for reason in stage.unsteady]:
        lines += ["", "unsteady: failed, and passed when run once more:"]
        lines += [f"  {reason}" for reason in unsteady]
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
