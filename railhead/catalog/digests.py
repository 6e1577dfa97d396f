"""Digests of the images that the catalogue pins by version, from the publishers' own files.

No registry was asked. Other images are pinned only by their version: :data:`UNREAD` says why, and
docs/catalogue.md lists them. ``digests.yaml`` beside the stacks has the registries' digests of the
rest, as `railhead config pin` recorded them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from railhead.base.errors import InputError
from railhead.base.reading import read_text
from railhead.catalog.versions import ADDONS, COMBINATIONS, KUBE_STATE_METRICS, PARTS

_GPU_OPERATOR = (
    "NVIDIA/gpu-operator tag v26.7.0, bundle/manifests/gpu-operator-certified."
    "clusterserviceversion.yaml, with its tag"
)
_NETWORK_OPERATOR = (
    "Mellanox/network-operator tag v26.4.1, bundle/manifests/nvidia-network-operator."
    "clusterserviceversion.yaml, without its tag"
)

_OF_GPU_OPERATOR: Mapping[str, str] = MappingProxyType(
    {
        "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0": (
            "sha256:7d98d08a751cc528d1c8c8bdc2f9d9fcd59714b158a3985a5a0262f1620098e4"
        ),
        "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0": (
            "sha256:cab2cf9deafc9602da69d0832a82958a7687f22f4a2f19674099dc9a5c4ea8e2"
        ),
        "nvcr.io/nvidia/dra-driver-nvidia-gpu:v0.5.0": (
            "sha256:9b46984c0eb18def60e2b9817b874275f4b5b08d12d491de4f1a7b91b51d706c"
        ),
        "nvcr.io/nvidia/k8s-device-plugin:v0.20.0": (
            "sha256:a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312"
        ),
        "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0": (
            "sha256:f8c647d581f7c8b178efdb7e6c94f5fb6eb12ebc05e2157fa314d327560fcb7a"
        ),
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless": (
            "sha256:613ab03c11d442fd960ff515f547e9921537454a712d08160bc8f677f89f1c35"
        ),
    }
)

_OF_NETWORK_OPERATOR: Mapping[str, str] = MappingProxyType(
    {
        "nvcr.io/nvidia/cloud-native/network-operator:v26.4.1": (
            "sha256:49d8bd43fa4559468ec93a4c52053aaf7f36861d9f802ffe8fd3aa94266f82de"
        ),
        "nvcr.io/nvidia/doca/doca_telemetry:1.25.5-doca3.4.0-host": (
            "sha256:e728430bdde27bc0f2e57cedb83814f21d23113385328034af9727e900724d09"
        ),
        "nvcr.io/nvidia/mellanox/ib-kubernetes:network-operator-v26.4.1": (
            "sha256:b103b0a36693d6ab1a25ca65f6cc058bfb5819b9d11a8f0638ae7f1c832273d1"
        ),
        "nvcr.io/nvidia/mellanox/ipoib-cni:network-operator-v26.4.1": (
            "sha256:e5eb2d3c746a06a44bad7e8e451ff7a4d14251b1a254f9a411f17dd529c41f0f"
        ),
        "nvcr.io/nvidia/mellanox/k8s-rdma-shared-dev-plugin:network-operator-v26.4.1": (
            "sha256:464970d3197fe982b779c48cce74d90f7563ede5daef834bf169db39ee4541c7"
        ),
        "nvcr.io/nvidia/mellanox/network-operator-init-container:network-operator-v26.4.1": (
            "sha256:922217cee504f080b2a76c51ec5d17baa562ffe2447bb1e370c01a6b26a7059f"
        ),
        "nvcr.io/nvidia/mellanox/nic-configuration-operator-daemon:network-operator-v26.4.1": (
            "sha256:ff80af3402473fba6251f36f924ddc50341f954980bfba919cae70925e644318"
        ),
        "nvcr.io/nvidia/mellanox/nic-configuration-operator:network-operator-v26.4.1": (
            "sha256:b5e9733a01ba6031ecbf71024a98ad02b9052d11a10d3df62daf75135a07ba9b"
        ),
        "nvcr.io/nvidia/mellanox/nic-feature-discovery:network-operator-v26.4.1": (
            "sha256:2599a0d512af2f92c1fa6ac7536d657463219d64bb1369156644ab1b150b672f"
        ),
        "nvcr.io/nvidia/mellanox/nvidia-k8s-ipam:network-operator-v26.4.1": (
            "sha256:88db2fa65846d68d9c4ec996de0ecf4839b79e02e5643eb9ad3354d448cb2757"
        ),
        "nvcr.io/nvidia/mellanox/sriov-network-device-plugin:network-operator-v26.4.1": (
            "sha256:c24d0993feb97c0a1952bf30ab51f7452dc57d5846684e481aaa4455cd56e1aa"
        ),
    }
)

# Images are promoted to Kubernetes' registry by digest, in a file that its projects' maintainers
# change and check; the registry lets no tag move afterwards.
_PROMOTED = "kubernetes/k8s.io, registry.k8s.io/images/k8s-staging-"

_OF_OTHERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "gke.gcr.io/pause:3.8": (
            "sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830",
            "GoogleCloudPlatform/container-engine-accelerators at 992db812, "
            "gpudirect-tcpx/nccl-tcpx-installer.yaml, with its tag",
        ),
        "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1": (
            "sha256:eefe67396dedea4df74f68a94d5883f33204888b83979babd42b91501a2de1d8",
            f"{_PROMOTED}dra-driver-nvidia/images.yaml at 1a15ab54",
        ),
        "registry.k8s.io/jobset/jobset:v0.12.0": (
            "sha256:e75536f1135b7bb2f19f8c3b620782fbdd9091d73398e3a272f9a5fed322980d",
            f"{_PROMOTED}jobset/images.yaml, pull request 9456",
        ),
        "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.15.0": (
            "sha256:db384bf43222b066c378e77027a675d4cd9911107adba46c2922b3a55e10d6fb",
            f"{_PROMOTED}kube-state-metrics/images.yaml at d7bd3110",
        ),
        "registry.k8s.io/kueue/kueue:v0.15.0": (
            "sha256:15bf4478557991888ac31ce5f6207f236c2125e248ab207d237af3c70996353e",
            f"{_PROMOTED}kueue/images.yaml, pull request 8864",
        ),
        "registry.k8s.io/networking/dranet:v1.4.0": (
            "sha256:8d452a75f32465ca69aa5a7877f476add8641fe7c91a30ace3343174c1ef695f",
            f"{_PROMOTED}networking/images.yaml, pull request 9736",
        ),
        "registry.k8s.io/nfd/node-feature-discovery:v0.19.0": (
            "sha256:2fa1c99ad09bdf2c8ad97706a4ad2fd548c84d5ecd70ba32a6152c667b96c4d2",
            f"{_PROMOTED}nfd/images.yaml, pull request 9697",
        ),
    }
)

#: Reference with tag -> (digest, source).
DIGESTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {image: (digest, _GPU_OPERATOR) for image, digest in _OF_GPU_OPERATOR.items()}
    | {image: (digest, _NETWORK_OPERATOR) for image, digest in _OF_NETWORK_OPERATOR.items()}
    | dict(_OF_OTHERS)
)
UNREAD = "not read: no file that was read names it, and no registry was asked"

#: Beside the stacks: reference with tag -> digest, under ``digests:``.
FILE = "digests.yaml"
_HEAD = """\
# What each image's registry called its tag when `railhead config pin` asked. Kept by that command.
"""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Digests of the folder whose stacks this process reads.
_recorded: dict[str, str] = {}


def references() -> Iterator[str]:
    """Yield every image of the catalogue, each once, with the tag or the digest that pins it.

    An image whose tag only its chart knows ends in a colon.
    """
    results: dict[str, None] = {KUBE_STATE_METRICS.reference: None}
    for combination in COMBINATIONS.values():
        results |= dict.fromkeys(f"{row.image}:{row.tag}" for row in combination.controllers)
    for addon in ADDONS.values():
        results[f"{addon.image}:{addon.tag}"] = None
        results |= dict.fromkeys(image.reference for image in addon.operands.values())
    for part in PARTS.values():
        results |= dict.fromkeys(image.reference for image in part.images)
    yield from sorted(results)


def pinned(reference: str) -> tuple[str, str]:
    """Return (digest, source) of an image; the digest is empty if it is not known."""
    _, at, digest = reference.partition("@")
    if at:
        return digest, "its own reference"
    if reference in _recorded:
        return _recorded[reference], FILE
    return DIGESTS.get(reference, ("", UNREAD))


def exact(reference: str) -> str:
    """Return an image with its digest too, if the stacks' own file records one.

    >>> exact("registry.k8s.io/kueue/kueue:v0.16.2")
    'registry.k8s.io/kueue/kueue:v0.16.2'
    """
    return f"{reference}@{_recorded[reference]}" if reference in _recorded else reference


def read(path: Path) -> dict[str, str]:
    """Return the digests of a file.

    Raises:
        InputError: it cannot be read, or has anything else in it.
    """
    try:
        data = yaml.safe_load(read_text(path))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {error}", remedy="correct the file") from None
    rows = data.get("digests") if isinstance(data, dict) and set(data) == {"digests"} else None
    wrong = (
        [f"{path}: has no map `digests:`, and nothing else"]
        if not isinstance(rows, dict)
        else [
            f"{path}: digests.{reference}: {digest!r} is not of the form 'sha256:' and 64 digits"
            for reference, digest in rows.items()
            if not (isinstance(digest, str) and _DIGEST.fullmatch(digest))
        ]
    )
    if wrong:
        raise InputError(
            "\n".join(wrong), remedy="let `railhead config pin` write it; delete the file before"
        )
    return {str(reference): str(digest) for reference, digest in dict(rows or {}).items()}


def write(path: Path, digests: Mapping[str, str]) -> None:
    """Record digests, in order."""
    text = yaml.safe_dump({"digests": dict(sorted(digests.items()))}, width=1000)
    path.write_text(_HEAD + text, encoding="utf-8")


def use(folder: Path) -> None:
    """Use the digests of a folder's file, and of no other folder.

    Raises:
        InputError: the file has mistakes.
    """
    path = folder / FILE
    _recorded.clear()
    if path.is_file():
        _recorded.update(read(path))
