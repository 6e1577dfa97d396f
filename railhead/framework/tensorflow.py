"""TensorFlow's MultiWorkerMirroredStrategy: one process a pod, told by ``TF_CONFIG``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.framework.base import NODE_RANK, NODES, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination

#: TFJob's (training-operator v1.9.3, pkg/apis/kubeflow.org/v1/tensorflow_types.go).
_PORT = 2222


@dataclass(frozen=True, kw_only=True)
class TensorFlow(Framework):
    """Workers, of which the first is the chief."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer has none for it: the pods get what the runtime and the job say."""
        del combination, processes
        return {}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """JSON; the worker of index 0 is the chief and writes checkpoints."""
        workers = [f"{host}:{_PORT}" for host in gang.hosts]
        task = {"type": "worker", "index": 0}
        text = json.dumps({"cluster": {"worker": workers}, "task": task})
        return {"TF_CONFIG": text.replace('"index": 0', f'"index": $({NODE_RANK})')}


FRAMEWORK = TensorFlow(
    name="tensorflow",
    launcher="the pod itself",
    rendezvous=(NODE_RANK, NODES, "TF_CONFIG"),
    set_by_job=(NODES, "TF_CONFIG"),
    per_process=(),
    nodes_variable=NODES,
    one_process=True,
    kinds=("tfjob",),
    controller={"tfjob": ("TF_CONFIG",)},
    source="TensorFlow 2.21, tensorflow/python/distribute/cluster_resolver/"
    "tfconfig_cluster_resolver.py",
)
