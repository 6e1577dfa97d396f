"""One file per thing: only a mode's own two files know that the mode exists."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from railhead.fabric.modes import CONFIGS
from railhead.platform.registry import PLATFORMS

pytestmark = pytest.mark.house

REPO = Path(__file__).resolve().parents[2]
# A mode's own files, and rows that a mode may be called like.
OWN = ("railhead/fabric/modes", "railhead/fabric/kinds", "components/fabric/modes")
# The same word for another thing, each with what it is there.
OTHERWISE = {
    "efa": {
        "railhead/watch/metrics.py": "an exporter of the fabric's counters",
        "railhead/model/watching.py": "the same exporter, as a stack names it",
        "railhead/resolve/watching.py": "which fabric it goes with",
        "railhead/machines/machine.py": "EC2's type of a network interface",
        "railhead/nccl/": "a transport in NCCL's log",
        "railhead/platform/": "what a platform offers, and EC2's type of a security group rule",
        "railhead/review/machines.py": "a field of the twin's truth about machines",
    },
    "host-device": {
        "railhead/twin/jobs.py": "a plugin of CNI's",
    },
    "ipoib": {
        "railhead/twin/jobs.py": "a plugin of CNI's",
        "railhead/twin/players.py": "a field of the network operator's policy",
    },
    "rdma-shared": {
        "railhead/platform/": "the fabric of a first stack",
    },
    "tcpx": {
        "railhead/nccl/": "a transport in NCCL's log",
    },
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


@cache
def says_a_mode() -> list[tuple[Path, int, str]]:
    """Return every text of the sources that is a mode's name: file, line, name."""
    return [
        (name, node.lineno, str(node.value))
        for name in sources()
        for node in ast.walk(ast.parse((REPO / name).read_text()))
        if isinstance(node, ast.Constant) and node.value in CONFIGS
    ]


@pytest.mark.parametrize("mode", CONFIGS)
def test_no_other_file_names_a_mode(mode: str) -> None:
    allowed = OTHERWISE.get(mode, {})
    hits = [
        f"{name}:{line} says {mode!r}: ask the mode instead (railhead/fabric/mode.py)"
        for name, line, item in says_a_mode()
        if item == mode and not any(str(name).startswith(prefix) for prefix in allowed)
    ]
    assert hits == []


def test_exceptions_still_exist() -> None:
    for mode, places in OTHERWISE.items():
        assert mode in CONFIGS
        for prefix in places:
            results = [name for name in sources() if str(name).startswith(prefix)]
            assert any(f'"{mode}"' in (REPO / name).read_text() for name in results), (mode, prefix)


def test_no_other_file_imports_a_mode() -> None:
    hits = [
        f"{name} imports {node.module}"
        for name in sources()
        for node in ast.walk(ast.parse((REPO / name).read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(
            ("railhead.fabric.modes.", "railhead.components.fabric.modes.")
        )
    ]
    assert hits == []


def test_a_modes_objects_are_in_the_file_of_its_name() -> None:
    ours = {path.stem for path in (REPO / "components/fabric/modes").glob("*.py")} - {"__init__"}
    assert ours <= {mode.replace("-", "_") for mode in CONFIGS}


_ANOTHER = """
from typing import ClassVar, Literal
from railhead.catalog.parts import DeviceResource
from railhead.fabric.mode import BaseFabric, Mode

class WarpFabric(BaseFabric):
    row: ClassVar[Mode] = Mode(
        name="warp", fabrics=frozenset({"roce"}), needs=None, summary="a test's",
        attachment="none",
        bootstrap="pod", unprivileged="a test", moves=True, source="a test",
        devices=(
            DeviceResource(name="warp.dev/nic", scope="nic", per_pod=1, per_node=0, source=""),
        ),
    )
    mode: Literal["warp"]
    speed: int = 9

    def checks(self):
        return (self._fast,)

    def _fast(self, site):
        if self.speed < 5:
            yield "fabric.speed", f"{self.speed} is too slow"

CONFIG = WarpFabric
"""


def test_one_more_file_is_all_that_a_mode_needs(tmp_path: Path) -> None:
    """A module that is not in the tree, through config, runtime, guards, gate and contract."""
    (tmp_path / "warp.py").write_text(_ANOTHER)
    program = """
        import importlib.util, json, sys

        import railhead.fabric
        home = railhead.fabric.__path__[0] + "/modes"
        spec = importlib.util.spec_from_file_location(
            "railhead.fabric.modes", home + "/__init__.py",
            submodule_search_locations=[home, FOLDER],
        )
        sys.modules["railhead.fabric.modes"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["railhead.fabric.modes"])

        from railhead.components.fabric.objects import ModeObjects, objects_of
        from railhead.base.errors import InputError
        from railhead.config import parse
        from railhead.resolve.gate import expectation
        from railhead.resolve.pod_guards import demand
        from railhead.model.capacity import quantities
        from railhead.resolve.wiring import wiring
        from tests.components.recording import lab_cluster

        raw = lab_cluster()
        raw["fabric"] = {"kind": "roce", "mode": "warp", "lock_memory": False}
        cluster = parse(raw, where="test")
        try:
            parse(raw | {"fabric": raw["fabric"] | {"speed": 1}}, where="test")
        except InputError as error:
            refused = error.problem
        (pool,) = cluster.pools
        proven = expectation(cluster, pool)
        print(json.dumps({
            "pod": dict(wiring(cluster).devices),
            "guard": demand(cluster).devices,
            "node": quantities(cluster, pool)["warp.dev/nic"],
            "gate": [dict(proven.resources), proven.movable],
            "objects": type(objects_of(cluster.fabric)) is ModeObjects,
            "refused": refused,
        }))
    """
    done = subprocess.run(
        [sys.executable, "-c", f"FOLDER = {str(tmp_path)!r}\n" + textwrap.dedent(program)],
        cwd=REPO,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    nics = 1
    assert json.loads(done.stdout) == {
        "pod": {"warp.dev/nic": nics},
        "guard": ["warp.dev/nic"],
        "node": str(nics),
        "gate": [{"warp.dev/nic": nics}, True],
        "objects": True,
        "refused": "test: fabric.speed: 1 is too slow",
    }


def test_contributing_names_existing_tests() -> None:
    table = (REPO / "CONTRIBUTING.md").read_text().split("## To add X")[1].split("\n## ")[0]
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", table)
    assert len(named) >= 9
    for path, test in named:
        assert f"def {test}(" in (REPO / path).read_text() if test else (REPO / path).is_file(), (
            path
        )


# The only arguments that are a whole stack, or a cloud's part of one.
WHOLE_STACK = {"TrainingClusterArgs"}
PLATFORMS_PART = {"AwsInfrastructureArgs", "GcpInfrastructureArgs"}


def _too_wide(source: str) -> Iterator[str]:
    """Yield `class.field: model` of fields that take more of a stack than a part can use."""
    stacks = {base.__name__ for p in PLATFORMS.values() for base in p.cluster.__mro__}
    stacks = {name for name in stacks if name.endswith("Cluster")} | {"Combination"}
    parts = {p.cluster.model_fields["platform"].annotation.__name__ for p in PLATFORMS.values()}
    tree = ast.parse(source)
    ours = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("railhead.")
        for alias in node.names
    }
    for item in ast.walk(tree):
        if not isinstance(item, ast.ClassDef) or item.name in WHOLE_STACK:
            continue
        refused = stacks if item.name in PLATFORMS_PART else stacks | parts
        for field in item.body:
            if not isinstance(field, ast.AnnAssign):
                continue
            for node in ast.walk(field.annotation):
                name = node.id if isinstance(node, ast.Name) else None
                if ours.get(name or "") in refused:
                    yield f"{item.name}.{ast.unparse(field.target)}: {name}"


def test_a_parts_arguments_are_not_a_whole_stack() -> None:
    wide = [
        f"{path.relative_to(REPO)}: {field}; take the fields that the component uses"
        for path in sorted((REPO / "components").rglob("*.py"))
        for field in _too_wide(path.read_text())
    ]
    assert wide == []


@pytest.mark.parametrize(
    ("imported", "annotation", "name"),
    [
        ("railhead.model.cluster import Cluster", "Cluster", "Cluster"),
        ("railhead.platform.aws.model import AwsCluster as Stack", "Stack | None", "Stack"),
        ("railhead.platform.gcp.model import GcpPlatform", "GcpPlatform", "GcpPlatform"),
        ("railhead.catalog.versions import Combination", "Sequence[Combination]", "Combination"),
    ],
)
def test_arguments_that_are_a_whole_stack_are_found(
    imported: str, annotation: str, name: str
) -> None:
    source = f"from {imported}\nclass PartArgs:\n    wide: {annotation}\n    name: str\n"
    assert list(_too_wide(source)) == [f"PartArgs.wide: {name}"]
    assert not list(_too_wide("import eks\nclass PartArgs:\n    cluster: eks.Cluster\n"))
