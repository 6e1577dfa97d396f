"""Comparing what a stack says with what is live, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railhead.base.differences import differences, undoing
from railhead.base.errors import ExitCode
from railhead.cli import run
from railhead.drift import Drift, Severity, metrics, objects, releases
from railhead.watch.metrics import METRICS
from tests.components.recording import STACKS, recorded


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ({"cpu": "2000m"}, {"cpu": "2"}),
        ({"replicas": 2.0}, {"replicas": 2, "strategy": {"type": "RollingUpdate"}}),
        ({"list": [], "flag": False, "none": None}, {}),
        ({"data": {"4dabf18193072939515e22adb298388d": "x", "ciphertext": "y"}}, {"data": "z"}),
        ({"__internal": 1, "status": {"a": 1}}, {}),
    ],
)
def test_no_difference(wanted: dict[str, Any], live: dict[str, Any]) -> None:
    assert not list(differences(wanted, live))


@pytest.mark.parametrize(
    ("wanted", "live", "row"),
    [
        ({"a": {"b": "1"}}, {"a": {"b": "2"}}, ("a.b", "1", "2")),
        ({"a": {"b": "1"}}, {}, ("a.b", "1", "None")),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ("a[0].b", "1", "2")),
        ({"a": [{"b": 1}]}, {"a": []}, ("a", "1: [{'b': 1}]", "0: []")),
        ({"a": ["x"]}, {"a": ["x", "y"]}, ("a", "", "['y']")),
        ({"a": ["x"]}, {"a": ["y"]}, ("a", "['x']", "['y']")),
        ({"a": False}, {"a": True}, ("a", "False", "True")),
        ({"a": ""}, {"a": "x"}, ("a", "nothing", "x")),
    ],
)
def test_a_difference(wanted: dict[str, Any], live: dict[str, Any], row: tuple[str, ...]) -> None:
    assert list(differences(wanted, live)) == [row]


@pytest.mark.parametrize(
    ("kind", "given", "live", "rows"),
    [
        ("LocalQueue", {}, {"stopPolicy": "None"}, []),
        ("LocalQueue", {}, {"stopPolicy": "Hold"}, [("spec.stopPolicy", "Hold")]),
        ("LocalQueue", {"stopPolicy": "Hold"}, {"stopPolicy": "Hold"}, []),
        ("ResourceFlavor", {}, {"stopPolicy": "Hold"}, []),
        # As the API server fills a guard in.
        (
            "ValidatingAdmissionPolicy",
            {"matchConstraints": {"resourceRules": [1]}},
            {
                "matchConstraints": {
                    "resourceRules": [1],
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {},
                }
            },
            [],
        ),
        (
            "ValidatingAdmissionPolicyBinding",
            {"paramRef": {"selector": {}}},
            {"paramRef": {"selector": {"a": "b"}}, "matchResources": {"matchPolicy": "Exact"}},
            [
                ("spec.matchResources.matchPolicy", "Exact"),
                ("spec.paramRef.selector", "{'a': 'b'}"),
            ],
        ),
    ],
)
def test_what_undoes_an_object_is_told_though_the_stack_says_nothing_of_it(
    kind: str, given: dict[str, Any], live: dict[str, Any], rows: list[tuple[str, str]]
) -> None:
    assert list(undoing(kind, {"spec": given}, {"spec": live})) == rows


def test_only_kubernetes_objects_that_are_there_are_compared() -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    one = {"custom": True, "type": "kubernetes:core/v1:Namespace", "inputs": body}
    state = {
        "deployment": {
            "resources": [
                one,
                one | {"delete": True},
                one | {"external": True},
                one | {"custom": False},
                one | {"type": "aws:ec2/vpc:Vpc"},
                one
                | {
                    "type": "kubernetes:helm.sh/v3:Release",
                    "inputs": {"name": "kueue", "namespace": "kueue-system"},
                },
            ]
        }
    }
    assert objects(state) == [body]
    assert releases(state) == [("kueue-system", "kueue")]


@pytest.mark.parametrize("stack", STACKS)
def test_the_stack_s_provider_takes_its_fields_back(stack: str) -> None:
    """Else `pulumi up --refresh` is refused as a conflict; see tests/engine."""
    providers = recorded(stack).of_type("pulumi:providers:kubernetes")
    assert providers
    assert all(str(p.inputs["enablePatchForce"]).lower() == "true" for p in providers)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"deployment": 1}'])
def test_a_file_that_is_no_state_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    stack = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.lab.yaml"
    assert run(["drift", str(stack), "--state", str(file)]) == ExitCode.BAD_INPUT


def test_metrics_tell_each_severity_and_when(tmp_path: Path) -> None:
    found = [
        Drift(severity=Severity.GUARD, subject="a"),
        Drift(severity=Severity.ADDED, subject="b"),
        Drift(severity=Severity.ADDED, subject="c"),
    ]
    text = metrics.rendered("prod", found, 1234.5)
    assert 'railhead_drift_differences{stack="prod",severity="guard"} 1\n' in text
    assert 'railhead_drift_differences{stack="prod",severity="gone"} 0\n' in text
    assert 'railhead_drift_differences{stack="prod",severity="added"} 2\n' in text
    assert 'railhead_drift_checked_timestamp_seconds{stack="prod"} 1234\n' in text
    assert {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")} == {
        metric.name for metric in METRICS.values() if metric.exporter == "drift"
    }
    metrics.write(tmp_path / "drift.prom", text)
    assert [path.name for path in tmp_path.iterdir()] == ["drift.prom"]
    assert (tmp_path / "drift.prom").read_text() == text
