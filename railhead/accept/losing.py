"""A node that the user's command removes, and what became of it.

No API takes a machine away. Who accepts names nodes that may be lost and a command that does it,
such as one that speaks to a machine's BMC; the node's name is its last word.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from railhead.accept.model import Model
from railhead.kube.client import Cluster
from railhead.kube.conditions import holds
from railhead.kube.nodes import NODES

#: Kubernetes v1.35, pkg/controller/podgc: pods of a node with it that is not ready are ended.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_COMMAND_SECONDS = 300


class Lost(Model):
    """A node that was removed.

    Attributes:
        node: its name.
        status: exit code of the command.
        output: the command's.
        unready: when the API server first had the node as not ready or gone, in seconds of the
            record; None where it never did.
        after: what could end its pods, as the node was when the job was back.
    """

    node: str
    status: int
    output: str = ""
    unready: float | None = None
    after: str = ""


class Losing:
    """Takes one node of a gang away, once, and looks at it until the gang is back.

    Args:
        cluster: the connection.
        allowed: nodes that may be lost.
        command: what takes one away; its name is appended.
        now: seconds of the record.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        allowed: Sequence[str],
        command: Sequence[str],
        now: Callable[[], float],
    ) -> None:
        self._cluster, self._allowed, self._command, self._now = cluster, allowed, command, now
        self.lost: Lost | None = None

    def take(self, nodes: Sequence[str]) -> None:
        """Lose the last of a gang's nodes that may be lost; none where none may."""
        node = next((name for name in reversed(nodes) if name in self._allowed), None)
        if node is None:
            return
        try:
            done = subprocess.run(
                [*self._command, node],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
            status, message = done.returncode, done.stderr.strip()[-500:]
        except (OSError, subprocess.TimeoutExpired) as error:
            status, message = -1, str(error)
        self.lost = Lost(node=node, status=status, output=message)

    def look(self, *, back: bool) -> None:
        """Note what has become of the node; ``back`` is that the job is."""
        if self.lost is None or self.lost.after:
            return
        node = self._cluster.find(f"{NODES}/{self.lost.node}")
        if self.lost.unready is None and not holds(node, "Ready"):
            self.lost = self.lost.model_copy(update={"unready": self._now()})
        if back:
            self.lost = self.lost.model_copy(update={"after": _after(node)})


def _after(node: Mapping[str, Any] | None) -> str:
    if node is None:
        return "its object was deleted"
    if holds(node, "Ready"):
        return "it came back"
    taints = (node.get("spec") or {}).get("taints") or ()
    if any(taint.get("key") == OUT_OF_SERVICE for taint in taints):
        return f"it was tainted {OUT_OF_SERVICE}"
    return "its pods were ended by force"
