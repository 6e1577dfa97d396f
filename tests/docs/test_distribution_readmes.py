"""Each distribution's README begins with its purpose and with commands that exist."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer.main

from railhead.diagnose.cli import app
from tests.docs import commands
from tests.wheels import FOLDERS, REPO


@pytest.mark.parametrize("name", FOLDERS)
def test_a_readme_begins_with_its_purpose(name: str) -> None:
    text = (FOLDERS[name] / "README.md").read_text()
    title, purpose, *_ = text.split("\n\n")
    assert title.lower() == f"# {name}"
    assert len(purpose.split()) > 20


@pytest.mark.parametrize("name", FOLDERS)
def test_a_readme_shows_commands_that_exist(name: str) -> None:
    page = FOLDERS[name].joinpath("README.md").relative_to(REPO)
    shown = list(commands.commands(REPO, page))
    assert shown, f"{page} shows no command"
    for command in shown:
        assert _problem(command.text) is None, command


def _problem(text: str) -> str | None:
    program, *words = shlex.split(text)
    if program != "railhead-diagnose":
        return commands.check(text, REPO)
    typer.main.get_command(app).make_context(program, words).close()
    return None


def test_links_work_without_the_repository() -> None:
    """A package index shows the page alone."""
    for folder in (REPO / "distributions").iterdir():
        assert "](" not in Path(folder / "README.md").read_text(), folder.name
