"""Inputs as the SDK hands them to rules: each gets its own copy, parsed once."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2
from pulumi_policy import policy
from pulumi_policy.deserialize import SPECIAL_SECRET_SIG, SPECIAL_SIG_KEY, deserialize_properties
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from railhead.policies import reading
from railhead.policies.plan import plain

CONTENT: Any = {
    "metadata": {"name": UNKNOWN_STRING_VALUE, "labels": {"a": "b"}},
    "ports": [{"port": 80.0}, UNKNOWN_STRING_VALUE, []],
    "token": {SPECIAL_SIG_KEY: SPECIAL_SECRET_SIG, "value": "x"},
    "replicas": None,
}


def _message() -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    message.update(CONTENT)
    return message


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("json_format", "deserialize_properties", "unknown_checking_proxy"):
        monkeypatch.setattr(policy, name, getattr(policy, name))
    reading.read_late()
    return policy


def _read(sdk: Any, message: struct_pb2.Struct) -> Any:
    parsed = sdk.json_format.MessageToDict(message)
    return sdk.unknown_checking_proxy(sdk.deserialize_properties(parsed))


def test_rules_read_what_the_sdk_reads(sdk: Any) -> None:
    expected = unknown_checking_proxy(deserialize_properties(json_format.MessageToDict(_message())))
    given = _read(sdk, _message())
    assert isinstance(given, reading.Inputs)
    assert plain(given) == plain(expected)
    assert (list(given), len(given), given["token"]) == (list(expected), len(expected), "x")
    with pytest.raises(UnknownValueError) as raised:
        given["metadata"]["name"]
    assert raised.value.message == "string value at .metadata.name can't be known during preview"


def test_what_a_rule_writes_is_its_own(sdk: Any) -> None:
    message = _message()
    first, second = _read(sdk, message), _read(sdk, message)
    first["replicas"] = 3
    first["metadata"]["labels"]["a"] = "c"
    first["paused"] = True
    assert (first["replicas"], first["metadata"]["labels"]["a"]) == (3, "c")
    assert ("paused" in list(first), "paused" in second) == (True, False)
    assert (second["replicas"], second["metadata"]["labels"]["a"]) == (None, "b")


def test_remediations_read_as_the_sdk_has_it(sdk: Any) -> None:
    parsed = json_format.MessageToDict(_message())
    given = sdk.unknown_checking_proxy(sdk.deserialize_properties(parsed, True))
    assert not isinstance(given, reading.Inputs)
    # Whatever else a later SDK takes from there.
    assert sdk.json_format.ParseDict is json_format.ParseDict


def test_inputs_are_parsed_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []

    def parse(message: Any) -> str:
        parsed.append(message)
        return str(len(parsed))

    monkeypatch.setattr(reading, "_PARSED", 2)
    once = reading._once(parse)
    messages = [_message(), _message(), _message()]
    assert [once(messages[i]) for i in (0, 1, 0, 1)] == ["1", "2", "1", "2"]
    # Two are held, and the third drops them.
    assert [once(messages[i]) for i in (2, 0)] == ["3", "4"]


def test_an_sdk_that_is_built_otherwise_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(policy, "deserialize_properties")
    before = vars(policy)["unknown_checking_proxy"]
    reading.read_late()
    assert vars(policy)["unknown_checking_proxy"] is before
