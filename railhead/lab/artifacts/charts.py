"""Charts and manifests that travel inside Go modules, unpacked as their projects release them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from railhead.base.paths import cache_root, charts_dir
from railhead.catalog.lab import part
from railhead.catalog.versions import LAB, Combination, Controller, ModuleChart
from railhead.lab.artifacts.files import digest, publish, scratch
from railhead.lab.artifacts.golang import module_dir

#: Counts up when what is done to a chart or manifest changes.
_RECIPE = "2"

NAD_CRD_NAME = "network-attachment-definitions.k8s.cni.cncf.io"
_MULTUS_MANIFEST = "deployments/multus-daemonset.yml"
#: KWOK's own choice of stages for plain nodes and pods (`kustomize/stage/fast`).
_KWOK_STAGES = (
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
)


def module_charts(combination: Combination = LAB) -> tuple[Controller, ...]:
    """Return the combination's controllers whose charts travel in modules."""
    every = (combination.kueue, combination.jobset, combination.trainer)
    return tuple(c for c in every if isinstance(c.chart, ModuleChart))


def chart_dir(controller: Controller) -> Path:
    """Return where a controller's chart is unpacked."""
    return charts_dir() / f"{controller.name}-{controller.version}"


def charts_key() -> str:
    """Return the key of the unpacked charts."""
    return digest(_RECIPE, *(repr(c) for c in module_charts()))


def _charts_mark() -> Path:
    return charts_dir() / f".unpacked-{charts_key()}"


def charts_ready() -> bool:
    """Return whether every chart is unpacked by this recipe."""
    return _charts_mark().is_file() and all(
        (chart_dir(c) / "Chart.yaml").is_file() for c in module_charts()
    )


def manifests_dir() -> Path:
    """Return the directory of the manifests that come from modules."""
    key = digest(_RECIPE, part("multus").version, part("kwok").version, *_KWOK_STAGES)
    return cache_root() / "manifests" / key


def nad_crd_path() -> Path:
    """Return the NetworkAttachmentDefinition CRD, one JSON object."""
    return manifests_dir() / "nad-crd.json"


def kwok_stages_dir() -> Path:
    """Return the directory of KWOK's stages, YAML files that are each a ``--config`` of kwok."""
    return manifests_dir() / "kwok-stages"


def unpack_charts(source: Callable[[str], Path] = module_dir) -> None:
    """Unpack every chart of the lab's combination, as its project's release does.

    Args:
        source: gives the directory of a module's sources.
    """
    for controller in module_charts():
        unpack_chart(controller, source)
    charts_dir().mkdir(parents=True, exist_ok=True)
    _charts_mark().touch()


def unpack_chart(controller: Controller, source: Callable[[str], Path]) -> None:
    """Unpack one chart that travels in a module, without the charts that it can bring along."""
    chart = controller.chart
    assert isinstance(chart, ModuleChart)  # noqa: S101 - module_charts() chose it
    with scratch(f"chart-{controller.name}") as work:
        copy_writable(source(chart.module) / chart.path, work)
        metadata = _load(work / "Chart.yaml")
        metadata["version"] = controller.version
        metadata["appVersion"] = controller.tag
        # Left out by a stack's values; Helm wants them in charts/ nevertheless.
        metadata.pop("dependencies", None)
        _dump(work / "Chart.yaml", metadata)
        values = _load(work / "values.yaml")
        set_image(values, controller)
        _dump(work / "values.yaml", values)
        publish(work, chart_dir(controller))


def set_image(values: dict[str, Any], controller: Controller) -> None:
    """Set a chart's image as its release does: the published repository, the tag from appVersion.

    In their repositories the charts of Kueue and JobSet name the staging registry. A chart without
    either field has one for each of its images, which its user sets.
    """
    holder = values if "image" in values else values.get("controllerManager", {}).get("manager")
    if holder is None:
        return
    image = holder["image"]
    if "registry" in image:
        image["registry"], image["repository"] = controller.image.split("/", 1)
    else:
        image["repository"] = controller.image
    image["tag"] = ""
    image["pullPolicy"] = "IfNotPresent"


def unpack_manifests(source: Callable[[str], Path] = module_dir) -> None:
    """Take the CRD of Multus and the stages of KWOK out of their modules."""
    with scratch("manifests") as work:
        manifest = source(part("multus").module) / _MULTUS_MANIFEST
        documents = yaml.safe_load_all(manifest.read_text())
        crd = next(
            d
            for d in documents
            if d
            and d["kind"] == "CustomResourceDefinition"
            and d["metadata"]["name"] == NAD_CRD_NAME
        )
        (work / "nad-crd.json").write_text(json.dumps(crd, indent=1))
        stages = work / "kwok-stages"
        stages.mkdir()
        for stage in _KWOK_STAGES:
            origin = source(part("kwok").module) / stage
            shutil.copyfile(origin, stages / origin.name)
        publish(work, manifests_dir())


def copy_writable(source: Path, target: Path) -> None:
    """Copy a directory out of the module cache, whose files are read-only."""
    shutil.copytree(source, target, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def _load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def _dump(path: Path, value: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(value, sort_keys=False, width=100))
