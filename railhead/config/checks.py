"""Checks that span several fields of a stack's configuration.

They read the raw mapping and skip whatever is malformed (the models report that), so that one run
shows every mistake, of either kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from railhead.base.errors import did_you_mean
from railhead.base.raw import Problem, Raw, mapping, positive, rows, texts
from railhead.catalog.machines import MACHINES
from railhead.config import served
from railhead.fabric import checks as checks_fabric
from railhead.fabric.rows import FABRICS
from railhead.model.cluster import HOSTNAME_LEVEL
from railhead.platform.aws import checks as checks_aws
from railhead.platform.gcp import checks as checks_gcp


def _names(raw: Raw, key: str) -> list[str]:
    return [r["name"] for _, r in rows(raw.get(key), key) if isinstance(r.get("name"), str)]


def _unknown(value: Any, known: Iterable[str], field: str) -> str | None:
    names = list(known)
    if not isinstance(value, str) or value in names:
        return None
    listed = did_you_mean(value, names) or f"; there are: {', '.join(names) or 'none'}"
    return f"{value!r} is not one of {field}{listed}"


def _unique(raw: Raw) -> Iterator[Problem]:
    scopes = {
        "pools": ("name",),
        "runtimes": ("name",),
        "queues": ("namespace", "name"),
        "checkpoints": ("namespace", "name"),
    }
    for key, fields in scopes.items():
        seen: dict[tuple[str, ...], str] = {}
        for path, row in rows(raw.get(key), key):
            # What is no text is the model's to complain about.
            this = tuple(value for f in fields if isinstance(value := row.get(f), str))
            if len(this) < len(fields):
                continue
            if this in seen:
                yield f"{path}.name", f"{row['name']!r} is taken by {seen[this]}"
            seen.setdefault(this, path)
    for key in ("namespaces", "topology"):
        given = texts(raw.get(key))
        for index, text in enumerate(given):
            if text in given[:index]:
                yield f"{key}[{index}]", f"{text!r} is there twice"


def _references(raw: Raw) -> Iterator[Problem]:
    namespaces = texts(raw.get("namespaces"))
    pools = _names(raw, "pools")
    for key in ("queues", "checkpoints"):
        for path, row in rows(raw.get(key), key):
            if problem := _unknown(row.get("namespace"), namespaces, "namespaces"):
                yield f"{path}.namespace", problem
    for path, row in rows(raw.get("queues"), "queues"):
        for index, pool in enumerate(texts(row.get("pools"))):
            if problem := _unknown(pool, pools, "pools"):
                yield f"{path}.pools[{index}]", problem
    queued = {
        pool for _, row in rows(raw.get("queues"), "queues") for pool in texts(row.get("pools"))
    }
    for path, row in rows(raw.get("runtimes"), "runtimes"):
        wanted = row.get("pool")
        if problem := _unknown(wanted, pools, "pools"):
            yield f"{path}.pool", problem
        elif isinstance(wanted, str) and wanted not in queued:
            yield f"{path}.pool", f"no queue covers pool {wanted!r}; add it to a queue's pools"
        checkpoint = row.get("checkpoint")
        if problem := _unknown(checkpoint, _names(raw, "checkpoints"), "checkpoints"):
            yield f"{path}.checkpoint", problem
        elif isinstance(checkpoint, str):
            have: list[Any] = [
                c.get("namespace")
                for _, c in rows(raw.get("checkpoints"), "checkpoints")
                if c.get("name") == checkpoint
            ]
            for missing in (n for n in namespaces if n not in have):
                yield (
                    f"{path}.checkpoint",
                    f"namespace {missing!r} has no checkpoint claim {checkpoint!r}, and jobs there "
                    "would never start; add it to checkpoints",
                )


def _cluster_queues(raw: Raw) -> Iterator[Problem]:
    pools_of: dict[str, tuple[str, list[str]]] = {}
    for path, row in rows(raw.get("queues"), "queues"):
        name, pools = row.get("cluster_queue"), texts(row.get("pools"))
        if not isinstance(name, str):
            continue
        first, first_pools = pools_of.setdefault(name, (path, pools))
        if pools != first_pools:
            yield (
                f"{path}.pools",
                f"cluster queue {name!r} has pools {first_pools} in {first} and {pools} here; "
                "a cluster queue has one list of pools",
            )
    # Two cluster queues over one pool would each hand out the whole of it.
    owner: dict[str, str] = {}
    for path, row in rows(raw.get("queues"), "queues"):
        for index, pool in enumerate(texts(row.get("pools"))):
            queue = row.get("cluster_queue")
            if isinstance(queue, str) and owner.setdefault(pool, queue) != queue:
                yield (
                    f"{path}.pools[{index}]",
                    f"pool {pool!r} belongs to cluster queue {owner[pool]!r} already; two queues "
                    "over one pool would admit twice what it has",
                )


def _machines(raw: Raw) -> Iterator[Problem]:
    kind = mapping(raw.get("fabric")).get("kind")
    platform = mapping(raw.get("platform")).get("kind")
    for path, row in rows(raw.get("pools"), "pools"):
        machine = MACHINES.get(str(row.get("instance_type")))
        if machine is None:
            continue
        fabrics = machine.fabrics | {"ethernet"}
        if isinstance(kind, str) and kind in FABRICS and kind not in fabrics:
            can = ", ".join(sorted(fabrics))
            yield (
                f"{path}.instance_type",
                f"{machine.name!r} cannot do fabric {kind!r}; it can: {can}",
            )
        if isinstance(platform, str) and platform not in machine.platforms:
            can = ", ".join(sorted(machine.platforms))
            yield (
                f"{path}.instance_type",
                f"{machine.name!r} is not on platform {platform!r}; it is on: {can}",
            )
    by_name = {str(row.get("name")): row for _, row in rows(raw.get("pools"), "pools")}
    for path, row in rows(raw.get("runtimes"), "runtimes"):
        pool = mapping(by_name.get(str(row.get("pool"))))
        machine = MACHINES.get(str(pool.get("instance_type")))
        gpus = positive(row.get("gpus_per_node"))
        if machine and gpus > machine.gpus:
            yield (
                f"{path}.gpus_per_node",
                f"{gpus} is more than the {machine.gpus} of a {machine.name!r}",
            )
        nodes, has = positive(row.get("nodes")), positive(pool.get("nodes"))
        if has and nodes > has:
            yield f"{path}.nodes", f"{nodes} is more than the {has} of pool {row.get('pool')!r}"


def _topology(raw: Raw) -> Iterator[Problem]:
    levels = texts(raw.get("topology"))
    if levels and levels[-1] != HOSTNAME_LEVEL:
        yield (
            f"topology[{len(levels) - 1}]",
            f"the last level is {levels[-1]!r}; it must be {HOSTNAME_LEVEL!r}, or the pods of a "
            "gang are counted into a level without being bound to nodes",
        )


_CHECKS: tuple[Callable[[Raw], Iterator[Problem]], ...] = (
    _unique,
    _references,
    _cluster_queues,
    _machines,
    _topology,
    checks_fabric.problems,
    checks_aws.problems,
    checks_gcp.problems,
    served.problems,
)


def problems(raw: Any) -> list[Problem]:
    """Every (path, message) that spans several fields; empty for a consistent cluster."""
    cluster = mapping(raw)
    return [problem for check in _CHECKS for problem in check(cluster)]
