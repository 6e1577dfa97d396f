"""A stack's file held against a live cluster, before anything is registered."""

from __future__ import annotations

from pathlib import Path

from railhead.base.errors import RailheadError, RefusedError
from railhead.base.names import TRAINING_LABEL
from railhead.catalog.machines import MACHINES
from railhead.config.served import unserved
from railhead.contract import ClusterContract, Toleration
from railhead.kube import client as kube
from railhead.kube import nodes
from railhead.kube.published import find_contract
from railhead.model.cluster import Cluster
from railhead.platform.registry import platform_of

# Of every namespace that a stack makes.
MANAGED = "railhead.dev/managed"


def described(cluster: Cluster) -> tuple[nodes.Promise, ...]:
    """What a stack's file says of the nodes before anything was installed on them.

    Device resources come with the operators that the stack installs, and GPUs may: neither is asked
    for yet.
    """
    return tuple(
        nodes.Promise(
            pool=pool.name,
            nodes=pool.nodes,
            selector=pool.node_selector,
            capacity=_capacity(*pool.schedulable_resources),
            labels=cluster.topology,
            tolerations=tuple(Toleration(**t.model_dump()) for t in pool.tolerations),
            architecture=MACHINES[pool.instance_type].architecture,
            instance_type=nodes.cloud_name(pool.instance_type),
        )
        for pool in cluster.pools
    )


def _capacity(cpus: int, memory_gib: int) -> dict[str, str]:
    return {"cpu": str(cpus), "memory": f"{memory_gib}Gi"}


def target(
    cluster: Cluster, kubeconfig: Path | None = None, context: str | None = None
) -> kube.Target:
    """The cluster that a stack's file means, unless ``kubeconfig`` or ``context`` name another.

    Raises:
        PrerequisiteError: it should be there and is not, or nothing names one: the kubeconfigs of
            clusters that stacks make are secrets of theirs.
    """
    found = None if kubeconfig else platform_of(cluster).access(cluster)
    if found is None:
        return kube.choose_target(kubeconfig=kubeconfig, context=context)
    return kube.Target(kubeconfig=found.kubeconfig, context=context or found.context, why=found.why)


def left_behind(cluster: Cluster) -> tuple[str, ...]:
    """Namespaces of the stack's that are in the cluster already, kept by an earlier one for claims.

    Nothing where the stack makes its own cluster, or where it does not answer.
    """
    try:
        if platform_of(cluster).access(cluster) is None:
            return ()
        client = kube.Cluster(target(cluster))
        found = client.list("/api/v1/namespaces", selector=f"{TRAINING_LABEL}=true,{MANAGED}=true")
    except RailheadError:
        return ()
    names = {str(one["metadata"]["name"]) for one in found}
    return tuple(name for name in cluster.training_namespaces if name in names)


def published(cluster: Cluster) -> ClusterContract | None:
    """The contract that the stack's cluster has; None where it cannot be asked or has none."""
    try:
        if platform_of(cluster).access(cluster) is None:
            return None
        return find_contract(kube.Cluster(target(cluster)))
    except RailheadError:
        return None


def elsewhere(cluster: Cluster, published: ClusterContract) -> str:
    """Why a contract that was found in a cluster is not that of a stack; empty where it may be."""
    for what, said, found in (
        ("name", cluster.name, published.cluster),
        ("platform", cluster.platform.kind, published.platform),
    ):
        if said != found:
            return (
                f"this is another cluster: the stack's {what} is {said!r}, and the contract that "
                f"is published there says {found!r}"
            )
    names = [pool.name for pool in cluster.pools]
    theirs = [pool.name for pool in published.node_pools]
    if sorted(names) != sorted(theirs):
        return (
            f"this is another cluster, or the file was edited since the last `pulumi up`: the "
            f"stack's pools are {', '.join(names)}, the published contract's {', '.join(theirs)}"
        )
    for pool in cluster.pools:
        [other] = [p for p in published.node_pools if p.name == pool.name]
        if (pool.nodes, pool.instance_type) != (other.nodes, other.instance_type):
            return (
                "this is another cluster, or the file was edited since the last `pulumi up`: pool "
                f"{pool.name!r} is {pool.nodes} x {pool.instance_type} in the file, {other.nodes} "
                f"x {other.instance_type} in the published contract"
            )
    return ""


def require_own(cluster: Cluster, client: kube.Cluster) -> None:
    """Refuse a cluster that is not the one whose UID the stack's file says.

    Raises:
        RefusedError: it is another.
    """
    said = platform_of(cluster).uid(cluster)
    if said and (found := nodes.uid(client)) != said:
        raise RefusedError(
            f"{client.server} ({client.target.why}) is another cluster: platform.uid is {said!r}, "
            f"and its namespace kube-system has {found or 'one that may not be read'!r}",
            remedy="name the stack's own cluster, or correct platform.uid where it was made anew",
        )


def before_up(cluster: Cluster) -> str:
    """Hold a stack's pools against the live nodes before anything is registered.

    Returns what to tell: why that could not be done, such as that the cluster does not answer, or
    which nodes are down, or few away, while others of their pool are up. Empty where all is well.

    Raises:
        RefusedError: nodes are missing or lack what the stack says of them.
    """
    if not platform_of(cluster).checks_nodes(cluster):
        return ""
    try:
        client = kube.Cluster(target(cluster))
        live, minor = nodes.live(client), nodes.live_minor(client)
    except RailheadError as error:
        return f"the nodes were not checked: {error.problem}"
    require_own(cluster, client)
    checked = nodes.verify(described(cluster), live)
    nodes.require(cluster.name, checked, also=unserved(cluster, minor), down_bars=False)
    told = []
    if down := sorted(name for pool in checked for name in pool.down):
        told.append(f"nodes that are not ready or cordoned, and get no jobs: {', '.join(down)}")
    told += [
        f"pool {pool.promise.pool!r}: {pool.promise.nodes} nodes promised, {len(pool.nodes)} there"
        for pool in checked
        if pool.few_away
    ]
    return "; ".join(told)
