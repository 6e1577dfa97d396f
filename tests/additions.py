"""Names each file that a new mode, framework, check, machine or field lacks, in one message."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from railhead.base.data import load

REPO = Path(__file__).resolve().parent.parent
SCHEMA = "stacks/stack.schema.json: run `railhead config schema > stacks/stack.schema.json`"


def missing() -> list[str]:
    """Return what each addition still needs, as lines that name it and the file."""
    parts = (_modes(), _frameworks(), _checks(), _machines(), _fields())
    needs: dict[str, list[str]] = {what: every for part in parts for what, every in part.items()}
    return [f"{what} also needs {need}" for what, every in needs.items() for need in every]


def _modes() -> dict[str, list[str]]:
    from railhead.fabric.modes import MODES
    from tests.unit.catalog import figures

    evidence = load(REPO / "docs/fabric-evidence.yaml")["hardware"]
    seen = "`hardware` in docs/fabric-evidence.yaml: what no test shows"
    read = load(REPO / "railhead/fabric/readings.yaml")["modes"]
    reading = "`modes` in railhead/fabric/readings.yaml: where each of its figures was read"
    cases = _text("tests/components/fabrics.py")
    case = "tests/components/fabrics.py: a stack's section in `fabric`, its case in `USUAL`"
    page = "docs/fabric.md: run `python -m tests.docs.fabric_tables`"
    return {
        f"mode {name!r}": [
            *_unless(name in evidence, seen),
            *_unless(name in read or not figures.of_mode(mode), reading),
            *_unless(f'"{name}-' in cases, case),
            *_unless(f"`{name}`" in _text("docs/fabric.md"), page),
            *_in_schema(name),
        ]
        for name, mode in MODES.items()
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
    from tests.unit.catalog.figures import EFA_CARDS

    cards = "EFA_CARDS in tests/unit/catalog/figures.py: its cards with EFA by EC2's user guide"
    return {
        f"machine {name!r}": [
            *_in_schema(name),
            *_unless(machine.provider != "aws" or name in EFA_CARDS, cards),
        ]
        for name, machine in MACHINES.items()
    }


def _fields() -> dict[str, list[str]]:
    from railhead.base.fields import Model
    from railhead.platform.registry import PLATFORMS

    assert PLATFORMS, "importing them defines every model of a stack"
    sources = (path for top in ("railhead", "components") for path in (REPO / top).rglob("*.py"))
    read = {name for path in sources for name in re.findall(r"\.(\w+)", path.read_text())}
    reader = "a part of railhead/resolve/ or components/ that reads it"
    return {
        f"field {name!r} of {model.__name__}": [*_unless(name in read, reader), *_in_schema(name)]
        for model in _models(Model)
        for name in model.model_fields
    }


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models of a stack's sections."""
    for model in base.__subclasses__():
        if model.__module__.startswith(("railhead.model", "railhead.platform", "railhead.fabric")):
            yield model
        yield from _models(model)


def _in_schema(name: str) -> list[str]:
    return list(_unless(f'"{name}"' in _text("stacks/stack.schema.json"), SCHEMA))


@functools.cache
def _text(path: str) -> str:
    return (REPO / path).read_text(encoding="utf-8")


def _unless(there: bool, need: str) -> Iterator[str]:
    if not there:
        yield need
