"""The rule that a plan's queue controllers are versions that ran together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from railhead.catalog.versions import PROVEN, unrun
from railhead.policies.plan import UNKNOWN, plain

RELEASE = "kubernetes:helm.sh/v3:Release"
_NAMES = tuple(controller.name for controller in PROVEN.controllers)


def problems(releases: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for a Kueue, JobSet and Trainer of versions that never ran together.

    ``releases``: URN and inputs of every Helm release of the plan. A plan without all three is not
    a training cluster of this kind, and is not judged.
    """
    results: dict[str, tuple[str, Any]] = {}
    for urn, props in releases:
        body = plain(props)
        if body.get("name") is UNKNOWN:
            yield (
                "a Helm release's name is not known before the update, so nothing can be said of "
                "its version: give it a value that the plan knows",
                urn,
            )
        elif body.get("name") in _NAMES:
            results[str(body["name"])] = (urn, _version(body))
    if set(results) != set(_NAMES):
        return
    versions = [results[name][1] for name in _NAMES]
    urn = results[_NAMES[0]][0]
    if any(version is UNKNOWN for version in versions):
        yield (
            "versions of Kueue, JobSet and Trainer are not known before the update, so nothing can "
            "be said of whether they ran together: give them values that the plan knows",
            urn,
        )
    elif why := unrun(map(str, versions)):
        yield why, urn


def _version(body: dict[str, Any]) -> Any:
    """Return a release's version, which may be part of the name of a chart's directory."""
    version, chart = body.get("version"), body.get("chart")
    if version is None and chart is not UNKNOWN:
        return PurePath(str(chart)).name.rpartition("-")[2]
    return version
