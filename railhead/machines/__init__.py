"""Instance types: what one node of each has, every figure with its source.

A new instance type is one row in the file of its provider under ``rows/``. Counts are per node;
memory is GiB; rates are Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.machines.machine import (
    FIGURES,
    GkeMachine,
    Interface,
    Machine,
    Measurement,
    Nic,
)
from railhead.machines.rows import shipped

__all__ = [
    "FIGURES",
    "GKE_MACHINES",
    "MACHINES",
    "SHIPPED",
    "GkeMachine",
    "Interface",
    "Machine",
    "Measurement",
    "Nic",
    "add",
]

#: What ships: the rows of ``rows/<provider>.yaml``.
SHIPPED: Mapping[str, Machine] = MappingProxyType({row.name: row for row in shipped()})

_ROWS: dict[str, Machine] = dict(SHIPPED)
#: The shipped rows and a team's own, which join when a stack beside them is read.
MACHINES: Mapping[str, Machine] = MappingProxyType(_ROWS)


def add(machine: Machine) -> None:
    """Add a team's own row.

    Raises:
        ValueError: another row has its name.
    """
    if _ROWS.setdefault(machine.name, machine) != machine:
        raise ValueError(f"{machine.name!r} is another machine already")


#: GKE's settings for each of its machine types.
GKE_MACHINES: Mapping[str, GkeMachine] = MappingProxyType(
    {name: machine.gke for name, machine in MACHINES.items() if machine.gke is not None}
)
