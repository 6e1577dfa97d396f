"""Every value of a job that nobody wrote: where it comes from, and why it is what it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.names import (
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from railhead.contract import ClusterContract, Runtime
from railhead.launch.estimates import Figure, Shape, figures
from railhead.launch.job import WORKSPACE, JobFile, SizingFile
from railhead.launch.plan import HOSTS, Plan
from railhead.launch.programs.keep import POD, RUN

_NETWORKS = "k8s.v1.cni.cncf.io/networks"
_PLACED = {
    REQUIRED_TOPOLOGY: "all within one {}, or it waits",
    PREFERRED_TOPOLOGY: "within one {} where that is possible",
    SLICE_TOPOLOGY: "each {1} nodes within one {0}, or it waits",
    UNCONSTRAINED_TOPOLOGY: "anywhere with room",
}


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A value, where it comes from and why."""

    name: str
    value: str
    origin: str
    why: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the value as ``--json`` prints it."""
        return {"name": self.name, "value": self.value, "from": self.origin, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The job, what it was planned to be, and what was set by options."""

    job: JobFile
    plan: Plan
    contract: ClusterContract
    options: Mapping[str, str]

    @property
    def runtime(self) -> Runtime:
        return self.contract.runtime(self.plan.runtime)

    @property
    def at(self) -> str:
        """The runtime's place in the contract."""
        return f"contract: runtimes.{self.plan.runtime}"

    def by(self, field: str) -> str:
        """Return the origin of a field: the job file, unless an option overrode it."""
        return self.options.get(field, "job file")

    def row(self, field: str, value: object, otherwise: str, why: str) -> Derived:
        """Return a field of the job file, or what is taken where it is left out."""
        name = field.replace("_", " ")
        if getattr(self.job, field) is not None:
            return Derived(name=name, value=str(value), origin=self.by(field))
        return Derived(name=name, value=str(value), origin=otherwise, why=why)


def derived(
    job: JobFile, plan: Plan, contract: ClusterContract, options: Mapping[str, str] | None = None
) -> tuple[Derived, ...]:
    """Return every choice of a plan.

    Args:
        job: what was asked for.
        plan: what was made of it.
        contract: the cluster's.
        options: fields that an option set -> the option.
    """
    asked = _Asked(job=job, plan=plan, contract=contract, options=options or {})
    return (
        *_place(asked),
        *_size(asked),
        *_roles(asked),
        *_program(asked),
        *_environment(asked),
        *_pods(asked),
    )


def _place(asked: _Asked) -> Iterator[Derived]:
    job, plan, contract, runtime = asked.job, asked.plan, asked.contract, asked.runtime
    framework = plan.framework.name if plan.framework else runtime.framework
    own = framework == runtime.framework
    yield Derived(name="name", value=plan.name, origin=asked.by("name"))
    if job.runtime is not None:
        yield Derived(name="runtime", value=plan.runtime, origin=asked.by("runtime"))
    elif job.framework is not None:
        why = (
            f"the only one of framework {job.framework}"
            if own
            else f"no runtime is of framework {job.framework}, and this one carries such jobs"
        )
        yield Derived(name="runtime", value=plan.runtime, origin="contract: runtimes", why=why)
    else:
        why = f"the first of {len(contract.runtimes)}; no runtime and no framework is named"
        yield Derived(name="runtime", value=plan.runtime, origin="contract: runtimes", why=why)
    origin = f"{asked.at}.framework" if own else asked.by("framework")
    yield Derived(name="framework", value=framework, origin=origin)
    yield asked.row("image", plan.image or runtime.image, f"{asked.at}.image", "the runtime's")
    yield asked.row(
        "queue", plan.queue, "contract: queues", f"the first one over pool {plan.pool.name}"
    )
    yield asked.row(
        "namespace", plan.namespace, f"contract: queues.{plan.queue}.namespace", "the queue's"
    )
    yield Derived(
        name="cluster queue",
        value=plan.cluster_queue,
        origin=f"contract: queues.{plan.queue}.cluster_queue",
        why=f"flavor {plan.flavor}, whose quota it takes",
    )
    yield asked.row(
        "priority",
        plan.priority or "none",
        f"contract: queues.{plan.queue}.priority",
        "what jobs get that name none" if plan.priority else "the cluster has no priorities",
    )
    pool = plan.pool
    yield Derived(
        name="pool",
        value=f"{pool.name}: {pool.nodes} x {pool.instance_type}",
        origin=f"{asked.at}.pool",
        why="pods of the runtime run there alone",
    )
    yield from _placement(asked)
    if plan.avoid:
        yield Derived(name="avoid", value=", ".join(plan.avoid), origin=asked.by("avoid"))


def _placement(asked: _Asked) -> Iterator[Derived]:
    own = (asked.runtime.pod.get("metadata") or {}).get("annotations") or {}
    chosen = own if asked.plan.annotations is None else asked.plan.annotations
    for annotation, words in _PLACED.items():
        if annotation in chosen:
            level = str(chosen[annotation]).rpartition("/")[2]
            value = words.format(level, chosen.get(SLICE_SIZE))
            yield asked.row("topology", value, f"{asked.at}.pod", f"annotation {annotation}")
            return
    yield asked.row("topology", "as the scheduler has it", "default", "the runtime asks for none")


def _size(asked: _Asked) -> Iterator[Derived]:
    plan, runtime = asked.plan, asked.runtime
    yield Derived(name="nodes", value=str(plan.nodes), origin=asked.by("nodes"))
    if plan.min_nodes is not None:
        yield Derived(name="min nodes", value=str(plan.min_nodes), origin=asked.by("min_nodes"))
    yield asked.row(
        "gpus_per_node", plan.gpus_per_node, f"{asked.at}.gpus_per_node", "the runtime's own number"
    )
    item = plan.framework is not None and plan.framework.one_process
    if plan.resized and not item:
        yield asked.row(
            "processes_per_node", plan.processes_per_node, "default", "one a GPU that is asked for"
        )
    else:
        why = "one process has all GPUs" if item else "the runtime's own number"
        yield asked.row(
            "processes_per_node",
            plan.processes_per_node,
            f"{asked.at}.processes_per_node",
            why,
        )
    yield Derived(
        name="world size",
        value=str(plan.world_size),
        origin=f"{plan.nodes} nodes x {plan.processes_per_node} processes",
    )
    for side, amount in (plan.resources.get("requests") or {}).items():
        device = side in runtime.devices or side == plan.gpu_resource
        yield Derived(
            name=f"a node's {side}",
            value=str(amount),
            origin=f"{asked.at}.shares" if device else f"{asked.at}.pod",
            why=f"what goes with {plan.gpus_per_node} GPUs" if device else "the runtime's",
        )
    yield asked.row(
        "timeout",
        f"{plan.max_seconds} s" if plan.max_seconds else "none",
        "default",
        "it may run for ever",
    )
    restarts = runtime.restarts if plan.restarts is None else plan.restarts
    yield asked.row(
        "restarts",
        "as its stack has it" if restarts is None else restarts,
        f"{asked.at}.restarts",
        "how often the gang is recreated when it fails: the runtime's own number",
    )


def _roles(asked: _Asked) -> Iterator[Derived]:
    for part in asked.plan.roles:
        yield Derived(
            name=f"role {part.role}",
            value=f"{part.nodes} nodes of {part.gpus_per_node} GPUs with {part.processes_per_node} "
            f"processes, runtime {part.runtime}: {shown(part.command)}",
            origin=asked.by("roles"),
            why="pods of the same gang, which one queue admits whole",
        )


def shown(words: Sequence[str]) -> str:
    """Return a command as a shell takes it; of words with several lines, the first line alone."""
    import shlex

    texts = [word.strip('"\n').splitlines() if "\n" in word else [] for word in words]
    return " ".join(
        f"<{lines[0]}>" if lines else shlex.quote(word)
        for word, lines in zip(words, texts, strict=True)
    )


def _program(asked: _Asked) -> Iterator[Derived]:
    job, plan = asked.job, asked.plan
    given, made = tuple(job.command), tuple(plan.command)
    yield Derived(name="command", value=shown(made), origin=asked.by("command"))
    if made != given and plan.framework is not None:
        what = "Python" if job.launcher == "own" else "its launcher"
        yield Derived(
            name="command begins with",
            value=shown(made[: len(made) - len(given) + 1]),
            origin=f"framework {plan.framework.name}",
            why=f"{given[0]!r} gets {what} and its place in {WORKSPACE}"
            if given[0].endswith(".py")
            else f"{given[0]!r} gets what the job's other nodes must know, or be known by",
        )
    yield asked.row(
        "verify",
        f"{shown(plan.proof.words)} comes before the command" if plan.proof else "no",
        "default",
        "the command starts without a proof of the fabric",
    )
    yield asked.row(
        "logs",
        f"kept on claim {plan.logs_claim}" if plan.logs_claim else "with the pods alone",
        f"{asked.at}.checkpoint",
        "so that they outlive pods, nodes and the job"
        if plan.logs_claim
        else "they go with the pods",
    )
    if plan.files:
        size = sum(len(file.data) for file in plan.files)
        yield Derived(
            name="files",
            value=f"{len(plan.files)} files, {size} bytes",
            origin=asked.by("files"),
            why=f"in {WORKSPACE}, read-only, as ConfigMaps that go with the job",
        )


def _environment(asked: _Asked) -> Iterator[Derived]:
    job, plan, contract, runtime = asked.job, asked.plan, asked.contract, asked.runtime
    for name, value in runtime.environment.items():
        if name in plan.env:
            continue
        if plan.framework is not None and name in plan.framework.rendezvous:
            who = runtime.reserved.get(name, "Kubeflow Trainer")
            why = "by which the processes meet"
            yield Derived(name=f"env {name}", value="at the start", origin=who, why=why)
            continue
        reason = contract.fabric.reasons.get(name, "")
        fabric = name in contract.fabric.environment
        origin = "contract: fabric.environment" if fabric else f"{asked.at}.pod"
        yield Derived(name=f"env {name}", value=value, origin=origin, why=reason)
    for name, value in plan.env.items():
        if name in job.env:
            yield Derived(name=f"env {name}", value=value, origin=asked.by("env"))
            continue
        yield Derived(name=f"env {name}", value=value, origin="launch", why=_reason(name))
    for name, value in plan.wiring.items():
        framework = plan.framework.name if plan.framework else ""
        yield Derived(
            name=f"env {name}",
            value=value,
            origin=f"framework {framework}",
            why="by which the processes meet",
        )
    for name, source in plan.secrets.items():
        yield Derived(name=f"env {name}", value=f"Secret {source}", origin=asked.by("secrets"))
    for name in (POD, RUN) if plan.logs_claim else ():
        why = "for what keeps the logs; the command does not get it"
        yield Derived(name=f"env {name}", value="at the start", origin="launch", why=why)


_WHY = {
    "RAILHEAD_JOB": "the job's name",
    "RAILHEAD_NODES": "so that a world of the wrong size is noticed at once",
    "RAILHEAD_PROCESSES_PER_NODE": "so that a world of the wrong size is noticed at once",
    "RAILHEAD_WORLD_SIZE": "so that a world of the wrong size is noticed at once",
    "CHECKPOINT_DIR": "the job's own directory in the claim that its runtime mounts",
    "RAILHEAD_ROLE": "which role the pod has",
    "RAILHEAD_LAUNCHER": "launcher: none, so no process has to join one world",
    "OMPI_MCA_plm_rsh_agent": "by which mpirun's ssh takes the other variables to all pods",
    "NCCL_NET": "fabric: none, so NCCL takes TCP unless env says otherwise",
}


def _reason(variable: str) -> str:
    """Return why launch sets a variable."""
    if variable.startswith(HOSTS):
        return "by which the roles meet"
    return _WHY.get(variable, "")


def _pods(asked: _Asked) -> Iterator[Derived]:
    plan, runtime = asked.plan, asked.runtime
    spec = runtime.pod.get("spec") or {}
    for volume in spec.get("volumes") or ():
        memory = volume.get("emptyDir") or {}
        if memory.get("medium") == "Memory":
            yield asked.row(
                "shm",
                plan.shm or memory.get("sizeLimit") or "half of the node's memory",
                f"{asked.at}.pod",
                f"volume {volume['name']}: processes of a node hand each other tensors there",
            )
    networks = ((runtime.pod.get("metadata") or {}).get("annotations") or {}).get(_NETWORKS)
    if networks:
        yield Derived(
            name="networks",
            value=str(networks),
            origin=f"{asked.at}.pod",
            why="a rail's interface each",
        )
    fabric = "left to the job" if asked.job.fabric else "held to the training fabric"
    kind = f"{asked.contract.fabric.kind}, mode {asked.contract.fabric.mode}"
    yield asked.row("fabric", fabric, "default", f"{kind}: over TCP it would crawl and not say so")
    if runtime.checkpoint is not None:
        yield Derived(
            name="checkpoint claim",
            value=f"{runtime.checkpoint.claim} at {runtime.checkpoint.path}",
            origin=f"{asked.at}.checkpoint",
            why="every node mounts it",
        )
    for path, claim in plan.mounts.items():
        yield Derived(name=f"mount {path}", value=claim, origin=asked.by("mounts"))


def shape(plan: Plan, contract: ClusterContract, *, fabric: str | None) -> Shape:
    """Return the machines of a plan, with the NICs that go with the GPUs it uses."""
    pool = plan.pool
    rate = float(pool.line_rate_gbps or contract.fabric.line_rate_gbps * pool.nics)
    part = plan.gpus_per_node / pool.gpus_per_node if pool.gpus_per_node else 1.0
    gpus = plan.processes_per_node
    if plan.framework is not None and plan.framework.one_process:
        # Otherwise a process has one GPU; any further GPUs of its pod stay idle.
        gpus = plan.gpus_per_node or gpus
    return Shape(nodes=plan.nodes, gpus=gpus, gbps=0.0 if fabric == "none" else rate * part)


def estimated(job: JobFile, plan: Plan, contract: ClusterContract) -> list[Figure]:
    """Return the figures for the job's `sizing` that are otherwise worked out by hand."""
    return figures(job.sizing or SizingFile(), shape(plan, contract, fabric=job.fabric))


def number(value: float | None) -> str:
    """Return a figure as people read it, with four digits.

    >>> number(1024), number(0.065625), number(None), number(4194304)
    ('1024', '0.06562', '-', '4194304')
    """
    if value is None:
        return "-"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


def show(rows: Iterable[Derived], numbers: Sequence[Figure]) -> None:
    """Print the values and the figures as tables on standard output."""
    from railhead.launch.console import out, table

    table(
        ("VALUE", "IS", "FROM", "WHY"),
        [(row.name, row.value, row.origin, row.why) for row in rows],
        folded=("IS", "FROM", "WHY"),
    )
    out("")
    table(
        ("FIGURE", "OF", "IS", "HOW", "SOURCE"),
        [
            (f.group, f.name, f"{number(f.value)} {f.unit}".rstrip(), f.formula, f.source)
            for f in numbers
        ],
        folded=("OF", "HOW", "SOURCE"),
        styles=["yellow" if f.wrong else None for f in numbers],
    )


def to_json(rows: Iterable[Derived], numbers: Iterable[Figure]) -> dict[str, Any]:
    """Return the values and the figures as ``--json`` prints them."""
    return {
        "values": [row.to_json() for row in rows],
        "figures": [figure.to_json() for figure in numbers],
    }
