"""Data sets and scratch of a stack: who names them, and where they are mounted."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import PurePosixPath as Path

from railhead.base.errors import choices
from railhead.base.sections import Problem, knowing
from railhead.model.cluster import Cluster

# Mounts that every pod of a runtime has, and the place of a job's files.
_MOUNTED = {"/dev/shm": "shared memory", "/workspace": "a job's files"}  # noqa: S108 - no file of ours


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield volumes that are unknown, not everywhere, or in the place of another."""
    yield from _also_checkpoints(cluster)
    yield from _alike(cluster)
    yield from _named(cluster)
    yield from _paths(cluster)


def _also_checkpoints(cluster: Cluster) -> Iterator[Problem]:
    reads = attrgetter("namespace", "claim_name")
    written = [claim for *_, claim in knowing(cluster.checkpoints, "checkpoints", reads)]
    for path, _, (namespace, claim) in knowing(cluster.datasets, "datasets", reads):
        if (namespace, claim) in written:
            yield (
                path,
                f"claim {claim!r} of namespace {namespace!r} is one of checkpoints, which are "
                "written; what is only read needs a claim of its own",
            )


def _alike(cluster: Cluster) -> Iterator[Problem]:
    """Yield data sets whose name or path differs: a runtime mounts one claim in all namespaces."""
    for field, reads in (("mount_path", "mount_path"), ("claim", "claim_name")):
        firsts: dict[str, tuple[str, str]] = {}
        pairs = knowing(cluster.datasets, "datasets", attrgetter("name", reads))
        for path, _, (name, at) in pairs:
            where, first = firsts.setdefault(name, (path, at))
            if at != first:
                yield (
                    f"{path}.{field}",
                    f"{at!r} differs from {first!r} of {where}; data set {name!r} has one path and "
                    "one claim's name in every namespace",
                )


def _named(cluster: Cluster) -> Iterator[Problem]:
    pairs = knowing(cluster.datasets, "datasets", attrgetter("name", "namespace"))
    have: dict[str, set[str]] = {}
    for _, _, (name, namespace) in pairs:
        have.setdefault(name, set()).add(namespace)
    for path, _, names in knowing(cluster.runtimes, "runtimes", attrgetter("datasets")):
        for at, name in enumerate(names):
            where = f"{path}.datasets[{at}]"
            if name in names[:at]:
                yield where, f"{name!r} is given twice"
            elif name not in have:
                yield where, f"{name!r} is not one of datasets{choices(name, list(have))}"
            else:
                for missing in (n for n in cluster.training_namespaces if n not in have[name]):
                    yield (
                        where,
                        f"namespace {missing!r} has no data set {name!r}, and jobs there would "
                        "never start; add it to datasets",
                    )


def _paths(cluster: Cluster) -> Iterator[Problem]:
    reads = attrgetter("name", "mount_path")
    checkpoints = dict(at for *_, at in knowing(cluster.checkpoints, "checkpoints", reads))
    datasets = dict(at for *_, at in knowing(cluster.datasets, "datasets", reads))
    asked = attrgetter("checkpoint", "datasets", "scratch")
    for path, _, (checkpoint, names, scratch) in knowing(cluster.runtimes, "runtimes", asked):
        mounted = dict(_MOUNTED)
        own = []
        if checkpoint in checkpoints:
            own.append(
                (f"{path}.checkpoint", checkpoints[checkpoint], f"checkpoint {checkpoint!r}")
            )
        own += [
            (f"{path}.datasets[{at}]", datasets[name], f"data set {name!r}")
            for at, name in enumerate(names)
            if name in datasets and name not in names[:at]
        ]
        if scratch is not None:
            own.append((f"{path}.scratch.mount_path", scratch.mount_path, "scratch"))
        for where, at, what in own:
            for other, whose in mounted.items():
                if Path(at).is_relative_to(other) or Path(other).is_relative_to(at):
                    yield where, f"{at!r} of {what} and {other!r} of {whose} lie in each other"
                    break
            mounted.setdefault(at, what)
