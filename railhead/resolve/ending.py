"""Guards that hold a stack together while jobs run in it.

`pulumi destroy` begins with the ConfigMap that owns a namespace's jobs. The API server refuses its
deletion while a job has not ended, so nothing is lost by then; once it is deleted, Kubernetes'
garbage collector deletes the ended TrainJobs that it owns. Without that they would hold their
runtimes for ever (trainer v2.1.0, pkg/controller/clustertrainingruntime_controller.go: the
finalizer `trainer.kubeflow.org/resource-in-use` stays while any TrainJob names the runtime).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.base.names import JOBS_OWNER, KUEUE_API, TRAINER_API
from railhead.model.cluster import Cluster
from railhead.resolve.guards import Guard

_DELETION: Mapping[str, Any] = {
    "resourceRules": [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["DELETE"],
            "resources": ["configmaps"],
            "resourceNames": [JOBS_OWNER],
        }
    ]
}
_OWNERS = {
    "name": "owners",
    "expression": "has(params.metadata.ownerReferences) ? params.metadata.ownerReferences : []",
}


def ending(cluster: Cluster) -> dict[str, Guard]:
    """Return name -> guard: of TrainJobs, and of every kind that Kueue admits."""
    named = "'TrainJob ' + params.metadata.namespace + '/' + params.metadata.name"
    guards = {
        "railhead-jobs-ended": _guard(
            TRAINER_API,
            "TrainJob",
            {
                "expression": _has("Complete", "Failed"),
                "messageExpression": f"{named} + ' has not ended: wait for it (railhead wait ' + "
                "params.metadata.name + '), or end it (railhead cancel ' + params.metadata.name + "
                "'), and run this again'",
            },
            {
                "expression": "variables.owners.exists(o, o.kind == 'ConfigMap' && "
                f"o.name == '{JOBS_OWNER}')",
                "messageExpression": f"{named} + ' has ended, was not made by `railhead launch`, "
                "and keeps its runtime: delete it (railhead cancel ' + params.metadata.name + "
                "'), and run this again'",
            },
        )
    }
    if cluster.queueing.scheduler == "kueue":
        owner = (
            "(variables.owners.size() > 0 ? variables.owners[0].kind : 'Workload') + ' ' + "
            "params.metadata.namespace + '/' + "
            "(variables.owners.size() > 0 ? variables.owners[0].name : params.metadata.name)"
        )
        guards["railhead-workloads-ended"] = _guard(
            KUEUE_API,
            "Workload",
            {
                "expression": _has("Finished"),
                "messageExpression": f"{owner} + ' has not ended: wait for it, or end it (railhead "
                "cancel NAME), and run this again'",
            },
        )
    return guards


def _has(*types: str) -> str:
    either = " || ".join(f"c.type == '{name}'" for name in types)
    return (
        "has(params.status) && has(params.status.conditions) && params.status.conditions"
        f".exists(c, c.status == 'True' && ({either}))"
    )


def _guard(api_version: str, kind: str, *validations: Mapping[str, str]) -> Guard:
    """Return the guard that asks each object of a kind in the ConfigMap's own namespace."""
    return Guard(
        policy={
            # A server that has just started knows no such kind for up to 30 s (apiserver v0.35.8,
            # pkg/server/options/admission.go), and would let running jobs go.
            "failurePolicy": "Fail",
            "matchConstraints": _DELETION,
            "variables": [_OWNERS],
            "paramKind": {"apiVersion": api_version, "kind": kind},
            "validations": [{**validation, "reason": "Forbidden"} for validation in validations],
        },
        binding={"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}},
    )
