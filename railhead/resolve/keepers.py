"""Keepers: policies by which the API server refuses to delete what is in use.

Jobs in a namespace, a queue or on a flavor are seen as Kueue's Workloads, or as jobs if there is no
Kueue. They are parameters of the policies: each is checked by itself, and one is enough to refuse.
Volcano's own webhook keeps a Queue that has pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.base.names import CHECKPOINT_LABEL, DELETE_ANNOTATION, KUEUE_API, TRAINING_LABEL
from railhead.model.cluster import Cluster
from railhead.resolve import cel
from railhead.resolve.guards import Guard
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.schedulers.base import Unfinished
from railhead.resolve.schedulers.kueue import SCHEDULER as KUEUE

_UNFINISHED = KUEUE.unfinished.expression
_END = "let it end, or cancel it (`railhead cancel`, or delete the job), and try again"


def _job(kind: str) -> str:
    """Return CEL that names the parameter's owner, or itself, of a ``kind``, if it has none."""
    return (
        "(has(params.metadata.ownerReferences) && size(params.metadata.ownerReferences) > 0"
        " ? params.metadata.ownerReferences[0].kind + ' ' + params.metadata.namespace + '/'"
        " + params.metadata.ownerReferences[0].name"
        f" : '{kind} ' + params.metadata.namespace + '/' + params.metadata.name)"
    )


_JOB = _job("Workload")
# Everything in a namespace that is going goes: it was asked about the namespace as a whole.
# Match conditions do not see it (apiserver, plugin/policy/validating: only validations do).
_WITH_ITS_NAMESPACE = "has(namespaceObject.metadata.deletionTimestamp)"
# Each binding has the parameters of one namespace, and is asked about all of them.
_ELSEWHERE = "params.metadata.namespace != oldObject.metadata.name"
_WORKLOADS = {"apiVersion": KUEUE_API, "kind": "Workload"}
_OF_ALL = {"selector": {}, "parameterNotFoundAction": "Allow"}


def keepers(cluster: Cluster) -> dict[str, Guard]:
    """Return name -> guard of the objects that must not be lost."""
    # Objects without a namespace need one binding for each namespace of parameters.
    jobs = _in_each(cluster)
    claims = {
        name: {"paramRef": {**binding["paramRef"], "selector": {"matchLabels": _CLAIMS}}}
        for name, binding in jobs.items()
    }
    scheduler = scheduler_of(cluster)
    of_namespaces = {
        "railhead-keep-namespace-jobs": Guard(
            policy=_namespace_jobs(scheduler.unfinished), bindings=jobs
        ),
        "railhead-keep-namespace-claims": Guard(policy=_namespace_claims(), bindings=claims),
        "railhead-keep-claim": Guard(policy=_claim()),
        "railhead-keep-claim-in-use": Guard(policy=_claim_in_use(), binding={"paramRef": _OF_ALL}),
    }
    return of_namespaces | (_of_queues(jobs) if scheduler.workloads else {})


def _of_queues(jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, Guard]:
    """Return Kueue's guards; ``jobs`` are bindings with the Workloads of each namespace."""
    return {
        "railhead-keep-queue-jobs": Guard(policy=_queue_jobs(), binding={"paramRef": _OF_ALL}),
        "railhead-keep-cluster-queue": Guard(policy=_cluster_queue()),
        "railhead-keep-flavor": Guard(policy=_flavor_held()),
        "railhead-keep-flavor-jobs": Guard(policy=_flavor_jobs(), bindings=jobs),
    }


_CLAIMS = {CHECKPOINT_LABEL: "true"}


def _in_each(cluster: Cluster) -> dict[str, Mapping[str, Any]]:
    return {
        name: {"paramRef": {**_OF_ALL, "namespace": name}} for name in cluster.training_namespaces
    }


def _rule(group: str, resource: str, operation: str) -> dict[str, Any]:
    return {
        "resourceRules": [
            {
                "apiGroups": [group],
                "apiVersions": ["*"],
                "operations": [operation],
                "resources": [resource],
            }
        ]
    }


def _policy(
    match: Mapping[str, Any],
    expression: str,
    message: str,
    *,
    says: str,
    **more: Any,
) -> dict[str, Any]:
    """Return a policy; ``message`` is a CEL expression, ``says`` the message if that fails."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": dict(match),
        **more,
        "validations": [
            {
                "expression": expression,
                "messageExpression": message,
                "message": says,
                "reason": "Forbidden",
            }
        ],
    }


def _namespace_jobs(job: Unfinished) -> dict[str, Any]:
    lost = "' has a job that would be lost: '"
    return _policy(
        _rule("", "namespaces", "DELETE")
        | {"objectSelector": {"matchLabels": {TRAINING_LABEL: "true"}}},
        f"{_ELSEWHERE} || !({job.expression})",
        f"'namespace ' + oldObject.metadata.name + {lost} + {_job(job.kind)} + ': {_END}'",
        says=f"the namespace has a job that would be lost: {_END}",
        paramKind={"apiVersion": job.api_version, "kind": job.kind},
    )


def _asked(subject: str) -> str:
    return (
        f"(has({subject}.metadata.annotations)"
        f" && '{DELETE_ANNOTATION}' in {subject}.metadata.annotations"
        f" && {subject}.metadata.annotations['{DELETE_ANNOTATION}'] == {subject}.metadata.name)"
    )


def _way(subject: str) -> str:
    """Return CEL of the command that allows to delete a claim."""
    return (
        f"' asked in words: kubectl -n ' + {subject}.metadata.namespace + ' annotate pvc ' + "
        f"{subject}.metadata.name + ' {DELETE_ANNOTATION}=' + {subject}.metadata.name"
    )


def _namespace_claims() -> dict[str, Any]:
    return _policy(
        _rule("", "namespaces", "DELETE")
        | {"objectSelector": {"matchLabels": {TRAINING_LABEL: "true"}}},
        f"{_ELSEWHERE} || {_asked('params')}",
        "'namespace ' + oldObject.metadata.name + ' holds checkpoints, claim '"
        f" + params.metadata.name + ': it is deleted once that claim is,' + {_way('params')}",
        says=f"the namespace holds checkpoints: annotate each claim with {DELETE_ANNOTATION}=NAME",
        paramKind={"apiVersion": "v1", "kind": "PersistentVolumeClaim"},
    )


def _claim() -> dict[str, Any]:
    return _policy(
        _rule("", "persistentvolumeclaims", "DELETE")
        | {"objectSelector": {"matchLabels": _CLAIMS}},
        f"{_WITH_ITS_NAMESPACE} || {_asked('oldObject')}",
        "'claim ' + oldObject.metadata.name + ' holds checkpoints: it is deleted when that is'"
        f" + {_way('oldObject')}",
        says=f"the claim holds checkpoints: annotate it with {DELETE_ANNOTATION}=NAME first",
    )


def _claim_in_use() -> dict[str, Any]:
    """Refuse to delete a mounted claim, which would be Terminating until the last pod ends."""
    return _policy(
        _rule("", "persistentvolumeclaims", "DELETE")
        | {"objectSelector": {"matchLabels": _CLAIMS}},
        f"{_WITH_ITS_NAMESPACE} || !has(params.spec.volumes) || !params.spec.volumes.exists(v,"
        " has(v.persistentVolumeClaim)"
        " && v.persistentVolumeClaim.claimName == oldObject.metadata.name)"
        " || (has(params.status.phase) && params.status.phase in ['Succeeded', 'Failed'])",
        "'claim ' + oldObject.metadata.name + ' is mounted by pod ' + params.metadata.name"
        f" + ' and would be Terminating until that ends: {_END}'",
        says=f"the claim is mounted by a pod: {_END}",
        paramKind={"apiVersion": "v1", "kind": "Pod"},
    )


def _queue_jobs() -> dict[str, Any]:
    return _policy(
        _rule("kueue.x-k8s.io", "localqueues", "DELETE"),
        f"{_WITH_ITS_NAMESPACE} || !({_UNFINISHED} && has(params.spec.queueName)"
        " && params.spec.queueName == oldObject.metadata.name)",
        f"'queue ' + oldObject.metadata.name + ' has a job: ' + {_JOB} + ': {_END}'",
        says=f"the queue has a job: {_END}",
        paramKind=_WORKLOADS,
    )


def _cluster_queue() -> dict[str, Any]:
    """Refuse to delete a queue with jobs: Kueue's finalizer would block until the last job ends."""
    return _policy(
        _rule("kueue.x-k8s.io", "clusterqueues", "DELETE"),
        "!has(oldObject.status) || !has(oldObject.status.reservingWorkloads)"
        " || oldObject.status.reservingWorkloads == 0",
        "'cluster queue ' + oldObject.metadata.name + ' has ' +"
        f" string(oldObject.status.reservingWorkloads) + ' jobs that hold quota: {_END}'",
        says=f"the cluster queue has jobs that hold quota: {_END}",
    )


_FLAVORS_CHANGED = {
    "name": "its-flavors-change",
    "expression": "has(oldObject.spec.resourceGroups) && (!has(object.spec.resourceGroups)"
    " || oldObject.spec.resourceGroups.exists(g, g.flavors.exists(f,"
    " !object.spec.resourceGroups.exists(n, n.flavors.exists(o, o.name == f.name)))))",
}


def _flavor_jobs() -> dict[str, Any]:
    """Refuse to remove a flavor that jobs use, as its nodes would be handed out a second time."""
    return _policy(
        _rule("kueue.x-k8s.io", "clusterqueues", "UPDATE"),
        f"!({_UNFINISHED} && has(params.status) && has(params.status.admission)"
        " && params.status.admission.podSetAssignments.exists(a, has(a.flavors)"
        " && a.flavors.exists(r, oldObject.spec.resourceGroups.exists(g, g.flavors.exists(f,"
        " f.name == a.flavors[r])) && (!has(object.spec.resourceGroups)"
        " || !object.spec.resourceGroups.exists(g, g.flavors.exists(f, f.name == a.flavors[r]))))"
        "))",
        "'a job holds nodes of a flavor that cluster queue ' + oldObject.metadata.name +"
        f" ' would lose, and they would be given out twice: ' + {_JOB} + ': {_END}'",
        says=f"a job holds nodes of a flavor that goes: {_END}",
        paramKind=_WORKLOADS,
        matchConditions=[_FLAVORS_CHANGED],
    )


def _flavor_held() -> dict[str, Any]:
    """Require that a queue is held before it loses a flavor, so that no waiting job is admitted."""
    way = cel.string(
        ' --type merge -p \'{"spec":{"stopPolicy":"Hold"}}\', and with null in place of '
        '"Hold" afterwards'
    )
    return _policy(
        _rule("kueue.x-k8s.io", "clusterqueues", "UPDATE"),
        "(has(oldObject.spec.stopPolicy) && oldObject.spec.stopPolicy in ['Hold', 'HoldAndDrain'])"
        " || ((!has(oldObject.spec.cohortName) || oldObject.spec.cohortName == '')"
        " && (!has(oldObject.status) || !has(oldObject.status.pendingWorkloads)"
        " || oldObject.status.pendingWorkloads == 0))",
        "'cluster queue ' + oldObject.metadata.name + ' admits jobs onto nodes of a flavor that it"
        " would lose: hold it until the update is done, with kubectl patch clusterqueue '"
        f" + oldObject.metadata.name + {way}",
        says="the cluster queue admits jobs onto nodes of a flavor that goes: set its "
        "spec.stopPolicy to Hold until the update is done",
        matchConditions=[_FLAVORS_CHANGED],
    )
