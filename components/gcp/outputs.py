"""Outputs that GCP adds to what a resource was given."""

from __future__ import annotations

from typing import TypeVar

import pulumi

T = TypeVar("T")


def when_made(resource: pulumi.CustomResource, output: pulumi.Output[T]) -> pulumi.Output[T]:
    """``output`` of ``resource``, unknown until the resource is made.

    A preview gives an output that is also an input as it was given: what GCP will add is missing
    from it, which is not the same as unknown.
    """

    def answer(_: str) -> pulumi.Output[T]:
        return output

    return resource.id.apply(answer)
