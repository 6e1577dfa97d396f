"""The objects: whole, in both shapes, accepted by the published schemas, text unchanged."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.launch import render
from railhead.launch.apis import objects
from railhead.launch.job import Payload, parse_job
from railhead.launch.patches import in_field, patched
from railhead.launch.plan import Plan, make_plan
from tests import crds
from tests.unit.launch.conftest import CONTRACT, JOB

GOLDEN = Path(__file__).parent / "golden"
FILES = (Payload(name="train.py", data=b"say('hello')\n"), Payload(name="w.bin", data=b"\xff\x00"))


def plan(trainer: str, files: tuple[Payload, ...] = FILES, sets: tuple[str, ...] = ()) -> Plan:
    field = {"2.1.0": "podTemplateOverrides", "2.3.0": "runtimePatches"}[trainer]
    contract = CONTRACT.model_copy(update={"placement_field": field})
    return make_plan(parse_job(JOB, where="job", sets=sets), files, contract)


@pytest.mark.parametrize(
    ("trainer", "name"), [("2.1.0", "trainjob-2.1"), ("2.3.0", "trainjob-2.3")]
)
def test_golden(trainer: str, name: str) -> None:
    """The rendered objects, line by line; a wanted change is copied from the failure."""
    expected = json.loads((GOLDEN / f"{name}.json").read_text())
    assert objects(plan(trainer)) == expected


SCHEMA = ("trainer.kubeflow.org/v1alpha1", "TrainJob")


@pytest.fixture(scope="module")
def schema_2_3() -> Any:
    return crds.schemas("newest-read")[SCHEMA]


@pytest.fixture(scope="module")
def schema_2_1() -> Any:
    return crds.schemas("lab")[SCHEMA]


def check(schema: Any, value: Any) -> list[str]:
    """Return the faults of an object against a schema."""
    validator = jsonschema.Draft7Validator(schema)
    return [f"{e.json_path}: {e.message}" for e in validator.iter_errors(value)]


@pytest.mark.parametrize("files", [FILES, ()])
def test_trainer_2_3_accepts_it(schema_2_3: Any, files: tuple[Payload, ...]) -> None:
    assert check(schema_2_3, render.train_job(plan("2.3.0", files))) == []


@pytest.mark.parametrize("files", [FILES, ()])
def test_trainer_2_1_accepts_it(schema_2_1: Any, files: tuple[Payload, ...]) -> None:
    assert check(schema_2_1, render.train_job(plan("2.1.0", files))) == []


def test_the_wrong_shape_is_an_unknown_field_to_each(schema_2_1: Any, schema_2_3: Any) -> None:
    """The API server would prune a known field, and the job would run without its files."""
    assert "runtimePatches" in check(schema_2_1, render.train_job(plan("2.3.0")))[0]
    problem = check(schema_2_3, render.train_job(plan("2.1.0")))[0]
    assert "podTemplateOverrides" in problem


@pytest.mark.parametrize("files", [FILES, ()])
@pytest.mark.parametrize("annotations", [{}, {"scheduling.volcano.sh/queue-name": "research"}])
def test_a_job_goes_to_the_other_shape_and_back(
    files: tuple[Payload, ...], annotations: dict[str, str]
) -> None:
    older = render.train_job(plan("2.1.0", files))["spec"]
    newer = render.train_job(plan("2.3.0", files))["spec"]
    if annotations:
        # As where Volcano admits gangs.
        older |= {"annotations": annotations}
        newer |= patched(newer, {"metadata": {"annotations": annotations}})
    for spec in (older, newer):
        assert in_field(spec, "runtimePatches") == newer
        assert in_field(spec, "podTemplateOverrides") == older


def test_a_job_that_patches_nothing_has_no_shape() -> None:
    spec = {"runtimeRef": {"name": "torch"}}
    assert in_field(spec, "runtimePatches") == in_field(spec, "podTemplateOverrides") == spec


def test_files_survive() -> None:
    (made,) = render.config_maps(plan("2.1.0"))
    assert made["data"] == {"train.py": "say('hello')\n"}
    assert base64.b64decode(made["binaryData"]["w.bin"]) == b"\xff\x00"


def test_image_only_when_asked() -> None:
    assert "image" not in render.train_job(plan("2.1.0"))["spec"]["trainer"]
    made = render.train_job(plan("2.1.0", sets=("image=a/b:c",)))
    assert made["spec"]["trainer"]["image"] == "a/b:c"


def expand(text: str, values: dict[str, str]) -> str:
    """Expand a command's words as a kubelet does, by its documented rules."""

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return values.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


@given(st.text(alphabet="$()aX {}`;|&\\'\"", max_size=20))
def test_words_reach_the_process_unchanged(text: str) -> None:
    assert expand(render.literal(text), {"X": "expanded", "aX": "expanded", "": "empty"}) == text


def test_the_kubelets_rules_would_change_it_unprotected() -> None:
    assert expand("a $(X) $$", {"X": "y"}) == "a y $"
    assert render.literal("plain $HOME ${X}") == "plain $HOME ${X}"


@pytest.mark.parametrize("trainer", ["2.1.0", "2.3.0"])
@pytest.mark.parametrize("files", [FILES, ()])
def test_words_reach_the_job_and_its_pods(
    trainer: str, files: tuple[Payload, ...], schema_2_1: Any, schema_2_3: Any
) -> None:
    job = render.train_job(plan(trainer, files, ("fabric=none", "launcher=own")))
    assert job["metadata"]["labels"]["railhead.dev/launcher"] == "own"
    assert check({"2.1.0": schema_2_1, "2.3.0": schema_2_3}[trainer], job) == []
    if trainer == "2.1.0":
        (patch,) = job["spec"]["podTemplateOverrides"]
    else:
        (outer,) = job["spec"]["runtimePatches"]
        (item,) = outer["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        patch = item["template"]["spec"]["template"]
    assert patch["metadata"] == {"labels": {"railhead.dev/fabric": "none"}}
    assert ("spec" in patch) == bool(files)


@pytest.mark.parametrize("word", ["$(X)", "$$(X)", "a$(X)$", "$HOME", "$$", "plain"])
def test_every_word_and_variable_of_a_job_is_protected(word: str) -> None:
    """The command's first word, its arguments and variables are treated alike."""
    given = dataclasses.replace(
        plan("2.1.0", sets=("logs=bare",)),
        command=(word, word, f"--x={word}"),
        env={"A": word, "B": "b"},
    )
    trainer = render.train_job(given)["spec"]["trainer"]
    values = {"X": "expanded", "": "empty"}
    assert [expand(w, values) for w in trainer["command"]] == [word]
    assert [expand(w, values) for w in trainer["args"]] == [word, f"--x={word}"]
    assert {v["name"]: expand(v["value"], values) for v in trainer["env"]} == {"A": word, "B": "b"}
