"""The specification of a lab, and the addresses and paths that follow from it.

Every lab lives in network namespaces of its own, so all labs use the same addresses.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from railhead.base import paths
from railhead.fabric.kinds import FABRICS
from railhead.machines import MACHINES
from railhead.platform.lab.networks import NODE_NETWORK

CONTROL_ADDRESS = "10.210.0.1"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_SERVICE_ADDRESS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
API_PORT = 6443

# Inside the lab's mount namespace; short, because socket paths may have 107 bytes.
INSIDE = PurePosixPath("/run/railhead")
INSIDE_CACHE = INSIDE / "cache"
INSIDE_LAB = INSIDE / "lab"
# The same directory on every node: what RWX volumes and the rail's address leases need.
SHARED_VOLUMES = PurePosixPath("/var/lib/railhead/shared")
RAIL_LEASES = PurePosixPath("/var/lib/railhead/rail-ipam")


class LabSpec(BaseModel):
    """A lab as `railhead lab up` is asked for it; kept as ``lab.json`` in the lab's directory.

    ``disk_mib`` is the size of a disk of its own for what a node's kubelet keeps, in MiB, of nodes
    that start from then on; None is the machine's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$")] = "lab"
    nodes: Annotated[int, Field(ge=1, le=8)] = 2
    simulated_nodes: Annotated[int, Field(ge=0, le=5000)] = 0
    rails: Annotated[int, Field(ge=1, le=8)] = 1
    fabric: str = "roce"
    disk_mib: Annotated[int, Field(ge=64, le=1 << 20)] | None = None
    api_port: Annotated[int, Field(ge=1, le=65535)]

    @property
    def directory(self) -> Path:
        """The lab's own directory."""
        return paths.lab_dir(self.name)

    def node_names(self) -> tuple[str, ...]:
        """Return the real nodes' names."""
        return tuple(node_name(self.name, i) for i in range(self.nodes))

    def device_resources(self) -> dict[str, int]:
        """Return what the stand-in device plugin advertises on each node, by resource name."""
        devices = {d.name: d.per_node for d in FABRICS[self.fabric].devices}
        machine = MACHINES["lab.8gpu"]
        return {machine.gpu_resource: machine.gpus, **devices}


def node_name(lab: str, index: int) -> str:
    """Return the Kubernetes name of a real node."""
    return f"{lab}-node-{index}"


def node_address(index: int) -> str:
    """Return the node's address on the cluster bridge."""
    return str(ipaddress.ip_network(NODE_NETWORK)[10 + index])


def pod_subnet(index: int) -> str:
    """Return the addresses of a node's pods."""
    return f"10.244.{index}.0/24"


def inside(path: Path, lab: str) -> str:
    """Return a path of the host, below the lab's or the cache's directory, as the lab sees it.

    Raises:
        ValueError: it is below neither.
    """
    for base, seen in ((paths.lab_dir(lab), INSIDE_LAB), (paths.cache_root(), INSIDE_CACHE)):
        if path.is_relative_to(base):
            return str(seen / path.relative_to(base))
    raise ValueError(f"{path} is not visible inside the lab")
