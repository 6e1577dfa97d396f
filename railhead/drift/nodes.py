"""Nodes that lost a label by which Kueue knows them; it leaves them out, and nothing says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railhead.base.names import FABRIC_LABEL
from railhead.drift.objects import Api, Drift, Object, Severity


def unlabelled(ours: Sequence[Object], api: Api) -> Iterator[Drift]:
    """Yield each node that is in no flavor any more, or lacks a label of its flavor's topology.

    Kueue places gangs on nodes that have all of both (v0.16.2, pkg/cache/scheduler/tas_flavor.go,
    snapshot). A node was in a flavor if the gate gave it a verdict.
    """
    levels = {
        topology["metadata"]["name"]: [level["nodeLabel"] for level in topology["spec"]["levels"]]
        for topology in ours
        if topology["kind"] == "Topology"
    }
    flavors = [flavor["spec"] for flavor in ours if flavor["kind"] == "ResourceFlavor"]
    for node in api.list("/api/v1/nodes") if flavors else ():
        labels = node["metadata"].get("labels") or {}
        mine = [flavor for flavor in flavors if _has(labels, flavor)]
        if not mine and FABRIC_LABEL in labels:
            wanted = sorted({_words(flavor) for flavor in flavors})
            yield _lost(node, " or ".join(wanted), "none of them")
        keys = {key for flavor in mine for key in levels.get(flavor.get("topologyName"), ())}
        for key in sorted(keys - labels.keys()):
            yield _lost(node, f"{key}=VALUE", "no such label")


def _pool(flavor: Object) -> Mapping[str, str]:
    """Return a flavor's labels of nodes, without the gate's verdict, which comes and goes."""
    labels = flavor.get("nodeLabels") or {}
    return {key: value for key, value in labels.items() if key != FABRIC_LABEL}


def _has(labels: Mapping[str, str], flavor: Object) -> bool:
    return _pool(flavor).items() <= labels.items()


def _words(flavor: Object) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(_pool(flavor).items()))


def _lost(node: Object, wanted: str, live: str) -> Drift:
    name = node["metadata"]["name"]
    return Drift(
        severity=Severity.CHANGED,
        subject=f"Node {name}",
        field="metadata.labels",
        stack=wanted,
        live=live,
        remedy=f"no gang is placed on it: kubectl label node {name} KEY=VALUE, as its neighbours "
        f"have it; where the pool is no more the stack's, kubectl label node {name} "
        f"{FABRIC_LABEL}-",
    )
