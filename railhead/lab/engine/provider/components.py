"""Components that the provider itself serves: YAML groups and files, and rendered charts.

``yaml/v2:ConfigGroup``, ``yaml/v2:ConfigFile`` and ``helm.sh/v4:Chart``. Each registers one
resource an object with the engine, as the official provider does; the Pulumi SDK speaks the
protocol.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import glob
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi.provider import ConstructResult, Provider
from pulumi.provider.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2

from railhead.lab.engine.provider import diffing, manifests, naming
from railhead.lab.engine.provider.objects import OperationError

CONFIG_GROUP = "kubernetes:yaml/v2:ConfigGroup"
CONFIG_FILE = "kubernetes:yaml/v2:ConfigFile"
CHART = "kubernetes:helm.sh/v4:Chart"
SERVED = (CONFIG_GROUP, CONFIG_FILE, CHART)
_DEPENDS_ON = "config.kubernetes.io/depends-on"

Place = Callable[[list[dict[str, Any]], str], list[dict[str, Any]]]
Render = Callable[[Mapping[str, Any]], str]


def read_files(patterns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the objects of YAML files; a pattern with ``*``, ``?`` or ``[`` names several.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file holds no objects, or its name is a URL.
    """
    objects: list[dict[str, Any]] = []
    for pattern in patterns:
        if "://" in pattern:
            raise ValueError(f"{pattern}: fetching manifests from the network is not served")
        several = glob.has_magic(pattern)
        names = sorted(glob.glob(pattern)) if several else [pattern]  # noqa: PTH207 - any path
        for name in names:
            objects += manifests.decode(Path(name).read_text())
    return objects


def resource_token(obj: Mapping[str, Any]) -> str:
    """Return the type token of an object, such as ``kubernetes:core/v1:ConfigMap``."""
    group, version = diffing.split_api_version(str(obj["apiVersion"]))
    return f"kubernetes:{group or 'core'}/{version}:{obj['kind']}"


def reference(obj: Mapping[str, Any]) -> str:
    """Return the object as ``config.kubernetes.io/depends-on`` names it."""
    group, _ = diffing.split_api_version(str(obj["apiVersion"]))
    namespace, name = naming.object_namespace(obj), naming.object_name(obj)
    middle = f"namespaces/{namespace}/" if namespace else ""
    return f"{group}/{middle}{obj['kind']}/{name}"


def needs(obj: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return which of ``others`` must exist first: namespace, CRD, annotated dependencies."""
    wanted = {
        part.strip() for part in naming.annotation(obj, _DEPENDS_ON).split(",") if part.strip()
    }
    group, _ = diffing.split_api_version(str(obj["apiVersion"]))
    results = []
    for index, other in enumerate(others):
        if other is obj:
            continue
        spec = other.get("spec") or {}
        kind = other.get("kind")
        is_namespace = kind == "Namespace" and naming.object_name(other) == naming.object_namespace(
            obj
        )
        is_definition = (
            kind == "CustomResourceDefinition"
            and spec.get("group") == group
            and (spec.get("names") or {}).get("kind") == obj.get("kind")
        )
        if is_namespace or is_definition or reference(other) in wanted:
            results.append(index)
    return results


def in_order(objects: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the objects' positions, each after those that it needs.

    Raises:
        ValueError: objects need each other in a circle.
    """
    order: list[int] = []
    visiting: set[int] = set()

    def visit(index: int) -> None:
        if index in order:
            return
        if index in visiting:
            raise ValueError(f"{reference(objects[index])} depends on itself through others")
        visiting.add(index)
        for other in needs(objects[index], objects):
            visit(other)
        order.append(index)

    for index in range(len(objects)):
        visit(index)
    return order


class _Components(Provider):
    def __init__(self, version: str, place: Place, render: Render) -> None:
        super().__init__(version)
        self._place = place
        self._render = render
        # The error of the objects; the SDK only reports that an output failed.
        self.problem: Exception | None = None

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Mapping[str, Any],
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        component = pulumi.ComponentResource(resource_type, name, {}, options)

        def register(values: dict[str, Any]) -> list[pulumi.Resource]:
            prefix = values.get("resourcePrefix")
            title = name if prefix is None else str(prefix)
            skip = bool(values.get("skipAwait"))
            try:
                objects = self._objects(resource_type, name, values)
                return _register(component, objects, title, skip=skip)
            except (OSError, ValueError, OperationError) as error:
                self.problem = error
                raise

        resources = pulumi.Output.all(**inputs).apply(register)
        component.register_outputs({"resources": resources})
        return ConstructResult(component.urn, {"resources": resources})

    def _objects(
        self, resource_type: str, name: str, values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        if resource_type == CHART:
            release = {**values, "name": values.get("name") or name}
            text = self._render(release)
            return self._place(manifests.decode(text), str(values.get("namespace") or ""))
        if resource_type == CONFIG_FILE:
            objects = read_files([str(values.get("file") or "")])
        else:
            objects = read_files([str(item) for item in values.get("files") or []])
            objects += manifests.decode(str(values.get("yaml") or ""))
            objects += [copy.deepcopy(dict(item)) for item in values.get("objs") or []]
        return self._place(objects, "")


def _register(
    component: pulumi.ComponentResource,
    objects: Sequence[dict[str, Any]],
    prefix: str,
    *,
    skip: bool,
) -> list[pulumi.Resource]:
    for obj in objects:
        if not obj.get("kind") or not obj.get("apiVersion") or not naming.object_name(obj):
            raise ValueError(
                "Kubernetes resources require a kind, an apiVersion and a .metadata.name: "
                f"{obj.get('kind')} {naming.object_name(obj)!r}"
            )
        if skip:
            annotations = obj["metadata"].get("annotations") or {}
            obj["metadata"]["annotations"] = {**annotations, naming.SKIP_AWAIT: "true"}
    made: dict[int, pulumi.Resource] = {}
    for index in in_order(objects):
        obj = objects[index]
        after = [made[other] for other in needs(obj, objects)]
        title = naming.object_id(obj)
        made[index] = pulumi.CustomResource(
            resource_token(obj),
            f"{prefix}:{title}" if prefix else title,
            obj,
            pulumi.ResourceOptions(parent=component, depends_on=after),
        )
    return [made[index] for index in sorted(made)]


def construct(
    request: provider_pb2.ConstructRequest,
    *,
    engine_address: str,
    version: str,
    place: Place,
    render: Render,
) -> provider_pb2.ConstructResponse:
    """Serve one ``Construct``.

    Args:
        request: as the engine sent it.
        engine_address: the engine's ``host:port``.
        version: the provider's version.
        place: puts objects without a namespace into the given or the default one.
        render: the manifest of a ``helm.sh/v4:Chart``'s inputs.

    Raises:
        OperationError: the objects cannot be read or registered.
    """
    components = _Components(version, place, render)
    servicer = ProviderServicer(components, [], engine_address)

    async def serve() -> provider_pb2.ConstructResponse:
        response: provider_pb2.ConstructResponse = await servicer.Construct(request, None)
        return response

    # The SDK keeps a run's settings in context variables; requests come at the same time.
    try:
        return contextvars.Context().run(asyncio.run, serve())
    except Exception as error:
        # The SDK appends a traceback to what went wrong here.
        known = components.problem or error
        raise OperationError(f"{request.name}: {str(known).splitlines()[0]}") from error
