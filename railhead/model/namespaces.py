"""Namespaces of jobs, read from a file that may have mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base.sections import knowing, known
from railhead.model.cluster import Cluster


def said(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield path in the stack's file and name of each namespace of the stack and of teams.

    :attr:`Cluster.training_namespaces` has the names of a file without mistakes.
    """
    for path, _, name in knowing(known(lambda: cluster.namespaces) or (), "namespaces", str):
        yield path, name
    teams = knowing(known(lambda: cluster.teams) or (), "teams", lambda team: team.namespaces)
    for path, _, names in teams:
        for where, _, name in knowing(names, f"{path}.namespaces", str):
            yield where, name
