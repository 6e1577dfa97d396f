"""Guards: what the API server itself refuses, from any user and any tool.

ValidatingAdmissionPolicies, so no pod of ours stands in the way. Every message says what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from railhead.base.names import (
    FABRIC_LABEL,
    LAUNCHER_LABEL,
    PUBLISHED_LABEL,
    TRAINER_API,
    TRAINING_LABEL,
    UNCHARGED_LABEL,
)
from railhead.catalog.switches import SWITCHES
from railhead.catalog.versions import COMBINATIONS
from railhead.model.cluster import Cluster
from railhead.platform.registry import PLATFORMS
from railhead.resolve import cel
from railhead.resolve.author_guards import author_policies
from railhead.resolve.data_guards import data_set_policies
from railhead.resolve.fences import fence_policies
from railhead.resolve.job_guards import (
    Chosen,
    leaves,
    network_rules,
    patched,
    queue_rules,
    template_policy,
    variables_policy,
)
from railhead.resolve.pod_guards import (
    claims,
    demand,
    joins,
    pod_policies,
    reach_rules,
    takes,
)
from railhead.resolve.runtimes import ResolvedRuntime
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.schedulers.base import Named
from railhead.resolve.wiring import chosen

_TRAINJOBS: dict[str, Any] = {
    "resourceRules": [
        {
            "apiGroups": ["trainer.kubeflow.org"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["trainjobs"],
        }
    ]
}

# Controllers update jobs too (suspension, placement, finalizers): a job that was there before the
# guard must still be finishable, so only what the guard looks at wakes it up again.
_TOUCHED = {
    "name": "what-the-guard-looks-at-changed",
    "expression": (
        "request.operation == 'CREATE'"
        " || (has(object.spec.trainer) ? dyn(object.spec.trainer) : dyn(null))"
        " != (has(oldObject.spec.trainer) ? dyn(oldObject.spec.trainer) : dyn(null))"
        " || (has(object.metadata.labels) ? dyn(object.metadata.labels) : dyn(null))"
        " != (has(oldObject.metadata.labels) ? dyn(oldObject.metadata.labels) : dyn(null))"
    ),
}


def _touched(field: str | None) -> dict[str, str]:
    """Return the same condition, extended by ``field`` of a job, if that holds its queue."""
    if field is None:
        return _TOUCHED
    value = "(has({0}." + field + ") ? dyn({0}." + field + ") : dyn(null))"
    changed = f"{value.format('object')} != {value.format('oldObject')}"
    return _TOUCHED | {"expression": f"{_TOUCHED['expression']} || {changed}"}


# A TrainJob's own variables and resources, whether it has any or not; name -> CEL.
_TRAINER_VARIABLES = {
    "env": "has(object.spec.trainer) && has(object.spec.trainer.env)"
    " ? object.spec.trainer.env : []",
    "resources": "has(object.spec.trainer) && has(object.spec.trainer.resourcesPerNode)"
    " ? dyn(object.spec.trainer.resourcesPerNode) : dyn({})",
    "limits": "has(variables.resources.limits) ? dyn(variables.resources.limits) : dyn({})",
    "requests": "has(variables.resources.requests) ? dyn(variables.resources.requests) : dyn({})",
}

# The words that a TrainJob starts, and whether it starts its processes itself; name -> CEL.
_LAUNCHER_VARIABLES = {
    "words": "has(object.spec.trainer)"
    " ? ((has(object.spec.trainer.command) ? object.spec.trainer.command : [])"
    " + (has(object.spec.trainer.args) ? object.spec.trainer.args : [])).join(' ') : ''",
    "own": f"{cel.string(LAUNCHER_LABEL)} in variables.labels"
    f" && variables.labels[{cel.string(LAUNCHER_LABEL)}] == 'own'",
}

_OFF = ", by which the job would leave its fabric and still complete"

# Devices of any plugin: GPUs, their MIG parts, virtual functions, shares of HCAs.
_DEVICE_PREFIXES = ("nvidia.com/", "amd.com/", "rdma/")


@dataclass(frozen=True, kw_only=True)
class Guard:
    """A ValidatingAdmissionPolicy's spec, and what its binding has beside the policy's name.

    ``bindings`` are several in the one's place, each with a suffix to the policy's name.
    """

    policy: Mapping[str, Any]
    binding: Mapping[str, Any] = field(default_factory=dict)
    bindings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def bound(self, name: str) -> dict[str, dict[str, Any]]:
        """Return name -> spec of each binding of the policy called ``name``."""
        return {
            f"{name}-{suffix}" if suffix else name: {
                "policyName": name,
                "validationActions": ["Deny"],
                **binding,
            }
            for suffix, binding in (self.bindings or {"": self.binding}).items()
        }


def guards(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> dict[str, Guard]:
    """Return name -> guard of the stack."""
    fabric, settings = demand(cluster), network(cluster, runtimes)
    policies = {
        "railhead-train-job": train_job_policy(cluster, runtimes),
        "railhead-train-job-pods": train_job_pods_policy(cluster, settings),
        "railhead-device-pod": device_pod_policy(cluster, runtimes),
        **pod_policies(fabric),
        "railhead-network-variables": variables_policy(settings),
        "railhead-job-template": template_policy(fabric, settings),
        **scheduler_of(cluster).job_policies(cluster, queues_of(cluster)),
        **fence_policies(cluster),
        **author_policies(cluster, fabric),
        **data_set_policies(cluster),
    }
    named = {name: Guard(policy=policy) for name, policy in policies.items()}
    if PLATFORMS[cluster.platform.kind].owns_cluster:
        # An existing cluster may have other uses of GPUs.
        named["railhead-uncharged-pod"] = Guard(policy=uncharged_pod_policy(cluster, runtimes))
    if COMBINATIONS[cluster.versions].gang_charge == "template":
        named["railhead-published-runtime"] = Guard(policy=published_runtime_policy(runtimes))
        published = {"matchLabels": {PUBLISHED_LABEL: "true"}}
        named["railhead-gang-charge"] = Guard(
            policy=gang_charge_policy(runtimes),
            binding={"paramRef": {"selector": published, "parameterNotFoundAction": "Deny"}},
        )
    return named


def network(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> Chosen:
    """Return what the stack's fabric sets of the variables that choose a network."""
    return Chosen(
        values=chosen(cluster), devices=tuple(_devices(runtimes)), prefixes=_DEVICE_PREFIXES
    )


def queues_of(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Return namespace -> queues that its jobs may name."""
    names = scheduler_of(cluster).names
    return {namespace: names(cluster, namespace) for namespace in cluster.training_namespaces}


def _devices(runtimes: Sequence[ResolvedRuntime]) -> list[str]:
    """Return every device resource that a runtime of the stack requests."""
    return _once(name for runtime in runtimes for name in runtime.devices)


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _training(job: str, runtimes: Sequence[ResolvedRuntime]) -> str:
    """Return whether a replicated job is one whose pods train."""
    names = _once(runtime.framework.replicated_job for runtime in runtimes)
    return " || ".join(f"{job}.name == '{name}'" for name in names)


def train_job_policy(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> dict[str, Any]:
    """Return the policy that a TrainJob has a queue, a size, and its runtime's devices."""
    settings, named = network(cluster, runtimes), scheduler_of(cluster).named(cluster)
    variables = {
        "labels": "has(object.metadata.labels) ? object.metadata.labels : {}",
        "queue": named.expression,
        **_size_variables(runtimes),
        **_TRAINER_VARIABLES,
        "switched": f"variables.env.filter(e, {settings.off('e')}).map(e, e.name)",
        "leaves": patched(cluster, leaves("p")),
        **_LAUNCHER_VARIABLES,
        # Empty ones, too (Trainer v2.1.0, pkg/runtime/framework/plugins/jobset/builder.go).
        "replaced": "has(variables.resources.limits) || has(variables.resources.requests)",
    }
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _TRAINJOBS,
        "matchConditions": [_touched(named.field)],
        "variables": [{"name": name, "expression": text} for name, text in variables.items()],
        "validations": [
            _namespace_rule(cluster),
            *_queue_rules(cluster, named),
            *_size_rules(runtimes),
            _rendezvous_rule(runtimes),
            _resources_rule(cluster, runtimes),
            *_network_rules(cluster, settings),
            *_launcher_rules(runtimes),
        ],
    }


def _namespace_rule(cluster: Cluster) -> dict[str, str]:
    """Return the rule that a TrainJob is in a training namespace."""
    return {
        "expression": "has(namespaceObject.metadata.labels)"
        f" && '{TRAINING_LABEL}' in namespaceObject.metadata.labels"
        f" && namespaceObject.metadata.labels['{TRAINING_LABEL}'] == 'true'",
        "message": "no queue charges this namespace: submit the TrainJob in one of the "
        f"training namespaces: {', '.join(cluster.training_namespaces)}",
        "reason": "Forbidden",
    }


def _queue_rules(cluster: Cluster, named: Named) -> list[dict[str, str]]:
    """Return the rules that a TrainJob names a queue of its namespace."""
    scheduler = scheduler_of(cluster)
    queues = ", ".join(sorted({scheduler.queue(queue) for queue in cluster.local_queues}))
    return queue_rules(
        queues_of(cluster), "the TrainJob", queues, place=named.place, without=named.without
    )


def _size_variables(runtimes: Sequence[ResolvedRuntime]) -> dict[str, str]:
    """Return a TrainJob's number of nodes, and whether it may be its number; name -> CEL."""
    return {
        # Without a number Trainer takes the runtime's, and so does Kueue.
        "sized": "has(object.spec.trainer)"
        " && (!has(object.spec.trainer.numNodes) || object.spec.trainer.numNodes >= 1)",
        "nodes": _nodes("object", runtimes),
    }


def _size_rules(runtimes: Sequence[ResolvedRuntime]) -> list[dict[str, str]]:
    """Return the rules that a TrainJob has a number of nodes, that stays, and is large enough."""
    return [
        {
            "expression": "variables.sized",
            "message": "spec.trainer is missing: add it, with a command and numNodes, the "
            "runtime's own number if it is left out; without spec.trainer Trainer wires no "
            "rendezvous and every pod would train alone in a world of one; numNodes is 1 or "
            "more",
        },
        {
            "expression": "request.operation == 'CREATE' || !has(oldObject.spec.trainer)"
            f" || (variables.sized && variables.nodes == ({_nodes('oldObject', runtimes)}))",
            "message": "spec.trainer.numNodes is fixed once the job is there: its gang was "
            "charged and its pods were made for it; delete the TrainJob and submit another",
        },
        *_fewest_rule(runtimes),
    ]


def _rendezvous_rule(runtimes: Sequence[ResolvedRuntime]) -> dict[str, str]:
    """Return the rule that no TrainJob sets its rendezvous: its pods would make other worlds."""
    names = _once(
        name
        for runtime in runtimes
        for name in runtime.framework.rendezvous
        if name not in runtime.framework.set_by_job
    )
    return {
        "expression": f"!variables.env.exists(e, e.name in {cel.strings(names)})",
        "message": "spec.trainer.env sets the rendezvous by hand "
        f"({', '.join(names)}): remove it and set spec.trainer.numNodes and "
        "spec.trainer.numProcPerNode, from which the controllers set it",
    }


def _nodes(job: str, runtimes: Sequence[ResolvedRuntime]) -> str:
    """Return a TrainJob's number of nodes: its own, else its runtime's, else 1; a CEL expression.

    Trainer v2.1.0 and v2.3.0, pkg/runtime/core/trainingruntime.go; Kueue v0.16.2 asks Trainer's
    own code for it (pkg/controller/jobs/trainjob).
    """
    sizes = json.dumps({runtime.name: runtime.config.nodes for runtime in runtimes})
    name, trainer = f"{job}.spec.runtimeRef.name", f"{job}.spec.trainer"
    return (
        f"has({trainer}) && has({trainer}.numNodes) ? int({trainer}.numNodes)"
        f" : ({name} in {sizes} ? {sizes}[{name}] : 1)"
    )


def _fewest_rule(runtimes: Sequence[ResolvedRuntime]) -> list[dict[str, str]]:
    """Return the rule that no job asks for fewer nodes than its framework's controller makes.

    Trainer gives a job of MPI a launcher and ``max(numNodes - 1, 1)`` nodes beside it (v2.1.0,
    pkg/runtime/framework/plugins/mpi/mpi.go), so that a job of one trains, and is charged, as two.
    """
    fewest = {
        runtime.name: runtime.framework.fewest_nodes
        for runtime in runtimes
        if runtime.framework.fewest_nodes > 1
    }
    if not fewest:
        return []
    sizes, name = json.dumps(fewest), "object.spec.runtimeRef.name"
    return [
        {
            "expression": f"request.operation != 'CREATE' || !({name} in {sizes})"
            f" || variables.nodes >= {sizes}[{name}]",
            "message": "spec.trainer.numNodes is too small: jobs of the runtimes "
            f"{', '.join(fewest)} get a launcher and at least one node beside it, so ask for "
            f"{max(fewest.values())} or more, or name another runtime",
        }
    ]


def _network_rules(cluster: Cluster, said: Chosen) -> list[dict[str, str]]:
    """Return the rules by which a TrainJob's pods keep their network and are not refused later."""
    names = ", ".join(SWITCHES)
    fabric = ", ".join(f"{name}={'|'.join(v)}" for name, v in said.values.items()) or "none"
    free = f"if the job wants no fabric, label its pods {FABRIC_LABEL}=none in spec." + (
        "podTemplateOverrides[].metadata.labels"
        if COMBINATIONS[cluster.versions].placement_field == "podTemplateOverrides"
        else "runtimePatches[] at template.spec.replicatedJobs[].template.spec.template.metadata"
    )
    return [
        {
            "expression": "variables.leaves || size(variables.switched) == 0",
            "messageExpression": "'spec.trainer.env sets ' + variables.switched.join(', ')"
            f" + {cel.string(_OFF + '; the fabric sets ' + fabric + ': remove it; ' + free)}",
            "message": f"spec.trainer.env sets one of {names}{_OFF}: remove it; {free}",
            "reason": "Forbidden",
        },
        {
            "expression": f"variables.leaves || !variables.words.matches({said.in_words})",
            "message": f"spec.trainer.command or args set one of {names}, or take away what the "
            f"fabric sets ({fabric}){_OFF}: remove it; {free}",
            "reason": "Forbidden",
        },
    ]


def train_job_pods_policy(cluster: Cluster, said: Chosen) -> dict[str, Any]:
    """Return the policy that a TrainJob's patches make no pod that would be refused.

    Trainer accepts such a patch as long as the job is suspended, so every update is checked.
    """
    fabric, field = demand(cluster), COMBINATIONS[cluster.versions].placement_field
    joined = joins("p", fabric)
    rules = [
        # A patch of Trainer's has no envFrom.
        *network_rules("p", said)[:3],
        *reach_rules("p", fabric),
        *([joined] if joined else []),
    ]
    patches = "(has({0}.spec." + field + ") ? dyn({0}.spec." + field + ") : dyn(null))"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _TRAINJOBS,
        "matchConditions": [
            {
                "name": "patches-of-pods-changed",
                "expression": "request.operation == 'CREATE'"
                f" || {patches.format('object')} != {patches.format('oldObject')}",
            }
        ],
        "validations": cel.validations(
            (f"!({patched(cluster, f'!({rule})')})", f"spec.{field}: {message}")
            for rule, message in rules
        ),
    }


def _launcher_rules(runtimes: Sequence[ResolvedRuntime]) -> list[dict[str, str]]:
    """Return the rules that a job of several nodes starts what makes one world of them.

    A job without a command starts what its image says, which cannot be seen.
    """
    rules = []
    for framework in {runtime.framework.name: runtime.framework for runtime in runtimes}.values():
        if framework.launches is None:
            continue
        names = [r.name for r in runtimes if r.framework.name == framework.name]
        several = f"variables.nodes > 1 && object.spec.runtimeRef.name in {cel.strings(names)}"
        alone = (
            f" && !variables.words.matches({cel.string(framework.alone)})"
            if framework.alone
            else ""
        )
        rules.append(
            {
                "expression": f"!({several}) || variables.own"
                f" || variables.words.matches({cel.string(framework.launches)}){alone}",
                "messageExpression": "'spec.trainer.command ' + (variables.words == '' ? 'is "
                "missing, and what the image starts cannot be seen' : 'starts no ' + "
                f"{cel.string(framework.launcher)} + ', or one that makes a world of one node')"
                " + ': each of the ' + string(variables.nodes) + ' nodes would train alone, in a "
                f"world of its own, and the job complete: begin it with {framework.launcher} and "
                "leave size and addresses to the runtime; if it starts its processes in a way that "
                f"cannot be seen here, label the TrainJob {LAUNCHER_LABEL}=own; if each node is to "
                "work alone, set RAILHEAD_LAUNCHER=none in spec.trainer.env too'",
                "message": f"spec.trainer.command starts no {framework.launcher}, and each node "
                f"would train alone: begin it with one, or label the TrainJob {LAUNCHER_LABEL}=own",
            }
        )
    return rules


def _resources_rule(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> dict[str, str]:
    """Return the rule for the resources that a job may set."""
    if any(runtime.wired.claims for runtime in runtimes):
        return {
            "expression": "!variables.replaced",
            "message": "spec.trainer.resourcesPerNode replaces the runtime's resources as a whole, "
            "and with them its claims: leave it out, or name a runtime of another size",
        }
    devices, on_cpus = _devices(runtimes), scheduler_of(cluster).on_cpus
    gpus = _once(runtime.machine.gpu_resource for runtime in runtimes)
    complete = f"list all of them, as limits {', '.join(devices)} and as requests cpu, memory"
    return {
        "expression": "!variables.replaced"
        f" || ({cel.strings(devices)}.all(r, r in variables.limits"
        " && quantity(string(variables.limits[r])).isGreaterThan(quantity('0')))"
        " && ['cpu', 'memory'].all(r, r in variables.requests || r in variables.limits))",
        "messageExpression": "'spec.trainer.resourcesPerNode replaces the runtime\\'s resources as "
        f"a whole' + (!{cel.strings(gpus)}.exists(r, r in variables.limits) ? "
        f"', and asks for no GPUs: the runtimes of this stack place pods on machines with GPUs and "
        f"charge them; leave it out, or {complete}{on_cpus}' : "
        f"!{cel.strings(devices)}.all(r, r in variables.limits) ? "
        f"', and leaves out the fabric\\'s device: NCCL is held to the fabric, also on one node, "
        f"and would not start, or fall back to TCP: leave it out, or {complete}' : "
        f"': leave it out, or {complete}; what is not requested is not charged')",
        "message": "spec.trainer.resourcesPerNode replaces the runtime's resources as a whole: "
        f"leave it out, or {complete}; a pod without its device falls back to TCP, and what is not "
        "requested is not charged",
    }


def device_pod_policy(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> dict[str, Any]:
    """Return a pod in a training namespace that takes devices was charged to a queue.

    Kueue holds back Jobs, JobSets and TrainJobs without a queue by itself
    (``manageJobsWithoutQueueName``); this covers bare pods and everything that makes pods and that
    the stack's scheduler does not manage here.
    """
    scheduler = scheduler_of(cluster)
    taken = takes("c", tuple(_devices(runtimes)), _DEVICE_PREFIXES)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({"": ("pods",)}, "CREATE", version="v1"),
        "variables": [
            {
                "name": "containers",
                "expression": "object.spec.containers"
                " + (has(object.spec.initContainers) ? object.spec.initContainers : [])",
            },
            {
                "name": "takesDevices",
                # Whole GPUs, parts of them, NICs, and whatever comes by a claim.
                "expression": f"variables.containers.exists(c, {taken} || {claims('c')})",
            },
            {
                "name": "admitted",
                "expression": scheduler.admitted(cluster),
            },
        ],
        "validations": [
            {
                "expression": "!variables.takesDevices || variables.admitted",
                "message": f"no queue was charged for this pod's devices: submit "
                f"{scheduler.ways_in} with {scheduler.named(cluster).place}"
                f"{scheduler.no_way_in(cluster)}",
                "reason": "Forbidden",
            }
        ],
    }


def uncharged_pod_policy(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> dict[str, Any]:
    """Return the policy that no pod outside the training namespaces takes a GPU.

    No queue would be charged for it, so the queue would give the same GPU to a gang, whose pods
    then wait for it. Exempt are the namespaces of the cluster's own parts, which test GPUs, and
    those that say so by a label.
    """
    combination, scheduler = COMBINATIONS[cluster.versions], scheduler_of(cluster)
    rows = (
        combination.kueue,
        combination.jobset,
        combination.trainer,
        *combination.addons.values(),
    )
    parts = sorted({"kube-system", "railhead-gate", *(row.namespace for row in rows)})
    gpus = _once(runtime.machine.gpu_resource for runtime in runtimes)
    taken = takes("c", tuple(gpus), tuple(f"{gpu.partition('/')[0]}/mig-" for gpu in gpus))
    training = ", ".join(cluster.training_namespaces)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": TRAINING_LABEL, "operator": "NotIn", "values": ["true"]},
                    {"key": UNCHARGED_LABEL, "operator": "NotIn", "values": ["true"]},
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": parts},
                ]
            },
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
        },
        "validations": [
            {
                "expression": "!(dyn(object.spec.containers)"
                " + (has(object.spec.initContainers) ? dyn(object.spec.initContainers) : []))"
                f".exists(c, {taken})",
                "messageExpression": "'no queue is charged for GPUs in namespace ' + "
                f"object.metadata.namespace + ', and {scheduler.title} would promise them to a "
                f"gang as well: submit {scheduler.ways_in} with {scheduler.named(cluster).place} "
                f"in one of: {training}; if the "
                "namespace is to have GPUs beside the queues, take them out of the pool and label "
                f"it {UNCHARGED_LABEL}=true'",
                "message": "no queue is charged for GPUs outside of the training namespaces: "
                f"{training}",
                "reason": "Forbidden",
            }
        ],
    }


def published_runtime_policy(runtimes: Sequence[ResolvedRuntime]) -> dict[str, Any]:
    """Return the policy for Kueues that charge by template: only this stack's runtimes."""
    names = [runtime.name for runtime in runtimes]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _TRAINJOBS,
        "matchConditions": [_TOUCHED],
        "validations": [
            {
                "expression": "(!has(object.spec.runtimeRef.kind)"
                " || object.spec.runtimeRef.kind == 'ClusterTrainingRuntime')"
                f" && object.spec.runtimeRef.name in {cel.strings(names)}",
                "message": "this cluster's Kueue charges a gang by its runtime's template, and "
                "that of any other runtime is not known to say the gang's size: set "
                f"spec.runtimeRef to a ClusterTrainingRuntime of: {', '.join(names)}",
            }
        ],
    }


def gang_charge_policy(runtimes: Sequence[ResolvedRuntime]) -> dict[str, Any]:
    """Return the policy for Kueues that charge by template: a job requests what is charged.

    The parameter is each published ClusterTrainingRuntime as it is in the cluster, so an edited
    runtime counts as it is now.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _TRAINJOBS,
        "matchConditions": [_TOUCHED],
        "paramKind": {"apiVersion": TRAINER_API, "kind": "ClusterTrainingRuntime"},
        "variables": [
            {
                "name": "charged",
                "expression": "params.spec.template.spec.replicatedJobs"
                f".filter(j, {_training('j', runtimes)})"
                ".map(j, has(j.template.spec.parallelism) ? int(j.template.spec.parallelism) : 1)",
            },
            {
                "name": "asked",
                "expression": "has(object.spec.trainer) && has(object.spec.trainer.numNodes)"
                " ? int(object.spec.trainer.numNodes)"
                " : (size(variables.charged) == 1 ? variables.charged[0] : 0)",
            },
        ],
        "validations": [
            {
                "expression": "object.spec.runtimeRef.name != params.metadata.name"
                " || (size(variables.charged) == 1 && variables.asked == variables.charged[0])",
                "messageExpression": "'spec.trainer.numNodes is ' + string(variables.asked)"
                " + ', but Kueue charges every job of runtime ' + params.metadata.name + ' '"
                " + string(size(variables.charged) == 1 ? variables.charged[0] : 0)"
                " + ' nodes and the rest of the gang would be placed unpaid, or half: ask for"
                " that many, or add a runtime with `nodes` of your size to the stack'",
                "message": "spec.trainer.numNodes differs from the node count that Kueue charges",
            }
        ],
    }
