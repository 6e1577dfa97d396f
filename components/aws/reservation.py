"""Capacity that was reserved before: read from the cloud, compared with what the stack says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_aws import ec2

from railhead.components.mismatch import MismatchError
from railhead.platform.aws.model import AwsPool, CapacityBlock, Reservation, ReservationGroup
from railhead.platform.aws.reserved import mismatch

if TYPE_CHECKING:
    from pulumi_aws.ec2 import (
        LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgsDict,
    )


def target(
    name: str, pool: AwsPool, opts: pulumi.ResourceOptions
) -> LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgsDict | None:
    """Return the target that a pool's machines are launched into; None without a reservation."""
    purchase = pool.purchase
    if isinstance(purchase, ReservationGroup):
        return {"capacity_reservation_resource_group_arn": purchase.arn}
    reservation = checked(name, pool, opts)
    return None if reservation is None else {"capacity_reservation_id": reservation}


def now() -> datetime:
    """Return the present moment, with its time zone."""
    return datetime.now(UTC)


def checked(name: str, pool: AwsPool, opts: pulumi.ResourceOptions) -> pulumi.Output[str] | None:
    """Return the reservation's id, once the cloud has said that it is what the pool takes it for.

    None for a pool without one of its own. Read at every preview, with the credentials that `pulumi
    up` has; the id goes into the launch template only through this check. A block that is over by
    the stack's file is not read: it gives nothing any more, EC2 may have forgotten it, and the rest
    of the stack has to change without it, such as to lose its protection before it is destroyed.

    Raises:
        MismatchError: (when read) it is in another zone, of another type, too small, or over.
    """
    purchase = pool.purchase
    if not isinstance(purchase, Reservation | CapacityBlock):
        return None

    if isinstance(purchase, CapacityBlock) and purchase.ends <= now():
        return pulumi.Output.from_input(purchase.id)

    def judge(found: Mapping[str, Any]) -> str:
        if problem := mismatch(pool, found):
            raise MismatchError(
                f"pool {pool.name!r}: {purchase.id} {problem}",
                remedy="correct the pool's purchase in the stack's file; nothing was changed",
            )
        return purchase.id

    if isinstance(purchase, Reservation):
        read = ec2.CapacityReservation.get(f"{name}-reservation", purchase.id, opts=opts)
        # By itself: most have none, and what has no value counts as unknown at a preview.
        read.placement_group_arn.apply(lambda arn: judge({"placement_group_arn": arn}))
        return pulumi.Output.all(
            availability_zone=read.availability_zone,
            instance_type=read.instance_type,
            instance_count=read.instance_count,
            instance_platform=read.instance_platform,
            tenancy=read.tenancy,
        ).apply(judge)
    block = ec2.get_capacity_block_reservation_output(
        id=purchase.id, opts=pulumi.InvokeOutputOptions(parent=opts.parent)
    )
    return pulumi.Output.all(
        availability_zone=block.availability_zone,
        instance_type=block.instance_type,
        instance_count=block.instance_count,
        instance_platform=block.instance_platform,
        tenancy=block.tenancy,
        state=block.state,
        start_date=block.start_date,
        end_date=block.end_date,
    ).apply(judge)
