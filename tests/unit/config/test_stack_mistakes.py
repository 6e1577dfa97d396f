"""Mistakes of every field of every shipped stack are refused or doubted, or pass for a reason."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tools import stack_mistakes

# Of ten thousand; `make exhaustive` takes them all.
EVERY = 37


def judged(step: int) -> tuple[Counter[str], list[str]]:
    ended: Counter[str] = Counter()
    holes = []
    for mistake in list(stack_mistakes.mistakes())[::step]:
        end = stack_mistakes.end(mistake)
        ended[end] += 1
        if end == "passes" and not stack_mistakes.reason(mistake):
            holes.append(f"{mistake.stack}: {mistake.where}: {mistake.kind}")
    return ended, holes


@pytest.mark.slow
def test_every_field_of_every_stack_is_made_wrong() -> None:
    fields = {(m.stack, m.where) for m in stack_mistakes.mistakes()}
    assert {stack for stack, _ in fields} == set(stack_mistakes.stacks())
    assert len(fields) > 600
    assert len(list(stack_mistakes.mistakes())) > 5000


@pytest.mark.exhaustive
@pytest.mark.slow
def test_each_accepted_mistake_has_a_reason() -> None:
    ended, holes = judged(EVERY)
    assert holes == []
    assert ended["refused"] > 0.8 * ended.total()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_accepted_mistake_has_a_reason() -> None:
    ended, holes = judged(1)
    assert holes == []
    assert ended["refused"] > 0.9 * ended.total()


def test_reasons_excuse_only_what_may_be_right() -> None:
    for path, kind, why in stack_mistakes.RIGHTLY:
        assert why
        for never in ("a mapping", "a list", "blank", "an unseen character", "for a shell", "huge"):
            assert not re.fullmatch(kind, never), (path, kind, never)
