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
    "SHIPPED",
    "Interface",
    "Machine",
    "Measurement",
    "Nic",
    "add",
]

#: What ships: the rows of ``machines_<provider>.py``.
SHIPPED: Mapping[str, Machine] = MappingProxyType(
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

_ROWS: dict[str, Machine] = dict(SHIPPED)
#: Those and a team's own, which join when a stack beside them is read (:mod:`.own`).
MACHINES: Mapping[str, Machine] = MappingProxyType(_ROWS)


def add(machine: Machine) -> None:
    """Let a team's own row join.

    Raises:
        ValueError: another row has its name.
    """
    if _ROWS.setdefault(machine.name, machine) != machine:
        raise ValueError(f"{machine.name!r} is another machine already")


#: What GKE needs for each machine type that it has.
GKE_MACHINES: Mapping[str, GkeMachine] = MappingProxyType(
    {name: machine.gke for name, machine in MACHINES.items() if machine.gke is not None}
)
