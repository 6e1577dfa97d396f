"""Volumes of checkpoint claims as they can be restored after a cluster was lost. Pure.

A claim that is recreated gets a new volume, and the data stays on the old one. A volume whose
``claimRef`` names a claim and has no UID waits for that claim and is bound to no other
(kubernetes.io/docs/concepts/storage/persistent-volumes, "Reserving a PersistentVolume"); so the
saved volumes are applied first, and what `pulumi up` makes then finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Set by every dynamic provisioner; a volume without it was made by a user, who makes it again.
PROVISIONED = "pv.kubernetes.io/provisioned-by"
# What controllers noted about a claim that will be another.
_OF_THE_OLD = ("pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/migrated-to")


def provisioned(volume: Mapping[str, Any]) -> bool:
    """Return whether a provisioner made it, and so nobody would make it again."""
    return PROVISIONED in (volume["metadata"].get("annotations") or {})


def reserved(volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return the volume as an object to apply: kept for its claim, whatever UID that will have."""
    metadata, spec = volume["metadata"], volume["spec"]
    claim = spec["claimRef"]
    annotations = metadata.get("annotations") or {}
    kept = {"name": metadata["name"]}
    if labels := metadata.get("labels"):
        kept["labels"] = labels
    if annotations := {k: v for k, v in annotations.items() if k not in _OF_THE_OLD}:
        kept["annotations"] = annotations
    reference = {key: claim[key] for key in ("apiVersion", "kind", "namespace", "name")}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": kept,
        # A second loss must not delete what the first one spared.
        "spec": dict(spec) | {"claimRef": reference, "persistentVolumeReclaimPolicy": "Retain"},
    }
