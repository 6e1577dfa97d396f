"""What a cluster tells its users: one frozen, versioned object that both sides share.

The stack exports it as the output ``contract`` and writes it into the cluster as a ConfigMap that
every authenticated user may read, so that a researcher needs a kubeconfig and nothing else. It
never holds a secret: a kubeconfig is an output of its own. Another Pulumi project reads it with
:meth:`ClusterContract.from_stack`.

Compatibility of ``schema_version``:

* Within a version, fields are only added, each with a default, and none changes its meaning.
  Readers let fields pass that they do not know, so that a newer stack's contract can be read by
  an older Railhead.
* Removing a field, renaming it or changing its meaning makes a new version. Every reader reads its
  own version and all older ones, by the steps in
  :data:`~railhead.contract.migrations.MIGRATIONS`.
* A newer version is refused by its number, with what to install.

`tests/unit/contract/examples/` holds contracts of every version as they were once published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from railhead.base.errors import InputError, NotFoundError
from railhead.contract.migrations import SCHEMA_VERSION, current

if TYPE_CHECKING:
    from railhead.contract.reference import StackContract

NAMESPACE = "railhead-system"
CONFIG_MAP = "railhead-contract"
KEY = "contract.json"
OUTPUT = "contract"
# A secret of its own, where the stack made the cluster.
KUBECONFIG_OUTPUT = "kubeconfig"

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class _Model(BaseModel):
    # What a newer stack says besides is let pass: see the rule above.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Network(_Model):
    """A NetworkAttachmentDefinition that a training pod joins, one a rail.

    ``interface`` is the name that the interface gets inside the pod.
    """

    name: str
    namespace: str
    rail: Count
    interface: str


class Switch(_Model):
    """A variable that can take a job off its network: why, and the values that the fabric has."""

    reason: str
    allowed: tuple[str, ...] = ()


class Fabric(_Model):
    """The training fabric, as far as it is the same for every pod.

    ``environment`` are the variables of every training pod, ``reasons`` says why each is there, and
    ``not_set`` names those left alone on purpose. ``line_rate_gbps`` is a NIC's nominal rate in
    Gbit/s, 0 where the fabric has no nominal rate (a lab's bridge). ``capabilities`` are what a
    container needs to lock memory. ``userspace`` is what the image must hold. ``proofs`` are
    regular expressions of which each must match NCCL's log of every rank of a job of several
    nodes, and ``gpudirect`` one that the line of a channel from GPU memory to the NIC matches; None
    where NCCL's log does not say it. ``rdma`` is None where an older stack did not say, ``counted``
    whether the kernel's interfaces count its traffic by design.
    ``switches`` are the variables that can take a job off the fabric; only a job that says
    ``fabric: none`` may set them to what the fabric has not.
    """

    kind: str
    mode: str
    networks: tuple[Network, ...]
    environment: dict[str, str]
    line_rate_gbps: Count
    nics_per_node: Count
    rdma: bool | None = None
    counted: bool = False
    reasons: dict[str, str] = Field(default_factory=dict)
    not_set: dict[str, str] = Field(default_factory=dict)
    switches: dict[str, Switch] = Field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    host_network: bool = False
    userspace: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    gpudirect: str | None = None


class Toleration(_Model):
    """A taint that pods of a pool must tolerate, as Kubernetes says it."""

    key: str | None = None
    operator: str = "Exists"
    value: str | None = None
    effect: str | None = None


class NodePool(_Model):
    """A set of equal nodes. ``capacity`` is per node, in Kubernetes quantities by resource name.

    It is what pods can request, not what the machine has. ``node_selector`` are the labels that
    every node carries. ``nics`` is the NICs of the training fabric, ``line_rate_gbps`` all of them
    together in Gbit/s, ``hcas`` their RDMA devices on the node where they are known.
    ``nvlink_domain`` is how many GPUs one NVLink domain has, more than ``gpus_per_node`` where it
    spans nodes, and 0 where an older stack did not say.
    """

    name: str
    instance_type: str
    nodes: Positive
    gpus_per_node: Count
    capacity: dict[str, str]
    node_selector: dict[str, str]
    tolerations: tuple[Toleration, ...] = ()
    gpu_resource: str = "nvidia.com/gpu"
    accelerator: str | None = None
    architecture: str = "amd64"
    nics: Count = 0
    line_rate_gbps: Count = 0
    hcas: tuple[str, ...] = ()
    nvlink_domain: Count = 0


class Queue(_Model):
    """A LocalQueue that researchers submit to, and the ClusterQueue behind it.

    ``pools`` are those whose nodes it hands out, ``flavors`` their ResourceFlavors in that order.
    ``priority`` is what jobs get that name none, ``team`` whose queue it is; None for nobody's.
    """

    name: str
    namespace: str
    cluster_queue: str
    flavors: tuple[str, ...]
    pools: tuple[str, ...] = ()
    team: str | None = None
    priority: str | None = None


class Team(_Model):
    """People who share ``namespaces`` and a cluster queue of the team's name.

    ``leads``, ``researchers`` and ``viewers`` are groups, ``shares`` is pool -> nodes that it is
    promised, ``borrows`` says in words what it may have beyond them, and whose it is.
    """

    name: str
    namespaces: tuple[str, ...]
    leads: tuple[str, ...] = ()
    researchers: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    shares: dict[str, float] = Field(default_factory=dict)
    borrows: tuple[str, ...] = ()


class Share(_Model):
    """What a pod with ``gpus`` GPUs requests: devices and huge pages as quantities, by resource."""

    gpus: Positive
    requests: dict[str, str]


class Mount(_Model):
    """A claim of one name in every training namespace, and where a runtime's pods mount it."""

    claim: str
    path: str


def _whole(value: Any) -> Any:
    """The value with whole numbers where a stack's output has floats."""
    if isinstance(value, Mapping):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Runtime(_Model):
    """A ClusterTrainingRuntime that already carries the fabric's wiring.

    Of its jobs: ``gpus_per_node`` and ``processes_per_node`` are what each pod gets unless a job
    says otherwise; ``shares`` has every number of GPUs that it may say. ``max_nodes`` is the most
    that there are, ``only_nodes`` the one number that may be asked for, None for any.

    Of its pods: ``pool`` is where they run, None where an older stack did not say; nobody can
    launch on such a runtime. ``replicated_job`` and ``container`` name those that train.
    ``checkpoint`` is what they mount for checkpoints, None for nothing. ``topology_level`` is the
    node label within whose value they are placed where that is possible. ``pod`` is the pod's
    template, with metadata and spec, as the runtime has it.

    ``launches`` is a regular expression that a command of several nodes must match, ``alone`` one
    that it must not, and ``launcher`` what to begin it with; None where nothing needs a launcher.

    ``reserved`` are the variables that no job may set, with who sets them. ``process_prefix`` is a
    regular expression for the start of a process' log lines, its group the process' number on its
    node; None where they have none. ``restarts`` is how often a gang that failed is made anew, None
    where an older stack did not say. ``told`` are those of the reserved variables that launch sets
    for each job, as no policy of Trainer's does.
    """

    name: str
    framework: str
    image: str
    container: str
    replicated_job: str = "node"
    gpus_per_node: Count
    processes_per_node: Count
    shares: tuple[Share, ...] = ()
    max_nodes: Positive | None = None
    only_nodes: Positive | None = None
    pool: str | None = None
    checkpoint: Mount | None = None
    topology_level: str | None = None
    launcher: str | None = None
    launches: str | None = None
    alone: str | None = None
    reserved: dict[str, str] = Field(default_factory=dict)
    process_prefix: str | None = None
    told: tuple[str, ...] = ()
    restarts: Count | None = None
    pod: Annotated[dict[str, Any], BeforeValidator(_whole)] = Field(default_factory=dict)

    @property
    def trainer(self) -> dict[str, Any]:
        """The container that trains; empty where an older stack did not say."""
        containers = (self.pod.get("spec") or {}).get("containers") or []
        return next((c for c in containers if c["name"] == self.container), {})

    @property
    def environment(self) -> dict[str, str]:
        """The variables of that container."""
        return {e["name"]: e["value"] for e in self.trainer.get("env") or () if "value" in e}

    @property
    def devices(self) -> dict[str, str]:
        """Extended resources and huge pages that each pod requests, as quantities."""
        own = (share.requests for share in self.shares if share.gpus == self.gpus_per_node)
        return dict(next(own, {}))


class Checkpoint(_Model):
    """A ReadWriteMany claim that every pod of a runtime mounts at ``mount_path``."""

    claim: str
    namespace: str
    mount_path: str
    size: str
    storage_class: str | None = None


class Dataset(_Model):
    """A claim with data that jobs of the namespace may mount, and only read.

    ``volume`` is what the stack made it on; None where the claim was there already.
    """

    name: str
    claim: str
    namespace: str
    mount_path: str
    volume: str | None = None


def _said(value: Any) -> Any:
    """With a word where there is nothing: a stack's output leaves out what is null."""
    found = _whole(value)
    if not isinstance(found, Mapping):
        return found
    return {key: "none" if inner is None else inner for key, inner in found.items()}


class MadeWith(_Model):
    """``fixed`` is what changes only by making it anew, ``grows`` what gets no smaller."""

    fixed: Annotated[dict[str, Any], BeforeValidator(_said)] = Field(default_factory=dict)
    grows: Annotated[dict[str, int], BeforeValidator(_whole)] = Field(default_factory=dict)


class Made(_Model):
    """What lies below the objects of Kubernetes: the cluster, nodes, classes' storage.

    ``pools`` and ``storage`` are by name, the latter the storage class'; ``system`` is the
    controllers' nodes. ``protected`` says whether the engine refuses to delete or replace them,
    None where it makes none. ``addons`` are those of the catalogue that it installed. Empty where
    an older stack did not say.
    """

    cluster: MadeWith = MadeWith()
    system: MadeWith = MadeWith()
    protected: bool | None = None
    addons: tuple[str, ...] = ()
    pools: dict[str, MadeWith] = Field(default_factory=dict)
    storage: dict[str, MadeWith] = Field(default_factory=dict)


class ClusterContract(_Model):
    """Everything that launching and checking need to know of a cluster.

    ``standing`` says whether nodes are there all the time; elsewhere they may come for a job.
    ``stand_in`` says that nodes share one machine's cores, and that GPUs are only advertised.
    ``placement_field`` is the field of a TrainJob that patches pods, None where an older stack did
    not say. ``versions`` is component -> version, and ``combination``, the row of the catalogue.
    ``researchers`` is the group that may submit jobs. ``priorities`` is name -> value of what jobs
    may name, the highest first. ``scheduler`` is who admits jobs, and ``unsaid`` the fields of a
    job file that it has no word for, each with the reason. ``made`` is what the next edit of the
    stack's file is held against besides. ``details`` are what the platform has that other projects
    refer to, such as ``vpc_id``; only the stack's output has them, the copy in the cluster does
    not.
    """

    schema_version: Literal[3] = SCHEMA_VERSION
    cluster: str
    platform: str
    standing: bool
    stand_in: bool = False
    fabric: Fabric
    node_pools: tuple[NodePool, ...]
    queues: tuple[Queue, ...]
    runtimes: tuple[Runtime, ...]
    checkpoints: tuple[Checkpoint, ...]
    datasets: tuple[Dataset, ...] = ()
    namespaces: tuple[str, ...]
    topology_levels: tuple[str, ...]
    placement_field: Literal["podTemplateOverrides", "runtimePatches"] | None = None
    scheduler: str = "kueue"
    unsaid: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str]
    researchers: str | None = None
    teams: tuple[Team, ...] = ()
    priorities: dict[str, int] = Field(default_factory=dict)
    made: Made = Made()
    details: dict[str, str] = Field(default_factory=dict)

    def to_json(self) -> str:
        """The canonical text: sorted keys, so that an unchanged contract is an unchanged object."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str, *, where: str) -> ClusterContract:
        """Read a contract.

        Raises:
            InputError: the text is no contract, or one of another ``schema_version``.
        """
        try:
            data: Any = json.loads(text)
        except ValueError as error:
            raise InputError(
                f"{where}: not a Railhead contract: {error}",
                remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
            ) from None
        return cls.from_data(data, where=where)

    @classmethod
    def from_data(cls, data: Any, *, where: str) -> ClusterContract:
        """Read a contract that is parsed already, such as a stack's output.

        Raises:
            InputError: it is no contract, or one of a newer ``schema_version``.
        """
        try:
            return cls.model_validate(current(data, where))
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"{where}: {path}: {first['msg']}",
                remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
            ) from None

    @classmethod
    def from_stack(cls, stack: str, *, key: str = OUTPUT) -> StackContract[ClusterContract]:
        """The contract of another stack, for use in a Pulumi program; needs Pulumi installed.

        Args:
            stack: ``organization/project/stack``; ``organization`` is literally that word for
                backends without accounts, such as a folder.
            key: the output that holds the contract.

        A missing output is :class:`railhead.contract.reference.MissingOutputError`, which lists
        those there are; a contract that cannot be read is an
        :class:`~railhead.base.errors.InputError`. Both stop the program when the
        output is looked at.
        """
        from railhead.contract.reference import StackContract

        return StackContract(
            stack,
            key=key,
            kubeconfig=KUBECONFIG_OUTPUT,
            parse=lambda data: cls.from_data(data, where=f"stack {stack!r}"),
        )

    def runtime(self, name: str) -> Runtime:
        """The runtime called ``name``; raises NotFoundError that lists the runtimes there are."""
        for runtime in self.runtimes:
            if runtime.name == name:
                return runtime
        known = ", ".join(r.name for r in self.runtimes) or "none"
        raise NotFoundError(
            f"runtime {name!r} is not published by cluster {self.cluster!r}; there are: {known}",
            remedy="name one of them, or add it under `runtimes` in the cluster's stack",
        )

    @property
    def device_resources(self) -> tuple[str, ...]:
        """The fabric's extended resources that pods of jobs request; no GPUs, no huge pages."""
        gpus = {pool.gpu_resource for pool in self.node_pools}
        shares = (share for runtime in self.runtimes for share in runtime.shares)
        names = dict.fromkeys(name for share in shares for name in share.requests)
        return tuple(n for n in names if n not in gpus and not n.startswith("hugepages-"))

    def pool(self, runtime: Runtime) -> NodePool:
        """The pool that a runtime's pods run on; raises NotFoundError where none is said."""
        for pool in self.node_pools:
            if pool.name == runtime.pool:
                return pool
        raise NotFoundError(
            f"the contract of cluster {self.cluster!r} has no pool {runtime.pool!r}, on which pods "
            f"of runtime {runtime.name!r} run",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )

    def queue(self, name: str | None = None) -> Queue:
        """The queue called ``name``, or the first; raises NotFoundError that lists the queues."""
        for queue in self.queues:
            if name is None or queue.name == name:
                return queue
        known = ", ".join(q.name for q in self.queues) or "none"
        raise NotFoundError(
            f"queue {name!r} is not in cluster {self.cluster!r}; there are: {known}",
            remedy="name one of them, or add it under `queues` in the cluster's stack",
        )
