"""Instance types: what one node of each has, every figure with its source.

A new instance type is one row here. Counts are per node; memory is GiB; rates are Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Nic:
    """One network interface of the training fabric.

    ``card`` and ``device`` are its place in the machine's own layout (data, never a formula).
    ``rate_gbps`` is the nominal line rate in Gbit/s; 0 where there is none (a bridge of a lab).
    """

    card: int
    device: int
    rate_gbps: int


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An instance type.

    Args:
        name: what a stack's ``instance_type`` says.
        platforms: the platforms that have it.
        gpu_resource: the extended resource its device plugin advertises for one GPU.
        gpus: GPUs a node.
        gpu_memory_gib: memory of one GPU in GiB; 0 for a stand-in.
        vcpus: schedulable CPUs a node that quotas count on.
        memory_gib: schedulable memory a node in GiB that quotas count on.
        nics: interfaces of the training fabric.
        fabrics: names of rows of :mod:`railhead.catalog.fabrics` that it can be wired to.
        sources: field name -> where its figure was read.
    """

    name: str
    platforms: frozenset[Literal["lab", "existing"]]
    gpu_resource: str
    gpus: int
    gpu_memory_gib: int
    vcpus: int
    memory_gib: int
    nics: tuple[Nic, ...]
    fabrics: frozenset[str]
    sources: Mapping[str, str]


LAB_8GPU = Machine(
    name="lab.8gpu",
    platforms=frozenset({"lab", "existing"}),
    gpu_resource="nvidia.com/gpu",
    gpus=8,
    gpu_memory_gib=0,
    vcpus=2,
    memory_gib=4,
    nics=(Nic(card=0, device=0, rate_gbps=0),),
    fabrics=frozenset({"roce"}),
    sources=MappingProxyType(
        {
            "gpus": "the lab's stand-in device plugin advertises 8 a node (railhead/lab)",
            "gpu_memory_gib": "a stand-in has no memory",
            "vcpus": "the smallest machine the lab is built for has 2 (issue 3); each of its "
            "nodes reports the whole machine",
            "memory_gib": "the least that the lab's smallest machine leaves beside 2 GiB of "
            "control plane; each of its nodes reports the whole machine",
            "nics": "one rail interface a node on the lab's fabric bridge, which has no rate",
        }
    ),
)

MACHINES: Mapping[str, Machine] = MappingProxyType({m.name: m for m in (LAB_8GPU,)})
