"""Diaries that the program really printed: PyTorch 2.15 and gloo, two agents of two ranks each.

Whatever ended one agent ended both, and both were started again, as a JobSet does. Here the lines
are read as the check reads them; pods and the JobSet's count are as they would have been.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.accept.record import Row
from railhead.accept.training import (
    Harm,
    LogLine,
    Trained,
    attempts,
    broken,
    diary,
    losses,
    unbroken,
)

RECORDED = Path(__file__).parent / "recorded" / "restart.txt"
HARMS = {
    "whole": (),
    "broken": (Harm(kind="kill", step=6), Harm(kind="launcher", step=10)),
    "hung": (Harm(kind="hang", step=6),),
}


def printed(name: str) -> tuple[LogLine, ...]:
    """Return the output of a job's last attempt."""
    parts = RECORDED.read_text().split("# ")
    (mine,) = [part for part in parts if part.startswith(f"{name}\n")]
    return tuple(LogLine(t=0, node=0, text=line) for line in mine.splitlines()[1:])


def job(name: str) -> Trained:
    """Return the job as the check has it."""
    harms, last = HARMS[name], printed(name)
    live: list[LogLine] = []
    for line in diary(last):
        if line.startswith("begin") and live:
            harm = harms[sum("harm" in item.text for item in live)]
            text = f"restart: harm kind={harm.kind} step={harm.step}"
            live.append(LogLine(t=len(live) + 1, node=0, text=text))
        live.append(LogLine(t=len(live) + 1, node=0, text=f"restart: {line}"))
    rows = [
        Row(
            t=1, rv=10 * turn + index, kind="pod", event="ADDED", gang=name, pod=f"{turn}-{index}"
        ).model_copy(update={"uid": f"{turn}-{index}", "index": index, "node": "n"})
        for turn in range(1, len(harms) + 2)
        for index in range(2)
    ]
    return Trained(
        name=name,
        nodes=2,
        steps=14,
        every=4,
        harms=harms,
        phase="completed",
        restarts=len(harms),
        rows=tuple(rows),
        live=tuple(live),
        last=last,
    )


@pytest.mark.parametrize(("name", "resumed"), [("broken", [4, 8]), ("hung", [4])])
def test_recorded_losses_agree_to_the_last_digit(name: str, resumed: list[int]) -> None:
    first = unbroken(job("whole"))
    assert (first.wrong, first.lacking) == ([], [])
    curve = losses(first.attempts)
    assert sorted(curve) == list(range(1, 15))
    shown = broken(job(name), curve)
    assert (shown.wrong, shown.lacking) == ([], [])
    assert [came.resumed for came in shown.came] == resumed
    assert [came.lost for came in shown.came] == [2] * len(resumed)


@pytest.mark.parametrize("step", range(1, 15))
def test_one_digit_of_any_step_is_seen(step: int) -> None:
    curve = losses(attempts(diary(printed("whole"))))
    last = curve[step][-1]
    spoilt = curve | {step: curve[step][:-1] + ("1" if last != "1" else "2")}
    assert broken(job("broken"), spoilt).wrong


@pytest.mark.parametrize("kept", range(27))
def test_truncated_diary_proves_nothing(kept: int) -> None:
    curve = losses(attempts(diary(printed("whole"))))
    whole = job("broken")
    assert len(whole.last) == 27
    cut = whole.model_copy(update={"last": whole.last[:kept]})
    assert broken(cut, curve).lacking
