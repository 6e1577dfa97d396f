"""Everything on AWS below Kubernetes, in the order in which its parts can work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_aws import Provider

from railhead.components.aws.addons import Addons, AddonsArgs, Wanted, before_nodes, with_nodes
from railhead.components.aws.eks_cluster import EksCluster, EksClusterArgs
from railhead.components.aws.file_systems import (
    Elastic,
    ElasticArgs,
    FileSystemArgs,
    Lustre,
    LustreArgs,
    elastic_driver_policy,
    lustre_driver_policy,
)
from railhead.components.aws.identity import ServiceRole, ServiceRoleArgs
from railhead.components.aws.image_caches import ImageCaches, ImageCachesArgs
from railhead.components.aws.job_access import JobAccess, JobAccessArgs
from railhead.components.aws.network import Nets, Network, NetworkArgs, existing
from railhead.components.aws.node_pools import (
    GpuPool,
    GpuPoolArgs,
    NodePoolArgs,
    SystemPool,
    SystemPoolArgs,
)
from railhead.components.aws.security_groups import EfaSecurityGroup, EfaSecurityGroupArgs
from railhead.components.aws.sizes import running
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import (
    AwsPlatform,
    AwsPool,
    ElasticFileSystem,
    LustreFileSystem,
    NewNetwork,
)


@dataclass(frozen=True, kw_only=True)
class AwsInfrastructureArgs:
    """Arguments of :class:`AwsInfrastructure`.

    Args:
        name: the cluster's name, which the names of what is made begin with.
        platform: AWS' part of a stack's file: account, region, network, endpoint, people, file
            systems, tags.
        pools: the GPU node pools.
        researchers_group: Kubernetes' name of the researchers' group.
        lustre_efa_devices: pool -> how many of each node's EFA devices Lustre takes; a pool that is
            absent mounts Lustre over TCP.
    """

    name: str
    platform: AwsPlatform
    pools: Sequence[AwsPool]
    researchers_group: str
    lustre_efa_devices: Mapping[str, int] = field(default_factory=dict)


class AwsInfrastructure(pulumi.ComponentResource):
    """Network, cluster, node pools, add-ons and file systems in one account and region.

    Attributes:
        cluster: the EKS cluster.
        nets: the network's VPC and subnets.
        efa: the fabric's security group.
        lustre: the FSx for Lustre file systems.
        elastic: the EFS file systems.
        job_access: training namespace -> the rights of its jobs in S3.
        ready: what must exist before anything goes into the cluster, and stay until it is out.
    """

    cluster: EksCluster
    nets: Nets
    efa: EfaSecurityGroup
    lustre: Sequence[Lustre]
    elastic: Sequence[Elastic]
    job_access: Mapping[str, JobAccess]
    ready: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        args: AwsInfrastructureArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railhead:aws:Infrastructure", name, None, opts)
        platform = args.platform
        self._name, self._args = name, args
        provider = Provider(
            f"{name}-provider",
            region=platform.region,
            # Credentials of another account are refused before anything is made in it.
            allowed_account_ids=[platform.account],
            default_tags={"tags": {**platform.tags, "railhead.dev/cluster": args.name}},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._below = pulumi.ResourceOptions(parent=self, providers=[provider])
        sizes = running(
            args.name,
            platform.kubernetes,
            pulumi.InvokeOptions(parent=self, provider=provider),
        )
        self.nets = self._network(provider)
        self.efa = EfaSecurityGroup(
            f"{name}-efa",
            EfaSecurityGroupArgs(vpc_id=self.nets.vpc_id, cluster=args.name),
            opts=self._below,
        )
        self.cluster = EksCluster(
            f"{name}-eks",
            EksClusterArgs(
                name=args.name,
                region=platform.region,
                kubernetes=platform.kubernetes,
                nets=self.nets,
                endpoint=platform.endpoint,
                administrators=platform.administrators,
                researchers=platform.researchers,
                researchers_group=args.researchers_group,
                members=platform.members,
                oidc=platform.oidc,
                log_retention_days=platform.log_retention_days,
                support=platform.support,
                deletion_protection=platform.deletion_protection,
            ),
            opts=self._below,
        )
        early = self._addons("early", before_nodes(), after=[])
        role = ServiceRole(
            f"{name}-nodes",
            ServiceRoleArgs(
                cluster=args.name,
                what="nodes",
                service=catalogue.ec2_principal(platform.region),
                region=platform.region,
                # No CNI, no storage, no log: those rights are the add-ons' own.
                managed=["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"],
            ),
            opts=self._below,
        )
        shared = NodePoolArgs(
            cluster=args.name,
            cluster_name=self.cluster.cluster.name,
            kubernetes=platform.kubernetes,
            node_role=role.role.arn,
            nets=self.nets,
            tags=platform.tags,
            sizes=sizes,
            after=[*role.attached, *self._image_caches(role), *early.addons.values()],
        )
        system = SystemPool(
            f"{name}-system",
            SystemPoolArgs(**vars(shared), pool=platform.system_pool),
            opts=self._below,
        )
        pools = [
            GpuPool(
                f"{name}-pool-{pool.name}",
                GpuPoolArgs(
                    **{**vars(shared), "after": [*shared.after, *self.efa.ready]},
                    pool=pool,
                    cluster_group=self.cluster.security_group,
                    efa_group=self.efa.group.id,
                    lustre_efa_devices=args.lustre_efa_devices.get(pool.name, 0),
                    deletion_protection=platform.deletion_protection,
                ),
                opts=self._below,
            )
            for pool in args.pools
        ]
        self._file_systems()
        watched = with_nodes(pool.instance_type for pool in args.pools)
        late = self._addons("late", [*watched, *self._drivers()], after=[system.node_group])
        self.job_access = {
            item.namespace: JobAccess(
                f"{name}-jobs-{item.namespace}",
                JobAccessArgs(
                    cluster=args.name,
                    cluster_name=self.cluster.cluster.name,
                    region=platform.region,
                    access=item,
                    after=list(early.addons.values()),
                ),
                opts=self._below,
            )
            for item in platform.s3_access
        }
        # The pools too: what runs on them is let go of while they are there.
        self.ready = [
            *[item.association for item in self.job_access.values()],
            *self.cluster.access,
            system.node_group,
            *[pool.node_group for pool in pools],
            *late.addons.values(),
        ]
        self.register_outputs({"cluster": self.cluster.cluster.arn})

    def _network(self, provider: Provider) -> Nets:
        platform = self._args.platform
        network = platform.network
        if not isinstance(network, NewNetwork):
            return existing(network, pulumi.InvokeOutputOptions(parent=self, provider=provider))
        return Network(
            f"{self._name}-network",
            NetworkArgs(network=network, region=platform.region, cluster=self._args.name),
            opts=self._below,
        ).nets

    def _image_caches(self, nodes: ServiceRole) -> Sequence[pulumi.Resource]:
        platform = self._args.platform
        if not platform.image_caches:
            return ()
        args = ImageCachesArgs(
            region=platform.region,
            account=platform.account,
            caches=platform.image_caches,
            role=nodes.role.name,
        )
        return ImageCaches(f"{self._name}-image-caches", args, opts=self._below).ready

    def _addons(
        self, which: str, wanted: Sequence[Wanted], after: Sequence[pulumi.Resource]
    ) -> Addons:
        platform = self._args.platform
        return Addons(
            f"{self._name}-{which}",
            AddonsArgs(
                cluster=self._args.name,
                cluster_name=self.cluster.cluster.name,
                region=platform.region,
                kubernetes=platform.kubernetes,
                wanted=wanted,
                nodes=platform.system_pool.max_nodes + sum(p.nodes for p in self._args.pools),
                versions=platform.addon_versions,
                after=after,
            ),
            opts=self._below,
        )

    def _file_systems(self) -> None:
        platform = self._args.platform
        shared = FileSystemArgs(
            cluster=self._args.name,
            nets=self.nets,
            nodes=self.cluster.security_group,
            deletion_protection=platform.deletion_protection,
        )
        self.lustre = [
            Lustre(
                f"{self._name}-lustre-{wanted.name}",
                LustreArgs(**vars(shared), file_system=wanted, efa=self.efa),
                opts=self._below,
            )
            for wanted in platform.storage
            if isinstance(wanted, LustreFileSystem)
        ]
        self.elastic = [
            Elastic(
                f"{self._name}-efs-{wanted.name}",
                ElasticArgs(**vars(shared), file_system=wanted),
                opts=self._below,
            )
            for wanted in platform.storage
            if isinstance(wanted, ElasticFileSystem)
        ]

    def _drivers(self) -> list[Wanted]:
        """Return the drivers of the file systems that there are."""
        wanted = []
        if self.lustre:
            wanted.append(Wanted(addon=catalogue.FSX_CSI, statements=lustre_driver_policy()))
        if self.elastic:
            systems = [elastic.file_system for elastic in self.elastic]
            wanted.append(
                Wanted(addon=catalogue.EFS_CSI, statements=elastic_driver_policy(systems))
            )
        return wanted
