"""The lab on this machine."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass

from railhead.base import paths
from railhead.base.errors import PrerequisiteError
from railhead.fabric.site import Network
from railhead.platform.base import Access, CreatedByPlatform, MadeWith, Platform
from railhead.platform.lab.model import LabCluster
from railhead.platform.lab.networks import NODE_NETWORK, POD_NETWORK, SERVICE_NETWORK

# The lab's own environment sets it, so that a second lab takes the same stack.
LAB_VARIABLE = "RAILHEAD_LAB"


@dataclass(frozen=True, kw_only=True)
class Lab(Platform[LabCluster]):
    """A cluster of real parts on this machine; its networks are always the same."""

    def networks(self, cluster: LabCluster) -> Iterator[tuple[str, Network]]:  # noqa: ARG002
        """Yield the lab's own."""
        yield "the lab's nodes", ipaddress.ip_network(NODE_NETWORK)
        yield "the lab's pods", ipaddress.ip_network(POD_NETWORK)
        yield "the lab's services", ipaddress.ip_network(SERVICE_NETWORK)

    def made(self, cluster: LabCluster) -> CreatedByPlatform:
        """Return the lab's name: another lab has nothing of this one."""
        return CreatedByPlatform(cluster=MadeWith(fixed={"lab": cluster.platform.lab}))

    def access(self, cluster: LabCluster) -> Access:
        """Return the running lab that the environment names, else the stack."""
        name = os.environ.get(LAB_VARIABLE) or cluster.platform.lab
        kubeconfig, identity = paths.lab_kubeconfig(name), paths.lab_dir(name) / "identity"
        suffix = "" if name == "lab" else f" --name {name}"
        for path in (kubeconfig, identity):
            if not path.is_file():
                raise PrerequisiteError(
                    f"the lab {name!r} is not up: {path} is not there",
                    remedy=f"run `railhead lab up{suffix}`",
                )
        return Access(
            kubeconfig=kubeconfig,
            identity=identity.read_text(encoding="utf-8").strip(),
            why=f"lab {name}",
        )


PLATFORM = Lab(
    kind="lab",
    cluster=LabCluster,
    offers=frozenset({"multus"}),
    standing=True,
    stand_in=True,
    built_here=True,
    waits_for_nodes=True,
    label_domains=("topology.railhead.dev",),
    levels=(
        "topology.railhead.dev/block",
        "topology.railhead.dev/rack",
        "kubernetes.io/hostname",
    ),
    # Each rail is a bridge of its own, and a sandbox's sysctls are often read-only.
    rails_apart=True,
)
