"""What the fabric's checks see of a stack: the rest of it, as far as it is well-formed."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from railhead.base.fields import MalformedError, Model
from railhead.base.sections import Problem, told
from railhead.catalog.machines import MACHINES
from railhead.fabric import checks as checks_fabric
from railhead.fabric.site import Network, Site, SitePool, SiteRuntime
from railhead.model.cluster import Cluster
from railhead.platform.lab import networks as lab
from railhead.platform.registry import OFFERS

T = TypeVar("T")


def site_of(cluster: Cluster) -> Site:
    """The site of a cluster's fabric; what is malformed is left out of it."""
    kind = _known(lambda: cluster.platform.kind, None)
    networks = list(_networks(_known(lambda: cluster.platform, None), "platform"))
    if kind == "lab":
        networks += [
            ("the lab's nodes", ipaddress.ip_network(lab.NODE_NETWORK)),
            ("the lab's pods", ipaddress.ip_network(lab.POD_NETWORK)),
            ("the lab's services", ipaddress.ip_network(lab.SERVICE_NETWORK)),
        ]
    return Site(
        platform=kind,
        offers=OFFERS.get(str(kind), frozenset()),
        kubernetes=_known(lambda: cluster.platform.kubernetes_minor, None),
        networks=tuple(networks),
        knows_networks=kind != "existing",
        pools=_rows(
            lambda: cluster.pools,
            lambda index, pool: SitePool(
                index=index,
                name=pool.name,
                machine=MACHINES[pool.instance_type],
                nodes=_known(lambda: pool.nodes, 0),
            ),
        ),
        runtimes=_rows(
            lambda: cluster.runtimes,
            lambda index, row: SiteRuntime(index=index, pool=row.pool, gpus=row.gpus_per_node),
        ),
    )


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Every (path, message) of the fabric's section that spans several fields."""
    with contextlib.suppress(MalformedError):
        for check in checks_fabric.checks(cluster.fabric):
            yield from told(check, site_of(cluster))


def _known(value: Callable[[], T], other: Any) -> T:
    try:
        return value()
    except MalformedError:
        return other  # type: ignore[no-any-return]


def _rows(rows: Callable[[], Any], made: Callable[[int, Any], T]) -> tuple[T, ...]:
    found = [
        _known(lambda index=index, row=row: made(index, row), None)  # type: ignore[misc]
        for index, row in enumerate(_known(rows, ()))
    ]
    return tuple(row for row in found if row is not None)


def _networks(value: Any, path: str) -> Iterator[tuple[str, Network]]:
    """Every network written anywhere below ``value``, with its path."""
    if isinstance(value, Model):
        for name in type(value).model_fields:
            yield from _below(value, name, path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _safe(inner, f"{path}.{key}")
    elif isinstance(value, tuple):
        for index, inner in enumerate(value):
            yield from _safe(inner, f"{path}[{index}]")
    elif isinstance(value, str) and "/" in value:
        with contextlib.suppress(ValueError):
            network = ipaddress.ip_network(value)
            # What is open to everybody is a rule of access, not a range that anything lives in.
            if network.prefixlen:
                yield path, network


def _safe(value: Any, path: str) -> Iterator[tuple[str, Network]]:
    with contextlib.suppress(MalformedError):
        yield from _networks(value, path)


def _below(value: Model, name: str, path: str) -> Iterator[tuple[str, Network]]:
    with contextlib.suppress(MalformedError):
        yield from _networks(getattr(value, name), f"{path}.{name}")
