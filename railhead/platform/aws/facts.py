"""AWS: add-ons, file systems, endpoints and limits, every figure with its source.

What an instance type is has its row in :mod:`railhead.machines`; here is what the services
around it allow. Sizes are GiB, throughput MB/s for each TiB.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Addon:
    """An EKS add-on.

    Args:
        name: as ``DescribeAddonVersions`` lists it.
        service_account: in ``kube-system``, gets the add-on's rights by pod identity; None where it
            needs none.
        before_nodes: whether nodes need it to become ready. The others are Deployments, which need
            a node to run on.
        versions: Kubernetes minor -> the version that EKS gave by default when it was read.
        source: where the versions and the service account were read.
    """

    name: str
    service_account: str | None = None
    before_nodes: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str


_DEFAULTS = (
    "defaults of `aws eks describe-addon-versions` as public infrastructure repositories recorded "
    "them: 1.35 on 2026-10-02, the others on 2026-09-04"
)

VPC_CNI = Addon(
    name="vpc-cni",
    service_account="aws-node",
    before_nodes=True,
    versions=MappingProxyType(
        {
            "1.33": "v1.22.4-eksbuild.3",
            "1.34": "v1.22.4-eksbuild.3",
            "1.35": "v1.22.4-eksbuild.3",
            "1.36": "v1.22.4-eksbuild.3",
        }
    ),
    source=_DEFAULTS,
)
KUBE_PROXY = Addon(
    name="kube-proxy",
    before_nodes=True,
    versions=MappingProxyType(
        {
            "1.33": "v1.33.10-eksbuild.21",
            "1.34": "v1.34.6-eksbuild.21",
            "1.35": "v1.35.3-eksbuild.29",
            "1.36": "v1.36.0-eksbuild.17",
        }
    ),
    source=_DEFAULTS,
)
POD_IDENTITY_AGENT = Addon(
    name="eks-pod-identity-agent",
    before_nodes=True,
    versions=MappingProxyType({"1.34": "v1.3.10-eksbuild.3", "1.35": "v1.3.10-eksbuild.3"}),
    source=_DEFAULTS,
)
COREDNS = Addon(
    name="coredns",
    versions=MappingProxyType(
        {
            "1.33": "v1.12.4-eksbuild.29",
            "1.34": "v1.12.4-eksbuild.29",
            "1.35": "v1.13.2-eksbuild.31",
            "1.36": "v1.14.3-eksbuild.14",
        }
    ),
    source=_DEFAULTS,
)
NODE_MONITORING_AGENT = Addon(
    name="eks-node-monitoring-agent",
    # Of all minors, as EKS' default is whatever is new: before 1.6.7 a healthy NVLink mask is
    # fatal, in 1.7.0 and 1.7.1 any CRC error that an H100 ever had, and node repair replaces the
    # node (its CHANGELOG, and pull request 261).
    versions=MappingProxyType(dict.fromkeys(("1.33", "1.34", "1.35", "1.36"), "v1.6.7-eksbuild.1")),
    source="as a public infrastructure repository pins it beside kube-proxy v1.36.0, and the image "
    "that its chart names; finds accelerator and network faults that node repair acts upon (EKS "
    "user guide, node health)",
)
FSX_CSI = Addon(
    name="aws-fsx-csi-driver",
    service_account="fsx-csi-controller-sa",
    versions=MappingProxyType({"1.35": "v1.9.0-eksbuild.1"}),
    source="aws-fsx-csi-driver v1.9.0, newest in its README, with 1.35 in a public infrastructure "
    "repository; the service account is its chart's",
)
EFS_CSI = Addon(
    name="aws-efs-csi-driver",
    service_account="efs-csi-controller-sa",
    # Of all minors, as EKS' default moves by itself, and a node's mounts pass through its pod:
    # with another version they wait, or hang (its issue 1898; containers-roadmap, issue 2869).
    versions=MappingProxyType(dict.fromkeys(("1.33", "1.34", "1.35", "1.36"), "v3.4.1-eksbuild.1")),
    source="as public infrastructure repositories pin it for 1.31 and 1.35; the service account is "
    "its chart's",
)
ADDONS: Mapping[str, Addon] = MappingProxyType(
    {
        a.name: a
        for a in (
            VPC_CNI,
            KUBE_PROXY,
            POD_IDENTITY_AGENT,
            COREDNS,
            NODE_MONITORING_AGENT,
            FSX_CSI,
            EFS_CSI,
        )
    }
)

# EKS's own images by the architecture of the CPU (EKS API reference, AMITypes).
STANDARD_AMI: Mapping[str, str] = MappingProxyType(
    {"amd64": "AL2023_x86_64_STANDARD", "arm64": "AL2023_ARM_64_STANDARD"}
)
NVIDIA_AMI: Mapping[str, str] = MappingProxyType(
    {"amd64": "AL2023_x86_64_NVIDIA", "arm64": "AL2023_ARM_64_NVIDIA"}
)

# "Amazon EC2 instances with the EFA driver installed pre-allocate 5128 2MiB Huge Pages" (EKS user
# guide, node-efa). The accelerated image installs the driver alone, so the nodes reserve them.
EFA_HUGEPAGES_2MIB = 5128

# Releases of EKS' images whose kernel, 6.12.110, panics where it reclaims memory, so that nodes
# reboot by themselves; the next mends it. Of 1.36 and later the kernel is 6.18
# (amazon-eks-ami, releases v20261003 and v20261012; its issue 2845).
PANICS, PANICS_BEFORE, MENDED = frozenset({"20260930", "20261003"}), 36, "20261012"

# Sold in no other way (EC2 user guide, Capacity Blocks for ML; P6e-GB200 UltraServers).
CAPACITY_BLOCK_ONLY = frozenset({"p6e-gb200.36xlarge"})
# EKS user guide, ml-eks-nvidia-ultraserver: u-p6e-gb200x36 is 9 machines, u-p6e-gb200x72 is 18;
# "each UltraServer corresponds to one Capacity Block" (EC2 user guide, capacity-blocks-how).
ULTRASERVER_NODES: Mapping[str, tuple[int, ...]] = MappingProxyType({"p6e-gb200.36xlarge": (9, 18)})
# EC2 user guide, Capacity Blocks for ML: up to 182 days, up to 64 instances.
CAPACITY_BLOCK_DAYS = 182
CAPACITY_BLOCK_NODES = 64
# EKS API reference, NodegroupUpdateConfig: maxUnavailable.
UPDATE_NODES = 100
# Seconds that pods get where their node shuts down, from Kubernetes 1.34 on (amazon-eks-ami of
# 2026-07-23, nodeadm/internal/kubelet/config.go: 150, of which 30 are critical pods'), and about
# those that EC2's notice of two minutes leaves on spot (EC2 user guide, spot-instance-
# termination-notices).
SHUTDOWN_SECONDS = 120
# Security groups forget a TCP connection that is idle for so long, and drop what it sends then:
# after 350 seconds on Nitro v6, five days on others (EC2 API reference,
# ConnectionTrackingSpecificationRequest). NCCL's bootstrap, Gloo between checkpoints and Open MPI
# are silent for longer. Which types are Nitro v6: EC2 instance types guide, accelerated computing,
# hypervisor; P6e-GB200 is v5.
NITRO_V6 = frozenset({"p6-b200.48xlarge", "p6-b300.48xlarge"})
TCP_IDLE_SECONDS = 432000
# Memory of their GPUs is the CPU's as well, and the driver lets a NIC beside the GPU reach it only
# where an option of its module says not to judge the way: else NCCL has no EFA (NVIDIA/aicr,
# docs/user/validation.md, GPUDirect RDMA prerequisites; open-gpu-kernel-modules 580, nv-reg.h,
# GrdmaPciTopoCheckOverride). EKS' image does not set it (amazon-eks-ami, nvidia-kmod-load.sh at
# 81fec2e8, resolve-nvidia-driver.sh at 46d3c70a, which chooses 580 for them). From release 595 on
# the driver has no such option, and EFA no way.
COHERENT_MEMORY = frozenset({"p6e-gb200.36xlarge"})
# Their hosts have IPoIB interfaces of InfiniBand cards beside EFA's, which stay down: to EKS' node
# monitoring agent before 1.7.0 that is a fatal `InterfaceNotUp`, for which node repair replaces the
# node (its issue 157 and pull requests 202 and 238; v1.6.7, monitors/networking/monitor.go,
# checkInterfaces).
IDLE_INFINIBAND = frozenset({"p6-b200.48xlarge", "p6-b300.48xlarge"})
# What an account has at first, and may ask to be raised: nodes of a managed node group (EKS user
# guide, service-quotas); network interfaces in a zone, of which a P5 node has 33: the quota is a
# region's, and "enforced per Availability Zone"; rules of a security group in each direction (VPC
# user guide, amazon-vpc-limits: L-DF5E4CA3, L-0EA8095F); GiB of all Persistent 2 file systems of a
# region (FSx user guide, limits); managed node groups of a cluster (EKS user guide,
# service-quotas); TiB of all gp3 volumes of a region (Service Quotas, ebs, L-7A658B76), beyond
# which an instance ends as it starts.
GROUPS = 30
VOLUMES_TIB = 50
GROUP_NODES = 450
INTERFACES = 5000
GROUP_RULES = 60
LUSTRE_ACCOUNT_GIB = 100800

# --- FSx for Lustre, deployment type PERSISTENT_2 on SSD ------------------------------------------
# FSx API reference, CreateFileSystemLustreConfiguration: PerUnitStorageThroughput.
LUSTRE_THROUGHPUT = (125, 250, 500, 1000)
# FSx API reference, CreateFileSystem: 1200 GiB, or multiples of 2400 GiB.
LUSTRE_SMALLEST_GIB = 1200
LUSTRE_STEP_GIB = 2400
# FSx user guide, increasing storage capacity: an EFA-enabled file system grows by these steps.
LUSTRE_EFA_STEP_GIB: Mapping[int, int] = MappingProxyType(
    {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
)
# FSx user guide, using-fsx-lustre (deployment type availability): regions without Persistent 2;
# regions and Local Zones that have it with 125 and 250 MB/s for each TiB alone, and without EFA.
LUSTRE_NOWHERE = frozenset(
    """
    af-south-1 ap-south-2 ap-southeast-3 ap-southeast-4 eu-central-2 eu-south-1 eu-south-2
    eu-west-3 me-central-1 me-south-1 sa-east-1 us-gov-east-1 us-gov-west-1
    """.split()
)
LUSTRE_PLAIN = frozenset(
    """
    ap-east-2 ap-southeast-5 ap-southeast-7 ca-west-1 il-central-1 mx-central-1
    us-east-1-atl us-east-1-dfw us-west-2-phx
    """.split()
)
LUSTRE_PLAIN_THROUGHPUT = 250
# "2.15 ... is recommended for all new file systems" (same page).
LUSTRE_VERSION = "2.15"
# FSx user guide, file system access control: Lustre's own port, and those of its servers.
LUSTRE_PORTS = ((988, 988), (1018, 1023))
# "Nitro v4 (or higher) EC2 instances that support EFA, excluding the trn2 instance family" (FSx
# user guide, EFA-enabled file systems): all of our types with EFA but these, which are Nitro v3.
LUSTRE_WITHOUT_EFA = frozenset({"p4d.24xlarge", "p4de.24xlarge"})
# FSx user guide, configure-efa-clients, as aws-parallelcluster-cookbook checks its outcome
# (pcluster-diag, EFA_EXPECTED_BOUND_DEVICES): how many of its EFA devices a client takes, on P6 all
# of them; of a GB200 those that the host is connected to, which are the four of its template. Other
# types of several network cards take 2. And how many all clients of a file system take together.
LUSTRE_EFA_DEVICES: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(("p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"), 8)
    | {"p6-b300.48xlarge": 16, "p6e-gb200.36xlarge": 4, "p5.4xlarge": 1}
)
LUSTRE_EFA_DEVICES_OTHER = 2
# The same place, MIN_KEFALND_VERSION_P6: Lustre's EFA driver that these machines need.
KEFALND: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("p6-b200.48xlarge", "p6-b300.48xlarge", "p6e-gb200.36xlarge"), "1.1.1")
)
LUSTRE_EFA_CONNECTIONS = 1024
# FSx user guide, performance-tips: clients with more vCPUs need more threads than Lustre starts.
LUSTRE_MANY_CPUS = 64
# Where a node leaves how many of its EFA devices carry Lustre; railhead.gate.node reads it.
LUSTRE_EFA_RESULT = "/run/railhead/lustre-efa"
# EFS user guide, mount targets.
NFS_PORT = 2049
# Where each claim on EFS has its directory, below which its driver adds a UUID of 36 characters,
# and takes no longer path (aws-efs-csi-driver v3.4.1, controller.go, validatePathRequirements).
EFS_BASE = "/claims"
EFS_PATH, UUID = 100, 36

# --- Images of EKS' own ---------------------------------------------------------------------------
# EKS user guide, add-ons-images: one account for most regions, and these.
EKS_REGISTRY = "602401143452"
EKS_REGISTRIES: Mapping[str, str] = MappingProxyType(
    {
        "af-south-1": "877085696533",
        "ap-east-1": "800184023465",
        "ap-east-2": "533267051163",
        "ap-south-2": "900889452093",
        "ap-southeast-3": "296578399912",
        "ap-southeast-4": "491585149902",
        "ap-southeast-5": "151610086707",
        "ap-southeast-6": "333609536671",
        "ap-southeast-7": "121268973566",
        "ca-west-1": "761377655185",
        "cn-north-1": "918309763551",
        "cn-northwest-1": "961992271922",
        "eu-central-2": "900612956339",
        "eu-south-1": "590381155156",
        "eu-south-2": "455263428931",
        "il-central-1": "066635153087",
        "me-central-1": "759879836304",
        "me-south-1": "558608220178",
        "mx-central-1": "730335286997",
        "us-gov-east-1": "151742754352",
        "us-gov-west-1": "013241004608",
    }
)

# --- Network --------------------------------------------------------------------------------------
# What nodes without a way out call: EKS user guide, private clusters. S3 holds ECR's layers.
GATEWAY_ENDPOINTS = ("s3",)
INTERFACE_ENDPOINTS = ("ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "logs", "sts")
# The VPC CNI with prefixes (its README, ENABLE_PREFIX_DELEGATION and WARM_PREFIX_TARGET): a node's
# own address, sixteen for its pods, and sixteen at hand. A subnet's first four and last are AWS'.
ADDRESSES_A_NODE = 33
ADDRESSES_RESERVED = 5
# EC2 user guide, ec2-instance-topology-prerequisites: how many network nodes EC2 tells of a type,
# the last of which is the closest, and so how many layer labels its nodes get; and the regions that
# tell any. Elsewhere nodes have no such label (cloud-provider-aws, providers/v1/topology.go).
NETWORK_LAYER = "topology.k8s.aws/network-node-layer-"
NETWORK_LAYERS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(
        (
            "p4d.24xlarge",
            "p4de.24xlarge",
            "p5.48xlarge",
            "p5e.48xlarge",
            "p5en.48xlarge",
            "p6e-gb200.36xlarge",
        ),
        3,
    )
    | {"p5.4xlarge": 0, "p6-b200.48xlarge": 4, "p6-b300.48xlarge": 4}
)
NETWORK_LAYER_REGIONS = frozenset(
    """
    af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2
    ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ca-central-1 eu-central-1
    eu-central-2 eu-north-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1
    me-south-1 sa-east-1 us-east-1 us-east-2 us-gov-west-1 us-west-1 us-west-2
    """.split()
)
# EKS API reference, KubernetesNetworkConfigRequest: services get addresses of one of the two.
SERVICE_CIDRS = ("10.100.0.0/16", "172.20.0.0/16")
# VPC user guide: a VPC's and a subnet's IPv4 block.
VPC_WIDEST, VPC_NARROWEST = 16, 28

# Every region as pulumi-aws 7.51.1 lists them (aws.Region); a newer one is doubted, not refused.
REGIONS = frozenset(
    """
    af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1
    ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5
    ap-southeast-6 ap-southeast-7 ca-central-1 ca-west-1 cn-north-1 cn-northwest-1 eu-central-1
    eu-central-2 eu-isoe-west-1 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3
    il-central-1 me-central-1 me-south-1 mx-central-1 sa-east-1 us-east-1 us-east-2 us-gov-east-1
    us-gov-west-1 us-iso-east-1 us-iso-west-1 us-isob-east-1 us-isob-west-1 us-isof-east-1
    us-isof-south-1 us-west-1 us-west-2
    """.split()
)

# --- Kubernetes versions --------------------------------------------------------------------------
# EKS user guide, kubernetes-versions: the day on which a minor's standard support ends.
STANDARD_SUPPORT_ENDS: Mapping[str, date] = MappingProxyType(
    {
        "1.32": date(2026, 3, 23),
        "1.33": date(2026, 7, 29),
        "1.34": date(2026, 12, 2),
        "1.35": date(2027, 3, 27),
        "1.36": date(2027, 8, 2),
    }
)

# --- Access ---------------------------------------------------------------------------------------
# EKS user guide, access entries: groups may not start with these.
RESERVED_GROUPS = ("system:", "eks:", "aws:", "amazon:", "iam:")
ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"
# How an ARN begins its role that lacks the path of IAM Identity Center's, as STS tells it and the
# `aws-auth` of before had it: `The specified principalArn is invalid: invalid principal`
# (terraform-aws-eks, issue 2969; EKS user guide, creating-access-entries).
SSO_ROLE = ":role/AWSReservedSSO_"
# CloudWatch Logs API reference, PutRetentionPolicy.
LOG_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731,
    1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip

# --- Limits of names, in characters ---------------------------------------------------------------
# EKS API reference, CreateNodegroup; EC2 API reference, CreateLaunchTemplate, CreatePlacementGroup
# and CreateSecurityGroup; IAM API reference, CreateRole; EFS, CreateFileSystem; KMS, CreateAlias.
NODE_GROUP_NAME = 63
NODE_LABEL_KEY = 63
LAUNCH_TEMPLATE_NAME = 128
PLACEMENT_GROUP_NAME = 255
SECURITY_GROUP_NAME = 255
ROLE_NAME = 64
# IAM user guide, quotas: all policies of a role's own together, without their white space.
ROLE_POLICIES = 10240
CREATION_TOKEN = 64
# What `alias/` leaves.
KEY_ALIAS = 250
TAG_KEY, TAG_VALUE, TAGS = 128, 256, 50
# What the stack puts on everything, and on instances.
OWN_TAGS = ("railhead.dev/cluster", "railhead.dev/pool")
# EC2 user guide, tag restrictions, and IAM's pattern of them (IAM API reference, Tag).
TAG = re.compile(r"[\w\s.:/=+@-]*")
# EKS user guide, service quotas: of a public endpoint, and not adjustable.
ENDPOINT_CIDRS = 40
# "The blocks cannot include reserved addresses" (EKS user guide, cluster-endpoint): CreateCluster
# says `The following CIDRs are not allowed in publicAccessCidrs`. Those of documentation, which it
# refuses as well, stand for real ones in examples.
RESERVED_NETWORKS = tuple(
    map(
        ipaddress.IPv4Network,
        """
        0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16
        198.18.0.0/15 224.0.0.0/3
        """.split(),
    )
)


# EC2 user guide, Capacity Blocks: how far ahead one may start when it is bought.
CAPACITY_BLOCK_AHEAD_DAYS = 56


def is_local_zone(zone: str) -> bool:
    """Return whether a zone is a Local Zone, in which EKS has nodes alone (P6e-GB200 is in one).

    >>> is_local_zone("us-east-1-dfw-2a"), is_local_zone("us-east-1a")
    (True, False)
    """
    return re.search(r"-\d-[a-z]{3}-\d[a-z]$", zone) is not None


def panics(release: str) -> bool:
    """Return whether nodes of a release of EKS' image reboot by themselves.

    >>> panics("1.35.4-20261003"), panics("1.36.2-20261003"), panics("1.35.4-20261012")
    (True, False, False)
    """
    version, _, day = release.partition("-")
    return day in PANICS and int(version.split(".")[1]) < PANICS_BEFORE


#: What ECR pulls each registry's images from (ECR API reference, CreatePullThroughCacheRule), and
#: whether it asks for credentials there (ECR user guide, pull-through-cache).
UPSTREAMS: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "docker.io": ("registry-1.docker.io", True),
        "ghcr.io": ("ghcr.io", True),
        "public.ecr.aws": ("public.ecr.aws", False),
        "quay.io": ("quay.io", False),
        "registry.k8s.io": ("registry.k8s.io", False),
    }
)


def endpoint_services(region: str) -> list[str]:
    """Return the names of the services that a network has interface endpoints of.

    Names in China begin with ``cn``, but for that of CloudWatch Logs.

    >>> endpoint_services("cn-north-1")[0], endpoint_services("us-east-2")[0]
    ('cn.com.amazonaws.cn-north-1.ec2', 'com.amazonaws.us-east-2.ec2')
    >>> [name for name in endpoint_services("cn-north-1") if name.endswith("logs")]
    ['com.amazonaws.cn-north-1.logs']
    """
    china = region.startswith("cn-")
    return [
        f"{'cn.' if china and service != 'logs' else ''}com.amazonaws.{region}.{service}"
        for service in INTERFACE_ENDPOINTS
    ]


def ecr(account: str, region: str) -> str:
    """Return the host of an account's own registry.

    >>> ecr("123456789012", "us-east-2")
    '123456789012.dkr.ecr.us-east-2.amazonaws.com'
    """
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{domain}"


def eks_image(image: str, region: str) -> str:
    """Return an image of the us-west-2 registry of EKS' add-ons as the region's own has it.

    The charts name us-west-2's: from elsewhere it is pulled by NAT, and in China and GovCloud it is
    not there at all.

    >>> eks_image("602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/dranet", "cn-north-1")
    '918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/dranet'
    """
    account = EKS_REGISTRIES.get(region, EKS_REGISTRY)
    return f"{ecr(account, region)}/{image.partition('/')[2]}"


def ec2_principal(region: str) -> str:
    """Return what EC2 is called in a trust policy.

    In China EKS takes no nodes' role without that name (bottlerocket-update-operator, issue 316;
    cdk-eks-blueprints, issue 558); those of EKS and its pods are the same everywhere.

    >>> ec2_principal("cn-north-1"), ec2_principal("us-gov-west-1")
    ('ec2.amazonaws.com.cn', 'ec2.amazonaws.com')
    """
    return "ec2.amazonaws.com.cn" if region.startswith("cn-") else "ec2.amazonaws.com"


def partition(region: str) -> str:
    """Return the ARN partition of a region.

    >>> partition("us-gov-west-1")
    'aws-us-gov'
    """
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
