"""What an edit of a stack's file would take away, against what the stack made last.

What it made last is its contract, an output of its own. Kubernetes renames nothing: an object with
another name is another object, and the old one goes with all that is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from railhead.base import quantity
from railhead.base.errors import RefusedError
from railhead.contract import Checkpoint, ClusterContract
from railhead.model.removals import Kind, Loss, RemovalConfig
from railhead.platform.base import Made


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One object that an edit takes away or makes anew.

    Args:
        kind: what it is.
        name: ``namespace/name`` within a namespace, else its name.
        loses: what goes with it; empty for what no entry can allow.
        tells: what happens, in a sentence without its subject.
        way: what to do instead.
    """

    kind: Kind
    name: str
    loses: tuple[Loss, ...]
    tells: str
    way: str

    def allowed_by(self, removals: Sequence[RemovalConfig]) -> bool:
        """Whether the file says that this object, by name, may be lost with all that it loses."""
        return bool(self.loses) and any(
            one.kind == self.kind and one.name == self.name and set(one.loses) >= set(self.loses)
            for one in removals
        )

    def __str__(self) -> str:
        text = f"{self.kind} {self.name} {self.tells}\n    instead: {self.way}"
        if not self.loses:
            return text
        loses = ", ".join(self.loses)
        return (
            f"{text}\n    or lose it: under `removals`, "
            f"- {{kind: {self.kind}, name: {self.name}, loses: [{loses}]}}"
        )


@dataclass(frozen=True, kw_only=True)
class FileSystems:
    """Storage class -> its file system (:meth:`railhead.platform.base.Platform.file_systems`).

    ``before`` is what the stack made last, empty where an older one did not say.
    """

    before: Mapping[str, Made] = field(default_factory=dict)
    after: Mapping[str, Made] = field(default_factory=dict)


def edits(
    before: ClusterContract, after: ClusterContract, systems: FileSystems = FileSystems()
) -> tuple[Edit, ...]:
    """All that goes, or is made anew, from what a stack made to what its file says now."""
    return (
        *_cluster(before, after),
        *_namespaces(before, after),
        *_made_anew(before, after, systems),
        *_claims(before, after),
        *_queues(before, after),
        *_pools(before, after),
        *_placement(before, after),
    )


def stop(
    before: ClusterContract,
    after: ClusterContract,
    removals: Sequence[RemovalConfig],
    systems: FileSystems = FileSystems(),
) -> str:
    """Let through what loses nothing and what the file allows; return what to warn of.

    Raises:
        RefusedError: something would be lost; one paragraph for each object.
    """
    found = edits(before, after, systems)
    if barred := [one for one in found if not one.allowed_by(removals)]:
        raise RefusedError(
            f"cluster {after.cluster}: this edit would lose what the stack made:\n"
            + "\n".join(f"  {one}" for one in barred),
            remedy="undo the edit, or say in the stack's file what may be lost; "
            "nothing was changed (docs/editing.md)",
        )
    named = {(one.kind, one.name) for one in found}
    stale = [one for one in removals if (one.kind, one.name) not in named]
    there = _present(after)
    if standing := [f"{r.kind} {r.name}" for r in stale if (r.kind, r.name) in there]:
        raise RefusedError(
            f"removals: {', '.join(standing)}: this edit takes nothing from it, and the entry "
            "would let a later one do so",
            remedy="take the entry out; nothing was changed",
        )
    gone = ", ".join(f"{one.kind} {one.name}" for one in stale)
    told = [f"removals: {gone}: no longer there; take the entry out"] if stale else []
    return "\n".join((*told, *_fewer(before, after), *_held(before, after)))


def _held(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Runtimes whose deletion waits: for jobs that name them, ended ones too.

    Trainer keeps one by a finalizer (pkg/constants, `trainer.kubeflow.org/resource-in-use`).
    """
    there = {runtime.name for runtime in after.runtimes}
    for runtime in before.runtimes:
        if runtime.name not in there:
            yield (
                f"runtime {runtime.name}: goes once no TrainJob names it, ended ones too, and "
                "`pulumi up` waits for that: delete those jobs first, or keep the runtime"
            )


def _fewer(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """What loses quota, and jobs where the stack makes the nodes, by a number alone."""
    now = {pool.name: pool.nodes for pool in after.node_pools}
    for pool in before.node_pools:
        if (nodes := now.get(pool.name, pool.nodes)) < pool.nodes:
            yield (
                f"pool {pool.name}: {nodes} nodes in place of {pool.nodes}: so much less quota; "
                "where the stack makes the nodes, jobs on those that go end"
            )


def _present(contract: ClusterContract) -> set[tuple[str, str]]:
    return {
        *(("checkpoint", f"{c.namespace}/{c.claim}") for c in contract.checkpoints),
        *(("namespace", name) for name in contract.namespaces),
        *(("queue", f"{q.namespace}/{q.name}") for q in contract.queues),
        *(("pool", pool.name) for pool in contract.node_pools),
        ("cluster", contract.cluster),
    }


def _like(added: Sequence[str], what: str) -> str:
    return f"; Kubernetes has no rename: {', '.join(added)} would be a new {what}" if added else ""


def _cluster(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    for what, old, new in (
        ("called", before.cluster, after.cluster),
        ("on platform", before.platform, after.platform),
    ):
        if old != new:
            yield Edit(
                kind="cluster",
                name=before.cluster,
                loses=(),
                tells=f"would be {what} {new} instead of {old}: all that the stack made would be "
                "made a second time, and then deleted under its first name",
                way="leave it as it was; another cluster is another stack's file",
            )


def _made_anew(
    before: ClusterContract, after: ClusterContract, systems: FileSystems
) -> Iterator[Edit]:
    """Claims whose file system an edit replaces by an empty one."""
    now = {(claim.namespace, claim.claim) for claim in after.checkpoints}
    for claim in before.checkpoints:
        name = claim.storage_class or ""
        old, new = systems.before.get(name), systems.after.get(name)
        if old is None or new is None or (claim.namespace, claim.claim) not in now:
            continue
        changes = [
            f"{key} {was} to {new['fixed'].get(key)}"
            for key, was in old["fixed"].items()
            if new["fixed"].get(key) != was
        ] + [
            f"{key} down from {was} to {new['grows'].get(key)}"
            for key, was in old["grows"].items()
            if (new["grows"].get(key) or 0) < was
        ]
        if changes:
            yield Edit(
                kind="checkpoint",
                name=f"{claim.namespace}/{claim.claim}",
                loses=("data",),
                tells=f"({claim.size}) would lose what is in it: file system {name} cannot go from "
                f"{', '.join(changes)} in place, and one made anew is empty",
                way="leave these as they were, or add a file system and a claim beside it, and "
                "copy",
            )


def _namespaces(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    added = [name for name in after.namespaces if name not in before.namespaces]
    for name in before.namespaces:
        if name in after.namespaces:
            continue
        held = [claim.claim for claim in before.checkpoints if claim.namespace == name]
        kept = f"; its claims {', '.join(held)} stay in the cluster without the stack" * bool(held)
        yield Edit(
            kind="namespace",
            name=name,
            loses=("jobs",),
            tells="would go, with every job that runs or waits in it, its queues and its quota"
            f"{kept}{_like(added, 'namespace')}",
            way="keep its name; to move, add the new namespace beside it, let its jobs end, and "
            "copy what is to be kept",
        )


def _claims(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    now = {(claim.namespace, claim.claim): claim for claim in after.checkpoints}
    then = {(claim.namespace, claim.claim) for claim in before.checkpoints}
    for claim in before.checkpoints:
        name = f"{claim.namespace}/{claim.claim}"
        new = now.get((claim.namespace, claim.claim))
        if new is None:
            added = [
                c.claim for at, c in now.items() if at not in then and at[0] == claim.namespace
            ]
            rename = (
                f"to call it {added[0]!r} in this file, write `name: {added[0]}` and `claim: "
                f"{claim.claim}`: the claim and its data stay as they are"
                if added and claim.namespace in after.namespaces
                else "keep it in checkpoints"
            )
            yield Edit(
                kind="checkpoint",
                name=name,
                loses=("data",),
                tells=f"({claim.size}) would no longer be the stack's: new jobs find none of its "
                f"data, and nobody mounts it{_like(added, 'claim, and empty')}; the claim and its "
                "volume stay in the cluster until somebody deletes them",
                way=rename,
            )
        else:
            yield from _unchangeable(name, claim, new)


def _unchangeable(name: str, claim: Checkpoint, new: Checkpoint) -> Iterator[Edit]:
    if claim.storage_class is not None and new.storage_class != claim.storage_class:
        # core/v1, ValidatePersistentVolumeClaimUpdate: only resources of a bound claim change.
        yield Edit(
            kind="checkpoint",
            name=name,
            loses=(),
            tells=f"cannot move from storage class {claim.storage_class} to {new.storage_class}: "
            "a claim's class is fixed, and one made anew would be empty",
            way="add a claim of another name with the new class, copy the data, then remove this",
        )
    elif _bytes(new.size) < _bytes(claim.size):
        yield Edit(
            kind="checkpoint",
            name=name,
            loses=(),
            tells=f"cannot shrink from {claim.size} to {new.size}: Kubernetes only grows claims",
            way=f"leave its size at {claim.size}, or add a smaller claim of another name",
        )


def _bytes(size: str) -> float:
    return float(quantity.parse(size))


def _queues(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    now = {(queue.namespace, queue.name): queue for queue in after.queues}
    then = {(queue.namespace, queue.name) for queue in before.queues}
    for queue in before.queues:
        at = (queue.namespace, queue.name)
        name, new = f"{queue.namespace}/{queue.name}", now.get(at)
        if queue.namespace not in after.namespaces:
            continue
        if new is None:
            added = [q.name for n, q in now.items() if n not in then and n[0] == queue.namespace]
            yield Edit(
                kind="queue",
                name=name,
                loses=("jobs",),
                tells="would go: jobs that name it wait for ever, and those that run in it give "
                f"their quota back to nobody{_like(added, 'queue')}",
                way="keep its name, or add the new queue beside it and remove this one when no job "
                "names it",
            )
        elif new.cluster_queue != queue.cluster_queue:
            # kueue v1beta2, LocalQueueSpec: clusterQueue is immutable.
            yield Edit(
                kind="queue",
                name=name,
                loses=("jobs",),
                tells=f"would be made anew to move from cluster queue {queue.cluster_queue} to "
                f"{new.cluster_queue}, which cannot be changed in place: it is refused while jobs "
                "are in it",
                way=f"leave cluster_queue at {queue.cluster_queue}, or let the queue's jobs end "
                "first",
            )


def _pools(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    now = {pool.name: pool for pool in after.node_pools}
    flavors, new_flavors = _flavors(before), _flavors(after)
    for pool in before.node_pools:
        new = now.get(pool.name)
        if new is None:
            same = [p.name for p in now.values() if p.node_selector == pool.node_selector]
            yield Edit(
                kind="pool",
                name=pool.name,
                loses=("jobs", "quota"),
                tells=f"would go, with its quota of {pool.nodes} nodes, and the nodes themselves "
                "where the stack made them; jobs that hold its nodes would no longer be counted"
                + _like(same, "pool over the same nodes"),
                way="keep its name, or let its jobs end first",
            )
        elif (old := flavors.get(pool.name)) and new_flavors.get(pool.name) not in (None, old):
            yield Edit(
                kind="pool",
                name=pool.name,
                loses=("jobs",),
                tells="would be counted anew, as flavor "
                f"{new_flavors[pool.name]} instead of {old}: its node_selector, tolerations or the "
                "topology differ, which no flavor in use can change; it is refused while jobs hold "
                "its nodes",
                way="let its jobs end first, or leave these as they were",
            )


def _placement(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    old, new = before.placement_field, after.placement_field
    if old in (None, new):
        return
    yield Edit(
        kind="cluster",
        name=after.cluster,
        loses=("jobs",),
        tells=f"would go from {before.versions['combination']} to {after.versions['combination']}, "
        f"whose Trainer patches pods by {new} instead of {old}: a job from before loses what its "
        "pods mount and where they may run, and is stopped or never starts",
        way="let every job end, or cancel it, before the definitions are replaced "
        "(docs/upgrading.md)",
    )


def _flavors(contract: ClusterContract) -> dict[str, str]:
    """Pool -> its flavor, as far as a queue names both."""
    return {
        pool: flavor
        for queue in contract.queues
        for pool, flavor in zip(queue.pools, queue.flavors, strict=False)
    }
