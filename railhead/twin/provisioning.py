"""GKE's queued provisioning in a twin: nodes of a request come all at once, and go with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from railhead.base.quantity import parse
from railhead.twin.addresses import selects
from railhead.twin.gke import NETWORKS
from railhead.twin.joining import Joining, built
from railhead.twin.truth import Node
from railhead.twin.world import Body

API = "autoscaling.x-k8s.io/v1"
CLASS = "queued-provisioning.gke.io"
LABEL = "autoscaling.gke.io/provisioning-request"
#: The rows of truth that it follows.
ROWS: tuple[str, ...] = (
    "gcp.pr-accepted",
    "gcp.pr-provisioned",
    "gcp.pr-template",
    "gcp.pr-only",
    "gcp.pr-no-reuse",
    "gcp.pr-topology",
)


@dataclass
class Provisioning:
    """Requests that are answered, and their nodes.

    Whether such nodes have topology labels is disputed (gcp.pr-topology): those of every other
    request have.

    Args:
        joining: it knows the queued pools, and brings nodes and takes them away.
    """

    joining: Joining
    _nodes: dict[str, list[Node]] = field(default_factory=dict)
    _made: int = 0
    _served: int = 0

    def turn(self) -> None:
        """Answer new requests, and take away the nodes of those that are gone."""
        requests = {
            r["metadata"]["uid"]: r
            for r in self.joining.world.list(API, "ProvisioningRequest")
            if r["spec"].get("provisioningClassName") == CLASS
        }
        for uid in set(self._nodes) - set(requests):
            for node in self._nodes.pop(uid):
                self.joining.remove(node.name)
        for uid, request in requests.items():
            if uid not in self._nodes:
                self._answer(uid, request)

    def _answer(self, uid: str, request: Body) -> None:
        podsets = list(self._podsets(request))
        for pool in self.joining.queued():
            nodes = self._wanted(pool, podsets, request["metadata"]["name"])
            there = sum(n.pool == pool["group"] for some in self._nodes.values() for n in some)
            if nodes and there + len(nodes) <= pool["most"]:
                break
        else:
            self._say(request, {"Accepted": "False"}, {"Accepted": "NotAccepted"})
            return
        for node in nodes:
            self.joining.add(node)
        self._nodes[uid] = nodes
        self._served += 1
        reasons = {"Accepted": "SuccessfullyQueued", "Provisioned": "Provisioned"}
        details = {"ResizeRequestName": request["metadata"]["name"], "NodePoolName": pool["group"]}
        self._say(request, dict.fromkeys(reasons, "True"), reasons, details)

    def _podsets(self, request: Body) -> Iterator[tuple[Mapping[str, Any], int]]:
        space = request["metadata"]["namespace"]
        for podset in request["spec"]["podSets"]:
            path = f"/api/v1/namespaces/{space}/podtemplates/{podset['podTemplateRef']['name']}"
            template = self.joining.world.client.request("GET", path).body["template"]
            yield template["spec"], int(podset["count"])

    def _wanted(
        self, pool: Mapping[str, Any], podsets: Iterable[tuple[Mapping[str, Any], int]], name: str
    ) -> list[Node]:
        """Return the nodes of a pool that hold all pods; none if one does not fit."""
        # What the autoscaler simulates with has no topology label yet.
        template = built(pool, 0, placed=())
        offers = offered(template, self._known_networks())
        count = 0
        for spec, pods in podsets:
            each = held(spec, template, offers)
            if not each:
                return []
            count += math.ceil(pods / each)
        numbers = range(self._made, self._made + count)
        self._made += count
        labels = {**pool["labels"], LABEL: name}
        placed = ("any",) if self._served % 2 else ()
        return [built({**pool, "labels": labels}, number, placed=placed) for number in numbers]

    def _known_networks(self) -> dict[tuple[str, str], str]:
        return {
            (s["spec"]["vpc"], s["spec"]["vpcSubnet"]): s["status"]["networkName"]
            for s in self.joining.world.list(NETWORKS, "GKENetworkParamSet")
            if (s.get("status") or {}).get("networkName")
        }

    def _say(
        self,
        request: Body,
        states: Mapping[str, str],
        reasons: Mapping[str, str],
        details: Mapping[str, str] | None = None,
    ) -> None:
        had = (request.get("status") or {}).get("conditions") or ()
        if {c["type"]: c["status"] for c in had} == dict(states):
            return
        since = request["metadata"]["creationTimestamp"]
        conditions = [
            {
                "type": kind,
                "status": state,
                "reason": reasons[kind],
                "message": reasons[kind],
                "lastTransitionTime": since,
            }
            for kind, state in states.items()
        ]
        status: Body = {"conditions": conditions}
        if details:
            status["provisioningClassDetails"] = dict(details)
        self.joining.world.patch(request, {"status": status}, status=True)


def offered(node: Node, known: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return what the autoscaler expects of a node: its template's, its GPUs, known networks."""
    nics = [known[place] for place in node.nics if place in known]
    networks = {
        f"networking.gke.io.networks/{resource}": "1"
        for name in nics
        for resource in (name, f"{name}.IP")
    }
    return {**node.allocatable, "nvidia.com/gpu": str(node.gpus), **networks}


def held(spec: Mapping[str, Any], node: Node, offers: Mapping[str, str]) -> int:
    """Return how many such pods a node holds: none that its labels, taints or devices keep off."""
    if any(node.labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return 0
    near: Any = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (near.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    )
    if terms and not any(selects(term, node.labels) for term in terms):
        return 0
    tolerations = spec.get("tolerations") or ()
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not any(
            t.get("key") in (None, taint.key)
            and (t.get("operator") == "Exists" or t.get("value", "") == taint.value)
            and t.get("effect") in (None, "", taint.effect)
            for t in tolerations
        ):
            return 0
    asked: dict[str, Any] = {}
    always = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in (*spec["containers"], *always):
        for resource, amount in (container.get("resources", {}).get("requests") or {}).items():
            asked[resource] = asked.get(resource, 0) + parse(amount)
    rooms = [int(parse(offers.get(r, "0")) // n) for r, n in asked.items() if n]
    return min(rooms, default=1)
