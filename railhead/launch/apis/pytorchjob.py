"""PyTorchJob of the training operator v1, which says each pod what torchrun asks."""

from __future__ import annotations

from railhead.launch.apis.base import Object
from railhead.launch.apis.operator import GROUP_VERSION, SINCE, SOURCE, OperatorJob
from railhead.launch.plan import Plan


class PyTorchJob(OperatorJob):
    """A master and workers."""

    def spec(self, plan: Plan, template: Object) -> Object:
        """``nprocPerNode`` is text: it may be a word too."""
        processes = {"nprocPerNode": str(plan.processes_per_node)}
        return processes | super().spec(plan, template)


API = PyTorchJob(
    name="pytorchjob",
    api_version=GROUP_VERSION,
    kind="PyTorchJob",
    plural="pytorchjobs",
    index=None,
    container="pytorch",
    own=True,
    replicas="pytorchReplicaSpecs",
    leader="Master",
    port=("pytorchjob-port", 29500),
    since=SINCE,
    source=SOURCE,
)
