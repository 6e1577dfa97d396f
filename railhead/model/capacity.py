"""Capacity of nodes for pods, by resource: the one place that quotas and promises count by."""

from __future__ import annotations

from decimal import Decimal

from railhead.base.quantity import parse, show
from railhead.machines import MACHINES, Machine
from railhead.model.cluster import Cluster, Pool
from railhead.model.teams import ShareConfig

HUGEPAGES = "hugepages-2Mi"
_UNITS = {"memory": "Gi", HUGEPAGES: "Mi"}


def capacity(cluster: Cluster, machine: Machine) -> dict[str, int]:
    """Return one node's capacity by resource; memory in GiB, huge pages in MiB, else counts."""
    mode = cluster.fabric.row
    pages = {HUGEPAGES: mode.hugepages_mib * len(machine.nics)} if mode.hugepages_mib else {}
    return (
        {"cpu": machine.schedulable_vcpus, "memory": machine.schedulable_memory_gib}
        | {machine.gpu_resource: machine.gpus}
        | cluster.fabric.node_devices(machine)
        | pages
    )


def quantities(cluster: Cluster, pool: Pool, nodes: int = 1) -> dict[str, str]:
    """Return what ``nodes`` nodes of a pool have, as canonical Kubernetes quantities."""
    cpu, memory = pool.schedulable_resources
    per_node = capacity(cluster, MACHINES[pool.instance_type]) | {"cpu": cpu, "memory": memory}
    return {name: f"{count * nodes}{_unit(name)}" for name, count in per_node.items()}


def promised(cluster: Cluster, share: ShareConfig, pool: Pool) -> dict[str, str]:
    """Return what a team's share promises of each resource: whole nodes' worth, or ``quota``."""
    return quantities(cluster, pool, share.nodes) | dict(share.quota)


def beside(cluster: Cluster, share: ShareConfig, pool: Pool, nodes: int) -> dict[str, str]:
    """Return a share's promise plus ``nodes`` nodes' worth; if negative, less, and at least 0."""
    each = quantities(cluster, pool)
    return {
        name: _written(max(parse(amount) + nodes * parse(each[name]), Decimal(0)), _unit(name))
        for name, amount in promised(cluster, share, pool).items()
    }


def left(cluster: Cluster, pool: Pool) -> dict[str, str]:
    """Return what of a pool is promised to no team, by resource."""
    shares = [share for team in cluster.teams for share in team.shares if share.pool == pool.name]
    rest = {}
    for resource, total in quantities(cluster, pool, pool.nodes).items():
        taken = sum((parse(promised(cluster, s, pool)[resource]) for s in shares), Decimal(0))
        rest[resource] = _written(parse(total) - taken, _unit(resource))
    return rest


def _unit(resource: str) -> str:
    return _UNITS.get(resource, "")


def _written(amount: Decimal, unit: str) -> str:
    """Return the amount in the unit if that is whole, else in the smallest that quantities know."""
    whole = amount / parse(f"1{unit}")
    if whole == whole.to_integral_value():
        return f"{int(whole)}{unit}" if whole else "0"
    return show(amount) if amount == amount.to_integral_value() else f"{int(amount * 1000)}m"
