"""The parts that the kinds of job of Kubeflow's training operator v1 share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railhead.launch.apis.base import Api, Object
from railhead.launch.choose import of_leader
from railhead.launch.plan import Plan

GROUP_VERSION = "kubeflow.org/v1"
SINCE = "the training operator v1.9"
SOURCE = "training-operator v1.9.3, pkg/controller.v1"
INDEX = "training.kubeflow.org/replica-index"


@dataclass(frozen=True, kw_only=True)
class OperatorJob(Api):
    """A kind of job of the training operator.

    Args:
        replicas: the field of the spec with the pods of each role.
        leader: the role of the first pod, where it is another than the others'.
        port: name and number of the port that the operator looks for.
    """

    replicas: str
    leader: str | None = None
    port: tuple[str, int]

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """Return a service for each pod, of its name (pkg/core/service.go, GenGeneralName)."""
        roles = self.roles(plan)
        names = (f"{role.lower()}-{i}" for role, count in roles.items() for i in range(count))
        return tuple(f"{plan.name}-{name}" for name in names)

    def roles(self, plan: Plan) -> Mapping[str, int]:
        """Return the number of pods by role."""
        if self.leader is None:
            return {"Worker": plan.nodes}
        return {self.leader: 1} | ({"Worker": plan.nodes - 1} if plan.nodes > 1 else {})

    def spec(self, plan: Plan, template: Object) -> Object:
        """Return a spec that ends the job when any pod fails; what ran stays to be looked at."""
        (container,) = (c for c in template["spec"]["containers"] if c["name"] == self.container)
        name, number = self.port
        container["ports"] = [{"name": name, "containerPort": number}]
        template["spec"].pop("restartPolicy", None)
        if len(self.roles(plan)) > 1:
            of_leader(template["metadata"].get("annotations", {}), self.name)
        return {
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running"},
            self.replicas: {
                role: {"replicas": count, "restartPolicy": "Never", "template": template}
                for role, count in self.roles(plan).items()
            },
        }
