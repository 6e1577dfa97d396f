"""The Pulumi package `railhead`: programs of other languages get the cluster through the engine.

The programs here are Python's and register the component as a generated SDK of any language does:
by its type, over gRPC, as a remote one. One is in Go, with the Automation API, and one in YAML,
which needs its language host on PATH.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import __version__
from railhead.config import parse
from railhead.platform.registry import PLATFORMS
from railhead.provider.schema import COMPONENT, PACKAGE, package_schema
from tests.components.recording import STACKS, stack_cluster
from tests.engine.recorded import REPO, Project
from tests.marks import few

pytestmark = pytest.mark.slow
#: What an SDK that is generated from the schema does; the section is in its own file.
REMOTE = """
import json
import pulumi

class TrainingCluster(pulumi.ComponentResource):
    def __init__(self, name, cluster):
        outputs = {"contract": None, "details": None, "kubeconfig": None}
        super().__init__(
            "railhead:index:TrainingCluster", name, {"cluster": cluster, **outputs}, remote=True
        )

made = TrainingCluster(%r, json.load(open("section.json")))
pulumi.export("contract", made.contract)
"""


def launched(project: Project) -> Path:
    """Put the package's plugin where the engine looks; return it."""
    folder = Path(project.environment["PATH"].split(":")[0])
    launcher = folder / f"pulumi-resource-{PACKAGE}"
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPO} exec {sys.executable} -P "{REPO}/plugin/__main__.py" "$@"\n'
    )
    launcher.chmod(0o755)
    return launcher


def planned(project: Project) -> dict[str, Any]:
    """Return the inputs of every resource that a first preview plans, by URN."""
    steps = json.loads(project.run("preview", "--json"))["steps"]
    return {
        step["urn"]: {
            **{key: step["newState"].get(key) for key in ("inputs", "parent", "protect")},
            "provider": step["newState"].get("provider"),
            # The engine keeps no order of them.
            "dependencies": sorted(step["newState"].get("dependencies") or ()),
        }
        for step in steps
    }


@pytest.mark.parametrize("stack", few(["aws-p5-prod", "onprem-roce-shared"], ["aws-p5-prod"]))
def test_a_program_through_the_engine_gets_the_same_plan(stack: str, tmp_path: Path) -> None:
    own = Project(tmp_path / "own", stack)
    remote = Project(tmp_path / "remote", stack)
    launched(remote)
    (remote.folder / "section.json").write_text(json.dumps(section_of(remote)))
    (remote.folder / "__main__.py").write_text(REMOTE % stack_cluster(stack)["name"])
    assert_same_plan(own, remote)


@pytest.mark.exhaustive
def test_a_program_in_yaml_gets_the_same_plan(tmp_path: Path) -> None:
    host = shutil.which("pulumi-language-yaml")
    if host is None:
        pytest.skip("no pulumi-language-yaml: `go install` pulumi-yaml's cmd/pulumi-language-yaml")
    own = Project(tmp_path / "own", "aws-p5-prod")
    remote = Project(tmp_path / "remote", "aws-p5-prod")
    launched(remote)
    remote.environment["PATH"] += f":{Path(host).parent}"
    section = section_of(remote)
    made = {"type": COMPONENT, "properties": {"cluster": section}}
    settings = yaml.safe_load((remote.folder / "Pulumi.yaml").read_text())
    settings |= {"runtime": "yaml", "resources": {section["name"]: made}}
    (remote.folder / "Pulumi.yaml").write_text(yaml.safe_dump(settings))
    (remote.folder / "__main__.py").unlink()
    assert_same_plan(own, remote)


@pytest.mark.exhaustive
def test_go_with_the_automation_api_makes_the_same_state(tmp_path: Path) -> None:
    """Programs of the Automation API are their own language host."""
    go, sources = shutil.which("go"), tmp_path / "sources"
    if go is None:
        pytest.skip("no go")
    # Its pins hold the SDK, which pins what its Automation API needs beyond.
    shutil.copytree(REPO / "railhead/lab/build/pulumi", sources)
    shutil.copy(REPO / "tests/engine/automation.go", sources / "main.go")
    # With the lab's option, whose build has compiled most of it.
    words = [go, "build", "-mod=mod", "-trimpath", "-o", "program", "."]
    subprocess.run(words, cwd=sources, check=True)
    own = Project(tmp_path / "own", "aws-p5-prod")
    remote = Project(tmp_path / "remote", "aws-p5-prod")
    launched(remote)
    section = remote.folder / "section.json"
    section.write_text(json.dumps(section_of(remote)))
    name = yaml.safe_load((remote.folder / "Pulumi.yaml").read_text())["name"]
    subprocess.run(
        [str(sources / "program"), remote.stack, name, str(section)],
        env=remote.environment,
        check=True,
    )
    own.up()
    assert_same(own, states(own), remote, states(remote))


def states(project: Project) -> dict[str, Any]:
    """Return the inputs of every resource that is there, by URN.

    Default providers are left out: those of the last contract and of the package have no other use.
    """
    # No two ciphertexts of a secret are the same.
    exported = json.loads(project.run("stack", "export", "--show-secrets"))
    return {
        state["urn"]: {
            **{key: state.get(key) for key in ("inputs", "parent", "protect")},
            # With the provider's id, which is another in each state.
            "provider": (state.get("provider") or "").rpartition("::")[0],
            "dependencies": sorted(state.get("dependencies") or ()),
        }
        for state in exported["deployment"]["resources"]
        if not state["urn"].endswith("::default")
    }


def section_of(project: Project) -> dict[str, Any]:
    section: dict[str, Any] = yaml.safe_load(project.file.read_text())["config"]["railhead:cluster"]
    return section


def assert_same_plan(own: Project, remote: Project) -> None:
    assert_same(own, planned(own), remote, planned(remote))


def assert_same(
    own: Project, first: dict[str, Any], remote: Project, second: dict[str, Any]
) -> None:
    """Hold that both have the same resources, byte for byte."""
    assert list(first)
    homes = own.environment["HOME"], remote.environment["HOME"]
    text = json.dumps(second, sort_keys=True).replace(homes[1], homes[0])
    again = json.loads(text)
    assert set(again) == set(first)
    for urn, state in first.items():
        # The component itself has its section as an input, and the stack has its outputs.
        if urn.split("::")[2] not in (COMPONENT, "pulumi:pulumi:Stack"):
            assert again[urn] == state, urn


def test_a_mistake_is_told_by_its_field(tmp_path: Path) -> None:
    project = Project(tmp_path, "lab")
    launched(project)
    section = stack_cluster("lab") | {"versions": "labb"}
    (project.folder / "section.json").write_text(json.dumps(section))
    (project.folder / "__main__.py").write_text(REMOTE % "lab")
    text = project.run("preview", status=1)
    assert "cluster: versions: 'labb'" in text
    assert "did you mean 'lab'" in text


def test_the_engine_reads_the_schema(tmp_path: Path) -> None:
    project = Project(tmp_path, "lab")
    schema = json.loads(project.run("package", "get-schema", str(launched(project))))
    assert schema["version"] == __version__
    assert COMPONENT in schema["resources"]
    assert set(schema["types"]) == set(package_schema()["types"])


@pytest.mark.parametrize("stack", STACKS)
def test_the_schema_has_every_field_of_the_shipped_stacks(stack: str) -> None:
    types = package_schema()["types"]

    def check(spec: dict[str, Any], value: Any, where: str) -> None:
        if "oneOf" in spec:
            return
        if reference := spec.get("$ref"):
            made = types[reference.removeprefix("#/types/")]
            assert set(value) <= set(made["properties"]), where
            assert set(made["required"]) <= set(value), where
            for field, inner in value.items():
                check(made["properties"][field], inner, f"{where}.{field}")
        elif spec["type"] == "array":
            for item in value:
                check(spec["items"], item, where)
        elif spec["type"] == "object":
            for field, inner in value.items():
                check(spec["additionalProperties"], inner, f"{where}.{field}")
        else:
            kinds = {"string": str, "integer": int, "boolean": bool, "number": float}
            assert isinstance(value, kinds[spec["type"]]), where

    section = stack_cluster(stack)
    parse(section, where=stack)
    check({"$ref": f"#/types/{PACKAGE}:index:Cluster"}, section, stack)


def test_no_field_of_a_stack_is_untyped() -> None:
    schema = package_schema()
    assert len(PLATFORMS) >= 4
    for name, made in schema["types"].items():
        for field, spec in made["properties"].items():
            assert "Any" not in json.dumps(spec), f"{name}.{field}"


def test_the_plugins_folder_installs_this_checkout() -> None:
    """A public index has another project by the name, of which a version would be taken."""
    folder = REPO / "plugin"
    lines = (folder / "requirements.txt").read_text().splitlines()
    wanted = [line.partition("[")[0] for line in lines if not line.startswith("#")]
    named = [
        tomllib.loads((folder / path / "pyproject.toml").read_text())["project"]["name"]
        for path in wanted
    ]
    assert named == ["railhead-diagnose", "railhead"]
