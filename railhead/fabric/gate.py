"""Facts of the node gate that belong to no other row."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: What runs the gate where a stack names no image: its program needs Python and nothing else.
GATE_IMAGE = "docker.io/library/python:3.13-slim"

#: Fabric -> the kernel driver of its RDMA devices, where no other device of a node may count.
DRIVERS: Mapping[str, str] = MappingProxyType(
    {
        # aws-efa-k8s-device-plugin counts what is bound to it; other NICs of an instance are ena.
        "efa": "efa",
    }
)

#: Modes in which a pod takes a NIC out of the node's sight while it runs: the interface moves, and
#: with it the RDMA device where the node's RDMA namespaces are exclusive.
MOVING_MODES = frozenset({"host-device", "gcp-rdma", "tcpx", "tcpxo", "dranet"})
