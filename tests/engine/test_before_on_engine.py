"""A cluster that an earlier version made: the present one changes what is listed, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.components.recording import STACKS
from tests.engine.before_states import (
    UNEXPLAINED,
    expected_file,
    operations,
    read_expected,
    write_expected,
)
from tests.marks import few

USUAL = ("lab", "aws-p5-prod")


@pytest.mark.slow
@pytest.mark.parametrize("stack", few(STACKS, USUAL))
def test_what_was_made_before_changes_as_listed(stack: str, tmp_path: Path) -> None:
    expected = read_expected(expected_file(stack).read_text())
    result = operations(stack, tmp_path)
    assert result == sorted(expected), "python -m tests.engine.before_states rewrites the list"


@pytest.mark.parametrize("stack", STACKS)
def test_every_listed_change_says_why(stack: str) -> None:
    for line, why in read_expected(expected_file(stack).read_text()).items():
        assert why not in ("", UNEXPLAINED), f"{line}: a comment line above says why"


def test_a_list_keeps_its_comments_and_sets_what_is_new_apart() -> None:
    before = read_expected("# b goes\ndelete t b\n\n# a is mended\nupdate t a\nupdate t c\n")
    assert write_expected(["update t c", "create t d", "update t a"], before) == (
        "# a is mended\nupdate t a\nupdate t c\n\n# why?\ncreate t d\n"
    )
    assert write_expected([], before) == ""
