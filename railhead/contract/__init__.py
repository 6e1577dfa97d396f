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
  own version and all older ones, by the steps in :data:`MIGRATIONS`.
* A newer version is refused by its number, with what to install.

`tests/unit/contract/examples/` holds contracts of every version as they were once published.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from railhead.base.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from railhead.contract.reference import StackContract

SCHEMA_VERSION: Final = 2
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


class Fabric(_Model):
    """The training fabric as a pod meets it.

    ``device_resources`` are requested per pod, with the count of each, by a pod that takes a whole
    node of the first pool. ``line_rate_gbps`` is a NIC's nominal rate in Gbit/s, 0 where the fabric
    has no nominal rate (a lab's bridge). ``reasons`` says why each variable of ``environment`` is
    there; ``not_set`` names those left alone on purpose. ``annotations`` go on the pod, ``claim``
    is the ResourceClaimTemplate of its NICs, ``capabilities`` what its container needs to lock
    memory, ``hugepages_mib`` its 2 MiB huge pages in MiB. ``userspace`` is what the image must
    hold, ``proofs`` are regular expressions of which each must match NCCL's log of every rank.
    ``rdma`` is None where an older stack did not say.
    """

    kind: str
    mode: str
    device_resources: dict[str, Positive]
    networks: tuple[Network, ...]
    environment: dict[str, str]
    line_rate_gbps: Count
    nics_per_node: Count
    rdma: bool | None = None
    reasons: dict[str, str] = Field(default_factory=dict)
    not_set: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    claim: str | None = None
    capabilities: tuple[str, ...] = ()
    hugepages_mib: Count = 0
    host_network: bool = False
    userspace: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()


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
    """

    name: str
    namespace: str
    cluster_queue: str
    flavors: tuple[str, ...]
    pools: tuple[str, ...] = ()


class Share(_Model):
    """What a pod with ``gpus`` GPUs requests: devices and huge pages as quantities, by resource."""

    gpus: Positive
    requests: dict[str, str]


class Mount(_Model):
    """A claim of one name in every training namespace, and where a runtime's pods mount it."""

    claim: str
    path: str


class Runtime(_Model):
    """A ClusterTrainingRuntime that already carries the fabric's wiring.

    ``container`` is the trainer container's name, ``gpus_per_node`` what each of its pods requests.
    ``pool`` is where its pods run, None where an older stack did not say. ``shares`` has every
    number of GPUs that a job may ask for instead. ``checkpoint`` is what its pods mount for
    checkpoints, None for nothing. ``environment`` are its container's variables, ``reserved`` those
    that no job may set, with who sets them. ``process_prefix`` is a regular expression for the
    start of a process' log lines, its group the process' number on its node; None where they have
    none.
    """

    name: str
    framework: str
    image: str
    container: str
    gpus_per_node: Count
    pool: str | None = None
    shares: tuple[Share, ...] = ()
    checkpoint: Mount | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    reserved: dict[str, str] = Field(default_factory=dict)
    process_prefix: str | None = None


class Checkpoint(_Model):
    """A ReadWriteMany claim that every pod of a runtime mounts at ``mount_path``."""

    claim: str
    namespace: str
    mount_path: str
    size: str
    storage_class: str | None = None


class ClusterContract(_Model):
    """Everything that launching and checking need to know of a cluster.

    ``versions`` is component -> version, and ``combination``, the row of the catalogue.
    ``researchers`` is the group that may submit jobs. ``details`` are what the platform has that
    other projects refer to, such as ``vpc_id``; only the stack's output has them, the copy in the
    cluster does not.
    """

    schema_version: Literal[2] = SCHEMA_VERSION
    cluster: str
    platform: str
    fabric: Fabric
    node_pools: tuple[NodePool, ...]
    queues: tuple[Queue, ...]
    runtimes: tuple[Runtime, ...]
    checkpoints: tuple[Checkpoint, ...]
    namespaces: tuple[str, ...]
    topology_levels: tuple[str, ...]
    versions: dict[str, str]
    researchers: str | None = None
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
            return cls.model_validate(_current(data, where))
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"{where}: {path}: {first['msg']}",
                remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
            ) from None

    @classmethod
    def from_stack(cls, stack: str, *, key: str = OUTPUT) -> StackContract:
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

        return StackContract(stack, key=key)

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


def _current(data: Any, where: str) -> Any:
    """The data of a contract in this reader's version.

    Raises:
        InputError: it has no version, or a newer one.
    """
    version = data.get("schema_version") if isinstance(data, Mapping) else None
    # A stack's output comes back with every number as a float.
    if isinstance(version, float) and version.is_integer():
        version = int(version)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(
            f"{where}: schema_version is {version!r}, this Railhead reads 1 to {SCHEMA_VERSION}",
            remedy="name a contract that a Railhead stack published",
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{where}: schema_version is {version}, this Railhead reads 1 to {SCHEMA_VERSION}",
            remedy="install the Railhead release that the cluster's stack was deployed with",
        )
    for step in range(version, SCHEMA_VERSION):
        data = MIGRATIONS[step](data)
    return {**data, "schema_version": SCHEMA_VERSION}


def _from_1(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 2 reads unknown fields past, which 1 refused; all that it has besides is optional."""
    return data


#: Version -> the step that makes it the next one. None is ever removed.
MIGRATIONS: Mapping[int, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = MappingProxyType(
    {1: _from_1}
)
