"""The view of a stack that the fabric's checks get: its well-formed parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from railhead.base.sections import Problem, known, told
from railhead.fabric import checks as checks_fabric
from railhead.fabric.site import FabricSite, SitePool, SiteRuntime
from railhead.machines import MACHINES
from railhead.model.cluster import Cluster, Pool, RuntimeConfig
from railhead.platform.registry import PLATFORMS

T = TypeVar("T")


def site_of(cluster: Cluster) -> FabricSite:
    """Return the site of a cluster's fabric; what is malformed is left out of it."""
    pools = _rows(_pool, known(lambda: cluster.pools))
    runtimes = _rows(_runtime, known(lambda: cluster.runtimes))
    platform = PLATFORMS.get(known(lambda: cluster.platform.kind) or "")
    if platform is None:
        return FabricSite(pools=pools, runtimes=runtimes)
    return FabricSite(
        platform=platform.kind,
        offers=platform.offers,
        kubernetes=known(lambda: cluster.platform.kubernetes_minor),
        networks=tuple(platform.networks(cluster)),
        knows_networks=platform.knows_networks,
        pools=pools,
        runtimes=runtimes,
    )


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield every (path, message) of the fabric's section that spans several fields."""
    site = site_of(cluster)
    for check in known(lambda: checks_fabric.checks(cluster.fabric)) or ():
        yield from told(check, site)


def _rows(made: Callable[[int, Any], T], rows: Iterable[Any] | None) -> tuple[T, ...]:
    known_rows = (known(made, index, row) for index, row in enumerate(rows or ()))
    return tuple(row for row in known_rows if row is not None)


def _pool(index: int, pool: Pool) -> SitePool:
    return SitePool(
        index=index,
        name=pool.name,
        machine=MACHINES[pool.instance_type],
        nodes=known(lambda: pool.nodes) or 0,
    )


def _runtime(index: int, row: RuntimeConfig) -> SiteRuntime:
    image = known(lambda: row.image) or ""
    return SiteRuntime(index=index, pool=row.pool, gpus=row.gpus_per_node, image=image)
