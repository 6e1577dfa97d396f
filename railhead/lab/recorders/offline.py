"""Plans the stacks of one checkout in one process, by Pulumi's SDK without the engine.

Started as a script with the checkout first on PYTHONPATH: the program and its Railhead are the
checkout's, the recorders those beside this file. A monitor answers the SDK as the engine does at a
first preview on recording providers (pulumi/pulumi v3.272.0, pkg/resource/deploy/source_eval.go,
step_generator.go, sdk/go/common/resource/plugin/provider_plugin.go): inputs come back as outputs,
nothing comes back where the provider's own configuration is not known. A test holds its plans of
all shipped stacks against the engine's. What it cannot answer is left to the engine.

Reads a JSON list of stacks from standard input, and writes the result of each to its file, and to
another a byte for each of its resources, as progress. They are planned one after the other: most of
the time goes into importing the SDKs, once.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import importlib.util
import json
import logging
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

HERE = Path(__file__).resolve().parent
PROGRAM = "__main__.py"
_STACK = "pulumi:pulumi:Stack"
_FEATURES = (
    *("SECRETS", "RESOURCE_REFERENCES", "ALIAS_SPECS", "DELETED_WITH", "REPLACE_WITH"),
    *("REPLACEMENT_TRIGGER", "RESOURCE_HOOKS", "ERROR_HOOKS"),
)


class UnansweredError(Exception):
    """A question that only the engine can answer."""


def _beside(name: str, path: str) -> Any:
    """Return one of Railhead's modules that is beside this file, whichever checkout is imported."""
    spec = importlib.util.spec_from_file_location(name, HERE / path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not beside {HERE}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _recorders() -> tuple[Any, Any]:
    """Return the modules that read values from the wire and that answer data sources.

    They are loaded for each stack: answers keep what one stack takes to exist.
    """
    properties = _beside(
        "railhead.lab.engine.provider.properties", "../engine/provider/properties.py"
    )
    _beside("railhead.lab.recorders.shapes", "shapes.py")
    return properties, _beside("railhead.lab.recorders.answers", "answers.py")


class Monitor:
    """The resource monitor of one stack's program: it records, and answers as at a preview."""

    def __init__(
        self, stack: str, project: str, recorders: tuple[Any, Any], progress: BinaryIO
    ) -> None:
        self._progress = progress
        self.prefix = f"urn:pulumi:{stack}::{project}::"
        self.properties, self.answers = recorders
        self.states: dict[str, dict[str, Any]] = {}
        self.shown: dict[str, Any] = {}
        self.asked: list[Any] = []
        self.unknown: set[str] = set()
        self.unanswered = ""
        self.unread = ""

    def RegisterResource(self, request: Any) -> Any:
        from pulumi.runtime.proto import resource_pb2

        if request.remote:
            self._leave(f"the component {request.type} is its provider's")
        urn = self._urn(request.parent, request.type, request.name)
        if urn in self.states:
            raise RuntimeError(f"Duplicate resource URN '{urn}'; try giving it a unique name")
        inputs = self.properties.decode(request.object)
        if request.type.startswith("pulumi:providers:"):
            if self.properties.has_unknown(inputs):
                self.unknown.add(urn)
            known = True
        else:
            known = self._provider(request) not in self.unknown
        self.states[urn] = _state(urn, request, self._plain(inputs), self._aliases(request))
        self._show(urn, request, request.object, request.object if known else None)
        return resource_pb2.RegisterResourceResponse(
            urn=urn, object=request.object if known else None
        )

    def ReadResource(self, request: Any) -> Any:
        from pulumi.runtime.proto import resource_pb2

        urn = self._urn(request.parent, request.type, request.name)
        there = self.answers.EXISTING.get((request.type, request.id))
        state = request.properties
        if there:
            state = self.properties.encode(dict(there), secrets=True)
        inputs = self._plain(self.properties.decode(request.properties))
        self.states[urn] = _state(urn, request, inputs, []) | {"id": request.id, "external": True}
        self._show(urn, request, request.properties, state)
        return resource_pb2.ReadResourceResponse(urn=urn, properties=state)

    def Invoke(self, request: Any) -> Any:
        from pulumi.runtime.proto import resource_pb2

        arguments = self.properties.plain(self.properties.decode(request.args))
        try:
            result = self.answers.answer(request.tok, arguments)
        except KeyError:
            # What a cloud alone knows, as a data source's that waits for what is not made yet. The
            # SDK has no such value for a plain call, and ends (pulumi/_types.py, get).
            self.unread = f"{request.tok}: no recorder knows its answer; ask by its _output form"
            return resource_pb2.ResourceInvokeResponse(unknown=True)
        response: Any = resource_pb2.ResourceInvokeResponse()
        getattr(response, "return").CopyFrom(self.properties.encode(result, secrets=True))
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:
        from google.protobuf import empty_pb2

        self.shown[request.urn].properties.CopyFrom(request.outputs)
        if (row := self.states[request.urn])["type"] == _STACK:
            row["outputs"] = self._plain(self.properties.decode(request.outputs))
        return empty_pb2.Empty()

    def GetDeploymentInfo(self, request: Any) -> Any:
        from pulumi.runtime.proto import resource_pb2

        features = [getattr(resource_pb2, f"RESOURCE_MONITOR_FEATURE_{f}") for f in _FEATURES]
        return resource_pb2.DeploymentInfo(supportedFeatures=features)

    def _noted(self, request: Any) -> Any:
        from google.protobuf import empty_pb2

        return empty_pb2.Empty()

    # A preview runs no hook.
    RegisterResourceHook = RegisterErrorHook = SignalAndWaitForShutdown = _noted

    def __getattr__(self, name: str) -> Any:
        self._leave(f"the program asks the engine for {name}")

    def _leave(self, why: str) -> NoReturn:
        self.unanswered = why
        raise UnansweredError(why)

    def _urn(self, parent: str, type_: str, name: str) -> str:
        above = parent.split("::")[2] if parent else ""
        chain = f"{above}${type_}" if above and above != _STACK else type_
        return f"{self.prefix}{chain}::{name}"

    @staticmethod
    def _provider(request: Any) -> str:
        return str(request.provider).rpartition("::")[0]

    def _aliases(self, request: Any) -> list[str]:
        """Return the URNs by which the engine would know it: its own aliases, and its parent's.

        Each of its names may be below each of its parent's, and begins with the name that its
        parent had if it begins with the parent's (step_generator.go, generateAliases).
        """
        results, names = [], [(request.type, request.name)]
        for alias in request.aliases:
            if alias.urn:
                results.append(alias.urn)
                continue
            spec = alias.spec
            parent = "" if spec.noParent else spec.parentUrn or request.parent
            names.append((spec.type or request.type, spec.name or request.name))
            results.append(self._urn(parent, *names[-1]))
        above = self.states.get(request.parent, {}).get("aliases") or ()
        own = request.parent.rpartition("::")[2]
        return results + [
            self._urn(alias, type_, _renamed(name, own, alias.rpartition("::")[2]))
            for alias in above
            for type_, name in names
        ]

    def _plain(self, value: Any) -> Any:
        """Return inputs as `pulumi preview --json` prints them."""
        if isinstance(value, self.properties.Secret):
            return "[secret]"
        if value is self.properties.UNKNOWN:
            return self.properties.encode({"": value}).fields[""].string_value
        if isinstance(value, self.properties.Asset):
            return dict(value.raw)
        if isinstance(value, Mapping):
            return {key: self._plain(item) for key, item in value.items()}
        return [self._plain(item) for item in value] if isinstance(value, list) else value

    def _show(self, urn: str, request: Any, given: Any, outputs: Any) -> None:
        """Keep what a policy pack is shown: of each resource its inputs, of the stack outputs."""
        from pulumi.runtime.proto import analyzer_pb2

        self._progress.write(b".")
        row = self.states[urn]
        options = analyzer_pb2.AnalyzerResourceOptions(
            protect=row["protect"], ignoreChanges=row["ignoreChanges"], parent=request.parent
        )
        common = {"type": request.type, "urn": urn, "name": request.name, "options": options}
        if row["custom"] and not request.type.startswith("pulumi:providers:"):
            common["provider"] = self._shown_provider(request)
        refers = {
            key: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns)
            for key, urns in row["propertyDependencies"].items()
        }
        self.asked.append(analyzer_pb2.AnalyzeRequest(properties=given, **common))
        self.shown[urn] = analyzer_pb2.AnalyzerResource(
            properties=outputs,
            parent=request.parent,
            dependencies=row["dependencies"],
            propertyDependencies=refers,
            **common,
        )

    def _shown_provider(self, request: Any) -> Any:
        from pulumi.runtime.proto import analyzer_pb2

        urn, package = self._provider(request), request.type.partition(":")[0]
        made = self.shown.get(urn)
        return analyzer_pb2.AnalyzerProviderResource(
            type=f"pulumi:providers:{package}",
            urn=urn,
            name=made.name if made else "default",
            properties=made.properties if made else None,
        )

    def for_pack(self) -> list[str]:
        """Return the requests of a policy pack in their order, the one on the stack last."""
        from pulumi.runtime.proto import analyzer_pb2

        stack = analyzer_pb2.AnalyzeStackRequest(resources=list(self.shown.values()))
        messages = [*self.asked, stack]
        return [base64.b64encode(m.SerializeToString()).decode() for m in messages]


def _state(urn: str, request: Any, inputs: Any, aliases: list[str]) -> dict[str, Any]:
    """Return a resource's planned state, in the words of `pulumi preview --json`."""
    refers = getattr(request, "propertyDependencies", {})
    return {
        "urn": urn,
        "type": request.type,
        "custom": bool(getattr(request, "custom", True)),
        "inputs": inputs,
        "parent": request.parent,
        "provider": request.provider,
        "dependencies": sorted(request.dependencies),
        "propertyDependencies": {key: sorted(value.urns) for key, value in refers.items()},
        "protect": bool(getattr(request, "protect", False)),
        "retainOnDelete": bool(getattr(request, "retainOnDelete", False)),
        "ignoreChanges": sorted(getattr(request, "ignoreChanges", ())),
        "replaceOnChanges": sorted(getattr(request, "replaceOnChanges", ())),
        "additionalSecretOutputs": sorted(getattr(request, "additionalSecretOutputs", ())),
        "deleteBeforeReplace": bool(getattr(request, "deleteBeforeReplace", False)),
        "deletedWith": getattr(request, "deletedWith", ""),
        "customTimeouts": _timeouts(request),
        "aliases": aliases,
        "stackTrace": list(_frames(request)),
    }


def _renamed(name: str, parent: str, before: str) -> str:
    return before + name.removeprefix(parent) if name.startswith(parent) else name


def _timeouts(request: Any) -> dict[str, str]:
    """Return the time limits that a program sets, as Go's durations, by what they limit."""
    limits = getattr(request, "customTimeouts", None)
    return {w: t for w in ("create", "update", "delete") if (t := getattr(limits, w, ""))}


def _frames(request: Any) -> Iterator[dict[str, str]]:
    for frame in request.stackTrace.frames if request.HasField("stackTrace") else ():
        position = frame.pc
        yield {"sourcePosition": f"{position.uri.replace('file://', 'project://')}#{position.line}"}


class _Log:
    """The engine's log: an error in it fails the plan."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def Log(self, request: Any) -> Any:
        from google.protobuf import empty_pb2
        from pulumi.runtime.proto import engine_pb2

        if request.severity == engine_pb2.ERROR:
            self.errors.append(request.message)
        return empty_pb2.Empty()


def planned(stack: Mapping[str, Any]) -> dict[str, Any]:
    """Run the program of a stack and return its states, or why it has no plan."""
    import pulumi
    from pulumi.runtime import settings
    from pulumi.runtime import stack as stacks

    recorders = _recorders()
    recorders[1].learn(stack["config"]["railhead:cluster"])
    progress = Path(stack["progress"]).open("wb", buffering=0)  # noqa: SIM115 - closed below
    monitor, log = Monitor(stack["name"], stack["project"], recorders, progress), _Log()
    _configure(stack, monitor, log)
    _find_circles_backwards()
    failed, raised = "", ""
    try:
        asyncio.run(stacks.run_in_stack(_program))
    except pulumi.RunError as error:
        failed = str(error)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it is, the engine says it
        raised = traceback.format_exc()
    finally:
        progress.close()
        pulumi.runtime.set_all_config({})
        settings.reset_options()
    if monitor.unanswered or raised:
        return {"unanswered": monitor.unanswered or f"{raised}{monitor.unread}"}
    if failed or log.errors:
        return {"failed": failed or "\n".join(log.errors)}
    return {"states": monitor.states, "requests": monitor.for_pack()}


def _configure(stack: Mapping[str, Any], monitor: Monitor, log: _Log) -> None:
    """Have the SDK talk to a monitor and a log, with the configuration of a stack."""
    import pulumi
    from pulumi.runtime import mocks, settings

    # Its declared types are those of the SDK's own mocks.
    make: Any = mocks.MockSettings
    settings.configure(
        make(
            monitor=monitor,
            monitor_features=set(),
            engine=log,
            project=stack["project"],
            stack=stack["name"],
            organization="organization",
            root_directory=str(Path.cwd()),
            dry_run=True,
            callbacks=None,
        )
    )
    settings.ROOT.set(None)
    pulumi.runtime.set_all_config({key: _text(value) for key, value in stack["config"].items()})
    sys.argv = [PROGRAM]


def _find_circles_backwards() -> None:
    """Have the SDK look for a circle among what depends on a resource: little, while it is new.

    It walks all that the other reaches, at each edge (pulumi/runtime/resource_cycle_breaker.py):
    half of a large stack's time.
    """
    from pulumi.runtime import rpc

    dependents: dict[Any, set[Any]] = {}

    def declare(from_resource: Any, to_resource: Any) -> bool:
        seen, rest = {from_resource}, [from_resource]
        while rest:
            item = rest.pop()
            if item is to_resource:
                return False
            new = dependents.get(item, set()) - seen
            seen |= new
            rest += new
        dependents.setdefault(to_resource, set()).add(from_resource)
        return True

    setattr(rpc, "declare_dependency", declare)  # noqa: B010 - typed


def _program() -> None:
    runpy.run_path(PROGRAM, run_name="__main__")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def facts(file: Path) -> dict[str, Any]:
    """Return what the checkout's own Railhead makes of a stack's file."""
    from railhead import config
    from railhead.base.errors import InputError
    from railhead.machines import MACHINES
    from railhead.resolve.cluster import resolve

    try:
        checked = config.check(file)
        cluster = checked.cluster
        return {
            "warnings": list(checked.doubts),
            "contract": json.loads(resolve(cluster).contract.to_json()),
            "cluster": cluster.model_dump(mode="json"),
            "gpus": {p.name: MACHINES[p.instance_type].gpus for p in cluster.pools},
        }
    except InputError as error:
        return {"mistakes": error.problem.splitlines()}


def _result(stack: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts and plan of one stack; its errors are part of it."""
    os.environ.clear()
    os.environ.update(stack["environment"])
    os.chdir(stack["folder"])
    try:
        result = facts(Path(stack["file"]))
        return result if "mistakes" in result else result | planned(stack)
    except Exception as error:  # noqa: BLE001 - the reader of the result says it
        return {"broken": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Plan one stack after the other."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    logging.disable(logging.CRITICAL)
    # All that is made here stays until the end: searches for garbage are a third of the time.
    gc.disable()
    for stack in json.load(sys.stdin):
        Path(stack["result"]).write_text(json.dumps(_result(stack)))


if __name__ == "__main__":
    main()
