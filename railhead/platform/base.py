"""The interface of a platform: all that differs between the places where clusters live."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from railhead.base.sections import Problem, each, told
from railhead.fabric.site import Network
from railhead.model.cluster import CheckpointConfig, Cluster, Pool
from railhead.model.network_policy import Destination
from railhead.model.node_paths import USUAL, NodePaths

C = TypeVar("C", bound=Cluster)


@dataclass(frozen=True, kw_only=True)
class MadeWith:
    """Settings of one part: ``fixed`` ones change only by recreating it, ``grows`` never shrink.

    ``template`` is a digest of what Railhead itself says of new nodes, which may change with its
    version: whatever changes it replaces the nodes that there are. Empty for what does not.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    grows: Mapping[str, int] = field(default_factory=dict)
    template: str = ""


@dataclass(frozen=True, kw_only=True)
class CreatedByPlatform:
    """The parts below the objects of Kubernetes: the cluster, nodes, classes' storage.

    ``system`` is the controllers' nodes; ``protected`` tells whether all of it is protected from
    deletion, None if the stack makes none of it.
    """

    cluster: MadeWith = MadeWith()
    system: MadeWith = MadeWith()
    protected: bool | None = None
    pools: Mapping[str, MadeWith] = field(default_factory=dict)
    storage: Mapping[str, MadeWith] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Access:
    """A cluster that is there: its kubeconfig's path, and what names it for good.

    Resources are replaced when ``identity`` changes, and only then, however often the cluster's
    address or its credentials do. ``why`` says in messages which cluster this is.
    """

    kubeconfig: Path
    context: str | None = None
    identity: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Platform(Generic[C]):
    """A platform; each folder of :mod:`railhead.platform` has one, ``PLATFORM``.

    Args:
        kind: what a stack's ``platform.kind`` says, and the folder's name.
        cluster: the model of its clusters.
        offers: what modes of fabrics may need (:class:`railhead.fabric.mode.Mode`, ``needs``).
        standing: whether nodes are there all the time; elsewhere they may come for the job.
        stand_in: whether nodes are processes of one machine, which share its cores, and GPUs and
            NICs are only advertised.
        waits_for_nodes: whether `pulumi up` ends only when every node is as it should be; one dead
            node of a thousand would stop it.
        rails_apart: whether no two rails share a wire, so that no interface answers for another's
            address.
        knows_networks: whether :meth:`networks` returns all networks of a cluster.
        name_servers: addresses of name servers other than pods of kube-system, as CIDR blocks.
        label_domains: domains of labels that only nodes of this platform carry.
        levels: the labels that place its nodes, from the widest to the closest.
        knows_labels: whether no node of it carries another platform's labels.
        owns_cluster: whether the stack makes the cluster, so that nobody else uses it.
        built_here: whether its nodes have what `railhead lab build` makes: images and charts.
        provisioning_class: what Kueue's provisioning requests name where nodes come for a gang.
        provisioning_labels: label of the nodes that came for a request -> the detail of the
            request's class that has its value.
    """

    kind: str
    cluster: type[C]
    offers: frozenset[str] = frozenset()
    standing: bool = False
    stand_in: bool = False
    waits_for_nodes: bool = False
    rails_apart: bool = False
    knows_networks: bool = True
    name_servers: tuple[str, ...] = ()
    label_domains: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    knows_labels: bool = True
    owns_cluster: bool = True
    built_here: bool = False
    provisioning_class: str = ""
    provisioning_labels: Mapping[str, str] = field(default_factory=dict)

    def problems(self, cluster: C) -> Iterator[Problem]:  # noqa: ARG002 - each platform's own
        """Yield each (path, message) that only this platform finds, as far as it is well-formed."""
        yield from ()

    def doubts(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        now: datetime,  # noqa: ARG002 - each platform's own
    ) -> Iterator[Problem]:
        """Yield each (path, message) that is possible but probably wrong; ``now`` has a zone."""
        yield from ()

    def networks(self, cluster: C) -> Iterator[tuple[str, Network]]:
        """Yield the cluster's own networks with their paths, as far as they are well-formed."""
        yield from told(lambda: _networks("platform", cluster.platform))

    def queued_pools(self, cluster: C) -> tuple[str, ...]:  # noqa: ARG002 - each platform's own
        """Return the names of the pools whose nodes come only when Kueue asks for them."""
        return ()

    def provisioning_parameters(self, cluster: C) -> Mapping[str, str]:  # noqa: ARG002 - its own
        """Return what Kueue's provisioning requests say beside the gang's pods."""
        return {}

    def system_nodes(self, cluster: C) -> tuple[int, str] | None:  # noqa: ARG002 - its own
        """Return number and type of the controllers' first nodes; None if the stack makes none."""
        return None

    def lustre_devices(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        pool: Pool,  # noqa: ARG002 - each platform's own
    ) -> int:
        """Return how many of a node's EFA devices must carry Lustre; 0 if none has to."""
        return 0

    def mount_annotations(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        claim: CheckpointConfig,  # noqa: ARG002 - each platform's own
    ) -> Mapping[str, str]:
        """Return the annotations that a pod needs to mount a claim."""
        return {}

    def file_system(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        claim: CheckpointConfig,  # noqa: ARG002 - each platform's own
    ) -> str | None:
        """Return the file system of whose claims a pod mounts one; None if it is no such claim."""
        return None

    def made(self, cluster: C) -> CreatedByPlatform:  # noqa: ARG002 - each platform's own
        """Return what the next edit is compared with: settings whose change recreates parts."""
        return CreatedByPlatform()

    def egress(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        namespace: str,  # noqa: ARG002 - each platform's own
    ) -> tuple[Destination, ...]:
        """Return what the jobs of a namespace must reach, beside what the stack's file says."""
        return ()

    def addons(self, cluster: C) -> tuple[str, ...]:  # noqa: ARG002 - each platform's own
        """Return the names of the add-ons that the platform's part of a stack installs."""
        return ()

    def image(self, cluster: C, image: str) -> str:  # noqa: ARG002 - each platform's own
        """Return the place from which nodes pull an image of the catalogue."""
        return image

    def access(self, cluster: C) -> Access | None:  # noqa: ARG002 - each platform's own
        """Return the access to a cluster that exists; None if the stack makes it.

        Raises:
            PrerequisiteError: the cluster should exist and does not; the remedy says what to run.
        """
        return None

    def node_paths(self, cluster: C) -> NodePaths:  # noqa: ARG002 - each platform's own
        """Return the directories of its nodes that operators must know."""
        return USUAL

    def uid(self, cluster: C) -> str:  # noqa: ARG002 - each platform's own
        """Return the UID of the namespace `kube-system` of the stack's cluster; empty for any."""
        return ""

    def checks_nodes(self, cluster: C) -> bool:  # noqa: ARG002 - each platform's own
        """Return whether pools are compared with the live nodes before anything is changed."""
        return False


def _networks(path: str, value: Any) -> Iterator[tuple[str, Network]]:
    """Yield every network written anywhere below a value."""
    if isinstance(value, BaseModel):
        # What is malformed is not in it.
        for key, inner in vars(value).items():
            yield from told(_networks, f"{path}.{key}", inner)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from told(_networks, f"{path}.{key}", inner)
    elif isinstance(value, tuple):
        for where, inner in each(value, path):
            yield from told(_networks, where, inner)
    elif isinstance(value, str) and "/" in value:
        with contextlib.suppress(ValueError):
            network = ipaddress.ip_network(value)
            # What is open to everybody is a rule of access, not a range that anything lives in.
            if network.prefixlen:
                yield path, network
