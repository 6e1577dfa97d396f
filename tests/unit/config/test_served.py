"""Kubernetes versions that a stack serves, once its add-ons are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import InputError
from railhead.base.sections import read
from railhead.config import Cluster, parse
from railhead.config.served import addons, unserved
from tests.shipped import stack

REPO = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("name", "installed"),
    [
        ("lab", []),
        ("onprem-ib-sriov", ["gpu-operator", "network-operator"]),
        ("onprem-roce-shared", ["gpu-operator", "network-operator"]),
    ],
)
def test_addons_of_a_stack(name: str, installed: list[str]) -> None:
    assert addons(parse(stack(name), where="x")) == installed


@pytest.mark.parametrize("by", [{"allocation": "dra"}, {"compute_domains": True}])
def test_claims_of_gpus_bring_their_driver(by: dict[str, Any]) -> None:
    operator = {"gpu_operator": by, "fabric": {"mode": "efa", "install": False}}
    assert addons(read(Cluster, operator)) == ["gpu-operator", "dra-driver-nvidia-gpu"]


def test_an_empty_section_is_an_operator_as_it_comes() -> None:
    raw = {"gpu_operator": {}, "fabric": {"mode": "rdma-shared", "network_operator": {}}}
    assert addons(read(Cluster, raw)) == ["gpu-operator", "network-operator"]


@pytest.mark.parametrize(
    ("fabric", "installed"),
    [
        ({"mode": "efa"}, ["aws-efa-k8s-device-plugin"]),
        ({"mode": "efa", "allocation": "dra"}, ["aws-dranet"]),
        ({"mode": "efa", "install": False}, []),
        ({"mode": "dranet", "driver": "install"}, ["dranet"]),
        ({"mode": "dranet", "driver": "managed"}, []),
    ],
)
def test_addons_of_a_mode(fabric: dict[str, Any], installed: list[str]) -> None:
    assert addons(read(Cluster, {"fabric": fabric})) == installed


def test_an_addon_narrows_what_is_served_and_is_named() -> None:
    metal = parse(stack("onprem-ib-sriov"), where="x")
    assert unserved(metal, "1.35") == ""
    why = unserved(metal, "1.36")
    assert "Kubernetes 1.36 is not served by versions 'jobset-0.11': it is for 1.33 to 1.35" in why
    assert "network-operator 26.4.1 serves 1.31 to 1.35" in why
    lab = parse(stack("lab") | {"versions": "newest-read"}, where="x")
    assert unserved(lab, "1.36") == ""


@pytest.mark.parametrize("driver", ["install", "existing"])
def test_claims_of_nics_need_their_api(driver: str) -> None:
    metal = stack("onprem-ib-sriov")
    metal["fabric"] = {"kind": "infiniband", "mode": "dranet", "driver": driver, "selector": "true"}
    assert "does not serve resource.k8s.io/v1" in unserved(parse(metal, where="x"), "1.33")
    assert unserved(parse(metal, where="x"), "1.34") == ""


def test_claims_of_gpus_need_their_api() -> None:
    metal = stack("onprem-ib-sriov")
    metal["gpu_operator"]["allocation"] = "dra"
    assert "does not serve resource.k8s.io/v1" in unserved(parse(metal, where="x"), "1.33")
    assert unserved(parse(stack("onprem-ib-sriov"), where="x"), "1.33") == ""


def test_cloud_stack_with_unserved_kubernetes_is_refused() -> None:
    raw = stack("aws-p5-prod")
    raw["platform"]["kubernetes"] = "1.34"
    raw["fabric"]["allocation"] = "dra"
    with pytest.raises(InputError) as caught:
        parse(raw, where="x")
    assert "x: platform.kubernetes: Kubernetes 1.34 is not served" in caught.value.problem
    assert "aws-dranet 1.0.0 serves 1.35 to newer" in caught.value.problem


@pytest.mark.parametrize("minor", [None, 1.35, "", "newest", "1", "1.x", ["1.35"], {}])
def test_malformed_version_is_left_to_the_model(minor: Any) -> None:
    raw = stack("aws-p5-prod")
    raw["platform"]["kubernetes"] = minor
    with pytest.raises(InputError) as caught:
        parse(raw, where="x")
    assert "is not served" not in caught.value.problem
