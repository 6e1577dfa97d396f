"""Finds what an edit takes from the cluster: namespaces, claims, queues, pools, all jobs."""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base import quantity
from railhead.config.edits.edit import Edit, like
from railhead.contract import Checkpoint, ClusterContract


def lost(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    """Yield all of it."""
    for finds in (_namespaces, _claims, _datasets, _pools, _placement, _fabric):
        yield from finds(before, after)
    # By another scheduler nothing is left in any queue.
    queues = _queues if before.scheduler == after.scheduler else _scheduler
    yield from queues(before, after)


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
            f"{kept}{like(added, 'namespace')}",
            way="keep its name; to move, add the new namespace beside it, let its jobs end, and "
            "copy what is to be kept",
        )


def _claims(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    now = {(claim.namespace, claim.claim): claim for claim in after.checkpoints}
    then = _claims_of(before)
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
                f"data, and nobody mounts it{like(added, 'claim, and empty')}; the claim and its "
                "volume stay in the cluster until someone deletes them",
                way=rename,
            )
        else:
            # Whose classes say nothing of growth; those of existing clusters may, and NFS' does.
            whole = not after.standing and claim.storage_class in after.made.storage
            yield from _unchangeable(name, claim, new, whole)


def _datasets(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    """Yield changes that the API server refuses during an update: a claim keeps volume and name."""
    now = {(dataset.namespace, dataset.claim): dataset for dataset in after.datasets}
    claims = _claims_of(after)
    for dataset in before.datasets:
        at = (dataset.namespace, dataset.claim)
        new = now.get(at)
        if at in claims:
            tells = "cannot become a checkpoint: its claim stays in the cluster, and has the name"
        elif dataset.volume and new and new.volume not in (None, dataset.volume):
            tells = f"cannot move from volume {dataset.volume} to {new.volume}: a claim's is fixed"
        else:
            continue
        yield Edit(
            kind="data set",
            name=f"{dataset.namespace}/{dataset.claim}",
            loses=(),
            tells=tells,
            way="give the new claim another name",
        )
    for namespace, claim in _claims_of(before) & {
        at for at, dataset in now.items() if dataset.volume
    }:
        yield Edit(
            kind="checkpoint",
            name=f"{namespace}/{claim}",
            loses=(),
            tells="cannot become a data set on a volume: its claim stays in the cluster, and has "
            "the name",
            way="leave out `volume`: the data set is then on the claim as it is",
        )


def _claims_of(contract: ClusterContract) -> set[tuple[str, str]]:
    return {(claim.namespace, claim.claim) for claim in contract.checkpoints}


def _unchangeable(name: str, claim: Checkpoint, new: Checkpoint, whole: bool) -> Iterator[Edit]:
    """Yield what the API server refuses of a claim; ``whole`` ones are of a cloud's file system."""
    if claim.storage_class is not None and new.storage_class != claim.storage_class:
        # core/v1, ValidatePersistentVolumeClaimUpdate: only resources of a bound claim change.
        yield Edit(
            kind="checkpoint",
            name=name,
            loses=(),
            tells=f"cannot move from storage class {claim.storage_class} to {new.storage_class}: "
            "a claim's class is fixed, and a new claim would be empty",
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
    elif whole and _bytes(new.size) > _bytes(claim.size):
        # kubernetes, plugin/pkg/admission/storage/persistentvolume/resize: only by classes that
        # allow volumes to expand, which one that provisions nothing cannot.
        yield Edit(
            kind="checkpoint",
            name=name,
            loses=(),
            tells=f"cannot grow from {claim.size} to {new.size}: Kubernetes refuses it of a class "
            "that is a file system of the stack's, and `up` would end there",
            way=f"leave its size at {claim.size}, which limits nothing; the file system grows in "
            "platform.storage",
        )


def _bytes(size: str) -> float:
    return float(quantity.parse(size))


def _queues(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    now = {(queue.namespace, queue.name): queue for queue in after.queues}
    then = {(queue.namespace, queue.name) for queue in before.queues}
    pools = {pool.name for pool in after.node_pools}
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
                f"their quota back to nobody{like(added, 'queue')}",
                way="keep its name, or add the new queue beside it and remove this one when no job "
                "names it",
            )
        elif left := [pool for pool in queue.pools if pool not in new.pools and pool in pools]:
            yield Edit(
                kind="queue",
                name=name,
                loses=("jobs", "quota"),
                tells=f"would no longer hand out {', '.join(left)}: jobs that wait for its nodes "
                "wait for ever, and it is refused while jobs hold them",
                way="let its jobs there end first",
            )
        elif new.cluster_queue != queue.cluster_queue:
            # kueue v1beta2, LocalQueueSpec: clusterQueue is immutable.
            yield Edit(
                kind="queue",
                name=name,
                loses=("jobs",),
                tells=f"would be recreated to move from cluster queue {queue.cluster_queue} to "
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
                + like(same, "pool over the same nodes"),
                way="keep its name, or let its jobs end first",
            )
        elif before.scheduler != after.scheduler:
            continue
        elif (old := flavors.get(pool.name)) and new_flavors.get(pool.name) not in (None, old):
            yield Edit(
                kind="pool",
                name=pool.name,
                loses=("jobs",),
                tells="would be counted again, as flavor "
                f"{new_flavors[pool.name]} instead of {old}: its node_selector, tolerations, "
                "gate or topology differ, which no flavor in use can change; it is refused while "
                "jobs hold its nodes",
                way="let its jobs end first, or leave these as they were",
            )
        elif new.node_selector != pool.node_selector:
            yield Edit(
                kind="pool",
                name=pool.name,
                loses=("jobs",),
                tells="would have other nodes: jobs that wait, or start again, look for those of "
                f"{pool.node_selector}",
                way="let its jobs end first, or leave its node_selector as it was",
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
        f"whose Trainer patches pods by {new} instead of {old}: once the definitions are replaced, "
        "a TrainJob that runs gives its quota away and is stopped, and one that waits never "
        "starts, or starts without what it mounts",
        way="hold and drain the cluster queues before the definitions are replaced, and `railhead "
        "restart` each job after the update (docs/upgrading.md)",
    )


def _scheduler(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    if before.scheduler != after.scheduler:
        yield Edit(
            kind="cluster",
            name=after.cluster,
            loses=("jobs", "quota"),
            tells=f"would be {after.scheduler}'s instead of {before.scheduler}'s: what "
            f"{before.scheduler} admitted is counted by nobody, and what waits in its queues waits "
            "for ever",
            way="let every job end, or cancel it, first",
        )


def _fabric(before: ClusterContract, after: ClusterContract) -> Iterator[Edit]:
    """Yield networks and devices that pods ask for again when their gang restarts."""
    now = {(network.namespace, network.name) for network in after.fabric.networks}
    gone = {
        network.name
        for network in before.fabric.networks
        if (network.namespace, network.name) not in now
        and network.namespace not in _removed(before, after)
    }
    gone |= set(before.device_resources) - set(after.device_resources)
    gone |= set(before.made.addons) - {*after.made.addons, before.scheduler}
    if gone:
        yield Edit(
            kind="cluster",
            name=after.cluster,
            loses=("jobs",),
            tells=f"would no longer have {', '.join(sorted(gone))}, which jobs from before ask for "
            "whenever they start: those that wait, or start again, never run",
            way="let every job end, or cancel it, first, or leave the fabric as it was",
        )


def _removed(before: ClusterContract, after: ClusterContract) -> set[str]:
    return set(before.namespaces) - set(after.namespaces)


def _flavors(contract: ClusterContract) -> dict[str, str]:
    """Return pool -> its flavor, as far as a queue names both."""
    return {
        pool: flavor
        for queue in contract.queues
        for pool, flavor in zip(queue.pools, queue.flavors, strict=False)
    }
