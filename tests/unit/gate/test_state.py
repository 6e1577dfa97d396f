"""Tests of the label and the report that findings lead to."""

from __future__ import annotations

import json

from railhead.base.finding import Finding
from railhead.gate.state import ANNOTATION, FAILED, LABEL, READY, Gate, label_before, report

GOOD = Finding(name="a", passed=True, text="up")
BAD = Finding(name="b", passed=False, text="down", remedy="mend it")
HELD = Finding(name="c", passed=None, text="absent: a pod may have it")


def test_a_new_node_is_ready_at_the_first_good_look() -> None:
    assert Gate().decide([GOOD], None) == READY


def test_no_findings_prove_nothing() -> None:
    for label in (None, READY, FAILED):
        assert Gate().decide((), label) == FAILED


def test_it_fails_at_once_and_settles_before_it_is_ready_again() -> None:
    gate = Gate()
    states = [
        gate.decide(findings, None)
        for findings in ([GOOD], [GOOD, BAD], [GOOD], [GOOD], [BAD], [GOOD], [GOOD], [GOOD], [GOOD])
    ]
    assert states == [READY, FAILED, FAILED, FAILED, FAILED, FAILED, FAILED, READY, READY]


def test_held_devices_keep_the_nodes_label() -> None:
    gate = Gate()
    assert gate.decide([GOOD, HELD], READY) == READY
    assert gate.decide([GOOD, HELD], FAILED) == FAILED
    assert gate.decide([GOOD, HELD], None) == FAILED
    assert gate.decide([HELD, BAD], READY) == FAILED


def test_the_report_says_what_is_open_and_how_to_mend_it() -> None:
    written = json.loads(report([GOOD, BAD, HELD], "2026-11-21T09:00:00Z", ""))
    assert written == {
        "since": "2026-11-21T09:00:00Z",
        "open": [
            {"name": "b", "verdict": "failed", "text": "down", "remedy": "mend it"},
            {"name": "c", "verdict": "held", "text": "absent: a pod may have it"},
        ],
    }


def test_rollout_does_not_fail_a_node_with_nics_off() -> None:
    """Mode host-device gives NICs back switched off: nothing can be proven until the next pod."""
    ended = {ANNOTATION: report((), "2026-11-21T09:00:00Z", "the gate has ended", READY)}
    assert Gate().decide([HELD], label_before({}, ended)) == READY
    assert Gate().decide([BAD], label_before({}, ended)) == FAILED
    failed = {ANNOTATION: report((), "2026-11-21T09:00:00Z", "the gate has ended", FAILED)}
    assert Gate().decide([HELD], label_before({}, failed)) == FAILED
    assert Gate().decide([HELD], label_before({LABEL: FAILED}, ended)) == FAILED
    for live in ({}, {ANNOTATION: "not JSON"}, {ANNOTATION: '{"was": "proven"}'}):
        assert Gate().decide([HELD], label_before({}, live)) == FAILED
