"""Files of the package that run in pods of ours, by a ConfigMap, as an unprivileged user."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import railhead

# Nobody: everything that is looked at may be read by all.
_NOBODY = 65534
ROOT = Path(railhead.__file__).parent


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def files(paths: Iterable[Path]) -> dict[str, str]:
    """Sources of the package as ``railhead/...`` -> text."""
    return {str(path.relative_to(ROOT.parent)): _text(path) for path in paths}


def _key(path: str) -> str:
    """Return a file's key in a ConfigMap, which may have no slash."""
    return path.replace("/", ".")


def data(program: Mapping[str, str]) -> dict[str, str]:
    """Return the ConfigMap's data."""
    return {_key(path): text for path, text in program.items()}


def source(name: str, program: Iterable[str]) -> dict[str, Any]:
    """Return a volume's source that lays the ConfigMap ``name`` out as the files were."""
    return {
        "configMap": {
            "name": name,
            "items": [{"key": _key(path), "path": path} for path in program],
        }
    }


def environment(folder: str) -> list[dict[str, Any]]:
    """Return the variables by which Python finds the files below ``folder``, which is read-only."""
    return [
        {"name": "PYTHONPATH", "value": folder},
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
    ]


def unprivileged() -> dict[str, Any]:
    """Return the security context of a container that needs no right at all."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _NOBODY,
        "runAsGroup": _NOBODY,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def digest(value: Any) -> str:
    """Return a digest that changes with what pods mount, so that changed files recreate them."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
