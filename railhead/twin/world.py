"""The loop of a twin beside its control plane: players act on what they see, turn by turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from railhead.kube.errors import ApiError, UnreachableError
from railhead.lab.engine.provider.client import KubeClient, NoMatchError
from railhead.twin.truth import Node

PLAYER = "twin.railhead.dev/player"
#: DaemonSets that the SR-IOV operator itself makes; its pods' label ``app`` is their role.
SRIOV_DAEMON, SRIOV_PLUGIN = "sriov-network-config-daemon", "sriov-device-plugin"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
_PERIOD_S = 0.5

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The cluster at one moment.

    Args:
        nodes: every node, by name.
        pods: every pod that a player looks at.
        system: every pod of kube-system.
    """

    nodes: Mapping[str, Body]
    pods: Sequence[Body]
    system: Sequence[Body] = ()

    def running(self, image: str) -> set[str]:
        """Return the nodes on which a ready pod of kube-system has an image with such a name."""
        specs = [pod["spec"] for pod in self.system if is_ready(pod)]
        return {
            spec["nodeName"]
            for spec in specs
            for container in (*spec["containers"], *(spec.get("initContainers") or ()))
            if image in container["image"]
        }

    def ready(self, role: str) -> dict[str, Body]:
        """Return the ready pods of a role by the node that each is on."""
        return {pod["spec"]["nodeName"]: pod for pod in self.of(role) if is_ready(pod)}

    def of(self, role: str) -> list[Body]:
        """Return every pod of a role, ready or not."""
        return [p for p in self.pods if _role(p) == role]


@dataclass
class World:
    """A twin's nodes and what players may do to its cluster.

    Args:
        client: the administrator's.
        hardware: node -> what machine it is; filled as nodes are made.
        functions: node -> resources of virtual functions that it ever offered.
    """

    client: KubeClient
    hardware: dict[str, Node] = field(default_factory=dict)
    functions: dict[str, set[str]] = field(default_factory=dict)
    _applied: dict[str, Body] = field(default_factory=dict)

    def look(self) -> Look:
        """Return the cluster as it is now."""
        query = {"resourceVersion": "0"}
        nodes = self.client.request("GET", "/api/v1/nodes", query=query).body["items"] or []
        chosen = query | {"labelSelector": PLAYER}
        pods = self.client.request("GET", "/api/v1/pods", query=chosen).body["items"] or []
        made = query | {"labelSelector": f"app in ({SRIOV_DAEMON}, {SRIOV_PLUGIN})"}
        pods += self.client.request("GET", "/api/v1/pods", query=made).body["items"] or []
        gates = query | {"labelSelector": "app.kubernetes.io/name=railhead-gate"}
        path = "/api/v1/namespaces/railhead-gate/pods"
        pods += self.client.request("GET", path, query=gates).body["items"] or []
        path = "/api/v1/namespaces/kube-system/pods"
        system = self.client.request("GET", path, query=query).body["items"] or []
        return Look(nodes={n["metadata"]["name"]: n for n in nodes}, pods=pods, system=system)

    def list(self, api_version: str, kind: str) -> list[Body]:
        """Return all objects of a kind; none where the kind is not served."""
        try:
            resource = self.client.resource_type(api_version, kind)
        except NoMatchError:
            return []
        items: list[Body] = self.client.request("GET", resource.path()).body["items"] or []
        for item in items:
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", kind)
        return items

    def read(self, api_version: str, kind: str, namespace: str, name: str) -> Body | None:
        """Return an object, or None where it does not exist."""
        metadata = {"namespace": namespace, "name": name}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
        try:
            result: Body = self.client.request("GET", self.path(body)).body
        except ApiError as error:
            if not error.not_found:
                raise
            return None
        return result

    def path(self, body: Mapping[str, Any]) -> str:
        """Return where an object is served."""
        metadata = body["metadata"]
        resource = self.client.resource_type(body["apiVersion"], body["kind"])
        return resource.path(metadata.get("namespace", ""), metadata["name"])

    def apply(self, body: Body, *, again: bool = False) -> None:
        """Make an object, or change it to what it is said to be; nothing if it was so said last.

        ``again``: whether it is gone since.
        """
        path = self.path(body)
        if self._applied.get(path) == body and not again:
            return
        self.client.request(
            "PATCH",
            path,
            body=body,
            content_type=APPLY,
            query={"fieldManager": "twin", "force": "true"},
        )
        self._applied[path] = body

    def delete(self, body: Mapping[str, Any]) -> None:
        """Delete an object that may be gone."""
        path = self.path(body)
        self._applied.pop(path, None)
        try:
            self.client.request("DELETE", path)
        except ApiError as error:
            if not error.not_found:
                raise

    def patch(self, body: Mapping[str, Any], change: Body, *, status: bool = False) -> None:
        """Change fields of an object that may be gone."""
        path = self.path(body) + ("/status" if status else "")
        try:
            self.client.request("PATCH", path, body=change, content_type=MERGE)
        except ApiError as error:
            if not error.not_found:
                raise

    def label(self, node: Body, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node, None takes one away; nothing if they are so."""
        has = node["metadata"].setdefault("labels", {})
        change = {key: value for key, value in labels.items() if has.get(key) != value}
        if change:
            self.patch(_node(node), {"metadata": {"labels": change}})
            for key, value in change.items():
                has.pop(key, None) if value is None else has.update({key: value})

    def offer(self, node: Body, resource: str, count: int) -> None:
        """Set the number of an extended resource that a node offers, as its kubelet does."""
        offered = node["status"].setdefault("allocatable", {})
        if str(offered.get(resource, "0")) == str(count) and (count == 0 or resource in offered):
            return
        change = {resource: str(count)}
        self.patch(
            _node(node), {"status": {"allocatable": change, "capacity": change}}, status=True
        )
        offered[resource] = str(count)


Turn = Callable[[World, Look], None]


@dataclass(frozen=True, kw_only=True)
class Player:
    """A model of what cannot run here.

    Args:
        plays: what it stands for.
        rows: ids of the rows of truth that it follows.
        turn: acts once on what there is.
    """

    plays: str
    rows: tuple[str, ...]
    turn: Turn


class Loop:
    """Players that take their turns until the loop ends, in a thread of its own.

    Attributes:
        failed: player -> the last error of its turn, while it fails.
    """

    def __init__(
        self, world: World, players: Iterable[Player], also: Sequence[Callable[[], None]] = ()
    ) -> None:
        self.world = world
        self.failed: dict[str, str] = {}
        self._players = tuple(players)
        self._also = also
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def troubles(self) -> str:
        """Return what keeps players from playing, to stand after a failure; often nothing."""
        text = "; ".join(f"{name}: {error}" for name, error in sorted(self.failed.items()))
        return f" (in the twin: {text})" if text else ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the turn that is on."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(20)

    def _run(self) -> None:
        while not self._stop.is_set():
            for turn in self._also:
                self._guarded("programs and nodes", turn)
            try:
                look = self.world.look()
            except (ApiError, UnreachableError, TimeoutError):
                self._stop.wait(_PERIOD_S)
                continue
            for player in self._players:
                self._guarded(player.plays, partial(player.turn, self.world, look))
            self._stop.wait(_PERIOD_S)

    def _guarded(self, name: str, action: Callable[[], None]) -> None:
        # A conflict or a name that is gone meanwhile is tried again in the next turn.
        try:
            action()
        except (ApiError, UnreachableError, NoMatchError, TimeoutError) as error:
            self.failed[name] = str(error)
        except (LookupError, TypeError, ValueError) as error:
            # An object that no row foresaw: reported with the step that fails for it.
            self.failed[name] = repr(error)
        else:
            self.failed.pop(name, None)


def _role(pod: Mapping[str, Any]) -> str:
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(PLAYER) or labels.get("app", ""))


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is ready and not on its way out."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return (
        bool(pod["spec"].get("nodeName"))
        and not pod["metadata"].get("deletionTimestamp")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    )


def _node(node: Mapping[str, Any]) -> Body:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["metadata"]["name"]}}
