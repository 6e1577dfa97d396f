"""Diffs of objects: changed fields, replacements that they force, and drift."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.lab.engine.provider import diffing
from railhead.lab.engine.provider.diffing import Change
from railhead.lab.engine.provider.properties import UNKNOWN

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=10,
)


def changes(old: Any, new: Any) -> dict[str, Change]:
    return {diffing.path_text(path): change for path, (change, _) in diffing.diff(old, new).items()}


@given(JSON)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert diffing.diff(value, value) == {}


@given(st.dictionaries(st.text(min_size=1, max_size=4), JSON), JSON)
def test_live_inputs_without_movement_are_the_inputs(inputs: dict[str, Any], live: Any) -> None:
    assert diffing.live_inputs(inputs, live, live) == inputs
    assert diffing.live_inputs(inputs, inputs, inputs) == inputs


def test_paths_and_kinds_of_changes() -> None:
    old = {"a": 1, "b": {"c": [1, {"d": 2}]}, "gone": "x", "n": 1}
    new = {"a": 2, "b": {"c": [1, {"d": 3}, 4]}, "new.key": "y", "n": 1.0}
    assert changes(old, new) == {
        "a": Change.UPDATE,
        "b.c[1].d": Change.UPDATE,
        "b.c[2]": Change.ADD,
        "gone": Change.DELETE,
        '["new.key"]': Change.ADD,
    }


def test_empty_values_are_no_change() -> None:
    assert changes({"a": None}, {}) == {}
    assert changes({}, {"a": None, "b": {}, "c": []}) == {}
    assert changes({"b": {}}, {"b": None}) == {}


def test_true_differs_from_one_and_unknown_is_a_change() -> None:
    assert changes({"a": 1}, {"a": True}) == {"a": Change.UPDATE}
    assert changes({"a": 1}, {"a": UNKNOWN}) == {"a": Change.UPDATE}
    assert changes({}, {"a": UNKNOWN}) == {"a": Change.ADD}


@pytest.mark.parametrize(
    ("obj", "old", "new", "forced"),
    [
        ("apps/v1 Deployment", {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}, []),
        (
            "apps/v1 Deployment",
            {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
            {"spec": {"selector": {"matchLabels": {"a": "c"}}}},
            ["spec.selector.matchLabels.a"],
        ),
        ("apps/v1 Deployment", {}, {"spec": {"selector": {"a": 1}}}, ["spec"]),
        (
            "batch/v1 Job",
            {"spec": {"template": {"spec": {"containers": [{"image": "a"}]}}}},
            {"spec": {"template": {"spec": {"containers": [{"image": "b"}]}}}},
            ["spec.template.spec.containers[0].image"],
        ),
        ("batch/v1 Job", {"spec": {"suspend": True}}, {"spec": {"suspend": False}}, []),
        (
            "v1 Pod",
            {"spec": {"containers": [{"image": "a"}]}},
            {"spec": {"containers": [{"image": "b"}]}},
            ["spec.containers[0].image"],
        ),
        ("v1 ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, ["data.a"]),
        ("v1 Secret", {"data": {"a": "1"}}, {"data": {"a": "2"}}, ["data.a"]),
        (
            "v1 Service",
            {"spec": {"clusterIP": "1"}},
            {"spec": {"clusterIP": "2"}},
            ["spec.clusterIP"],
        ),
        (
            "v1 PersistentVolumeClaim",
            {"spec": {"resources": {"requests": {"storage": "1Gi"}}}},
            {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
            [],
        ),
        (
            "v1 PersistentVolumeClaim",
            {"spec": {"storageClassName": "a"}},
            {"spec": {"storageClassName": "b"}},
            ["spec.storageClassName"],
        ),
        (
            "storage.k8s.io/v1 StorageClass",
            {"parameters": {"a": "1"}},
            {"parameters": {"a": "2"}},
            ["parameters.a"],
        ),
        (
            "rbac.authorization.k8s.io/v1 RoleBinding",
            {"roleRef": {"name": "a"}},
            {"roleRef": {"name": "b"}},
            ["roleRef.name"],
        ),
        (
            "kueue.x-k8s.io/v1beta2 ClusterQueue",
            {"metadata": {"name": "a"}, "spec": {"x": 1}},
            {"metadata": {"name": "b"}, "spec": {"x": 2}},
            ["metadata.name"],
        ),
    ],
)
def test_what_forces_a_replacement(
    obj: str, old: dict[str, Any], new: dict[str, Any], forced: list[str]
) -> None:
    api_version, kind = obj.split(" ")
    patterns = diffing.force_new_paths({"apiVersion": api_version, "kind": kind, **new})
    results = [
        diffing.path_text(path)
        for path, (change, value) in diffing.diff(old, new).items()
        if diffing.replaces(path, value, change, patterns)
    ]
    assert results == forced


def test_mutable_config_maps_and_frozen_ones() -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert ".data" not in diffing.force_new_paths(config_map, config_map_mutable=True)
    frozen = {**config_map, "immutable": True}
    assert ".data" in diffing.force_new_paths(frozen, config_map_mutable=True)


@pytest.mark.parametrize(
    "text",
    ["a", "a.b", "a[0].b", 'a["b.c/d"].e', 'metadata.annotations["x.y"]', '["q\\"q"]'],
)
def test_paths_are_read_as_they_are_written(text: str) -> None:
    assert diffing.path_text(diffing.parse_path(text)) == text


@pytest.mark.parametrize("text", ['a["b', "a[0"])
def test_broken_paths_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="missing closing"):
        diffing.parse_path(text)


def test_ignored_paths() -> None:
    outer = diffing.parse_path("spec.containers[*].image")
    assert diffing.path_contains(outer, ("spec", "containers", 3, "image"))
    assert diffing.path_contains(diffing.parse_path("spec"), ("spec", "x", 0))
    assert not diffing.path_contains(outer, ("spec", "containers"))


def test_string_data_is_data() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "x"}, "data": {"b": "eQ=="}}
    assert diffing.normalize(secret)["data"] == {"a": "eA==", "b": "eQ=="}
    assert "stringData" not in diffing.normalize(secret)
    unknown = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": UNKNOWN}}
    assert diffing.normalize(unknown)["stringData"] == {"a": UNKNOWN}


def test_drift_is_what_moved_among_the_managed_fields() -> None:
    inputs = {"spec": {"cpu": "0.5", "replicas": 2, "kept": {"a": 1}, "pruned": 1}}
    before = {"spec": {"cpu": "500m", "replicas": 2, "kept": {"a": 1}, "default": 1}}
    now = {"spec": {"cpu": "500m", "replicas": 3, "kept": {"a": 1, "b": 2}, "default": 2}}
    assert diffing.live_inputs(inputs, before, now) == {
        "spec": {"cpu": "0.5", "replicas": 3, "kept": {"a": 1}, "pruned": 1}
    }
    gone = {"spec": {"cpu": "500m", "kept": {"a": 1}}}
    assert diffing.live_inputs(inputs, before, gone) == {
        "spec": {"cpu": "0.5", "kept": {"a": 1}, "pruned": 1}
    }


def test_drift_in_lists_follows_their_kind() -> None:
    inputs = {"c": [{"name": "a", "image": "1"}]}
    before = {"c": [{"name": "a", "image": "1", "pull": "x"}]}
    sidecar = {"c": [{"name": "s"}, {"name": "a", "image": "1", "pull": "x"}]}
    fields: dict[str, Any] = {"f:c": {'k:{"name":"a"}': {"f:name": {}, "f:image": {}}}}
    assert diffing.live_inputs(inputs, before, sidecar, fields) == inputs
    moved = {"c": [{"name": "a", "image": "2", "pull": "x"}]}
    assert diffing.live_inputs(inputs, before, moved, fields)["c"][0]["image"] == "2"
    # An atomic list belongs to its owner whole: one more element is drift.
    atomic: dict[str, Any] = {"f:c": {}}
    assert diffing.live_inputs(inputs, before, sidecar, atomic) == sidecar
    # A set is owned value by value.
    values = {"s": ["x", "y"]}
    owned: dict[str, Any] = {"f:s": {'v:"x"': {}, 'v:"y"': {}}}
    assert diffing.live_inputs(values, {"s": ["x", "y"]}, {"s": ["y", "z"]}, owned) == {"s": ["y"]}


def test_union_of_managed_fields() -> None:
    live = {
        "metadata": {
            "managedFields": [
                {"manager": "m", "fieldsV1": {"f:a": {"f:b": {}}}},
                {"manager": "m", "fieldsV1": {"f:a": {"f:c": {}}, "f:d": {}}},
                {"manager": "m", "subresource": "status", "fieldsV1": {"f:status": {}}},
                {"manager": "other", "fieldsV1": {"f:x": {}}},
            ]
        }
    }
    assert diffing.managed_fields(live, "m") == {"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}}


def test_imported_inputs_are_what_a_person_would_write() -> None:
    live = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "n",
            "uid": "u",
            "resourceVersion": "1",
            "managedFields": [],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "data": {"a": "1"},
        "status": {},
    }
    assert diffing.imported_inputs(live) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "n"},
        "data": {"a": "1"},
    }
