"""Restarts of a run that dies, in a stack's file."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from railhead.base.fields import Model
from railhead.base.retries import HOPELESS

ExitCode = Annotated[int, Field(strict=True, ge=1, le=255)]

# Faults of programs, which are the same on few GPUs.
_FEWEST = 3
# The interruptions of Llama 3's training: 419 in 54 days on 16384 GPUs (arXiv 2407.21783, 3.3.4).
_A_GPU_AND_DAY = 419 / 54 / 16384
_DAYS = 30
_SURE = 0.99


def lasting(gpus: int) -> int:
    """Return the restarts that outlast 30 days on so many GPUs, in 99 of 100 runs.

    Interruptions are independent, so their number has a Poisson distribution.

    >>> lasting(1024), lasting(16)
    (24, 2)
    """
    mean = _A_GPU_AND_DAY * gpus * _DAYS
    count, term = 0, math.exp(-mean)
    covered = term
    while covered < _SURE:
        count += 1
        term *= mean / count
        covered += term
    return count


class RestartConfig(Model):
    """Restarts of a gang: how often, and after which exit codes never.

    The gang is the unit: one dead process ends all, and all are recreated on the same quota, from
    their last checkpoint. ``gang`` is how often that happens for failures of its own, in all of
    the job's life: JobSet forgets none (v0.10.1, pkg/controllers/failure_policy.go). None is what
    outlasts 30 days on all of the pool's GPUs (:func:`lasting`), and at least 3. What the cluster
    does to the gang (a drain, a preemption, an eviction) is not counted. ``never_on`` are exit
    codes of a node's container after which nothing is restarted; with PyTorch 2.5 and newer its
    launcher passes on its processes' codes, with older ones it exits with 1.
    ``unreachable_seconds`` is how long pods are left on a node that does not answer.
    """

    gang: Annotated[int, Field(strict=True, ge=0, le=1000)] | None = None
    never_on: tuple[ExitCode, ...] = HOPELESS
    unreachable_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] = 60

    def most(self, gpus: int) -> int:
        """Return how often a gang is recreated in a pool of so many GPUs."""
        return max(_FEWEST, lasting(gpus)) if self.gang is None else self.gang
