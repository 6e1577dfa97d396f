"""Rules that a plan must obey, in importable modules; the pack itself is only in ``__main__``.

Helm releases are opaque to a plan: the content of a chart's templates is not judged here.
"""

from __future__ import annotations

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
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
from railhead.policies.plan import PlannedObject, planned


def _no_reach_into_nodes(args: ResourceValidationArgs, report: ReportViolation) -> None:
    result = planned(args.resource_type, args.urn, args.name, args.props)
    for message in privilege.problems(result) if result else ():
        report(message, args.urn)


def _shared_memory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    result = planned(args.resource_type, args.urn, args.name, args.props)
    for message in shared_memory.problems(result) if result else ():
        report(message, args.urn)


def _objects(args: StackValidationArgs) -> list[PlannedObject]:
    """Return the Kubernetes objects of the plan."""
    plan = (
        planned(r.resource_type, r.urn, r.name, inputs.complete(r.urn, r.props))
        for r in args.resources
    )
    return [p for p in plan if p is not None]


def _queue_coverage(args: StackValidationArgs, report: ReportViolation) -> None:
    for message, urn in queue_coverage.problems(_objects(args)):
        report(message, urn)


def _quotas_hold(args: StackValidationArgs, report: ReportViolation) -> None:
    for message, urn in queues.too_small(_objects(args)):
        report(message, urn)


def _pools_apart(args: StackValidationArgs, report: ReportViolation) -> None:
    for message, urn in queues.overlapping(_objects(args)):
        report(message, urn)


def _gangs_start(args: ResourceValidationArgs, report: ReportViolation) -> None:
    for message in queues.patient(args.resource_type, args.name, args.props):
        report(message, args.urn)


def _on_the_fabric(args: StackValidationArgs, report: ReportViolation) -> None:
    for message, urn in switches.problems(_objects(args)):
        report(message, urn)


def _kept(args: StackValidationArgs, report: ReportViolation) -> None:
    for message, urn in kept.problems(_objects(args)):
        report(message, urn)


def _images(args: ResourceValidationArgs, report: ReportViolation) -> None:
    result = planned(args.resource_type, args.urn, args.name, args.props)
    for message in images.problems(result) if result else ():
        report(message, args.urn)
    for message in images.unversioned(args.resource_type, args.name, args.props):
        report(message, args.urn)


def _guards_deny(args: StackValidationArgs, report: ReportViolation) -> None:
    for message, urn in admission.problems(_objects(args)):
        report(message, urn)


def _rights(args: ResourceValidationArgs, report: ReportViolation) -> None:
    result = planned(args.resource_type, args.urn, args.name, args.props)
    for message in rights.of_cluster(result) if result else ():
        report(message, args.urn)
    cloud = clouds.cloud_resource(
        args.resource_type, args.urn, args.name, args.props, protect=args.opts.protect
    )
    for message in rights.of_cloud(cloud) if cloud else ():
        report(message, args.urn)


def _closed(args: ResourceValidationArgs, report: ReportViolation) -> None:
    result = clouds.cloud_resource(
        args.resource_type, args.urn, args.name, args.props, protect=args.opts.protect
    )
    for message in clouds.open_to_the_world(result) if result else ():
        report(message, args.urn)
    service = planned(args.resource_type, args.urn, args.name, args.props)
    for message in exposure.problems(service) if service else ():
        report(message, args.urn)


def _hardened(args: ResourceValidationArgs, report: ReportViolation) -> None:
    result = clouds.cloud_resource(
        args.resource_type, args.urn, args.name, args.props, protect=args.opts.protect
    )
    for message in hardened.problems(result) if result else ():
        report(message, args.urn)


def _nothing_bought(args: ResourceValidationArgs, report: ReportViolation) -> None:
    result = clouds.cloud_resource(
        args.resource_type, args.urn, args.name, args.props, protect=args.opts.protect
    )
    for message in clouds.bought(result) if result else ():
        report(message, args.urn)


def _protected(args: StackValidationArgs, report: ReportViolation) -> None:
    plan = (
        clouds.cloud_resource(
            r.resource_type,
            r.urn,
            r.name,
            inputs.complete(r.urn, r.props),
            protect=r.opts.protect,
        )
        for r in args.resources
    )
    for message, urn in clouds.unprotected(r for r in plan if r is not None):
        report(message, urn)


def _versions_ran(args: StackValidationArgs, report: ReportViolation) -> None:
    releases = (
        (r.urn, inputs.complete(r.urn, r.props))
        for r in args.resources
        if r.resource_type == versions.RELEASE
    )
    for message, urn in versions.problems(releases):
        report(message, urn)


def _given(args: ResourceValidationArgs, _report: ReportViolation) -> None:
    inputs.remember(args.urn, args.props)


def _seen(args: StackValidationArgs, report: ReportViolation) -> None:
    closed = not args.get_config().get("apart", True)
    for r in args.resources:
        component = r.provider is None
        for message in inputs.unseen(
            r.resource_type, r.urn, r.name, r.props, component=component, closed=closed
        ):
            report(message, r.urn)


RULES: tuple[Policy, ...] = (
    ResourceValidationPolicy(
        name="plan-is-kept",
        description="What each resource is given is kept for the rules over the whole stack.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_given,
    ),
    StackValidationPolicy(
        name="plan-is-seen",
        description="What no rule can see is a violation, not a pass.",
        enforcement_level=EnforcementLevel.MANDATORY,
        config_schema=PolicyConfigSchema(
            properties={
                "apart": {
                    "type": "boolean",
                    "default": True,
                    "description": "Pass types that no training stands on (policies/known.py).",
                }
            }
        ),
        validate=_seen,
    ),
    StackValidationPolicy(
        name="queue-covers-devices",
        description="A ClusterQueue covers every device resource that the stack's workloads "
        "request; a job that asks for one it omits would wait for ever.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_queue_coverage,
    ),
    StackValidationPolicy(
        name="quotas-hold-a-gang",
        description="A queue's quota of a device is enough for one gang of each runtime.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_quotas_hold,
    ),
    StackValidationPolicy(
        name="pools-are-apart",
        description="No node is of two flavors, which would give it out twice.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_pools_apart,
    ),
    ResourceValidationPolicy(
        name="gangs-start-or-give-back",
        description="Kueue takes the quota back from a gang whose pods do not start.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_gangs_start,
    ),
    StackValidationPolicy(
        name="jobs-stay-on-the-fabric",
        description="No runtime takes its jobs off the fabric by a variable of its own.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_on_the_fabric,
    ),
    StackValidationPolicy(
        name="checkpoints-are-kept",
        description="Claims of checkpoints serve every node of a gang, and volumes are retained.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_kept,
    ),
    StackValidationPolicy(
        name="guards-refuse",
        description="Admission policies are asked, deny what they find, and what they cannot "
        "evaluate.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_guards_deny,
    ),
    ResourceValidationPolicy(
        name="images-are-named",
        description="Every image of a pod has a version or a digest, and every chart a version.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_images,
    ),
    ResourceValidationPolicy(
        name="nobody-has-everything",
        description="No role of a cloud or of the cluster allows everything.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_rights,
    ),
    ResourceValidationPolicy(
        name="training-has-shared-memory",
        description="Containers of training workloads have a memory-backed /dev/shm.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_shared_memory,
    ),
    ResourceValidationPolicy(
        name="no-reach-into-nodes",
        description="No pod is privileged, mounts a hostPath or shares its node's namespaces.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_no_reach_into_nodes,
    ),
    ResourceValidationPolicy(
        name="cloud-is-closed",
        description="Nothing of a cloud or of the cluster lets the whole internet in.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_closed,
    ),
    ResourceValidationPolicy(
        name="cloud-is-hardened",
        description="Data of a cloud is encrypted and nobody's but its own; nodes keep their "
        "credentials and have no public address.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_hardened,
    ),
    ResourceValidationPolicy(
        name="no-capacity-bought",
        description="No plan buys capacity that is paid for when it is made and never given back.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_nothing_bought,
    ),
    StackValidationPolicy(
        name="protected-is-protected",
        description="Where a cluster has deletion protection, so have its GPU pools and file "
        "systems.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_protected,
    ),
    StackValidationPolicy(
        name="versions-ran",
        description="Kueue, JobSet and Trainer are versions that ran together; others are named.",
        enforcement_level=EnforcementLevel.ADVISORY,
        validate=_versions_ran,
    ),
)
