"""Tests of how much room a recurring window leaves GKE for maintenance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from railhead.platform.gcp.maintenance import LEAST, ROLLING, availability, frequency

SATURDAY = datetime(2026, 11, 28, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("recurrence", "window", "room"),
    [
        ("FREQ=WEEKLY;BYDAY=SA", 8, 32),
        ("FREQ=WEEKLY", 8, 32),
        ("FREQ=WEEKLY;BYDAY=SA,SU", 8, 64),
        ("FREQ=WEEKLY;BYDAY=SA", 12, 48),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SA,SU", 8, 32),
        ("FREQ=DAILY", 4, 128),
        ("FREQ=DAILY;INTERVAL=3", 4, 40),
        ("FREQ=DAILY;INTERVAL=60", 12, 0),
        # Shorter than what counts at all.
        ("FREQ=DAILY", 3, 0),
        # One that never closes.
        ("FREQ=DAILY", 24, 32 * 24),
        ("rrule:freq=weekly;byday=sa,su", 8, 64),
    ],
)
def test_the_least_room_in_32_days(recurrence: str, window: int, room: int) -> None:
    end = SATURDAY + timedelta(hours=window)
    assert availability(SATURDAY, end, recurrence) == timedelta(hours=room)


@pytest.mark.parametrize(
    "recurrence",
    ["FREQ=MONTHLY;BYSETPOS=1;BYDAY=SA,SU", "FREQ=DAILY;COUNT=3", "FREQ=WEEKLY;BYDAY=XX", "x", ""],
)
def test_a_rule_that_is_not_read_is_not_judged(recurrence: str) -> None:
    assert availability(SATURDAY, SATURDAY + timedelta(hours=8), recurrence) is None


def test_a_frequency_is_read_whatever_the_case() -> None:
    assert frequency("RRULE:freq=Hourly") == "HOURLY"
    assert frequency("BYDAY=SA") == ""
    assert LEAST < ROLLING
