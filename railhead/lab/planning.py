"""The real engine's plan of a stack, without credentials: recorders replace the clouds.

The engine, the program and the policy pack are the real ones; what a provider alone knows is made
up. The engine's own log of events (`--event-log`) says what happened, one JSON object a line.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.base.errors import NotFoundError, PrerequisiteError, RailheadError, TimedOutError
from railhead.config.files import project_folder
from railhead.lab import artifacts
from railhead.lab.recorders.workspace import policy_pack, workspace

LIMIT_S = 600.0
_TICK_S = 0.1


@dataclass(frozen=True, kw_only=True)
class PlannedResource:
    """One resource that would be made, or is read; ``depth`` 0 is below the stack itself."""

    urn: str
    type: str
    name: str
    operation: str
    depth: int
    inputs: Mapping[str, Any]

    @property
    def is_component(self) -> bool:
        """True for a resource that only groups others."""
        return self.type.startswith("railhead:")


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A violation of a policy; a ``mandatory`` one stops an update."""

    rule: str
    urn: str
    message: str
    mandatory: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A first preview of a stack, in the order of its tree.

    ``states`` has each resource's planned state by URN, as `pulumi preview --json` gives it
    (``newState``): inputs, dependencies, protection, the lines of the program that make it.
    """

    stack: str
    resources: tuple[PlannedResource, ...]
    violations: tuple[Violation, ...]
    judged: bool
    seconds: float
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def made(self) -> tuple[PlannedResource, ...]:
        """The resources that would be created: no components, nothing that is only read."""
        return tuple(r for r in self.resources if r.operation == "create" and not r.is_component)

    def counts(self) -> dict[str, int]:
        """Type -> how many would be made."""
        return dict(sorted(Counter(r.type for r in self.made).items()))


def checkout_of(file: Path) -> Path:
    """Return the project that a stack's file belongs to, or that the current folder is in.

    Raises:
        NotFoundError: neither is in a Pulumi project with a program.
    """
    for start in (file.absolute().parent, Path.cwd()):
        folder = project_folder(start)
        if folder is not None and (folder / "__main__.py").is_file():
            return folder
    raise NotFoundError(
        f"{file} is in no project whose program could run: neither its folder nor one above has a "
        "Pulumi.yaml and a __main__.py",
        remedy="run it in the project's folder, or make a project with `railhead new DIR`",
    )


def plan(
    stack: str,
    file: Path,
    *,
    progress: Callable[[int], None],
    policies: bool = True,
    pack_of: Path | None = None,
) -> Plan:
    """Preview the stack of ``file`` on a state that is empty.

    Args:
        stack: its name.
        file: its file; the checkout around it has the program.
        progress: called with the number of resources that the engine has reached.
        policies: whether a policy pack judges the plan.
        pack_of: the checkout whose pack that is, with its own Railhead; default: the program's.

    Raises:
        PrerequisiteError: there is no `pulumi`.
        RailheadError: the preview failed, for another reason than a policy.
        TimedOutError: it did not end within :data:`LIMIT_S`.
    """
    on_path = shutil.which("pulumi")
    pulumi = artifacts.locate("pulumi") or (Path(on_path) if on_path else None)
    if pulumi is None:
        raise PrerequisiteError(
            "only the engine can plan this stack, and there is no `pulumi`",
            remedy="`railhead lab build --only pulumi` builds it, or install it and put it on PATH",
        )
    checkout = checkout_of(file)
    with tempfile.TemporaryDirectory(prefix="railhead-plan-") as name:
        folder = Path(name)
        laid = workspace(folder, checkout=checkout, stack=stack, file=file, pulumi=pulumi)
        events, output = folder / "events.jsonl", folder / "output.txt"
        events.touch()
        # The flag is one of those that the engine hides unless this is set.
        environment = {**laid.environment, "PULUMI_DEBUG_COMMANDS": "1"}
        preview = ["preview", "--json", "--event-log", str(events)]
        if policies:
            preview += ["--policy-pack", str(policy_pack(folder, pack_of or checkout))]
        start, status, steps = time.monotonic(), 0, folder / "steps.json"
        for words in (["stack", "init", stack], preview):
            status = _run(
                [str(pulumi), *words], laid.project, environment, (steps, output), events, progress
            )
        results = list(_events(events))
        violations = tuple(_violations(results))
        if status and not any(v.mandatory for v in violations):
            text = "\n".join(_diagnostics(results)) or _printed(steps, output)
            raise RailheadError(
                f"the preview of {stack} failed:\n{text[-2000:]}",
                remedy="mend what it names; `railhead config check` finds mistakes in the file",
            )
        return Plan(
            stack=stack,
            resources=tree(_steps(results)),
            violations=violations,
            judged=policies,
            seconds=time.monotonic() - start,
            states=_states(steps),
        )


def _run(
    command: list[str],
    project: Path,
    environment: Mapping[str, str],
    streams: tuple[Path, Path],
    events: Path,
    progress: Callable[[int], None],
) -> int:
    reached = 0

    def tick() -> None:
        nonlocal reached
        # Only what is new: all of it is megabytes.
        reached += log.read().count(b'"resourcePreEvent"')
        progress(reached)

    with (
        streams[0].open("wb") as out,
        streams[1].open("ab") as error,
        events.open("rb") as log,
    ):
        process = subprocess.Popen(
            [*command, "--non-interactive"],
            cwd=project,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=error,
        )
        if not ends(process, tick):
            raise TimedOutError(
                f"`pulumi {command[1]}` did not end within {LIMIT_S:.0f} s",
                remedy="look at the machine's load, and try again",
            )
    return process.returncode


def ends(process: subprocess.Popen[Any], tick: Callable[[], None]) -> bool:
    """Wait for a process, calling ``tick`` meanwhile; kill it, and return False, at the limit."""
    deadline = time.monotonic() + LIMIT_S
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                return False
            tick()
            time.sleep(_TICK_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return True


def _events(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _printed(*files: Path) -> str:
    return "\n".join(file.read_text(errors="replace").strip() for file in files)


def _states(steps: Path) -> dict[str, dict[str, Any]]:
    """Return the planned states by URN; none if the preview printed no document."""
    try:
        document = json.loads(steps.read_text(errors="replace"))
    except ValueError:
        return {}
    rows = (step.get("newState") for step in document.get("steps", ()))
    return {row["urn"]: row for row in rows if row}


def _diagnostics(events: list[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        result = event.get("diagnosticEvent")
        if result and result.get("severity") == "error":
            yield str(result.get("message", "")).strip()


def _violations(events: list[dict[str, Any]]) -> Iterator[Violation]:
    for event in events:
        if result := event.get("policyEvent"):
            yield Violation(
                rule=str(result.get("policyName")),
                urn=str(result.get("resourceUrn") or ""),
                message=str(result.get("message", "")).strip(),
                mandatory=result.get("enforcementLevel") == "mandatory",
            )


def _steps(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for event in events:
        if "resourcePreEvent" in event:
            step = event["resourcePreEvent"]["metadata"]
            new = step.get("new") or {}
            yield {**step, "parent": new.get("parent"), "inputs": new.get("inputs") or {}}


def tree(steps: Iterable[Mapping[str, Any]]) -> tuple[PlannedResource, ...]:
    """Return resources in the order of their tree, without providers and the stack itself.

    Args:
        steps: of each its ``urn``, ``type``, ``op``, ``parent`` and ``inputs``.
    """
    below: dict[str, list[Mapping[str, Any]]] = {}
    shown = {s["urn"]: s for s in steps if not str(s["type"]).startswith("pulumi:")}
    for step in shown.values():
        parent = str(step["parent"] or "")
        below.setdefault(parent if parent in shown else "", []).append(step)

    def walk(parent: str, depth: int) -> Iterator[PlannedResource]:
        for step in sorted(below.get(parent, ()), key=lambda s: str(s["urn"])):
            yield PlannedResource(
                urn=step["urn"],
                type=step["type"],
                name=str(step["urn"]).rsplit("::", 1)[-1],
                operation=step["op"],
                depth=depth,
                inputs=step["inputs"],
            )
            yield from walk(step["urn"], depth + 1)

    return tuple(walk("", 0))


# Type -> (what it is, inputs that its price depends on).
_PRICED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "aws:eks/cluster:Cluster": ("EKS cluster", ("version",)),
    "aws:ec2/natGateway:NatGateway": ("NAT gateway", ()),
    "aws:ec2/eip:Eip": ("public address", ()),
    "aws:ec2/vpcEndpoint:VpcEndpoint": ("VPC endpoint", ("serviceName", "vpcEndpointType")),
    "aws:fsx/lustreFileSystem:LustreFileSystem": (
        "FSx for Lustre",
        ("storageCapacity", "perUnitStorageThroughput", "deploymentType"),
    ),
    "aws:efs/fileSystem:FileSystem": ("EFS, by use", ("throughputMode",)),
    "gcp:container/cluster:Cluster": ("GKE cluster", ("location",)),
    "gcp:compute/routerNat:RouterNat": ("Cloud NAT", ()),
    "gcp:lustre/instance:Instance": (
        "Managed Lustre",
        ("capacityGib", "perUnitStorageThroughput"),
    ),
    "gcp:filestore/instance:Instance": ("Filestore", ("tier", "fileShares")),
    "gcp:storage/bucket:Bucket": ("bucket, by use", ("location",)),
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """A thing with a price by the hour or the GiB; ``details`` are what the price depends on."""

    what: str
    name: str
    details: Mapping[str, Any]


def priced(plan: Plan) -> tuple[Item, ...]:
    """Return what costs money in addition to the pools' nodes, mostly while it merely exists."""
    items = []
    for resource in plan.made:
        if resource.type in _PRICED:
            what, keys = _PRICED[resource.type]
            details = {k: resource.inputs[k] for k in keys if resource.inputs.get(k) is not None}
            items.append(Item(what=what, name=resource.name, details=details))
    return tuple(sorted(items, key=lambda item: (item.what, item.name)))
