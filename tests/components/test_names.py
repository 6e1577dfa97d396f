"""Physical names: what every cloud takes, whatever a stack calls its things."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.base.names import physical_name

RFC1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
ANY = st.lists(st.text(max_size=80), min_size=1, max_size=4)
LEGAL = st.from_regex(r"[a-z]([a-z0-9]|-(?=[a-z0-9])){0,62}", fullmatch=True)


@given(ANY, st.integers(8, 70))
def test_a_name_is_one_that_clouds_take(parts: list[str], limit: int) -> None:
    name = physical_name(*parts, limit=limit)
    assert len(name) <= limit
    assert RFC1035.fullmatch(name)
    assert name == physical_name(*parts, limit=limit)


@given(LEGAL, LEGAL)
def test_a_name_that_fits_is_as_it_was(cluster: str, what: str) -> None:
    assert physical_name(cluster, what, limit=130) == f"{cluster}-{what}"


@given(LEGAL, st.integers(8, 40))
def test_names_that_are_cut_alike_differ(cluster: str, limit: int) -> None:
    long = cluster + "x" * 60
    assert physical_name(long, "a", limit=limit) != physical_name(long, "b", limit=limit)


def test_different_names_stay_different() -> None:
    assert physical_name("0") != physical_name("r0")
    assert physical_name("A_b") != physical_name("a-b")
    assert physical_name("a--b") != physical_name("a-b")


def test_no_room_for_the_digits() -> None:
    with pytest.raises(ValueError, match="7 characters"):
        physical_name("a", limit=7)
