"""A provider of any package that makes nothing and writes down what it was asked to make.

It speaks the engine's protocol, so `pulumi preview`, `up` and `destroy` run as they do against a
cloud: diffs by input, replacements by :mod:`railhead.lab.recorders.replaces`, outputs made up by
:mod:`railhead.lab.recorders.shapes`. What a real provider validates itself it does not.

Run as ``python -m railhead.lab.recorders.recording PACKAGE ENGINE_ADDRESS``; the journal is a file
of one JSON object a line, named by ``RAILHEAD_JOURNAL``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from railhead.lab.engine import serving
from railhead.lab.engine.provider import properties
from railhead.lab.recorders.answers import answer, learn_from_environment
from railhead.lab.recorders.replaces import replaces
from railhead.lab.recorders.shapes import EXISTING, fabricated

JOURNAL = "RAILHEAD_JOURNAL"
VERSIONS = {"aws": "7.51.1", "gcp": "10.2.0", "kubernetes": "4.34.2"}
# Outputs that every update counts up, and that others refer to.
COUNTED = {"aws:ec2/launchTemplate:LaunchTemplate": ("latestVersion",)}
_DIFF = provider_pb2.DiffResponse


def changed_paths(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Dotted paths at which two values differ; lists are compared whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from changed_paths(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path


def forced(token: str, paths: list[str]) -> list[str]:
    """Return the ``paths`` whose change replaces the resource."""
    keys = replaces(token)
    return [p for p in paths if any(p == k or p.startswith(f"{k}.") for k in keys)]


class RecordingProvider(provider_pb2_grpc.ResourceProviderServicer):
    """One package's provider."""

    def __init__(self, package: str, journal: Path) -> None:
        self.package = package
        self._journal = journal
        self._lock = threading.Lock()
        learn_from_environment()

    def _write(self, operation: str, urn: str, **more: Any) -> None:
        line = json.dumps(
            {"operation": operation, "urn": urn, **more}, sort_keys=True, default=repr
        )
        with self._lock, self._journal.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=VERSIONS[self.package])

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        schema = {"name": self.package, "version": VERSIONS[self.package], "resources": {}}
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        same = request.olds == request.news
        return _DIFF(changes=_DIFF.DIFF_NONE if same else _DIFF.DIFF_SOME)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        old = properties.plain(properties.decode(request.old_inputs))
        new = properties.plain(properties.decode(request.news))
        paths = list(changed_paths(old, new))
        if not paths:
            return _DIFF(changes=_DIFF.DIFF_NONE)
        replacing = forced(request.type or _token(request.urn), paths)
        return _DIFF(
            changes=_DIFF.DIFF_SOME,
            diffs=sorted({p.split(".")[0] for p in paths}),
            replaces=sorted({p.split(".")[0] for p in replacing}),
        )

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, name = request.type or _token(request.urn), request.urn.rsplit("::", 1)[-1]
        inputs = properties.decode(request.properties)
        if request.preview:
            # What the provider adds is not known before it is made.
            return provider_pb2.CreateResponse(properties=request.properties)
        self._write("create", request.urn, inputs=properties.plain(inputs))
        outputs = fabricated(token, name, inputs)
        return provider_pb2.CreateResponse(
            id=f"{name}-id", properties=properties.encode(outputs, secrets=True)
        )

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        token = request.type or _token(request.urn)
        if result := EXISTING.get((token, request.id)):
            state = properties.encode(dict(result), secrets=True)
            return provider_pb2.ReadResponse(id=request.id, properties=state, inputs=state)
        return provider_pb2.ReadResponse(
            id=request.id, properties=request.properties, inputs=request.inputs
        )

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, name = request.type or _token(request.urn), request.urn.rsplit("::", 1)[-1]
        inputs = properties.decode(request.news)
        if not request.preview:
            self._write("update", request.urn, inputs=properties.plain(inputs))
        outputs = {**fabricated(token, name, inputs)}
        for key in COUNTED.get(token, ()):
            before = properties.plain(properties.decode(request.olds)).get(key, 0)
            outputs[key] = properties.UNKNOWN if request.preview else int(before) + 1
        return provider_pb2.UpdateResponse(properties=properties.encode(outputs, secrets=True))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._write("delete", request.urn)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        arguments: Mapping[str, Any] = properties.plain(properties.decode(request.args))
        try:
            match = answer(request.tok, arguments)
        except KeyError as error:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error.args[0]))
            raise
        result = getattr(provider_pb2, "InvokeResponse")()  # noqa: B009 - generated
        getattr(result, "return").CopyFrom(properties.encode(match, secrets=True))
        return result

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()


def _token(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


def main(argv: list[str]) -> None:
    """Serve until the engine is done."""
    package, *rest = argv
    provider = RecordingProvider(package, Path(os.environ[JOURNAL]))
    serving.serve(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server),
        argv=rest,
        on_stop=lambda: None,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
