"""What each combination from the registries sends, against the CRDs that its releases publish."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tests import crds
from tests.components.recording import Recording, fake_lab, lab_cluster, run_program

GROUPS = ("kueue.x-k8s.io", "trainer.kubeflow.org", "k8s.cni.cncf.io")


@pytest.fixture(scope="module", params=["proven", "newest-read"])
def versions(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def schemas(versions: str) -> dict[tuple[str, str], Any]:
    return crds.schemas(versions)


@pytest.fixture(scope="module")
def recording(versions: str, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return run_program(lab_cluster() | {"versions": versions}, cache)


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
