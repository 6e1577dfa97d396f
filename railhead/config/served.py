"""Which Kubernetes a stack's versions serve, with the add-ons that it installs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from railhead.base.raw import Raw, mapping
from railhead.catalog.versions import COMBINATIONS

if TYPE_CHECKING:
    from railhead.model.cluster import Cluster


def addons(raw: Raw) -> list[str]:
    """Names of the catalogue's add-ons that a stack installs, from its raw mapping."""
    fabric = mapping(raw.get("fabric"))
    mode, found = fabric.get("mode"), []
    # An empty section is an operator with everything as it comes.
    if isinstance(raw.get("gpu_operator"), Mapping):
        found.append("gpu-operator")
    if isinstance(fabric.get("network_operator"), Mapping):
        found.append("network-operator")
    if mode == "efa" and fabric.get("install", True):
        by_claim = fabric.get("allocation") == "dra"
        found.append("aws-dranet" if by_claim else "aws-efa-k8s-device-plugin")
    if mode == "dranet" and fabric.get("driver") == "install":
        found.append("dranet")
    return found


def unserved(raw: Raw, minor: str) -> str:
    """Why a Kubernetes minor, such as ``"1.36"``, is not one for the stack; empty where it is."""
    combination = COMBINATIONS.get(str(raw.get("versions")))
    if combination is None:
        return ""
    names = addons(raw)
    oldest, newest = combination.kubernetes_with(names)
    given = tuple(int(part) for part in minor.split("."))
    if tuple(map(int, oldest.split("."))) <= given <= tuple(map(int, newest.split("."))):
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


def problems(raw: Raw) -> Iterator[tuple[str, str]]:
    """What a stack that chooses its own Kubernetes chose wrongly."""
    minor = mapping(raw.get("platform")).get("kubernetes")
    combination = COMBINATIONS.get(str(raw.get("versions")))
    if combination is None or not isinstance(minor, str):
        return
    parts = minor.split(".")[:2]
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        return
    text = ".".join(parts)
    given = tuple(map(int, parts))
    inside = [tuple(map(int, end.split("."))) for end in combination.kubernetes]
    # Outside of the combination's own range each cloud's checks speak; this is of its add-ons.
    if inside[0] <= given <= inside[1] and (why := unserved(raw, text)):
        yield "platform.kubernetes", why


def unserved_by(cluster: Cluster, minor: str) -> str:
    """:func:`unserved` for a parsed cluster."""
    return unserved(cluster.model_dump(mode="json", exclude_none=True), minor)
