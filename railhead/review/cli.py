"""`railhead review`: what a pull request would lose, for those who decide whether to merge it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from railhead.base.options import Json


def review(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STACK",
            help="Stacks' names or files. Default: those that the pull request changes.",
        ),
    ] = None,
    base: Annotated[
        str, typer.Option(metavar="REF", help="The branch that the pull request goes to.")
    ] = "origin/main",
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the comment, at most 65,536 characters."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the comment, however long.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit's XML.")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Pass what a second reviewer has looked at: `judges`, a change of who judges, "
            "or `unjudged`, what could not be judged. Repeatable.",
        ),
    ] = None,
    as_json: Json = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of --json, and end.")
    ] = False,
) -> None:
    """Say what a pull request would lose: data, jobs, quota, capacity, guards, rights.

    Plans each changed stack twice, as the base branch has it and as the working tree does, and
    compares. Needs no credentials. The base branch's policy pack judges.

    Exits 0 when nothing is refused, 6 when something is, 9 when something could not be judged,
    3 for a base that is not known here, 4 without `git`.

    Example: [bold]railhead review --base HEAD[/bold]
    """
    import tempfile
    import time

    from railhead.base.errors import ExitCode, InputError
    from railhead.config.files import stack_file, stack_files
    from railhead.review.formats import junit as as_junit
    from railhead.review.formats import sarif as as_sarif
    from railhead.review.markdown import cut
    from railhead.review.markdown import markdown as as_markdown
    from railhead.review.model import Review
    from railhead.review.review import Options, stacks_of
    from railhead.review.review import review as reviewed
    from railhead.review.sources import git, sources

    if schema:
        typer.echo(json.dumps(Review.model_json_schema(), indent=2))
        return
    if unknown := sorted(set(allow or ()) - {"judges", "unjudged"}):
        raise InputError(
            f"--allow {unknown[0]}: nothing of that name can be allowed",
            remedy="write `--allow judges` or `--allow unjudged`",
        )
    started = time.monotonic()
    root = Path(git(Path.cwd(), "rev-parse", "--show-toplevel").decode().strip())

    def below(path: Path) -> str:
        return str(path.absolute().relative_to(root))

    with tempfile.TemporaryDirectory(prefix="railhead-review-") as folder:
        source = sources(root, base, Path(folder))
        if stacks:
            files = [below(stack_file(stack)) for stack in stacks]
        else:
            files = stacks_of(source, [below(file) for file in stack_files()])
        allowed = set(allow or ())
        options = Options(judges="judges" in allowed, unjudged="unjudged" in allowed)
        result = reviewed(source, base, files, options, started)
    text = as_markdown(result)
    for path, content in (
        (markdown, cut(text)),
        (report, text),
        (sarif, json.dumps(as_sarif(result), indent=2) + "\n"),
        (junit, as_junit(result)),
    ):
        if path is not None:
            path.write_text(content, encoding="utf-8")
    typer.echo(result.model_dump_json() if as_json else text, nl=as_json)
    code = {"refused": ExitCode.REFUSED, "unjudged": ExitCode.UNPROVEN}
    raise typer.Exit(code.get(result.verdict, ExitCode.OK))


def register(root: typer.Typer) -> None:
    """Add the command to the root application."""
    root.command()(review)
