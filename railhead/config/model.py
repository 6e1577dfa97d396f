"""What a stack's file may say about its cluster: frozen models, nothing of Pulumi.

Fields that name a row of the catalogue are checked against it here; what spans several fields is
checked in :mod:`railhead.config.checks`. No secret belongs in any of it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from railhead.catalog.fabrics import FABRICS
from railhead.catalog.machines import MACHINES
from railhead.catalog.versions import COMBINATIONS
from railhead.errors import did_you_mean

HOSTNAME_LEVEL = "kubernetes.io/hostname"

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL_KEY = re.compile(
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_QUANTITY = re.compile(r"^[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?$")
_INTERFACE = re.compile(r"^[A-Za-z0-9_.-]{1,15}$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def problem(message: str) -> PydanticCustomError:
    """An error that :func:`railhead.config.parse` shows word for word."""
    # The message is shown as it is: values in it must not be taken for a format.
    return PydanticCustomError("railhead", "{message}", {"message": message})


def catalogue(rows: Any, what: str) -> Any:
    """A validator for a field that names one of ``rows``; ``what`` ends 'in the catalogue'."""

    def check(value: str) -> str:
        if value not in rows:
            near = did_you_mean(value, rows)
            known = near or f"; there are: {', '.join(sorted(rows))}"
            raise problem(f"{value!r} is not in the catalogue{what}{known}")
        return value

    return AfterValidator(check)


def _matching(pattern: re.Pattern[str], rule: str, longest: int = 63) -> Any:
    def check(value: str) -> str:
        if len(value) > longest or not pattern.match(value):
            raise problem(f"{value!r} is not {rule}, at most {longest} characters")
        return value

    return AfterValidator(check)


def _absolute(value: str) -> str:
    if not value.startswith("/") or value == "/" or "//" in value or "/../" in f"{value}/":
        raise problem(f"{value!r} is not an absolute path below /")
    return value.rstrip("/")


def _network(value: str) -> str:
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        raise problem(f"{value!r} is not a network, such as '192.168.128.0/20': {error}") from None
    return str(network)


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise problem(f"{value!r} is not an IP address, such as '192.168.136.1'") from None


Name = Annotated[
    str,
    _matching(_LABEL, "a DNS label: lower-case letters, digits and '-', a letter or digit at ends"),
]
LabelKey = Annotated[str, _matching(_LABEL_KEY, "a Kubernetes label key", longest=316)]
Quantity = Annotated[str, _matching(_QUANTITY, "a Kubernetes quantity, such as '10Gi'", longest=32)]
Interface = Annotated[str, _matching(_INTERFACE, "a network interface's name", longest=15)]
Variable = Annotated[str, _matching(_VARIABLE, "an environment variable's name", longest=256)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
IpNetwork = Annotated[str, AfterValidator(_network)]
IpAddress = Annotated[str, AfterValidator(_address)]
Positive = Annotated[int, Field(strict=True, ge=1)]


class Model(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlatformConfig(Model):
    """Where a cluster lives; each platform has a model of its own, told apart by ``kind``."""

    kind: str


class Toleration(Model):
    """A Kubernetes toleration."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Pool(Model):
    """A set of equal GPU nodes. Quotas are derived from ``nodes`` and the instance type.

    Each platform extends it; what is common is what Kubernetes sees. ``node_selector`` are the
    labels that the pool's nodes carry, ``tolerations`` what its pods must tolerate.
    """

    name: Name
    instance_type: Annotated[str, catalogue(MACHINES, "")]
    nodes: Positive
    node_selector: dict[LabelKey, str] = Field(min_length=1)
    tolerations: tuple[Toleration, ...] = ()


class Rail(Model):
    """One rail: the nodes' interface ``master`` and the addresses that pods get on it.

    ``range_start`` and ``range_end`` keep pods off the addresses that nodes use in ``subnet``.
    """

    name: Name
    master: Interface
    subnet: IpNetwork
    range_start: IpAddress | None = None
    range_end: IpAddress | None = None


class HostLocalIpam(Model):
    """The host-local CNI plugin. ``data_dir`` must be shared by the nodes, or leases collide."""

    kind: Literal["host-local"]
    data_dir: AbsolutePath


class FabricConfig(Model):
    """The training fabric and how it enters pods.

    ``mtu`` is in bytes. ``lock_memory`` adds the fabric's capabilities (IPC_LOCK) to training
    containers; false only where nothing registers memory with a NIC, or the nodes' container
    runtime has no memlock limit.
    """

    kind: Annotated[str, catalogue(FABRICS, " of fabrics")]
    mode: str
    mtu: Annotated[int, Field(strict=True, ge=576, le=9216)]
    rails: tuple[Rail, ...] = Field(min_length=1)
    ipam: HostLocalIpam
    lock_memory: bool = True


class QueueConfig(Model):
    """A LocalQueue that researchers name, and the ClusterQueue over ``pools`` behind it."""

    name: Name
    namespace: Name
    cluster_queue: Name
    pools: tuple[Name, ...] = Field(min_length=1)


class CheckpointConfig(Model):
    """A ReadWriteMany claim; ``size`` is a Kubernetes quantity."""

    name: Name
    namespace: Name
    storage_class: Name
    size: Quantity
    mount_path: AbsolutePath


class RuntimeConfig(Model):
    """A ClusterTrainingRuntime.

    ``nodes`` is what a job that names no count would get; every job must name one, and where Kueue
    charges by template it must be this one. ``gpus_per_node`` is what each pod requests and the
    number of processes a pod starts unless the job says otherwise; None takes the instance type's.
    ``cpu`` and ``memory`` are requested so that queues charge them. ``shared_memory`` sizes
    ``/dev/shm`` and counts as memory. ``checkpoint`` names a claim that every training namespace
    of the runtime has.
    """

    name: Name
    framework: Literal["torch"]
    image: str = Field(min_length=1)
    pool: Name
    nodes: Positive = 1
    gpus_per_node: Positive | None = None
    cpu: Quantity
    memory: Quantity
    shared_memory: Quantity
    checkpoint: Name | None = None
    grace_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] = 30
    environment: dict[Variable, str] = Field(default_factory=dict)


class ControllerResources(Model):
    """What each controller requests, and its memory limit; None leaves the chart's own."""

    cpu: Quantity
    memory: Quantity
    memory_limit: Quantity


class Cluster(Model):
    """One cluster, the value of ``railhead:cluster`` in its stack's file.

    Each platform has a subclass with its own ``platform`` and ``pools``
    (:data:`railhead.config.clusters.CLUSTERS`); this is what they share.

    ``researchers`` is the group that may submit and inspect jobs in ``namespaces``. ``topology``
    lists node labels from the widest to the host. ``ready_timeout_seconds`` is how long an admitted
    gang may take until all of its pods run; then it is put back whole.
    """

    name: Name
    versions: Annotated[str, catalogue(COMBINATIONS, " of version combinations")]
    platform: PlatformConfig
    namespaces: tuple[Name, ...] = Field(min_length=1)
    researchers: str = Field(min_length=1)
    topology: tuple[LabelKey, ...] = Field(min_length=1)
    pools: tuple[Pool, ...] = Field(min_length=1)
    fabric: FabricConfig
    queues: tuple[QueueConfig, ...] = Field(min_length=1)
    checkpoints: tuple[CheckpointConfig, ...] = ()
    runtimes: tuple[RuntimeConfig, ...] = Field(min_length=1)
    controllers: ControllerResources | None = None
    ready_timeout_seconds: Annotated[int, Field(strict=True, ge=30, le=86400)] = 600
