"""Waivers: who accepts what unproven, why and until when."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from railhead.accept import waivers
from railhead.base.errors import InputError

NAMES = ("gangs", "rdma")
TODAY = date(2026, 3, 1)


def test_waivers_come_from_command_line_and_file(tmp_path: Path) -> None:
    text = waivers.given(["rdma"], by="Ada", reason="a lab", until="2026-12-31")
    path = tmp_path / "waivers.yaml"
    path.write_text("- {check: rdma, by: Ada, reason: a lab, until: 2026-12-31}\n")
    assert waivers.read(path) == text
    waivers.check(text, NAMES, TODAY)
    path.write_text("")
    assert waivers.read(path) == ()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"by": None}, "--by is missing"),
        ({"reason": " "}, "--reason is missing"),
        ({"until": None}, "--until is missing"),
        ({"until": "soon"}, "until"),
    ],
)
def test_it_says_who_why_and_until_when(fields: dict[str, str | None], says: str) -> None:
    whole: dict[str, str | None] = {"by": "Ada", "reason": "a lab", "until": "2026-12-31"}
    with pytest.raises(InputError, match=says):
        waivers.given(["rdma"], **(whole | fields))


def test_names_without_a_check_waive_nothing() -> None:
    with pytest.raises(InputError, match="nothing is waived"):
        waivers.given([], by="Ada", reason=None, until=None)
    assert waivers.given([], by=None, reason=None, until=None) == ()


@pytest.mark.parametrize(
    "text",
    ["rdma", "{check: rdma}", "- rdma", "- {check: rdma, by: Ada, reason: r}", "- [", "\x00"],
)
def test_file_that_is_not_a_waiver_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "waivers.yaml"
    path.write_text(text)
    with pytest.raises(InputError):
        waivers.read(path)
    with pytest.raises(InputError):
        waivers.read(tmp_path / "none")


def test_waiver_of_nothing_is_refused() -> None:
    item = waivers.given(["rdma"], by="Ada", reason="a lab", until="2026-02-28")
    with pytest.raises(InputError, match="ended on 2026-02-28"):
        waivers.check(item, NAMES, TODAY)
    waivers.check(item, NAMES, date(2026, 2, 28))
    with pytest.raises(InputError, match="given twice"):
        waivers.check(item * 2, NAMES, date(2026, 1, 1))
    with pytest.raises(InputError, match="did you mean 'rdma'"):
        waivers.check(
            waivers.given(["rmda"], by="Ada", reason="r", until="2027-01-01"), NAMES, TODAY
        )
