"""Logs of pods that are gone: brought from the claim to this machine, and read here.

Where the claim cannot be read (a role that may not, a queue that is full) there is still what this
machine kept itself; that is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from railhead.base.errors import NotFoundError, RailheadError
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.published import find_contract, process_prefix
from railhead.launch.logs import kept, reader, stream
from railhead.launch.logs.stream import Line, Selection

Say = Callable[[str], None]


def gone(
    cluster: kube.Cluster,
    where: Sequence[str],
    name: str,
    missing: NotFoundError,
    *,
    rank: int | None,
    node: int | None,
    role: str | None = None,
    tail: int | None = None,
    merged: bool = False,
    say: Say = lambda _: None,
) -> Iterator[Line]:
    """Return what all attempts of a deleted job printed: one node after the other, or by time.

    Args:
        cluster: the cluster of the job.
        where: the namespaces to look in.
        name: the name of the job.
        missing: the error that it is gone; raised if nothing is kept of it either.
        rank: the lines of this process alone.
        node: the lines of this node alone.
        role: the lines of this role alone, which is not known of a job that is gone.
        tail: the last lines of each node, this many.
        merged: whether the lines of all nodes are sorted by time.
        say: called with what is done meanwhile.

    Raises:
        NotFoundError: nothing is kept of a job of that name.
        InputError: it had no such rank or node, or their number is not known.
    """
    _bring(cluster, where, name, node=node, say=say)
    folder = kept.newest(name, where)
    if folder is None:
        raise missing
    lines: Iterator[Line] = stream.earlier(
        cluster, None, _selection(cluster, folder, rank, node, role), folder
    )
    if tail is None and merged:
        return lines
    by_node = sorted(lines, key=lambda line: line.node)
    each = (
        deque(of_one, maxlen=tail) for _, of_one in groupby(by_node, key=lambda line: line.node)
    )
    results = [line for of_one in each for line in of_one]
    return iter(sorted(results, key=lambda line: line.at) if merged else results)


def before(
    cluster: kube.Cluster,
    where: Sequence[str],
    name: str,
    *,
    rank: int | None,
    node: int | None,
    role: str | None = None,
    say: Say = lambda _: None,
) -> Iterator[Line]:
    """Yield the lines of earlier attempts by time; without any, those of the last job of that name.

    Raises as :func:`gone`.
    """
    try:
        job = jobs.find_job(cluster, tuple(where), name)
    except NotFoundError as missing:
        which: dict[str, Any] = {"rank": rank, "node": node, "role": role}
        yield from gone(cluster, where, name, missing, **which, merged=True, say=say)
        return
    now = jobs.read_state(cluster, job)
    prefix = None if rank is None else process_prefix(cluster, now.runtime)
    selection = stream.select(now, rank=rank, node=node, role=role, prefix=prefix)
    child = cluster.find(kube.jobset(now.namespace, name))
    known = {str(child["metadata"]["uid"]): now.uid} if child else {}
    _bring(cluster, [now.namespace], name, node=selection.node, known=known, say=say)
    folder = kept.folder(now.namespace, name, now.uid)
    lines = stream.earlier(cluster, now, selection, folder)
    first = next(lines, None)
    if first is not None:
        yield first
        yield from lines
    elif whole := kept.before(now.namespace, name, now.uid):
        yield from stream.earlier(cluster, None, selection, whole)


def _bring(
    cluster: kube.Cluster,
    where: Sequence[str],
    name: str,
    *,
    node: int | None,
    say: Say,
    known: dict[str, str] | None = None,
) -> None:
    """Copy the logs on the claims to this machine; where that fails, say so and go on."""
    contract = find_contract(cluster)
    if contract is None or not reader.readers(contract, where):
        return
    try:
        reader.fetch(cluster, contract, where, name, node=node, known=known, say=say)
    except RailheadError as error:
        say(f"note: {error.problem}; {error.remedy}")


def _selection(
    cluster: kube.Cluster,
    folder: kept.Folder,
    rank: int | None,
    node: int | None,
    role: str | None,
) -> Selection:
    about = folder.about()
    if about is None:
        # As large as what is there; which process was where nobody knows.
        nodes = set(folder.containers().values())
        about = kept.About(
            name=folder.path.parent.name,
            wanted=1 + max(nodes, default=0),
            processes_per_node=1,
            runtime="",
        )
    prefix = None if rank is None else process_prefix(cluster, about.runtime)
    return stream.select(about, rank=rank, node=node, role=role, prefix=prefix)
