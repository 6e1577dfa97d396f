"""Inputs of resources as Pulumi's SDK hands them to rules, read when a rule looks at them.

The SDK parses, copies and wraps all inputs again for each rule, and for a rule over the stack those
of all resources (pulumi_policy 1.21.0, policy.py: Analyze, AnalyzeStack). Most rules look at few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import Message
from pulumi_policy import policy
from pulumi_policy.deserialize import deserialize_properties
from pulumi_policy.proxy import unknown_checking_proxy

# How many resources' inputs stay parsed: a large stack's.
_PARSED: Final = 20_000


class Inputs(Mapping[str, Any]):
    """A rule's own copy of a resource's inputs, made when the rule looks at it.

    Raises:
        UnknownValueError: a value is not known before the update, as the SDK's own copy does.
    """

    def __init__(self, parsed: dict[str, Any]) -> None:
        self._parsed = parsed

    @cached_property
    def _copy(self) -> Any:
        return unknown_checking_proxy(deserialize_properties(self._parsed))

    def __getitem__(self, key: str) -> Any:
        return self._copy[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._copy[key] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._copy)

    def __len__(self) -> int:
        return len(self._copy)


def read_late() -> None:
    """Have the SDK hand :class:`Inputs` to rules; what a remediation gets is the SDK's own."""

    def deserialize(parsed: Any, proxy_secrets: bool = False) -> Any:
        return deserialize_properties(parsed, True) if proxy_secrets else Inputs(parsed)

    def wrap(values: Any) -> Any:
        return values if isinstance(values, Inputs) else unknown_checking_proxy(values)

    names: dict[str, Any] = {
        "json_format": SimpleNamespace(
            **{**vars(json_format), "MessageToDict": _once(json_format.MessageToDict)}
        ),
        "deserialize_properties": deserialize,
        "unknown_checking_proxy": wrap,
    }
    # An SDK that is built otherwise reads as it does.
    if all(hasattr(policy, name) for name in names):
        for name, value in names.items():
            setattr(policy, name, value)


def _once(parse: Callable[[Message], Any]) -> Callable[[Message], Any]:
    """Return a parser that keeps what it parsed last."""
    parsed: dict[int, tuple[Message, Any]] = {}

    def remembered(message: Message) -> Any:
        entry = parsed.get(id(message))
        if entry is None:
            if len(parsed) >= _PARSED:
                parsed.clear()
            # The message is kept as well, so that no other has its id.
            entry = parsed[id(message)] = (message, parse(message))
        return entry[1]

    return remembered
