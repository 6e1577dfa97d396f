"""Computes how much room a recurring maintenance window leaves GKE."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

#: GKE documentation, Configure maintenance windows and exclusions: "You must allow at least 48
#: hours of maintenance availability in a 32-day rolling window. Only contiguous availability
#: windows of at least four hours are considered."
LEAST = timedelta(hours=48)
ROLLING = timedelta(days=32)
CONTIGUOUS = timedelta(hours=4)
#: container.v1, RecurringTimeWindow: these are no frequencies of GKE's.
NOT_FREQUENCIES = ("SECONDLY", "MINUTELY", "HOURLY")

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def frequency(recurrence: str) -> str:
    """Return FREQ of an RFC 5545 rule, in capitals; empty if it has none."""
    return _parts(recurrence).get("FREQ", "")


def other_day(start: datetime, recurrence: str) -> str:
    """Return the day of ``start``, which is in UTC, where a rule names days and leaves it out.

    >>> other_day(datetime(2026, 11, 28, 2), "FREQ=WEEKLY;BYDAY=FR")
    'SA'
    """
    named, day = _parts(recurrence).get("BYDAY", ""), _DAYS[start.weekday()]
    return day if named and not any(d.endswith(day) for d in named.split(",")) else ""


def availability(start: datetime, end: datetime, recurrence: str) -> timedelta | None:
    """Return the least that the windows cover in any 32 days; None for a rule it cannot read.

    It reads FREQ=DAILY and FREQ=WEEKLY with BYDAY and INTERVAL.

    >>> saturday = datetime(2026, 11, 28, 2), datetime(2026, 11, 28, 10)
    >>> availability(*saturday, "FREQ=WEEKLY;BYDAY=SA")
    datetime.timedelta(days=1, seconds=28800)
    """
    opens = _opens(start, recurrence)
    if opens is None:
        return None
    windows = list(_merged((at, at + (end - start)) for at in opens))
    # The room is least where a window has just closed, or where one is just about to open.
    begins = [closed for _, closed in windows] + [opened - ROLLING for opened, _ in windows]
    last = windows[-1][0]
    return min(
        (_covered(windows, at) for at in begins if start <= at and at + ROLLING <= last),
        # One window that never closes.
        default=ROLLING,
    )


def _parts(recurrence: str) -> dict[str, str]:
    rule = recurrence.strip().upper().removeprefix("RRULE:")
    return {key: value for key, _, value in (part.partition("=") for part in rule.split(";"))}


def _opens(start: datetime, recurrence: str) -> list[datetime] | None:
    parts = _parts(recurrence)
    kind, every = parts.get("FREQ"), parts.get("INTERVAL", "1")
    days = parts["BYDAY"].split(",") if "BYDAY" in parts else list(_DAYS)
    known = set(parts) <= {"FREQ", "BYDAY", "INTERVAL", "WKST"} and set(days) <= set(_DAYS)
    if kind not in ("DAILY", "WEEKLY") or not known or not every.isdecimal() or every == "0":
        return None
    if kind == "WEEKLY" and "BYDAY" not in parts:
        days = [_DAYS[start.weekday()]]
    step, result = int(every), []
    # Long enough for every phase of the rule: days and weeks together recur after this many.
    for day in range(2 * ROLLING.days + 14 * step):
        at = start + timedelta(days=day)
        turn = day if kind == "DAILY" else (start.weekday() + day) // 7
        if turn % step == 0 and _DAYS[at.weekday()] in days:
            result.append(at)
    return result or None


def _merged(windows: Iterator[tuple[datetime, datetime]]) -> Iterator[tuple[datetime, datetime]]:
    opened, closed = next(windows)
    for begin, end in windows:
        if begin > closed:
            yield opened, closed
            opened = begin
        closed = end
    yield opened, closed


def _covered(windows: list[tuple[datetime, datetime]], at: datetime) -> timedelta:
    pieces = (min(closed, at + ROLLING) - max(opened, at) for opened, closed in windows)
    return sum((piece for piece in pieces if piece >= CONTIGUOUS), timedelta())
