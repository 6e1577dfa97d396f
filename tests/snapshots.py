"""Snapshots that a reviewer reads: values, not digests; a scenario whole, or what differs in it."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

REPO = Path(__file__).parents[1]
#: Characters of a text that is shown whole; a longer one is a program.
LONGEST = 420
_LISTED = re.compile(r"(\b(?:env|volumes|volumeMounts)\[[^]]*\]).*")
#: Characters of a line of a file.
WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Short lists stand on one line, texts of several lines as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _list(dumper: _Dumper, data: list[Any]) -> yaml.Node:
    flat = not any(isinstance(item, dict | list) for item in data)
    short = flat and len(json.dumps(data)) < WIDTH - 30
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=short)


def _str(dumper: _Dumper, data: str) -> yaml.Node:
    style = "|" if "\n" in data else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(list, _list)
_Dumper.add_representer(str, _str)


def text_of(value: Any) -> str:
    """Return a file's text."""
    return yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        width=WIDTH,
        allow_unicode=True,
        default_flow_style=False,
    )


def compare(path: Path, result: dict[str, Any]) -> None:
    """Fail on the first scenario that is not as its file says (RAILHEAD_TRANSCRIPTS=write)."""
    made = json.loads(json.dumps(result))
    if os.environ.get("RAILHEAD_TRANSCRIPTS") == "write":
        path.write_text(text_of(made))
    expected: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    assert made.keys() == expected.keys()
    for scenario, value in made.items():
        assert value == expected[scenario], f"{path.name}: {scenario}"


@functools.cache
def _files() -> dict[str, str]:
    """Return the text of each file that may travel in an object -> its place."""
    results = {}
    for folder in ("railhead", "components"):
        for path in (REPO / folder).rglob("*"):
            if path.suffix in (".py", ".sh", ".txt") and path.stat().st_size > LONGEST:
                results[path.read_text().strip()] = f"<{path.relative_to(REPO)}>"
    return results


def named(value: Any) -> Any:
    """Return a value in which each program is its file's name: what it holds is tested there."""
    if isinstance(value, dict):
        return {key: named(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [named(inner) for inner in value]
    if isinstance(value, str) and len(value) > LONGEST:
        return _files().get(value.strip(), f"{value.strip().splitlines()[0][:60]} ...")
    return value


def _lines(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _lines(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, inner in enumerate(value):
            own = inner.get("name") if isinstance(inner, dict) else None
            rest = {k: v for k, v in inner.items() if k != "name"} if own else inner
            if rest and list(rest) == ["value"]:
                rest = rest["value"]
            yield from _lines(f"{path}[{own or number}]", rest)
    else:
        yield path, value


def lines(value: Any) -> dict[str, Any]:
    """Return every field of an object by its path; a list of one object is that object."""
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return dict(_lines("", named(json.loads(json.dumps(value)))))


def differs(value: Any, base: Any) -> dict[str, Any]:
    """Return the fields that are not another object's, and the paths that only the other has."""
    mine, others = lines(value), lines(base)
    changed = {path: new for path, new in mine.items() if others.get(path, mine) != new}
    # A variable or a volume is gone as one.
    gone = [_LISTED.sub(r"\1", path) for path in others if path not in mine]
    return changed | ({"(gone)": ", ".join(dict.fromkeys(gone))} if gone else {})
