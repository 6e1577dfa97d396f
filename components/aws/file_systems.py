"""Shared file systems: FSx for Lustre, which nodes may reach over EFA, and EFS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_aws import efs, fsx, vpc

from railhead.base.names import physical_name
from railhead.components.aws.identity import policy
from railhead.components.aws.network import Nets
from railhead.components.aws.security_groups import (
    LUSTRE_PORTS,
    NFS_PORTS,
    EfaSecurityGroup,
    StorageSecurityGroup,
    StorageSecurityGroupArgs,
)
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import (
    ElasticFileSystem,
    LustreFileSystem,
    ProvisionedMetadata,
)

if TYPE_CHECKING:
    from pulumi_aws.fsx import LustreFileSystemMetadataConfigurationArgsDict


@dataclass(frozen=True, kw_only=True)
class FileSystemArgs:
    """The arguments that every file system has.

    Args:
        cluster: the cluster's name, which the names of what is made begin with.
        nets: the network's subnets.
        nodes: id of the security group that all nodes are in.
        deletion_protection: whether Pulumi refuses to delete or replace the file system.
    """

    cluster: str
    nets: Nets
    nodes: pulumi.Input[str]
    deletion_protection: bool = True


@dataclass(frozen=True, kw_only=True)
class LustreArgs(FileSystemArgs):
    """Arguments of :class:`Lustre`.

    Args:
        file_system: name, zone, capacity in GiB, throughput, compression, backups, and whether
            nodes reach it over EFA.
        efa: the fabric's security group, which the file system's servers join for EFA.
    """

    file_system: LustreFileSystem
    efa: EfaSecurityGroup


class Lustre(pulumi.ComponentResource):
    """A persistent FSx for Lustre file system; deleting it takes a last backup unless told not to.

    Attributes:
        config: what was asked for.
        file_system: the file system.
    """

    config: LustreFileSystem
    file_system: fsx.LustreFileSystem

    def __init__(
        self, name: str, args: LustreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:Lustre", name, None, opts)
        self.config = wanted = args.file_system
        access = StorageSecurityGroup(
            f"{name}-access",
            StorageSecurityGroupArgs(
                vpc_id=args.nets.vpc_id,
                cluster=args.cluster,
                what="Lustre",
                ports=LUSTRE_PORTS,
                nodes=args.nodes,
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        # Servers call clients back for locks, and connect to them when a connection broke (FSx
        # user guide, limit-access-security-groups: rules of the client's group).
        callbacks = [
            vpc.SecurityGroupIngressRule(
                f"{name}-callbacks-{first}",
                security_group_id=args.nodes,
                referenced_security_group_id=access.group.id,
                ip_protocol="tcp",
                from_port=first,
                to_port=last,
                description="Lustre from its servers",
                opts=pulumi.ResourceOptions(parent=self),
            )
            for first, last in LUSTRE_PORTS
        ]
        # Its servers' EFA interfaces are in the fabric's group, or nothing passes.
        groups: list[StorageSecurityGroup | EfaSecurityGroup] = [access]
        if wanted.efa:
            groups.append(args.efa)
        self.file_system = fsx.LustreFileSystem(
            f"{name}-file-system",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            backup_id=wanted.backup,
            storage_capacity=wanted.capacity_gib,
            per_unit_storage_throughput=wanted.throughput,
            file_system_type_version=catalogue.LUSTRE_VERSION,
            metadata_configuration=_metadata(wanted),
            efa_enabled=wanted.efa,
            data_compression_type="LZ4" if wanted.compression else "NONE",
            automatic_backup_retention_days=wanted.backup_days,
            copy_tags_to_backups=True,
            skip_final_backup=not wanted.final_backup,
            subnet_ids=args.nets.private[wanted.availability_zone],
            security_group_ids=[group.group.id for group in groups],
            tags={"Name": f"{args.cluster}-{wanted.name}"},
            # FSx judges the groups' rules when it makes the file system (FSx user guide,
            # cannot-create-fs), and clients mount by them until it is gone.
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=args.deletion_protection,
                # EFA fixes it at creation; the provider would ask FSx to change it.
                replace_on_changes=["perUnitStorageThroughput"] if wanted.efa else [],
                depends_on=[*callbacks, *[rule for group in groups for rule in group.ready]],
                # Not the provider's 30 minutes (terraform-provider-aws, lustre_file_system.go): a
                # last backup of tens of TiB comes before the file system goes, and no page that was
                # read says how long one of them takes to be filled from a backup.
                custom_timeouts=pulumi.CustomTimeouts(
                    create="12h" if wanted.backup else "2h", update="6h", delete="12h"
                ),
            ),
        )
        self.register_outputs({"file_system": self.file_system.id})


def _metadata(wanted: LustreFileSystem) -> LustreFileSystemMetadataConfigurationArgsDict:
    """Always given: an EFA-enabled file system must say it."""
    if isinstance(wanted.metadata, ProvisionedMetadata):
        return {"mode": "USER_PROVISIONED", "iops": wanted.metadata.iops}
    return {"mode": "AUTOMATIC"}


@dataclass(frozen=True, kw_only=True)
class ElasticArgs(FileSystemArgs):
    """Arguments of :class:`Elastic`.

    Args:
        file_system: name, throughput mode, and whether it is backed up.
    """

    file_system: ElasticFileSystem


class Elastic(pulumi.ComponentResource):
    """An EFS file system with a mount target in every zone.

    Attributes:
        config: what was asked for.
        file_system: the file system.
        targets: zone -> its mount target.
    """

    config: ElasticFileSystem
    file_system: efs.FileSystem
    targets: Mapping[str, efs.MountTarget]

    def __init__(
        self, name: str, args: ElasticArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:Elastic", name, None, opts)
        self.config = wanted = args.file_system
        inside = pulumi.ResourceOptions(parent=self)
        access = StorageSecurityGroup(
            f"{name}-access",
            StorageSecurityGroupArgs(
                vpc_id=args.nets.vpc_id,
                cluster=args.cluster,
                what="NFS",
                ports=NFS_PORTS,
                nodes=args.nodes,
            ),
            opts=inside,
        )
        self.file_system = efs.FileSystem(
            f"{name}-file-system",
            creation_token=physical_name(args.cluster, wanted.name, limit=catalogue.CREATION_TOKEN),
            encrypted=True,
            performance_mode="generalPurpose",
            throughput_mode=wanted.throughput,
            lifecycle_policies=[
                {"transition_to_ia": "AFTER_30_DAYS"},
                {"transition_to_primary_storage_class": "AFTER_1_ACCESS"},
            ],
            tags={"Name": f"{args.cluster}-{wanted.name}"},
            opts=pulumi.ResourceOptions(parent=self, protect=args.deletion_protection),
        )
        efs.BackupPolicy(
            f"{name}-backups",
            file_system_id=self.file_system.id,
            backup_policy={"status": "ENABLED" if wanted.backups else "DISABLED"},
            opts=inside,
        )
        self.targets = {
            zone: efs.MountTarget(
                f"{name}-{zone}",
                file_system_id=self.file_system.id,
                subnet_id=subnet,
                security_groups=[access.group.id],
                # Its rules let clients through, from the first mount to the last.
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(access.ready)),
            )
            for zone, subnet in args.nets.regional.items()
        }
        self.register_outputs({"file_system": self.file_system.id})


def lustre_driver_policy() -> str:
    """Return the FSx driver's rights: to look. Volumes are of file systems that the stack makes."""
    return policy({"Effect": "Allow", "Action": ["fsx:DescribeFileSystems"], "Resource": "*"})


def elastic_driver_policy(file_systems: list[efs.FileSystem]) -> pulumi.Output[str]:
    """Return the EFS driver's rights: to give each claim an access point on these file systems.

    The driver marks what it makes with a tag, and may touch nothing else.
    """
    mark = "efs.csi.aws.com/cluster"

    def document(arns: list[str]) -> str:
        points = [_access_points(arn) for arn in arns]
        statements: list[dict[str, Any]] = [
            {
                "Effect": "Allow",
                "Action": [
                    "elasticfilesystem:DescribeAccessPoints",
                    "elasticfilesystem:DescribeFileSystems",
                    "elasticfilesystem:DescribeMountTargets",
                    "ec2:DescribeAvailabilityZones",
                ],
                "Resource": "*",
            },
            {
                "Effect": "Allow",
                "Action": ["elasticfilesystem:CreateAccessPoint"],
                "Resource": arns,
                "Condition": {"StringEquals": {f"aws:RequestTag/{mark}": "true"}},
            },
            {
                "Effect": "Allow",
                "Action": ["elasticfilesystem:TagResource"],
                "Resource": [*arns, *points],
                "Condition": {"StringEquals": {f"aws:RequestTag/{mark}": "true"}},
            },
            {
                "Effect": "Allow",
                "Action": ["elasticfilesystem:DeleteAccessPoint"],
                "Resource": points,
                "Condition": {"StringEquals": {f"aws:ResourceTag/{mark}": "true"}},
            },
        ]
        return policy(*statements)

    return pulumi.Output.all(*[f.arn for f in file_systems]).apply(document)


def _access_points(file_system_arn: str) -> str:
    """Return the ARN of all access points of the account and region; it names no file system."""
    return f"{file_system_arn.partition(':file-system/')[0]}:access-point/*"
