"""Policies on what only controllers may write: who owns a job, what is admitted, where pods run.

Kueue queues no job whose controlling owner it manages (v0.16.2, pkg/controller/jobframework/
reconciler.go, FindAncestorJobManagedByKueue) and marks the pods of a job that it admitted by
labels. Both are plain metadata, which the author of a job could write as well.
"""

from __future__ import annotations

from typing import Any

from railhead.base.names import JOBS_OWNER, PRIORITY_LABEL, QUEUE_LABEL
from railhead.catalog.versions import COMBINATIONS
from railhead.fabric.mode import GKE_INTERFACES, NETWORKS_ANNOTATION
from railhead.machines import MACHINES
from railhead.model.capacity import quantities
from railhead.model.cluster import Cluster
from railhead.resolve import cel
from railhead.resolve.callers import ADMINISTRATORS, controllers, no_controller
from railhead.resolve.fences import logins, pods_of
from railhead.resolve.job_guards import KINDS, SETS, patched, templates
from railhead.resolve.pod_guards import FabricDemand
from railhead.resolve.pods import PROFILE
from railhead.resolve.rules import on, rules
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.wiring import NVLINK_DOMAIN, joins_nvlink

# ConfigMaps of a training namespace that every job's pods read, NCCL's settings with the Python
# that a runtime loads; that own its jobs; and Kubernetes' own with the API server's certificate.
KEPT = (PROFILE, JOBS_OWNER, "kube-root-ca.crt")
# The end of the name of Trainer's own copy of a job's runtime, of which alone it makes the job's
# pods (v2.3.0, pkg/runtime/core/snapshot.go), while Kueue charges by the runtime.
_SNAPSHOT = "-runtime-snapshot"
# What a job's author may say to Kueue about the job itself (kueue, pkg/controller/constants).
_LABELS = (QUEUE_LABEL, PRIORITY_LABEL, "kueue.x-k8s.io/max-exec-time-seconds")
# Who looks after a kind unless it says otherwise: each API's own constant for its ``managedBy``.
_MANAGERS = (
    "jobset.sigs.k8s.io/jobset-controller",
    "kubeflow.org/mpi-operator",
    "kubeflow.org/training-operator",
    "kubernetes.io/job-controller",
    "ray.io/kuberay-operator",
    "trainer.kubeflow.org/trainjob-controller",
)
DEVICES_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_SLICES = (
    "kueue.x-k8s.io/elastic-job",
    "kueue.x-k8s.io/workload-slice-name",
    "kueue.x-k8s.io/workload-slice-replacement-for",
)
_TRAINER = {"trainer.kubeflow.org": ("trainjobs",)}


def author_policies(cluster: Cluster, fabric: FabricDemand) -> dict[str, dict[str, Any]]:
    """Return policy name -> spec."""
    policies = {
        "railhead-job-owner": job_owner_policy(cluster),
        "railhead-job-author": job_author_policy(cluster, fabric),
        "railhead-train-job-author": train_job_author_policy(cluster, fabric),
        "railhead-stack-objects": stack_objects_policy(cluster),
    }
    if scheduler_of(cluster).workloads:
        policies["railhead-orphans"] = orphans_policy(cluster)
    return policies


def job_owner_policy(cluster: Cluster) -> dict[str, Any]:
    """Return the policy on the metadata of jobs, and of what travels with them."""
    before = "(request.operation == 'UPDATE' ? dyn(oldObject.metadata) : dyn({}))"
    controlling = "{0}.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))"
    rows = [
        (
            f"{controlling.format('variables.now')} == {controlling.format('variables.before')}",
            "metadata.ownerReferences names a controller, by which the object would be charged to "
            "no queue: remove it; only controllers say what they made",
        ),
        (
            "variables.now.?finalizers.orValue([]).all(f,"
            " f in variables.before.?finalizers.orValue([]))",
            "metadata.finalizers keeps the object and its namespace from going: remove it",
        ),
        (
            "variables.labels.all(k, !k.startsWith('kueue.x-k8s.io/')"
            f" || k in {cel.strings(_LABELS)}"
            " || variables.before.?labels[?k] == optional.of(variables.labels[k]))",
            "a label says for Kueue what it alone says, such as which Workload the job has: remove "
            f"it; an author may set {', '.join(_LABELS)}",
        ),
        (
            f"variables.annotations.all(k, !(k in {cel.strings(_SLICES)})"
            " || variables.before.?annotations[?k] == optional.of(variables.annotations[k]))",
            "an annotation lets the job run on while what it grows by waits: remove it",
        ),
    ]
    # The labels of an object that is older than the guard may still be changed.
    of_specs = [
        (
            "[dyn(object).?spec.?managedBy, dyn(object).?spec.?runPolicy.?managedBy].all(m,"
            f" m.orValue({cel.string(_MANAGERS[0])}) in {cel.strings(_MANAGERS)})",
            "managedBy gives the job to a controller that is not the stack's, which would hold its "
            "quota and run nothing, or run it unseen: remove it",
        ),
        (
            "dyn(object).kind != 'JobSet' || dyn(object).spec.replicatedJobs.all(j,"
            f" j.?template.?spec.?managedBy.orValue({cel.string(_MANAGERS[0])})"
            f" in {cel.strings(_MANAGERS)})",
            "managedBy of a replicated job gives it to a controller that is not Kubernetes': "
            "remove it",
        ),
        (
            "dyn(object).kind != 'JobSet' || dyn(object).spec.replicatedJobs.map(j,"
            " int(j.?replicas.orValue(1)) * int(j.?template.?spec.?parallelism.orValue(1))).sum()"
            f" <= {pods_of(cluster)}",
            f"the JobSet makes more pods than all nodes can run ({pods_of(cluster)}), and its Jobs "
            "before it is admitted: lower replicas or parallelism",
        ),
        (
            # Of JobSet 0.11 on, which makes them (pkg/controllers/volume_claim_policy.go).
            "dyn(object).kind != 'JobSet'"
            " || size(dyn(object).spec.?volumeClaimPolicies.orValue([])) == 0",
            "volumeClaimPolicies has claims made, which its author may do in no other way: use a "
            "PersistentVolumeClaim that the namespace has",
        ),
        (
            # The type cannot change, and the API server labels an older one at its use
            # (kubernetes v1.35.8, pkg/serviceaccount/legacy.go).
            "dyn(object).kind != 'Secret'"
            " || dyn(object).?type.orValue('') != 'kubernetes.io/service-account-token'",
            "a Secret of this type gets a token that does not end: jobs have none; remove type",
        ),
        (
            # The SDK of Kubeflow (0.5.0) gives the queue's label there, too.
            "dyn(object).kind != 'TrainJob' || !(dyn(object).?spec.?labels.orValue({})"
            f".exists(k, k.startsWith('kueue.x-k8s.io/') && !(k in {cel.strings(_LABELS)})))",
            "spec.labels of a TrainJob are its JobSet's, for which Kueue alone speaks: of those "
            f"that begin with kueue.x-k8s.io/ leave {', '.join(_LABELS)} alone",
        ),
    ]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(
            KINDS | SETS | _TRAINER | {"": ("configmaps", "secrets")}, "CREATE", "UPDATE"
        ),
        "matchConditions": [no_controller(cluster)],
        "variables": [
            {"name": "now", "expression": "dyn(object.metadata)"},
            {"name": "before", "expression": before},
            {"name": "labels", "expression": "variables.now.?labels.orValue({})"},
            {"name": "annotations", "expression": "variables.now.?annotations.orValue({})"},
            {
                "name": "kept",
                "expression": "request.operation == 'UPDATE'"
                " && dyn(object).?spec == dyn(oldObject).?spec",
            },
        ],
        "validations": cel.validations(
            [*rows, *((f"variables.kept || {rule}", message) for rule, message in of_specs)]
        ),
    }


def _author_rules(cluster: Cluster, fabric: FabricDemand) -> list[tuple[str, str]]:
    """Return (expression, message) of ``author`` in ``rules.yaml`` on a template ``p``."""
    claimed = fabric.networks if fabric.attachment == "claim" else ()
    if any(joins_nvlink(cluster, MACHINES[pool.instance_type]) for pool in cluster.pools):
        claimed = (*claimed, NVLINK_DOMAIN)
    key = GKE_INTERFACES if fabric.attachment == "gke" else NETWORKS_ANNOTATION
    scheduler = scheduler_of(cluster)
    binds = () if scheduler.workloads else (scheduler.name,)
    more = {
        "schedulers": cel.strings(("default-scheduler", *binds)),
        "claimTemplates": cel.strings(claimed),
        "networksKey": cel.string(key),
        "networksValues": cel.strings([fabric.annotations.get(key, "")]),
    }
    listed = list(rules().author)
    if names := logins(cluster):
        listed += rules().logins
        more["logins"] = cel.strings(names)
    return on("p", listed, more)


def _asks(cluster: Cluster) -> tuple[str, str]:
    """Return (expression, message): a template ``p`` asks for something that queues are charged.

    Kueue chooses a flavor, and with it the nodes, by what pods ask for (v0.16.2, pkg/scheduler/
    flavorassigner, assignFlavors): by init containers and by the pod as a whole, too, but not by
    the limits of the whole (pkg/workload/resources.go, UseLimitsAsMissingRequestsInPod). A resource
    that it leaves out (dropExcludedResources), or of which 0 is asked for and no queue has any,
    chooses none.
    """
    names = dict.fromkeys(name for pool in cluster.pools for name in quantities(cluster, pool))
    asks = f".orValue({{}}).exists(r, r in {cel.strings(tuple(names))})"
    return (
        f"p.?spec.?resources.?requests{asks}"
        " || (dyn(p.?spec.?containers.orValue([])) + dyn(p.?spec.?initContainers.orValue([])))"
        f".exists(c, c.?resources.?requests{asks} || c.?resources.?limits{asks})",
        "the pods ask for nothing that a queue is charged for, and would run on any node, of no "
        "pool too: set resources.requests, cpu and memory at least",
    )


def job_author_policy(cluster: Cluster, fabric: FabricDemand) -> dict[str, Any]:
    """Return the policy on the pod templates that a job's author writes.

    A template that an update leaves alone may be older than the guard, or Kueue's.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(KINDS | SETS, "CREATE", "UPDATE"),
        "matchConditions": [no_controller(cluster)],
        "variables": [
            {"name": "templates", "expression": templates("object")},
            {
                "name": "kept",
                "expression": "request.operation == 'UPDATE'"
                f" && variables.templates == ({templates('oldObject')})",
            },
        ],
        "validations": cel.validations(
            (f"variables.kept || variables.templates.all(p, {rule})", message)
            for rule, message in (*_author_rules(cluster, fabric), _asks(cluster))
        ),
    }


def train_job_author_policy(cluster: Cluster, fabric: FabricDemand) -> dict[str, Any]:
    """Return the same policy on a TrainJob's patches, which Kueue writes too when it admits."""
    field, names = COMBINATIONS[cluster.versions].placement_field, cel.strings(logins(cluster))
    patches = (
        (
            f"variables.kept || !({patched(cluster, f'!({rule})')})",
            f"spec.{field}: {message}",
        )
        for rule, message in _author_rules(cluster, fabric)
    )
    variables = (
        "[dyn(object).spec.?trainer, dyn(object).spec.?initializer.?dataset,"
        " dyn(object).spec.?initializer.?model].all(i, {0})"
    )
    fields = (
        (
            variables.format(f"i.?env.orValue([]).all(e, e.name != '{DEVICES_VARIABLE}')"),
            f"{DEVICES_VARIABLE} of spec.trainer.env, or of an initializer's, has GPUs put in that "
            "no queue is charged for: remove it",
        ),
        (
            variables.format(
                f"!(i.?secretRef.?name.orValue('') in {names}) && i.?env.orValue([]).all(e,"
                f" !(e.?valueFrom.?secretKeyRef.?name.orValue('') in {names}))"
            ),
            "spec.trainer or spec.initializer reads the login of a registry: name another secret",
        ),
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(_TRAINER, "CREATE", "UPDATE"),
        "matchConditions": [no_controller(cluster)],
        "variables": [
            {
                "name": "kept",
                "expression": "request.operation == 'UPDATE'"
                f" && dyn(object).spec.?{field} == dyn(oldObject).spec.?{field}",
            }
        ],
        "validations": cel.validations([*patches, *fields]),
    }


def orphans_policy(cluster: Cluster) -> dict[str, Any]:
    """Return the policy that what a job made is deleted with it.

    Its Workload would hold the quota for ever: Kueue frees that of a job whose Workload names it
    (v0.16.2, pkg/controller/jobframework/reconciler.go, dropFinalizers), and the garbage collector
    takes the name away. Nobody but an administrator could delete it, and `destroy` would not begin.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({**KINDS, **SETS, **_TRAINER}, "DELETE"),
        "matchConditions": [no_controller(cluster)],
        "validations": cel.validations(
            [
                (
                    "dyn(request).?options.?propagationPolicy.orValue('') != 'Orphan'"
                    " && !dyn(request).?options.?orphanDependents.orValue(false)",
                    "a job that is deleted without what it made leaves its pods, which nobody "
                    "clears away, and its Workload, which holds its quota for ever unless the job "
                    "has ended: leave out --cascade=orphan",
                )
            ]
        ),
    }


def stack_objects_policy(cluster: Cluster) -> dict[str, Any]:
    """Return the policy that only the stack and controllers write the stack's ConfigMaps.

    And that only controllers write Trainer's copy of a job's runtime.
    """
    name = "(object == null ? oldObject : object).metadata.name"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({"": ("configmaps",)}, "CREATE", "UPDATE", "DELETE"),
        "matchConditions": [
            {
                "name": "kept",
                # Not by request.name, which a request that deletes several objects does not have
                # (apiserver v0.35.8, pkg/endpoints/handlers/delete.go, DeleteCollection).
                "expression": f"{name} in {cel.strings(KEPT)}"
                f" || {name}.endsWith({cel.string(_SNAPSHOT)})",
            },
            {"name": "no-controller", "expression": f"!{controllers(cluster)}"},
        ],
        "validations": cel.validations(
            [
                (
                    ADMINISTRATORS,
                    f"jobs depend on this ConfigMap ({', '.join(KEPT)}, or *{_SNAPSHOT} with what "
                    "Trainer makes pods of), and only the stack and controllers write it: a job's "
                    "own files travel in one of its name",
                )
            ]
        ),
    }
