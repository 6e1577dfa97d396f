"""A right, and the personas who may have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Persona = Literal["leads", "researchers", "viewers"]
PERSONAS: tuple[Persona, ...] = get_args(Persona)

READ = ("get", "list", "watch")
#: The verb by which a job may name a priority; the API server itself knows nothing of it, and the
#: guard ``railhead-priority`` asks for it.
USE = "use"

ALL: frozenset[Persona] = frozenset(PERSONAS)
SUBMITTING: frozenset[Persona] = frozenset({"leads", "researchers"})
LEADING: frozenset[Persona] = frozenset({"leads"})


@dataclass(frozen=True, kw_only=True)
class Right:
    """Verbs on resources of one API group, for some personas.

    Args:
        group: the API group, empty for the core's.
        names: only objects of these names; empty for all.
        why: what it is for, for people.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    personas: frozenset[Persona]
    why: str
    names: tuple[str, ...] = ()

    def rule(self) -> dict[str, Any]:
        """Return the right as a rule of a Role."""
        made: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return made | ({"resourceNames": list(self.names)} if self.names else {})
