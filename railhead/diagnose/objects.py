"""The objects around a job or a pod, as they were read: from a bundle, or by the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass
class ClusterObjects:
    """The objects that were read.

    Attributes:
        job: the TrainJob, when a job was named.
        pods, nodes, events, policies, workloads: as the API server has them.
        contract: of the cluster; None when it has no contract.
        devices: extended resources of the fabric that a training pod requests, by the contract.
        networks: names of the networks that a training pod joins, by the contract.
        counters: node -> lines of its exporters that name links, ports or Xids.
        unreadable: what could not be read, and why.
    """

    namespace: str = ""
    job: Object | None = None
    pods: list[Object] = field(default_factory=list)
    nodes: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    policies: list[Object] = field(default_factory=list)
    workloads: list[Object] = field(default_factory=list)
    contract: Object | None = None
    devices: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    counters: dict[str, list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    def to_json(self) -> Object:
        """Return an object for a bundle; :meth:`from_json` reads it back."""
        return {
            "namespace": self.namespace,
            "job": self.job,
            "pods": self.pods,
            "nodes": self.nodes,
            "events": self.events,
            "policies": self.policies,
            "workloads": self.workloads,
            "contract": self.contract,
            "devices": self.devices,
            "networks": self.networks,
            "counters": self.counters,
            "unreadable": self.unreadable,
        }

    @classmethod
    def from_json(cls, held: Object) -> ClusterObjects:
        """Read what :meth:`to_json` returned; ignore anything else in it."""

        def lists(key: str) -> list[Object]:
            value = held.get(key)
            return (
                [item for item in value if isinstance(item, dict)]
                if isinstance(value, list)
                else []
            )

        def names(key: str) -> list[str]:
            value = held.get(key)
            return [str(item) for item in value] if isinstance(value, list) else []

        counters = held.get("counters")
        job, contract = held.get("job"), held.get("contract")
        return cls(
            namespace=str(held.get("namespace") or ""),
            job=job if isinstance(job, dict) else None,
            pods=lists("pods"),
            nodes=lists("nodes"),
            events=lists("events"),
            policies=lists("policies"),
            workloads=lists("workloads"),
            contract=contract if isinstance(contract, dict) else None,
            devices=names("devices"),
            networks=names("networks"),
            counters={
                str(node): [str(line) for line in lines]
                for node, lines in (counters if isinstance(counters, dict) else {}).items()
                if isinstance(lines, list)
            },
        )
