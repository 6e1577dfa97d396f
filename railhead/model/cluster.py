"""Models of a stack's file about its cluster: frozen, nothing of Pulumi.

Fields that name a row of the catalogue are checked against it here; what spans several fields is
checked in :mod:`railhead.config.checks`. No secret belongs in any of it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.base.fields import (
    AbsolutePath,
    Bytes,
    Cpus,
    Group,
    ImageReference,
    Interface,
    IpAddress,
    IpNetwork,
    LabelKey,
    LabelValue,
    Model,
    Name,
    NodeCount,
    Positive,
    Quantity,
    Variable,
    catalogue,
    matching,
    problem,
)
from railhead.catalog.digests import exact
from railhead.catalog.versions import COMBINATIONS, mirrored
from railhead.fabric.modes import FabricConfig
from railhead.framework import FRAMEWORKS
from railhead.machines import MACHINES
from railhead.model.access import AccessConfig
from railhead.model.gate import GateConfig
from railhead.model.gpu import GpuOperatorConfig
from railhead.model.network_policy import NetworkPolicyConfig
from railhead.model.queueing import FairConfig, KueueConfig, QueueingConfig, RequeueConfig
from railhead.model.removals import RemovalConfig
from railhead.model.restarts import RestartConfig
from railhead.model.storage import CheckpointConfig, DatasetConfig, ScratchConfig
from railhead.model.teams import PRIORITIES, PriorityConfig, TeamConfig
from railhead.model.watching import WatchingConfig

__all__ = [
    "HOSTNAME_LEVEL",
    "AbsolutePath",
    "CheckpointConfig",
    "Cluster",
    "ControllerResources",
    "DatasetConfig",
    "FabricConfig",
    "Interface",
    "IpAddress",
    "IpNetwork",
    "LabelKey",
    "Model",
    "Name",
    "PlatformConfig",
    "Pool",
    "Positive",
    "PriorityConfig",
    "Quantity",
    "QueueConfig",
    "RuntimeConfig",
    "TeamConfig",
    "Toleration",
    "Variable",
    "catalogue",
    "problem",
]

_OWN_MACHINE = "; a machine of your own is a row of machines.yaml beside the stacks"
HOSTNAME_LEVEL = "kubernetes.io/hostname"


class PlatformConfig(Model):
    """The place where a cluster lives; each platform has its own model, selected by ``kind``."""

    kind: str

    @property
    def kubernetes_minor(self) -> str | None:
        """The Kubernetes that the stack chose, such as ``"1.35"``; None where it does not."""
        return None


class Toleration(Model):
    """A Kubernetes toleration.

    ``key`` None is every key. ``operator`` ``Equal`` compares ``value`` as well, ``Exists`` takes
    any. ``effect`` None is every effect.
    """

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Exists"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Return whether it bears a taint (core/v1, ``Toleration.ToleratesTaint``)."""
        if self.effect not in (None, effect) or self.key not in (None, key):
            return False
        return self.operator == "Exists" or (self.key == key and (self.value or "") == value)


class Pool(Model):
    """A set of equal GPU nodes. Quotas are derived from ``nodes`` and the instance type.

    Each platform extends it; what is common is what Kubernetes sees. ``node_selector`` are the
    labels that the pool's nodes carry, ``tolerations`` what its pods must tolerate.

    ``instance_type`` is a row of the catalogue.
    """

    name: Name
    instance_type: Annotated[str, catalogue(MACHINES, "", _OWN_MACHINE)]
    nodes: NodeCount
    node_selector: dict[LabelKey, LabelValue] = Field(min_length=1)
    tolerations: tuple[Toleration, ...] = ()

    @property
    def may_be_empty(self) -> bool:
        """True if its first node may come only once a pod waits for it."""
        return False

    @property
    def schedulable_resources(self) -> tuple[int, int]:
        """CPUs and GiB of memory that pods can request on a node; quotas count on them."""
        machine = MACHINES[self.instance_type]
        return machine.schedulable_vcpus, machine.schedulable_memory_gib


class QueueConfig(Model):
    """A LocalQueue that researchers name, and the ClusterQueue over ``pools`` behind it."""

    name: Name
    namespace: Name
    cluster_queue: Name
    pools: tuple[Name, ...] = Field(min_length=1)


class RuntimeConfig(Model):
    """A ClusterTrainingRuntime.

    ``nodes`` is what a job that names no count would get; every job must name one, and where Kueue
    charges by template it must be this one. ``gpus_per_node`` is what each pod requests and the
    number of processes a pod starts unless the job says otherwise; None takes the instance type's.
    ``cpu`` and ``memory`` are requested so that queues charge them. ``shared_memory`` sizes
    ``/dev/shm`` and counts as memory; None takes half of the node memory that goes with its GPUs.
    ``checkpoint`` names a claim that every training namespace of the runtime has, and so do
    ``datasets``, which are mounted read-only. ``scratch`` is of the node, for a pod's life, and
    ``disk`` is what a pod may write to its node, scratch included, before the kubelet ends it; None
    is no limit, and a pod that fills its node's disk is then evicted and recreated without an end.

    ``framework`` is a row of the catalogue. ``environment`` is what the stack sets for every job of
    the runtime; what the fabric pins stays. ``grace_seconds`` is how long a pod that must end has
    to save its work. ``logs`` is what becomes of the output of jobs that do not say it themselves:
    ``kept`` copies it to the claim for checkpoints; ``pods`` leaves it with the pods, as where a
    collector of logs runs; ``bare`` does too, and puts no program before a command.
    """

    name: Name
    framework: Annotated[str, catalogue(FRAMEWORKS, " of frameworks")]
    image: ImageReference
    pool: Name
    nodes: NodeCount = 1
    gpus_per_node: Positive | None = None
    cpu: Cpus
    memory: Bytes
    shared_memory: Bytes | None = None
    checkpoint: Name | None = None
    datasets: tuple[Name, ...] = ()
    scratch: ScratchConfig | None = None
    disk: Bytes | None = None
    grace_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] = 30
    restarts: RestartConfig = RestartConfig()
    logs: Literal["kept", "pods", "bare"] = "kept"
    environment: dict[Variable, str] = Field(default_factory=dict)


RegistryHost = Annotated[
    str,
    matching(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]+)?$",
        "a registry, such as 'docker.io'",
        longest=253,
    ),
]
ImagePrefix = Annotated[
    str,
    matching(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9._-]+)*$",
        "a registry and a path, such as 'registry.example.com/docker'",
        longest=253,
    ),
]


class ControllerResources(Model):
    """The requests of each controller, and its memory limit; None leaves the chart's own."""

    cpu: Cpus
    memory: Bytes
    memory_limit: Bytes


class Cluster(Model):
    """One cluster, the value of ``railhead:cluster`` in its stack's file.

    Each platform has a subclass with its own ``platform`` and ``pools``
    (:data:`railhead.platform.registry.PLATFORMS`); this is what they share.

    ``checkpoints`` are claims that runtimes write to, ``datasets`` those that they only read.

    ``researchers`` is the group that may submit and inspect jobs in ``namespaces``, and ``queues``
    are what those wait in: each cluster queue has its pools for itself. ``teams`` share pools
    instead, in namespaces and by groups of their own. ``priorities`` are what jobs may name.

    ``topology`` lists node labels from the widest to the host. ``gpu_operator`` is absent where
    nodes have the driver, the toolkit and the device plugin already. ``queueing`` selects the
    scheduler that admits gangs. ``ready_timeout_seconds`` is how long an admitted gang may take
    until all of its pods run; then the whole gang is requeued, as ``requeue`` says. ``fair`` is how
    teams share what no team owns. With ``default_queue`` a job that names no queue gets its
    namespace's, if that has only one. With ``pod_groups`` the queues also admit LeaderWorkerSets
    and pods that no job owns, alone and in groups. ``finished_days`` is how long the pods and the
    Workload of a finished job stay, None for ever; its TrainJob, its events' record and its logs on
    a claim do in either case.

    ``gate`` is what nodes prove before jobs are placed on them, ``network_policy`` what the pods of
    jobs may reach beside each other, ``access`` what people may do, ``watching`` whether alerts and
    dashboards are made and how a Prometheus gets them. ``registry_mirrors`` is registry -> what
    takes its place in every image that the stack deploys, charts' and runtimes' included: a
    registry that limits anonymous pulls by address holds up a thousand nodes behind one.

    ``removals`` is what the next update may take away with data, jobs or quota in it.

    ``versions`` is a combination of the catalogue.
    """

    name: Name
    versions: Annotated[str, catalogue(COMBINATIONS, " of version combinations")]
    platform: PlatformConfig
    namespaces: tuple[Name, ...] = ()
    researchers: Group
    topology: tuple[LabelKey, ...] = Field(min_length=1)
    pools: tuple[Pool, ...] = Field(min_length=1)
    fabric: FabricConfig
    gpu_operator: GpuOperatorConfig | None = None
    queues: tuple[QueueConfig, ...] = ()
    teams: tuple[TeamConfig, ...] = ()
    priorities: tuple[PriorityConfig, ...] = PRIORITIES
    checkpoints: tuple[CheckpointConfig, ...] = ()
    datasets: tuple[DatasetConfig, ...] = ()
    runtimes: tuple[RuntimeConfig, ...] = Field(min_length=1)
    controllers: ControllerResources | None = None
    queueing: QueueingConfig = KueueConfig()
    ready_timeout_seconds: Annotated[int, Field(strict=True, ge=30, le=86400)] = 600
    requeue: RequeueConfig = RequeueConfig()
    fair: FairConfig = FairConfig()
    default_queue: Annotated[bool, Field(strict=True)] = False
    pod_groups: Annotated[bool, Field(strict=True)] = False
    finished_days: Annotated[int, Field(strict=True, ge=1, le=3650)] | None = 7
    gate: GateConfig = GateConfig()
    network_policy: NetworkPolicyConfig = NetworkPolicyConfig()
    watching: WatchingConfig = WatchingConfig()
    access: AccessConfig = AccessConfig()
    registry_mirrors: dict[RegistryHost, ImagePrefix] = Field(default_factory=dict)
    removals: tuple[RemovalConfig, ...] = ()

    @property
    def training_namespaces(self) -> tuple[str, ...]:
        """Every namespace that jobs run in: the stack's own, then the teams'."""
        return (*self.namespaces, *(name for team in self.teams for name in team.namespaces))

    @property
    def local_queues(self) -> tuple[QueueConfig, ...]:
        """Every queue that jobs name: the stack's own, then one in each namespace of each team."""
        return (
            *self.queues,
            *(
                # Of what is checked already, as far as it is well-formed.
                QueueConfig.model_construct(
                    name=team.name, namespace=namespace, cluster_queue=team.name, pools=team.pools
                )
                for team in self.teams
                for namespace in team.namespaces
            ),
        )

    def team_of(self, namespace: str) -> TeamConfig | None:
        """Return the team that a namespace belongs to; None for one of the stack's own."""
        return next((team for team in self.teams if namespace in team.namespaces), None)

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """Path in the stack's file and name of every group of people."""
        own = (("researchers", self.researchers),)
        listed: list[tuple[str, Model]] = [("access", self.access)]
        listed += [(f"teams[{at}]", team) for at, team in enumerate(self.teams)]
        return own + tuple(
            (f"{path}.{persona}[{index}]", group)
            for path, section in listed
            for persona in ("leads", "researchers", "viewers")
            for index, group in enumerate(getattr(section, persona, ()))
        )

    def mirrored(self, reference: str) -> str:
        """Return the place to pull an image from, by its digest if the stack records one."""
        return mirrored(exact(reference), self.registry_mirrors)
