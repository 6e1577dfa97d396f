"""The provider's functions, which the SDK's YAML and Helm helpers call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from railhead.kube.errors import UnreachableError
from railhead.lab.engine.provider import manifests

if TYPE_CHECKING:
    from railhead.lab.engine.provider.plugin import KubernetesPlugin


def call(function: str, arguments: Mapping[str, Any], provider: KubernetesPlugin) -> dict[str, Any]:
    """Return the result of the function called ``function``.

    Raises:
        ValueError: there is no such function, or an argument is missing or malformed.
    """
    if function == "kubernetes:yaml:decode":
        text = arguments.get("text")
        if not isinstance(text, str):
            raise ValueError("missing required field 'text' of type string")
        default = arguments.get("defaultNamespace")
        return {"result": place(manifests.decode(text), str(default or ""), provider)}
    if function == "kubernetes:helm:template":
        text = arguments.get("jsonOpts")
        if not isinstance(text, str):
            raise ValueError("missing required field 'jsonOpts' of type string")
        try:
            options = json.loads(text)
        except ValueError as error:
            raise ValueError(f"failed to unmarshal 'jsonOpts': {error}") from error
        objects = manifests.decode(provider.releases().template(options))
        return {"result": place(objects, str(options.get("namespace") or ""), provider)}
    raise ValueError(
        f"Railhead's stand-in for the Kubernetes provider has no function {function!r}; it serves "
        "kubernetes:yaml:decode and kubernetes:helm:template"
    )


def place(
    objects: list[dict[str, Any]], namespace: str, provider: KubernetesPlugin
) -> list[dict[str, Any]]:
    """Return the objects, those of namespaced kinds without a namespace put into ``namespace``."""
    if not namespace:
        return objects
    try:
        cluster = provider.objects()
    except UnreachableError:
        return objects
    for obj in objects:
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("namespace") and cluster.is_namespaced(obj):
            metadata["namespace"] = namespace
    return objects
