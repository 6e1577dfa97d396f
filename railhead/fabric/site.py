"""What a fabric's checks see of the rest of a stack, as far as that could be read."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from railhead.catalog.machine import Machine

Problem = tuple[str, str]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, kw_only=True)
class SitePool:
    """A pool whose instance type the catalogue has; ``index`` is its place in the file."""

    index: int
    name: str
    machine: Machine
    nodes: int


@dataclass(frozen=True, kw_only=True)
class SiteRuntime:
    """A runtime; ``gpus`` is None where it takes all of its machine's, ``image`` the trainer's."""

    index: int
    pool: str
    gpus: int | None
    image: str = ""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a fabric is to be.

    Args:
        platform: its name; None where the file names none that is known.
        offers: what modes may need of it (:class:`railhead.fabric.mode.Mode`, ``needs``).
        kubernetes: the minor that the stack chooses, such as ``1.35``; None where it does not.
        networks: the cluster's own networks that the platform knows, each with where it is said.
        knows_networks: whether these are all there are; else the stack must list them.
        pools: in the file's order, as far as they can be read.
        runtimes: likewise.
    """

    platform: str | None = None
    offers: frozenset[str] = frozenset()
    kubernetes: str | None = None
    networks: tuple[tuple[str, Network], ...] = ()
    knows_networks: bool = True
    pools: tuple[SitePool, ...] = ()
    runtimes: tuple[SiteRuntime, ...] = ()

    @property
    def nodes(self) -> int:
        """Nodes of all pools."""
        return sum(pool.nodes for pool in self.pools)

    @property
    def most_gpus(self) -> int:
        """GPUs of the largest machine; 1 where no pool can be read."""
        return max((pool.machine.gpus for pool in self.pools), default=1)


Check = Callable[[Site], Iterator[Problem]]
