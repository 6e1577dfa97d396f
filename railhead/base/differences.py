"""What of the fields that an object is given differs in the live one.

Only what is given is compared, as server-side apply does: what the API server fills in, and what
controllers add, is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.base.quantity import parse

# The key under which the engine's state marks a secret or an asset (pulumi, resource.SigKey).
_SIGNATURE = "4dabf18193072939515e22adb298388d"
# Written by the server from others, or never to be read back.
_NOT_COMPARED = frozenset({"status", "stringData"})


def differences(wanted: Any, live: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, what the stack says, what is live) for each field that the stack gives.

    The stack says nothing of values that a list of plain values has besides: where the API calls
    such a list a set, server-side apply leaves them to whoever added them.
    """
    if isinstance(wanted, Mapping):
        if _SIGNATURE in wanted:
            return
        for key, value in wanted.items():
            if key.startswith("__") or (not path and key in _NOT_COMPARED):
                continue
            inner = live.get(key) if isinstance(live, Mapping) else None
            yield from differences(value, inner, f"{path}.{key}" if path else key)
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        has = live if isinstance(live, list) else []
        plain = not any(isinstance(one, (Mapping, list)) for one in (*wanted, *has))
        besides = [one for one in has if one not in wanted]
        if plain and besides:
            lacks = [one for one in wanted if one not in has]
            yield path, short(wanted) if lacks else "", short(has if lacks else besides)
            return
        if len(has) != len(wanted):
            yield path, f"{len(wanted)}: {short(wanted)}", f"{len(has)}: {short(has)}"
            return
        for index, value in enumerate(wanted):
            yield from differences(value, has[index], f"{path}[{index}]")
    elif not _same(wanted, live):
        yield path, short(wanted) or "nothing", short(live)


def _same(wanted: Any, live: Any) -> bool:
    if wanted == live or (not wanted and live is None):
        return True
    try:
        return parse(wanted) == parse(live)
    except (TypeError, ValueError):
        return False


def short(value: Any) -> str:
    """A value in one line of at most 80 characters."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
