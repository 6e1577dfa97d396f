"""The contract between a cluster and its users: one frozen, versioned object for both sides.

The stack exports it as the output ``contract`` and writes it into the cluster as a ConfigMap that
every authenticated user may read, so that a researcher needs a kubeconfig and nothing else. It
never holds a secret: a kubeconfig is an output of its own. Another Pulumi project reads it with
:meth:`ClusterContract.from_stack`.

Compatibility of ``schema_version``:

* Within a version, fields are only added, each with a default, and no field changes its meaning.
  Readers ignore fields that they do not know, so that an older Railhead can read a newer stack's
  contract.
* Removing a field, renaming it or changing its meaning makes a new version. Every reader reads its
  own version and all older ones, by the steps in
  :data:`~railhead.contract.migrations.MIGRATIONS`.
* A newer version is refused by its number, and the error says what to install.

`tests/unit/contract/examples/` holds contracts of every version as they were once published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from railhead.base.errors import InputError, NotFoundError
from railhead.base.placing import unplaced
from railhead.base.retries import HOPELESS
from railhead.contract.migrations import SCHEMA_VERSION, current

if TYPE_CHECKING:
    from railhead.contract.reference import Options, Reference, StackContract

NAMESPACE = "railhead-system"
CONFIG_MAP = "railhead-contract"
KEY = "contract.json"
OUTPUT = "contract"
# A secret of its own, if the stack made the cluster.
KUBECONFIG_OUTPUT = "kubeconfig"

# A ConfigMap's data (kubernetes v1.35, pkg/apis/core, MaxSecretSize), less its key.
LARGEST = (1 << 20) - (1 << 10)
# Up to here a contract is written with a field a line.
READABLE = 256 << 10

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class _Model(BaseModel):
    # Ignores further fields of a newer stack: see the rule above.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Network(_Model):
    """A NetworkAttachmentDefinition that a training pod joins, one per rail.

    ``interface`` is the name that the interface gets inside the pod.
    """

    name: str
    namespace: str
    rail: Count
    interface: str


class Switch(_Model):
    """A variable that can take a job off its network: why, and the fabric's own values."""

    reason: str
    allowed: tuple[str, ...] = ()


class Fabric(_Model):
    """The parts of the training fabric that are the same for every pod.

    ``environment`` are the variables of every training pod, ``reasons`` says why each is there, and
    ``not_set`` names those left alone on purpose. ``line_rate_gbps`` is a NIC's nominal rate in
    Gbit/s, 0 where the fabric has no nominal rate (a lab's bridge). ``capabilities`` are what a
    container needs to lock memory. ``userspace`` is what the image must hold. ``proofs`` are
    regular expressions of which each must match NCCL's log of every rank of a job of several
    nodes, and ``gpudirect`` one that the line of a channel from GPU memory to the NIC matches; None
    if NCCL's log does not show it. ``rdma`` is None if an older stack did not say; ``counted`` says
    whether the kernel's interfaces count its traffic by design.
    ``switches`` are the variables that can take a job off the fabric; only a job with
    ``fabric: none`` may set them to other values than the fabric's.
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
    """A taint that pods of a pool must tolerate, in Kubernetes' form."""

    key: str | None = None
    operator: str = "Exists"
    value: str | None = None
    effect: str | None = None


class NodePool(_Model):
    """A set of equal nodes. ``capacity`` is per node, in Kubernetes quantities by resource name.

    It is what pods can request, not what the machine has. ``node_selector`` are the labels that
    every node carries. ``nics`` is the NICs of the training fabric, ``line_rate_gbps`` all of them
    together in Gbit/s, ``hcas`` their RDMA devices on the node if they are known.
    ``nvlink_domain`` is how many GPUs one NVLink domain has, more than ``gpus_per_node`` if it
    spans nodes, and 0 if an older stack did not say. ``queued`` says that nodes come for one gang
    at a time, which is not placed by topology.
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
    queued: bool = False


class Queue(_Model):
    """A LocalQueue that researchers submit to, and the ClusterQueue behind it.

    ``pools`` are those whose nodes it hands out, ``flavors`` their ResourceFlavors in that order.
    ``priority`` is the priority of jobs that name none, ``team`` the queue's team or None.
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
    promised, ``borrows`` says in words what it may borrow beyond them, and from whom.
    """

    name: str
    namespaces: tuple[str, ...]
    leads: tuple[str, ...] = ()
    researchers: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    shares: dict[str, float] = Field(default_factory=dict)
    borrows: tuple[str, ...] = ()


class Share(_Model):
    """The requests of a pod with ``gpus`` GPUs: devices and huge pages, quantities by resource."""

    gpus: Positive
    requests: dict[str, str]


class Mount(_Model):
    """A claim with the same name in every training namespace, and its mount in a runtime's pods."""

    claim: str
    path: str


def _whole(value: Any) -> Any:
    """Return the value with whole numbers in place of a stack output's floats."""
    if isinstance(value, Mapping):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Runtime(_Model):
    """A ClusterTrainingRuntime that already carries the fabric's wiring.

    Its jobs: ``gpus_per_node`` and ``processes_per_node`` are what each pod gets unless a job
    chooses; ``shares`` has every number of GPUs that it may choose. ``max_nodes`` is the number of
    nodes, ``only_nodes`` the only number that a job may ask for, None for any.

    Its pods: ``pool`` is where they run, None if an older stack did not say; nobody can launch on
    such a runtime. ``replicated_job`` and ``container`` name those that train. ``checkpoint`` is
    what they mount for checkpoints, None for nothing. ``topology_level`` is a node label; if
    possible, all pods run on nodes with the same value; None on a queued pool. ``pod`` is the
    runtime's pod template, with metadata and spec.

    ``launches`` is a regular expression that a command of several nodes must match, ``alone`` one
    that it must not, and ``launcher`` what to begin it with; None if no launcher is needed.

    ``reserved`` are the variables that no job may set, with who sets them. ``process_prefix`` is a
    regular expression for the start of a process' log lines, its group the process' number on its
    node; None if they have no prefix. ``restarts`` is how often a failed gang is recreated, None
    if an older stack did not say, ``never_on`` are exit codes after which it is not. ``programs``
    is the directory in which its pods have Railhead's programs, empty if they have none. ``told``
    are the reserved variables that launch sets for each job, because no policy of Trainer's sets
    them.
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
    never_on: tuple[Count, ...] = HOPELESS
    programs: str = ""
    pod: Annotated[dict[str, Any], BeforeValidator(_whole)] = Field(default_factory=dict)

    @property
    def trainer(self) -> dict[str, Any]:
        """The container that trains; empty if an older stack did not say."""
        containers = (self.pod.get("spec") or {}).get("containers") or []
        return next((c for c in containers if c["name"] == self.container), {})

    @property
    def environment(self) -> dict[str, str]:
        """The variables of that container."""
        return {e["name"]: e["value"] for e in self.trainer.get("env") or () if "value" in e}

    @property
    def devices(self) -> dict[str, str]:
        """The extended resources and huge pages that each pod requests, as quantities."""
        own = (share.requests for share in self.shares if share.gpus == self.gpus_per_node)
        return dict(next(own, {}))


class Checkpoint(_Model):
    """A ReadWriteMany claim that every pod of a runtime mounts at ``mount_path``.

    ``annotations`` are what any pod that mounts it needs. Of the claims of one ``file_system`` a
    pod mounts one alone; None if its volume is like no other.
    """

    claim: str
    namespace: str
    mount_path: str
    size: str
    storage_class: str | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    file_system: str | None = None


class Dataset(_Model):
    """A claim with data that jobs of the namespace may mount read-only.

    ``volume`` is the volume of the stack's claim; None if the claim existed already.
    """

    name: str
    claim: str
    namespace: str
    mount_path: str
    volume: str | None = None


def _said(value: Any) -> Any:
    """Return the value with ``none`` for null, because a stack's output leaves nulls out."""
    whole = _whole(value)
    if not isinstance(whole, Mapping):
        return whole
    return {key: "none" if inner is None else inner for key, inner in whole.items()}


class MadeWith(_Model):
    """``fixed`` are settings that change only by recreation, ``grows`` those that never shrink.

    ``template`` is a digest of the text that nodes are launched with; empty if they have none,
    or an older stack did not say.
    """

    fixed: Annotated[dict[str, Any], BeforeValidator(_said)] = Field(default_factory=dict)
    grows: Annotated[dict[str, int], BeforeValidator(_whole)] = Field(default_factory=dict)
    template: str = ""


class Made(_Model):
    """The things below Kubernetes' objects: the cluster, nodes, classes' storage.

    ``pools`` and ``storage`` are by name, the latter the storage class'; ``system`` is the
    controllers' nodes. ``protected`` says whether the engine refuses to delete or replace them,
    None if it makes none. ``addons`` are those of the catalogue that it installed.
    ``finished_days`` is how long finished jobs' pods stay, None for ever. Empty if an older stack
    did not say.
    """

    cluster: MadeWith = MadeWith()
    system: MadeWith = MadeWith()
    protected: bool | None = None
    addons: tuple[str, ...] = ()
    finished_days: Positive | None = None
    pools: dict[str, MadeWith] = Field(default_factory=dict)
    storage: dict[str, MadeWith] = Field(default_factory=dict)


class ClusterContract(_Model):
    """Everything about a cluster that launching and checking need.

    ``standing`` says whether nodes exist all the time; elsewhere they may come for a job.
    ``stand_in`` says that nodes share one machine's cores, and that GPUs are only advertised.
    ``placement_field`` is the field of a TrainJob that patches pods, None if an older stack did
    not say. ``versions`` is component -> version, and ``combination``, the row of the catalogue.
    ``researchers`` is the group that may submit jobs. ``priorities`` is name -> value of the
    priorities that jobs may name, the highest first. ``scheduler`` admits jobs, and ``unsaid`` are
    the fields of a job file that it does not support, each with the reason. ``made`` is for the
    checks of the next edit of the stack's file. ``details`` are the platform's identifiers for
    other projects, such as ``vpc_id``; only the stack's output has them, not the copy in the
    cluster.
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
        """Return the canonical text, with sorted keys, so that an unchanged contract is equal.

        A long one has no spaces, which are a third of it.
        """
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=1)
        return text if len(text) <= READABLE else self.dense()

    def dense(self) -> str:
        """Return the text of a long one, which takes a tenth of the time to write."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, where: str) -> ClusterContract:
        """Read a contract.

        Raises:
            InputError: the text is not a contract, or has a newer ``schema_version``.
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
            InputError: it is not a contract, or has a newer ``schema_version``.
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
    def from_stack(
        cls,
        stack: str,
        *,
        key: str = OUTPUT,
        name: str | None = None,
        opts: Options | None = None,
        reference: Reference | None = None,
    ) -> StackContract[ClusterContract]:
        """Return the contract of another stack, in a Pulumi program; needs Pulumi installed.

        Args:
            stack: ``organization/project/stack``; ``organization`` is literally that word for
                backends without accounts, such as a folder.
            key: the output that holds the contract.
            name: of the StackReference that is made; default: ``stack``. Two calls without a name
                and options share one.
            opts: of that StackReference, such as a parent.
            reference: a StackReference of the program's own to that stack, in place of a new one.

        A missing output raises :class:`railhead.contract.reference.MissingOutputError`, which lists
        the outputs; an unreadable contract raises :class:`~railhead.base.errors.InputError`. Both
        stop the program when the output is used.
        """
        from railhead.contract.reference import StackContract

        return StackContract(
            stack,
            key=key,
            kubeconfig=KUBECONFIG_OUTPUT,
            parse=lambda data: cls.from_data(data, where=f"stack {stack!r}"),
            name=name,
            opts=opts,
            reference=reference,
        )

    def unplaced(self, queue: Queue) -> dict[str, str]:
        """Return the annotations of a pod in a queue that is no part of a gang."""
        return unplaced(queue.pools, [pool.name for pool in self.node_pools if pool.queued])

    def runtime(self, name: str) -> Runtime:
        """Return the runtime called ``name``; raise NotFoundError if it is unknown."""
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
        """The fabric's extended resources that jobs' pods request, without GPUs and huge pages."""
        gpus = {pool.gpu_resource for pool in self.node_pools}
        shares = (share for runtime in self.runtimes for share in runtime.shares)
        names = dict.fromkeys(name for share in shares for name in share.requests)
        return tuple(n for n in names if n not in gpus and not n.startswith("hugepages-"))

    def pool(self, runtime: Runtime) -> NodePool:
        """Return the pool that a runtime's pods run on; raise NotFoundError if it names no pool."""
        for pool in self.node_pools:
            if pool.name == runtime.pool:
                return pool
        raise NotFoundError(
            f"the contract of cluster {self.cluster!r} has no pool {runtime.pool!r}, on which pods "
            f"of runtime {runtime.name!r} run",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )

    def queue(self, name: str | None = None) -> Queue:
        """Return the queue called ``name``, or the first; raise NotFoundError if it is unknown."""
        for queue in self.queues:
            if name is None or queue.name == name:
                return queue
        known = ", ".join(q.name for q in self.queues) or "none"
        raise NotFoundError(
            f"queue {name!r} is not in cluster {self.cluster!r}; there are: {known}",
            remedy="name one of them, or add it under `queues` in the cluster's stack",
        )
