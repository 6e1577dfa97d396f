"""Limits around a training namespace: Pod Security, a quota of objects, and guards.

There is no LimitRange, on purpose. Kueue adds a LimitRange's default requests to a container before
it takes limits for requests (v0.16.2, pkg/workload/resources.go, AdjustResources), while the API
server takes limits for requests first: a job that has only limits would be charged the default
and its pods would take the limit, so gangs would be admitted that do not fit. Without one, what a
container does not ask for is neither charged nor kept free for it, and both agree.

GPUs, NICs, CPU and memory are in no quota of Kubernetes: Kueue charges them, whole and once. A
ResourceQuota over them would charge pods one by one, and stop a gang half-way that Kueue let in.
Nor are TrainJobs and JobSets counted: the quota controller learns of a kind within 30 s of its
definition, and looks at a quota that was there before only with its next round of all quotas, 5 min
apart. Until then the API server refuses every job with "status unknown for quota" (275 s on the
lab's Kubernetes, measured; none where the quota was made 35 s after the definitions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railhead.base.names import PRIORITY_LABEL
from railhead.catalog.versions import COMBINATIONS
from railhead.model.access import PodSecurityLevel
from railhead.model.cluster import Cluster
from railhead.model.pod_security import beyond_baseline
from railhead.resolve import cel
from railhead.resolve.callers import no_controller
from railhead.resolve.rules import rules
from railhead.resolve.schedulers import scheduler_of

# More than a kubelet runs (110 unless told otherwise; 256 at most on GKE, 250 on EKS): nodes are
# full before the quota is, so it stops no gang half-way.
_PODS_PER_NODE = 256
_SECURITY = "pod-security.kubernetes.io/"


@dataclass(frozen=True, kw_only=True)
class PodSecurity:
    """The level that a training namespace enforces; ``beyond`` is what of the baseline is left."""

    level: PodSecurityLevel
    beyond: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PullSecret:
    """A Secret of a registry's login; ``config`` says where its content is, None if it exists."""

    name: str
    config: str | None


@dataclass(frozen=True, kw_only=True)
class Fences:
    """The fences of every training namespace.

    Args:
        labels: labels of the namespace itself.
        quota: spec of its ResourceQuota.
        pull_secrets: the Secrets with which the jobs' service account pulls images.
    """

    labels: Mapping[str, str]
    quota: Mapping[str, Any]
    pull_secrets: tuple[PullSecret, ...]


def pod_security(cluster: Cluster) -> PodSecurity:
    """Return the strictest level that the stack's runtimes pass, unless the stack says another.

    No runtime passes ``restricted``: images of frameworks run as root, and NCCL's users expect it.
    If a fabric needs more than ``baseline``, the guard ``railhead-node-reach`` limits pods to the
    baseline and that one exception, which a level cannot express.
    """
    beyond = beyond_baseline(cluster.fabric)
    strictest: PodSecurityLevel = "privileged" if beyond else "baseline"
    return PodSecurity(level=cluster.access.pod_security or strictest, beyond=beyond)


def pods_of(cluster: Cluster) -> int:
    """Return more pods than the stack's nodes can run."""
    return _PODS_PER_NODE * sum(pool.nodes for pool in cluster.pools)


def fences(cluster: Cluster) -> Fences:
    """Return the fences of each training namespace."""
    oldest, _ = COMBINATIONS[cluster.versions].kubernetes
    objects = cluster.access.objects
    return Fences(
        labels={
            f"{_SECURITY}enforce": pod_security(cluster).level,
            # What a level means changes with Kubernetes; what passes here must not, by an upgrade.
            f"{_SECURITY}enforce-version": f"v{oldest}",
        },
        quota={
            "hard": {
                "count/configmaps": str(objects),
                "count/secrets": str(objects),
                # A few KiB each, and there as long as their job; a JobSet makes its Jobs and its
                # Service before it is admitted. TrainJobs and JobSets: docs/access.md, Quota.
                "count/jobs.batch": str(10 * objects),
                "count/services": str(10 * objects),
                "pods": str(pods_of(cluster)),
                # A job is no server: neither is made for it, and either would open it to the world.
                "services.loadbalancers": "0",
                "services.nodeports": "0",
            }
        },
        pull_secrets=tuple(
            PullSecret(name=secret.name, config=secret.config)
            for secret in cluster.access.image_pull_secrets
        ),
    )


_JOBS = {
    "trainer.kubeflow.org": ("trainjobs",),
    "jobset.x-k8s.io": ("jobsets",),
    "batch": ("jobs", "cronjobs"),
    "kubeflow.org": ("*",),
    "ray.io": ("*",),
    "leaderworkerset.x-k8s.io": ("leaderworkersets",),
    "apps": ("deployments", "statefulsets"),
    "": ("pods",),
}


def _may(group: str, resource: str, name: str) -> str:
    return (
        f"authorizer.group({cel.string(group)}).resource({cel.string(resource)})"
        f".namespace(request.namespace).name({name}).check('use').allowed()"
    )


def priority_policy(cluster: Cluster) -> dict[str, Any]:
    """Return the policy that a job has only priorities that RBAC lets its user ``use``.

    Kueue reads the label of everything that it queues (v0.16.2, pkg/controller/jobframework/
    reconciler.go, ExtractPriority); its own webhooks check no rights.
    """
    label = cel.string(PRIORITY_LABEL)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(_JOBS, "CREATE", "UPDATE"),
        "matchConditions": [no_controller(cluster)],
        "variables": [
            {
                "name": "asked",
                "expression": f"has(object.metadata.labels) && {label} in object.metadata.labels"
                f" ? object.metadata.labels[{label}] : ''",
            },
            {
                "name": "had",
                "expression": "request.operation == 'UPDATE' && has(oldObject.metadata.labels)"
                f" && {label} in oldObject.metadata.labels"
                f" ? oldObject.metadata.labels[{label}] : ''",
            },
        ],
        "validations": [
            {
                "expression": "variables.asked == '' || variables.asked == variables.had || "
                + _may("kueue.x-k8s.io", "workloadpriorityclasses", "variables.asked"),
                "messageExpression": f"'the label ' + {label} + ': ' + variables.asked + ' is not "
                "yours to give: take a lower priority or leave the label out, or ask a lead of the "
                "team to set it on the job'",
                "message": f"the label {PRIORITY_LABEL} names a priority that is not yours to give",
                "reason": "Forbidden",
            }
        ],
    }


def pod_priority_policy(cluster: Cluster) -> dict[str, Any]:
    """Return the policy that no JobSet has a PriorityClass of pods, which would put it first.

    Kueue uses that of the pod template if the job has no label (the same function), and the
    scheduler would evict others' pods for it. Only controllers may submit other kinds, and a
    TrainJob has no field for it.
    """
    name = "j.template.spec.template.spec.priorityClassName"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({"jobset.x-k8s.io": ("jobsets",)}, "CREATE", "UPDATE"),
        "matchConditions": [no_controller(cluster)],
        "validations": [
            {
                "expression": "object.spec.replicatedJobs.all(j, "
                f"!has({name}) || {name} == '' || "
                f"{_may('scheduling.k8s.io', 'priorityclasses', name)})",
                "message": "priorityClassName in a pod's template would put the job before others "
                f"in the queue and on the nodes: remove it, and set the label {PRIORITY_LABEL}",
                "reason": "Forbidden",
            }
        ],
    }


def pull_secret_policy(cluster: Cluster) -> dict[str, Any] | None:
    """Return the policy that no pod reads the login of a registry; None without a login.

    Anyone who may submit jobs may mount any other secret of the namespace: it is the team's.
    """
    names = logins(cluster)
    if not names:
        return None
    started = ("containers", "initContainers", "ephemeralContainers")
    every = " + ".join(f"dyn(object.spec.?{field}.orValue([]))" for field in started)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(
            {"": ("pods", "pods/ephemeralcontainers")}, "CREATE", "UPDATE"
        ),
        "variables": [
            {"name": "containers", "expression": every},
            {"name": "volumes", "expression": "dyn(object.spec.?volumes.orValue([]))"},
            {"name": "logins", "expression": cel.strings(names)},
        ],
        "validations": cel.validations(
            (rule.expression, f"{rule.message} ({', '.join(names)})") for rule in rules().logins
        ),
    }


def logins(cluster: Cluster) -> tuple[str, ...]:
    """Return the Secrets that have the logins of registries."""
    return tuple(secret.name for secret in cluster.access.image_pull_secrets)


def fence_policies(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return policy name -> spec."""
    labelled = scheduler_of(cluster).workloads
    policies = {
        "railhead-priority": priority_policy(cluster) if labelled else None,
        "railhead-pod-priority": pod_priority_policy(cluster),
        "railhead-pull-secret": pull_secret_policy(cluster),
    }
    return {name: spec for name, spec in policies.items() if spec is not None}
