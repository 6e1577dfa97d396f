"""The documentation's commands, run on a lab in the order in which a reader meets them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import commands

REPO = Path(__file__).resolve().parents[2]
COMMANDS = [
    command
    for page in commands.pages(REPO)
    for command in commands.commands(REPO, page)
    if command.run == "lab"
]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_shown_command(
    command: commands.Command, lab_env: dict[str, str], running_lab: str
) -> None:
    """A reader's shell, but for the lab's name: the tests' lab is not the reader's."""
    text = re.sub(r"railhead lab (\w+)", rf"railhead lab \1 --name {running_lab}", command.text)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=REPO,
        env=lab_env | {"PATH": f"{Path(sys.executable).parent}:{lab_env['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == command.exits, done.stdout + done.stderr
