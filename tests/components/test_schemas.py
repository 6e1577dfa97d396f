"""Objects of each combination of versions, checked against the CRDs that its releases publish."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tests import crds
from tests.components.recording import Recording, fake_lab, lab_cluster, run_program
from tests.marks import few

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
    "WorkloadPriorityClass",
)
# Kinds that a stack with teams adds.
COMBINED = ("lab", "proven", "newest-read", "kueue-0.15")
OF_TEAMS = ("ClusterQueue", "Cohort", "LocalQueue")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_fits_the_published_schema(
    recording: Recording, schemas: dict[tuple[str, str], Any], kind: str
) -> None:
    sent = recording.kind(kind)
    assert sent
    for resource in sent:
        body = dict(resource.inputs)
        validator = jsonschema.Draft7Validator(schemas[(body["apiVersion"], kind)])
        assert [f"{e.json_path}: {e.message}" for e in validator.iter_errors(body)] == []


@pytest.fixture(scope="module", params=few(COMBINED, ["lab", "newest-read"], others="slow"))
def with_teams(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Objects of a stack with teams, and the definitions of its combination of versions."""
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    raw = lab_cluster() | {"versions": request.param, "namespaces": [], "queues": []}
    share = {"pool": "gpu", "nodes": 1, "borrow": 1, "lend": 0}
    raw["teams"] = [
        {
            "name": name,
            "namespaces": [name, f"{name}-two"],
            "researchers": ["r"],
            "shares": [share],
            "weight": 2,
            "preemption": {"within": "lower-or-newer-equal", "borrow": "lower"},
        }
        for name in ("language", "vision")
    ]
    raw["fair"] = {"sharing": False, "half_life_hours": 168}
    claim = raw["checkpoints"][0]
    raw["checkpoints"] = [
        claim | {"namespace": name} for team in raw["teams"] for name in team["namespaces"]
    ]
    return run_program(raw, cache), crds.schemas(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_TEAMS)
def test_what_teams_have_fits_the_published_schema(with_teams: Any, kind: str) -> None:
    recording, schemas = with_teams
    sent = recording.kind(kind)
    assert len(sent) == {"ClusterQueue": 2, "Cohort": 1, "LocalQueue": 4}[kind]
    for resource in sent:
        body = dict(resource.inputs)
        validator = jsonschema.Draft7Validator(schemas[(body["apiVersion"], kind)])
        assert [f"{e.json_path}: {e.message}" for e in validator.iter_errors(body)] == []


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
