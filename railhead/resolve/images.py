"""Every image that a stack deploys, as its registry calls it."""

from __future__ import annotations

from collections.abc import Iterator

from railhead.catalog.digests import pinned
from railhead.catalog.versions import COMBINATIONS, KUBE_STATE_METRICS, PARTS, Controller
from railhead.config.served import addons
from railhead.model.cluster import Cluster
from railhead.platform.registry import platform_of
from railhead.resolve.gate import GATE_IMAGE
from railhead.resolve.schedulers import scheduler_of


def images(cluster: Cluster) -> tuple[str, ...]:
    """Return references of images with tag or digest, each once, sorted.

    For charts, all images that they can run by their default values. Not included are images that
    a cloud installs by itself, that a job names, that are built where the stack runs, or whose
    tag only the chart knows.
    """
    if platform_of(cluster).built_here:
        return ()
    references = {reference for reference in _images(cluster) if not reference.endswith(":")}
    return tuple(sorted(references))


def loose(cluster: Cluster) -> tuple[str, ...]:
    """Return the images of a stack without a known digest: a registry may move their tags."""
    return tuple(image for image in images(cluster) if not pinned(image)[0])


def _images(cluster: Cluster) -> Iterator[str]:
    combination = COMBINATIONS[cluster.versions]
    names = (*addons(cluster), *platform_of(cluster).addons(cluster))
    three = (scheduler_of(cluster).controller(combination), combination.jobset, combination.trainer)
    for row in (*three, *map(combination.addon, names)):
        yield from _of_chart(cluster, row)
    plugin = cluster.fabric.node_plugin
    if plugin is not None and getattr(cluster.fabric, "install", False):
        yield plugin.installer.reference
        injector, pause = PARTS["nri-device-injector"].images
        yield pause.reference
        if plugin.injector:
            yield injector.reference
    if plugin is not None and plugin.daemon is not None:
        yield plugin.daemon.image.reference
    # The gate's, the keepers', and the exporter's where the cluster is watched.
    yield cluster.gate.image or GATE_IMAGE
    if cluster.watching.kind != "none":
        yield KUBE_STATE_METRICS.reference
    yield from (runtime.image for runtime in cluster.runtimes)


def _of_chart(cluster: Cluster, row: Controller) -> Iterator[str]:
    yield f"{platform_of(cluster).image(cluster, row.image)}:{row.tag}"
    yield from (operand.reference for operand in row.operands.values())
