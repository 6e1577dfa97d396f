"""Rules that a plan must obey, in importable modules; the pack itself is only in ``__main__``.

Helm releases are opaque to a plan: the content of a chart's templates is not judged here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyComplianceFramework,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
)

from railhead.policies import (
    admission,
    clouds,
    exposure,
    hardened,
    images,
    inputs,
    kept,
    privilege,
    queue_coverage,
    queues,
    rights,
    shared_memory,
    switches,
    versions,
)
from railhead.policies.plan import PlannedObject
from railhead.policies.rule import PAGES, Config, each, whole

_NETWORKS = {
    "type": "array",
    "items": {"type": "string"},
    "description": "The networks that may be let in. Default: any that is no wider than a /8.",
}
_POD_SECURITY = PolicyComplianceFramework(
    "Kubernetes Pod Security Standards",
    None,
    "https://kubernetes.io/docs/concepts/security/pod-security-standards/",
    "Baseline",
)


def _protected(resources: Sequence[PolicyResource], _config: Config) -> Iterator[tuple[str, str]]:
    plan = (
        clouds.cloud_resource(
            r.resource_type, r.urn, r.name, inputs.complete(r.urn, r.props), protect=r.opts.protect
        )
        for r in resources
        if not r.resource_type.startswith("kubernetes:")
    )
    return clouds.unprotected(r for r in plan if r is not None)


def _versions_ran(
    resources: Sequence[PolicyResource], _config: Config
) -> Iterator[tuple[str, str]]:
    return versions.problems(
        (r.urn, inputs.complete(r.urn, r.props))
        for r in resources
        if r.resource_type == versions.RELEASE
    )


def _seen(resources: Sequence[PolicyResource], config: Config) -> Iterator[tuple[str, str]]:
    for r in resources:
        for message in inputs.unseen(
            r.resource_type,
            r.urn,
            r.name,
            r.props,
            component=r.provider is None,
            closed=not config.get("apart", True),
            known=config.get("known") or (),
        ):
            yield message, r.urn
        for message in _attached_later(r):
            yield message, r.urn


def _attached_later(resource: PolicyResource) -> Iterator[str]:
    if not resource.resource_type.startswith("aws:"):
        return
    made_by = {
        key: [made.resource_type for made in of]
        for key, of in resource.property_dependencies.items()
    }
    body = inputs.complete(resource.urn, resource.props)
    yield from rights.attached_later(resource.name, body, made_by)


def _given(args: ResourceValidationArgs, _report: ReportViolation) -> None:
    inputs.remember(args.urn, args.props)


def _open(planned: PlannedObject, config: Config) -> Iterator[str]:
    return exposure.problems(planned, config.get("networks"))


def _open_cloud(resource: clouds.CloudResource, config: Config) -> Iterator[str]:
    return clouds.open_to_the_world(resource, config.get("networks"))


RULES: tuple[Policy, ...] = (
    ResourceValidationPolicy(
        "plan-is-kept",
        "What each resource is given is kept for the rules over the whole stack.",
        _given,
        EnforcementLevel.MANDATORY,
        display_name="The plan is kept",
        severity=Severity.LOW,
        tags=["railhead", "plan"],
        remediation_steps="Nothing: it reports no violation, and must not be disabled.",
        url=f"{PAGES}/plan-is-kept",
    ),
    whole(
        "plan-is-seen",
        title="The plan is seen",
        description="What no rule can see is a violation, not a pass.",
        severity=Severity.MEDIUM,
        tags=["plan"],
        remedy="Give the resource values that the plan knows, or list its type in `known` after "
        "a person has looked at what it opens.",
        config={
            "apart": {
                "type": "boolean",
                "default": True,
                "description": "Pass types that no training stands on (policies/known.py).",
            },
            "known": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Types that the site has looked at, as shell patterns.",
            },
        },
        resources=_seen,
    ),
    whole(
        "queue-covers-devices",
        title="Queues cover devices",
        description="A ClusterQueue covers every device resource that the stack's workloads "
        "request; a job that asks for one it omits would wait for ever.",
        severity=Severity.HIGH,
        tags=["kueue", "quota"],
        remedy="Add the resource to coveredResources with a nominalQuota of what the nodes have.",
        objects=queue_coverage.problems,
    ),
    whole(
        "quotas-hold-a-gang",
        title="Quotas hold a gang",
        description="A queue's quota of a device is enough for one gang of each runtime.",
        severity=Severity.HIGH,
        tags=["kueue", "volcano", "quota"],
        remedy="Set the quota to what the pool's nodes have, or the runtime to fewer nodes.",
        objects=queues.too_small,
    ),
    whole(
        "pools-are-apart",
        title="Pools are apart",
        description="No node is of two flavors, which would give it out twice.",
        severity=Severity.HIGH,
        tags=["kueue", "quota"],
        remedy="Give each pool another value of one label in its node_selector.",
        objects=queues.overlapping,
    ),
    each(
        "gangs-start-or-give-back",
        title="Gangs start or give back",
        description="Kueue takes the quota back from a gang whose pods do not start.",
        severity=Severity.HIGH,
        tags=["kueue", "quota"],
        remedy="Set waitForPodsReady, with a timeout, in Kueue's configuration.",
        releases=queues.patient,
    ),
    whole(
        "jobs-stay-on-the-fabric",
        title="Jobs stay on the fabric",
        description="No runtime takes its jobs off the fabric by a variable of its own.",
        severity=Severity.HIGH,
        tags=["fabric", "nccl"],
        remedy="Remove the variable from the runtime; the fabric sets those that choose a network.",
        objects=switches.problems,
    ),
    whole(
        "checkpoints-are-kept",
        title="Checkpoints are kept",
        description="Claims of checkpoints serve every node of a gang, and volumes are retained.",
        severity=Severity.CRITICAL,
        tags=["storage", "data"],
        remedy="Use ReadWriteMany on a class and volumes with reclaimPolicy Retain, and keep the "
        "label by which the API server keeps the claim.",
        objects=kept.problems,
    ),
    whole(
        "guards-refuse",
        title="Guards refuse",
        description="Admission policies are asked, deny what they find, and what they cannot "
        "evaluate.",
        severity=Severity.CRITICAL,
        tags=["admission", "guards"],
        remedy="Bind the policy with validationActions [Deny] and failurePolicy Fail.",
        objects=admission.problems,
    ),
    each(
        "images-are-named",
        title="Images are named",
        description="Every image of a pod has a version or a digest, and every chart a version.",
        severity=Severity.MEDIUM,
        tags=["images", "charts"],
        remedy="Name a tag that does not move, or a digest; name the chart's version.",
        objects=lambda planned, _: images.problems(planned),
        releases=images.unversioned,
    ),
    each(
        "nobody-has-everything",
        title="Nobody has everything",
        description="No role of a cloud or of the cluster allows everything.",
        severity=Severity.CRITICAL,
        tags=["rights", "iam", "rbac"],
        remedy="List the actions and resources that are meant.",
        objects=lambda planned, _: rights.of_cluster(planned),
        clouds=lambda resource, _: rights.of_cloud(resource),
    ),
    each(
        "training-has-shared-memory",
        title="Training has shared memory",
        description="Containers of training workloads have a memory-backed /dev/shm.",
        severity=Severity.MEDIUM,
        tags=["workloads"],
        remedy="Mount a volume with emptyDir {medium: Memory} at /dev/shm.",
        objects=lambda planned, _: shared_memory.problems(planned),
    ),
    each(
        "no-reach-into-nodes",
        title="No reach into nodes",
        description="No pod is privileged, mounts a hostPath or shares its node's namespaces.",
        severity=Severity.HIGH,
        tags=["workloads", "security"],
        framework=_POD_SECURITY,
        remedy="Take devices by their resource, rails by the network annotation, files by a claim.",
        objects=lambda planned, _: privilege.problems(planned),
    ),
    each(
        "cloud-is-closed",
        title="The cloud is closed",
        description="Nothing of a cloud or of the cluster lets the whole internet in.",
        severity=Severity.CRITICAL,
        tags=["network", "security"],
        remedy="Name the networks that may come in, and keep load balancers internal.",
        config={"networks": _NETWORKS},
        objects=_open,
        clouds=_open_cloud,
    ),
    each(
        "cloud-is-hardened",
        title="The cloud is hardened",
        description="Data of a cloud is encrypted and nobody's but its own; nodes keep their "
        "credentials and have no public address.",
        severity=Severity.HIGH,
        tags=["encryption", "security"],
        remedy="Set the field that the violation names to the value that it names.",
        clouds=lambda resource, _: hardened.problems(resource),
    ),
    each(
        "no-capacity-bought",
        title="No capacity is bought",
        description="No plan buys capacity that is paid for when it is made and never given back.",
        severity=Severity.HIGH,
        tags=["cost", "capacity"],
        remedy="Buy the capacity block by hand, and give its id to the pool.",
        clouds=lambda resource, _: clouds.bought(resource),
    ),
    whole(
        "protected-is-protected",
        title="What is precious is protected",
        description="Where a cluster has deletion protection, so have its GPU pools and file "
        "systems.",
        severity=Severity.CRITICAL,
        tags=["data", "capacity"],
        remedy="Pass protect=True in the resource's options.",
        resources=_protected,
    ),
    whole(
        "versions-ran",
        title="Versions ran together",
        description="Kueue, JobSet and Trainer are versions that ran together; others are named.",
        severity=Severity.LOW,
        level=EnforcementLevel.ADVISORY,
        tags=["charts", "versions"],
        remedy="Take a row of the catalogue's proven versions.",
        resources=_versions_ran,
    ),
)
