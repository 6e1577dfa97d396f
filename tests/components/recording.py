"""A Pulumi monitor that remembers every registration, and a runner for the real program."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import os
import runpy
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from pulumi.runtime import mocks, resource, rpc
from pulumi.runtime.proto import source_pb2
from pulumi.runtime.settings import ROOT, configure, reset_options
from pulumi.runtime.stack import run_in_stack

from railhead.components import program as shipped
from railhead.lab.recorders.answers import answer, learn
from railhead.lab.recorders.shapes import EXISTING, fabricated
from railhead.lab.recorders.workspace import fake_kubeconfig, fake_lab
from tests import shipped as stacks

__all__ = ["fake_kubeconfig", "fake_lab"]

REPO = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One resource as the program registers it with the engine."""

    urn: str
    type: str
    name: str
    custom: bool
    parent: str
    provider: str
    deleted_with: str
    protect: bool
    retain: bool
    ignore_changes: frozenset[str]
    dependencies: frozenset[str]
    inputs: Mapping[str, Any]
    #: How it is replaced, how long it may take, and what it was called.
    manner: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Recording:
    """All registrations of one run of the program, whose own folder was ``folder``."""

    folder: str = ""
    resources: dict[str, Registered] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of_type(self, token: str) -> list[Registered]:
        return [r for r in self.resources.values() if r.type == token]

    def kind(self, kind: str) -> list[Registered]:
        return [r for r in self.resources.values() if r.inputs.get("kind") == kind]

    def one(self, kind: str, name: str | None = None) -> Registered:
        results = [
            r
            for r in self.kind(kind)
            if name is None or r.inputs.get("metadata", {}).get("name") == name
        ]
        assert len(results) == 1, f"{kind} {name}: {[r.name for r in results]}"
        return results[0]

    def deleted_with(self, resource: Registered) -> str:
        """Return what it is deleted with; the engine deletes a child with its parent."""
        at: Registered | None = resource
        while at and not at.deleted_with:
            at = self.resources.get(at.parent)
        return at.deleted_with if at else ""

    def before(self, urn: str) -> set[str]:
        """Everything that must exist before it: its dependencies, its provider, and theirs."""
        results: set[str] = set()
        todo = [urn]
        while todo:
            resource = self.resources[todo.pop()]
            edges = set(resource.dependencies)
            if resource.provider:
                edges.add(resource.provider.rsplit("::", 1)[0])
            for edge in edges - results:
                results.add(edge)
                todo.append(edge)
        return results


class RecordingMocks(pulumi.runtime.Mocks):
    """Answers as a provider would: inputs come back, and in a preview of a new one nothing else."""

    def __init__(self, *, known: bool) -> None:
        self.known = known

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict]:
        if args.resource_id:
            # Read, not made: what is there is known at a preview too.
            return args.resource_id, dict(EXISTING[args.typ, args.resource_id])
        if not self.known:
            return None, dict(args.inputs)
        return f"{args.name}-id", fabricated(args.typ, args.name, args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        return answer(args.token, args.args)


def _manner(request: Any) -> dict[str, Any]:
    timeouts = request.customTimeouts
    return {
        "timeouts": {w: t for w in ("create", "update", "delete") if (t := getattr(timeouts, w))},
        "replaced for": sorted(request.replaceOnChanges),
        "deleted before it is replaced": request.deleteBeforeReplace,
        # The types that its SDK once had for it are no business of ours.
        "known as": [MessageToDict(a) for a in request.aliases if a.urn or a.spec.name],
        "imported": request.importId,
        "secret": sorted(request.additionalSecretOutputs),
    }


class RecordingMonitor(mocks.MockMonitor):
    """Keeps what the mocks' own monitor drops: parents, dependencies, providers."""

    def __init__(self, answers: RecordingMocks, recording: Recording) -> None:
        super().__init__(answers)
        self.recording = recording

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        response = super().RegisterResource(request)
        self.recording.resources[response.urn] = Registered(
            urn=response.urn,
            type=request.type,
            name=request.name,
            custom=request.custom,
            parent=request.parent,
            provider=request.provider,
            deleted_with=request.deletedWith,
            protect=request.protect,
            retain=request.retainOnDelete,
            ignore_changes=frozenset(request.ignoreChanges),
            dependencies=frozenset(request.dependencies),
            inputs=rpc.deserialize_properties(request.object, keep_unknowns=True) or {},
            manner=_manner(request),
        )
        return response

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        response = super().ReadResource(request)
        self.recording.resources[response.urn] = Registered(
            urn=response.urn,
            type=request.type,
            name=request.name,
            custom=True,
            parent=request.parent,
            provider=request.provider,
            deleted_with="",
            protect=False,
            retain=False,
            ignore_changes=frozenset(),
            dependencies=frozenset(request.dependencies),
            inputs=rpc.deserialize_properties(request.properties, keep_unknowns=True) or {},
        )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        assert request.urn not in self.recording.outputs, f"registered twice: {request.urn}"
        self.recording.outputs[request.urn] = rpc.deserialize_properties(request.outputs) or {}
        return super().RegisterResourceOutputs(request)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


STACKS = stacks.STACKS
stack_cluster = stacks.stack

for _stack in STACKS:
    # What the shipped stacks take to exist in their accounts does.
    learn(stack_cluster(_stack))


def lab_cluster() -> dict[str, Any]:
    """Return the lab stack's `railhead:cluster` with its first runtime and one queue."""
    cluster = stack_cluster("lab")
    del cluster["default_queue"]
    # The others differ in their framework, which has tests of its own.
    return cluster | {"runtimes": cluster["runtimes"][:1]}


@contextmanager
def _programs_by_name() -> Iterator[None]:
    """Yield a file that pods run stands as its path: an edit of it changes nothing that is made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipped, "_text", lambda path: f"the text of {path.name}")
        yield


def _whole_program() -> None:
    runpy.run_path(str(REPO / "__main__.py"), run_name="__main__")


async def _run(
    monitor: RecordingMonitor,
    stack: str,
    settings: dict[str, str],
    preview: bool,
    program: Callable[[], None],
) -> None:
    configure(
        mocks.MockSettings(
            monitor=monitor,
            monitor_features=set(monitor.GetDeploymentInfo(Empty()).supportedFeatures),
            engine=mocks.MockEngine(None),
            project="railhead",
            stack=stack,
            dry_run=preview,
            callbacks=None,
        )
    )
    ROOT.set(None)
    pulumi.runtime.set_all_config(settings)
    # What a program that is stopped leaves behind is no error of the next test's.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    await run_in_stack(program)
    mine = asyncio.current_task()
    pending = [task for task in asyncio.all_tasks() if task is not mine and not task.done()]
    assert not pending, f"nobody waited for {pending}"


@contextmanager
def _earlier_objects_set_aside() -> Iterator[None]:
    """Yield a collection looks through what was made since alone, not all of the session's."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _without_source_positions() -> Iterator[None]:
    """Yield while resources are registered without the lines that made them: 20 % of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "_get_stack_trace", source_pb2.StackTrace)
        yield


def run_program(
    cluster: Mapping[str, Any] | None,
    cache: Path,
    *,
    stack: str = "lab",
    known: bool = True,
    preview: bool = False,
    program: Callable[[], None] = _whole_program,
) -> Recording:
    """Run the repository's `__main__.py`, or ``program``, as the engine would.

    Returns what it registered. Fails on an Output or a coroutine that nobody waited for.
    """
    recording = Recording(folder=str(cache))
    answers = RecordingMocks(known=known)
    with (
        _earlier_objects_set_aside(),
        _without_source_positions(),
        environment({"RAILHEAD_CACHE": str(cache), "HOME": str(cache / "home")}),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", RuntimeWarning)
        settings = {} if cluster is None else {"railhead:cluster": json.dumps(cluster)}
        try:
            monitor = RecordingMonitor(answers, recording)
            asyncio.run(_run(monitor, stack, settings, preview, program))
        finally:
            pulumi.runtime.set_all_config({})
            reset_options()
        gc.collect()
    forgotten = [str(w.message) for w in caught if "never awaited" in str(w.message)]
    assert not forgotten, forgotten
    return recording


@functools.cache
def recorded(stack: str, *, known: bool = True) -> Recording:
    """Return a run of a stack as it is shipped, made once for all tests, which only read it."""
    with tempfile.TemporaryDirectory() as folder:
        return run_stack(stack, Path(folder), known=known)


def run_stack(
    stack: str, folder: Path, *, known: bool = True, cluster: Mapping[str, Any] | None = None
) -> Recording:
    """Run the program on a stack that is shipped; ``folder`` is an empty one of the caller's.

    ``known`` False is a preview of a new stack: nothing that a provider would add is known.
    ``cluster`` replaces the stack's own.
    """
    chosen = stack_cluster(stack) if cluster is None else cluster
    fake_lab(folder)
    fake_kubeconfig(folder / "home", chosen)
    with _programs_by_name():
        return run_program(chosen, folder, stack=stack, known=known, preview=not known)
