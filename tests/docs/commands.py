"""Commands that the documentation shows: found in its fenced blocks, checked without running them.

A block fenced as ``console`` holds commands after a ``$`` prompt and, below each, what it printed.
An HTML comment ``<!-- run: lab -->`` just above a block says that the lab's tests execute it, in
the order of the page; ``<!-- run: quick -->`` says so of the quick tests. Each command must exit
with 0, or as ``<!-- run: lab, exits 6 -->`` says.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

FENCE = re.compile(
    r"(?:^<!-- run: (?P<run>[a-z]+)(?:, exits (?P<exits>\d+))? -->\n+)?"
    r"^(?P<indent> *)```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
# Other programs that a page may use; their arguments are not checked.
OTHER = frozenset(
    "apt-get aws bash cat cd cp curl export git helm kubectl less ls mkdir nproc pip ps "
    "python python3 source sudo tail tensorboard timeout top torchrun uname xargs".split()
)
PULUMI = frozenset(
    "about cancel config destroy login logs preview refresh stack up version whoami".split()
)
FOLDERS = frozenset(
    "benchmarks components docs examples policies railhead requirements stacks tests tools".split()
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of a page.

    Attributes:
        line: where it stands, counted from 1.
        run: the suite that executes it, if any.
        exits: the exit code that it must end with there.
    """

    page: Path
    line: int
    text: str
    run: str | None
    exits: int

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def pages(repo: Path) -> list[Path]:
    """Return every page of the documentation, relative to ``repo``."""
    results = [repo / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    results += (repo / "docs").rglob("*.md")
    return sorted(path.relative_to(repo) for path in results if path.is_file())


def commands(repo: Path, page: Path) -> Iterator[Command]:
    """Yield the commands of one page, in order; a trailing backslash continues a command."""
    text = (repo / page).read_text()
    for block in FENCE.finditer(text):
        if block["kind"] != "console":
            continue
        first = text.count("\n", 0, block.start("body")) + 1
        lines = iter(enumerate(block["body"].splitlines(), first))
        for number, line in lines:
            if not (match := re.match(r" *\$ (.*)", line)):
                continue
            command = match[1]
            while command.endswith("\\"):
                command = command[:-1].rstrip() + " " + next(lines)[1].strip()
            yield Command(
                page=page,
                line=number,
                text=command,
                run=block["run"],
                exits=int(block["exits"] or 0),
            )


@cache
def _root() -> Any:
    from railhead import cli

    return typer.main.get_command(cli.everything())


def command_at(path: tuple[str, ...]) -> Any:
    """Return the command line's own object for a command such as ``("lab", "up")``."""
    node = _root()
    for name in path:
        node = node.commands[name]
    return node


def command_paths() -> list[tuple[str, ...]]:
    """Yield every leaf command that ``railhead --help`` leads to."""

    def walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        children = getattr(node, "commands", None)
        if children is None:
            yield path
            return
        for name, child in children.items():
            if not child.hidden:
                yield from walk(child, (*path, name))

    return sorted(walk(_root(), ()))


def _railhead(args: list[str], repo: Path) -> str | None:
    """Parse as the command line would, every option and value included; run nothing."""
    node, name, parent = _root(), "railhead", None
    wants_help = "--help" in args
    if wants_help:
        args = args[: args.index("--help")]
    with contextlib.chdir(repo):
        while children := getattr(node, "commands", None):
            if not args:
                return None if wants_help else f"`{name}` needs one of: {', '.join(children)}"
            if args[0].startswith("-"):
                break
            if args[0] not in children:
                return f"`{name}` has no command {args[0]!r}; there are: {', '.join(children)}"
            node, name, args = children[args[0]], f"{name} {args[0]}", args[1:]
        if wants_help:
            return None
        try:
            context = node.make_context(name, list(args), parent=parent)
            context.close()
        except typer.Exit:
            return None
        except Exception as error:
            message = getattr(error, "format_message", None)
            if message is None:
                raise
            return str(message())
    return None


def named(text: str) -> Iterator[str]:
    """Yield each command of ours that a text names between backquotes."""
    for match in re.finditer(r"`(railhead [^`]+)`", text):
        yield " ".join(match[1].replace("[", "").replace("]", "").split())


def check_named(command: str) -> str | None:
    """Return which word of a named command does not exist, or None; a placeholder is any value."""
    node, words = _root(), command.split()[1:]
    while children := getattr(node, "commands", None):
        if not words or not re.fullmatch("[a-z-]+", words[0]) or words[0].startswith("-"):
            return None
        if words[0] not in children:
            return f"there is no command {words[0]!r}"
        node, words = children[words[0]], words[1:]
    options = {
        name: param for param in node.params for name in (*param.opts, *param.secondary_opts)
    }
    room = sum(
        param.nargs if param.nargs > 0 else 99 for param in node.params if _is_argument(param)
    )
    values = iter(words)
    for word in values:
        name, equals, _ = word.partition("=")
        if word in {"--", "--help", "|", ">", "..."}:
            break
        if not word.startswith("-"):
            room -= 1
        elif name not in options:
            return f"there is no option {name}"
        elif not equals and not getattr(options[name], "is_flag", False):
            next(values, None)
    return None if room >= 0 else "it takes fewer arguments"


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _simple(words: list[str], repo: Path) -> str | None:
    while words and re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", words[0], re.DOTALL):
        words = words[1:]
    if not words:
        return None
    program, args = Path(words[0]).name, words[1:]
    for word in args:
        if (
            "/" in word
            and word.split("/")[0] in FOLDERS
            and not any(mark in word for mark in "*<{$:")
            and not (repo / word).exists()
        ):
            return f"{word} is not in the repository"
    if program == "sudo":
        return _simple(args, repo)
    if program == "railhead":
        if "--" in args:
            cut = args.index("--")
            return _railhead(args, repo) or _simple(args[cut + 1 :], repo)
        return _railhead(args, repo)
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+):", (repo / "Makefile").read_text(), re.MULTILINE))
        for word in args:
            if "=" not in word and not word.startswith("-") and word not in targets:
                return f"the Makefile has no target {word!r}"
        return None
    if program == "pulumi":
        known = args and (args[0] in PULUMI or args[0].startswith("-"))
        return None if known else f"pulumi has no command {args[:1]}"
    if program in OTHER or words[0].startswith((".venv/bin/", "tools/", "./", ".ci/")):
        return None
    return f"{program!r} is not a program that the documentation may use"


def check(line: str, repo: Path) -> str | None:
    """Return what is wrong with a command line of the documentation, or None."""
    for inner in re.findall(r"\$\(([^()]*)\)", line):
        if problem := check(inner, repo):
            return problem
    line = re.sub(r"\$\([^()]*\)", "X", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        tokens = list(lexer)
    except ValueError as error:
        return f"not a shell command: {error}"
    for token in [*tokens, ";"]:
        if token in {"|", "&&", "||", ";", "&"}:
            if words[:1] != ["eval"] and (problem := _simple(words, repo)):
                return problem
            words = []
        elif token in {">", ">>", "<"}:
            words.append("REDIRECT")
        else:
            words.append(token)
    return None
