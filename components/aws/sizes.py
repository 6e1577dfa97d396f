"""Sizes of node groups: their bounds are the stack's, how many nodes run is not.

EKS takes both at once, and terraform-provider-aws sends all three numbers when one differs
(service/eks/node_group.go, resourceNodeGroupUpdate: `HasChange("scaling_config")`). The number in
the stack's state is that of the last `pulumi up`: sent again, it would end nodes that an
autoscaler, or a person, has started since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_aws import ec2, eks

from railhead.base.errors import PrerequisiteError
from railhead.components.mismatch import MismatchError
from railhead.platform.aws.facts import panics

if TYPE_CHECKING:
    from pulumi_aws.eks import NodeGroupScalingConfigArgsDict

# An autoscaler's, and that of the scheduled action that empties a capacity block in time.
_RUNNING = "scalingConfig.desiredSize"
# EKS API, Nodegroup: status.
_FAILED = "CREATE_FAILED"


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The sizes that a stack's file gives a group.

    Args:
        least: number of nodes that the autoscaler leaves.
        most: number of nodes that there may be.
        first: number of nodes with which the group is made.
    """

    least: int
    most: int
    first: int


def running(
    cluster: str, kubernetes: str, opts: pulumi.InvokeOptions
) -> Mapping[str, eks.outputs.GetNodeGroupScalingConfigResult]:
    """Return node group -> its sizes as they are; nothing before the cluster is made.

    Waits for the answers: which sizes the engine must leave alone depends on them. Whatever else
    is asked of the cloud comes later, so that its errors are reported as everywhere.

    Args:
        cluster: the cluster's name.
        kubernetes: the minor that the file wants, such as ``1.35``.
        opts: the provider that asks.

    Raises:
        PrerequisiteError: EKS does not answer, such as for want of credentials.
    """
    try:
        return _read(cluster, kubernetes, opts)
    except Exception as error:  # the SDK raises nothing more exact
        raise PrerequisiteError(
            f"EKS does not say how many nodes run: {error}",
            remedy="use credentials of one of platform.administrators, which may list and describe "
            "clusters and node groups; nothing was changed",
        ) from error


def _read(
    cluster: str, kubernetes: str, opts: pulumi.InvokeOptions
) -> Mapping[str, eks.outputs.GetNodeGroupScalingConfigResult]:
    if cluster not in eks.get_clusters(opts=opts).names:
        return {}
    groups = {
        group: eks.get_node_group(cluster_name=cluster, node_group_name=group, opts=opts)
        for group in eks.get_node_groups(cluster_name=cluster, opts=opts).names
    }
    minor = eks.get_cluster(name=cluster, opts=opts).version
    ahead = _number(minor) > _number(kubernetes)
    if minor != kubernetes:
        pulumi.log.warn(
            _way_forward(minor, kubernetes) if ahead else _upgrade_again(minor, kubernetes)
        )
    for group, read in groups.items():
        if read.status == _FAILED:
            pulumi.log.warn(way_out(cluster, group))
        elif not ahead and (behind := _behind(group, read, minor, opts)):
            pulumi.log.warn(_again(group, behind))
        if panics(read.release_version or ""):
            pulumi.log.warn(_reboots(cluster, group, read.release_version))
    return {group: read.scaling_configs[0] for group, read in groups.items()}


def _number(minor: str) -> int:
    return int(minor.partition(".")[2])


def _way_forward(minor: str, kubernetes: str) -> str:
    """Return what to do where EKS, or a person, has upgraded the control plane.

    No update of its groups failed then, and to repeat one would harm: asked for the minor before,
    EKS may roll back within seven days of an upgrade, and else refuses, as after its own at the end
    of extended support (EKS user guide, rollback-cluster).
    """
    return (
        f"the control plane has Kubernetes {minor}, and the file {kubernetes!r}: EKS upgraded it "
        f"at the end of support, or someone did. Write {minor!r}, and then `pulumi up --refresh`, "
        "which replaces the nodes and so ends the jobs on them. Do not refresh before: that, and "
        f"an `up` that changes the cluster's version, asks EKS to go back to {kubernetes}, which "
        "it may do within seven days of an upgrade, and else refuses"
    )


def _upgrade_again(minor: str, kubernetes: str) -> str:
    """Return how to repeat an update of the control plane that failed, before or in this one.

    The state has its new value all the same, as that of a group (:func:`_again`).
    """
    return (
        f"the control plane has Kubernetes {minor}, and the file {kubernetes!r}: if this `pulumi "
        "up` does not upgrade it, the state takes that for done: once nothing hinders it, `pulumi "
        "up --refresh` upgrades it"
    )


def _behind(
    group: str, read: eks.GetNodeGroupResult, minor: str, opts: pulumi.InvokeOptions
) -> str:
    """Return what a group of the stack's has not got that an update gave it; empty for nothing.

    Before an update begins, a group has the control plane's minor and its template's last version.
    """
    own = [template for template in read.launch_templates if template.name == group]
    if not own:
        return ""
    if read.version != minor:
        return f"Kubernetes {read.version}, and the control plane {minor}"
    try:
        last = ec2.get_launch_template(id=own[0].id, opts=opts).latest_version
    except Exception:  # noqa: BLE001 - nothing more exact; one that is gone, `up` makes again
        return ""
    if own[0].version != str(last):
        return f"version {own[0].version} of its launch template, whose last is {last}"
    return ""


def _again(group: str, behind: str) -> str:
    """Return how to repeat an update of a group that failed.

    The state has its new values all the same, so that the next `pulumi up` finds nothing to do
    (terraform-provider-aws, issue 35575; pulumi-eks, issue 875).
    """
    return (
        f"node group {group} has {behind}: an earlier update did not reach its nodes. If this one "
        "does not update it, the state takes that for done: once nothing hinders it, `pulumi up "
        "--refresh` replaces its nodes, which ends the jobs on them"
    )


def _reboots(cluster: str, group: str, release: str) -> str:
    """Return how to get off an image whose kernel panics: no `pulumi up` changes it unasked."""
    return (
        f"node group {group} has image {release}, whose kernel panics where it reclaims memory: "
        "nodes reboot under their jobs. Once its jobs may end, `aws eks update-nodegroup-version "
        f"--cluster-name {cluster} --nodegroup-name {group}` gives it EKS' newest; where "
        "`ami_release` is written, write a newer one instead"
    )


def way_out(cluster: str, group: str) -> str:
    """Return how to get on with a group whose creation failed.

    It stays failed though its nodes join later, and EKS refuses each update of it
    (containers-roadmap, issues 764 and 2204; crossplane provider-aws, issue 1447). The next `pulumi
    up` asks EKS for nothing where nothing differs, and seems to have mended it.
    """
    return (
        f"node group {group} is {_FAILED}, for good: its nodes serve jobs, and EKS refuses every "
        "update of it, such as another Kubernetes or size. Once its jobs may end, `aws eks "
        f"delete-nodegroup --cluster-name {cluster} --nodegroup-name {group}`, then `pulumi up "
        "--refresh`"
    )


def scaling(
    group: str,
    bounds: Bounds,
    live: Mapping[str, eks.outputs.GetNodeGroupScalingConfigResult],
    *,
    cluster: str,
    where: str,
) -> tuple[NodeGroupScalingConfigArgsDict, list[str]]:
    """Return a group's sizes, and those that the engine must not compare.

    As long as the group has the bounds of the file, how many of its nodes run is not sent. Where
    they differ, the number that runs now goes with them.

    Args:
        group: the node group's name.
        bounds: the sizes in the file.
        live: what :func:`running` returned.
        cluster: the cluster's name.
        where: what the group is called in a message.

    Raises:
        MismatchError: fewer or more nodes run than the file allows.
    """
    now = live.get(group)
    left_alone: list[str] = []
    if now is None or (now.min_size, now.max_size) == (bounds.least, bounds.most):
        desired, left_alone = bounds.first, [_RUNNING]
    elif bounds.least <= now.desired_size <= bounds.most:
        desired = now.desired_size
    else:
        raise MismatchError(
            f"{where}: {now.desired_size} nodes run, and the file allows {bounds.least} to "
            f"{bounds.most}: an update neither starts nor ends nodes",
            remedy="scale the group first: `aws eks update-nodegroup-config --cluster-name "
            f"{cluster} --nodegroup-name {group} --scaling-config desiredSize=NUMBER`, which ends "
            "jobs on nodes that go; nothing was changed",
        )
    return (
        {"min_size": bounds.least, "max_size": bounds.most, "desired_size": desired},
        left_alone,
    )
