"""Charts and manifests out of modules, as their projects release them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.errors import PrerequisiteError
from railhead.catalog.lab import part
from railhead.catalog.versions import LAB, Controller, ModuleChart
from railhead.lab.artifacts import charts, golang


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    path.chmod(0o444)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Modules as the module cache has them: read-only, with staging images in their charts."""
    staging = {"repository": "staging.example/x", "tag": "main", "pullPolicy": "Always"}
    values = {
        "kueue": {"controllerManager": {"manager": {"image": dict(staging)}}},
        "jobset": {"image": dict(staging)},
        "kubeflow-trainer": {"image": {"registry": "docker.io", "repository": "a/b", "tag": ""}},
    }
    for controller in charts.module_charts():
        assert isinstance(controller.chart, ModuleChart)
        root = tmp_path / "mod" / controller.chart.module / controller.chart.path
        metadata: dict[str, Any] = {"apiVersion": "v2", "name": controller.name, "version": "0.0.0"}
        if controller.name == "kubeflow-trainer":
            metadata["dependencies"] = [{"name": "jobset", "version": LAB.jobset.version}]
        write(root / "Chart.yaml", metadata)
        write(root / "values.yaml", values[controller.name])
        write(root / "templates" / "a.yaml", "kind: X\n")
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": charts.NAD_CRD_NAME}}
    multus = tmp_path / "mod" / part("multus").module / "deployments" / "multus-daemonset.yml"
    write(
        multus, "# header\n---\n" + yaml.safe_dump_all([crd, {"kind": "DaemonSet", "metadata": {}}])
    )
    for stage in charts._KWOK_STAGES:
        write(tmp_path / "mod" / part("kwok").module / stage, {"kind": "Stage"})
    return tmp_path / "mod"


def image_of(controller: Controller) -> dict[str, str]:
    values = yaml.safe_load((charts.chart_dir(controller) / "values.yaml").read_text())
    result: dict[str, str] = (
        values["image"] if "image" in values else values["controllerManager"]["manager"]["image"]
    )
    return result


def test_charts_are_the_releases(modules: Path, cache: Path) -> None:
    assert not charts.charts_ready()
    charts.unpack_charts(lambda module: modules / module)
    assert charts.charts_ready()
    for controller in (LAB.kueue, LAB.jobset, LAB.trainer):
        directory = cache / "charts" / f"{controller.name}-{controller.version}"
        metadata = yaml.safe_load((directory / "Chart.yaml").read_text())
        assert (metadata["version"], metadata["appVersion"]) == (controller.version, controller.tag)
        image = image_of(controller)
        name = "/".join(filter(None, (image.get("registry"), image["repository"])))
        assert (name, image["tag"]) == (controller.image, "")
        (directory / "values.yaml").write_text("writable: true\n")
        # Helm would want them in charts/, though a stack's values leave them out.
        assert "dependencies" not in metadata


def test_unpacking_again_mends_a_chart(modules: Path) -> None:
    charts.unpack_charts(lambda module: modules / module)
    (charts.chart_dir(LAB.kueue) / "Chart.yaml").unlink()
    assert not charts.charts_ready()
    charts.unpack_charts(lambda module: modules / module)
    assert charts.charts_ready()


def test_manifests(modules: Path) -> None:
    charts.unpack_manifests(lambda module: modules / module)
    crd = json.loads(charts.nad_crd_path().read_text())
    assert crd["metadata"]["name"] == "network-attachment-definitions.k8s.cni.cncf.io"
    assert len(list(charts.kwok_stages_dir().glob("*.yaml"))) == 5


def module_or_skip(module: str) -> Path:
    try:
        return golang.module_dir(module)
    except PrerequisiteError as error:
        pytest.skip(error.problem)


def test_the_real_modules(cache: Path) -> None:
    """The published modules carry what is expected of them; needs them fetched."""
    for controller in charts.module_charts():
        assert isinstance(controller.chart, ModuleChart)
        module_or_skip(controller.chart.module)
    charts.unpack_charts()
    trainer = charts.chart_dir(LAB.trainer)
    crds: set[str] = set()
    for directory in ("kueue-*/templates/crd", "jobset-*/crds", "kubeflow-trainer-*/crds"):
        for file in (cache / "charts").glob(f"{directory}/*.yaml"):
            crds.add(file.stem)
    assert {
        "kueue.x-k8s.io_workloads",
        "kueue.x-k8s.io_clusterqueues",
        "kueue.x-k8s.io_localqueues",
        "kueue.x-k8s.io_resourceflavors",
        "kueue.x-k8s.io_topologies",
        "jobset.x-k8s.io_jobsets",
        "trainer.kubeflow.org_trainjobs",
        "trainer.kubeflow.org_clustertrainingruntimes",
    } <= crds
    assert "dependencies" not in yaml.safe_load((trainer / "Chart.yaml").read_text())
    for controller in charts.module_charts():
        image = image_of(controller)
        assert (
            "/".join(filter(None, (image.get("registry"), image["repository"]))) == controller.image
        )
        deployments = [
            f.read_text()
            for f in (charts.chart_dir(controller) / "templates").rglob("*.yaml")
            if "kind: Deployment" in f.read_text() and "kueueviz" not in str(f)
        ]
        # The images are made with this entry point.
        assert any("- /manager\n" in text for text in deployments)


def test_the_real_manifests() -> None:
    for name in ("multus", "kwok"):
        module_or_skip(part(name).module)
    charts.unpack_manifests()
    crd = json.loads(charts.nad_crd_path().read_text())
    assert crd["spec"]["names"]["kind"] == "NetworkAttachmentDefinition"
    for stage in charts.kwok_stages_dir().iterdir():
        assert yaml.safe_load(stage.read_text())["kind"] == "Stage"
