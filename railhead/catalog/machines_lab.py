"""The lab's machine: a stand-in without GPUs."""

from __future__ import annotations

from types import MappingProxyType

from railhead.catalog.machine import Machine, Nic

MACHINES = (
    Machine(
        name="lab.8gpu",
        platforms=frozenset({"lab", "existing"}),
        provider="lab",
        accelerator=None,
        gpus=8,
        gpu_memory_gib=0,
        vcpus=2,
        memory_gib=4,
        schedulable_vcpus=2,
        schedulable_memory_gib=4,
        nics=(Nic(card=0, device=0, rate_gbps=0),),
        fabrics=frozenset({"roce"}),
        nvlink_domain=8,
        sources=MappingProxyType(
            {
                "gpus": "the lab's stand-in device plugin advertises 8 a node (railhead/lab)",
                "gpu_memory_gib": "a stand-in has no memory",
                "vcpus": "the smallest machine the lab is built for has 2; each of its nodes "
                "reports the whole machine",
                "memory_gib": "the least that the lab's smallest machine leaves beside 2 GiB of "
                "control plane; each of its nodes reports the whole machine",
                "schedulable": "all of it: the lab's nodes reserve nothing",
                "nics": "one rail interface a node on the lab's fabric bridge, which has no rate",
                "host_nics": "the pod network's is not the catalogue's concern",
                "hcas": "a bridge has no RDMA device",
                "nvlink_domain": "stand-ins share nothing; a node's own count, so that no job "
                "takes it for a domain across nodes",
                "limits": "none",
            }
        ),
    ),
)
