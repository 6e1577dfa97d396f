"""The common side of clouds' providers: they ask the twin for nodes and pods, and wait."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.lab.engine.provider.client import KubeClient
from railhead.twin.plane import client_of

#: Effects of taints in the words of both clouds -> in Kubernetes'.
EFFECTS: Mapping[str, str] = {
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

    def client(self) -> KubeClient:
        """Return the administrator's client."""
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

    def reached(self, selector: str, nodes: int, limit_s: float = 60.0) -> bool:
        """Wait until so many nodes have a label; return whether they did in time."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            query = {"labelSelector": selector}
            there = self.client().request("GET", "/api/v1/nodes", query=query).body["items"] or []
            if len(there) == nodes:
                return True
            time.sleep(0.2)
        return False
