"""What a platform answers: where clusters live is asked of nobody else, and named nowhere else."""

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
from railhead.model.cluster import CheckpointConfig, Cluster
from railhead.model.network_policy import Destination

C = TypeVar("C", bound=Cluster)


@dataclass(frozen=True, kw_only=True)
class MadeWith:
    """``fixed`` is what changes only by making it anew, ``grows`` what gets no smaller."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    grows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Made:
    """What lies below the objects of Kubernetes: the cluster, nodes, classes' storage.

    ``system`` is the controllers' nodes; ``protected`` whether all of it is kept from deletion,
    None where the stack makes none of it.
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
        rails_apart: whether no rail shares a wire with another, so that no interface can answer for
            another's address.
        knows_networks: whether :meth:`networks` are all of a cluster's own.
        name_servers: addresses that answer for names besides pods of kube-system, as CIDR blocks.
        label_domains: of labels that nodes of no other platform carry.
        levels: the labels that place its nodes, from the widest to the closest.
        knows_labels: whether no node of it carries another platform's labels.
        owns_cluster: whether the stack makes the cluster, which is nobody else's then.
        built_here: whether its nodes have what `railhead lab build` makes: images and charts.
        provisioning_class: what Kueue's provisioning requests name where nodes come for a gang.
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

    def problems(self, cluster: C) -> Iterator[Problem]:  # noqa: ARG002 - each platform's own
        """Every (path, message) of what only this platform minds, as far as it is well-formed."""
        yield from ()

    def doubts(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        now: datetime,  # noqa: ARG002 - each platform's own
    ) -> Iterator[Problem]:
        """Every (path, message) of what may be meant and mostly is not; ``now`` has a time zone."""
        yield from ()

    def networks(self, cluster: C) -> Iterator[tuple[str, Network]]:
        """A cluster's own networks, each with where it is said, as far as they are well-formed."""
        yield from told(lambda: _networks("platform", cluster.platform))

    def queued_pools(self, cluster: C) -> tuple[str, ...]:  # noqa: ARG002 - each platform's own
        """Names of the pools whose nodes come only when Kueue asks for them."""
        return ()

    def system_nodes(self, cluster: C) -> tuple[int, str] | None:  # noqa: ARG002 - its own
        """How many nodes the controllers begin with, and of what type; None where it makes none."""
        return None

    def mount_annotations(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        claim: CheckpointConfig,  # noqa: ARG002 - each platform's own
    ) -> Mapping[str, str]:
        """What a pod's annotations must say for it to mount a claim."""
        return {}

    def made(self, cluster: C) -> Made:  # noqa: ARG002 - each platform's own
        """What the next edit is held against: whatever else a change of it makes anew is lost."""
        return Made()

    def egress(
        self,
        cluster: C,  # noqa: ARG002 - each platform's own
        namespace: str,  # noqa: ARG002 - each platform's own
    ) -> tuple[Destination, ...]:
        """What the jobs of a namespace must reach, beside what the stack's file says."""
        return ()

    def addons(self, cluster: C) -> tuple[str, ...]:  # noqa: ARG002 - each platform's own
        """Names of the catalogue's add-ons that the platform's part of a stack installs."""
        return ()

    def image(self, cluster: C, image: str) -> str:  # noqa: ARG002 - each platform's own
        """Where nodes pull an image of the catalogue from."""
        return image

    def access(self, cluster: C) -> Access | None:  # noqa: ARG002 - each platform's own
        """How a cluster that is there is reached; None where the stack makes it.

        Raises:
            PrerequisiteError: it should be there and is not; names what to run.
        """
        return None

    def uid(self, cluster: C) -> str:  # noqa: ARG002 - each platform's own
        """UID of the namespace `kube-system` of the one cluster that is meant; empty for any."""
        return ""

    def checks_nodes(self, cluster: C) -> bool:  # noqa: ARG002 - each platform's own
        """Whether pools are held against the live nodes before anything is changed."""
        return False


def _networks(path: str, value: Any) -> Iterator[tuple[str, Network]]:
    """Every network written anywhere below a value."""
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
