"""The way from NIC to GPU memory: DMA-BUF or nvidia-peermem."""

from __future__ import annotations

import re

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, number, text_of

ORDER = 30
# DMA-BUF for RDMA came with kernel 5.12; NVIDIA exports its memory that way with the open
# kernel modules, from release 515 on.
_DMABUF_KERNEL = (5, 12)
_DMABUF_DRIVER = 515
_PEERMEM = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check GPUDirect RDMA, if it is expected."""
    return [] if expected.gpudirect is None else [_gpudirect(node, expected.gpudirect)]


def _gpudirect(node: Node, wanted: str) -> Finding:
    subject = "GPUDirect RDMA"
    problems = []
    if wanted in ("any", "dmabuf"):
        problem = _dmabuf(node)
        if not problem:
            return Finding(name=subject, passed=True, text="DMA-BUF")
        problems.append(f"DMA-BUF: {problem}")
    if wanted in ("any", "peermem"):
        loaded = [m for m in _PEERMEM if (node.sys / "module" / m).is_dir()]
        if loaded:
            return Finding(name=subject, passed=True, text=loaded[0])
        problems.append("nvidia-peermem: the module is not loaded")
    return Finding(
        name=subject,
        passed=False,
        text="NICs do not reach GPU memory: " + "; ".join(problems),
        remedy="use NVIDIA's open kernel modules (the GPU operator's driver.kernelModuleType: "
        "open), or `modprobe nvidia-peermem` (its driver.rdma.enabled)",
    )


def _dmabuf(node: Node) -> str:
    """Return why DMA-BUF cannot work; empty if it can."""
    version = tuple(int(n) for n in re.findall(r"\d+", node.kernel)[:2])
    if version < _DMABUF_KERNEL:
        return f"kernel {node.kernel} is older than {'.'.join(map(str, _DMABUF_KERNEL))}"
    if not (node.sys / "module" / "nvidia").is_dir():
        return "the NVIDIA driver is not loaded"
    driver = text_of(node.proc / "driver" / "nvidia" / "version")
    if "Open Kernel Module" not in driver:
        return "the driver's kernel modules are not the open ones"
    release = number(text_of(node.sys / "module" / "nvidia" / "version"))
    if release < _DMABUF_DRIVER:
        return f"driver {release:g} is older than {_DMABUF_DRIVER}"
    return ""
