"""Policies by which the API server refuses jobs that leave the fabric, at the first object.

A gang whose pods are refused holds its quota without a word. So whatever is refused in a pod is
also refused in the object that would create it: in the pod templates of a JobSet, a Job, an MPIJob
and the like, and in what a TrainJob changes in its runtime's. The check of the pod comes last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.names import FABRIC_LABEL, QUEUE_LABEL
from railhead.catalog.switches import SWITCHES, in_mapping, in_words
from railhead.catalog.versions import COMBINATIONS
from railhead.model.cluster import Cluster
from railhead.resolve import cel
from railhead.resolve.pod_guards import FabricDemand, fabric_rules, reach_rules, takes
from railhead.resolve.pods import NCCL_CONF, PROFILE_VOLUME

# API group -> (resources, versions' kinds): what Kueue admits in every stack beside TrainJobs, and
# whose objects carry their pods' templates.
KINDS: dict[str, Mapping[str, str]] = {
    "batch": {"jobs": "Job"},
    "jobset.x-k8s.io": {"jobsets": "JobSet"},
    "kubeflow.org": {
        "jaxjobs": "JAXJob",
        "mpijobs": "MPIJob",
        "paddlejobs": "PaddleJob",
        "pytorchjobs": "PyTorchJob",
        "tfjobs": "TFJob",
        "xgboostjobs": "XGBoostJob",
    },
    "ray.io": {"rayclusters": "RayCluster", "rayjobs": "RayJob"},
}
# What it admits only where a stack has `pod_groups`.
SETS: dict[str, Mapping[str, str]] = {
    "leaderworkerset.x-k8s.io": {"leaderworkersets": "LeaderWorkerSet"}
}
# training-operator v1.9 and mpi-operator v2beta1: where each kind has its replicas.
_REPLICAS = {
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
}
MANAGED = ("TrainJob", *(kind for kinds in KINDS.values() for kind in kinds.values()))
# On pods of a LeaderWorkerSet, which get the queue's label after they were made (kueue v0.16.2,
# pkg/controller/jobs/leaderworkerset).
_PARENT = "kueue.x-k8s.io/pod-suspending-parent"


def templates(job: str) -> str:
    """Return the pod templates of ``job``, a CEL expression of any of the kinds."""
    spec = f"dyn({job}).spec"
    ray = (
        "({0}.headGroupSpec.template == null ? [] : [{0}.headGroupSpec.template])"
        " + (has({0}.workerGroupSpecs) ? {0}.workerGroupSpecs.map(g, g.template) : [])"
    )
    cases = [
        ("JobSet", f"{spec}.replicatedJobs.map(j, j.template.spec.template)"),
        ("Job", f"[{spec}.template]"),
        ("RayCluster", ray.format(spec)),
        (
            "RayJob",
            f"(has({spec}.rayClusterSpec) ? {ray.format(f'{spec}.rayClusterSpec')} : [])"
            f" + (has({spec}.submitterPodTemplate) ? [{spec}.submitterPodTemplate] : [])",
        ),
        (
            "LeaderWorkerSet",
            f"[{spec}.leaderWorkerTemplate.workerTemplate]"
            f" + (has({spec}.leaderWorkerTemplate.leaderTemplate)"
            f" ? [{spec}.leaderWorkerTemplate.leaderTemplate] : [])",
        ),
        *(
            (kind, f"{spec}.{field}.map(r, {spec}.{field}[r].template)")
            for kind, field in _REPLICAS.items()
        ),
    ]
    chain = " : ".join(f"dyn({job}).kind == '{kind}' ? {listed}" for kind, listed in cases)
    return f"{chain} : []"


def patched(cluster: Cluster, predicate: str) -> str:
    """Return whether a TrainJob changes its pods' templates by a patch ``p`` of which this holds.

    The field has another name, and lies deeper, from Trainer 2.2 on (pkg/apis/trainer/v1alpha1).
    """
    if COMBINATIONS[cluster.versions].placement_field == "podTemplateOverrides":
        field = "object.spec.podTemplateOverrides"
        return f"has({field}) && {field}.exists(o, [dyn(o)].exists(p, {predicate}))"
    field, spec = "object.spec.runtimePatches", "m.trainingRuntimeSpec.template.spec"
    return (
        f"has({field}) && {field}.exists(m, has(m.trainingRuntimeSpec)"
        f" && has(m.trainingRuntimeSpec.template) && has({spec}) && has({spec}.replicatedJobs)"
        f" && {spec}.replicatedJobs.exists(j, has(j.template) && has(j.template.spec)"
        f" && has(j.template.spec.template)"
        f" && [dyn(j.template.spec.template)].exists(p, {predicate})))"
    )


# Where NCCL looks for such files without being told (v2.30.7, src/misc/param.cc, initEnvFunc).
_NCCL_CONFS = r"^/etc/nccl\.conf/?$|/\.nccl\.conf/?$"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The values that the fabric itself sets for the variables that choose a network."""

    values: Mapping[str, Sequence[str]]
    devices: tuple[str, ...]
    prefixes: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """CEL string of the expression that finds a change of the network in a command's words."""
        return cel.string(in_words(self.values))

    def off(self, variable: str) -> str:
        """Return CEL that tests whether ``variable``, from ``env``, chooses another network."""
        values = json.dumps({name: list(several) for name, several in self.values.items()})
        is_set = f"has({variable}.value) && {variable}.name in {values}"
        return (
            f"({variable}.name in {cel.strings(tuple(SWITCHES))}"
            f" && !({is_set} && {variable}.value in {values}[{variable}.name]))"
        )

    def unseen(self, container: str) -> str:
        """Return CEL that tests for variables from elsewhere that could choose another network.

        ``env`` wins over ``envFrom`` (core/v1, Container.envFrom), so what the fabric sets is safe
        if the container sets it itself.
        """
        own = f"has({container}.env) && {container}.env.exists(e, e.name == n)"
        return (
            f"(has({container}.envFrom) && size({container}.envFrom) > 0"
            f" && {takes(container, self.devices, self.prefixes)}"
            f" && !{cel.strings(tuple(self.values))}.all(n, {own}))"
        )


def words(container: str) -> str:
    """Return a container's command and arguments as one text."""
    return (
        f"((has({container}.command) ? {container}.command : [])"
        f" + (has({container}.args) ? {container}.args : [])).join(' ')"
    )


def containers(pod: str) -> str:
    """Return all containers of a pod, a template or a patch of one; a CEL expression."""
    spec = f"{pod}.spec"
    return (
        f"(!has({spec}) ? [] : (has({spec}.containers) ? dyn({spec}.containers) : [])"
        f" + (has({spec}.initContainers) ? dyn({spec}.initContainers) : []))"
    )


def leaves(pod: str) -> str:
    """Return whether a pod says that its job wants no fabric."""
    label = cel.string(FABRIC_LABEL)
    labels = f"{pod}.metadata.labels"
    return (
        f"(has({pod}.metadata) && has({labels}) && {label} in {labels}"
        f" && {labels}[{label}] == 'none')"
    )


def network_rules(pod: str, chosen: Chosen) -> list[tuple[str, str]]:
    """Return (expression, message) of what would take a pod, or a patch of one, off its network."""
    names = ", ".join(SWITCHES)
    fabric = ", ".join(f"{name}={'|'.join(v)}" for name, v in chosen.values.items()) or "none"
    out = f"or, if the job wants no fabric, label its pods {FABRIC_LABEL}=none"
    every = containers(pod)
    return [
        (
            f"{leaves(pod)} || {every}.all(c, !has(c.env) || !c.env.exists(e, {chosen.off('e')}))",
            "a container's env chooses another network than the fabric's, and the job would leave "
            f"it and still complete: remove it; the variables are {names}; the fabric sets "
            f"{fabric}; {out}",
        ),
        (
            f"{leaves(pod)} || {every}.all(c, !{words('c')}.matches({chosen.in_words}))",
            "a container's command or args set a variable that chooses another network than the "
            f"fabric's, or take one away that the fabric sets ({fabric}): remove it; the variables "
            f"are {names}; {out}",
        ),
        (
            f"{leaves(pod)} || {every}.all(c, !has(c.volumeMounts)"
            f" || c.volumeMounts.all(m, !m.mountPath.matches({cel.string(_NCCL_CONFS)})"
            f" || (m.mountPath == {cel.string(NCCL_CONF)}"
            f" && m.name == {cel.string(PROFILE_VOLUME)})))",
            "a container mounts a file of NCCL's variables, which nobody reads here and which may "
            f"take the job off its network: leave {NCCL_CONF} to the stack's runtimes, and set "
            f"what the job needs in env; {out}",
        ),
        (
            f"{leaves(pod)} || {every}.all(c, !{chosen.unseen('c')})",
            "what a container's envFrom brings cannot be seen here and may take the job off its "
            f"network: set in env, which wins over it, what the fabric sets ({fabric}), or name "
            f"single keys by env[].valueFrom; {out}",
        ),
    ]


def variables_policy(chosen: Chosen) -> dict[str, Any]:
    """Return the policy that no pod of a training namespace chooses another network."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({"": ("pods",)}, "CREATE"),
        "validations": cel.validations(network_rules("object", chosen)),
    }


def _ray_rule(chosen: Chosen) -> dict[str, str]:
    """Return the rule for the environment of a RayJob's processes (ray.io/v1, RayJobSpec).

    Ray sets it in each worker, over the pod's own.
    """
    spec = "dyn(object).spec"
    start = f"(has({spec}.entrypoint) ? {spec}.entrypoint : '')"
    given = f"(has({spec}.runtimeEnvYAML) ? {spec}.runtimeEnvYAML : '')"
    return {
        "expression": f"dyn(object).kind != 'RayJob' || variables.templates.all(p, {leaves('p')})"
        f" || !{start}.matches({chosen.in_words}) && !{given}.matches({cel.string(in_mapping())})",
        "message": "spec.entrypoint or spec.runtimeEnvYAML sets a variable that chooses another "
        f"network than the fabric's: remove it; the variables are {', '.join(SWITCHES)}; or, if "
        f"the job wants no fabric, label its pods {FABRIC_LABEL}=none",
        "reason": "Forbidden",
    }


def template_policy(fabric: FabricDemand, chosen: Chosen) -> dict[str, Any]:
    """Return the policy that refuses a job at its creation if its pods would be refused.

    Controllers may still update objects that are older than the guard.
    """
    rules = [
        *network_rules("p", chosen),
        *fabric_rules("p", fabric, "variables.gang", "a job"),
        *reach_rules("p", fabric),
    ]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(KINDS | SETS, "CREATE", "UPDATE"),
        "variables": [
            {"name": "templates", "expression": templates("object")},
            {
                "name": "before",
                "expression": f"request.operation == 'UPDATE' ? ({templates('oldObject')}) : []",
            },
            {
                # Whose pods carry the marks of a gang (pod_guards.GANG_LABELS).
                "name": "gang",
                "expression": "dyn(object).kind != 'Job'"
                " || has(dyn(object).spec.completionMode)"
                " && dyn(object).spec.completionMode == 'Indexed'",
            },
        ],
        "validations": [
            *cel.validations(
                (
                    f"variables.templates.all(p, {rule}) || variables.before.exists(p, !({rule}))",
                    message,
                )
                for rule, message in rules
            ),
            _ray_rule(chosen),
        ],
    }


# Of an object: a job of a managed kind made it, and is asked in its place.
_OWNED = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,"
    f" has(o.controller) && o.controller && o.kind in {cel.strings(MANAGED)})"
)
_NOT_PART = {"name": "not-part-of-a-job", "expression": f"!({_OWNED})"}


def queued_policy(queues: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the policy that every job names a queue of its namespace, or it would wait unnoticed.

    ``queues`` is namespace -> LocalQueues. Kueue gives a job without a queue the namespace's
    ``default``, if there is one, before this check. What another job made is charged with it.
    """
    return _queued(queues, KINDS, "the job")


def queued_pod_policy(queues: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the same policy for pods without a job and LeaderWorkerSets, if Kueue admits pods."""
    policy = _queued(queues, SETS | {"": ("pods",)}, "what no job owns here")
    annotations = "object.metadata.annotations"
    policy["matchConditions"].append(
        {
            "name": "not-of-a-set-with-a-queue",
            "expression": f"!(has({annotations}) && {cel.string(_PARENT)} in {annotations})",
        }
    )
    return policy


def _queued(
    queues: Mapping[str, Sequence[str]], kinds: Mapping[str, Iterable[str]], what: str
) -> dict[str, Any]:
    """Return the policy that objects of ``kinds``, API group -> resources, name a queue."""
    queue = f"{{0}}.metadata.?labels[?{cel.string(QUEUE_LABEL)}].orValue('')"
    known = ", ".join(f"{namespace}: {', '.join(names)}" for namespace, names in queues.items())
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(kinds, "CREATE", "UPDATE"),
        "matchConditions": [
            _NOT_PART,
            {
                "name": "new-or-in-another-queue",
                "expression": "request.operation == 'CREATE'"
                f" || {queue.format('object')} != {queue.format('oldObject')}",
            },
        ],
        "variables": [{"name": "queue", "expression": queue.format("object")}],
        "validations": queue_rules(
            queues,
            what,
            known,
            place=f"the label {QUEUE_LABEL}",
            without="would stay suspended for ever",
        ),
    }


def spec_queue_policy(
    queues: Mapping[str, Sequence[str]], resources: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the policy that objects with a ``spec.queue`` name a queue of their namespace.

    ``resources`` is API group -> plurals.
    """
    known = ", ".join(f"{namespace}: {', '.join(names)}" for namespace, names in queues.items())
    queue = "has(object.spec.queue) ? object.spec.queue : ''"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(resources, "CREATE", "UPDATE"),
        "variables": [{"name": "queue", "expression": queue}],
        "validations": queue_rules(
            queues, "the job", known, place="spec.queue", without="would be charged to no team"
        ),
    }


def unadmitted_policy(title: str, ways_in: str) -> dict[str, Any]:
    """Return the policy against jobs whose pods the scheduler ``title`` would place singly."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training(KINDS, "CREATE"),
        "matchConditions": [_NOT_PART],
        "validations": [
            {
                "expression": "false",
                "message": f"{title} places gangs here, and would place the pods of this kind of "
                f"job one by one: submit {ways_in}",
                "reason": "Forbidden",
            }
        ],
    }


def queue_rules(
    queues: Mapping[str, Sequence[str]], what: str, known: str, *, place: str, without: str
) -> list[dict[str, str]]:
    """Return rules on ``variables.queue`` of an object in its namespace.

    ``place`` is where the object says it, ``without`` what becomes of one that does not.
    """
    listed = json.dumps({namespace: list(names) for namespace, names in queues.items()})
    namespace = "object.metadata.namespace"
    return [
        {
            "expression": "variables.queue != ''",
            "message": f"{what} has no queue, and {without}: set {place} to one of: {known}",
        },
        {
            # A namespace that this stack does not know may have queues made by hand.
            "expression": f"variables.queue == '' || !({namespace} in {listed})"
            f" || variables.queue in {listed}[{namespace}]",
            "messageExpression": f"'{place} names the queue ' + variables.queue + ', which "
            "namespace '"
            f" + {namespace} + ' has not, so {what} would wait for ever: name one of: '"
            f" + {listed}[{namespace}].join(', ')",
            "message": f"{place} names a queue that the namespace has not: name one of: {known}",
        },
    ]
