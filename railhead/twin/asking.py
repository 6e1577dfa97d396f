"""The common side of clouds' providers: they ask the twin for nodes and pods, and wait."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient
from railhead.twin.account import Account
from railhead.twin.plane import client_of
from railhead.twin.world import Body

# Effects of taints in the words of both clouds -> in Kubernetes'.
_EFFECTS: Mapping[str, str] = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}


@dataclass
class Asking:
    """A side of a cloud's provider that brings things into the twin's cluster.

    Args:
        settings: the twin's.
    """

    settings: Mapping[str, Any]
    _clients: list[KubeClient] = field(default_factory=list)

    def account(self) -> Account:
        """Return everything that the cloud has made."""
        return Account.read(Path(self.settings["account"]))

    def find(self, path: str) -> Body | None:
        """Return an object of the cluster; None while the API server does not serve it."""
        with contextlib.suppress(ApiError):
            body: Body = self._client().request("GET", path).body
            return body
        return None

    def _client(self) -> KubeClient:
        if not self._clients:
            self._clients.append(client_of(Path(self.settings["kubeconfig"])))
        return self._clients[0]

    def request(self, name: str, **more: Any) -> None:
        """Ask the twin to do something with nodes; it has the hardware."""
        folder = Path(self.settings["requests"])
        file = folder / f"{time.time_ns()}-{uuid.uuid4().hex[:6]}"
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps({"do": name, **more}))
        temporary.replace(file.with_suffix(".json"))

    def reached(self, selector: str, nodes: int) -> bool:
        """Wait until so many nodes have a label; return whether they did in time."""
        query = {"labelSelector": selector}

        def there() -> bool:
            items = self._client().request("GET", "/api/v1/nodes", query=query).body["items"]
            return len(items or ()) == nodes

        return until(there, limit_s=60.0)


def until(holds: Callable[[], object], *, limit_s: float) -> bool:
    """Wait until something holds; return whether it did in time."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.2)
    return False


def taints(rows: Iterable[Mapping[str, Any]] | None) -> list[dict[str, str]]:
    """Return taints in Kubernetes' words, of a cloud's."""
    return [
        {"key": t["key"], "value": t.get("value") or "", "effect": _EFFECTS[t["effect"]]}
        for t in rows or ()
    ]
