"""A stack's file held against a live cluster, before anything is registered."""

from __future__ import annotations

from pathlib import Path

from railhead.base.errors import RailheadError
from railhead.catalog.machines import MACHINES
from railhead.config.served import unserved
from railhead.contract import Toleration
from railhead.kube import client as kube
from railhead.kube import nodes
from railhead.model.cluster import Cluster
from railhead.platform.existing.model import ExistingCluster


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


def before_up(cluster: ExistingCluster) -> str:
    """Hold a stack's pools against the live nodes before anything is registered.

    Returns why that could not be done, such as that the cluster does not answer; empty when it was.

    Raises:
        RefusedError: nodes are missing or lack what the stack says of them.
    """
    platform = cluster.platform
    if not platform.verify_nodes:
        return ""
    target = kube.Target(
        kubeconfig=Path(platform.kubeconfig).expanduser(),
        context=platform.context,
        why="platform.kubeconfig",
    )
    try:
        client = kube.Cluster(target)
        live, minor = nodes.live(client), nodes.live_minor(client)
    except RailheadError as error:
        return f"the nodes were not checked: {error.problem}"
    checked = nodes.verify(described(cluster), live)
    nodes.require(cluster.name, checked, also=unserved(cluster, minor))
    return ""
