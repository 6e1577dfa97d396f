"""Training images whose quirks a runtime must know; any other image may be named as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from railhead.catalog.parts import Variable


@dataclass(frozen=True, kw_only=True)
class Image:
    """A training image.

    Args:
        reference: repository and tag, as in a runtime's ``image``.
        framework: the framework inside.
        cuda: the major of the CUDA runtime inside; None without CUDA.
        environment: variables that this image needs, each with its reason.
        source: what it is made of.
    """

    reference: str
    framework: str
    environment: tuple[Variable, ...]
    cuda: int | None = None
    source: str


_EACH = "each line of a process says which one it is of, so that logs tell ranks apart"

TORCH_CPU = Image(
    reference="railhead.local/torch-cpu:lab",
    framework="torch",
    environment=(
        Variable(
            name="PET_REDIRECTS",
            value="1",
            reason=_EACH,
            source="torch 2.15, torch/distributed/run.py: --redirects and --tee",
        ),
        Variable(
            name="PET_TEE",
            value="1",
            reason=_EACH,
            source="torch 2.15, torch/distributed/run.py: --redirects and --tee",
        ),
    ),
    source="PyTorch, JAX, Orbax, Accelerate, DeepSpeed, Megatron Core and Ray from Python's "
    "packages, Open MPI and OpenSSH from the machine's own release, built by `railhead lab build`",
)

IMAGES: Mapping[str, Image] = MappingProxyType({i.reference: i for i in (TORCH_CPU,)})

# NVIDIA's PyTorch containers: release notes 25.06 (CUDA 12.9.1, the last of 12) and 25.08 (13.0).
_NGC = re.compile(r"nvcr\.io/nvidia/pytorch:(\d\d)\.(\d\d)-py3")
_NGC_CUDA_12, _NGC_CUDA_13 = (23, 1), (25, 8)
# PyTorch's own images and wheels: 2.8.0-cuda12.8-cudnn9-runtime, 2.9.0-cu130.
_TAG = re.compile(r":[^/]*\bcu(?:da)?(1[0-9])")


# NVIDIA's 25.03 has 2.25.1 (TensorRT-LLM 0237cab, docker/common/install_tensorrt.sh); PyTorch took
# 2.26.2 with 2.7 (pytorch #149778), but for CUDA 11, which keeps 2.21.
_TORCH = re.compile(r"(?:^|/)pytorch/pytorch:(\d+)\.(\d+)")
_NGC_NCCL_2_26, _TORCH_NCCL_2_26 = (25, 4), (2, 7)


def before_nccl_2_26(reference: str) -> bool:
    """Return whether an image's tag says that its NCCL is older than 2.26.

    >>> before_nccl_2_26("docker.io/pytorch/pytorch:2.6.0-cuda12.6-cudnn9-runtime")
    True
    >>> before_nccl_2_26("nvcr.io/nvidia/pytorch:26.03-py3")
    False
    """
    for pattern, since in ((_NGC, _NGC_NCCL_2_26), (_TORCH, _TORCH_NCCL_2_26)):
        if result := pattern.search(reference):
            return (int(result[1]), int(result[2])) < since
    return False


def cuda_major(reference: str) -> int | None:
    """Return the CUDA major of an image's runtime, if its row or its tag says it.

    >>> cuda_major("nvcr.io/nvidia/pytorch:25.06-py3")
    12
    >>> cuda_major("docker.io/pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime")
    13
    """
    if row := IMAGES.get(reference):
        return row.cuda
    if result := _NGC.match(reference):
        release = (int(result[1]), int(result[2]))
        if release >= _NGC_CUDA_13:
            return 13
        return 12 if release >= _NGC_CUDA_12 else None
    tagged = _TAG.search(reference)
    return int(tagged[1]) if tagged else None
