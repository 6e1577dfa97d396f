"""The values of a job file: what each may be, as a check and as a pattern of the JSON Schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

# JobSet names a pod `<name>-node-0-<index>-<5 characters>`, at most 63 (jobset_webhook.go).
MAX_NAME = 45
# The role of a job's own pods, which is in the name above. Another role's name may be longer by as
# much as the job's is shorter.
MAIN_ROLE = "node"
MAX_ROLE = 20
WORKSPACE = "/workspace"

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
FILE_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")
ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
FIELD_PATH = re.compile(r"[a-z_]+(?:\.[-._/a-zA-Z0-9]+)?")
# A label's key, or what stands behind its slash.
LEVEL = re.compile(r"[-._/a-zA-Z0-9]{1,316}")
# distribution/reference: [host[:port]/]path[:tag][@digest]
IMAGE = re.compile(
    r"(?:(?:[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)"
    r"(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)*(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)

# 8e9, 70B, 0.5, 1_000
AMOUNT = re.compile(r"([0-9][0-9_]{0,17}(?:\.[0-9]{1,9})?(?:[eE][-+]?[0-9]{1,2})?)([kKMBT]?)")
PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
MOST = 1e18
DURATION = re.compile(r"([0-9]{1,9})([smhd]?)")
SIZE = re.compile(r"[1-9][0-9]{0,5}[MGT]i")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# An argument or a variable with its name (linux, include/uapi/linux/binfmts.h, MAX_ARG_STRLEN).
MAX_WORD_BYTES = (128 << 10) - 512
# First parts of paths that a pod's own files, Kubernetes, the runtime or launch have.
TAKEN = frozenset(
    {"bin", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var"}
) | {WORKSPACE.strip("/")}

# Set by Kubernetes and by launch, whatever the framework; a value of the user's would be a lie.
RESERVED_ENV = frozenset({"JOB_COMPLETION_INDEX"})
RESERVED_PREFIX = "RAILHEAD_"


class _AllowedError(ValueError):
    """A value that is not allowed; the text says what is."""


def _name(value: str) -> str:
    if not NAME.fullmatch(value) or len(value) > MAX_NAME:
        raise _AllowedError(
            f"lower-case letters, digits and '-', starting with a letter, at most {MAX_NAME}"
        )
    return value


def _role_name(value: str) -> str:
    if not NAME.fullmatch(value) or len(value) > MAX_ROLE or value == MAIN_ROLE:
        raise _AllowedError(
            f"lower-case letters, digits and '-', starting with a letter, at most {MAX_ROLE}, and "
            f"not {MAIN_ROLE}, which the job's own pods are called"
        )
    return value


def _object_name(value: str) -> str:
    if not OBJECT_NAME.fullmatch(value) or len(value) > 253:
        raise _AllowedError("a Kubernetes name: lower-case letters, digits, '-' and '.'")
    return value


_PLACES = rf"(?:prefer\s+|[1-9][0-9]{{0,3}}\s+in\s+)?{LEVEL.pattern}"


def _topology(value: str) -> str:
    words = " ".join(value.split())
    if not re.fullmatch(_PLACES, words) or words.endswith("prefer"):
        raise _AllowedError(
            "a level of the cluster's topology, such as rack; prefer and a level; a number and a "
            "level, such as 4 in rack; or any"
        )
    return words


def _image(value: str) -> str:
    if len(value) > 500 or not IMAGE.fullmatch(value):
        raise _AllowedError(
            "an image reference: [registry[:port]/]repository[:tag][@sha256:...], lower-case"
        )
    return value


def _word(value: str) -> str:
    if "\0" in value:
        raise _AllowedError("text without NUL characters")
    if len(value.encode(errors="replace")) > MAX_WORD_BYTES:
        raise _AllowedError(
            f"text of at most {MAX_WORD_BYTES} bytes, for Linux starts no program with a longer one"
        )
    return value


def _program(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value[0].strip():
        raise _AllowedError("a program as the first word")
    return value


def _env_name(value: str) -> str:
    if not ENV_NAME.fullmatch(value):
        raise _AllowedError(
            "a name of letters, digits, '_', '-' and '.', not starting with a digit"
        )
    if value in RESERVED_ENV or value.startswith(RESERVED_PREFIX):
        raise _AllowedError(
            "a variable that is not set already; this one comes from Kubernetes or from launch"
        )
    return value


def _file(value: str) -> str:
    name = Path(value).name
    if value == ".":
        return value
    if not FILE_NAME.fullmatch(name) or name == ".." or "\0" in value:
        raise _AllowedError("a path whose last part is letters, digits, '.', '_' and '-'")
    return value


def _duration(value: str) -> str:
    seconds(value)
    return value


def seconds(text: str) -> int:
    """Return the seconds in ``90s``, ``30m``, ``12h`` or ``2d``; a bare number is seconds.

    Raises:
        ValueError: it is not a duration, less than a second, or more than a label's integer holds.
    """
    match = DURATION.fullmatch(text)
    total = int(match[1]) * UNITS[match[2]] if match else 0
    # int32 in Kueue's Workload (spec.maximumExecutionTimeSeconds).
    if not 1 <= total < 2**31:
        raise _AllowedError("a duration from 1s on, such as 90s, 30m, 12h or 2d")
    return total


def _size(value: str) -> str:
    if not SIZE.fullmatch(value):
        raise _AllowedError("a whole number of Mi, Gi or Ti, such as 16Gi")
    return value


def _amount(value: Any) -> Any:
    """Return a number of one of these forms: ``8e9``, ``70B``, ``0.5``."""
    rule = "a number above 0, such as 8e9, 70B or 0.5"
    if value is None:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        match = AMOUNT.fullmatch(value) if isinstance(value, str) else None
        number = float(match[1].replace("_", "")) * PREFIXES[match[2]] if match else 0.0
    if not 0 < number <= MOST:
        raise _AllowedError(rule)
    return number


def _count(value: Any) -> Any:
    try:
        number = _amount(value)
    except _AllowedError:
        number = 0.5
    if number is not None and number != int(number):
        raise _AllowedError("a whole number from 1, such as 1024 or 4M")
    return number if number is None else int(number)


def _yes(value: Any) -> Any:
    """Parse ``true`` or ``false``, as YAML has them, or a boolean."""
    texts = {"true": True, "false": False}
    if isinstance(value, str):
        value = texts.get(value.lower())
    if not isinstance(value, bool):
        raise _AllowedError("true or false")
    return value


def _secret(value: str) -> str:
    name, _, key = value.partition("/")
    if not OBJECT_NAME.fullmatch(name) or not FILE_NAME.fullmatch(key):
        raise _AllowedError("SECRET/KEY: the name of a Secret of the namespace, and a key of it")
    return value


def _field_path(value: str) -> str:
    if not FIELD_PATH.fullmatch(value):
        raise _AllowedError("a field as --set takes it, such as env.LR or nodes")
    return value


def _mount_path(value: str) -> str:
    parts = Path(value).parts
    if (
        not re.fullmatch(r"/[-._a-zA-Z0-9/]+", value)
        or ".." in parts
        or "." in value.split("/")
        or len(parts) < 2
        or parts[1] in TAKEN
    ):
        raise _AllowedError(
            "an absolute path of letters, digits, '.', '_', '-' and '/', outside of "
            + ", ".join(f"/{name}" for name in sorted(TAKEN))
        )
    return value


def _claim(value: str) -> str:
    name, _, mode = value.partition(":")
    if not OBJECT_NAME.fullmatch(name) or mode not in ("", "ro") or value.endswith(":"):
        raise _AllowedError("the name of a claim of the namespace, or NAME:ro to read only")
    return value


def _directory(value: str) -> str:
    parts = value.split("/")
    if not all(FILE_NAME.fullmatch(part) and part not in (".", "..") for part in parts):
        raise _AllowedError(
            "a path inside the claim, such as llama-8b or team/llama-8b: letters, digits, '.', "
            "'_', '-' and '/'"
        )
    return value


def _once(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(value)) != len(value):
        raise _AllowedError("each data set once")
    return value


def _distinct(value: tuple[str, ...]) -> tuple[str, ...]:
    names = [Path(entry).name for entry in value]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _AllowedError(
            f"files of different names, for all land in {WORKSPACE}; twice: {', '.join(twice)}"
        )
    return value


def _text(pattern: re.Pattern[str] | str, longest: int | None = None) -> WithJsonSchema:
    """Return the schema of a text; numbers and booleans match too, for they are text as written."""
    source = pattern if isinstance(pattern, str) else pattern.pattern
    texts: dict[str, Any] = {"type": ["string", "number", "boolean"], "pattern": f"^(?:{source})$"}
    return WithJsonSchema(texts | ({"maxLength": longest} if longest else {}))


_FILE_WORDS = FILE_NAME.pattern
Name = Annotated[str, AfterValidator(_name), _text(NAME, MAX_NAME)]
RoleName = Annotated[
    # As a property's name, of which a schema knows no length.
    str,
    AfterValidator(_role_name),
    _text(f"(?!{MAIN_ROLE}$|.{{{MAX_ROLE + 1}}}){NAME.pattern}"),
]
Word = Annotated[str, AfterValidator(_word), _text(r"[^\x00]*")]
FieldPath = Annotated[str, AfterValidator(_field_path), _text(FIELD_PATH)]
EnvName = Annotated[
    str,
    AfterValidator(_env_name),
    _text(f"(?!{RESERVED_PREFIX}|(?:{'|'.join(sorted(RESERVED_ENV))})$){ENV_NAME.pattern}"),
]
File = Annotated[str, AfterValidator(_file), _text(rf"(?:[^\x00]*/)?{_FILE_WORDS}(?:/\.?)*")]
ObjectName = Annotated[str, AfterValidator(_object_name), _text(OBJECT_NAME, 253)]
MountPath = Annotated[str, AfterValidator(_mount_path), _text(r"/[-._a-zA-Z0-9/]+")]
Image = Annotated[str, AfterValidator(_image), _text(IMAGE, 500)]
Duration = Annotated[str, AfterValidator(_duration), _text(DURATION)]
Size = Annotated[str, AfterValidator(_size), _text(SIZE)]
SecretKey = Annotated[str, AfterValidator(_secret), _text(rf"{OBJECT_NAME.pattern}/{_FILE_WORDS}")]
Claim = Annotated[str, AfterValidator(_claim), _text(rf"{OBJECT_NAME.pattern}(?::ro)?")]
Topology = Annotated[str, AfterValidator(_topology), _text(rf"\s*{_PLACES}\s*")]
Directory = Annotated[
    str,
    Field(max_length=500),
    AfterValidator(_directory),
    _text(rf"{_FILE_WORDS}(?:/{_FILE_WORDS})*", 500),
]
Command = Annotated[tuple[Word, ...], Field(min_length=1, max_length=128), AfterValidator(_program)]
Files = Annotated[tuple[File, ...], Field(max_length=100), AfterValidator(_distinct)]
Once = AfterValidator(_once)

_NUMBER = WithJsonSchema({"type": ["string", "number"], "pattern": f"^(?:{AMOUNT.pattern})$"})
Amount = Annotated[float, BeforeValidator(_amount), _NUMBER]
Count = Annotated[int, BeforeValidator(_count), _NUMBER]

#: None is ``required``: a job is held to the fabric unless it says otherwise.
Fabric = Annotated[
    Literal["none"] | None,
    BeforeValidator(lambda value: None if value == "required" else value),
    WithJsonSchema({"type": "string", "enum": ["none", "required", None]}),
]

_YES = WithJsonSchema(
    {"type": ["boolean", "string"], "pattern": "^(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"}
)
Yes = Annotated[bool, BeforeValidator(_yes), _YES]
