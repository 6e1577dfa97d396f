"""Capacity that was reserved before: read from the cloud, and held against what the stack says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_aws import ec2

from railhead.config.aws import (
    AwsPool,
    CapacityBlock,
    ExistingPlacementGroup,
    NewPlacementGroup,
    Reservation,
)
from railhead.errors import InputError

# States in which a block will give nothing any more.
_OVER = frozenset({"expired", "cancelled", "failed", "payment-failed"})


def checked(name: str, pool: AwsPool, opts: pulumi.ResourceOptions) -> pulumi.Output[str] | None:
    """The reservation's id, once the cloud has said that it is what the pool takes it for.

    None for a pool without one. Read at every preview, with the credentials that `pulumi up` has;
    the id goes into the launch template only through this check.

    Raises:
        InputError: (when read) it is in another zone, of another type, too small, or over.
    """
    purchase = pool.purchase
    if isinstance(purchase, Reservation):
        read = ec2.CapacityReservation.get(f"{name}-reservation", purchase.id, opts=opts)
        facts = pulumi.Output.all(
            availability_zone=read.availability_zone,
            instance_type=read.instance_type,
            instance_count=read.instance_count,
            placement_group_arn=read.placement_group_arn,
        )
    elif isinstance(purchase, CapacityBlock):
        block = ec2.get_capacity_block_reservation_output(
            id=purchase.id, opts=pulumi.InvokeOutputOptions(parent=opts.parent)
        )
        facts = pulumi.Output.all(
            availability_zone=block.availability_zone,
            instance_type=block.instance_type,
            instance_count=block.instance_count,
            state=block.state,
        )
    else:
        return None

    def judge(found: Mapping[str, Any]) -> str:
        if problem := mismatch(pool, found):
            raise InputError(
                f"pool {pool.name!r}: {purchase.id} {problem}",
                remedy="correct the pool's purchase in the stack's file; nothing was changed",
            )
        return purchase.id

    return facts.apply(judge)


def mismatch(pool: AwsPool, found: Mapping[str, Any]) -> str:
    """What is wrong with a reservation for a pool, in words; empty where nothing is.

    ``found`` is what the cloud says of it; what it does not say is not judged, and said so.
    """
    wanted = {
        "availability_zone": pool.availability_zone,
        "instance_type": pool.instance_type,
    }
    for key, want in wanted.items():
        have = found.get(key)
        if have is None:
            pulumi.log.warn(
                f"pool {pool.name!r}: the reservation's {key} was not told, so not held"
            )
        elif have != want:
            return f"has {key} {have!r}, and the pool {want!r}"
    count = found.get("instance_count")
    if count is not None and int(count) < pool.nodes:
        return f"is for {int(count)} instances, and the pool for {pool.nodes}"
    if found.get("state") in _OVER:
        return f"is {found['state']}"
    return _group(pool, found.get("placement_group_arn"))


def _group(pool: AwsPool, arn: str | None) -> str:
    if not arn:
        return ""
    group = str(arn).rpartition("/")[2]
    if isinstance(pool.placement_group, ExistingPlacementGroup):
        if pool.placement_group.name == group:
            return ""
        return f"was made in placement group {group!r}, not {pool.placement_group.name!r}"
    what = "a new one" if isinstance(pool.placement_group, NewPlacementGroup) else "none"
    return f"was made in placement group {group!r}, and the pool is in {what}: name it"
