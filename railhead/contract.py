"""What a cluster tells its users: one frozen, versioned object that both sides share.

The stack exports it as the output ``contract`` and writes it into the cluster as a ConfigMap that
every authenticated user may read, so that a researcher needs a kubeconfig and nothing else. It
never holds a secret.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from railhead.errors import InputError, NotFoundError

SCHEMA_VERSION: Final = 1
NAMESPACE = "railhead-system"
CONFIG_MAP = "railhead-contract"
KEY = "contract.json"
OUTPUT = "contract"
# A secret of its own, where the stack made the cluster.
KUBECONFIG_OUTPUT = "kubeconfig"

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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

    ``device_resources`` are requested per pod, with the count of each. ``line_rate_gbps`` is a
    NIC's nominal rate in Gbit/s, 0 where the fabric has no nominal rate (a lab's bridge).
    """

    kind: str
    mode: str
    device_resources: dict[str, Positive]
    networks: tuple[Network, ...]
    environment: dict[str, str]
    line_rate_gbps: Count
    nics_per_node: Count


class NodePool(_Model):
    """A set of equal nodes. ``capacity`` is per node, in Kubernetes quantities by resource name."""

    name: str
    instance_type: str
    nodes: Positive
    gpus_per_node: Count
    capacity: dict[str, str]
    node_selector: dict[str, str]


class Queue(_Model):
    """A LocalQueue that researchers submit to, and the ClusterQueue behind it."""

    name: str
    namespace: str
    cluster_queue: str
    flavors: tuple[str, ...]


class Runtime(_Model):
    """A ClusterTrainingRuntime that already carries the fabric's wiring.

    ``container`` is the trainer container's name, ``gpus_per_node`` what each of its pods requests.
    """

    name: str
    framework: str
    image: str
    container: str
    gpus_per_node: Count


class Checkpoint(_Model):
    """A ReadWriteMany claim that every pod of a runtime mounts at ``mount_path``."""

    claim: str
    namespace: str
    mount_path: str
    size: str


class ClusterContract(_Model):
    """Everything that launching and checking need to know of a cluster."""

    schema_version: Literal[1] = SCHEMA_VERSION
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
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{where}: schema_version is {version!r}, this Railhead reads {SCHEMA_VERSION}",
                remedy="install the Railhead release that the cluster's stack was deployed with",
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"{where}: {path}: {first['msg']}",
                remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
            ) from None

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
