"""Names every file that a new mode, framework, check or machine also needs, in one message."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import yaml

REPO = Path(__file__).resolve().parent.parent
SCHEMA = "stacks/stack.schema.json: run `railhead config schema > stacks/stack.schema.json`"


def missing() -> list[str]:
    """Return what each addition still needs, as lines that name it and the file."""
    needs: dict[str, list[str]] = {**_modes(), **_frameworks(), **_checks(), **_machines()}
    return [f"{what} also needs {need}" for what, every in needs.items() for need in every]


def _modes() -> dict[str, list[str]]:
    from railhead.fabric.modes import MODES

    evidence = yaml.safe_load(_text("docs/fabric-evidence.yaml"))["hardware"]
    seen = "`hardware` in docs/fabric-evidence.yaml: what no test shows"
    page = "docs/fabric.md: run `python -m tests.docs.fabric_tables`"
    return {
        f"mode {name!r}": [
            *_unless(name in evidence, seen),
            *_unless(f"`{name}`" in _text("docs/fabric.md"), page),
            *_in_schema(name),
        ]
        for name in MODES
    }


def _frameworks() -> dict[str, list[str]]:
    from railhead.framework import FRAMEWORKS

    asked = "TABLE in tests/wiring.py: what its documents ask of a launcher"
    table = _text("tests/wiring.py").partition("\nTABLE")[2]
    return {
        f"framework {name!r}": [*_unless(f'"{name}": ' in table, asked), *_in_schema(name)]
        for name in FRAMEWORKS
    }


def _checks() -> dict[str, list[str]]:
    files = (REPO / "railhead" / "accept" / "checks").glob("[a-z]*.py")
    return {
        f"check {name!r}": list(
            _unless(f"| `{name}` |" in _text("docs/accepting.md"), "a row in docs/accepting.md")
        )
        for name in (file.stem.replace("_", "-") for file in files)
    }


def _machines() -> dict[str, list[str]]:
    from railhead.machines import MACHINES

    return {f"machine {name!r}": _in_schema(name) for name in MACHINES}


def _in_schema(name: str) -> list[str]:
    return list(_unless(f'"{name}"' in _text("stacks/stack.schema.json"), SCHEMA))


@functools.cache
def _text(path: str) -> str:
    return (REPO / path).read_text(encoding="utf-8")


def _unless(there: bool, need: str) -> Iterator[str]:
    if not there:
        yield need
