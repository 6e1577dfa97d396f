"""Checks by a claim's own object whether a gang can use it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from railhead.base.finding import Finding
from railhead.base.names import DELETE_ANNOTATION

#: The last proof, on the claim: see :func:`railhead.storage.proof.verdict`.
SHARED_ANNOTATION = "railhead.dev/shared"
REFRESH = "run `pulumi up --refresh` on the cluster's stack: a plain `pulumi up` believes its state"
PROVE = "`railhead storage --prove` finds out, with a pod on each of two nodes"
# How long provisioners may take; those of the clouds' file systems are set to wait longer.
PROVISIONED_SECONDS = 180
_MANY = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def findings(
    name: str,
    claim: Mapping[str, Any] | None,
    *,
    nodes: int,
    events: tuple[str, ...] = (),
    now: datetime | None = None,
) -> Iterator[Finding]:
    """Yield what to report of the claim ``name`` (``namespace/claim``) for a job of ``nodes``.

    ``claim`` is the PersistentVolumeClaim, None if it does not exist; ``events`` its
    last events, the newest first.
    """
    if claim is None:
        yield _bad(f"checkpoint claim {name} is not there", REFRESH)
        return
    metadata, status = claim.get("metadata") or {}, claim.get("status") or {}
    spec, phase = claim.get("spec") or {}, status.get("phase")
    if metadata.get("deletionTimestamp"):
        yield _bad(
            f"checkpoint claim {name} is being deleted: it takes no new pod, and goes with the "
            "last that mounts it",
            "let its jobs end, then `pulumi up --refresh` recreates it; its volume is kept if "
            "its class says Retain",
        )
    if phase == "Lost":
        yield _bad(
            f"checkpoint claim {name} is Lost: its volume {spec.get('volumeName')} is gone",
            "bring the volume back under its name, or ask the platform team; jobs would hang in "
            "mounting it",
        )
    if phase == "Pending" and events:
        # One that binds on first use has nothing but WaitForFirstConsumer to say. A provisioner's
        # first attempts fail now and then, and are repeated.
        young = _age(metadata, now or datetime.now(UTC)) < PROVISIONED_SECONDS
        yield Finding(
            name="checkpoints",
            passed=None if young else False,
            text=f"checkpoint claim {name} has no volume yet: {events[0]}",
            remedy=f"mend its storage class {spec.get('storageClassName')!r}, or wait for its "
            "provisioner",
        )
    modes = set(spec.get("accessModes") or ())
    if nodes > 1 and modes and not modes & _MANY:
        yield _bad(
            f"checkpoint claim {name} is {', '.join(sorted(modes))}: one "
            f"node can mount it, and the job has {nodes}",
            "use a claim with ReadWriteMany",
        )
    if nodes > 1:
        yield _proven(name, metadata.get("annotations") or {})
    if (metadata.get("annotations") or {}).get(DELETE_ANNOTATION) == metadata.get("name", ""):
        yield Finding(
            name="checkpoints",
            passed=None,
            text=f"checkpoint claim {name} may be deleted: it is annotated with "
            f"{DELETE_ANNOTATION}",
            remedy="remove the annotation if its data is wanted",
        )


def _age(metadata: Mapping[str, Any], now: datetime) -> float:
    """Return the seconds since it was created; infinite if that is not known."""
    made = metadata.get("creationTimestamp")
    return (now - datetime.fromisoformat(made)).total_seconds() if made else float("inf")


def _proven(name: str, annotations: Mapping[str, str]) -> Finding:
    message = annotations.get(SHARED_ANNOTATION, "")
    verdict, _, why = message.partition(": ")
    if verdict == "no":
        return _bad(
            f"checkpoint claim {name} is not shared between nodes: {why}",
            f"use a class that every node mounts from one place; then {PROVE}",
        )
    return Finding(
        name="checkpoints",
        passed=True if verdict == "yes" else None,
        text=f"checkpoint claim {name} is shared between nodes: {why}"
        if verdict == "yes"
        else f"checkpoint claim {name}: that two nodes share it is not proven"
        + (f": {why}" if why else ""),
        remedy="" if verdict == "yes" else PROVE,
    )


def _bad(text: str, remedy: str) -> Finding:
    return Finding(name="checkpoints", passed=False, text=text, remedy=remedy)
