"""A stack on GCP: everything from the network up is its own."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from railhead.base.fields import matching, problem, written_moment
from railhead.model.cluster import (
    Cluster,
    IpNetwork,
    LabelKey,
    Model,
    Name,
    PlatformConfig,
    Pool,
    Positive,
)

Project = Annotated[
    str,
    matching(
        r"^([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$",
        "a project's id, such as 'my-project-123'",
        longest=127,
    ),
]
ProjectNumber = Annotated[
    str, matching(r"^[0-9]{6,20}$", "a project's number, digits in quotes", longest=20)
]
ResourceName = Annotated[
    str,
    matching(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "a resource's name: a lower-case letter, then a-z, 0-9 and '-', a letter or digit at ends",
    ),
]
Region = Annotated[str, matching(r"^[a-z]+-[a-z]+[0-9]+$", "a region, such as 'europe-west1'")]
Zone = Annotated[str, matching(r"^[a-z]+-[a-z]+[0-9]+-[a-z]$", "a zone, such as 'europe-west1-b'")]
BucketName = Annotated[
    str,
    matching(
        r"^[a-z0-9][-_a-z0-9]+[a-z0-9]$",
        "a bucket's name: 3 or more of a-z, 0-9, '-' and '_', a letter or digit at ends",
    ),
]
FileSystem = Annotated[
    str, matching(r"^[A-Za-z0-9]+$", "a file system's name: letters and digits", longest=8)
]
SecurityGroup = Annotated[
    str,
    matching(
        r"^gke-security-groups@[a-z0-9.-]+\.[a-z]+$",
        "of the form 'gke-security-groups@your-domain.com'",
        longest=254,
    ),
]
Version = Annotated[
    str,
    matching(
        r"^1\.[0-9]{2}(\.[0-9]+(-gke\.[0-9]+)?)?$",
        "a GKE version, such as '1.34' or '1.34.1-gke.1829001'",
    ),
]
Topology = Annotated[
    str, matching(r"^[0-9]+x[0-9]+$", "an accelerator topology, such as '1x72'", longest=15)
]
DiskImage = Annotated[
    str,
    matching(
        r"^(projects/[a-z][-a-z0-9:.]*/)?global/images/[a-z]([-a-z0-9]*[a-z0-9])?$",
        "a disk image, such as 'projects/my-project-123/global/images/training-images'",
        longest=255,
    ),
]
LabelName = Annotated[
    str,
    matching(
        r"^[a-z][-_a-z0-9]*$", "a resource label: a lower-case letter, then a-z, 0-9, '-' and '_'"
    ),
]
LabelValue = Annotated[
    str, matching(r"^[-_a-z0-9]*$", "a resource label's value: of a-z, 0-9, '-' and '_'")
]
#: VPC documentation, Configure Private Google Access: what private.googleapis.com answers.
PRIVATE_GOOGLE_APIS = ipaddress.ip_network("199.36.153.8/30")
STORAGE_HOST = "storage.googleapis.com."
# Of a node of flex-start, which GKE asks for unless a request says less.
MAX_RUN_SECONDS = 7 * 24 * 3600

Mtu = Annotated[int, Field(strict=True, ge=1300, le=8896)]
Count = Annotated[int, Field(strict=True, ge=0)]


class GcpNewNetwork(Model):
    """A VPC of the cluster's own, with Cloud NAT: its nodes have no addresses of the internet.

    ``nodes``, ``pods`` and ``services`` are its subnet's primary and secondary ranges. GKE takes a
    /24 of ``pods`` for every node. ``google_services`` is where Google puts what it manages for the
    VPC, such as Lustre (private services access). ``mtu`` is in bytes.
    """

    kind: Literal["new"]
    nodes: IpNetwork
    pods: IpNetwork
    services: IpNetwork
    google_services: IpNetwork | None = None
    mtu: Mtu = 8896


class GcpExistingNetwork(Model):
    """A VPC that is there already: the names of its parts.

    ``project`` is the host project of a Shared VPC; None is the cluster's own project.

    It needs a way out for nodes without addresses of the internet (Cloud NAT), and Private Google
    Access on the subnet. A Lustre instance also needs its private services access
    (``service_connection``), and a bucket a zone in which storage.googleapis.com has the addresses
    of private.googleapis.com (``storage_names``), for pods may reach no others.
    """

    kind: Literal["existing"]
    project: Project | None = None
    network: ResourceName
    subnetwork: ResourceName
    pods_range: ResourceName
    services_range: ResourceName
    service_connection: bool = False
    storage_names: bool = False


GcpNetwork = Annotated[GcpNewNetwork | GcpExistingNetwork, Field(discriminator="kind")]


class NewGpuNetworks(Model):
    """Networks for the nodes' further interfaces, cut from ``cidr`` into equal subnets.

    One subnet an interface; each must hold every GPU node. ``mtu`` in bytes; None takes what the
    catalogue has for the machine type.
    """

    kind: Literal["new"]
    cidr: IpNetwork
    mtu: Mtu | None = None


class NodeNetworkRef(Model):
    """A VPC and its subnet, by name."""

    network: ResourceName
    subnetwork: ResourceName


class ExistingGpuNetworks(Model):
    """Networks that are there already, in the order of ``railhead catalog show``'s interfaces."""

    kind: Literal["existing"]
    networks: tuple[NodeNetworkRef, ...] = Field(min_length=1)


GpuNetworks = Annotated[NewGpuNetworks | ExistingGpuNetworks, Field(discriminator="kind")]


class DnsEndpoint(Model):
    """The control plane by name, open to whom IAM lets in, from anywhere; no IP endpoint."""

    kind: Literal["dns"]


class PublicEndpoint(Model):
    """The control plane by a public address, for ``authorized_networks`` and nobody else.

    The whole internet is not one of them.
    """

    kind: Literal["public"]
    authorized_networks: tuple[IpNetwork, ...] = Field(min_length=1)


class PrivateEndpoint(Model):
    """The control plane by a private address: Pulumi must run where it is routed.

    ``authorized_networks`` beside the cluster's own nodes, such as the runner's.
    """

    kind: Literal["private"]
    authorized_networks: tuple[IpNetwork, ...] = ()


GcpEndpoint = Annotated[DnsEndpoint | PublicEndpoint | PrivateEndpoint, Field(discriminator="kind")]


def _zoned(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise problem(
            f"{value.isoformat()!r} has no time zone; end it with 'Z', and quote it in YAML"
        )
    # As GKE gives it back, which keeps no zone: the provider compares texts.
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise problem(f"{value.isoformat()!r} is no time that UTC has") from None


Moment = Annotated[datetime, BeforeValidator(written_moment), AfterValidator(_zoned)]

_DAY = r"[+-]?\d{0,2}(MO|TU|WE|TH|FR|SA|SU)"
_RULE = (
    r"(FREQ=[A-Z]+|INTERVAL=[1-9]\d{0,3}|COUNT=[1-9]\d{0,3}|UNTIL=\d{8}(T\d{6}Z)?"
    rf"|BYDAY={_DAY}(,{_DAY})*|WKST=(MO|TU|WE|TH|FR|SA|SU)"
    r"|BY(SECOND|MINUTE|HOUR|MONTHDAY|YEARDAY|WEEKNO|MONTH|SETPOS)=[+-]?\d{1,3}(,[+-]?\d{1,3})*)"
)
Recurrence = Annotated[
    str,
    matching(
        rf"^(RRULE:)?{_RULE}(;{_RULE})*$",
        "a rule of RFC 5545, such as 'FREQ=WEEKLY;BYDAY=SA,SU'",
        longest=500,
    ),
]
MachineType = Annotated[
    str, matching(r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$", "a machine type, such as 'e2-standard-16'")
]


class Maintenance(Model):
    """The times when GKE may touch the cluster: ``start`` and ``end`` of a window that recurs.

    ``recurrence`` is an RFC 5545 rule, whose days are UTC's. From ``no_upgrades_from`` on no minor
    version and no node is upgraded until the version's end of support: an upgrade drains nodes
    under running jobs.
    """

    start: Moment
    end: Moment
    recurrence: Recurrence = "FREQ=WEEKLY;BYDAY=SA,SU"
    no_upgrades_from: Moment | None = None


class SystemPool(Model):
    """Nodes for controllers: no GPUs. Counts are for all ``zones`` together.

    ``machine_type`` has no GPUs. ``min_nodes`` and ``max_nodes`` are the autoscaler's bounds.
    ``disk_size_gb`` is the size of each node's boot disk, in GB.
    """

    machine_type: MachineType = "e2-standard-16"
    min_nodes: Positive = 2
    max_nodes: Positive = 6
    disk_size_gb: Annotated[int, Field(strict=True, ge=50, le=65536)] = 200
    zones: tuple[Zone, ...] = ()


class FilestoreStorage(Model):
    """An NFS file system of Filestore; checkpoint claims name it as their ``storage_class``.

    Zonal is the faster, in the cluster's zone; regional outlives a zone.

    ``tier`` is ``zonal`` or ``regional``; ``capacity_gib`` is its size in GiB. ``addresses`` is the
    /26 where Google puts it; None lets Google choose, which knows the addresses of the VPC and not
    those of ``gpu_networks``.
    """

    kind: Literal["filestore"]
    name: Name
    tier: Literal["zonal", "regional"] = "zonal"
    capacity_gib: Positive
    addresses: IpNetwork | None = None

    @property
    def large(self) -> bool:
        """True if the capacity is of the higher range, which an instance is in for good.

        Filestore documentation, service-tiers-zonal and service-tiers-regional.
        """
        return self.capacity_gib >= 10240


class LustreStorage(Model):
    """A Managed Lustre file system in the cluster's zone, for ``storage_class`` of claims.

    ``throughput`` is MB/s a TiB; it decides which capacities there are. ``gke_support`` is only
    for nodes older than 1.33.2-gke.4655000, whose metadata server has Lustre's port.

    ``capacity_gib`` is its size in GiB.
    """

    kind: Literal["lustre"]
    name: Name
    capacity_gib: Positive
    throughput: Literal[125, 250, 500, 1000]
    filesystem: FileSystem = "lustrefs"
    gke_support: bool = False


class BucketStorage(Model):
    """A bucket, mounted by GCS FUSE, for ``storage_class`` of claims.

    ``bucket`` is unique in the world. Every pod of a training namespace may read and write it,
    by workload identity, and so may pods of a namespace of that name in another cluster of the
    project; nothing else may but who has rights in the project.

    ``cache_gib`` is how much of what a pod has read stays on its node's local SSDs, in GiB; None
    keeps nothing.
    """

    kind: Literal["bucket"]
    name: Name
    bucket: BucketName
    cache_gib: Positive | None = None


GcpStorage = Annotated[
    FilestoreStorage | LustreStorage | BucketStorage, Field(discriminator="kind")
]


class GcpPlatform(PlatformConfig):
    """GCP.

    Args:
        project: its id. ``project_number`` is needed for buckets, whose rights name it.
        region: of the control plane and the networks; ``zone``: of the GPU nodes and storage.
        kubernetes: the least version of the control plane; None is the channel's default.
        availability: whether the control plane is in all of the region's zones or in one.
        deletion_protection: what holds data or GPU nodes can be neither deleted nor replaced.
        groups: Google Groups for RBAC, so that ``researchers`` may be a group's address.
        labels: of every resource that takes labels, for the bill.
        project_number: of the project; needed for buckets, whose rights name it.
        release_channel: how soon GKE upgrades the control plane.
        storage: file systems and buckets, each a storage class.
    """

    kind: Literal["gcp"]
    project: Project
    project_number: ProjectNumber | None = None
    region: Region
    zone: Zone
    kubernetes: Version | None = None
    release_channel: Literal["rapid", "regular", "stable", "extended"] = "regular"
    availability: Literal["regional", "zonal"] = "regional"
    deletion_protection: bool = True
    endpoint: GcpEndpoint
    network: GcpNetwork
    gpu_networks: GpuNetworks | None = None
    maintenance: Maintenance | None = None
    system_pool: SystemPool = SystemPool()
    storage: tuple[GcpStorage, ...] = ()
    groups: SecurityGroup | None = None
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict)

    @property
    def kubernetes_minor(self) -> str | None:
        """The Kubernetes that the stack chose; None where the channel does."""
        return ".".join(self.kubernetes.split(".")[:2]) if self.kubernetes else None


class OnDemand(Model):
    """Nodes as GCP has them, at list price."""

    kind: Literal["on-demand"]


class Reservation(Model):
    """Nodes of a reservation that must be named to be used.

    ``project`` owns a shared one; ``block`` and ``subblock`` pick a part of a dense one.
    """

    kind: Literal["reservation"]
    name: ResourceName
    project: Project | None = None
    block: ResourceName | None = None
    subblock: ResourceName | None = None


class FlexStart(Model):
    """Nodes of the Dynamic Workload Scheduler, each for up to seven days.

    ``queued``: only whole gangs get nodes, through Kueue's provisioning requests.

    ``max_run_seconds`` is how long a node may live; of queued pools all have the same.
    """

    kind: Literal["flex-start"]
    queued: bool = True
    max_run_seconds: Annotated[int, Field(strict=True, ge=600, le=MAX_RUN_SECONDS)] = (
        MAX_RUN_SECONDS
    )


class Spot(Model):
    """Nodes that GCP may take back at any time."""

    kind: Literal["spot"]


Capacity = Annotated[OnDemand | Reservation | FlexStart | Spot, Field(discriminator="kind")]


class CompactPlacement(Model):
    """Nodes close together, by a policy of the pool's own, or by ``policy``, which is there.

    A reservation that was made with a policy is used only by a pool with that same policy.
    ``max_distance`` is how many switches may lie between two nodes; None leaves it to GCP.
    """

    kind: Literal["compact"]
    policy: ResourceName | None = None
    max_distance: Annotated[int, Field(strict=True, ge=1, le=3)] | None = None


class WorkloadPolicy(Model):
    """A workload policy of high throughput, for what compact placement does not know.

    It is the pool's own, or ``policy``, which is there.

    ``max_topology_distance`` is how far apart nodes may be; None leaves it to GCP.
    ``accelerator_topology`` is the NVLink domain's shape, such as ``1x72``; None takes the
    catalogue's.
    """

    kind: Literal["workload-policy"]
    policy: ResourceName | None = None
    max_topology_distance: Literal["block", "cluster", "subblock"] | None = None
    accelerator_topology: Topology | None = None


class NoPlacement(Model):
    """Placement left to GKE; a reservation may place nodes densely by itself."""

    kind: Literal["none"]


Placement = Annotated[CompactPlacement | WorkloadPolicy | NoPlacement, Field(discriminator="kind")]


class Taint(Model):
    """A taint of a pool's nodes.

    ``value`` may be empty; ``effect`` is what happens to pods that do not tolerate it.
    """

    key: LabelKey
    value: str = Field(default="", max_length=63)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class GcpPool(Pool):
    """A GPU node pool in the platform's zone.

    Args:
        capacity: where its nodes come from.
        placement: how close they are.
        networking: a network interface a NIC (``additional-networks``), or GKE's own networks and
            dynamic resource allocation (``dranet``).
        min_nodes: for Volcano: the pool begins with so many, grows to ``nodes`` for pods that wait,
            and shrinks when idle; None keeps ``nodes`` at all times.
        disk_type: of the boot disk; None leaves it to GKE.
        driver: what GKE installs for the GPUs.
        host_maintenance: how often Google may take hosts away for updates; ``periodic`` is seldom.
            None leaves it to the machine type, or to the reservation that says it.
        image_streaming: whether containers start before their images are there whole; only images
            of Artifact Registry are streamed.
        image_cache: a disk image that holds container images, attached to each node; it needs
            ``image_streaming``.
        labels: of the nodes, beside those of ``node_selector`` that GKE does not give itself.
        taints: beside ``nvidia.com/gpu``, which every GPU node has.
        disk_size_gb: of each node's boot disk, in GB.
    """

    capacity: Capacity
    placement: Placement = NoPlacement(kind="none")
    networking: Literal["additional-networks", "dranet"] = "additional-networks"
    min_nodes: Count | None = None
    disk_size_gb: Annotated[int, Field(strict=True, ge=50, le=65536)] = 200
    disk_type: Literal["pd-balanced", "pd-ssd", "hyperdisk-balanced"] | None = None
    driver: Literal["default", "latest", "disabled"] = "default"
    host_maintenance: Literal["as-needed", "periodic"] | None = None
    image_streaming: bool = False
    image_cache: DiskImage | None = None
    labels: dict[LabelKey, str] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def keeps_nodes(self) -> bool:
        """True if all ``nodes`` are there at all times, idle or not."""
        return self.min_nodes is None and not isinstance(self.capacity, FlexStart)

    @property
    def may_be_empty(self) -> bool:
        """True if its first node may come only once a pod waits for it."""
        return self.min_nodes == 0 or isinstance(self.capacity, FlexStart)


class GcpCluster(Cluster):
    """A cluster on GCP."""

    platform: GcpPlatform
    pools: tuple[GcpPool, ...] = Field(min_length=1)

    @property
    def buckets(self) -> Mapping[str, BucketStorage]:
        """The storage classes that are buckets."""
        storage = self.platform.storage
        return {s.name: s for s in storage if isinstance(s, BucketStorage)}
