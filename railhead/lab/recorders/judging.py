"""Runs a policy pack on plans of :mod:`railhead.lab.recorders.offline`, without the engine.

Started as a script with the judge's checkout first on PYTHONPATH. The pack is the SDK's own: its
server is caught before it listens, configured as the engine configures a pack (pulumi/pulumi
v3.272.0, pkg/resource/analyzer/config.go), and asked what the engine asks it: of each resource,
then of the stack (pkg/resource/deploy/step_generator.go). A pack that remediates is left to the
engine, since what it changes is planned again.

Reads a JSON list of plans' files from standard input. The pack is imported once, and forked for
each plan, so that it keeps nothing from one to the next.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

HERE = Path(__file__).resolve().parent


class _Caught(BaseException):
    """The pack's servicer, at the moment at which the SDK would serve it."""

    def __init__(self, servicer: Any) -> None:
        super().__init__()
        self.servicer = servicer


def _catch(servicer: Any, _server: Any) -> NoReturn:
    raise _Caught(servicer)


def pack(folder: Path) -> Any:
    """Return the servicer of the pack in a folder, configured.

    Raises:
        RuntimeError: it serves nothing, or remediates.
    """
    from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

    setattr(analyzer_pb2_grpc, "add_AnalyzerServicer_to_server", _catch)  # noqa: B010 - typed
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        runpy.run_path(str(folder), run_name="__main__")
    except _Caught as caught:
        servicer = caught.servicer
    else:
        raise RuntimeError(f"{folder} ended before it served a pack")
    info = servicer.GetAnalyzerInfo(None, None)
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    initial = info.initialConfig
    for policy in info.policies:
        given, row = initial.get(policy.name), request.policyConfig[policy.name]
        everyone = initial["all"].enforcementLevel if "all" in initial else None
        row.enforcementLevel = policy.enforcementLevel if everyone is None else everyone
        for key, schema in policy.configSchema.properties.items():
            if "default" in schema:
                row.properties[key] = schema["default"]
        if given is not None:
            row.enforcementLevel = given.enforcementLevel
            row.properties.update(given.properties)
        if row.enforcementLevel == analyzer_pb2.REMEDIATE:
            raise RuntimeError(f"{policy.name} remediates")
    servicer.Configure(request, None)
    return servicer


def violations(servicer: Any, requests: list[str], progress: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield what the pack reports of one plan; a byte of progress is written for each resource."""
    from pulumi.runtime.proto import analyzer_pb2

    *resources, stack = [base64.b64decode(text) for text in requests]
    for data in resources:
        request = analyzer_pb2.AnalyzeRequest.FromString(data)
        yield from _rows(servicer.Analyze(request, None), request.urn)
        progress.write(b".")
    yield from _rows(
        servicer.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest.FromString(stack), None), ""
    )


def _rows(response: Any, urn: str) -> Iterator[dict[str, Any]]:
    from pulumi.runtime.proto import analyzer_pb2

    for diagnostic in response.diagnostics:
        yield {
            "rule": diagnostic.policyName,
            "urn": diagnostic.urn or urn,
            "message": diagnostic.message.strip(),
            "mandatory": diagnostic.enforcementLevel == analyzer_pb2.MANDATORY,
        }


def _child(servicer: Any, plan: Mapping[str, str]) -> None:
    try:
        requests = json.loads(Path(plan["plan"]).read_text())["requests"]
        with Path(plan["progress"]).open("wb", buffering=0) as progress:
            result: Any = {"violations": list(violations(servicer, requests, progress))}
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        result = {"broken": f"{type(error).__name__}: {error}"}
    Path(plan["result"]).write_text(json.dumps(result))


def main() -> None:
    """Judge one plan after the other."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    servicer = pack(Path(sys.argv.pop(1)))
    # A child for each plan, which ends with it: nothing is gained by searches for garbage.
    gc.disable()
    for plan in json.load(sys.stdin):
        child = os.fork()
        if not child:
            _child(servicer, plan)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
