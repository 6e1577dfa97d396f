"""PyTorchJob of the training operator v1, which says each pod what torchrun asks.

It alone can say that a run may go on with fewer nodes: ``elasticPolicy``, by which torchrun's
agents meet over c10d at the first worker (pkg/controller.v1/pytorch/elastic.go).
"""

from __future__ import annotations

from collections.abc import Mapping

from railhead.launch.apis.base import Object
from railhead.launch.apis.operator import GROUP_VERSION, SINCE, SOURCE, OperatorJob
from railhead.launch.plan import Plan


class PyTorchJob(OperatorJob):
    """A master and workers; of a run that may go on with fewer nodes, workers alone."""

    def roles(self, plan: Plan) -> Mapping[str, int]:
        """Return the roles; an elastic world needs no master to find addresses and ranks."""
        return super().roles(plan) if plan.min_nodes is None else {"Worker": plan.nodes}

    def spec(self, plan: Plan, template: Object) -> Object:
        """Return the spec; ``nprocPerNode`` is text, for it may be a word too."""
        spec: Object = {"nprocPerNode": str(plan.processes_per_node)}
        spec |= super().spec(plan, template)
        if plan.min_nodes is None:
            return spec
        # A pod that fails or is evicted is recreated (common/pod.go, ReconcilePods), and joins.
        spec[self.replicas]["Worker"]["restartPolicy"] = "OnFailure"
        # The operator counts the restarts of all containers.
        spec["runPolicy"]["backoffLimit"] = (plan.restarts or 0) * plan.nodes
        spec["elasticPolicy"] = {
            "minReplicas": plan.min_nodes,
            "maxReplicas": plan.nodes,
            "rdzvBackend": "c10d",
            "maxRestarts": plan.restarts or 0,
        }
        return spec


API = PyTorchJob(
    name="pytorchjob",
    api_version=GROUP_VERSION,
    kind="PyTorchJob",
    plural="pytorchjobs",
    index=None,
    container="pytorch",
    own=True,
    elastic=True,
    replicas="pytorchReplicaSpecs",
    leader="Master",
    port=("pytorchjob-port", 29500),
    since=SINCE,
    source=SOURCE,
)
