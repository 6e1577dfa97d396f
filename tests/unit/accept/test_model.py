"""Reports that are accepted, and those that only look so."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from railhead.accept.model import Report, Result, Verdict
from tests.unit.accept.reports import NAMES, report, result, waiver

REST = tuple(result(name) for name in NAMES[1:])
WAIVED = result("rdma", Verdict.FAILED, waiver=waiver("rdma"))


def at(*checks: Result, year: int = 2026) -> Report:
    moment = datetime(year, 3, 1, tzinfo=UTC)
    return report(*checks, begun=moment, ended=moment)


@pytest.mark.parametrize(
    ("found", "accepted"),
    [
        (at(result("rdma"), *REST), True),
        (at(WAIVED, *REST), True),
        (at(*REST), False),
        (at(result("rdma", Verdict.FAILED), *REST), False),
        (at(result("rdma", Verdict.NOT_PROVEN), *REST), False),
        # A waiver that has ended, and one of another promise.
        (at(WAIVED, *REST, year=2027), False),
        (at(result("rdma", Verdict.FAILED, waiver=waiver("gangs")), *REST), False),
        # What passed needs no waiver, so one that has ended does no harm.
        (at(result("rdma", waiver=waiver("rdma")), *REST, year=2027), True),
        # What passed hides neither another result of the same promise nor one nobody asked.
        (at(result("rdma", Verdict.FAILED), result("rdma"), *REST), False),
        (at(result("rdma"), result("rdma", Verdict.FAILED), *REST), False),
        (at(result("rdma"), *REST, result("own", Verdict.FAILED)), False),
    ],
)
def test_accepted_models(found: Report, accepted: bool) -> None:
    assert found.accepted is accepted
