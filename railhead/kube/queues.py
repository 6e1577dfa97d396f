"""Quota of Kueue's queues."""

from __future__ import annotations

from decimal import Decimal

from railhead.base.quantity import parse
from railhead.kube.client import Object


def quota(queue: Object, only: str | None = None) -> dict[str, tuple[Decimal, Decimal]]:
    """Return a ClusterQueue's quota and reserved amount by resource, of one or all flavors."""
    nominal: dict[str, Decimal] = {}
    reserved: dict[str, Decimal] = {}
    for group in (queue.get("spec") or {}).get("resourceGroups") or []:
        for flavor in _of(group.get("flavors"), only):
            for resource in flavor.get("resources") or []:
                name = str(resource["name"])
                nominal[name] = nominal.get(name, Decimal(0)) + parse(resource["nominalQuota"])
    for flavor in _of((queue.get("status") or {}).get("flavorsReservation"), only):
        for resource in flavor.get("resources") or []:
            name = str(resource["name"])
            reserved[name] = reserved.get(name, Decimal(0)) + parse(resource.get("total", 0))
    return {name: (amount, reserved.get(name, Decimal(0))) for name, amount in nominal.items()}


def flavors(queue: Object) -> list[str]:
    """Return the names of a ClusterQueue's flavors, in its order."""
    groups = (queue.get("spec") or {}).get("resourceGroups") or []
    return list(dict.fromkeys(f["name"] for group in groups for f in group.get("flavors") or []))


def borrowing_limits(queue: Object, only: str | None = None) -> dict[str, Decimal]:
    """Return what a ClusterQueue may borrow, by resource; an absent resource has no limit."""
    limits: dict[str, Decimal] = {}
    for group in (queue.get("spec") or {}).get("resourceGroups") or []:
        for flavor in _of(group.get("flavors"), only):
            for resource in flavor.get("resources") or []:
                if "borrowingLimit" in resource:
                    name = str(resource["name"])
                    limits[name] = limits.get(name, Decimal(0)) + parse(resource["borrowingLimit"])
    return limits


def _of(flavors: list[Object] | None, only: str | None) -> list[Object]:
    return [flavor for flavor in flavors or [] if only in (None, flavor["name"])]
