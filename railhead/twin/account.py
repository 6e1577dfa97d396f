"""A cloud's memory in a twin, and its way to refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from railhead.twin.truth import truth


class RefusalError(Exception):
    """The cloud refuses.

    Args:
        row: the id of the row of truth.
        text: the cloud's answer.
    """

    def __init__(self, row: str, text: str) -> None:
        super().__init__(f"{text} [{row}]")
        self.row = row


@dataclass(frozen=True, kw_only=True)
class Made:
    """A resource of the account.

    Args:
        id: the provider's id of it.
        type: its type token.
        name: its logical name.
        inputs: what the program says of it.
    """

    id: str
    type: str
    name: str
    inputs: Mapping[str, Any]


@dataclass
class Account:
    """Everything that was made and is not gone; ``deleting`` is not part of it."""

    made: dict[str, Made] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Account:
        """Return the account that a file holds; an empty one without the file."""
        if not path.is_file() or not path.read_text():
            return cls()
        rows = json.loads(path.read_text())
        return cls({row["id"]: Made(**row) for row in rows})

    def write(self, path: Path) -> None:
        """Write it, whole or not at all."""
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps([asdict(m) for m in self.made.values()], default=repr))
        temporary.replace(path)

    def add(self, made: Made) -> None:
        """Put a resource in, or its new inputs."""
        self.made[made.id] = made

    def drop(self, identifier: str) -> None:
        """Take a resource out."""
        self.made.pop(identifier, None)

    def find(self, identifier: str) -> Made | None:
        """Return a resource by its id."""
        return self.made.get(identifier)

    def of(self, token: str) -> list[Made]:
        """Return all resources of a type."""
        return [made for made in self.made.values() if made.type == token]


@dataclass(frozen=True, kw_only=True)
class Unique:
    """Inputs that no two resources of a type have alike.

    Args:
        row: the id of the row of truth.
        keys: paths of the inputs; a resource that does not say the last of them is not compared.
    """

    row: str
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Dependants:
    """The resources that must be gone before one of a type can go.

    Args:
        row: the id of the row of truth.
        users: type -> the inputs in which one of them refers to it.
    """

    row: str
    users: Mapping[str, tuple[str, ...]]


def refuse(row: str, detail: str = "") -> NoReturn:
    """Answer as a row of truth says, with a detail after it.

    Raises:
        RefusalError: always.
    """
    error = next(r.error for r in truth().refusals if r.id == row)
    raise RefusalError(row, f"{error}{detail}")


def at(inputs: Mapping[str, Any], path: str) -> Any:
    """Return an input by its dotted path; None where it is not said."""
    value: Any = inputs
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def flat(value: Any) -> Iterator[Any]:
    """Yield a value, or all values in lists and maps; nothing for None."""
    if isinstance(value, list):
        for item in value:
            yield from flat(item)
    elif isinstance(value, Mapping):
        yield from flat(list(value.values()))
    elif value is not None:
        yield value
