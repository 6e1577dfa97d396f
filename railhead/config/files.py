"""Finds stacks' files by the stacks' names, in the project around the current folder."""

from __future__ import annotations

from pathlib import Path

from railhead.base.errors import NotFoundError, choices


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
    names = sorted(
        p.name.removeprefix("Pulumi.").removesuffix(".yaml") for p in folder.glob("Pulumi.*.yaml")
    )
    raise NotFoundError(
        f"no stack {stack!r} in {folder}{choices(stack, names)}",
        remedy="name one of them, or a stack's file",
    )


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
    """Return the folder of stack files: ``stacks`` of the project around the current folder."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file():
            stacks = folder / "stacks"
            return stacks.relative_to(here) if folder == here else stacks
    return Path("stacks")
