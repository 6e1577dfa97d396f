"""A reservation as AWS describes it, held against the pool that is to use it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from railhead.platform.aws.model import AwsPool, CapacityBlock, ExistingPlacementGroup

# States in which a block will give nothing any more.
_OVER = frozenset({"expired", "cancelled", "failed", "payment-failed"})
# EC2 starts an instance in a reservation of its own attributes alone (EC2 user guide,
# capacity-reservations-launch: type, platform, zone and tenancy): these are EKS' nodes'.
_NODES = {"instance_platform": "Linux/UNIX", "tenancy": "default"}


def mismatch(pool: AwsPool, found: Mapping[str, Any]) -> str:
    """Return what is wrong with a reservation for a pool, in words; empty where nothing is.

    ``found`` is some of what the cloud says about it.
    """
    for key in ("availability_zone", "instance_type"):
        have, want = found.get(key), getattr(pool, key)
        if key in found and have != want:
            return f"has {key} {have!r}, and the pool {want!r}"
    for key, want in _NODES.items():
        have = found.get(key)
        if have and have != want:
            return f"has {key} {have!r}, and EKS' nodes {want!r}: EC2 starts none of them in it"
    count = found.get("instance_count")
    if count is not None and int(count) < pool.nodes:
        return f"is for {int(count)} instances, and the pool for {pool.nodes}"
    if found.get("state") in _OVER:
        return f"is {found['state']}"
    if isinstance(pool.purchase, CapacityBlock):
        window = {"start_date": pool.purchase.starts, "end_date": pool.purchase.ends}
        for key, moment in window.items():
            have = found.get(key)
            if have and datetime.fromisoformat(have) != moment:
                return f"has {key} {have}, and the pool {moment.isoformat()}"
    return _group(pool, found.get("placement_group_arn"))


def _group(pool: AwsPool, arn: str | None) -> str:
    if not arn:
        return ""
    group = str(arn).rpartition("/")[2]
    if isinstance(pool.placement_group, ExistingPlacementGroup):
        if pool.placement_group.name == group:
            return ""
        return f"was made in placement group {group!r}, not {pool.placement_group.name!r}"
    return f"was made in placement group {group!r}, and the pool is in none: name it"
