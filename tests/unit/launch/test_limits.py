"""Limits of a job file's values: the last that is taken and the first refused, for each field.

Editors mark by the schema what the command refuses, so each row is compared with both.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from railhead.base.errors import InputError
from railhead.launch.job import CheckpointFile, JobFile, SizingFile, parse_job, seconds
from railhead.launch.schema import text

MINIMAL = {"name": "a", "nodes": 1, "command": ["x"]}
SIXTY_FOUR = "0" * 64


def variables(count: int, value: str = "x") -> dict[str, str]:
    return {f"V{index}": value for index in range(count)}


# field -> (values that are taken, values that are not)
LIMITS: dict[str, tuple[list[Any], list[Any]]] = {
    "name": (["a", "a" * 45, "a-1"], ["a" * 46, "1a", "a-", "A", "-a", ""]),
    "nodes": ([1, 10_000], [0, 10_001]),
    "min_nodes": ([1, 10_000], [0, 10_001, "x"]),
    "gpus_per_node": ([1, 512], [0, 513]),
    "processes_per_node": ([1, 512], [0, 513]),
    "command": ([["x"], ["x"] * 128, ["x", ""]], [[], ["x"] * 129]),
    "env": (
        [variables(100), {"A.b-c": ""}, {"_A": "1"}, {"JOB_COMPLETION_INDEX2": "x"}],
        [variables(101), {"1A": "x"}, {"JOB_COMPLETION_INDEX": "1"}, {"RAILHEAD_X": "1"}],
    ),
    "files": (
        [["a"] * 1, ["a/b.py"], ["../a"], ["."], ["x" * 253], [f"f{i}" for i in range(100)]],
        [["a b"], ["a:b"], ["x" * 254], [f"f{i}" for i in range(101)]],
    ),
    "image": (
        ["a", "a:1", "h.io:5000/a/b_c.d--e:T.1-x", f"a@sha256:{SIXTY_FOUR}", "a:" + "t" * 128],
        ["a/B", "a:", "a b", "a@sha256:00", "a:" + "t" * 129, "h:123456/a", "a" * 501, "a//b"],
    ),
    "framework": (["torch", "a.b-1", "a" * 253], ["Torch", "a" * 254, "-a"]),
    "runtime": (["torch"], ["Torch"]),
    "queue": (["gpu"], ["GPU"]),
    "namespace": (["a"], ["A"]),
    "priority": (["high"], ["High"]),
    "fabric": (["none", "required"], ["own", ""]),
    "launcher": (["own", "none"], ["other", ""]),
    "timeout": (["1", "90s", "30m", "12h", "2d"], ["x", "1.5h", "12 h", "1w", "-1"]),
    "restarts": ([0, 1000], [-1, 1001, "x"]),
    "shm": (["1Mi", "16Gi", "999999Ti"], ["0Gi", "16G", "1.5Gi", "16", "1000000Ti", "64k"]),
    "secrets": (
        [variables(100, "s/k"), {"A": "s.t/K_1"}],
        [variables(101, "s/k"), {"A": "s"}, {"A": "S/k"}, {"A": "s/"}, {"1": "s/k"}],
    ),
    "mounts": (
        [{f"/d{i}": "c" for i in range(20)}, {"/data/x": "c:ro"}, {"/a_b.c-d": "c"}],
        [{f"/d{i}": "c" for i in range(21)}, {"/d": "c:"}, {"/d": "c:rw"}, {"/d": "C"}],
    ),
    "datasets": ([[], ["a"], [f"d{i}" for i in range(20)]], [["A"], [f"d{i}" for i in range(21)]]),
    "avoid": ([[], ["a.b"], [f"n{i}" for i in range(50)]], [["A"], [f"n{i}" for i in range(51)]]),
    "checkpoint": (
        [{}, {"path": "a/b"}, {"path": "a", "resume": "never"}, {"resume": "auto"}],
        [{"path": "/a"}, {"path": "a//b"}, {"resume": "no"}, {"path": "a" * 501}, {"x": "y"}],
    ),
    "verify": ([True, False], [1, "maybe", ""]),
    "logs": (["kept", "pods", "bare"], ["none", "", True]),
    "roles": (
        [
            {},
            {"a-1": {"nodes": 1, "command": ["x"]}},
            {"x" * 20: {"nodes": 2, "command": ["x"], "gpus_per_node": None, "env": {"A": "1"}}},
            {f"r{i}": {"nodes": 1, "command": ["x"], "image": "a"} for i in range(7)},
        ],
        [
            *({name: {"nodes": 1, "command": ["x"]}} for name in ("node", "x" * 21, "A", "a.b")),
            {"a": {"nodes": 1}},
            {"a": {"nodes": 0, "command": ["x"]}},
            {"a": {"nodes": 1, "command": ["x"], "queue": "b"}},
            {"a": {"nodes": 1, "command": ["x"], "env": {"RAILHEAD_X": "1"}}},
            {f"r{i}": {"nodes": 1, "command": ["x"]} for i in range(8)},
        ],
    ),
    "matrix": (
        [
            {},
            {"env.LR": ["1e-3", 1]},
            {"nodes": [1] * 100},
            {f"env.A{i}": ["x"] for i in range(10)},
        ],
        [
            *({field: ["x"]} for field in ("1", "Env.A", "env.", "env.A b")),
            {"env.A": []},
            {"env.A": ["x"] * 101},
            {f"env.A{i}": ["x"] for i in range(11)},
        ],
    ),
    "topology": (
        ["rack", "prefer rack", "4 in rack", "any", "k.io/rack", "x" * 316],
        ["prefer  a b", "x" * 317, "a b", "", "4 rack", "0 in rack", "prefer 4 in rack"],
    ),
    "sizing": (
        [
            {"params": value}
            for value in ("8e9", "70B", "0.5", 1, "1_000", "3k", "3K", "3M", "3T", "1e18")
        ]
        + [{"dtype": item} for item in ("bf16", "fp16", "fp32")]
        + [{"optimizer": item} for item in ("adamw", "sgd")],
        [
            {"params": "-1"},
            {"params": "1G"},
            {"params": "many"},
            {"dtype": "int8"},
            {"optimizer": "lion"},
            {"colour": "red"},
        ],
    ),
}
#: What the command refuses and a pattern cannot say.
BY_THE_COMMAND_ALONE: dict[str, list[Any]] = {
    "command": [[" "]],
    "files": [["a/x", "b/x"], [".."], ["a/.."]],
    "datasets": [["a", "a"]],
    "avoid": [["a", "a"]],
    "timeout": ["0", "2147483648", "24856d"],
    "mounts": [{"/": "c"}, {"/a/../b": "c"}, {"/./a": "c"}]
    + [
        {f"/{name}/x": "c"}
        for name in (
            *("bin", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var"),
            "workspace",
        )
    ],
    "checkpoint": [{"path": ".."}, {"path": "a/../b"}, {"path": "."}],
    "sizing": [{"params": "0"}, {"params": "1.1e18"}, {"seq_len": "0.5"}, {"tensor": "1.5"}],
    "topology": ["prefer", "prefer prefer"],
}


def test_every_field_has_its_limits() -> None:
    assert LIMITS.keys() == JobFile.model_fields.keys()


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(text()))


@pytest.mark.parametrize("field", LIMITS)
def test_the_last_that_is_taken_and_the_first_that_is_not(
    validator: jsonschema.Draft202012Validator, field: str
) -> None:
    taken, refused = LIMITS[field]
    for value in taken:
        written = yaml.safe_dump(MINIMAL | {field: value})
        parse_job(written, where="job.yaml")
        assert validator.is_valid(MINIMAL | {field: value}), value
    for value in [*refused, *BY_THE_COMMAND_ALONE.get(field, [])]:
        with pytest.raises(InputError) as caught:
            parse_job(yaml.safe_dump(MINIMAL | {field: value}), where="job.yaml")
        assert "job.yaml: 1 mistake\n" in caught.value.problem, value
        assert field in caught.value.problem, value
    for value in refused:
        assert not validator.is_valid(MINIMAL | {field: value}), value


@pytest.mark.parametrize("field", JobFile.model_fields)
def test_value_of_the_wrong_kind_lists_what_is_allowed(field: str) -> None:
    """Railhead's own words are used, since the library's name types of Python."""
    wrong = "x" if field in ("command", "files") else [["x"]]
    with pytest.raises(InputError) as caught:
        parse_job(yaml.safe_dump(MINIMAL | {field: wrong}), where="job.yaml")
    assert "; allowed: " in caught.value.problem
    for word in ("valid", "instance", "Input"):
        assert word not in caught.value.problem


@pytest.mark.parametrize(
    ("section", "field"),
    [("checkpoint", name) for name in CheckpointFile.model_fields]
    + [("sizing", name) for name in SizingFile.model_fields],
)
def test_likewise_in_a_section(section: str, field: str) -> None:
    written = yaml.safe_dump(MINIMAL | {section: {field: [["x"]]}})
    with pytest.raises(InputError, match=rf"{section}\.{field}: .*; allowed: ") as caught:
        parse_job(written, where="job.yaml")
    for word in ("valid", "instance", "Input"):
        assert word not in caught.value.problem


@pytest.mark.parametrize(
    ("written", "expected"),
    [("1", 1), ("90s", 90), ("30m", 1800), ("12h", 43200), ("2d", 172800), ("24855d", 2147472000)],
)
def test_durations(written: str, expected: int) -> None:
    assert seconds(written) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0.5", 0.5),
        ("8e9", 8000000000.0),
        ("3k", 3000.0),
        ("3K", 3000.0),
        ("4M", 4000000.0),
        ("70B", 70000000000.0),
        ("1T", 1000000000000.0),
        ("1_000", 1000.0),
        ("2.5e-1", 0.25),
        ("1e18", 1e18),
    ],
)
def test_amounts(written: str, expected: float) -> None:
    job = parse_job(yaml.safe_dump(MINIMAL | {"sizing": {"params": written}}), where="job.yaml")
    assert job.sizing is not None
    assert job.sizing.params == pytest.approx(expected)


def test_defaults_of_omitted_fields() -> None:
    job = parse_job(yaml.safe_dump(MINIMAL | {"sizing": {}, "checkpoint": {}}), where="job.yaml")
    assert job.sizing is not None
    assert job.checkpoint is not None
    assert (job.sizing.dtype, job.sizing.optimizer) == ("bf16", "adamw")
    assert (job.sizing.tensor, job.sizing.pipeline) == (1, 1)
    assert job.checkpoint.resume == "auto"
