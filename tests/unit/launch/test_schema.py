"""The schema for editors: what a job file may say it lets through, and what it marks is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.base.errors import InputError
from railhead.launch.job import JobFile, parse_job
from railhead.launch.schema import FILE, MODELINE, NAME, job_schema, text

MINIMAL = {"name": "a", "nodes": 1, "command": ["x"]}


class _Core(yaml.SafeLoader):
    """YAML as editors read it: 1.2's core schema has no dates, and `yes` is text."""


_Core.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolver
        if not tag.endswith((":timestamp", ":bool")) or (tag.endswith(":bool") and first in "tTfF")
    ]
    for first, resolver in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def marked(validator: jsonschema.Draft202012Validator, written: str) -> list[str]:
    read = yaml.load(written, Loader=_Core)
    return sorted(".".join(map(str, error.absolute_path)) for error in validator.iter_errors(read))


def test_committed_schema_matches_the_model(repo: Path) -> None:
    assert (repo / FILE).read_text() == text(), f"run `railhead init --schema > {FILE}`"


def test_every_field_is_in_it_and_says_what_it_is() -> None:
    properties = job_schema()["properties"]
    assert list(properties) == list(JobFile.model_fields)
    inner = properties["checkpoint"]["properties"]
    for name, held in {**properties, **inner}.items():
        assert len(held["description"].split()) >= 3, name
    assert properties["checkpoint"]["description"].startswith("Where checkpoints lie")
    assert inner["resume"]["description"].startswith("`auto` resumes from what is there")


def test_the_examples_name_it_and_satisfy_it(
    validator: jsonschema.Draft202012Validator, repo: Path
) -> None:
    shipped = sorted((repo / "examples").glob("*.yaml"))
    assert len(shipped) >= 5
    for path in shipped:
        written = path.read_text()
        assert written.startswith(MODELINE + "\n"), path.name
        assert (path.parent / NAME).is_file()
        assert marked(validator, written) == [], path.name


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("colour: red", ""),
        ("name: Not_A_Name", "name"),
        ("name: null", "name"),
        (f"name: {'a' * 46}", "name"),
        ("nodes: 0", "nodes"),
        ("nodes: two", "nodes"),
        ("nodes: '2'", "nodes"),
        ("gpus_per_node: 513", "gpus_per_node"),
        ("command: train.py", "command"),
        ("command: []", "command"),
        ("env: {RAILHEAD_JOB: x}", "env"),
        ("env: {1A: x}", "env"),
        ("env: {A: [x]}", "env.A"),
        ("env: {A: null}", "env.A"),
        ("image: UPPER/Case", "image"),
        ("fabric: some", "fabric"),
        ("launcher: mine", "launcher"),
        ("timeout: 12 hours", "timeout"),
        ("secrets: {TOKEN: no-key}", "secrets.TOKEN"),
        ("mounts: {data: claim}", "mounts"),
        ("mounts: {/data: claim:rw}", "mounts./data"),
        ("checkpoint: {resume: maybe}", "checkpoint.resume"),
        ("checkpoint: {path: /absolute}", "checkpoint.path"),
        ("checkpoint: {where: x}", "checkpoint"),
        ("topology: near the rack", "topology"),
        ("priority: -high", "priority"),
        ("files: [a/b c]", "files.0"),
    ],
)
def test_command_refuses_what_the_schema_marks(
    validator: jsonschema.Draft202012Validator, line: str, at: str
) -> None:
    field = line.partition(":")[0]
    rest = {key: value for key, value in MINIMAL.items() if key != field}
    written = line + "\n" + yaml.safe_dump(rest)
    assert marked(validator, written) == [at]
    with pytest.raises(InputError):
        parse_job(written, where="job.yaml")


@pytest.mark.parametrize(
    "field", [n for n, f in JobFile.model_fields.items() if not f.is_required()]
)
def test_a_field_without_a_value_was_left_out(
    validator: jsonschema.Draft202012Validator, field: str
) -> None:
    written = yaml.safe_dump(MINIMAL) + f"{field}: null\n"
    assert marked(validator, written) == []
    parse_job(written, where="job.yaml")


def test_missing_required_fields_are_marked(validator: jsonschema.Draft202012Validator) -> None:
    texts = [error.message for error in validator.iter_errors({})]
    assert [field for field in MINIMAL if any(f"'{field}'" in item for item in texts)] == [*MINIMAL]


WORDS = (
    "a A 1 1.5 true yes null none own auto never 12h 2d 90 1e3 rack a/b a/b:ro /a .. . ./a/. a/.. "
    "x/y:1 x:5000/y@sha256:00 prefer 0x10 ~ 2026-01-01 '1' -a a- any"
)
SPACED = ["", "prefer rack", "a b", "prefer  rack", "'a\\nb'", '"\\u2028"']
SCALAR = st.sampled_from([*WORDS.split(), *SPACED])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Job files of all sorts, as text; many are legal, for each begins with a legal one."""
    fields = {"name": "demo", "nodes": "2", "command": "[a, 1, true, 0.10]"}
    for name in draw(st.lists(st.sampled_from([*JobFile.model_fields]), max_size=2)):
        listed = ", ".join(draw(st.lists(SCALAR, max_size=3)))
        keys = st.sampled_from(["A", "/data", "path", "resume", "B.c", "RANK", "/"])
        pairs = draw(st.dictionaries(keys, SCALAR, max_size=2))
        mapped = ", ".join(f"{key}: {value}" for key, value in pairs.items())
        fields[name] = draw(st.one_of(SCALAR, st.just(f"[{listed}]"), st.just(f"{{{mapped}}}")))
    return "\n".join(f"{name}: {value}" for name, value in fields.items())


@settings(max_examples=150, deadline=None)
@given(written=documents())
def test_accepted_values_are_not_marked(
    validator: jsonschema.Draft202012Validator, written: str
) -> None:
    try:
        parse_job(written, where="job.yaml")
    except InputError:
        return
    assert marked(validator, written) == [], written


def test_the_generated_files_are_often_legal() -> None:
    """The property above says something only where enough of them are."""
    seen: list[bool] = []

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(written=documents())
    def count(written: str) -> None:
        try:
            parse_job(written, where="job.yaml")
        except InputError:
            seen.append(False)
        else:
            seen.append(True)

    count()
    assert sum(seen) >= 10, sum(seen)


def test_init_prints_it_without_a_cluster(capsys: Any) -> None:
    from railhead import cli

    assert cli.run(["init", "--schema"]) == 0
    assert capsys.readouterr().out == text()
