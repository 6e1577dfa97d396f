"""The kinds of job that a plan can be written as: each module here that has an ``API``.

TrainJob is what launch submits, and a JobSet where a job has several roles; the others are for
clusters that have them. The pods are the same in
all: same image, command, resources, networks and fabric's variables, the same world.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from railhead.launch import render
from railhead.launch.apis.base import Api, Object
from railhead.launch.plan import Plan

#: What a job of several roles is written as.
OF_ROLES = "jobset"


@cache
def apis() -> Mapping[str, Api]:
    """Return the kinds of job by name, as ``--api`` takes it."""
    modules = (
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    )
    rows: list[Api] = [m.API for m in modules if hasattr(m, "API")]
    return {row.name: row for row in rows}


def submitted(plan: Plan) -> Object:
    """Return the job that launch submits.

    Raises:
        InputError: as :func:`railhead.launch.render.train_job` and :meth:`Api.objects`.
    """
    return apis()[OF_ROLES].objects(plan)[-1] if plan.roles else render.train_job(plan)


def objects(plan: Plan) -> list[Object]:
    """Return everything that a launch creates, in the order of creation."""
    return [*render.config_maps(plan), submitted(plan)]
