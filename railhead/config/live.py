"""A stack's file held against a live cluster, before anything is registered."""

from __future__ import annotations

from pathlib import Path

from railhead.base.errors import RailheadError, RefusedError
from railhead.base.names import TRAINING_LABEL
from railhead.config.served import unserved
from railhead.contract import ClusterContract, Toleration
from railhead.kube import client as kube
from railhead.kube import nodes
from railhead.kube.published import find_contract
from railhead.machines import MACHINES
from railhead.model.cluster import Cluster
from railhead.platform.registry import platform_of

# Of every namespace that a stack makes.
MANAGED = "railhead.dev/managed"


def described(cluster: Cluster) -> tuple[nodes.Promise, ...]:
    """Return what a stack's file promises of the nodes before anything is installed on them.

    Device resources come with the operators that the stack installs, and GPUs may: neither is
    checked yet.
    """
    queued = platform_of(cluster).queued_pools(cluster)
    return tuple(
        nodes.Promise(
            pool=pool.name,
            nodes=pool.nodes,
            selector=pool.node_selector,
            capacity=_capacity(*pool.schedulable_resources),
            labels=() if pool.name in queued else cluster.topology,
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
    """Return the cluster of a stack's file, unless ``kubeconfig`` or ``context`` name another.

    Raises:
        PrerequisiteError: the cluster should exist and does not, or nothing names one: the
            kubeconfigs of clusters that stacks make are secrets of those stacks.
    """
    access = None if kubeconfig else platform_of(cluster).access(cluster)
    if access is None:
        return kube.choose_target(kubeconfig=kubeconfig, context=context)
    return kube.Target(
        kubeconfig=access.kubeconfig, context=context or access.context, why=access.why
    )


def left_behind(cluster: Cluster) -> tuple[str, ...]:
    """Return the stack's namespaces that an earlier stack left in the cluster for their claims.

    Empty if the stack makes its own cluster, or if it does not answer.
    """
    try:
        if platform_of(cluster).access(cluster) is None:
            return ()
        client = kube.Cluster(target(cluster))
        namespaces = client.list(
            "/api/v1/namespaces", selector=f"{TRAINING_LABEL}=true,{MANAGED}=true"
        )
    except RailheadError:
        return ()
    names = {str(namespace["metadata"]["name"]) for namespace in namespaces}
    return tuple(name for name in cluster.training_namespaces if name in names)


def published(cluster: Cluster) -> ClusterContract | None:
    """Return the contract in the stack's cluster; None if it does not answer or has none."""
    try:
        if platform_of(cluster).access(cluster) is None:
            return None
        return find_contract(kube.Cluster(target(cluster)))
    except RailheadError:
        return None


def elsewhere(cluster: Cluster, published: ClusterContract) -> str:
    """Return why a contract that was found in a cluster is not the stack's; empty if it may be."""
    for what, expected, actual in (
        ("name", cluster.name, published.cluster),
        ("platform", cluster.platform.kind, published.platform),
    ):
        if expected != actual:
            return (
                f"this is another cluster: the stack's {what} is {expected!r}, and the contract "
                f"that is published there says {actual!r}"
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
    """Refuse a cluster whose UID is not that in the stack's file.

    Raises:
        RefusedError: it is another cluster.
    """
    expected = platform_of(cluster).uid(cluster)
    if expected and (actual := nodes.uid(client)) != expected:
        raise RefusedError(
            f"{client.server} ({client.target.why}) is another cluster: platform.uid is "
            f"{expected!r}, and its namespace kube-system has "
            f"{actual or 'one that may not be read'!r}",
            remedy="name the stack's own cluster, or correct platform.uid if it was recreated",
        )


def before_up(cluster: Cluster) -> str:
    """Compare a stack's pools with the live nodes before anything is registered.

    Returns a message: why that was not possible, such as that the cluster does not answer, or
    which nodes are down or missing while others of their pool are up. Empty if all is well.

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
    messages = []
    if down := sorted(name for pool in checked for name in pool.down):
        messages.append(f"nodes that are not ready or cordoned, and get no jobs: {', '.join(down)}")
    messages += [
        f"pool {pool.promise.pool!r}: {pool.promise.nodes} nodes promised, {len(pool.nodes)} there"
        for pool in checked
        if pool.few_away
    ]
    return "; ".join(messages)
