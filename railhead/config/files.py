"""Finds stacks' files by the stacks' names, in the project around the current folder."""

from __future__ import annotations

from pathlib import Path

import yaml

from railhead.base.errors import NotFoundError, choices
from railhead.base.reading import read_text

#: What makes a folder a Pulumi project.
PROJECT_FILE = "Pulumi.yaml"


def stack_file(stack: str) -> Path:
    """Return the file of a stack, given by its name or as a file.

    Raises:
        NotFoundError: the stack does not exist; the error lists those that do.
    """
    given = Path(stack)
    if given.is_file() or given.suffix in (".yaml", ".yml") or len(given.parts) > 1:
        return given
    folder = stacks_folder()
    path = folder / f"Pulumi.{stack}.yaml"
    if path.is_file():
        return path
    names = sorted(map(stack_name, folder.glob("Pulumi.*.yaml")))
    raise NotFoundError(
        f"no stack {stack!r} in {folder}{choices(stack, names)}",
        remedy="name one of them, or a stack's file",
    )


def stack_name(file: Path) -> str:
    """Return the name of the stack that a file is of."""
    return file.name.removeprefix("Pulumi.").removesuffix(".yaml")


def stack_files() -> list[Path]:
    """Return every stack's file.

    Raises:
        NotFoundError: there are no stacks.
    """
    folder = stacks_folder()
    files = sorted(folder.glob("Pulumi.*.yaml"))
    if not files:
        raise NotFoundError(
            f"there is no stack in {folder}",
            remedy="run it in the project's folder, or name a stack's file",
        )
    return files


def stacks_folder() -> Path:
    """Return the folder of stack files of the project around the current folder.

    It is the project's ``stackConfigDir``, as Pulumi reads it, else ``stacks``.
    """
    here = Path.cwd()
    project = project_folder(here)
    if project is None:
        return Path("stacks")
    stacks = project / stack_config_dir(project / PROJECT_FILE)
    return stacks.relative_to(here) if project == here and stacks.is_relative_to(here) else stacks


def project_folder(start: Path) -> Path | None:
    """Return the folder with the Pulumi.yaml that ``start`` is in or below; None without one."""
    for folder in (start.absolute(), *start.absolute().parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    return None


def project_name(stack: Path) -> str:
    """Return the name of the project that a stack's file is in; empty without one."""
    folder = project_folder(stack.absolute().parent)
    return _text(folder / PROJECT_FILE, "name", "") if folder else ""


def stack_config_dir(file: Path) -> str:
    """Return the folder of stack files that a Pulumi.yaml names, relative to it."""
    return _text(file, "stackConfigDir", "stacks")


def _text(file: Path, key: str, default: str) -> str:
    """Return a text that a Pulumi.yaml has."""
    try:
        settings = yaml.safe_load(read_text(file))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        # The engine reports what is wrong with it.
        return default
    value = settings.get(key) if isinstance(settings, dict) else None
    return value if isinstance(value, str) else default
