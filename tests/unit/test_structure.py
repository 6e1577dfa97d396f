"""What is one file stays one file: nobody but a mode's own two files knows that it is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.fabric.modes import CONFIGS

REPO = Path(__file__).resolve().parents[2]
# A mode's own files, and rows that a mode may be called like.
OWN = ("railhead/fabric/modes", "railhead/fabric/kinds", "components/fabric/modes")
# The same word for another thing, each with what it is there.
OTHERWISE = {
    "efa": {
        "components/aws/node_pools.py": "EC2's type of a network interface",
        "railhead/catalog/machine.py": "EC2's type of a network interface",
        "railhead/catalog/machines_aws.py": "the fabric of a machine, and its interfaces' type",
        "railhead/nccl/": "a transport in NCCL's log",
        "railhead/platform/": "what a platform offers, and EC2's type of a security group rule",
    },
    "tcpx": {
        "railhead/catalog/machines_gcp.py": "the fabric of a machine",
        "railhead/nccl/": "a transport in NCCL's log",
    },
    "tcpxo": {"railhead/catalog/machines_gcp.py": "the fabric of a machine"},
    "gcp-rdma": {"railhead/catalog/machines_gcp.py": "the fabric of a machine"},
    "dranet": {
        "components/gcp/": "a GKE node pool's networking",
        "railhead/catalog/": "GKE's feature, and the chart",
        "railhead/platform/gcp/": "a GKE node pool's networking",
    },
    # Of several fields: no taint, no placement, no Node Feature Discovery.
    "none": {"": "a word like another"},
}


def sources() -> Iterator[Path]:
    for folder in ("railhead", "components", "policies"):
        for path in sorted((REPO / folder).rglob("*.py")):
            name = path.relative_to(REPO)
            if not any(name.is_relative_to(own) for own in OWN):
                yield name


@pytest.mark.parametrize("mode", CONFIGS)
def test_no_other_file_names_a_mode(mode: str) -> None:
    allowed = OTHERWISE.get(mode, {})
    hits = [
        f"{name}:{node.lineno} says {mode!r}: ask the mode instead (railhead/fabric/mode.py)"
        for name in sources()
        if not any(str(name).startswith(prefix) for prefix in allowed)
        for node in ast.walk(ast.parse((REPO / name).read_text()))
        if isinstance(node, ast.Constant) and node.value == mode
    ]
    assert hits == []


def test_what_is_allowed_is_still_there() -> None:
    for mode, places in OTHERWISE.items():
        assert mode in CONFIGS
        for prefix in places:
            found = [name for name in sources() if str(name).startswith(prefix)]
            assert any(f'"{mode}"' in (REPO / name).read_text() for name in found), (mode, prefix)


def test_no_other_file_imports_a_mode() -> None:
    hits = [
        f"{name} imports {node.module}"
        for name in sources()
        for node in ast.walk(ast.parse((REPO / name).read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("railhead.fabric.modes.", "components.fabric.modes."))
    ]
    assert hits == []


def test_a_modes_objects_are_in_the_file_of_its_name() -> None:
    ours = {path.stem for path in (REPO / "components/fabric/modes").glob("*.py")} - {"__init__"}
    assert ours <= {mode.replace("-", "_") for mode in CONFIGS}
