"""NVIDIA's GPU operator in a stack's file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railhead.base.fields import Model, Variable


class GpuOperatorConfig(Model):
    """The GPU operator, installed by the stack; absent if the cluster has its parts already.

    Args:
        driver: ``operator`` loads it in a container, ``host`` is in the nodes' image.
        driver_version: version of the container; None takes the chart's.
        driver_environment: the container's variables, and GDRCopy's, such as ``http_proxy`` where
            the package servers of the nodes' distribution are behind a proxy.
        toolkit: the container toolkit, also ``operator`` or ``host``.
        gpudirect: how NICs reach GPU memory. ``dma-buf`` is the kernel's own way, which NVIDIA
            recommends and which the open kernel modules bring; ``peermem`` loads nvidia-peermem,
            for kernels and drivers without it.
        gdrcopy: the low-latency copy driver, which some of NCCL's neighbours (UCX, NVSHMEM) use.
        dcgm_exporter: metrics. ``service_monitor`` needs the Prometheus operator's CRDs.
        mig: how GPUs are partitioned; a GPU that trains is whole.
        allocation: ``device-plugin``, or ``dra`` for NVIDIA's DRA driver in its place. Never both.
        compute_domains: DRA for NVLink domains that span nodes (GB200), beside either allocation.
        nfd: whether this operator labels nodes; the network operator's wins if it does.
        service_monitor: whether a monitor makes Prometheus' operator scrape the metrics; needs its
            CRDs.
    """

    driver: Literal["operator", "host"] = "operator"
    driver_version: str | None = Field(default=None, min_length=1)
    driver_environment: dict[Variable, str] = Field(default_factory=dict)
    toolkit: Literal["operator", "host"] = "operator"
    gpudirect: Literal["dma-buf", "peermem"] = "dma-buf"
    gdrcopy: bool = False
    dcgm_exporter: bool = True
    service_monitor: bool = False
    mig: Literal["none", "single", "mixed"] = "none"
    allocation: Literal["device-plugin", "dra"] = "device-plugin"
    compute_domains: bool = False
    nfd: Literal["operator", "existing"] = "operator"
