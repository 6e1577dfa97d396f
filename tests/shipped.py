"""The stacks that are shipped; each file is read once."""

from __future__ import annotations

import functools
import json
from typing import Any

from railhead.base.data import load
from tests.conftest import REPO

#: A network that was there before, as a stack on Google Cloud names it.
GCP_NETWORK = {
    "kind": "existing",
    "network": "net",
    "subnetwork": "nodes",
    "pods_range": "pods",
    "services_range": "services",
    "service_connection": True,
    "storage_names": True,
}

STACKS = sorted(
    file.name.removeprefix("Pulumi.").removesuffix(".yaml")
    for file in (REPO / "stacks").glob("Pulumi.*.yaml")
)


@functools.cache
def _text(name: str) -> str:
    return json.dumps(load(REPO / "stacks" / f"Pulumi.{name}.yaml"))


def document(name: str) -> dict[str, Any]:
    """Return what is in a stack's file; a copy of the caller's own."""
    read: dict[str, Any] = json.loads(_text(name))
    return read


def stack(name: str) -> dict[str, Any]:
    """Return a stack's `railhead:cluster`; a copy of the caller's own."""
    cluster: dict[str, Any] = document(name)["config"]["railhead:cluster"]
    return cluster
