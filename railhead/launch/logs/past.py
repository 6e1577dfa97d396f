"""Logs of pods that are gone: brought from the claim to this machine, and read here.

Where the claim cannot be read (a role that may not, a queue that is full) there is still what this
machine kept itself; that is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

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
    tail: int | None = None,
    merged: bool = False,
    say: Say = lambda _: None,
) -> Iterator[Line]:
    """What all attempts of a job printed whose object is gone: a node after the other, or by time.

    Args:
        cluster: where it was.
        where: the namespaces to look in.
        name: the job's.
        missing: how it was said that it is gone; raised where nothing is kept of it either.
        rank: of this process alone.
        node: of this node alone.
        tail: so many lines of each node alone, the last.
        merged: all nodes by time.
        say: told what is done meanwhile.

    Raises:
        NotFoundError: nothing is kept of a job of that name.
        InputError: it had no such rank or node, or how many it had is not known.
    """
    _bring(cluster, where, name, node=node, say=say)
    folder = kept.newest(name, where)
    if folder is None:
        raise missing
    lines: Iterator[Line] = stream.earlier(
        cluster, None, _selection(cluster, folder, rank, node), folder
    )
    if tail is None and merged:
        return lines
    by_node = sorted(lines, key=lambda line: line.node)
    each = (
        deque(of_one, maxlen=tail) for _, of_one in groupby(by_node, key=lambda line: line.node)
    )
    found = [line for of_one in each for line in of_one]
    return iter(sorted(found, key=lambda line: line.at) if merged else found)


def before(
    cluster: kube.Cluster,
    where: Sequence[str],
    name: str,
    *,
    rank: int | None,
    node: int | None,
    say: Say = lambda _: None,
) -> Iterator[Line]:
    """What attempts before the present one printed, by time; else the job of that name before it.

    Raises as :func:`gone`.
    """
    try:
        job = jobs.find_job(cluster, tuple(where), name)
    except NotFoundError as missing:
        yield from gone(cluster, where, name, missing, rank=rank, node=node, merged=True, say=say)
        return
    now = jobs.read_state(cluster, job)
    prefix = None if rank is None else process_prefix(cluster, now.runtime)
    selection = stream.select(now, rank=rank, node=node, prefix=prefix)
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
    """What claims have, onto this machine; where that is not possible it is said, and no more."""
    contract = find_contract(cluster)
    if contract is None or not reader.readers(contract, where):
        return
    try:
        reader.fetch(cluster, contract, where, name, node=node, known=known, say=say)
    except RailheadError as error:
        say(f"note: {error.problem}; {error.remedy}")


def _selection(
    cluster: kube.Cluster, folder: kept.Folder, rank: int | None, node: int | None
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
    return stream.select(about, rank=rank, node=node, prefix=prefix)
