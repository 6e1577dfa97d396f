"""A platform is one folder of the package and one of components/, and is named nowhere else."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from railhead.config import load
from railhead.machines import MACHINES
from railhead.platform.registry import PLATFORMS, platform_of
from tests.conftest import REPO

STACKS = sorted((REPO / "stacks").glob("Pulumi.*.yaml"))
MODELS = {"Platform", "Cluster", "Pool"}
# Files whose words are others' by the same name.
OTHERS = {
    "railhead/twin": "plays clouds from its own rows, not from what it checks",
    "railhead/lab": "what the lab is made of, whose own name it has",
    "railhead/catalog/versions.py": "a cloud's own controllers, and a combination called lab",
    "railhead/cli/__init__.py": "the command `railhead lab`",
    "railhead/launch/jupyter.py": "JupyterLab's own path",
    "railhead/base/version.py": "a release's requirements for a cloud",
    "railhead/preflight/reading.py": "the requirements that bring a cloud's client",
    "railhead/kube/nodes.py": "who makes a machine",
    "policies": "names of Pulumi's packages, which a plan has",
    "components/controllers/gpu_operator.py": "whether an operator is there already",
    "railhead/contract/migrations.py": "what an older contract left to its platform's name",
}


def sources() -> list[Path]:
    """Return every source but the platforms' own, and the files of OTHERS."""
    own = [Path(root, kind) for kind in PLATFORMS for root in ("railhead/platform", "components")]
    own += [Path("railhead/preflight", f"{kind}.py") for kind in PLATFORMS]
    files = [Path("__main__.py")]
    for root in ("railhead", "components", "policies"):
        files += [p.relative_to(REPO) for p in sorted((REPO / root).rglob("*.py"))]
    return [
        path
        for path in files
        if not any(path.is_relative_to(folder) for folder in own)
        and not any(path.is_relative_to(other) or path.match(other) for other in OTHERS)
    ]


def named(path: Path) -> list[str]:
    """Return the platforms that a file names: as a text of its own, by a module or by a model."""
    names = []
    classes = {kind.capitalize() + what for kind in PLATFORMS for what in MODELS}
    modules = tuple(
        f"{r}.{kind}" for kind in PLATFORMS for r in ("railhead.platform", "components")
    )
    tree = ast.parse((REPO / path).read_text(encoding="utf-8"))
    others = _words_of_fields(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in others and node.value in PLATFORMS:
            names.append(f"{path}:{node.lineno}: {node.value!r}")
        if isinstance(node, ast.Name | ast.alias):
            name = node.id if isinstance(node, ast.Name) else node.name
            if name in classes or name.startswith(modules):
                names.append(f"{path}:{node.lineno}: {name}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(modules):
            names.append(f"{path}:{node.lineno}: {node.module}")
    return names


def _words_of_fields(tree: ast.Module) -> set[ast.AST]:
    """Words of `Literal["operator", "existing"]` and its like; a list of platforms has more."""
    fields: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            words = [n for n in ast.walk(node.slice) if isinstance(n, ast.Constant)]
            fields |= set(words) if sum(w.value in PLATFORMS for w in words) < 2 else set()
    return fields


@pytest.mark.slow
def test_no_other_file_names_a_platform() -> None:
    assert [name for path in sources() for name in named(path)] == []


def test_every_exception_is_still_needed() -> None:
    files = [p.relative_to(REPO) for p in REPO.glob("**/*.py") if ".venv" not in p.parts]
    for other in OTHERS:
        covered = [p for p in files if p.is_relative_to(other) or p.match(other)]
        assert any(named(path) for path in covered), other


def test_every_platform_has_its_two_folders_and_no_list_does() -> None:
    folders = {p.parent.name for p in (REPO / "railhead/platform").glob("*/__init__.py")}
    assert folders == set(PLATFORMS)
    for kind, platform in PLATFORMS.items():
        assert platform.kind == kind
        assert platform.cluster.model_fields["platform"].annotation is not None
        assert (REPO / "components" / kind / "__init__.py").is_file()


@pytest.mark.slow
def test_one_more_folder_is_all_that_a_new_platform_needs(tmp_path: Path) -> None:
    """A platform beside ours: found, parsed, checked, in the schema, built; no file says so."""
    new, built = tmp_path / "platform" / "azure", tmp_path / "components" / "azure"
    new.mkdir(parents=True)
    built.mkdir(parents=True)
    (built / "__init__.py").write_text(
        "def build(cluster, opts):\n    return f'made in {cluster.platform.region}'\n"
    )
    (new / "__init__.py").write_text(
        "from typing import Literal\n"
        "from railhead.model.cluster import Cluster, PlatformConfig\n"
        "from railhead.platform.base import Platform\n"
        "class AzurePlatform(PlatformConfig):\n"
        "    kind: Literal['azure']\n"
        "    region: str\n"
        "class AzureCluster(Cluster):\n"
        "    platform: AzurePlatform\n"
        "class Azure(Platform[AzureCluster]):\n"
        "    def problems(self, cluster):\n"
        "        yield 'platform.region', f'{cluster.platform.region!r} has no such machines'\n"
        "PLATFORM = Azure(kind='azure', cluster=AzureCluster, offers=frozenset({'multus'}))\n"
    )
    code = f"""
import json, yaml
from railhead import platform
platform.__path__.append({str(new.parent)!r})
from railhead.base.errors import InputError
from railhead.config import parse
from railhead.config.schema import stack_schema
raw = yaml.safe_load(open("stacks/Pulumi.lab.yaml"))["config"]["railhead:cluster"]
raw["platform"] = {{"kind": "azure", "region": "x"}}
try:
    parse(raw, where="f")
except InputError as error:
    print(error.problem)
import railhead.components
railhead.components.__path__.append({str(built.parent)!r})
from railhead.components.platform import infrastructure
from railhead.platform.registry import PLATFORMS
print(infrastructure(PLATFORMS["azure"].cluster.model_validate(raw), None))
print("azure" in json.dumps(stack_schema()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert "f: platform.region: 'x' has no such machines" in done.stdout
    assert "'lab.8gpu' is not on platform 'azure'; it is on: existing, lab" in done.stdout
    assert done.stdout.endswith("made in x\nTrue\n")


@pytest.mark.parametrize("file", STACKS, ids=lambda f: f.name)
def test_a_clusters_platform_is_asked(file: Path) -> None:
    cluster = load(file)
    platform = platform_of(cluster)
    assert isinstance(cluster, platform.cluster)
    assert list(platform.problems(cluster)) == []
    importlib.import_module(f"railhead.components.{platform.kind}").build  # noqa: B018 - it is there
    networks = dict(platform.networks(cluster))
    # For a cluster that someone else made, the stack must give them.
    assert bool(networks) is platform.knows_networks


def test_every_machine_is_on_platforms_that_there_are() -> None:
    assert {kind for machine in MACHINES.values() for kind in machine.platforms} <= set(PLATFORMS)


def test_the_networks_of_a_cloud_are_what_its_section_says() -> None:
    cluster = load(REPO / "stacks" / "Pulumi.gcp-a3-mega.yaml")
    networks = {path: str(network) for path, network in platform_of(cluster).networks(cluster)}
    assert networks["platform.network.pods"] == cluster.model_dump()["platform"]["network"]["pods"]
    assert "platform.endpoint.authorized_networks[0]" in networks
