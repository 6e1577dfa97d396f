"""Outputs that GCP adds to what a resource was given."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TypeVar

import pulumi

T = TypeVar("T")


def apart_from_rails(address: str, blocks: Sequence[str], way: str) -> str:
    """Return an instance's address, and warn if nodes look for it at a GPU's NIC.

    Google chooses among addresses that the VPC has free, and knows none of the GPU networks.

    Args:
        address: the address.
        blocks: CIDR blocks that nodes reach at further interfaces.
        way: what to do about it.
    """
    for block in blocks:
        if ipaddress.ip_address(address) in ipaddress.ip_network(block):
            pulumi.log.warn(
                f"GCP put a file system at {address}, which nodes look for at a GPU's NIC, in "
                f"{block} of platform.gpu_networks: no pod there mounts it; {way} (docs/gcp.md, "
                "File systems)"
            )
    return address


def when_made(resource: pulumi.CustomResource, output: pulumi.Output[T]) -> pulumi.Output[T]:
    """``output`` of ``resource``, unknown until the resource is made.

    A preview gives an output that is also an input as it was given: what GCP will add is missing
    from it, which is not the same as unknown.
    """

    def answer(_: str) -> pulumi.Output[T]:
        return output

    return resource.id.apply(answer)
