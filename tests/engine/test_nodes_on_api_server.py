"""Live nodes of a real API server against what a stack promises of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import cli
from railhead.base.errors import ExitCode, RefusedError
from railhead.config import load
from railhead.config.live import before_up, described
from railhead.kube import nodes
from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient
from railhead.platform.existing.model import ExistingCluster
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

REPO = Path(__file__).resolve().parents[2]
STACK = "onprem-ib-sriov"


@pytest.fixture
def stack(tmp_path: Path, control_plane: ControlPlane) -> Path:
    """The example stack with four nodes, on the test's own API server."""
    data = yaml.safe_load((REPO / "stacks" / f"Pulumi.{STACK}.yaml").read_text())
    cluster = data["config"]["railhead:cluster"]
    cluster["platform"] = {"kind": "existing", "kubeconfig": str(control_plane.kubeconfig)}
    cluster["pools"][0]["nodes"] = 4
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.fixture
def node(kube: KubeClient, stack: Path) -> Iterator[Any]:
    """Makes a node as the stack describes it, less what the test says."""
    made: list[str] = []
    [promise] = described(load(stack))

    def make(
        name: str, *, labels: dict[str, str | None] | None = None, **allocatable: str | None
    ) -> None:
        carried: dict[str, str | None] = {
            **dict.fromkeys(promise.labels, "a"),
            **promise.selector,
            nodes.ARCHITECTURE_LABEL: promise.architecture,
            **(labels or {}),
        }
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {key: value for key, value in carried.items() if value is not None},
            },
        }
        kube.request("POST", nodes.NODES, body=body)
        made.append(name)
        resources = {"cpu": "224", "memory": "2000Gi", "nvidia.com/gpu": "8"} | allocatable
        has = {key: value for key, value in resources.items() if value is not None}
        kube.request(
            "PATCH",
            f"{nodes.NODES}/{name}/status",
            body={
                "status": {
                    "capacity": has,
                    "allocatable": has,
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            },
            content_type="application/merge-patch+json",
        )
        # Its admission taints what no controller has looked at yet.
        kube.request(
            "PATCH",
            f"{nodes.NODES}/{name}",
            body={"spec": {"taints": None}},
            content_type="application/merge-patch+json",
        )

    yield make
    for name in made:
        try:
            kube.request("DELETE", f"{nodes.NODES}/{name}")
        except ApiError as error:
            if not error.not_found:
                raise


def existing(stack: Path) -> ExistingCluster:
    cluster = load(stack)
    assert isinstance(cluster, ExistingCluster)
    return cluster


def test_nodes_as_promised_let_up_begin(stack: Path, node: Any) -> None:
    for index in range(4):
        node(f"dgx-{index}")
    assert before_up(existing(stack)) == ""


def test_every_node_that_lacks_something_is_named(
    stack: Path, node: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    node("dgx-0")
    node("dgx-1", memory="512Gi")
    node("dgx-2", labels={"network.topology.nvidia.com/leaf": None})
    node("dgx-3", labels={"railhead.dev/pool": "h200"})
    with pytest.raises(RefusedError) as caught:
        before_up(existing(stack))
    text = caught.value.problem
    assert "node dgx-1: memory is 512Gi, 1792Gi promised" in text
    assert "node dgx-2: has no label network.topology.nvidia.com/leaf" in text
    assert "4 nodes promised, 3 carry railhead.dev/pool=h100: dgx-0, dgx-1, dgx-2" in text
    assert "dgx-3 has railhead.dev/pool=h200" in text
    assert "node dgx-0" not in text

    code = cli.run(["config", "verify", str(stack), "--json"])
    assert code == ExitCode.REFUSED
    result = json.loads(capsys.readouterr().out)["pools"]["h100"]
    assert result["good"] == ["dgx-0"]
    assert set(result["lacks"]) == {"dgx-1", "dgx-2"}
