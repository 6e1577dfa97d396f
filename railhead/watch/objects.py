"""Metrics of custom resources by kube-state-metrics: restarts, and conditions with their reason.

Its own configuration (kube-state-metrics v2.15.0, pkg/customresourcestate), for an instance that
exports nothing else, so that an existing one stays as it is. It finds kinds by their CRDs
alone (internal/discovery), so guards and nodes are :mod:`railhead.watch.exporter`'s.
"""

from __future__ import annotations

from typing import Any

_OWNER = "[controller=true]"
_CONDITION = {
    "path": ["status", "conditions"],
    "labelsFromPath": {"type": ["type"], "reason": ["reason"]},
    "valueFrom": ["status"],
}

# Of each pod set that Kueue gave quota to.
_GPUS = {
    "path": ["status", "admission", "podSetAssignments"],
    "labelsFromPath": {"podset": ["name"]},
    "valueFrom": ["resourceUsage", "nvidia.com/gpu"],
    "nilIsZero": True,
}


def _resource(
    api: tuple[str, str, str], labels: dict[str, list[str]], **gauges: dict[str, Any]
) -> dict[str, Any]:
    group, version, kind = api
    return {
        "groupVersionKind": {"group": group, "version": version, "kind": kind},
        "metricNamePrefix": "railhead",
        "labelsFromPath": {"namespace": ["metadata", "namespace"], **labels},
        "metrics": [
            {
                "name": name,
                "help": name.replace("_", " "),
                "each": {"type": "Gauge", "gauge": gauge},
            }
            for name, gauge in gauges.items()
        ],
    }


def configuration() -> dict[str, Any]:
    """Return the file that ``--custom-resource-state-config-file`` names."""
    return {
        "kind": "CustomResourceStateMetrics",
        "spec": {
            "resources": [
                _resource(
                    ("jobset.x-k8s.io", "v1alpha2", "JobSet"),
                    {"jobset": ["metadata", "name"]},
                    # A JobSet that never restarted has no such field.
                    jobset_restarts={"path": ["status", "restarts"], "nilIsZero": True},
                ),
                _resource(
                    ("trainer.kubeflow.org", "v1alpha1", "TrainJob"),
                    {"trainjob": ["metadata", "name"]},
                    trainjob_condition=_CONDITION,
                ),
                _resource(
                    ("kueue.x-k8s.io", "v1beta2", "Workload"),
                    {
                        "workload": ["metadata", "name"],
                        "job": ["metadata", "ownerReferences", _OWNER, "name"],
                    },
                    workload_condition=_CONDITION,
                    workload_gpus=_GPUS,
                ),
            ]
        },
    }


#: (API group, plural) of what it lists and watches, the CRDs themselves included.
READS = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("jobset.x-k8s.io", "jobsets"),
    ("trainer.kubeflow.org", "trainjobs"),
    ("kueue.x-k8s.io", "workloads"),
)
