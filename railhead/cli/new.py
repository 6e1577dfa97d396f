"""`railhead new`: a team's own repository, with one stack. Heavy imports are made inside."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from railhead.platform.starter import Starter

# pulumi, sdk/go/common/tokens: what a project's and a stack's name may be.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def new(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Its folder: absent, a project, or empty but for .git, .venv and wheels.",
        ),
    ],
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            metavar="PLATFORM",
            help="Where the cluster is: aws, azure, gcp, lab, metal or oke.",
        ),
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option("--stack", metavar="NAME", help="The stack's and cluster's name."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An answer, such as region=us-west-2 or nodes=16. Repeatable.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing; take defaults for the rest.")
    ] = False,
) -> None:
    """Make a repository of your own: a program, one stack, policies, pins and a CI workflow.

    In a project that exists it adds a stack, and writes nothing else. On a terminal it asks what
    `--set` does not answer; Enter takes the default. The stack is checked before anything is
    written. `railhead config check`, `railhead plan` and `pulumi up` then work in the folder.

    Example: [bold]railhead new clusters --platform aws --set region=us-west-2[/bold]

    Exits 0 when it is written, 3 for an answer that is not possible, a folder that has other files
    or a stack that exists.
    """
    from railhead import config
    from railhead.base.errors import InputError, choices
    from railhead.cli.repository import files, stack_text
    from railhead.config.files import PROJECT_FILE, stack_config_dir
    from railhead.platform.registry import PLATFORMS
    from railhead.platform.starter import starters

    project = folder / PROJECT_FILE
    adds = project.is_file()
    if not adds and folder.exists() and (not folder.is_dir() or any(_others(folder))):
        raise InputError(
            f"{folder}: is there already, and not empty", remedy="name a new folder, or empty it"
        )
    asking = sys.stdin.isatty() and not yes
    known = starters(PLATFORMS)
    names = sorted(known)
    chosen = platform or (_ask(f"where the cluster is ({', '.join(names)})", "") if asking else "")
    if chosen not in known:
        raise InputError(
            f"--platform {chosen!r} is not known{choices(chosen, names)}",
            remedy="name one of them",
        )
    starter = known[chosen]
    name = stack or (_ask("the stack's name", chosen) if asking else chosen)
    answers = _answers(starter, {"name": _named(name, "--stack")}, sets or [], asking)
    section = starter.section(answers)
    path = f"{stack_config_dir(project) if adds else 'stacks'}/Pulumi.{name}.yaml"
    try:
        config.parse(section, where=path)
    except InputError as error:
        remedy = "answer otherwise (`--set KEY=VALUE`); nothing was written"
        raise InputError(error.problem, remedy=remedy) from None
    if (folder / path).exists():
        raise InputError(f"{folder / path}: exists already", remedy="name another by --stack")
    made: Mapping[str, str] = {path: stack_text(starter, section)}
    if not adds:
        made = files(_named(folder.absolute().name.lower(), "DIR"), name, starter, section)
    for path, text in made.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    typer.echo(
        f"wrote {path if adds else f'{len(made)} files'} to {folder}: stack {name} on {chosen}, "
        f"{answers['nodes']} nodes\n"
        f"{_lacking(folder, starter.extra)}"
        f"next: {_entering(folder)}railhead config check && railhead plan {name}"
    )


def _others(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder but for a clone's `.git`, the environment and the wheels."""
    from railhead.cli.repository import WHEELS

    return (path for path in folder.iterdir() if path.name not in (".git", ".venv", WHEELS))


def _lacking(folder: Path, extra: str) -> str:
    """Return a line for what the requirements lack to install a stack's program; empty if none."""
    from railhead.cli.repository import REQUIREMENTS, WHEELS, named

    pins = f"{WHEELS}/requirements-{extra}.txt"
    files = named(folder / REQUIREMENTS)
    # Those of a cloud hold those of `deploy`.
    if pins not in files and not (extra == "deploy" and files):
        return f"{REQUIREMENTS}: add the line `-r {pins}`\n"
    if not (folder / pins).is_file():
        return f"{folder / WHEELS}: copy a release's *.whl and requirements-*.txt into it\n"
    return ""


def _entering(folder: Path) -> str:
    return "" if folder.resolve() == Path.cwd() else f"cd {folder} && "


def _named(name: str, what: str) -> str:
    from railhead.base.errors import InputError

    if not _NAME.fullmatch(name):
        raise InputError(
            f"{what} {name!r} is no name of lower-case letters, digits and hyphens",
            remedy="choose another, such as clusters or p5-prod",
        )
    return name


def _answers(
    starter: Starter, first: Mapping[str, str], sets: list[str], asking: bool
) -> dict[str, str]:
    """Return the answer to each question: given, asked for, or its default."""
    from railhead.base.errors import InputError, choices

    given: dict[str, str] = {}
    keys = [question.key for question in starter.questions]
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or key not in keys:
            raise InputError(
                f"--set {text!r}: {key!r} is no question of {starter.name}{choices(key, keys)}",
                remedy="give KEY=VALUE with one of these keys",
            )
        given[key] = value
    answers = dict(first)
    for question in starter.questions:
        default = question.default(answers)
        answers[question.key] = given.get(question.key) or (
            _ask(question.asks, default) if asking and question.key not in given else default
        )
    return answers


def _ask(text: str, default: str) -> str:
    answer: str = typer.prompt(text, default=default, err=True)
    return answer
