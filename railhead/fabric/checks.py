"""Checks of the fabric's section against the pools, the platform and the catalogue."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from railhead.catalog.images import cuda_major
from railhead.catalog.parts import Variable
from railhead.catalog.switches import SWITCHES
from railhead.fabric.kinds import FABRICS
from railhead.fabric.mode import BaseFabric
from railhead.fabric.modes import MODES, modes_of
from railhead.fabric.site import Check, FabricSite, Problem

UNIVERSAL = frozenset(fabric.name for fabric in FABRICS.values() if fabric.universal)


def checks(fabric: BaseFabric) -> tuple[Check, ...]:
    """Return every check of the fabric's section, including its mode's own."""
    general = (_choice, _environment, _plugin, _whole_nodes, _cuda)
    return (*(functools.partial(check, fabric) for check in general), *fabric.checks())


def _choice(fabric: BaseFabric, site: FabricSite) -> Iterator[Problem]:
    """Yield a problem unless the mode serves this fabric, platform and machines."""
    mode = fabric.row
    if fabric.kind not in mode.fabrics:
        yield (
            "fabric.mode",
            f"{mode.name!r} does not bring fabric {fabric.kind!r} into pods; these do: "
            f"{', '.join(name for name, row in MODES.items() if fabric.kind in row.fabrics)}",
        )
    if site.platform is None:
        return
    if not mode.on(site.offers):
        yield (
            "fabric.mode",
            f"{mode.name!r} cannot be on platform {site.platform!r}; these can: "
            f"{', '.join(modes_of(frozenset(FABRICS), site.offers))}",
        )
        return
    for pool in site.pools:
        can = modes_of(pool.machine.fabrics | UNIVERSAL, site.offers)
        if site.platform in pool.machine.platforms and mode.name not in can:
            yield (
                "fabric.mode",
                f"{mode.name!r} cannot be on {pool.machine.name!r} of pools[{pool.index}] on "
                f"platform {site.platform!r}; it can: {', '.join(can)}",
            )


def _environment(fabric: BaseFabric, site: FabricSite) -> Iterator[Problem]:
    row = FABRICS[fabric.kind]
    machines = [pool.machine.name for pool in site.pools] or [""]
    pinned = {v.name: v for machine in machines for v in row.environment_on(machine)}
    reasons = {name: why for other in FABRICS.values() for name, why in other.not_set.items()}
    for name, value in fabric.environment.items():
        path = f"fabric.environment.{name}"
        switch = SWITCHES.get(name)
        if name in pinned:
            if left(fabric, pinned[name], value):
                continue
            yield path, f"is the catalogue's on fabric {fabric.kind!r}: {pinned[name].reason}"
        elif switch is not None and not switch.site:
            yield path, f"must not be set: {row.not_set.get(name) or switch.reason}"
        elif name in fabric.row.never:
            yield path, f"must not be set: {row.not_set.get(name) or reasons[name]}"


def left(fabric: BaseFabric, variable: Variable, value: str) -> bool:
    """Return whether a site may give a variable of the row's that value.

    Unless all rails have IPv6, NICs may have addresses that the site alone knows, such as those of
    ``provider-native``. NCCL takes any other word for AF_INET, without saying so (src/transport/
    net_ib/connect.cc: envIbAddrFamily). And its switches may connect rails that have no router.
    """
    if variable.value == "{cross_nic}":
        return value in ("0", "1", "2")
    known = value in ("AF_INET", "AF_INET6")
    return variable.value == "{gid_family}" and known and fabric.gid_family in ("", value)


def _plugin(fabric: BaseFabric, _: FabricSite) -> Iterator[Problem]:
    """Yield problems of a plugin that replaces NCCL's InfiniBand transport, which SHARP needs."""
    pinned = {v.name: v.value for v in FABRICS[fabric.kind].environment}
    if fabric.nccl_net is not None and pinned.get("NCCL_NET") != "IB":
        yield (
            "fabric.nccl_net",
            f"cannot be on fabric {fabric.kind!r}, which has a network of its own",
        )
    collnet = fabric.environment.get("NCCL_COLLNET_ENABLE", "0")
    if collnet != "0" and fabric.nccl_net is None:
        yield (
            "fabric.environment.NCCL_COLLNET_ENABLE",
            "does nothing without fabric.nccl_net: NCCL takes CollNet, and so SHARP, from the "
            "network plugin that it selects, and its own transport has none; say which the image "
            "has, such as IBext_v10",
        )


def _whole_nodes(fabric: BaseFabric, site: FabricSite) -> Iterator[Problem]:
    """Yield a problem if a pod takes every NIC of its node but not every GPU."""
    if not fabric.whole_nodes:
        return
    machines = {pool.name: pool.machine for pool in site.pools}
    for runtime in site.runtimes:
        machine = machines.get(runtime.pool)
        if machine is not None and runtime.gpus and runtime.gpus < machine.gpus:
            yield (
                f"runtimes[{runtime.index}].gpus_per_node",
                f"{runtime.gpus} of the {machine.gpus} GPUs of {machine.name!r}, but in mode "
                f"{fabric.row.name!r} a pod takes every NIC of its node; leave it out",
            )


def _cuda(fabric: BaseFabric, site: FabricSite) -> Iterator[Problem]:
    """Yield a problem if a plugin would find another CUDA runtime than its own in the image."""
    plugin = fabric.node_plugin
    wanted = plugin.qualified.cuda if plugin else None
    if plugin is None or wanted is None:
        return
    for runtime in site.runtimes:
        major = cuda_major(runtime.image)
        if major is not None and major != wanted:
            yield (
                f"runtimes[{runtime.index}].image",
                f"{runtime.image!r} has CUDA {major}, but plugin {plugin.qualified.plugin} of "
                f"fabric {fabric.kind!r} goes with CUDA {wanted}; name an image of that",
            )
