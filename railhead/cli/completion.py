"""`railhead completion`: what a shell reads to complete commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> None:
    """Print the lines by which a shell completes commands and options.

    Add them to ~/.bashrc or ~/.zshrc, or to ~/.config/fish/completions/railhead.fish.

    Example: [bold]railhead completion bash[/bold]
    """
    from typer._completion_shared import get_completion_script

    typer.echo(
        get_completion_script(prog_name="railhead", complete_var="_RAILHEAD_COMPLETE", shell=shell)
    )
