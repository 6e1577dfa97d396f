"""The rest of a stack for a fabric's checks, as far as it could be read."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from railhead.machines.machine import Machine

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
    """A runtime; ``gpus`` is None for all of its machine's, ``image`` is the trainer's."""

    index: int
    pool: str
    gpus: int | None
    image: str = ""


@dataclass(frozen=True, kw_only=True)
class FabricSite:
    """The surroundings of a fabric.

    Args:
        platform: its name; None if the file names no known platform.
        offers: what modes may need of it (:class:`railhead.fabric.mode.Mode`, ``needs``).
        kubernetes: the minor that the stack chooses, such as ``1.35``; None if it does not.
        networks: the cluster's own networks that the platform knows, each with its path.
        knows_networks: whether these are all; else the stack must list them.
        pools: in the file's order, as far as they can be read.
        runtimes: in the file's order, as far as they can be read.
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
        """The number of nodes of all pools."""
        return sum(pool.nodes for pool in self.pools)

    @property
    def most_gpus(self) -> int:
        """The GPUs of the largest machine; 1 if no pool can be read."""
        return max((pool.machine.gpus for pool in self.pools), default=1)


Check = Callable[[FabricSite], Iterator[Problem]]
