"""What the production combination sends, against the CRDs that its releases publish."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.components.recording import Recording, fake_lab, lab_cluster, run_program

GROUPS = ("kueue.x-k8s.io", "trainer.kubeflow.org", "k8s.cni.cncf.io")


def strict(schema: Any) -> Any:
    """An openAPIV3Schema as JSON Schema that refuses what the API server would prune."""
    if isinstance(schema, list):
        return [strict(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {key: strict(inner) for key, inner in schema.items() if not key.startswith("x-")}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def whole(schema: Mapping[str, Any]) -> Any:
    """The schema of a whole object; its metadata is the API server's own business."""
    made = strict(schema)
    made["properties"]["metadata"] = {"type": "object"}
    return made


def published(shared: Path, groups: tuple[str, ...]) -> dict[tuple[str, str], Any]:
    """The schemas of the shared CRDs of ``groups``, by apiVersion and kind."""
    found = {}
    for path in sorted((shared / "crds").glob("*.yaml")):
        if not path.name.startswith(groups):
            continue
        for crd in yaml.safe_load_all(path.read_text()):
            for version in crd["spec"]["versions"] if crd else ():
                key = (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
                found[key] = whole(version["schema"]["openAPIV3Schema"])
    return found


@pytest.fixture(scope="module")
def schemas(shared: Path) -> dict[tuple[str, str], Any]:
    return published(shared, GROUPS)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return run_program(lab_cluster() | {"versions": "production"}, cache)


KINDS = (
    "ClusterQueue",
    "ClusterTrainingRuntime",
    "LocalQueue",
    "NetworkAttachmentDefinition",
    "ResourceFlavor",
    "Topology",
)


@pytest.mark.parametrize("kind", KINDS)
def test_it_fits_the_published_schema(
    recording: Recording, schemas: dict[tuple[str, str], Any], kind: str
) -> None:
    body = dict(recording.one(kind).inputs)
    validator = jsonschema.Draft7Validator(schemas[(body["apiVersion"], kind)])
    errors = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(body)]
    assert errors == []


def test_no_kind_is_left_out(recording: Recording) -> None:
    sent = {
        r.inputs["kind"]
        for r in recording.resources.values()
        if str(r.inputs.get("apiVersion", "")).startswith(GROUPS)
    }
    assert sent == set(KINDS)


def test_the_check_refuses_unknown_fields(
    recording: Recording, schemas: dict[tuple[str, str], Any]
) -> None:
    body = dict(recording.one("ClusterQueue").inputs)
    body["spec"] = body["spec"] | {"surprise": 1}
    validator = jsonschema.Draft7Validator(schemas[(body["apiVersion"], "ClusterQueue")])
    assert not validator.is_valid(body)
