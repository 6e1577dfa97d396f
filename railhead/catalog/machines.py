"""Instance types: what one node of each has, every figure with its source.

A new instance type is one row in the ``machines_<provider>.py`` it belongs to, and its test data.
Counts are per node; memory is GiB; rates are Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.catalog import (
    machines_aws,
    machines_azure,
    machines_gcp,
    machines_lab,
    machines_metal,
    machines_oci,
)
from railhead.catalog.machine import (
    FIGURES,
    GkeMachine,
    Interface,
    Machine,
    Measurement,
    Nic,
)

__all__ = [
    "FIGURES",
    "GKE_MACHINES",
    "MACHINES",
    "Interface",
    "Machine",
    "Measurement",
    "Nic",
]

MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        machine.name: machine
        for rows in (
            machines_lab.MACHINES,
            machines_aws.MACHINES,
            machines_gcp.MACHINES,
            machines_azure.MACHINES,
            machines_oci.MACHINES,
            machines_metal.MACHINES,
        )
        for machine in rows
    }
)

#: What GKE needs for each machine type that it has.
GKE_MACHINES: Mapping[str, GkeMachine] = MappingProxyType(
    {name: machine.gke for name, machine in MACHINES.items() if machine.gke is not None}
)
