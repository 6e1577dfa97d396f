"""What every model of a stack's configuration is made of: field types, and how they complain."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from railhead.base.errors import choices

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL_KEY = re.compile(
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_QUANTITY = re.compile(r"^[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?$")
_INTERFACE = re.compile(r"^[A-Za-z0-9_.-]{1,15}$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


class MalformedError(Exception):
    """What was read of a model is malformed in the file, or missing: see :mod:`.sections`."""


def problem(message: str) -> PydanticCustomError:
    """An error that :func:`railhead.config.parse` shows word for word."""
    # The message is shown as it is: values in it must not be taken for a format.
    return PydanticCustomError("railhead", "{message}", {"message": message})


@dataclass(frozen=True)
class _Validator(AfterValidator):
    """A validator that also says in JSON Schema what it lets through, for editors."""

    json_schema: Mapping[str, Any] = field(hash=False)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | dict(self.json_schema)


def catalogue(rows: Any, what: str) -> Any:
    """A validator for a field that names one of ``rows``; ``what`` ends 'in the catalogue'."""

    def check(value: str) -> str:
        if value not in rows:
            raise problem(f"{value!r} is not in the catalogue{what}{choices(value, sorted(rows))}")
        return value

    return _Validator(check, {"enum": sorted(rows)})


def matching(pattern: str | re.Pattern[str], rule: str, longest: int = 63) -> Any:
    """A validator for a text that matches; ``rule`` completes 'is not'."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if len(value) > longest or not compiled.match(value):
            raise problem(f"{value!r} is not {rule}, at most {longest} characters")
        return value

    return _Validator(check, {"pattern": compiled.pattern, "maxLength": longest})


def _absolute(value: str) -> str:
    if not value.startswith("/") or value == "/" or "//" in value or "/../" in f"{value}/":
        raise problem(f"{value!r} is not an absolute path below /")
    return value.rstrip("/")


def _network(value: str) -> str:
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        raise problem(f"{value!r} is not a network, such as '192.168.128.0/20': {error}") from None
    return str(network)


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise problem(f"{value!r} is not an IP address, such as '192.168.136.1'") from None


Name = Annotated[
    str,
    matching(_LABEL, "a DNS label: lower-case letters, digits and '-', a letter or digit at ends"),
]
LabelKey = Annotated[str, matching(_LABEL_KEY, "a Kubernetes label key", longest=316)]
Quantity = Annotated[str, matching(_QUANTITY, "a Kubernetes quantity, such as '10Gi'", longest=32)]
Interface = Annotated[str, matching(_INTERFACE, "a network interface's name", longest=15)]
Variable = Annotated[str, matching(_VARIABLE, "an environment variable's name", longest=256)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
IpNetwork = Annotated[str, AfterValidator(_network)]
IpAddress = Annotated[str, AfterValidator(_address)]
Positive = Annotated[int, Field(strict=True, ge=1)]


class Model(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Of a field: it was malformed in what :func:`railhead.base.sections.read` read."""
            if name in type(self).model_fields:
                raise MalformedError(name)
            return super().__getattr__(name)
