"""Definitions of custom resources, of exactly the releases that the catalogue pins.

``tests/data/crds`` has a folder a release, named after the catalogue's row; its README says from
which tag and path each was taken. Tests compare what a stack sends with these, not with a newer
one that has more fields.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.errors import PrerequisiteError
from railhead.catalog.versions import ADDONS, COMBINATIONS, Combination, Controller
from railhead.lab.artifacts.golang import module_dir

DATA = Path(__file__).resolve().parent / "data" / "crds"
#: Add-ons of whose custom resources a stack makes some.
ADDONS_HELD = (
    "network-operator",
    "gpu-operator",
    "node-feature-discovery",
    "dra-driver-nvidia-gpu",
)

#: Releases of whose kinds `launch --api` writes one; that, and what a stack makes of them, is here.
KINDS_HELD = (ADDONS["volcano"],)
#: Modules with the definitions of the others that it writes and Kubernetes and the lab have not.
KINDS_OF = (
    "github.com/kubeflow/training-operator",
    "github.com/kubeflow/mpi-operator",
    "github.com/ray-project/kuberay/ray-operator",
)
#: Where the modules that Kueue is built with have the definitions of the kinds that it admits.
MODULES: Mapping[str, tuple[str, ...]] = {
    "github.com/kubeflow/training-operator": (
        "manifests/base/crds/kubeflow.org_jaxjobs.yaml",
        "manifests/base/crds/kubeflow.org_paddlejobs.yaml",
        "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
        "manifests/base/crds/kubeflow.org_tfjobs.yaml",
        "manifests/base/crds/kubeflow.org_xgboostjobs.yaml",
    ),
    "github.com/kubeflow/mpi-operator": ("manifests/base/kubeflow.org_mpijobs.yaml",),
    "github.com/ray-project/kuberay/ray-operator": (
        "config/crd/bases/ray.io_rayclusters.yaml",
        "config/crd/bases/ray.io_rayjobs.yaml",
    ),
    "sigs.k8s.io/lws": ("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",),
}


def held(combination: Combination) -> tuple[Controller, ...]:
    """Return the rows of a combination whose definitions are here."""
    addons = [combination.addon(name) for name in ADDONS_HELD]
    return (combination.kueue, combination.trainer, *addons)


def folder(row: Controller) -> Path:
    """Return the folder of the definitions of a row's release."""
    return DATA / f"{row.name}-{row.version}"


def of(row: Controller) -> Iterator[dict[str, Any]]:
    """Yield every definition of a row's release.

    Raises:
        FileNotFoundError: the row's version was changed, and its definitions were not fetched.
    """
    files = sorted(folder(row).glob("*.yaml"))
    if not files:
        raise FileNotFoundError(
            f"{folder(row)} is empty: take the definitions of {row.name} {row.version} from its "
            f"tag, as {DATA / 'README.md'} says"
        )
    for path in files:
        for body in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            if body:
                yield body


def every(versions: str = "proven") -> Iterator[dict[str, Any]]:
    """Yield every definition of a combination's releases; of two owners of a kind the first."""
    seen = set()
    for row in held(COMBINATIONS[versions]):
        for body in of(row):
            name = body["metadata"]["name"]
            if name not in seen:
                seen.add(name)
                yield body


def operators(*groups: str) -> Iterator[dict[str, Any]]:
    """Definitions of the add-ons' releases whose API groups are ``groups``."""
    seen = set()
    for name in ADDONS_HELD:
        for body in of(ADDONS[name]):
            if body["spec"]["group"] in groups and body["metadata"]["name"] not in seen:
                seen.add(body["metadata"]["name"])
                yield body


@functools.cache
def schemas(versions: str = "proven") -> dict[tuple[str, str], Any]:
    """apiVersion and kind -> strict schema of a whole object, read once and only read."""
    return {
        (f"{body['spec']['group']}/{version['name']}", body["spec"]["names"]["kind"]): whole(
            version["schema"]["openAPIV3Schema"]
        )
        for body in every(versions)
        for version in body["spec"]["versions"]
    }


def strict(schema: Any) -> Any:
    """Return an openAPIV3Schema as JSON Schema that refuses what the API server would prune."""
    if isinstance(schema, list):
        return [strict(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {key: strict(inner) for key, inner in schema.items() if not key.startswith("x-")}
    if isinstance(pattern := made.get("pattern"), str):
        # Go takes flags anywhere in an expression, Python at its beginning only.
        made["pattern"] = pattern.replace("^(?i)", "(?i)^")
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def whole(schema: Mapping[str, Any]) -> Any:
    """Return the schema of a whole object; its metadata is the API server's own business."""
    made = strict(schema)
    made["properties"]["metadata"] = {"type": "object"}
    return made


def job_definitions(of: Iterable[str] = MODULES) -> list[dict[str, Any]]:
    """Return the operators' own definitions, of the releases that this Kueue is built with."""
    results = []
    for module in of:
        try:
            root = module_dir(module)
        except PrerequisiteError as error:
            pytest.skip(str(error))
        for path in MODULES[module]:
            body = yaml.load((root / path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
            results.append(body)
    return results


def bare(value: Any) -> Any:
    """Return a definition without its texts, which take the API server seconds to read."""
    if isinstance(value, list):
        return [bare(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        key: bare(inner)
        for key, inner in value.items()
        if not (key == "description" and isinstance(inner, str))
    }
