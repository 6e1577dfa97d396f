"""A stack on AWS: everything from the network up is its own."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from railhead.base.fields import (
    Group,
    IpNetwork,
    LabelKey,
    Model,
    Name,
    Positive,
    problem,
    written_moment,
)
from railhead.model.cluster import Cluster, PlatformConfig, Pool
from railhead.platform.aws.facts import (
    EFA_HUGEPAGES_2MIB,
    LUSTRE_EFA_DEVICES,
    LUSTRE_EFA_DEVICES_OTHER,
    LUSTRE_THROUGHPUT,
    LUSTRE_WITHOUT_EFA,
    UPDATE_NODES,
)


def _text(pattern: str, rule: str) -> Any:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise problem(f"{value!r} is not {rule}")
        return value

    return AfterValidator(check)


def _throughput(value: int) -> int:
    if value not in LUSTRE_THROUGHPUT:
        allowed = ", ".join(map(str, LUSTRE_THROUGHPUT))
        raise problem(f"{value} is not allowed; allowed: {allowed}")
    return value


Region = Annotated[str, _text(r"[a-z]{2}(-[a-z]+)+-\d", "a region, such as 'us-east-2'")]
Zone = Annotated[
    str, _text(r"[a-z]{2}(-[a-z]+)+-\d[a-z]", "an availability zone, such as 'us-east-2a'")
]
# Local Zones as well, in which there may be nodes and, in some, Lustre, but nothing else.
NodeZone = Annotated[
    str,
    _text(
        r"[a-z]{2}(-[a-z]+)+-\d([a-z]|-[a-z]{3}-\d[a-z])",
        "an availability zone, such as 'us-east-2a', or a Local Zone, such as 'us-east-1-dfw-2a'",
    ),
]
AccountId = Annotated[str, _text(r"\d{12}", "an account's id, twelve digits in quotes")]
VpcId = Annotated[str, _text(r"vpc-[0-9a-f]{8,17}", "a VPC's id, such as 'vpc-0a1b2c3d4e5f60718'")]
SubnetId = Annotated[
    str, _text(r"subnet-[0-9a-f]{8,17}", "a subnet's id, such as 'subnet-0a1b2c3d4e5f60718'")
]
TransitGatewayId = Annotated[
    str, _text(r"tgw-[0-9a-f]{8,17}", "a transit gateway's id, such as 'tgw-0a1b2c3d4e5f60718'")
]
ReservationId = Annotated[
    str, _text(r"cr-[0-9a-f]{8,17}", "a reservation's id, such as 'cr-0a1b2c3d4e5f60718'")
]
ReservationGroupArn = Annotated[
    str,
    _text(
        r"arn:aws[-a-z]*:resource-groups:[a-z0-9-]+:\d{12}:group/[\w.-]{1,300}",
        "the ARN of a resource group, such as "
        "'arn:aws:resource-groups:us-east-2:123456789012:group/p5'",
    ),
]
Principal = Annotated[
    str,
    _text(
        r"arn:aws[-a-z]*:iam::\d{12}:(role|user)/[\w+=,.@/-]{1,512}",
        "the ARN of an IAM role or user, such as 'arn:aws:iam::123456789012:role/platform'",
    ),
]
# FSx API reference, CreateFileSystemFromBackup: BackupId.
BackupId = Annotated[
    str, _text(r"backup-[0-9a-f]{8,}", "a backup's id, such as 'backup-0a1b2c3d4e5f60718'")
]
# S3 user guide, general purpose bucket naming rules: no address, and what S3 keeps for itself.
BucketName = Annotated[
    str,
    _text(
        r"(?!xn--|sthree-|amzn-s3-demo-|\d+\.\d+\.\d+\.\d+$|.*\.\.)"
        r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
        r"(?<!-s3alias)(?<!--ol-s3)(?<!\.mrap)(?<!--x-s3)(?<!--table-s3)",
        "a bucket's name, such as 'acme-datasets'",
    ),
]
KeyArn = Annotated[
    str,
    _text(
        r"arn:aws[-a-z]*:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]+",
        "the ARN of a key, such as 'arn:aws:kms:us-east-2:123456789012:key/1234abcd-12ab-34cd'",
    ),
]
KubernetesVersion = Annotated[str, _text(r"1\.\d{2}", "a Kubernetes minor in quotes, like '1.35'")]
_SIZE = r"(nano|micro|small|medium|large|([2-9]|[1-9]\d+)?xlarge|metal(-\d+xl)?)"
InstanceType = Annotated[
    str,
    _text(rf"[a-z][a-z0-9-]*\d[a-z0-9-]*\.{_SIZE}", "an instance type, such as 'm7i.2xlarge'"),
]
AddonVersion = Annotated[
    str, _text(r"v\d+\.\d+\.\d+-eksbuild\.\d+|default", "an add-on's version, or 'default'")
]
AmiRelease = Annotated[
    str, _text(r"1\.\d{2}\.\d+-\d{8}", "an image's release, such as '1.35.3-20261015'")
]
Count = Annotated[int, Field(strict=True, ge=0)]
NodeLabelValue = Annotated[
    str, _text(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", "a Kubernetes label's value")
]


class TransitGateway(Model):
    """A transit gateway that the VPC is attached to, and what lies behind it.

    The way from where `pulumi up` runs to an API server that has a private address only.

    ``id`` is the gateway's, ``cidrs`` are the networks behind it.
    """

    id: TransitGatewayId
    cidrs: tuple[IpNetwork, ...] = Field(min_length=1)


class NewNetwork(Model):
    """A VPC of the stack's own: a private and a public subnet in each zone.

    Subnets are cut from ``cidr`` in the order of ``availability_zones``: append to it, never
    reorder. ``nat``: one NAT gateway a zone, or one for all, which is cheaper and goes down with
    its zone. ``interface_endpoints``: private addresses for the services that nodes call, so that
    joining the cluster and pulling from ECR do not pass the NAT gateways.
    """

    kind: Literal["new"]
    cidr: IpNetwork
    availability_zones: tuple[Zone, ...] = Field(min_length=2, max_length=6)
    nat: Literal["per-zone", "single"] = "per-zone"
    interface_endpoints: bool = True
    transit_gateway: TransitGateway | None = None


class ExistingNetwork(Model):
    """A VPC that is there already; ``private_subnets`` by zone, each with a way out.

    A subnet in a Local Zone is for the pool there alone.

    ``vpc_id`` is the VPC's.
    """

    kind: Literal["existing"]
    vpc_id: VpcId
    private_subnets: dict[NodeZone, SubnetId] = Field(min_length=2)


class PrivateEndpoint(Model):
    """The API server has an address in the VPC only, which nodes and ``from_cidrs`` may reach.

    ``from_cidrs`` are networks in the VPC and beside it, such as that in which `pulumi up` runs.
    """

    kind: Literal["private"]
    from_cidrs: tuple[IpNetwork, ...] = ()


class PublicEndpoint(Model):
    """The API server has a public address too, for ``from_cidrs`` alone; nodes use the private."""

    kind: Literal["public"]
    from_cidrs: tuple[IpNetwork, ...] = Field(min_length=1)


class SystemPool(Model):
    """Nodes without GPUs, in every zone, for the controllers; ``nodes`` is what it starts with.

    ``instance_type`` has no GPUs, ``architecture`` is that of its CPU. ``max_nodes`` is the most
    that the autoscaler takes. ``root_volume_gib`` is the size of each node's root volume.
    """

    instance_type: InstanceType = "m7i.2xlarge"
    architecture: Literal["amd64", "arm64"] = "amd64"
    nodes: Positive = 3
    max_nodes: Positive = 6
    root_volume_gib: Annotated[int, Field(strict=True, ge=30, le=16384)] = 100


class AutomaticMetadata(Model):
    """Metadata IOPS that follow the file system's size."""

    kind: Literal["automatic"]


class ProvisionedMetadata(Model):
    """Metadata IOPS that are paid for.

    ``iops`` is how many.
    """

    kind: Literal["provisioned"]
    iops: Positive


class LustreFileSystem(Model):
    """An FSx for Lustre file system, persistent and on SSD, in one zone.

    Its name is its storage class. ``throughput`` is MB/s for each TiB. ``efa``: servers speak EFA
    too; it can only be set at creation, and fixes ``throughput``. All claims see the whole file
    system: their ``size`` is what Kubernetes shows, not a quota.

    ``availability_zone`` should be the pools' own. ``capacity_gib`` is its size in GiB.
    ``compression`` is LZ4 on the servers. ``backup_days`` is how long daily backups are kept; 0
    makes none. ``final_backup``: deleting it takes a last backup first, which stays in
    the account; `pulumi destroy` follows the file of the last `pulumi up`. ``backup`` is the FSx
    backup that it is made from, whose size, throughput and compression it has; it is read at
    creation alone.
    """

    kind: Literal["lustre"]
    name: Name
    availability_zone: NodeZone
    # FSx API reference, CreateFileSystem: StorageCapacity.
    capacity_gib: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    throughput: Annotated[int, Field(strict=True), AfterValidator(_throughput)]
    metadata: Annotated[AutomaticMetadata | ProvisionedMetadata, Field(discriminator="kind")] = (
        AutomaticMetadata(kind="automatic")
    )
    efa: bool = False
    compression: bool = True
    backup_days: Annotated[int, Field(strict=True, ge=0, le=90)] = 0
    final_backup: bool = True
    backup: BackupId | None = None


class ElasticFileSystem(Model):
    """An EFS file system with a mount target in every zone; each claim gets a directory of its own.

    Its name is its storage class. It grows by itself, so that a claim's ``size`` is a form.

    ``throughput`` is how EFS bills and grants it; ``backups`` is whether AWS Backup keeps copies.
    """

    kind: Literal["efs"]
    name: Name
    throughput: Literal["elastic", "bursting"] = "elastic"
    backups: bool = False


class Bucket(Model):
    """The rights of jobs in one bucket: to read it, and with ``write`` to write and delete.

    ``prefix`` limits it to keys that start with it. ``kms_key`` is the key of a bucket
    that is encrypted with a key of its owner.

    ``name`` is the bucket's.
    """

    name: BucketName
    prefix: Annotated[str, _text(r"([^*?/][^*?]*/)?", "a prefix that ends in '/'")] = ""
    write: bool = False
    kms_key: KeyArn | None = None


class S3Access(Model):
    """The rights of the pods of one training namespace in S3, by EKS pod identity.

    Every pod of the namespace has them, and no other pod.
    """

    namespace: Name
    buckets: tuple[Bucket, ...] = Field(min_length=1)


class OidcProvider(Model):
    """An identity provider that people log in to; EKS takes one for a cluster.

    Args:
        issuer: its URL, which EKS must reach over the internet.
        client_id: the audience of its tokens.
        groups_claim: the claim that lists the groups.
        groups_prefix: the prefix that EKS adds to each; the stack names groups with it.
        username_claim: the claim that names the user.
        username_prefix: the prefix that EKS adds to it.
        required_claims: other claims that a token must have.
    """

    # EKS API reference, OidcIdentityProviderConfigRequest.
    issuer: Annotated[
        str,
        _text(
            r"https://[^\s?#]+",
            "an issuer's URL: https:// and no query, such as 'https://login.example.com'",
        ),
    ]
    client_id: Annotated[str, _text(r"\S+", "a client's id")]
    groups_claim: Annotated[str, _text(r"\S+", "a claim's name")] = "groups"
    groups_prefix: Annotated[
        str, _text(r"(?!.*system:)\S*", "a prefix without 'system:' in it, such as 'oidc:'")
    ] = "oidc:"
    username_claim: Annotated[str, _text(r"\S+", "a claim's name")] = "sub"
    username_prefix: Annotated[
        str, _text(r"(?!.*system:)\S+", "a prefix without 'system:' in it, such as 'oidc:'")
    ] = "oidc:"
    required_claims: dict[str, str] = Field(default_factory=dict)


class ImageCache(Model):
    """A ``registry`` whose images ECR keeps in the account, each from its first pull on.

    ``registry_mirrors`` of the stack names what takes the registry's place, which ``prefix`` ends:
    no two rules of one account and region have the same. ``secret_arn`` is of the registry's
    credentials in Secrets Manager, where it wants some.
    """

    registry: Literal["docker.io", "ghcr.io", "public.ecr.aws", "quay.io", "registry.k8s.io"]
    prefix: Annotated[
        str,
        _text(
            r"(?=.{2,30}$)[a-z0-9]+([._/-][a-z0-9]+)*",
            "a prefix of repositories: 2 to 30 of a-z and 0-9, parted by one of . _ - /",
        ),
    ]
    secret_arn: (
        Annotated[
            str,
            _text(
                r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:ecr-pullthroughcache/.+",
                "the ARN of a secret whose name begins with 'ecr-pullthroughcache/'",
            ),
        ]
        | None
    ) = None


class AwsPlatform(PlatformConfig):
    """AWS.

    ``account`` is the only one that the stack may touch. ``administrators`` administer the cluster:
    the role that runs `pulumi up` must be among them. ``researchers`` are put into the cluster's
    researchers group, ``members`` into the group of the stack that each is listed under; ``oidc``
    is where everybody else's groups come from.
    ``addon_versions`` overrides the catalogue's; ``default`` asks EKS.
    ``s3_access`` is what jobs may do in S3: without, they have no credentials of AWS at all.
    ``image_caches`` are registries whose images nodes pull from ECR.
    ``deletion_protection`` keeps the cluster, GPU pools, keys and file systems from being deleted.

    ``region`` is where all of it is, ``kubernetes`` the minor of its control plane. ``storage`` are
    file systems, each a storage class. ``log_retention_days`` is how long the control plane's logs
    are kept. ``tags`` are on everything that takes tags, and so on the bill. ``support`` says what
    EKS does when the minor's standard support ends: ``standard`` upgrades the control plane by
    itself, ``extended`` keeps the minor a year longer, at a price by the hour.
    """

    kind: Literal["aws"]
    region: Region
    account: AccountId
    kubernetes: KubernetesVersion
    support: Literal["standard", "extended"] = "standard"
    network: Annotated[NewNetwork | ExistingNetwork, Field(discriminator="kind")]
    endpoint: Annotated[PrivateEndpoint | PublicEndpoint, Field(discriminator="kind")] = (
        PrivateEndpoint(kind="private")
    )
    administrators: tuple[Principal, ...] = Field(min_length=1)
    researchers: tuple[Principal, ...] = ()
    members: dict[Group, tuple[Principal, ...]] = Field(default_factory=dict)
    oidc: OidcProvider | None = None
    system_pool: SystemPool = SystemPool()
    storage: tuple[
        Annotated[LustreFileSystem | ElasticFileSystem, Field(discriminator="kind")], ...
    ] = ()
    s3_access: tuple[S3Access, ...] = ()
    image_caches: tuple[ImageCache, ...] = ()
    addon_versions: dict[str, AddonVersion] = Field(default_factory=dict)
    log_retention_days: Positive = 90
    deletion_protection: bool = True
    tags: dict[str, str] = Field(default_factory=dict)

    @property
    def kubernetes_minor(self) -> str | None:
        """The Kubernetes that the stack chose."""
        return self.kubernetes


class OnDemand(Model):
    """Capacity that the zone has on demand."""

    kind: Literal["on-demand"]


class Reservation(Model):
    """An on-demand capacity reservation that is there already, in ``availability_zone``.

    ``id`` is the reservation's.
    """

    kind: Literal["reservation"]
    id: ReservationId
    availability_zone: NodeZone


class Spot(Model):
    """Spare capacity, which EC2 takes back with two minutes' notice, whatever runs on it."""

    kind: Literal["spot"]


class ReservationGroup(Model):
    """Several on-demand capacity reservations, as one resource group of theirs.

    ``availability_zone`` is that of all of them; nothing here reads the group.

    ``arn`` is the group's.
    """

    kind: Literal["reservation-group"]
    arn: ReservationGroupArn
    availability_zone: NodeZone


class CapacityBlock(Model):
    """A capacity block for ML that was bought already; nothing here buys one.

    ``starts`` and ``ends`` are as the block's own, with their time zone: no node starts before, and
    EKS scales the pool to none before the end.

    ``id`` is its reservation's, ``availability_zone`` where it is.
    """

    kind: Literal["capacity-block"]
    id: ReservationId
    availability_zone: NodeZone
    starts: Annotated[AwareDatetime, BeforeValidator(written_moment)]
    ends: Annotated[AwareDatetime, BeforeValidator(written_moment)]


class NewPlacementGroup(Model):
    """A cluster placement group of the pool's own."""

    kind: Literal["new"]


class ExistingPlacementGroup(Model):
    """The cluster placement group that a reservation was made in.

    ``name`` is the group's.
    """

    kind: Literal["existing"]
    name: Annotated[str, Field(min_length=1, max_length=255)]


class Taint(Model):
    """A taint of every node of a pool.

    ``value`` may be empty; ``effect`` is what happens to pods that do not tolerate it.
    """

    key: LabelKey
    value: NodeLabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class RepairOverride(Model):
    """The repair of nodes with one finding of the node monitoring agent; EKS wants all of it.

    ``condition`` and ``reason`` are the agent's, such as ``NvidiaXID64Error``. ``wait_minutes`` is
    how long EKS waits before it repairs by ``action``: on reserved capacity ``Reboot`` needs no
    other machine.
    """

    condition: Literal[
        "AcceleratedHardwareReady",
        "ContainerRuntimeReady",
        "KernelReady",
        "NetworkingReady",
        "StorageReady",
    ]
    reason: Annotated[str, _text(r"[A-Za-z0-9]+", "a reason, such as 'NvidiaXID64Error'")]
    action: Literal["Replace", "Reboot", "NoAction"]
    wait_minutes: Positive


class AwsPool(Pool):
    """A GPU node pool on AWS: one managed node group in one zone, which EFA does not leave.

    ``nodes`` is the most there may be; ``initial_nodes`` what the group starts with (all of them,
    and none in a capacity block), after which the size is the autoscaler's. ``labels`` are put on
    nodes beside ``node_selector``. ``local_storage``: instance store as one RAID 0 for containers'
    data. ``hugepages_2mib``: huge pages of 2 MiB that each node sets aside for EFA.
    ``lustre_efa_devices``: how many of a node's EFA devices Lustre takes, AWS' number without it;
    each is one of a file system's connections; 0 mounts it over TCP.

    ``availability_zone`` is where all of its nodes are. ``min_nodes`` is the least that the
    autoscaler leaves. ``root_volume_gib`` is the size of each node's root volume. ``repair`` lets
    EKS replace nodes that fail, ``repair_at_once`` of them at a time at the most (EKS' own number
    without it), ``repair_overrides`` otherwise than EKS would. ``ami_release`` pins the nodes'
    image; None takes EKS' newest.
    ``update_nodes`` is how many nodes an update (of the image, of the minor) replaces at once:
    without it all of a reserved pool, whose jobs end with the first one, and one of another, as EKS
    starts as many beside them first.
    """

    availability_zone: NodeZone
    purchase: Annotated[
        OnDemand | Spot | Reservation | ReservationGroup | CapacityBlock,
        Field(discriminator="kind"),
    ]
    placement_group: (
        Annotated[NewPlacementGroup | ExistingPlacementGroup, Field(discriminator="kind")] | None
    ) = None
    initial_nodes: Count | None = None
    min_nodes: Count = 0
    labels: dict[LabelKey, NodeLabelValue] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    root_volume_gib: Annotated[int, Field(strict=True, ge=50, le=16384)] = 200
    local_storage: Literal["raid0", "none"] = "raid0"
    hugepages_2mib: Count = EFA_HUGEPAGES_2MIB
    lustre_efa_devices: Annotated[int, Field(strict=True, ge=0, le=32)] | None = None
    repair: bool = True
    repair_at_once: Positive | None = None
    repair_overrides: tuple[RepairOverride, ...] = ()
    ami_release: AmiRelease | None = None
    update_nodes: Annotated[int, Field(strict=True, ge=1, le=UPDATE_NODES)] | None = None

    @property
    def reserved(self) -> bool:
        """True if its machines are bought already, so that there is no room for one more."""
        return not isinstance(self.purchase, OnDemand | Spot)

    @property
    def replaced_at_once(self) -> int:
        """Number of nodes that an update of the group replaces at once."""
        most = self.nodes if self.reserved else 1
        return min(self.update_nodes or most, self.nodes, UPDATE_NODES)

    @property
    def first_nodes(self) -> int:
        """Number of nodes with which the group is created."""
        if self.initial_nodes is not None:
            return self.initial_nodes
        return 0 if isinstance(self.purchase, CapacityBlock) else self.nodes

    @property
    def lustre_devices(self) -> int:
        """Number of a node's EFA devices that Lustre takes, if there is a file system over EFA."""
        if self.lustre_efa_devices is not None:
            return self.lustre_efa_devices
        return LUSTRE_EFA_DEVICES.get(self.instance_type, LUSTRE_EFA_DEVICES_OTHER)


class AwsCluster(Cluster):
    """A cluster on AWS."""

    platform: AwsPlatform
    pools: tuple[AwsPool, ...] = Field(min_length=1)

    def lustre_over_efa(self, pool: AwsPool) -> bool:
        """Return whether a pool's nodes mount a file system of their zone over EFA."""
        can = pool.instance_type not in LUSTRE_WITHOUT_EFA and pool.lustre_devices > 0
        return can and any(
            isinstance(system, LustreFileSystem)
            and system.efa
            and system.availability_zone == pool.availability_zone
            for system in self.platform.storage
        )
