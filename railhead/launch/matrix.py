"""`railhead launch --matrix`: one job for each combination of values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from railhead.base.errors import InputError
from railhead.launch.console import dump, print_objects, say

if TYPE_CHECKING:
    from railhead.contract import ClusterContract
    from railhead.kube.client import Cluster
    from railhead.launch.job import JobFile, Payload
    from railhead.launch.plan import Plan

# Each has a Workload, a JobSet and its files in etcd, and a sweep that is larger is a typing error.
MOST = 100
_EXAMPLE = "such as --matrix env.LR=1e-3,1e-4"


def combinations(
    matrix: Sequence[str], single: Mapping[str, object] | None = None
) -> list[list[str]]:
    """Return the overrides of each job, in the order of the options, the last one fastest.

    Args:
        matrix: the options' values.
        single: options of one job alone, with their values, which must be empty.

    Raises:
        InputError: an option has no field or no value, is one of a single job, or there are too
            many combinations.

    >>> combinations(["env.LR=1,2", "nodes=4"])
    [['env.LR=1', 'nodes=4'], ['env.LR=2', 'nodes=4']]
    """
    for option, value in (single or {}).items():
        if value:
            raise InputError(
                f"--{option} is for one job, and --matrix makes several",
                remedy="launch them, then `railhead wait 'NAME-*'`",
            )
    fields: dict[str, list[str]] = {}
    for item in matrix:
        field, equals, text = item.partition("=")
        values = text.split(",")
        if not equals or not field or not all(values):
            raise InputError(f"--matrix {item}: not FIELD=VALUE,VALUE", remedy=_EXAMPLE)
        if field == "name" or field in fields:
            why = "each job's name has its number" if field == "name" else "given twice"
            raise InputError(f"--matrix {field}: {why}", remedy="leave it out")
        fields[field] = [f"{field}={value}" for value in values]
    results = [list(row) for row in itertools.product(*fields.values())]
    if len(results) > MOST:
        raise InputError(
            f"--matrix: {len(results)} combinations; allowed: at most {MOST}",
            remedy="launch it in parts, each under its own --name",
        )
    return results


def read(
    path: Path, overrides: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[tuple[JobFile, tuple[Payload, ...]]]:
    """Return the jobs of a file, one for each row of :func:`combinations`, numbered from 0.

    Raises:
        InputError: as read_job; or several would write into one directory.
    """
    from railhead.launch.job import read_job

    base, _ = read_job(path, sets=[*overrides, *rows[0]])
    jobs = [
        read_job(path, sets=[*overrides, *row, f"name={base.name}-{number}"])
        for number, row in enumerate(rows)
    ]
    places = {job.checkpoint.path for job, _ in jobs if job.checkpoint}
    if base.checkpoint and base.checkpoint.path and len(places) < len(jobs):
        raise InputError(
            f"checkpoint.path: {base.checkpoint.path!r} would be the directory of several jobs",
            remedy="leave it out: each then has the one of its own name",
        )
    return jobs


def launch(
    cluster: Cluster,
    plans: Sequence[Plan],
    contract: ClusterContract,
    rows: Sequence[Sequence[str]],
    *,
    dry_run: bool,
    as_json: bool,
    first: Callable[[], None],
) -> None:
    """Check all jobs, then print or submit them; none is submitted unless all may be.

    ``first`` is called once all are checked; what it raises submits none.

    Raises:
        RefusedError: a check, or the cluster, says no.
    """
    from railhead.launch import submit
    from railhead.launch.apis import objects as objects_of
    from railhead.launch.preflight import preflight

    for plan in plans:
        preflight(cluster, plan, contract)
    if dry_run:
        objects = [item for plan in plans for item in objects_of(plan)]
        print_objects(objects, as_json=as_json)
        return
    first()
    for plan, row in zip(plans, rows, strict=True):
        made = submit.submit(cluster, plan)
        say(f"created {made['kind']} {plan.namespace}/{plan.name}: {' '.join(row)}")
    if as_json:
        dump([{"name": plan.name, "namespace": plan.namespace} for plan in plans])
    pattern = f"{plans[0].name.removesuffix('-0')}-*"
    say(f"see them with `railhead status '{pattern}'`; `cancel` and `wait` take the same")
