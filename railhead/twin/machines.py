"""The nodes of a stack's pools, from rows of truth: what is there before, and what clouds make."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from railhead.fabric.railed import RailedFabric
from railhead.machines import MACHINES
from railhead.model.cluster import Cluster, Pool
from railhead.twin.truth import Node, Taint, filled, truth

#: What a machine of no known maker has beside what the stack calls schedulable.
_SLACK_CPU, _SLACK_GIB = 4, 16
_SHARE_OF_MEMORY = 0.97
_RACK = 8


def standing(cluster: Cluster) -> Iterator[Node]:
    """Yield the nodes of a cluster that is there before the stack: its pools', and two of its own.

    The site has labelled and tainted the pools' nodes as the stack's file says it has, and its
    network's tables gave them topology labels: racks of eight.
    """
    rows = truth()
    control = rows.platform("metal.control-plane")
    yield Node(
        name="control-0",
        labels=filled(control.labels, name="control-0"),
        taints=control.taints,
        allocatable={"cpu": "16", "memory": "60Gi", "pods": "110"},
    )
    worker = rows.platform("metal.worker")
    yield Node(
        name="service-0",
        labels=filled(worker.labels, name="service-0"),
        allocatable={"cpu": "32", "memory": "120Gi", "pods": "110"},
    )
    for pool in cluster.pools:
        machine = rows.machine("existing", pool.instance_type)
        for number in range(pool.nodes):
            name = f"{pool.name}-{number:02d}"
            labels = filled(worker.labels, name=name) | dict(pool.node_selector)
            yield Node(
                name=name,
                pool=pool.name,
                labels=labels | _site_topology(cluster.topology or (), number),
                taints=_tolerated(pool),
                allocatable={**machine.allocatable, **_room(pool)},
                gpus=MACHINES[pool.instance_type].gpus,
                interfaces=interfaces(cluster),
                link="infiniband" if cluster.fabric.kind == "infiniband" else "ether",
                host=worker.host | _host(cluster),
            )


def interfaces(cluster: Cluster) -> tuple[str, ...]:
    """Return the fabric NICs of each node by name: no two makers agree, so the stack's own."""
    fabric = cluster.fabric
    if not isinstance(fabric, RailedFabric):
        return ()
    if names := tuple(fabric.node_interfaces()):
        return names
    first = (next(iter(getattr(rail, "pf_names", ())), "") for rail in fabric.rails)
    return tuple(name for name in first if name) or ("ib0",)


def _tolerated(pool: Pool) -> tuple[Taint, ...]:
    """Return the taints that a site has where its pool says that jobs tolerate them."""
    return tuple(
        Taint(key=t.key, value=t.value or "", effect="NoSchedule")
        for t in pool.tolerations
        if t.key is not None
    )


def _host(cluster: Cluster) -> frozenset[str]:
    """Return what the site's image has, as the stack's file says of it."""
    operator = cluster.gpu_operator
    has = set()
    if operator is None or operator.driver == "host":
        has.add("gpu-driver")
    if operator is None or operator.toolkit == "host":
        has.add("container-toolkit")
    return frozenset(has)


def _room(pool: Pool) -> Mapping[str, str]:
    machine = MACHINES[pool.instance_type]
    stated = getattr(pool, "schedulable", None)
    cpu, gib = machine.vcpus, machine.memory_gib
    return {
        "cpu": str(cpu if cpu is not None else int(stated.cpu if stated else 0) + _SLACK_CPU),
        "memory": f"{int(gib * _SHARE_OF_MEMORY)}Gi"
        if gib is not None
        else f"{int(stated.memory_gib if stated else 0) + _SLACK_GIB}Gi",
        "ephemeral-storage": "800Gi",
    }


def _site_topology(keys: Sequence[str], number: int) -> dict[str, str]:
    """Return a node's place, from the widest domain to the narrowest; host names are nodes' own."""
    wide = [key for key in keys if key != "kubernetes.io/hostname"]
    return {
        key: f"{key.rsplit('/', 1)[-1]}-{number // (_RACK * 4 ** (len(wide) - 1 - depth))}"
        for depth, key in enumerate(wide)
    }


def on_aws(
    *,
    group: str,
    machine: str,
    zone: str,
    number: int,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
    capacity: str,
    efa: int,
    image: str,
) -> Node:
    """Return a node of an EKS node group.

    Args:
        group: the node group's name.
        machine: EC2's instance type.
        zone: its availability zone.
        number: which of the group's nodes it is, from 0.
        labels: the node group's own.
        taints: the node group's own.
        capacity: EKS' capacity type.
        efa: EFA interfaces of the launch template.
        image: EKS' name of the image; one of the launch template's own has what NVIDIA's has.
    """
    rows = truth()
    platform, row = rows.platform("aws.managed-node"), rows.machine("aws", machine)
    accelerated = "NVIDIA" in image or image == "CUSTOM"
    digest = int(hashlib.sha256(group.encode()).hexdigest()[:4], 16)
    region = zone.rstrip("abcdef")
    name = f"ip-10-{digest // 250 % 250}-{digest % 250}-{number}.{region}.compute.internal"
    made = filled(
        platform.labels,
        name=name,
        machine=machine,
        zone=zone,
        region=region,
        group=group,
        capacity=capacity,
    )
    place = {
        key: _domain(key, number, depth, len(row.layers)) for depth, key in enumerate(row.layers)
    }
    return Node(
        name=name,
        pool=group,
        labels=made | dict(row.labels) | place | dict(labels),
        taints=(*platform.taints, *taints),
        allocatable=row.allocatable,
        gpus=row.gpus,
        efa=min(efa, row.efa),
        host=rows.platform("aws.nvidia-image").host if accelerated else platform.host,
    )


def on_gcp(
    *,
    cluster: str,
    group: str,
    machine: str,
    zone: str,
    number: int,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
    capacity: str,
    driver: str,
    placed: Collection[str],
    nics: Sequence[tuple[str, str]],
) -> Node:
    """Return a node of a GKE node pool.

    Args:
        cluster: the cluster's name.
        group: the node pool's name.
        machine: Compute Engine's machine type.
        zone: its zone.
        number: which of the pool's nodes it is, from 0.
        labels: the node pool's own.
        taints: the node pool's own.
        capacity: ``standard``, ``spot``, ``flex-start`` or ``queued``.
        driver: ``default``, ``latest``, or ``installation_disabled`` for none of GKE's.
        placed: what of its pool may give it topology labels (:class:`MachineRow`); ``any`` does
            whatever its row says.
        nics: VPC and subnet of each further interface.
    """
    rows = truth()
    row = rows.machine("gcp", machine)
    kind = {"flex-start": "gcp.flex-node", "queued": "gcp.queued-node", "spot": "gcp.spot-node"}
    kinds = ["gcp.node", "gcp.gpu-node"] if row.gpus else ["gcp.node"]
    kinds += [kind[capacity]] if capacity in kind else []
    platforms = [rows.platform(name) for name in kinds]
    digest = hashlib.sha256(group.encode()).hexdigest()[:8]
    name = f"gke-{cluster[:16]}-{group[:16]}-{digest}-{number:04d}"
    made: dict[str, str] = {}
    for platform in platforms:
        made |= filled(
            platform.labels,
            name=name,
            machine=machine,
            zone=zone,
            region=zone.rpartition("-")[0],
            group=group,
            capacity="flex-start" if capacity == "queued" else capacity,
            driver=driver,
        )
    here = row.layers if "any" in placed or row.placed & set(placed) else ()
    place = {key: _domain(key, number, depth, len(here)) for depth, key in enumerate(here)}
    host = frozenset[str]().union(*(p.host for p in platforms))
    if driver == "installation_disabled":
        host -= {"gpu-driver"}
    given = {(t.key, t.effect): t for p in platforms for t in p.taints}
    given |= {(t.key, t.effect): t for t in taints}
    return Node(
        name=name,
        pool=group,
        labels=made | dict(row.labels) | place | dict(labels),
        taints=tuple(given.values()),
        allocatable=row.allocatable,
        gpus=row.gpus,
        nics=tuple((vpc, subnet) for vpc, subnet in nics),
        host=host,
    )


def _domain(key: str, number: int, depth: int, layers: int) -> str:
    """Return a layer's value on a node: a rack shares the closest layer, four racks the next."""
    place = f"{key}{number // (_RACK * 4 ** (layers - 1 - depth))}"
    return f"nn-{hashlib.sha256(place.encode()).hexdigest()[:17]}"
