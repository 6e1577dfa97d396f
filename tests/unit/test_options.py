"""Options that a command takes in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from railhead.base.options import Lab, grouped


@dataclass(frozen=True, kw_only=True)
class Size:
    """Nodes and names, as a command line gives them."""

    nodes: Annotated[int, typer.Option("--nodes", "-n")] = 1
    names: Annotated[list[str] | None, typer.Option("--name")] = None


def test_group_gets_its_options_and_the_others_stay() -> None:
    seen: list[tuple[str, Size, str | None]] = []
    app = typer.Typer()

    @app.command()
    @grouped
    def command(word: str, size: Size, lab: Lab = None) -> None:
        seen.append((word, size, lab))

    for line in (["a"], ["a", "--lab", "l", "-n", "2", "--name", "x", "--name", "y"]):
        assert CliRunner().invoke(app, line).exit_code == 0, line
    assert seen == [("a", Size(), None), ("a", Size(nodes=2, names=["x", "y"]), "l")]
    refused = CliRunner().invoke(app, ["a", "--nodes", "many"])
    assert refused.exit_code == 2, refused.output
