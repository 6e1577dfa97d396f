"""Restarts of a run that dies, in a stack's file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from railhead.base.fields import Model

ExitCode = Annotated[int, Field(strict=True, ge=1, le=255)]

#: sysexits' bad usage and bad configuration, what argparse and `python no-such-file` end with, and
#: what shells and container runtimes say of a program that is not there or cannot be started.
HOPELESS = (2, 64, 78, 126, 127, 128)


class RestartConfig(Model):
    """Restarts of a gang: how often, and after which exit codes never.

    The gang is the unit: one dead process ends all, and all are recreated on the same quota, from
    their last checkpoint. ``gang`` is how often that happens for failures of its own; what the
    cluster does to it (a drain, a preemption, an eviction) is not counted. ``never_on`` are exit
    codes of a node's container after which nothing is restarted: PyTorch's launcher exits with 1
    whatever its processes' codes, unless `railhead launch` starts it, which passes them on.
    ``unreachable_seconds`` is how long pods are left on a node that does not answer.
    """

    gang: Annotated[int, Field(strict=True, ge=0, le=1000)] = 3
    never_on: tuple[ExitCode, ...] = HOPELESS
    unreachable_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] = 60
