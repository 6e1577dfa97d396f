"""Rules on pods that are data: ``rules.yaml``, in CEL, each with its message and its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from railhead.base.data import load
from railhead.resolve.cel import written_out

_FILE = Path(__file__).with_name("rules.yaml")


class Rule(BaseModel):
    """A rule: CEL that holds of what passes, and what to do where it does not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    expression: str
    message: str
    source: str


class Rules(BaseModel):
    """The file: the baseline Pod Security Standard, what an author may not write, and logins."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    baseline: tuple[Rule, ...]
    author: tuple[Rule, ...]
    logins: tuple[Rule, ...]


@cache
def rules() -> Rules:
    """Return the rules of the file."""
    return Rules.model_validate(load(_FILE))


def on(
    pod: str, listed: Sequence[Rule], more: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Return (expression, message) of rules on ``pod``, CEL of a template or of a patch of one.

    ``more`` is the name of each further variable -> its CEL.
    """
    spec = f"{pod}.?spec"
    variables = {
        "pod": pod,
        "containers": f"dyn({spec}.?containers.orValue([]))"
        f" + dyn({spec}.?initContainers.orValue([]))",
        "volumes": f"dyn({spec}.?volumes.orValue([]))",
        "security": f"dyn({spec}.?securityContext.orValue({{}}))",
        **(more or {}),
    }
    rows = [{"name": name, "expression": value} for name, value in variables.items()]
    return [(written_out(f"({rule.expression})", rows), rule.message) for rule in listed]
