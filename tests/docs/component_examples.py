"""An example of each component; ``docs/components`` shows them and a test runs them.

``aws_network_Network`` is the example of ``railhead.components.aws.network.Network``. Names and
addresses are made up.
"""

# ruff: noqa: N802 - a page shows the body of each, which is named for its class
from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from railhead import config
from railhead.catalog.versions import COMBINATIONS, VOLCANO
from railhead.components import arguments
from railhead.components.aws.addons import Addons, AddonsArgs, before_nodes
from railhead.components.aws.eks_cluster import EksCluster, EksClusterArgs
from railhead.components.aws.file_systems import Elastic, ElasticArgs, Lustre, LustreArgs
from railhead.components.aws.identity import PodRole, PodRoleArgs, ServiceRole, ServiceRoleArgs
from railhead.components.aws.image_caches import ImageCaches, ImageCachesArgs
from railhead.components.aws.infrastructure import AwsInfrastructure, AwsInfrastructureArgs
from railhead.components.aws.job_access import JobAccess, JobAccessArgs
from railhead.components.aws.network import Nets, Network, NetworkArgs
from railhead.components.aws.node_pools import GpuPool, GpuPoolArgs, SystemPool, SystemPoolArgs
from railhead.components.aws.security_groups import (
    EfaSecurityGroup,
    EfaSecurityGroupArgs,
    StorageSecurityGroup,
    StorageSecurityGroupArgs,
)
from railhead.components.aws.volumes import Volumes, VolumesArgs
from railhead.components.contract import ContractArgs, PublishedContract
from railhead.components.controllers.charts import Chart, ControllerArgs
from railhead.components.controllers.gpu_operator import GpuOperator, GpuOperatorArgs
from railhead.components.controllers.jobset import JobSet
from railhead.components.controllers.kueue import Kueue, KueueArgs
from railhead.components.controllers.trainer import Trainer
from railhead.components.controllers.volcano import Volcano, VolcanoArgs
from railhead.components.existing.nfs import Nfs, NfsArgs
from railhead.components.fabric.fabric import Fabric
from railhead.components.fabric.gke import GkeFabric, GkeFabricArgs
from railhead.components.fabric.modes.dranet import Dranet, DranetArgs
from railhead.components.fabric.modes.efa import Efa, EfaArgs
from railhead.components.fabric.network_operator import NetworkOperator, NetworkOperatorArgs
from railhead.components.fabric.objects import FabricArgs
from railhead.components.fabric.rails import Rails, RailsArgs
from railhead.components.fabric.sriov import Sriov, SriovArgs
from railhead.components.gcp import filestore, gke_cluster, gpu_pool, lustre, system_pool, volumes
from railhead.components.gcp.bucket import TrainingBucket, TrainingBucketArgs
from railhead.components.gcp.cluster_networks import ClusterNetworks, ClusterNetworksArgs
from railhead.components.gcp.infrastructure import GcpInfrastructure, GcpInfrastructureArgs
from railhead.components.gcp.node_identity import NodeIdentity, NodeIdentityArgs
from railhead.components.gcp.node_networks import NodeNetworks, NodeNetworksArgs
from railhead.components.gcp.primary_network import NetworkRefs, PrimaryNetwork, PrimaryNetworkArgs
from railhead.components.gcp.researchers import ResearcherAccess, ResearcherAccessArgs
from railhead.components.gcp.service_access import ServiceAccess, ServiceAccessArgs
from railhead.components.gcp.storage_names import StorageNames, StorageNamesArgs
from railhead.components.guards.guards import Guards, GuardsArgs
from railhead.components.guards.node_gate import GatedPool, NodeGate, NodeGateArgs
from railhead.components.job_owners import JobOwners, JobOwnersArgs
from railhead.components.namespaces.checkpoints import Checkpoints, CheckpointsArgs
from railhead.components.namespaces.claims import Claims, ClaimsArgs
from railhead.components.namespaces.datasets import Datasets
from railhead.components.namespaces.jobs_account import JobsAccount, JobsAccountArgs
from railhead.components.namespaces.nccl_profile import NcclProfile, NcclProfileArgs
from railhead.components.namespaces.network_policies import (
    NetworkPolicies,
    NetworkPoliciesArgs,
    Traffic,
)
from railhead.components.namespaces.networks import RailNetworks, RailNetworksArgs
from railhead.components.namespaces.researchers import Researchers, ResearchersArgs
from railhead.components.namespaces.training_namespace import (
    TrainingNamespace,
    TrainingNamespaceArgs,
)
from railhead.components.queueing.priorities import Priorities, PrioritiesArgs
from railhead.components.queueing.provisioning import Provisioning, ProvisioningArgs
from railhead.components.queueing.queues import Queues, QueuesArgs
from railhead.components.queueing.volcano import VolcanoQueues, VolcanoQueuesArgs
from railhead.components.runtimes import Runtimes, RuntimesArgs, TrainingRuntime
from railhead.components.training_cluster import TrainingCluster, TrainingClusterArgs
from railhead.components.watching.watching import Watched
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes.rdma_shared import RdmaSharedFabric
from railhead.fabric.modes.sriov_roce import SriovRoceFabric
from railhead.fabric.railed import FunctionRail, NetworkOperatorConfig, NvIpam, Rail
from railhead.gate.expectation import Expectation, Interface
from railhead.model.cluster import CheckpointConfig, Pool
from railhead.model.gpu import GpuOperatorConfig
from railhead.platform.aws.model import (
    AwsPlatform,
    AwsPool,
    Bucket,
    ElasticFileSystem,
    ImageCache,
    LustreFileSystem,
    NewNetwork,
    OnDemand,
    PrivateEndpoint,
    S3Access,
)
from railhead.platform.aws.model import (
    SystemPool as AwsSystemPool,
)
from railhead.platform.existing.storage import NfsClassConfig
from railhead.platform.gcp.model import (
    BucketStorage,
    DnsEndpoint,
    FilestoreStorage,
    GcpNewNetwork,
    GcpPlatform,
    GcpPool,
    LustreStorage,
    NewGpuNetworks,
)
from railhead.platform.gcp.model import (
    SystemPool as GcpSystemPool,
)
from railhead.resolve.cluster import resolve
from railhead.resolve.fences import PullSecret
from railhead.resolve.guards import guards
from railhead.resolve.queues import ClusterQueue, Flavor
from railhead.resolve.queues import Provisioning as Requested
from railhead.resolve.runtimes import runtimes


def training_cluster_TrainingCluster() -> None:
    described = pulumi.Config("railhead").require_object("cluster")
    cluster = config.parse(described, where="stacks/Pulumi.lab.yaml")
    training = TrainingCluster(cluster.name, TrainingClusterArgs(cluster=cluster))
    pulumi.export("contract", training.contract.model_dump(mode="json"))


def contract_PublishedContract() -> None:
    described = pulumi.Config("railhead").require_object("cluster")
    cluster = config.parse(described, where="stacks/Pulumi.lab.yaml")
    PublishedContract("contract", ContractArgs(contract=resolve(cluster).contract))


def job_owners_JobOwners() -> None:
    JobOwners("jobs", JobOwnersArgs(namespaces={"training": []}))


def runtimes_Runtimes() -> None:
    container = {"name": "node", "image": "registry.example.com/team/train:2026-11"}
    Runtimes(
        "runtimes",
        RuntimesArgs(
            runtimes=[
                TrainingRuntime(
                    name="torch",
                    labels={"trainer.kubeflow.org/framework": "torch"},
                    spec={
                        "mlPolicy": {"numNodes": 2, "torch": {"numProcPerNode": "auto"}},
                        "template": {
                            "spec": {
                                "replicatedJobs": [
                                    {
                                        "name": "node",
                                        "template": {
                                            "spec": {
                                                "template": {"spec": {"containers": [container]}}
                                            }
                                        },
                                    }
                                ]
                            }
                        },
                    },
                )
            ]
        ),
    )


def controllers_kueue_Kueue() -> None:
    row = COMBINATIONS["proven"].kueue
    Kueue("kueue", KueueArgs(chart=Chart.of(row), image=row.image, tag=row.tag))


def controllers_jobset_JobSet() -> None:
    row = COMBINATIONS["proven"].jobset
    JobSet("jobset", ControllerArgs(chart=Chart.of(row), image=row.image, tag=row.tag))


def controllers_trainer_Trainer() -> None:
    row = COMBINATIONS["proven"].trainer
    Trainer("trainer", ControllerArgs(chart=Chart.of(row), image=row.image, tag=row.tag))


def controllers_gpu_operator_GpuOperator() -> None:
    addons = COMBINATIONS["proven"].addons
    GpuOperator(
        "gpu-operator",
        GpuOperatorArgs(
            config=GpuOperatorConfig(),
            operator=Chart.of(addons["gpu-operator"]),
            dra_driver=Chart.of(addons["dra-driver-nvidia-gpu"]),
        ),
    )


def existing_nfs_Nfs() -> None:
    Nfs(
        "nfs",
        NfsArgs(
            chart=Chart.of(COMBINATIONS["proven"].addons["csi-driver-nfs"]),
            directory="h100",
            classes=[NfsClassConfig(name="nfs", server="nas.example.com", share="/export/train")],
        ),
    )


def fabric_fabric_Fabric() -> None:
    Fabric(
        "fabric",
        FabricArgs(
            fabric=RdmaSharedFabric(
                kind="roce",
                mode="rdma-shared",
                network_operator=NetworkOperatorConfig(),
                rails=(
                    Rail(name="rail-0", master="ens1", subnet="10.10.0.0/24"),
                    Rail(name="rail-1", master="ens2", subnet="10.10.1.0/24"),
                ),
            ),
            pools=[
                Pool(
                    name="h100",
                    instance_type="dgx-h100",
                    nodes=4,
                    node_selector={"example.com/pool": "h100"},
                )
            ],
            addons=COMBINATIONS["proven"].addons,
            jobs_label="jobset.sigs.k8s.io/jobset-name",
        ),
    )


def fabric_gke_GkeFabric() -> None:
    plugin = FABRICS["tcpxo"].plugin
    assert plugin is not None
    GkeFabric("gke", GkeFabricArgs(plugin=plugin))


def fabric_modes_dranet_Dranet() -> None:
    chart = Chart.of(COMBINATIONS["proven"].addons["dranet"])
    Dranet("dranet", DranetArgs(chart=chart))


def fabric_modes_efa_Efa() -> None:
    Efa(
        "efa",
        EfaArgs(
            allocation="device-plugin",
            chart=Chart.of(COMBINATIONS["proven"].addons["aws-efa-k8s-device-plugin"]),
            instance_types=["p5.48xlarge"],
        ),
    )


def fabric_network_operator_NetworkOperator() -> None:
    row = COMBINATIONS["proven"].addons["network-operator"]
    NetworkOperator(
        "network-operator",
        NetworkOperatorArgs(
            chart=Chart.of(row),
            images=row.operands,
            nv_ipam=True,
            jobs_label="jobset.sigs.k8s.io/jobset-name",
            nodes={
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "example.com/pool", "operator": "In", "values": ["gpu"]}
                            ]
                        }
                    ]
                }
            },
        ),
    )


def fabric_rails_Rails() -> None:
    Rails(
        "rails",
        RailsArgs(
            fabric=RdmaSharedFabric(
                kind="roce",
                mode="rdma-shared",
                network_operator=NetworkOperatorConfig(),
                ipam=NvIpam(kind="nv-ipam"),
                rails=(Rail(name="rail-0", master="ens1", subnet="10.10.0.0/24"),),
            ),
            pods_per_node=8,
            nodes={"nodeSelectorTerms": []},
            operator_namespace="nvidia-network-operator",
        ),
    )


def fabric_sriov_Sriov() -> None:
    Sriov(
        "sriov",
        SriovArgs(
            fabric=SriovRoceFabric(
                kind="roce",
                mode="sriov-roce",
                network_operator=NetworkOperatorConfig(),
                ipam=NvIpam(kind="nv-ipam"),
                rails=(FunctionRail(name="rail-0", pf_names=("ens1",), subnet="10.10.0.0/24"),),
            ),
            pools=[
                Pool(
                    name="h100",
                    instance_type="dgx-h100",
                    nodes=4,
                    node_selector={"example.com/pool": "h100"},
                )
            ],
            namespace="nvidia-network-operator",
        ),
    )


def guards_guards_Guards() -> None:
    described = pulumi.Config("railhead").require_object("cluster")
    cluster = config.parse(described, where="stacks/Pulumi.lab.yaml")
    Guards("guards", GuardsArgs(guards=guards(cluster, runtimes(cluster))))


def guards_node_gate_NodeGate() -> None:
    NodeGate(
        "gate",
        NodeGateArgs(
            pools=[
                GatedPool(
                    name="h100",
                    node_selector={"example.com/pool": "h100"},
                    expectation=Expectation(
                        fabric="roce",
                        verbs=True,
                        link_layer="Ethernet",
                        rate_gbps=400,
                        interfaces=(Interface(name="ens1"), Interface(name="ens2")),
                    ),
                )
            ]
        ),
    )


def namespaces_checkpoints_Checkpoints() -> None:
    Checkpoints(
        "checkpoints",
        CheckpointsArgs(
            namespace="training",
            claims={
                "checkpoints": {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "nfs",
                    "resources": {"requests": {"storage": "10Ti"}},
                }
            },
        ),
    )


def namespaces_datasets_Datasets() -> None:
    Datasets(
        "datasets",
        CheckpointsArgs(
            namespace="training",
            claims={
                "imagenet": {
                    "accessModes": ["ReadOnlyMany"],
                    "volumeName": "imagenet",
                    "storageClassName": "",
                    "resources": {"requests": {"storage": "1Ti"}},
                }
            },
        ),
    )


def namespaces_claims_Claims() -> None:
    request = {"deviceClassName": "dranet", "allocationMode": "ExactCount", "count": 8}
    Claims(
        "claims",
        ClaimsArgs(
            namespace="training",
            templates={
                "railhead-nics-8": {
                    "spec": {"devices": {"requests": [{"name": "nics", "exactly": request}]}}
                }
            },
        ),
    )


def namespaces_jobs_account_JobsAccount() -> None:
    JobsAccount(
        "jobs",
        JobsAccountArgs(
            namespace="training", pull_secrets=[PullSecret(name="registry", config=None)]
        ),
    )


def namespaces_nccl_profile_NcclProfile() -> None:
    NcclProfile(
        "nccl",
        NcclProfileArgs(namespace="training", files={"nccl.conf": "NCCL_SOCKET_IFNAME=eth0\n"}),
    )


def namespaces_network_policies_NetworkPolicies() -> None:
    NetworkPolicies(
        "network-policies",
        NetworkPoliciesArgs(
            namespace="training",
            traffic=Traffic(jobs_label="jobset.sigs.k8s.io/jobset-name", dns=["10.96.0.10/32"]),
        ),
    )


def namespaces_networks_RailNetworks() -> None:
    rail = {"cniVersion": "0.3.1", "type": "macvlan", "master": "ens1", "mtu": 9000}
    RailNetworks(
        "networks",
        RailNetworksArgs(namespace="training", networks={"rail-0": {"config": rail}}),
    )


def namespaces_researchers_Researchers() -> None:
    described = pulumi.Config("railhead").require_object("cluster")
    cluster = config.parse(described, where="stacks/Pulumi.lab.yaml")
    Researchers("researchers", ResearchersArgs(access=resolve(cluster).access))


def namespaces_training_namespace_TrainingNamespace() -> None:
    described = pulumi.Config("railhead").require_object("cluster")
    cluster = config.parse(described, where="stacks/Pulumi.lab.yaml")
    for namespace in resolve(cluster).namespaces:
        TrainingNamespace(
            namespace.name,
            TrainingNamespaceArgs(
                namespace=namespace,
                networks=arguments.networks(cluster),
                traffic=arguments.traffic(cluster, namespace.name),
            ),
        )


def queueing_priorities_Priorities() -> None:
    Priorities(
        "priorities",
        PrioritiesArgs(priorities={"urgent": {"value": 100, "description": "Deadlines"}}),
    )


def queueing_provisioning_Provisioning() -> None:
    Provisioning(
        "provisioning",
        ProvisioningArgs(
            provisioning=Requested(
                pools=("h100",),
                name="flex-start",
                spec={"provisioningClassName": "queued-provisioning.gke.io"},
            )
        ),
    )


def queueing_queues_Queues() -> None:
    quota = {"name": "nvidia.com/gpu", "nominalQuota": 32}
    group = {
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "h100", "resources": [quota]}],
    }
    Queues(
        "queues",
        QueuesArgs(
            topology="hosts",
            levels={"levels": [{"nodeLabel": "kubernetes.io/hostname"}]},
            flavors=[
                Flavor(
                    pool="h100",
                    name="h100",
                    spec={"nodeLabels": {"example.com/pool": "h100"}, "topologyName": "hosts"},
                )
            ],
            cluster_queues=[
                ClusterQueue(
                    name="training",
                    pools=("h100",),
                    spec={"namespaceSelector": {}, "resourceGroups": [group]},
                )
            ],
        ),
    )


def queueing_volcano_VolcanoQueues() -> None:
    VolcanoQueues("queues", VolcanoQueuesArgs(queues={"training": {"reclaimable": True}}))


def watching_watching_Watched() -> None:
    described = pulumi.Config("railhead").require_object("cluster")
    cluster = config.parse(
        described | {"watching": {"kind": "files"}}, where="stacks/Pulumi.lab.yaml"
    )
    watched = resolve(cluster).watching
    if watched is not None:
        Watched("watching", arguments.watched(cluster, watched))


def aws_network_Network() -> None:
    Network(
        "network",
        NetworkArgs(
            network=NewNetwork(
                kind="new",
                cidr="10.20.0.0/16",
                availability_zones=("us-east-2a", "us-east-2b", "us-east-2c"),
            ),
            region="us-east-2",
            cluster="p5-prod",
        ),
    )


def aws_eks_cluster_EksCluster() -> None:
    EksCluster(
        "eks",
        EksClusterArgs(
            name="p5-prod",
            region="us-east-2",
            kubernetes="1.35",
            nets=Nets(
                vpc_id="vpc-0a1b2c3d4e5f60718",
                private={
                    "us-east-2a": "subnet-0a1b2c3d4e5f60718",
                    "us-east-2b": "subnet-0b1b2c3d4e5f60718",
                },
            ),
            endpoint=PrivateEndpoint(kind="private", from_cidrs=("10.0.0.0/16",)),
            administrators=["arn:aws:iam::123456789012:role/platform-engineers"],
            researchers_group="ml-researchers",
        ),
    )


def aws_node_pools_SystemPool() -> None:
    SystemPool(
        "system",
        SystemPoolArgs(
            cluster="p5-prod",
            cluster_name="p5-prod",
            kubernetes="1.35",
            node_role="arn:aws:iam::123456789012:role/p5-prod-nodes",
            nets=Nets(
                vpc_id="vpc-0a1b2c3d4e5f60718",
                private={"us-east-2a": "subnet-0a1b2c3d4e5f60718"},
            ),
            pool=AwsSystemPool(instance_type="m7i.2xlarge", nodes=3, max_nodes=6),
        ),
    )


def aws_node_pools_GpuPool() -> None:
    GpuPool(
        "h100",
        GpuPoolArgs(
            cluster="p5-prod",
            cluster_name="p5-prod",
            kubernetes="1.35",
            node_role="arn:aws:iam::123456789012:role/p5-prod-nodes",
            nets=Nets(
                vpc_id="vpc-0a1b2c3d4e5f60718",
                private={"us-east-2a": "subnet-0a1b2c3d4e5f60718"},
            ),
            pool=AwsPool(
                name="h100",
                instance_type="p5.48xlarge",
                nodes=4,
                node_selector={"railhead.dev/pool": "h100"},
                availability_zone="us-east-2a",
                purchase=OnDemand(kind="on-demand"),
            ),
            cluster_group="sg-0a1b2c3d4e5f60718",
            efa_group="sg-0b1b2c3d4e5f60718",
        ),
    )


def aws_addons_Addons() -> None:
    Addons(
        "addons",
        AddonsArgs(
            cluster="p5-prod",
            cluster_name="p5-prod",
            region="us-east-2",
            kubernetes="1.35",
            wanted=before_nodes(),
            nodes=22,
        ),
    )


def aws_file_systems_Lustre() -> None:
    nets = Nets(vpc_id="vpc-0a1b2c3d4e5f60718", private={"us-east-2a": "subnet-0a1b2c3d4e5f60718"})
    efa = EfaSecurityGroup(
        "lustre-efa", EfaSecurityGroupArgs(vpc_id=nets.vpc_id, cluster="p5-prod")
    )
    Lustre(
        "lustre",
        LustreArgs(
            cluster="p5-prod",
            nets=nets,
            nodes="sg-0a1b2c3d4e5f60718",
            efa=efa,
            file_system=LustreFileSystem(
                kind="lustre",
                name="lustre",
                availability_zone="us-east-2a",
                capacity_gib=38400,
                throughput=250,
                efa=True,
            ),
        ),
    )


def aws_file_systems_Elastic() -> None:
    Elastic(
        "shared",
        ElasticArgs(
            cluster="p5-prod",
            nets=Nets(
                vpc_id="vpc-0a1b2c3d4e5f60718",
                private={"us-east-2a": "subnet-0a1b2c3d4e5f60718"},
            ),
            nodes="sg-0a1b2c3d4e5f60718",
            file_system=ElasticFileSystem(kind="efs", name="shared"),
        ),
    )


def aws_identity_ServiceRole() -> None:
    ServiceRole(
        "nodes",
        ServiceRoleArgs(
            cluster="p5-prod",
            region="us-east-2",
            what="nodes",
            service="ec2.amazonaws.com",
            managed=["AmazonEKSWorkerNodePolicy"],
        ),
    )


def aws_identity_PodRole() -> None:
    PodRole(
        "efs",
        PodRoleArgs(
            cluster="p5-prod",
            region="us-east-2",
            service_account="efs-csi-controller-sa",
            managed=["service-role/AmazonEFSCSIDriverPolicy"],
        ),
    )


def aws_image_caches_ImageCaches() -> None:
    ImageCaches(
        "caches",
        ImageCachesArgs(
            region="us-east-2",
            account="123456789012",
            caches=[ImageCache(registry="quay.io", prefix="quay")],
            role="p5-prod-nodes",
        ),
    )


def aws_infrastructure_AwsInfrastructure() -> None:
    AwsInfrastructure(
        "aws",
        AwsInfrastructureArgs(
            name="p5-prod",
            platform=AwsPlatform(
                kind="aws",
                region="us-east-2",
                account="123456789012",
                kubernetes="1.35",
                network=NewNetwork(
                    kind="new",
                    cidr="10.20.0.0/16",
                    availability_zones=("us-east-2a", "us-east-2b", "us-east-2c"),
                ),
                endpoint=PrivateEndpoint(kind="private", from_cidrs=("10.0.0.0/16",)),
                administrators=("arn:aws:iam::123456789012:role/platform-engineers",),
            ),
            pools=[
                AwsPool(
                    name="h100",
                    instance_type="p5.48xlarge",
                    nodes=4,
                    node_selector={"railhead.dev/pool": "h100"},
                    availability_zone="us-east-2a",
                    purchase=OnDemand(kind="on-demand"),
                )
            ],
            researchers_group="ml-researchers",
        ),
    )


def aws_job_access_JobAccess() -> None:
    JobAccess(
        "jobs",
        JobAccessArgs(
            cluster="p5-prod",
            cluster_name="p5-prod",
            region="us-east-2",
            access=S3Access(namespace="training", buckets=(Bucket(name="acme-datasets"),)),
        ),
    )


def aws_security_groups_EfaSecurityGroup() -> None:
    EfaSecurityGroup("efa", EfaSecurityGroupArgs(vpc_id="vpc-0a1b2c3d4e5f60718", cluster="p5-prod"))


def aws_security_groups_StorageSecurityGroup() -> None:
    StorageSecurityGroup(
        "nfs",
        StorageSecurityGroupArgs(
            vpc_id="vpc-0a1b2c3d4e5f60718",
            cluster="p5-prod",
            what="shared",
            ports=((2049, 2049),),
            nodes="sg-0a1b2c3d4e5f60718",
        ),
    )


def aws_volumes_Volumes() -> None:
    elastic = Elastic(
        "results",
        ElasticArgs(
            cluster="p5-prod",
            nets=Nets(
                vpc_id="vpc-0a1b2c3d4e5f60718",
                private={"us-east-2a": "subnet-0a1b2c3d4e5f60718"},
            ),
            nodes="sg-0a1b2c3d4e5f60718",
            file_system=ElasticFileSystem(kind="efs", name="results"),
        ),
    )
    Volumes(
        "volumes",
        VolumesArgs(
            lustre=[],
            elastic=[elastic],
            checkpoints=[
                CheckpointConfig(
                    name="checkpoints",
                    namespace="training",
                    storage_class="results",
                    size="10Ti",
                    mount_path="/checkpoints",
                )
            ],
        ),
    )


def gcp_primary_network_PrimaryNetwork() -> None:
    PrimaryNetwork(
        "network",
        PrimaryNetworkArgs(
            cluster="a3-mega",
            region="us-central1",
            network=GcpNewNetwork(
                kind="new", nodes="10.0.0.0/20", pods="10.4.0.0/14", services="10.0.32.0/20"
            ),
        ),
    )


def gcp_node_networks_NodeNetworks() -> None:
    NodeNetworks(
        "gpu-networks",
        NodeNetworksArgs(
            cluster="a3-mega",
            project="acme-training",
            region="us-central1",
            zone="us-central1-c",
            instance_type="a3-megagpu-8g",
            networks=NewGpuNetworks(kind="new", cidr="192.168.0.0/16"),
        ),
    )


def gcp_cluster_networks_ClusterNetworks() -> None:
    attached = NodeNetworks(
        "attached",
        NodeNetworksArgs(
            cluster="a3-mega",
            project="acme-training",
            region="us-central1",
            zone="us-central1-c",
            instance_type="a3-megagpu-8g",
            networks=NewGpuNetworks(kind="new", cidr="192.168.0.0/16"),
        ),
    ).attached
    ClusterNetworks("networks", ClusterNetworksArgs(networks=attached))


def gcp_node_identity_NodeIdentity() -> None:
    NodeIdentity("nodes", NodeIdentityArgs(cluster="a3-mega", project="acme-training"))


def gcp_gke_cluster_GkeCluster() -> None:
    network = NetworkRefs(
        network="projects/acme-training/global/networks/training",
        network_name="training",
        subnetwork="projects/acme-training/regions/us-central1/subnetworks/nodes",
        pods_range="pods",
        services_range="services",
    )
    gke_cluster.GkeCluster(
        "gke",
        gke_cluster.GkeClusterArgs(
            cluster="a3-mega",
            project="acme-training",
            location="us-central1-c",
            zone="us-central1-c",
            network=network,
            service_account="a3-mega-nodes@acme-training.iam.gserviceaccount.com",
            endpoint=DnsEndpoint(kind="dns"),
        ),
    )


def gcp_gpu_pool_GpuPool() -> None:
    gpu_pool.GpuPool(
        "h200",
        gpu_pool.GpuPoolArgs(
            cluster="projects/acme-training/locations/us-central1-c/clusters/a3",
            cluster_name="a3",
            location="us-central1-c",
            region="us-central1",
            zone="us-central1-c",
            pool=GcpPool.model_validate(
                {
                    "name": "h100-mega",
                    "instance_type": "a3-megagpu-8g",
                    "nodes": 8,
                    "node_selector": {"railhead.dev/pool": "h100-mega"},
                    "capacity": {"kind": "on-demand"},
                    "placement": {"kind": "compact"},
                    "networking": "dranet",
                }
            ),
            service_account="a3-nodes@acme-training.iam.gserviceaccount.com",
        ),
    )


def gcp_system_pool_SystemPool() -> None:
    system_pool.SystemPool(
        "system",
        system_pool.SystemPoolArgs(
            cluster="projects/acme-training/locations/us-central1-c/clusters/a3-mega",
            location="us-central1-c",
            zone="us-central1-c",
            pool=GcpSystemPool(),
            service_account="a3-mega-nodes@acme-training.iam.gserviceaccount.com",
        ),
    )


def gcp_bucket_TrainingBucket() -> None:
    cluster = gcp.container.Cluster("gke", name="a3-mega", location="us-central1-c")
    TrainingBucket(
        "checkpoints",
        TrainingBucketArgs(
            project="acme-training",
            project_number="123456789012",
            region="us-central1",
            storage=BucketStorage(kind="bucket", name="checkpoints", bucket="acme-checkpoints"),
            namespaces=["training"],
            pool=cluster,
        ),
    )


def gcp_filestore_Filestore() -> None:
    network = NetworkRefs(
        network="projects/acme-training/global/networks/training",
        network_name="training",
        subnetwork="projects/acme-training/regions/us-central1/subnetworks/nodes",
        pods_range="pods",
        services_range="services",
    )
    filestore.Filestore(
        "filestore",
        filestore.FilestoreArgs(
            cluster="a3-mega",
            location="us-central1-c",
            network=network,
            storage=FilestoreStorage(
                kind="filestore", name="filestore", tier="zonal", capacity_gib=20480
            ),
        ),
    )


def gcp_lustre_Lustre() -> None:
    network = NetworkRefs(
        network="projects/acme-training/global/networks/training",
        network_name="training",
        subnetwork="projects/acme-training/regions/us-central1/subnetworks/nodes",
        pods_range="pods",
        services_range="services",
    )
    lustre.Lustre(
        "lustre",
        lustre.LustreArgs(
            cluster="a3-ultra",
            project="acme-training",
            zone="us-central1-c",
            network=network,
            storage=LustreStorage(
                kind="lustre",
                name="lustre",
                filesystem="train",
                capacity_gib=36000,
                throughput=500,
            ),
        ),
    )


def gcp_researchers_ResearcherAccess() -> None:
    ResearcherAccess(
        "researchers",
        ResearcherAccessArgs(project="acme-training", researchers="ml-researchers@example.com"),
    )


def gcp_service_access_ServiceAccess() -> None:
    network = NetworkRefs(
        network="projects/acme-training/global/networks/training",
        network_name="training",
        subnetwork="projects/acme-training/regions/us-central1/subnetworks/nodes",
        pods_range="pods",
        services_range="services",
    )
    ServiceAccess(
        "services",
        ServiceAccessArgs(cluster="a3-ultra", network=network, addresses="10.100.0.0/20"),
    )


def gcp_storage_names_StorageNames() -> None:
    network = NetworkRefs(
        network="projects/acme-training/global/networks/training",
        network_name="training",
        subnetwork="projects/acme-training/regions/us-central1/subnetworks/nodes",
        pods_range="pods",
        services_range="services",
    )
    StorageNames("names", StorageNamesArgs(cluster="a3-mega", network=network))


def gcp_volumes_Volumes() -> None:
    volumes.Volumes(
        "volumes",
        volumes.VolumesArgs(
            sources={
                "filestore": volumes.VolumeSource(
                    driver="filestore.csi.storage.gke.io",
                    handle="modeInstance/us-central1-c/a3-mega/train",
                    attributes={"ip": "10.1.2.3", "volume": "train"},
                )
            },
            claims=[
                CheckpointConfig(
                    name="checkpoints",
                    namespace="training",
                    storage_class="filestore",
                    size="20Ti",
                    mount_path="/checkpoints",
                )
            ],
        ),
    )


def gcp_infrastructure_GcpInfrastructure() -> None:
    GcpInfrastructure(
        "gcp",
        GcpInfrastructureArgs(
            name="a3-mega",
            platform=GcpPlatform.model_validate(
                {
                    "kind": "gcp",
                    "project": "acme-training",
                    "region": "us-central1",
                    "zone": "us-central1-c",
                    "endpoint": {"kind": "dns"},
                    "network": {
                        "kind": "new",
                        "nodes": "10.0.0.0/20",
                        "pods": "10.4.0.0/14",
                        "services": "10.0.32.0/20",
                    },
                    "gpu_networks": {"kind": "new", "cidr": "192.168.0.0/16"},
                }
            ),
            pools=[
                GcpPool.model_validate(
                    {
                        "name": "h100-mega",
                        "instance_type": "a3-megagpu-8g",
                        "nodes": 8,
                        "node_selector": {"railhead.dev/pool": "h100-mega"},
                        "capacity": {"kind": "on-demand"},
                        "placement": {"kind": "compact"},
                        "networking": "additional-networks",
                    }
                )
            ],
        ),
    )


def controllers_volcano_Volcano() -> None:
    row = VOLCANO
    Volcano(
        "volcano",
        VolcanoArgs(
            chart=Chart.of(row),
            image=row.image,
            tag=row.tag,
            scheduler="actions: allocate\n",
            scheduler_image=row.operands["scheduler"].reference,
            webhooks_image=row.operands["webhooks"].reference,
        ),
    )
