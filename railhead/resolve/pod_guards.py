"""Policies by which the API server refuses pods in training namespaces, whatever made them.

Two rules, each a ValidatingAdmissionPolicy: a pod of a job of several nodes has the fabric, or it
does not start; and no pod reaches into its node. They look at pods, because every job controller
(JobSet, Job, MPIJob, PyTorchJob, and whatever comes next) ends in pods; a third looks at Jobs, for
gangs that no single pod of them shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from railhead.base.names import FABRIC_LABEL, SINGLE_NODE_LABEL
from railhead.fabric.mode import GKE_INTERFACES, NETWORKS_ANNOTATION
from railhead.framework import FRAMEWORKS
from railhead.framework.base import Framework
from railhead.machines import MACHINES
from railhead.model.cluster import Cluster
from railhead.model.pod_security import BASELINE_CAPABILITIES
from railhead.resolve import cel
from railhead.resolve.daemons import daemon
from railhead.resolve.rules import Rule, on, rules
from railhead.resolve.wiring import claim_of, share, wiring

# Labels by which controllers mark the pods of one job among several.
GANG_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "jobset.sigs.k8s.io/jobset-name": "JobSet, and so Trainer",
        "batch.kubernetes.io/job-completion-index": "Indexed Job",
        "training.kubeflow.org/job-name": "MPIJob, PyTorchJob and the training operator's others",
        "kueue.x-k8s.io/pod-group-name": "a pod group of Kueue",
        "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
        "ray.io/cluster": "RayCluster and RayJob",
        "volcano.sh/job-name": "Volcano's Job",
        "apps.kubernetes.io/pod-index": "StatefulSet",
    }
)

# What the baseline Pod Security Standard lets a container add; all of it is a runtime's default.
# And what debuggers need (py-spy on a hanging rank, `kubectl debug --profile=general`): without the
# node's processes, which hostPID would bring, it reaches the pod's own only.
HARMLESS_CAPABILITIES = tuple(sorted(BASELINE_CAPABILITIES | {"SYS_PTRACE"}))


@dataclass(frozen=True, kw_only=True)
class MountedPath:
    """A directory of the node that pods may have; ``container`` None is any of the pod's."""

    path: str
    container: str | None
    read_only: bool


@dataclass(frozen=True, kw_only=True)
class FabricDemand:
    """The requirements of a fabric on a pod of a job of several nodes, and what it allows.

    Args:
        title: the fabric and its mode, for messages.
        gpus: resources that are GPUs.
        devices: extended resources that each container with GPUs must ask for.
        attachment: how networks come: an annotation of Multus or of GKE, a claim, or not at all.
        networks: names that the annotation or the claim must contain.
        annotations: what the annotation is in full, for messages.
        capabilities: capabilities that containers may add to the baseline.
        host_network: why pods must be in the node's network namespace, or None.
        host_paths: directories of the node that they may mount.
        runtimes: runtimes of the stack, for messages.
        pod_groups: whether Kueue admits pods that no job owns.
    """

    title: str
    gpus: tuple[str, ...]
    devices: tuple[str, ...]
    attachment: Literal["multus", "gke", "claim", "none"]
    networks: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    host_network: str | None = None
    host_paths: tuple[MountedPath, ...] = ()
    runtimes: tuple[str, ...] = ()
    pod_groups: bool = False


def demand(cluster: Cluster) -> FabricDemand:
    """Return what the stack's fabric requires of pods, from the wiring that its runtimes carry."""
    wired = wiring(cluster)
    sidecar = daemon(wired)
    added = sidecar.container["securityContext"]["capabilities"]["add"] if sidecar else []
    claims = _claims(cluster)
    return FabricDemand(
        title=f"{cluster.fabric.kind} in mode {cluster.fabric.mode}",
        gpus=tuple(dict.fromkeys(MACHINES[p.instance_type].gpu_resource for p in cluster.pools)),
        devices=tuple(wired.devices),
        attachment="claim" if claims else cluster.fabric.attachment,
        networks=claims or tuple(dict.fromkeys(rail.network for rail in wired.rails)),
        annotations=wired.annotations,
        capabilities=(*wired.capabilities, *added),
        host_network=cluster.fabric.node_network,
        host_paths=tuple(
            MountedPath(
                path=path.host,
                container=None if path.container == "trainer" else path.container,
                read_only=path.read_only,
            )
            for path in wired.host_paths
        ),
        runtimes=tuple(runtime.name for runtime in cluster.runtimes),
        pod_groups=cluster.pod_groups,
    )


def _claims(cluster: Cluster) -> tuple[str, ...]:
    """Return every claim template of the stack: one for each number of NICs that a pod may get."""
    names = {
        claim_of(cluster, share(machine, gpus))
        for machine in (MACHINES[pool.instance_type] for pool in cluster.pools)
        for gpus in range(1, machine.gpus + 1)
    }
    return tuple(sorted(name for name in names if name is not None))


def _has(resource: str, container: str = "c") -> str:
    """Return whether a container's limits hold any of a resource; ``resource`` is CEL."""
    limits = f"{container}.resources.limits"
    return (
        f"(has({container}.resources) && has({limits}) && {resource} in {limits}"
        f" && quantity(string({limits}[{resource}])).isGreaterThan(quantity('0')))"
    )


# Parts of a GPU, one resource a profile.
MIG = "nvidia.com/mig-"
# Controllers of several pods that Kueue admits by themselves, and those that it sees by its pod
# family alone, which a stack leaves out unless it says `pod_groups`, or not at all.
WAYS_IN = "a TrainJob, a JobSet, a Job, an MPIJob, a PyTorchJob, a RayJob or a RayCluster"
NO_WAY_IN = "pods of a LeaderWorkerSet, a StatefulSet, a Deployment or Volcano's Job have no way in"
# What closes on a pod that Kueue admits by itself, until it has (pkg/controller/jobs/pod).
ADMISSION_GATE = "kueue.x-k8s.io/admission"


def takes(container: str, resources: tuple[str, ...], prefixes: tuple[str, ...]) -> str:
    """Return whether a container's limits or requests name a resource, or one that begins so."""
    named = " || ".join(
        [f"k in {cel.strings(resources)}" for _ in resources[:1]]
        + [f"k.startsWith({cel.string(prefix)})" for prefix in prefixes]
    )
    parts = [
        f"has({container}.resources.{part}) && {container}.resources.{part}.exists(k, {named})"
        for part in ("limits", "requests")
    ]
    return f"(has({container}.resources) && ({' || '.join(parts)}))"


def claims(container: str) -> str:
    """Return whether a container takes devices by a claim, which names no resource."""
    return (
        f"(has({container}.resources) && has({container}.resources.claims)"
        f" && size({container}.resources.claims) > 0)"
    )


def network_pattern(network: str, attachment: Literal["multus", "gke"]) -> str:
    """Return a regular expression (RE2) that finds a network in an annotation, and no longer name.

    Multus takes a JSON list or ``namespace/name@interface`` separated by commas; GKE takes JSON.
    """
    name = re.escape(network)
    if attachment == "gke":
        return rf'"network"\s*:\s*"{name}"'
    short = rf"(^|,)\s*([a-z0-9.-]+/)?{name}(@[^,\s]+)?\s*(,|$)"
    return rf'"name"\s*:\s*"{name}"|{short}'


def _size(framework: Framework) -> str:
    """Return CEL that opens an ``exists``: container ``c`` has a variable with its job's nodes."""
    return f"has(c.env) && c.env.exists(e, e.name == '{framework.nodes_variable}' && has(e.value)"


def _one_node(framework: Framework) -> str:
    return f"{_size(framework)} && e.value in {cel.strings(framework.one_node)})"


def _several_nodes(framework: Framework) -> str:
    """Return whether container ``c`` is for several nodes, by its variables or by its command."""
    # The mark of an unwired pod means neither one node nor several.
    unwired = framework.unwired.get(framework.nodes_variable, "")
    others = tuple(dict.fromkeys(("", unwired, *framework.one_node)))
    set_by_variable = f"({_size(framework)} && !(e.value in {cel.strings(others)})))"
    if framework.nodes_argument is None:
        return set_by_variable
    words = "((has(c.command) ? c.command : []) + (has(c.args) ? c.args : [])).join(' ')"
    return f"{set_by_variable} || {words}.matches({cel.string(framework.nodes_argument)})"


def _variables(pod: str, fabric: FabricDemand) -> list[dict[str, str]]:
    """Return the variables of the rules; ``pod`` is the place of the pod, or of a pod template."""
    annotation = cel.string(GKE_INTERFACES if fabric.attachment == "gke" else NETWORKS_ANNOTATION)
    single = cel.string(SINGLE_NODE_LABEL)
    every = " && ".join(_has(cel.string(device)) for device in fabric.devices) or "true"
    gpu = (
        f"({cel.strings(fabric.gpus)}.exists(r, {_has('r')}) || {takes('c', (), (MIG,))}"
        f" || {claims('c')})"
    )
    # Several frameworks share one expression.
    single_node = " || ".join(
        dict.fromkeys(_one_node(framework) for framework in FRAMEWORKS.values())
    )
    many = " || ".join(
        dict.fromkeys(_several_nodes(framework) for framework in FRAMEWORKS.values())
    )
    metadata = f"has({pod}.metadata) && has({pod}.metadata"
    # An init container may train, too.
    started = (
        f"(dyn({pod}.spec.containers)"
        f" + (has({pod}.spec.initContainers) ? dyn({pod}.spec.initContainers) : []))"
    )
    return [
        {
            "name": "labels",
            "expression": f"{metadata}.labels) ? {pod}.metadata.labels : {{}}",
        },
        {
            "name": "networks",
            "expression": f"{metadata}.annotations) && {annotation} in"
            f" {pod}.metadata.annotations ? {pod}.metadata.annotations[{annotation}] : ''",
        },
        {"name": "gpus", "expression": f"{started}.exists(c, {gpu})"},
        {"name": "several", "expression": f"{started}.exists(c, {many})"},
        {
            "name": "leaves",
            "expression": f"{cel.string(FABRIC_LABEL)} in variables.labels"
            f" && variables.labels[{cel.string(FABRIC_LABEL)}] == 'none'",
        },
        {
            "name": "alone",
            "expression": f"!variables.several && ({single} in variables.labels"
            f" && variables.labels[{single}] == 'true'"
            f" || {pod}.spec.containers.exists(c, {single_node}))",
        },
        {
            # A pod that says it is one of several nodes needs the fabric even without GPUs.
            "name": "wired",
            "expression": f"variables.gpus ? {started}.all(c, !{gpu} || ({every}))"
            f" : {started}.exists(c, {every})",
        },
        {"name": "joined", "expression": _joined(pod, fabric)},
    ]


def _joined(pod: str, fabric: FabricDemand) -> str:
    if fabric.attachment == "multus" or fabric.attachment == "gke":
        patterns = [network_pattern(n, fabric.attachment) for n in fabric.networks]
        return (
            " && ".join(f"variables.networks.matches({cel.string(p)})" for p in patterns) or "true"
        )
    if fabric.attachment == "claim":
        templates = cel.strings(fabric.networks)
        return (
            f"has({pod}.spec.resourceClaims) && {pod}.spec.resourceClaims.exists(r,"
            f" has(r.resourceClaimTemplateName) && r.resourceClaimTemplateName in {templates}"
            f" && {pod}.spec.containers.exists(c, has(c.resources) && has(c.resources.claims)"
            " && c.resources.claims.exists(u, u.name == r.name)))"
        )
    return "true"


def _attach(fabric: FabricDemand) -> str:
    """Return how a pod joins the fabric's networks, as an instruction; empty if it need not."""
    if fabric.attachment == "claim":
        return (
            "claim the NICs by spec.resourceClaims with a resourceClaimTemplateName of: "
            f"{', '.join(fabric.networks)}, and name the claim in the container's resources.claims"
        )
    if fabric.annotations:
        return "set the annotation " + ", ".join(f"{k}: {v}" for k, v in fabric.annotations.items())
    return ""


def _messages(fabric: FabricDemand, what: str) -> tuple[str, str]:
    devices = ", ".join(f"{device}: 1" for device in fabric.devices)
    start = f"{what} of several nodes without the fabric ({fabric.title}) would fall back to TCP: "
    others = "" if fabric.pod_groups else f", {NO_WAY_IN}"
    end = (
        f"; a TrainJob with a runtime of the stack ({', '.join(fabric.runtimes)}) has all of it"
        f"{others}. "
        f"If each pod trains by itself, label the pods {SINGLE_NODE_LABEL}=true; if the job wants "
        f"no fabric, {FABRIC_LABEL}=none"
    )
    attach = _attach(fabric)
    # Only the first rule that fails is shown, so its message says all of it.
    also = f", and {attach}" if attach else ""
    return (
        f"{start}add to resources.limits of each container with GPUs {devices}{also}{end}",
        f"{start}{attach}{end}",
    )


def _rules(fabric: FabricDemand, condition: str, what: str) -> list[tuple[str, str]]:
    device_message, network_message = _messages(fabric, what)
    free = f"!({condition}) || variables.alone || variables.leaves"
    return [
        (f"{free} || variables.{variable}", message)
        for needed, variable, message in (
            (fabric.devices, "wired", device_message),
            (fabric.networks, "joined", network_message),
        )
        if needed
    ]


def fabric_rules(pod: str, fabric: FabricDemand, gang: str, what: str) -> list[tuple[str, str]]:
    """Return (expression, message) of what a pod template must have; ``gang`` is CEL."""
    condition = f"variables.several || variables.gpus && {gang}"
    variables = _variables(pod, fabric)
    return [
        (cel.written_out(rule, variables), message)
        for rule, message in _rules(fabric, condition, what)
    ]


def joins(pod: str, fabric: FabricDemand) -> tuple[str, str] | None:
    """Return (expression, message): a patch of a pod that names networks must name all of them."""
    if fabric.attachment not in ("multus", "gke") or not fabric.networks:
        return None
    annotation = cel.string(GKE_INTERFACES if fabric.attachment == "gke" else NETWORKS_ANNOTATION)
    annotations = f"{pod}.metadata.annotations"
    named = f"has({pod}.metadata) && has({annotations}) && {annotation} in {annotations}"
    variables = _variables(pod, fabric)
    return (
        f"!({named}) || {cel.written_out('variables.leaves || variables.joined', variables)}",
        f"a job that takes its pods off the fabric's networks ({fabric.title}) would never run, or "
        f"run over TCP: leave the annotation to the runtime, or {_attach(fabric)}; if the job "
        f"wants no fabric, label its pods {FABRIC_LABEL}=none",
    )


def reach_rules(pod: str, fabric: FabricDemand) -> list[tuple[str, str]]:
    """Return (expression, message) of what no pod template, or patch, may have of its node."""
    spec = f"{pod}.spec"
    containers = (
        f"(has({spec}.containers) ? dyn({spec}.containers) : [])"
        f" + (has({spec}.initContainers) ? dyn({spec}.initContainers) : [])"
    )
    variables = [
        {"name": "containers", "expression": containers},
        {"name": "volumes", "expression": f"has({spec}.volumes) ? dyn({spec}.volumes) : []"},
    ]
    reached = [
        *_container_rules(fabric),
        _volume_rule(fabric, "false"),
        *(
            (
                f"!has({spec}.{field}) || !{spec}.{field}",
                f"spec.{field} gives the pod its node's own: {fix}",
            )
            for field, fix in _host_fields(fabric).items()
        ),
    ]
    return [
        (f"!has({spec}) || {cel.written_out(f'({expression})', variables)}", message)
        for expression, message in reached
    ] + on(pod, _baseline(fabric))


def _baseline(fabric: FabricDemand) -> list[Rule]:
    """Return the rest of the baseline; on the node's network every port is the node's."""
    return [r for r in rules().baseline if r.name != "host-port" or fabric.host_network is None]


def fabric_pod_policy(fabric: FabricDemand) -> dict[str, Any] | None:
    """Return the policy that a pod of a job of several nodes has the fabric's devices and networks.

    None if the fabric requires nothing of pods. That a pod is one of several is read from the
    labels of its creator and from its framework's settings; ``railhead.dev/single-node`` overrides
    that for pods that each train by themselves, such as a sweep's.
    """
    rules = _rules(
        fabric,
        "variables.several || variables.gpus"
        f" && {cel.strings(tuple(GANG_LABELS))}.exists(l, l in variables.labels)",
        "a pod of a job",
    )
    if not rules:
        return None
    annotations = "(has({0}.metadata.annotations) ? dyn({0}.metadata.annotations) : dyn(null))"
    labels = "(has({0}.metadata.labels) ? dyn({0}.metadata.labels) : dyn(null))"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({"": ("pods",)}, "CREATE", "UPDATE", version="v1"),
        "matchConditions": [
            {
                # Controllers write to pods that were there before the guard. What has a node has
                # its networks; before that, its annotations and labels may still be taken away.
                "name": "new-or-changed-before-it-has-a-node",
                "expression": "request.operation == 'CREATE' || (!has(oldObject.spec.nodeName)"
                f" && ({annotations.format('object')} != {annotations.format('oldObject')}"
                f" || {labels.format('object')} != {labels.format('oldObject')}))",
            }
        ],
        "variables": _variables("object", fabric),
        "validations": cel.validations(rules),
    }


def parallel_job_policy(fabric: FabricDemand) -> dict[str, Any] | None:
    """Return a Job whose pods run side by side and take GPUs has the fabric in its template.

    A pod of a Job that is not indexed does not show that it is one of several; the Job does.
    """
    rules = _rules(
        fabric,
        "variables.gpus && has(object.spec.parallelism) && object.spec.parallelism > 1",
        "a Job",
    )
    if not rules:
        return None
    return {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({"batch": ("jobs",)}, "CREATE", "UPDATE", version="v1"),
        "matchConditions": [
            {
                # The template cannot change; what can is how many pods run at once.
                "name": "new-or-wider",
                "expression": "request.operation == 'CREATE' || has(object.spec.parallelism)"
                " && (!has(oldObject.spec.parallelism)"
                " || object.spec.parallelism > oldObject.spec.parallelism)",
            }
        ],
        "variables": _variables("object.spec.template", fabric),
        "validations": cel.validations(rules),
    }


def node_reach_policy(fabric: FabricDemand) -> dict[str, Any]:
    """Return the policy that no pod of a training namespace is privileged or reaches into its node.

    Ephemeral containers, which `kubectl debug` adds to a running pod, fall under the same rules.
    Allowed is what the fabric's mode needs: its directories, its capabilities.
    """
    # An update of a pod itself can add none of these; only what is new counts, so that a
    # pod that is older than the guard can still be debugged.
    added = "request.operation == 'UPDATE'"
    ephemeral = "(has(object.spec.ephemeralContainers) ? dyn(object.spec.ephemeralContainers) : [])"
    own = (
        "dyn(object.spec.containers)"
        " + (has(object.spec.initContainers) ? dyn(object.spec.initContainers) : [])"
    )
    reached = [
        *_container_rules(fabric),
        _volume_rule(fabric, added),
        *(
            (
                f"{added} || !has(object.spec.{field}) || !object.spec.{field}",
                f"spec.{field} gives the pod its node's own: {fix}",
            )
            for field, fix in _host_fields(fabric).items()
        ),
        *((rule.expression, rule.message) for rule in _baseline(fabric)),
    ]
    created = cel.in_training({"": ("pods",)}, "CREATE", version="v1")
    debugged = cel.in_training({"": ("pods/ephemeralcontainers",)}, "UPDATE", version="v1")
    return {
        "failurePolicy": "Fail",
        "matchConstraints": created
        | {"resourceRules": created["resourceRules"] + debugged["resourceRules"]},
        "variables": [
            {"name": "containers", "expression": f"{added} ? {ephemeral} : {own}"},
            {
                "name": "volumes",
                "expression": "has(object.spec.volumes) ? object.spec.volumes : []",
            },
            {"name": "pod", "expression": f"{added} ? dyn({{}}) : dyn(object)"},
            {
                "name": "security",
                "expression": "dyn(variables.pod.?spec.?securityContext.orValue({}))",
            },
        ],
        "validations": cel.validations(reached),
    }


def _container_rules(fabric: FabricDemand) -> list[tuple[str, str]]:
    capabilities = (*HARMLESS_CAPABILITIES, *fabric.capabilities)
    ours = ", ".join(fabric.capabilities) or "none"
    devices = ", ".join(fabric.devices or fabric.gpus)
    security = "!has(c.securityContext)"
    return [
        (
            f"variables.containers.all(c, {security} || !has(c.securityContext.privileged)"
            " || !c.securityContext.privileged)",
            "a privileged container has the whole node: remove securityContext.privileged; devices "
            f"come by resources.limits ({devices}), memory locking by capabilities.add [IPC_LOCK] "
            "where the fabric needs it",
        ),
        (
            f"variables.containers.all(c, {security} || !has(c.securityContext.capabilities)"
            " || !has(c.securityContext.capabilities.add)"
            f" || c.securityContext.capabilities.add.all(a, a in {cel.strings(capabilities)}))",
            "a container adds a capability that reaches beyond its pod: remove it from "
            "securityContext.capabilities.add; allowed are those of the baseline Pod Security "
            f"Standard, SYS_PTRACE, and for this fabric ({fabric.title}): {ours}",
        ),
    ]


def _volume_rule(fabric: FabricDemand, added: str) -> tuple[str, str]:
    unmounted = (
        f"({added} && variables.containers.all(c,"
        " !has(c.volumeMounts) || c.volumeMounts.all(m, m.name != v.name)))"
    )
    passes = " || ".join(["!has(v.hostPath)", *map(_mounted, fabric.host_paths), unmounted])
    paths = ", ".join(dict.fromkeys(p.path for p in fabric.host_paths)) or "none"
    return (
        f"variables.volumes.all(v, {passes})",
        "a hostPath volume mounts the node's file system: use a PersistentVolumeClaim for data, "
        "an emptyDir for scratch and for /dev/shm, resources.limits for devices; directories that "
        f"this fabric ({fabric.title}) needs, mounted as its runtimes do: {paths}",
    )


def _host_fields(fabric: FabricDemand) -> dict[str, str]:
    fields = {
        "hostPID": "remove it; containers of one pod see each other by shareProcessNamespace",
        "hostIPC": "remove it; for shared memory mount an emptyDir with medium Memory at /dev/shm",
    }
    if fabric.host_network is None:
        instead = _attach(fabric) or "request the fabric's resource instead"
        fields["hostNetwork"] = f"remove it; to reach the fabric, {instead}"
    return fields


def _mounted(path: MountedPath) -> str:
    """Return CEL that tests that volume ``v`` is this directory, mounted only as allowed."""
    wanted = []
    if path.container is not None:
        wanted.append(f"c.name == {cel.string(path.container)}")
    if path.read_only:
        wanted.append("has(m.readOnly) && m.readOnly")
    mounts = " && ".join(wanted) or "true"
    return (
        f"(v.hostPath.path == {cel.string(path.path)} && variables.containers.all(c,"
        f" !has(c.volumeMounts) || c.volumeMounts.all(m, m.name != v.name || ({mounts}))))"
    )


def pod_policies(fabric: FabricDemand) -> dict[str, dict[str, Any]]:
    """Return policy name -> spec."""
    policies = {
        "railhead-fabric-pod": fabric_pod_policy(fabric),
        "railhead-parallel-job": parallel_job_policy(fabric),
        "railhead-node-reach": node_reach_policy(fabric),
    }
    return {name: spec for name, spec in policies.items() if spec is not None}
