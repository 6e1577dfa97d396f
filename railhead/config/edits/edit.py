"""One object that an edit of a stack's file takes away or makes anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from railhead.model.removals import Kind, Loss, RemovalConfig


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One object that an edit takes away or makes anew.

    Args:
        kind: what it is.
        name: ``namespace/name`` within a namespace, else its name.
        loses: what goes with it; empty for what no entry can allow.
        tells: what happens, in a sentence without its subject.
        way: what to do instead.
    """

    kind: Kind | Literal["data set"]
    name: str
    loses: tuple[Loss, ...]
    tells: str
    way: str

    def allowed_by(self, removals: Sequence[RemovalConfig]) -> bool:
        """Whether the file says that this object, by name, may be lost with all that it loses."""
        return bool(self.loses) and any(
            one.kind == self.kind and one.name == self.name and set(one.loses) >= set(self.loses)
            for one in removals
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
    """That ``added`` would be another one, where something may have been renamed."""
    return f"; Kubernetes has no rename: {', '.join(added)} would be a new {what}" if added else ""
