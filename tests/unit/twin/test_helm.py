"""Helm in a twin: charts of this machine, and webhooks that are answered outside of pods."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.catalog.versions import ADDONS
from railhead.twin import helm, managers

SETTINGS: dict[str, Any] = {
    "post_renderer": "/bin/helm",
    "modules": {},
    "ports": {"kueue": 1000, "jobset": 1001, "kubeflow-trainer": 1002, "aggregated": 1003},
    "authority": "Q0E=",
}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return SETTINGS | {"charts": str(tmp_path)}


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


def test_definitions_lie_where_helm_keeps_them(settings: dict[str, Any]) -> None:
    chart = helm.chart("network-operator", "26.4.1", settings)
    made = yaml.safe_load((chart / "crds" / "nicclusterpolicies.mellanox.com.yaml").read_text())
    assert made["spec"]["names"]["kind"] == "NicClusterPolicy"


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
