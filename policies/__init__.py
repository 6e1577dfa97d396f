"""What a plan must obey: rules in importable modules, the pack itself only in ``__main__``.

Helm releases are opaque to a plan: what a chart's templates hold is not judged here.
"""

from __future__ import annotations

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from policies import clouds, inputs, privilege, queue_coverage, shared_memory
from policies.plan import planned


def _no_reach_into_nodes(args: ResourceValidationArgs, report: ReportViolation) -> None:
    found = planned(args.resource_type, args.urn, args.name, args.props)
    for message in privilege.problems(found) if found else ():
        report(message, args.urn)


def _shared_memory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    found = planned(args.resource_type, args.urn, args.name, args.props)
    for message in shared_memory.problems(found) if found else ():
        report(message, args.urn)


def _queue_coverage(args: StackValidationArgs, report: ReportViolation) -> None:
    plan = (
        planned(r.resource_type, r.urn, r.name, inputs.complete(r.urn, r.props))
        for r in args.resources
    )
    for message, urn in queue_coverage.problems(p for p in plan if p is not None):
        report(message, urn)


def _closed(args: ResourceValidationArgs, report: ReportViolation) -> None:
    found = clouds.cloud_resource(
        args.resource_type, args.urn, args.name, args.props, protect=args.opts.protect
    )
    for message in clouds.open_to_the_world(found) if found else ():
        report(message, args.urn)


def _nothing_bought(args: ResourceValidationArgs, report: ReportViolation) -> None:
    found = clouds.cloud_resource(
        args.resource_type, args.urn, args.name, args.props, protect=args.opts.protect
    )
    for message in clouds.bought(found) if found else ():
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


def _given(args: ResourceValidationArgs, _report: ReportViolation) -> None:
    inputs.remember(args.urn, args.props)


def _seen(args: StackValidationArgs, report: ReportViolation) -> None:
    for r in args.resources:
        for message in inputs.unseen(r.resource_type, r.urn, r.name, r.props):
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
        validate=_seen,
    ),
    StackValidationPolicy(
        name="queue-covers-devices",
        description="A ClusterQueue covers every device resource that the stack's workloads "
        "request; a job that asks for one it omits would wait for ever.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_queue_coverage,
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
        description="Nothing of a cloud lets the whole internet in.",
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=_closed,
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
)
