"""Helm in a twin: charts of this machine, and webhooks that are answered outside of pods."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.errors import PrerequisiteError
from railhead.catalog.versions import ADDONS
from railhead.lab.artifacts import twin_operators
from railhead.twin import helm, managers
from railhead.twin.plane import PLAYED
from railhead.twin.world import PLAYER

SETTINGS: dict[str, Any] = {
    "post_renderer": "/bin/helm",
    "modules": {},
    "ports": {"kueue": 1000, "jobset": 1001, "kubeflow-trainer": 1002, "aggregated": 1003},
    "authority": "Q0E=",
}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """The settings of a twin, and charts of modules that have nothing but a name."""
    modules = {}
    for name in twin_operators.chart_dirs():
        (folder := tmp_path / "modules" / name).mkdir(parents=True)
        (folder / "Chart.yaml").write_text(yaml.safe_dump({"name": name, "version": "9.9.9"}))
        modules[name] = str(folder)
    return SETTINGS | {"charts": str(tmp_path), "modules": modules}


def test_a_registrys_chart_is_one_of_this_machine(settings: dict[str, Any]) -> None:
    words = ["install", "gpu-operator", "gpu-operator"]
    words += ["--repo=https://example.com", "--version=v26.7.0", "--wait"]
    made = helm.local(words, settings)
    assert made[:2] == ["install", "gpu-operator"]
    chart = Path(made[2])
    assert yaml.safe_load((chart / "Chart.yaml").read_text())["version"] == "v26.7.0"
    assert made[3:] == [
        "--wait",
        "--post-renderer=/bin/helm",
        "--post-renderer-args=post-render",
        "--post-renderer-args=gpu-operator",
    ]


def test_commands_without_a_chart_are_helms_own(settings: dict[str, Any]) -> None:
    words = ["uninstall", "kueue", "--wait"]
    assert helm.local(words, settings) == words


def test_an_unknown_chart_says_that_it_is_not_played(settings: dict[str, Any]) -> None:
    chart = helm.chart("surprise", "1.0.0", settings)
    assert "not-played" in (chart / "templates" / "note.yaml").read_text()


@pytest.mark.parametrize("name", ["sriov-network-operator", "network-operator"])
def test_a_chart_that_is_not_built_is_no_unknown_one(settings: dict[str, Any], name: str) -> None:
    shutil.rmtree(settings["modules"]["sriov-network-operator"])
    with pytest.raises(PrerequisiteError, match="sriov-network-operator is not in"):
        helm.chart(name, "1.0.0", settings)
    assert not list(Path(settings["charts"]).glob(f"{name}-1.0.0"))


def test_helm_ends_with_an_error_of_a_chart(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "twin.json").write_text(
        json.dumps(settings | {"modules": {"kueue": str(tmp_path / "none")}})
    )
    monkeypatch.setenv(helm.SETTINGS, str(file))
    with pytest.raises(SystemExit, match="Error: the chart kueue is not in"):
        helm.main(["install", "kueue", "kueue", "--version=1.0.0"])


def test_definitions_lie_where_helm_keeps_them(settings: dict[str, Any]) -> None:
    chart = helm.chart("network-operator", "26.4.1", settings)
    made = yaml.safe_load((chart / "crds" / "nicclusterpolicies.mellanox.com.yaml").read_text())
    assert made["spec"]["names"]["kind"] == "NicClusterPolicy"


def test_operators_charts_have_those_of_modules_inside(settings: dict[str, Any]) -> None:
    chart = helm.chart("network-operator", "26.4.1", settings)
    inside = yaml.safe_load((chart / "Chart.yaml").read_text())["dependencies"]
    assert [(d["name"], d["version"]) for d in inside] == [
        ("node-feature-discovery", "9.9.9"),
        ("sriov-network-operator", "9.9.9"),
    ]
    assert (chart / "charts" / "sriov-network-operator" / "Chart.yaml").is_file()


@pytest.mark.parametrize(
    "name",
    ["gpu-operator", "network-operator", "csi-driver-nfs", "aws-efa-k8s-device-plugin"],
)
def test_shipped_stacks_charts_are_played(name: str) -> None:
    assert (helm.CHARTS / ADDONS[name].name / "templates").is_dir()


BODIES: list[dict[str, Any]] = [
    {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [{"clientConfig": {"service": {"name": "s", "path": "/validate"}}}],
    },
    {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}}},
    },
]


def test_webhooks_are_answered_on_this_machine() -> None:
    webhook, deployment = helm.rendered(copy.deepcopy(BODIES), "jobset", SETTINGS)
    assert webhook["webhooks"][0]["clientConfig"] == {
        "url": "https://127.0.0.1:1001/validate",
        "caBundle": "Q0E=",
    }
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == {"a": "b", helm.PROGRAM_LABEL: "jobset"}


def test_kueues_webhooks_keep_the_name_of_a_service() -> None:
    webhook, _ = helm.rendered(copy.deepcopy(BODIES), "kueue", SETTINGS)
    service = webhook["webhooks"][0]["clientConfig"]["service"]
    assert service == {
        "name": "s",
        "path": "/validate",
        "namespace": helm.KUEUE_SPACE,
        "port": 1000,
    }


def test_other_releases_are_left_as_they_are() -> None:
    assert helm.rendered(copy.deepcopy(BODIES), "gpu-operator", SETTINGS) == BODIES


def test_pods_of_operators_are_marked_by_their_command() -> None:
    def body(command: str) -> dict[str, Any]:
        pod = {"metadata": {"labels": {}}, "spec": {"containers": [{"command": [command]}]}}
        return {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": pod}}

    made = helm.rendered([body("nfd-master"), body("nfd-worker"), body("sh")], "x", SETTINGS)
    master, worker, other = (b["spec"]["template"]["metadata"] for b in made)
    assert master["labels"] == {helm.PROGRAM_LABEL: "nfd-master"}
    assert PLAYED in master["annotations"]
    assert worker == {"labels": {PLAYER: "nfd-worker"}}
    assert other == {"labels": {}}


def test_an_operator_keeps_its_containers_words() -> None:
    container = {
        "args": ["-enable-leader-election", "-feature-gates=A=true", "-port=8080"],
        "env": [
            {"name": "RESOURCE_PREFIX", "value": "nvidia.com"},
            {"name": "EMPTY"},
            {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
    }
    pod = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n", "containers": [container]},
    }
    assert managers.kept(container) == ["-feature-gates=A=true"]
    assert managers.variables(pod) == {
        "RESOURCE_PREFIX": "nvidia.com",
        "EMPTY": "",
        "NAMESPACE": "ns",
    }


def test_a_program_keeps_its_stacks_configuration(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "integrations": {"frameworks": ["batch/job"]},
        "waitForPodsReady": {
            "timeout": "600s",
            "requeuingStrategy": {"backoffBaseSeconds": 60, "backoffLimitCount": 5},
        },
    }
    made = managers.configured(given, "kueue", health=1, webhook=2, certificates=tmp_path)
    assert made["integrations"] == given["integrations"]
    assert made["waitForPodsReady"] == {
        "timeout": "600s",
        "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffLimitCount": 5},
    }
    assert made["webhook"]["port"] == 2
    assert given["waitForPodsReady"]["requeuingStrategy"]["backoffBaseSeconds"] == 60


def test_trainers_certificates_are_ours(tmp_path: Path) -> None:
    made = managers.configured({}, "kubeflow-trainer", health=1, webhook=2, certificates=tmp_path)
    assert made["certManagement"] == {"enable": False}
    assert "certDir" not in made["webhook"]
