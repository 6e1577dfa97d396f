"""The help of commands, as a terminal shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from railhead import cli
from railhead.base import running


def commands(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", {})
    if not below:
        yield name, command
    for word, each in below.items():
        yield from commands(each, (*name, word))


ALL = dict(commands(typer.main.get_command(cli.everything())))


def test_paragraphs_fill_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["launch", "--help"]) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert (
        "Everything is checked first: a mistake in the file, more nodes than the cluster has, a "
        "name that is taken are refused before anything is created." in shown
    )
    # A job file keeps its lines.
    assert "gpus_per_node: 8" in shown


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_no_bracket_or_ellipsis_stands_twice(name: tuple[str, ...]) -> None:
    command = ALL[name]
    pieces = command.collect_usage_pieces(
        command.make_context(name[-1], [], resilient_parsing=True)
    )
    assert not [piece for piece in pieces if "[[" in piece.replace("[[LOCAL", "[LOCAL")]
    assert not [piece for piece in pieces if piece.count("...") > 1]


def test_lists_and_fixed_text_keep_their_lines() -> None:
    for kept in ("\b\na\nb", "a:\n  - b", "a:\n- b"):
        assert running.flowing(kept) == kept
    assert running.flowing("with\n--force it") == "with --force it"
