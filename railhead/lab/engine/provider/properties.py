"""Pulumi's property values in Python, with secrets and unknowns kept apart from plain data.

A value is None, bool, int, float, str, list, dict, or one of :class:`Secret`, :class:`Asset` and
:data:`UNKNOWN`. The wire format is sdk/go/common/resource/plugin/rpc.go of Pulumi.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from google.protobuf import struct_pb2

SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
_HIDDEN = "1b47061264138c4ac30d75fd1eb44270"
_ASSET = "c44067f5952c0a294b673a41bacd8c17"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_UNKNOWN_STRINGS = frozenset(
    (
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    )
)
_UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

# Property names that the SDKs cannot spell (provider.go, underscoreToDashMap).
_TO_CLUSTER = {
    f"x_kubernetes_{name}": f"x-kubernetes-{name.replace('_', '-')}"
    for name in (
        "embedded_resource",
        "int_or_string",
        "list_map_keys",
        "list_type",
        "map_type",
        "preserve_unknown_fields",
        "validations",
    )
}
_TO_PULUMI = {dashed: underscored for underscored, dashed in _TO_CLUSTER.items()}


class Unknown:
    """A value that is known only after other resources exist; previews only."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __copy__(self) -> Unknown:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Unknown:
        return self


UNKNOWN: Final = Unknown()


@dataclass(frozen=True)
class Secret:
    """A value that must be encrypted in state and never shown."""

    value: Any

    def __repr__(self) -> str:
        return "Secret(...)"


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file or a text, with the wire form kept for the way back."""

    raw: Mapping[str, Any]

    def text(self) -> str:
        """Return the content.

        Raises:
            OSError: the file cannot be read.
            ValueError: the asset is a remote one.
        """
        if self.raw.get("text"):
            return str(self.raw["text"])
        if self.raw.get("path"):
            return Path(self.raw["path"]).read_text()
        if self.raw.get("uri"):
            raise ValueError(f"remote asset {self.raw['uri']!r}: use a FileAsset or StringAsset")
        return ""


def decode(struct: struct_pb2.Struct | None) -> dict[str, Any]:
    """Return a property bag from the wire; empty for None."""
    if struct is None:
        return {}
    return {key: _decode_value(value) for key, value in struct.fields.items()}


def _decode_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if text in _UNKNOWN_STRINGS else text
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_decode_value(item) for item in value.list_value.values]
    if kind == "struct_value":
        return _decode_object(value.struct_value)
    return None


def _decode_object(struct: struct_pb2.Struct) -> Any:
    fields = struct.fields
    if SIGNATURE_KEY not in fields:
        return decode(struct)
    signature = fields[SIGNATURE_KEY].string_value
    if signature == _HIDDEN:
        inner = _decode_value(fields["value"])
        return inner if isinstance(inner, Secret) else Secret(inner)
    if signature == _OUTPUT:
        inner = _decode_value(fields["value"]) if "value" in fields else UNKNOWN
        secret = "secret" in fields and fields["secret"].bool_value
        return Secret(inner) if secret and not isinstance(inner, Secret) else inner
    if signature == _ASSET:
        return Asset(raw=decode(struct))
    return decode(struct)


def encode(properties: Mapping[str, Any], *, secrets: bool = True) -> struct_pb2.Struct:
    """Return properties for the wire; ``secrets=False`` for an engine that takes no secrets."""
    struct = struct_pb2.Struct()
    for key, value in properties.items():
        struct.fields[key].CopyFrom(_encode_value(value, secrets))
    return struct


def _encode_value(value: Any, secrets: bool) -> struct_pb2.Value:
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, (int, float)):
        return struct_pb2.Value(number_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    if isinstance(value, Unknown):
        return struct_pb2.Value(string_value=_UNKNOWN_STRING)
    if isinstance(value, Secret):
        if not secrets:
            return _encode_value(value.value, secrets)
        wrapped = struct_pb2.Struct()
        wrapped.fields[SIGNATURE_KEY].string_value = _HIDDEN
        wrapped.fields["value"].CopyFrom(_encode_value(value.value, secrets))
        return struct_pb2.Value(struct_value=wrapped)
    if isinstance(value, Asset):
        return struct_pb2.Value(struct_value=encode(value.raw, secrets=secrets))
    if isinstance(value, Mapping):
        return struct_pb2.Value(struct_value=encode(value, secrets=secrets))
    items = struct_pb2.ListValue(values=[_encode_value(item, secrets) for item in value])
    return struct_pb2.Value(list_value=items)


def plain(value: Any) -> Any:
    """Return the value without secret marks, at any depth; unknowns and assets stay."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Return whether an unknown lies anywhere inside."""
    if isinstance(value, Unknown):
        return True
    if isinstance(value, Secret):
        return has_unknown(value.value)
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return False


def has_secret(value: Any) -> bool:
    """Return whether a secret lies anywhere inside."""
    if isinstance(value, Secret):
        return True
    if isinstance(value, Mapping):
        return any(has_secret(item) for item in value.values())
    if isinstance(value, list):
        return any(has_secret(item) for item in value)
    return False


def mark_secrets(outputs: dict[str, Any], inputs: Mapping[str, Any]) -> None:
    """Mark in ``outputs`` what is secret in ``inputs``, in place, as the official provider does.

    Objects are compared member by member; where anything else in the inputs holds a secret the
    whole output value becomes secret. ``data`` and ``stringData`` of a Secret always are.
    """
    if outputs.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if key in outputs and not isinstance(outputs[key], Secret):
                outputs[key] = Secret(outputs[key])
        return
    for key, given in inputs.items():
        if key not in outputs:
            continue
        result = outputs[key]
        if isinstance(result, dict) and isinstance(given, Mapping):
            mark_secrets(result, given)
        elif not isinstance(result, Secret) and has_secret(given):
            outputs[key] = Secret(result)


def to_cluster(value: Any) -> Any:
    """Plain data with property names as Kubernetes spells them."""
    return _rename(plain(value), _TO_CLUSTER)


def to_pulumi(value: Any) -> Any:
    """Plain data with property names as the SDKs spell them."""
    return _rename(value, _TO_PULUMI)


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {names.get(key, key): _rename(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_rename(item, names) for item in value]
    return value
