"""One object that an edit of a stack's file removes or recreates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from railhead.model.removals import Kind, Loss, RemovalConfig


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One object that an edit removes or recreates.

    Args:
        kind: the kind of object.
        name: ``namespace/name`` within a namespace, else its name.
        loses: what is lost with it; empty if no entry of ``removals`` can allow it.
        tells: what happens, in a sentence without its subject.
        way: what to do instead.
    """

    kind: Kind | Literal["data set"]
    name: str
    loses: tuple[Loss, ...]
    tells: str
    way: str

    def allowed_by(self, removals: Sequence[RemovalConfig]) -> bool:
        """Return whether the file allows this object, by name, to go with all that it loses."""
        return bool(self.loses) and any(
            removal.kind == self.kind
            and removal.name == self.name
            and set(removal.loses) >= set(self.loses)
            for removal in removals
        )

    def __str__(self) -> str:
        text = f"{self.kind} {self.name} {self.tells}\n    instead: {self.way}"
        if not self.loses:
            return text
        loses = ", ".join(self.loses)
        return (
            f"{text}\n    or lose it: under `removals`, "
            f"- {{kind: {self.kind}, name: {self.name}, loses: [{loses}]}}"
        )


def like(added: Sequence[str], what: str) -> str:
    """Return a note that ``added`` are new objects, as something may have been renamed."""
    return f"; Kubernetes has no rename: {', '.join(added)} would be a new {what}" if added else ""
