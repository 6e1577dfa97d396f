"""Every image that a stack deploys comes from the mirror of its registry, those of charts too."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from railhead.catalog import digests
from railhead.catalog.versions import ADDONS, COMBINATIONS, PARTS, Controller, mirrored
from railhead.config import parse
from railhead.resolve.images import images
from tests.components.recording import STACKS, Recording, recorded, run_stack, stack_cluster
from tests.marks import one_of_each

pytestmark = pytest.mark.slow

CONTROLLERS: dict[str, Controller] = {
    row.name: row for row in (*COMBINATIONS["proven"].controllers, *ADDONS.values())
}
HOSTS = (
    {
        image.partition("/")[0]
        for row in CONTROLLERS.values()
        for image in (
            row.image,
            *(i.repository for i in row.operands.values()),
            *row.image_values.values(),
        )
    }
    | {i.repository.partition("/")[0] for part in PARTS.values() for i in part.images}
    | {"docker.io"}
)
# A region's own registry of EKS, which the platform names in place of the chart's.
HOSTS |= {f"602401143452.dkr.ecr.{region}.amazonaws.com" for region in ("us-east-2", "us-west-2")}
MIRRORS = {host: f"mirror.example.com/of-{host.replace(':', '-')}" for host in sorted(HOSTS)}
# With what the shipped ones leave out.
CHANGES: Mapping[str, dict[str, Any]] = {
    "onprem-ib-sriov": {"gpu_operator": {"compute_domains": True, "gdrcopy": True}},
}
REFERENCE = re.compile(rf"^({'|'.join(map(re.escape, sorted(HOSTS)))})(/|$)")


@cache
def recording(stack: str) -> Recording:
    raw = stack_cluster(stack) | CHANGES.get(stack, {}) | {"registry_mirrors": MIRRORS}
    with tempfile.TemporaryDirectory() as folder:
        return run_stack(stack, Path(folder), cluster=raw)


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from texts(inner, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value


@pytest.mark.parametrize("stack", one_of_each(STACKS))
def test_no_image_of_a_stack_is_of_a_registry_that_has_a_mirror(stack: str) -> None:
    left = {
        f"{resource.name}{path}": text
        for resource in recording(stack).resources.values()
        if resource.type.startswith("kubernetes:")
        for path, text in texts(resource.inputs)
        if REFERENCE.match(text)
    }
    assert left == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("stack", one_of_each(STACKS))
def test_stack_sets_every_image_of_a_chart(stack: str) -> None:
    """Mirrors do not reach an image that a chart sets by default."""
    releases = recording(stack).of_type("kubernetes:helm.sh/v3:Release")
    assert len(releases) >= 3
    for release in releases:
        messages = dict(texts(release.inputs["values"]))
        row = CONTROLLERS[str(release.inputs["name"])]
        if stack == "lab":
            continue
        for path, value in row.image_values.items():
            assert messages[f".{path}"].startswith("mirror.example.com/"), (row.name, path, value)
        if not row.image_values:
            assert any("mirror.example.com" in text for text in messages.values()), row.name


def test_operands_of_charts_are_in_the_values_or_in_the_policy() -> None:
    for name in ("gpu-operator",):
        row = CONTROLLERS[name]
        prefixes = set(row.image_values.values())
        for operand, image in row.operands.items():
            assert image.repository.rpartition("/")[0] in prefixes, operand
    network = CONTROLLERS["network-operator"]
    text = " ".join(network.image_values.values())
    of_policy = {
        "doca-driver",
        "k8s-rdma-shared-dev-plugin",
        "sriov-network-device-plugin",
        "rdma-cni",
        "ipoib-cni",
        "multus-cni",
        "plugins",
        "nvidia-k8s-ipam",
        "ib-kubernetes",
        "sriov-cni",
        "ib-sriov-cni",
        "nic-feature-discovery",
        "nic-configuration-operator",
        "nic-configuration-operator-daemon",
        "maintenance-operator",
        "doca_telemetry",
        "network-operator-init-container",
    }
    for operand, image in network.operands.items():
        assert operand in of_policy or image.repository in text, operand


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("docker.io/library/python:3.13", "m/d/library/python:3.13"),
        ("pytorch/pytorch:2.9.0", "m/d/pytorch/pytorch:2.9.0"),
        ("python:3.13", "m/d/library/python:3.13"),
        ("localhost:5000/x", "localhost:5000/x"),
        ("docker.io.example.com/x", "docker.io.example.com/x"),
        ("nvcr.io/nvidia/pytorch@sha256:0", "nvcr.io/nvidia/pytorch@sha256:0"),
    ],
)
def test_what_names_no_registry_is_docker_hubs(given: str, wanted: str) -> None:
    assert mirrored(given, {"docker.io": "m/d"}) == wanted
    assert mirrored(given, {}) == given


def test_a_runtime_and_the_contract_name_one_image() -> None:
    result = recording("gcp-a3-mega")
    contract = result.one("ConfigMap", "railhead-contract").inputs["data"]
    wanted = mirrored("nvcr.io/nvidia/pytorch:25.06-py3", MIRRORS)
    assert wanted in str(contract)
    assert "nvcr.io/nvidia/pytorch" not in str(contract).replace(wanted, "")


def pulled(recording: Recording) -> set[str]:
    """Return the images that the stack's own manifests pull, without charts."""
    return {
        text
        for resource in recording.resources.values()
        if resource.type.startswith("kubernetes:") and not resource.type.endswith(":Release")
        for path, text in texts(resource.inputs)
        if path.endswith(".image") and "/" in text
    }


@pytest.mark.parametrize("stack", [name for name in STACKS if name != "lab"])
def test_every_pulled_image_is_listed(stack: str) -> None:
    """`railhead config pin` would neither pin nor miss an image that is not listed."""
    cluster = parse(stack_cluster(stack), where=stack)
    rows = CONTROLLERS | {row.name: row for row in COMBINATIONS[cluster.versions].controllers}
    listed = set(images(cluster))
    result = pulled(recorded(stack))
    assert result
    assert result <= listed
    for release in recorded(stack).of_type("kubernetes:helm.sh/v3:Release"):
        row = rows[str(release.inputs["name"])]
        messages = {image.reference for image in row.operands.values()}
        assert messages <= listed, row.name
        # By name and tag: a region has a registry of its own.
        own = f"/{row.image.rpartition('/')[2]}:{row.tag}"
        assert any(image.endswith(own) for image in listed), row.name


def test_what_the_stack_itself_names_is_pulled_by_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "gcp-a3-mega"
    listed = images(parse(stack_cluster(name), where=name))
    digest = f"sha256:{'5' * 64}"
    monkeypatch.setattr(digests, "_recorded", dict.fromkeys(listed, digest))
    # The program would read the stacks' own folder, which has none.
    monkeypatch.setattr(digests, "use", lambda _folder: None)
    result = pulled(run_stack(name, tmp_path))
    assert len(result) >= 5
    assert all("@sha256:" in image for image in result)
    assert any("tcpgpudmarxd" in image and image.endswith(f"@{digest}") for image in result)
