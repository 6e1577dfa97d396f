"""Property values to and from the wire."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from pulumi.output import Unknown
from pulumi.runtime import rpc

from railhead.lab.engine.provider import properties
from railhead.lab.engine.provider.properties import UNKNOWN, Asset, Secret

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**53), max_value=2**53)
    | st.text(max_size=8)
    | st.just(UNKNOWN)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | inner.filter(lambda value: not isinstance(value, Secret)).map(Secret)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_properties_survive_a_round_trip(bag: dict[str, Any]) -> None:
    assert properties.decode(properties.encode(bag)) == bag


def test_the_sdk_reads_what_we_write() -> None:
    bag = {"plain": [1, 2.5, "x", None], "hidden": Secret({"a": "b"}), "open": UNKNOWN}
    read = rpc.deserialize_properties(properties.encode(bag), keep_unknowns=True)
    assert read["plain"] == [1, 2.5, "x", None]
    assert rpc.unwrap_rpc_secret(read["hidden"]) == {"a": "b"}
    assert isinstance(read["open"], Unknown)


def test_without_secret_support_the_mark_is_dropped() -> None:
    assert properties.decode(properties.encode({"a": Secret("b")}, secrets=False)) == {"a": "b"}


def test_output_values_become_plain_or_secret_values() -> None:
    struct = struct_pb2.Struct()
    output = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
    json_format.ParseDict(
        {
            "known": {properties.SIGNATURE_KEY: output, "value": "v"},
            "secret": {properties.SIGNATURE_KEY: output, "value": "v", "secret": True},
            "unknown": {properties.SIGNATURE_KEY: output},
        },
        struct,
    )
    assert properties.decode(struct) == {"known": "v", "secret": Secret("v"), "unknown": UNKNOWN}


def test_assets_keep_their_form_and_give_their_text(tmp_path: Any) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("a: 1\n")
    raw = {properties.SIGNATURE_KEY: "c44067f5952c0a294b673a41bacd8c17", "path": str(file)}
    struct = struct_pb2.Struct()
    json_format.ParseDict({"file": raw}, struct)
    bag = properties.decode(struct)
    assert isinstance(bag["file"], Asset)
    assert bag["file"].text() == "a: 1\n"
    assert json_format.MessageToDict(properties.encode(bag)) == {"file": raw}
    with pytest.raises(ValueError, match="remote asset"):
        Asset(raw={"uri": "https://example.com/x"}).text()


def test_marks_follow_the_inputs() -> None:
    outputs = {"kind": "ConfigMap", "data": {"a": "1", "b": "2"}, "list": [1, 2], "more": 3}
    inputs = {"data": {"a": "1", "b": Secret("2")}, "list": [1, Secret(2)]}
    properties.mark_secrets(outputs, inputs)
    assert outputs == {
        "kind": "ConfigMap",
        "data": {"a": "1", "b": Secret("2")},
        "list": Secret([1, 2]),
        "more": 3,
    }


def test_data_of_a_secret_is_always_secret() -> None:
    outputs: dict[str, Any] = {"kind": "Secret", "data": {"a": "1"}, "metadata": {"name": "n"}}
    properties.mark_secrets(outputs, {})
    assert outputs["data"] == Secret({"a": "1"})
    assert outputs["metadata"] == {"name": "n"}


def test_names_that_sdks_cannot_spell() -> None:
    sdk = {"schema": {"x_kubernetes_preserve_unknown_fields": True, "x_other": [Secret(1)]}}
    cluster = {"schema": {"x-kubernetes-preserve-unknown-fields": True, "x_other": [1]}}
    assert properties.to_cluster(sdk) == cluster
    assert properties.to_pulumi(cluster)["schema"]["x_kubernetes_preserve_unknown_fields"] is True


def test_a_secret_never_shows_in_a_traceback() -> None:
    assert "hunter2" not in repr([Secret("hunter2")])
