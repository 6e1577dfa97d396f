"""Kubernetes manifests in YAML or JSON, to objects."""

from __future__ import annotations

import datetime
from typing import Any


def decode(text: str) -> list[dict[str, Any]]:
    """Return the objects of a YAML stream; Lists are expanded, empty documents skipped.

    Raises:
        ValueError: the text is not YAML, or a document is not a Kubernetes object.
    """
    import yaml

    from railhead.base.data import LOADER

    try:
        documents = list(yaml.load_all(text, Loader=LOADER))
    except yaml.YAMLError as error:
        raise ValueError(f"the manifest is not valid YAML: {error}") from error
    results: list[dict[str, Any]] = []
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue
        _expand(_jsonable(document), number, results)
    return results


def _expand(document: Any, number: int, into: list[dict[str, Any]]) -> None:
    if not isinstance(document, dict) or not document.get("kind"):
        raise ValueError(f"document {number} of the manifest has no kind, so it is no object")
    if not document.get("apiVersion"):
        raise ValueError(f"document {number} of the manifest has no apiVersion")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            _expand(item, number, into)
        return
    into.append(document)


def _jsonable(value: Any) -> Any:
    # YAML knows dates and keys that are not strings; JSON, and so Kubernetes, does not.
    if isinstance(value, dict):
        return {_key(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
