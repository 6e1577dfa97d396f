"""Field types of the models of a stack's configuration, and their error messages."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from railhead.base import described, quantity
from railhead.base.errors import choices
from railhead.base.tags import moves

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL_KEY = re.compile(
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_QUANTITY = re.compile(r"^[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?$")
_INTERFACE = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
# github.com/distribution/reference, regexp.go: a registry or none, a path, a tag, a digest.
_IMAGE = re.compile(
    r"^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]+)?/)?"
    r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@sha256:[0-9a-f]{64})?$"
)
# White space, a colon (which mounts do not take), quotes and what shells make something of.
_LONGEST_PATH = 1024
_NO_PATH = re.compile(r"[\s:\\\"'$`*?<>|;&(){}\x00-\x1f]")
MIB = 1024 * 1024
# A quantity of bytes is counted in 64 bits (k8s.io/apimachinery, resource.Quantity.Value).
_MOST_BYTES = 2**63 - 1
# No machine of the catalogue has a tenth of it.
_MOST_CPUS = 4096


class MalformedError(Exception):
    """The value read from a model is malformed in the file, or missing: see :mod:`.sections`."""


def problem(message: str) -> PydanticCustomError:
    """Return an error that :func:`railhead.config.parse` shows word for word."""
    # The message is shown as it is: values in it must not be taken for a format.
    return PydanticCustomError("railhead", "{message}", {"message": message})


@dataclass(frozen=True)
class _Validator(AfterValidator):
    """A validator that also states in JSON Schema, for editors, what it accepts."""

    json_schema: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(hash=False)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        extra = self.json_schema() if callable(self.json_schema) else self.json_schema
        return handler(schema) | dict(extra)


def catalogue(rows: Any, what: str, way: str = "") -> Any:
    """Return a validator for a field that names one of ``rows``; ``what`` ends 'in the catalogue'.

    ``way`` tells the user how to add one that is missing.
    """

    def check(value: str) -> str:
        if value not in rows:
            raise problem(
                f"{value!r} is not in the catalogue{what}{choices(value, sorted(rows))}{way}"
            )
        return value

    # Rows may be added until it is used.
    return _Validator(check, lambda: {"enum": sorted(rows)})


def matching(pattern: str | re.Pattern[str], rule: str, longest: int = 63) -> Any:
    """Return a validator for a text that matches; ``rule`` completes 'is not'."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        # A whole match: `$` alone also lets a line break at the end through.
        if len(value) > longest or not compiled.fullmatch(value):
            raise problem(f"{value!r} is not {rule}, at most {longest} characters")
        return value

    schema = {"description": f"{rule[:1].upper()}{rule[1:]}."}
    return _Validator(check, {"pattern": compiled.pattern, "maxLength": longest} | schema)


def _saying(check: Callable[[str], str], rule: str) -> Any:
    """Return a validator of a text; ``rule`` is a sentence for editors."""
    return _Validator(check, {"description": rule})


def _absolute(value: str) -> str:
    odd = re.search(r"/\.{0,2}/", f"{value.removesuffix('/')}/")
    if not value.startswith("/") or value == "/" or odd:
        raise problem(f"{value!r} is not an absolute path below /")
    if match := _NO_PATH.search(value):
        raise problem(f"{value!r} is not a path: it has {match[0]!r} in it")
    if len(value) > _LONGEST_PATH:
        raise problem(f"a path of {len(value)} characters is longer than {_LONGEST_PATH}")
    return value.rstrip("/")


def _cpu(value: str) -> str:
    amount = quantity.parse(value)
    if value.endswith("i") or not Decimal("0.001") <= amount <= _MOST_CPUS:
        raise problem(f"{value!r} is not a number of CPUs, such as '8' or '500m'")
    return value


def _bytes(value: str) -> str:
    amount = quantity.parse(value)
    if value.endswith("m") or not MIB <= amount <= _MOST_BYTES:
        raise problem(f"{value!r} is not an amount of bytes of at least 1Mi, such as '10Gi'")
    return value


def _image(value: str) -> str:
    if not _IMAGE.fullmatch(value):
        raise problem(
            f"{value!r} is not an image's name, such as 'nvcr.io/nvidia/pytorch:25.06-py3'"
        )
    if moves(value):
        raise problem(
            f"{value!r} is another image tomorrow, and on some nodes only; name a version or a "
            "digest"
        )
    return value


def _group(value: str) -> str:
    if value.startswith("-"):
        raise problem(f"{value!r} is not a group's name: it starts with '-'")
    if value.startswith("system:"):
        raise problem(
            f"{value!r} is Kubernetes' own, and everybody or an administrator is in it; name a "
            "group of your own"
        )
    return value


def _file(value: str) -> str:
    # White space and colons are in real ones.
    odd = "://" in value or value.endswith("/") or _NO_PATH.search(re.sub(r"[ :\\]", "", value))
    if odd or value.startswith("-"):
        raise problem(f"{value!r} is not a file's path, such as '~/.kube/config'")
    return value


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


def written_moment(value: Any) -> Any:
    """Return the value if people write times so; pydantic would take a number as seconds."""
    if isinstance(value, datetime) or (isinstance(value, str) and _DATE.match(value)):
        return value
    raise problem(f"{value!r} is not a moment, such as '2026-11-28T02:00:00Z'")


Name = Annotated[
    str,
    matching(_LABEL, "a DNS label: lower-case letters, digits and '-', a letter or digit at ends"),
]
LabelKey = Annotated[str, matching(_LABEL_KEY, "a Kubernetes label key", longest=316)]
LabelValue = Annotated[str, matching(_LABEL_VALUE, "a Kubernetes label's value")]
Quantity = Annotated[str, matching(_QUANTITY, "a Kubernetes quantity, such as '10Gi'", longest=32)]
Cpus = Annotated[Quantity, _saying(_cpu, "CPUs, such as '8' or '500m'.")]
Bytes = Annotated[Quantity, _saying(_bytes, "Bytes as a Kubernetes quantity, such as '10Gi'.")]
ImageReference = Annotated[
    str, _saying(_image, "An image with a version or a digest, never `latest`.")
]
Group = Annotated[
    str,
    matching(r"^[^\s*]([^*]*[^\s*])?$", "a group's name, without '*'", longest=253),
    AfterValidator(_group),
]
Interface = Annotated[str, matching(_INTERFACE, "a network interface's name", longest=15)]
Variable = Annotated[str, matching(_VARIABLE, "an environment variable's name", longest=256)]
FilePath = Annotated[str, Field(min_length=1), _saying(_file, "The path of a file.")]
AbsolutePath = Annotated[str, _saying(_absolute, "An absolute path.")]
IpNetwork = Annotated[str, _saying(_network, "A network, such as '192.168.128.0/20'.")]
IpAddress = Annotated[str, _saying(_address, "An IP address, such as '192.168.136.1'.")]
Positive = Annotated[int, Field(strict=True, ge=1)]
# Amazon EKS runs up to 100,000 nodes in a cluster, GKE 65,000; Kubernetes is tested to 5,000.
NodeCount = Annotated[int, Field(strict=True, ge=1, le=100_000)]


class Model(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe every property by its docstring, for editors."""
        documented = handler(schema)
        for name, held in handler.resolve_ref_schema(documented).get("properties", {}).items():
            description = described.field(cls, name) or held.get("description")
            description = description or described.section(cls.model_fields[name].annotation)
            if description:
                held["description"] = description
        return documented

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise for a field that :func:`railhead.base.sections.read` left out as malformed."""
            if name in type(self).model_fields:
                raise MalformedError(name)
            return super().__getattr__(name)
