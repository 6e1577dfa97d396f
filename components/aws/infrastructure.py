"""Everything on AWS below Kubernetes, in the order in which its parts can work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import Provider

from components.aws.addons import Addons, AddonsArgs, Wanted, before_nodes, with_nodes
from components.aws.eks_cluster import EksCluster, EksClusterArgs
from components.aws.file_systems import (
    Elastic,
    ElasticArgs,
    Lustre,
    LustreArgs,
    elastic_driver_policy,
    lustre_driver_policy,
)
from components.aws.identity import ServiceRole, ServiceRoleArgs
from components.aws.image_caches import ImageCaches, ImageCachesArgs
from components.aws.job_access import JobAccess, JobAccessArgs
from components.aws.network import Nets, Network, NetworkArgs, existing
from components.aws.node_pools import GpuPool, GpuPoolArgs, NodePoolArgs, SystemPool
from components.aws.security_groups import EfaSecurityGroup, EfaSecurityGroupArgs
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import (
    AwsCluster,
    ElasticFileSystem,
    LustreFileSystem,
    NewNetwork,
)


@dataclass(frozen=True, kw_only=True)
class AwsInfrastructureArgs:
    """Arguments of :class:`AwsInfrastructure`."""

    cluster: AwsCluster


class AwsInfrastructure(pulumi.ComponentResource):
    """Network, cluster, node pools, add-ons and file systems in one account and region.

    ``ready``: what must exist before anything goes into the cluster, and stay until it is out.
    """

    cluster: EksCluster
    nets: Nets
    efa: EfaSecurityGroup
    lustre: Sequence[Lustre]
    elastic: Sequence[Elastic]
    ready: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        args: AwsInfrastructureArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railhead:aws:Infrastructure", name, None, opts)
        cluster, platform = args.cluster, args.cluster.platform
        self._name, self._args = name, args
        provider = Provider(
            f"{name}-provider",
            region=platform.region,
            # Credentials of another account are refused before anything is made in it.
            allowed_account_ids=[platform.account],
            default_tags={"tags": {**platform.tags, "railhead.dev/cluster": cluster.name}},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._below = pulumi.ResourceOptions(parent=self, providers=[provider])
        self.nets = self._network(provider)
        self.efa = EfaSecurityGroup(
            f"{name}-efa",
            EfaSecurityGroupArgs(vpc_id=self.nets.vpc_id, cluster=cluster.name),
            opts=self._below,
        )
        self.cluster = EksCluster(
            f"{name}-eks", EksClusterArgs(cluster=cluster, nets=self.nets), opts=self._below
        )
        early = self._addons("early", before_nodes(), after=[])
        role = ServiceRole(
            f"{name}-nodes",
            ServiceRoleArgs(
                cluster=cluster.name,
                what="nodes",
                service="ec2.amazonaws.com",
                region=platform.region,
                # No CNI, no storage, no log: those rights are the add-ons' own.
                managed=["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"],
            ),
            opts=self._below,
        )
        shared = NodePoolArgs(
            cluster=cluster,
            cluster_name=self.cluster.cluster.name,
            cluster_group=self.cluster.security_group,
            node_role=role.role.arn,
            nets=self.nets,
            after=[*role.attached, *self._image_caches(role), *early.addons.values()],
        )
        system = SystemPool(f"{name}-system", shared, opts=self._below)
        pools = [
            GpuPool(
                f"{name}-pool-{pool.name}",
                GpuPoolArgs(
                    **{**vars(shared), "after": [*shared.after, *self.efa.ready]},
                    pool=pool,
                    efa_group=self.efa.group.id,
                ),
                opts=self._below,
            )
            for pool in cluster.pools
        ]
        self._file_systems()
        late = self._addons("late", [*with_nodes(), *self._drivers()], after=[system.node_group])
        access = [
            JobAccess(
                f"{name}-jobs-{one.namespace}",
                JobAccessArgs(
                    cluster=cluster.name,
                    cluster_name=self.cluster.cluster.name,
                    platform=platform,
                    access=one,
                    after=list(early.addons.values()),
                ),
                opts=self._below,
            )
            for one in platform.s3_access
        ]
        # The pools too: what runs on them is let go of while they are there.
        self.ready = [
            *[one.association for one in access],
            *self.cluster.access,
            system.node_group,
            *[pool.node_group for pool in pools],
            *late.addons.values(),
        ]
        self.register_outputs({"cluster": self.cluster.cluster.arn})

    def _network(self, provider: Provider) -> Nets:
        cluster = self._args.cluster
        network = cluster.platform.network
        if not isinstance(network, NewNetwork):
            return existing(network, pulumi.InvokeOutputOptions(parent=self, provider=provider))
        return Network(
            f"{self._name}-network",
            NetworkArgs(network=network, region=cluster.platform.region, cluster=cluster.name),
            opts=self._below,
        ).nets

    def _image_caches(self, nodes: ServiceRole) -> Sequence[pulumi.Resource]:
        platform = self._args.cluster.platform
        if not platform.image_caches:
            return ()
        args = ImageCachesArgs(platform=platform, role=nodes.role.name)
        return ImageCaches(f"{self._name}-image-caches", args, opts=self._below).ready

    def _addons(
        self, which: str, wanted: Sequence[Wanted], after: Sequence[pulumi.Resource]
    ) -> Addons:
        cluster = self._args.cluster
        return Addons(
            f"{self._name}-{which}",
            AddonsArgs(
                cluster=cluster.name,
                cluster_name=self.cluster.cluster.name,
                platform=cluster.platform,
                wanted=wanted,
                after=after,
            ),
            opts=self._below,
        )

    def _file_systems(self) -> None:
        cluster, platform = self._args.cluster, self._args.cluster.platform
        nodes = self.cluster.security_group
        self.lustre = [
            Lustre(
                f"{self._name}-lustre-{wanted.name}",
                LustreArgs(
                    cluster=cluster,
                    nets=self.nets,
                    nodes=nodes,
                    file_system=wanted,
                    efa=self.efa,
                ),
                opts=self._below,
            )
            for wanted in platform.storage
            if isinstance(wanted, LustreFileSystem)
        ]
        self.elastic = [
            Elastic(
                f"{self._name}-efs-{wanted.name}",
                ElasticArgs(cluster=cluster, nets=self.nets, nodes=nodes, file_system=wanted),
                opts=self._below,
            )
            for wanted in platform.storage
            if isinstance(wanted, ElasticFileSystem)
        ]

    def _drivers(self) -> list[Wanted]:
        """The drivers of the file systems that there are."""
        wanted = []
        if self.lustre:
            wanted.append(Wanted(addon=catalogue.FSX_CSI, statements=lustre_driver_policy()))
        if self.elastic:
            systems = [elastic.file_system for elastic in self.elastic]
            wanted.append(
                Wanted(addon=catalogue.EFS_CSI, statements=elastic_driver_policy(systems))
            )
        return wanted
