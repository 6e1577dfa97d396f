"""Runs a command line: an error is printed as a sentence and a remedy, no traceback."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from railhead.base.errors import ExitCode, RailheadError

#: What is shown of an error: lines, and characters of each.
HIGH, WIDE = 60, 1000


def run(app: typer.Typer, words: Sequence[str], *, name: str) -> int:
    """Run a command line and return its exit code.

    Args:
        app: the application that parses the words.
        words: without the program's name.
        name: the program's.
    """
    if os.environ.get(f"_{name.replace('-', '_').upper()}_COMPLETE"):
        # A shell asks for completions, whose classes typer adds only with its own options.
        from typer._completion_classes import completion_init

        completion_init()
    command = typer.main.get_command(app)
    _flow(command)
    try:
        command(args=list(words), prog_name=name)
    except RailheadError as error:
        typer.echo(f"error: {screen(error.problem)}", err=True)
        if error.remedy:
            typer.echo(f"  fix: {screen(error.remedy)}", err=True)
        return int(error.exit_code)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ExitCode.OK)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK)


def _flow(command: Any) -> None:
    """Let each paragraph of a command's help fill the terminal's width, and of those below it.

    Typer keeps the breaks that its lines have in the source, except in the first paragraph
    (0.29.2, typer/rich_utils.py, _fix_linebreaks).
    """
    if command.help:
        command.help = "\n\n".join(map(flowing, inspect.cleandoc(command.help).split("\n\n")))
    for below in getattr(command, "commands", {}).values():
        _flow(below)


def flowing(paragraph: str) -> str:
    r"""Return a paragraph as one line; as it is if it is a list, or marked as fixed text.

    >>> flowing("one\ntwo"), flowing("\b\nkept"), flowing("a:\n  - b")
    ('one two', '\x08\nkept', 'a:\n  - b')
    """
    fixed = paragraph.startswith("\b") or "\n " in paragraph or "\n- " in paragraph
    return paragraph if fixed else paragraph.replace("\n", " ")


def screen(text: str) -> str:
    """Return a text that fits a screen: what follows is counted."""
    lines = text.splitlines()
    shown = [
        line if len(line) <= WIDE else f"{line[:WIDE]}... ({len(line) - WIDE} characters more)"
        for line in lines[:HIGH]
    ]
    return "\n".join([*shown, *([f"... ({len(lines) - HIGH} lines more)"] if lines[HIGH:] else [])])


def end_with(program: Callable[[], int]) -> None:
    """End the process of a console script with the code that ``program`` returns."""
    # Imported modules stay in memory; to search them for garbage, again and again, takes a third of
    # the time of a short command.
    gc.set_threshold(100_000, 20, 20)
    try:
        code = program()
    finally:
        gc.freeze()
    sys.exit(code)
