"""Sweeps and arrays of `railhead launch`: one job for each combination of values."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
#: What each job of an array has its number in.
INDEX = "env.ARRAY_INDEX"
_EXAMPLE = "such as --matrix env.LR=1e-3,1e-4"
_IN_PARTS = "launch it in parts, each under its own --name"


def asked(matrix: Sequence[str], array: str | None) -> dict[str, tuple[str, ...]]:
    """Return the values by field that the options ask for, those of ``--array`` first.

    Raises:
        InputError: an option has no field or no value, or numbers in another form or too many.

    >>> asked(["env.LR=1,2"], "0-2")
    {'env.ARRAY_INDEX': ('0', '1', '2'), 'env.LR': ('1', '2')}
    """
    results = {INDEX: _indices(array)} if array is not None else {}
    for item in matrix:
        field, equals, text = item.partition("=")
        values = tuple(text.split(","))
        if not equals or not field or not all(values):
            raise InputError(f"--matrix {item}: not FIELD=VALUE,VALUE", remedy=_EXAMPLE)
        if field in results:
            raise InputError(f"--matrix {field}: given twice", remedy="leave it out")
        results[field] = values
    return results


def _indices(array: str) -> tuple[str, ...]:
    results = tuple(dict.fromkeys(_numbers(array)))
    if len(results) > MOST:
        raise InputError(f"--array {array}: more than {MOST} numbers", remedy=_IN_PARTS)
    return results


def _numbers(array: str) -> Iterator[str]:
    for part in array.split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise InputError(
                f"--array {array}: not numbers such as 0-9 or 1,3,5-7",
                remedy="write numbers and ranges; how many run at once is the queue's to say",
            )
        yield from map(str, range(first, min(last, first + MOST) + 1))


def combinations(
    matrix: Mapping[str, Sequence[str]], single: Mapping[str, object] | None = None
) -> list[list[str]]:
    """Return the overrides of each job, in the order of the fields, the last one fastest.

    Args:
        matrix: the values of each field.
        single: options of one job alone, with their values, which must be empty.

    Raises:
        InputError: the field is the name, an option is one of a single job, or there are too many
            combinations.

    >>> combinations({"env.LR": ["1", "2"], "nodes": ["4"]})
    [['env.LR=1', 'nodes=4'], ['env.LR=2', 'nodes=4']]
    """
    for option, value in (single or {}).items():
        if value:
            raise InputError(
                f"--{option} is for one job, and a matrix or array makes several",
                remedy="launch them, then `railhead wait 'NAME-*'`",
            )
    if "name" in matrix:
        raise InputError("--matrix name: each job's name has its number", remedy="leave it out")
    if (count := math.prod(map(len, matrix.values()))) > MOST:
        options = "--array and --matrix" if INDEX in matrix else "--matrix"
        raise InputError(
            f"{options}: {count} combinations; allowed: at most {MOST}", remedy=_IN_PARTS
        )
    fields = [[f"{field}={value}" for value in values] for field, values in matrix.items()]
    return [list(row) for row in itertools.product(*fields)]


def _number(row: Sequence[str], at: int) -> str:
    """Return what a job's name ends in: its number in the array, or its place among the jobs."""
    alone = len(row) == 1 and row[0].startswith(f"{INDEX}=")
    return row[0].partition("=")[2] if alone else str(at)


def read(
    path: Path, overrides: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[tuple[JobFile, tuple[Payload, ...]]]:
    """Return the jobs of a file, one for each row of :func:`combinations`.

    Raises:
        InputError: as read_job; an override is of a field of the rows; or several would write into
            one directory.
    """
    from railhead.launch.job import read_job

    varied = {item.partition("=")[0] for item in rows[0]}
    for item in overrides:
        if (field := item.partition("=")[0]) in varied:
            raise InputError(
                f"{field}: set to one value, and a matrix or array has others",
                remedy=f"write `--matrix {item}` for this one alone",
            )

    base, _ = read_job(path, sets=[*overrides, *rows[0]])
    jobs = []
    for at, row in enumerate(rows):
        name = f"name={base.name}-{_number(row, at)}"
        job, files = read_job(path, sets=[*overrides, *row, name])
        jobs.append((job.model_copy(update={"matrix": {}}), files))
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
    pattern = f"{plans[0].name.rpartition('-')[0]}-*"
    say(f"see them with `railhead status '{pattern}'`; `cancel` and `wait` take the same")
