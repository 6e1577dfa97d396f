"""Checks that a stack's versions, with its add-ons, serve its Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base.sections import Problem
from railhead.catalog.versions import COMBINATIONS, unrun
from railhead.model.cluster import Cluster

# kubernetes/kubernetes CHANGELOG-1.34: DRA is stable and on, as resource.k8s.io/v1.
_CLAIMS_SINCE = (1, 34)


def addons(cluster: Cluster) -> list[str]:
    """Return the names of the catalogue's add-ons that a stack installs."""
    own = ["gpu-operator"] if cluster.gpu_operator is not None else []
    if _claims_gpus(cluster):
        own.append("dra-driver-nvidia-gpu")
    return [*own, *cluster.queueing.addons, *cluster.fabric.addons()]


def claims_devices(cluster: Cluster) -> bool:
    """Return whether pods get NICs, GPUs or channels of an NVLink domain by a ResourceClaim."""
    return cluster.fabric.nic_claim() is not None or _claims_gpus(cluster)


def _claims_gpus(cluster: Cluster) -> bool:
    operator = cluster.gpu_operator
    return operator is not None and (operator.allocation == "dra" or operator.compute_domains)


def unserved(cluster: Cluster, minor: str) -> str:
    """Return why a Kubernetes minor, such as ``"1.36"``, is not for the stack; empty if it is."""
    combination, names = COMBINATIONS[cluster.versions], addons(cluster)
    if claims_devices(cluster) and _minor(minor) < _CLAIMS_SINCE:
        return (
            f"Kubernetes {minor} does not serve resource.k8s.io/v1, in which the stack claims "
            "devices: it is served from 1.34 on"
        )
    oldest, newest = combination.kubernetes_with(names)
    if _minor(oldest) <= _minor(minor) <= _minor(newest):
        return ""
    narrower = [
        f"{name} {row.version} serves {row.kubernetes.oldest} to {row.kubernetes.newest or 'newer'}"
        for name in names
        if (row := combination.addon(name)).kubernetes and not row.kubernetes.holds(minor)
    ]
    because = f" ({'; '.join(narrower)})" if narrower else ""
    return (
        f"Kubernetes {minor} is not served by versions {combination.name!r}: it is for {oldest} to "
        f"{newest}{because}"
    )


def unproven(cluster: Cluster) -> str:
    """Return one line where the stack's combination was read and never run; empty where it ran."""
    why = unrun(row.version for row in COMBINATIONS[cluster.versions].controllers)
    return f"versions {cluster.versions!r}: {why}" if why else ""


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield mistakes in the Kubernetes that a stack chooses."""
    minor, combination = cluster.platform.kubernetes_minor, COMBINATIONS[cluster.versions]
    if minor is None:
        return
    oldest, newest = combination.kubernetes
    if not _minor(oldest) <= _minor(minor) <= _minor(newest):
        yield (
            "platform.kubernetes",
            f"{minor!r} is not served by versions {combination.name!r}: {oldest} to {newest}",
        )
    elif why := unserved(cluster, minor):
        yield "platform.kubernetes", why
