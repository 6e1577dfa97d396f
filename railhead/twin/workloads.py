"""Objects that a cloud brings into a cluster: its pods' DaemonSets and Deployments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railhead.twin.world import PLAYER, Body

EVERYWHERE = ({"operator": "Exists"},)


def workload(
    kind: str,
    name: str,
    tolerations: Sequence[Mapping[str, str]],
    *,
    replicas: int = 1,
    role: str = "",
    driver: str = "",
    affinity: Body | None = None,
) -> Body:
    """Return a workload of kube-system with one container; ``role`` is what a player looks for."""
    labels = {"app": name, **({PLAYER: role} if role else {})}
    annotations = {"twin.railhead.dev/driver": driver} if driver else {}
    spec: Body = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {
                "tolerations": list(tolerations),
                **({"affinity": affinity} if affinity else {}),
                "containers": [{"name": "main", "image": name}],
            },
        },
    }
    if kind == "Deployment":
        spec["replicas"] = replicas
    metadata = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
