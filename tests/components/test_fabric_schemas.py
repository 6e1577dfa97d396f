"""Objects of every mode, checked against its operators' CRDs: no field is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from railhead.catalog.versions import ADDONS
from railhead.components import arguments
from railhead.components.controllers import gpu_operator
from railhead.components.fabric import network_operator
from railhead.components.fabric.fabric import gpu_operator_args
from railhead.components.fabric.objects import objects_of
from railhead.components.fabric.railed import RailedObjects, network_operator_args
from railhead.config import parse
from railhead.fabric.railed import RailedFabric
from railhead.model.cluster import Cluster
from railhead.model.gpu import GpuOperatorConfig
from railhead.resolve.namespaces import nvlink_domains
from tests import crds
from tests.components.fabrics import cases, cluster, every, recorded
from tests.components.recording import Recording
from tests.components.test_api_server import integers
from tests.components.variants import variant

pytestmark = pytest.mark.slow

# Whose objects a mode makes; a kind of theirs without a schema here is a failure.
GROUPS = (
    "mellanox.com",
    "sriovnetwork.openshift.io",
    "nv-ipam.nvidia.com",
    "k8s.cni.cncf.io",
    "nvidia.com",
)


@pytest.fixture(scope="module")
def schemas() -> dict[tuple[str, str], Any]:
    return crds.schemas("proven")


def errors(body: Mapping[str, Any], schemas: Mapping[tuple[str, str], Any]) -> list[str]:
    validator = jsonschema.Draft7Validator(schemas[(body["apiVersion"], body["kind"])])
    return [f"{e.json_path}: {e.message}" for e in validator.iter_errors(body)]


CASES = [case for case in every() if case.platform in ("lab", "existing")]


@pytest.fixture(params=CASES, ids=lambda c: c.id, scope="module")
def recording(request: pytest.FixtureRequest) -> Recording:
    """A cloud's stacks make no object of these operators."""
    return recorded(request.param)


def test_every_object_fits_its_schema(
    recording: Recording, schemas: dict[tuple[str, str], Any]
) -> None:
    bodies = [
        integers(dict(r.inputs))
        for r in recording.resources.values()
        if str(r.inputs.get("apiVersion", "")).startswith(GROUPS)
    ]
    assert {f"{b['kind']}/{b['metadata']['name']}": errors(b, schemas) for b in bodies} == {
        f"{b['kind']}/{b['metadata']['name']}": [] for b in bodies
    }


def _values(stack: Cluster) -> dict[str, Any]:
    assert stack.gpu_operator is not None
    return gpu_operator.values(gpu_operator_args(arguments.fabric(stack), stack.gpu_operator))


def _gpu(**fields: Any) -> tuple[Cluster, GpuOperatorConfig]:
    case = next(c for c in cases() if c.mode == "sriov-roce")
    stack = parse(cluster(case) | {"gpu_operator": fields}, where="a case")
    assert stack.gpu_operator is not None
    return stack, stack.gpu_operator


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"driver": "host", "toolkit": "host"},
        {"gpudirect": "peermem", "gdrcopy": True, "driver_version": "580.95.05"},
        {"driver_environment": {"http_proxy": "http://proxy.example.com:3128"}, "gdrcopy": True},
        {"allocation": "dra", "compute_domains": True},
        {"mig": "mixed", "dcgm_exporter": False},
    ],
    ids=["defaults", "host", "peermem", "proxy", "dra", "mig"],
)
def test_the_gpu_operators_values_are_what_its_policy_has(
    schemas: dict[tuple[str, str], Any], fields: dict[str, Any]
) -> None:
    stack, config = _gpu(**fields)
    values = _values(stack)
    # The chart hands these on as they are; the rest of its values is its own.
    policy = {
        key: value
        for key, value in values.items()
        if key not in ("nfd", "operator", "node-feature-discovery")
    }
    schema = schemas[("nvidia.com/v1", "ClusterPolicy")]["properties"]["spec"]
    validator = jsonschema.Draft7Validator({**schema, "required": []})
    assert [f"{e.json_path}: {e.message}" for e in validator.iter_errors(policy)] == []
    assert values["devicePlugin"]["enabled"] is (config.allocation == "device-plugin")
    assert values["migManager"]["enabled"] is (config.mig != "none")


def test_the_nvlink_domain_fits_its_schema(schemas: dict[tuple[str, str], Any]) -> None:
    stack = parse(variant("dranet"), where="a variant")
    ((name, spec),) = nvlink_domains(stack).items()
    body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "spec": spec}
    assert errors(body | {"metadata": {"name": name}}, schemas) == []


@pytest.mark.parametrize("release", ["gpu-operator", "dra-driver-nvidia-gpu"])
def test_the_nvlink_domain_is_taken_as_its_driver_writes_it(release: str) -> None:
    """Go leaves a number out that is 0 (v0.4.1, computedomain.go: omitempty); two define it."""
    ((name, spec),) = nvlink_domains(parse(variant("dranet"), where="a variant")).items()
    written = {key: value for key, value in spec.items() if value != 0}
    (domain,) = (
        body
        for body in crds.of(ADDONS[release])
        if body["metadata"]["name"] == "computedomains.resource.nvidia.com"
    )
    (version,) = domain["spec"]["versions"]
    schema = crds.whole(version["schema"]["openAPIV3Schema"])
    validator = jsonschema.Draft7Validator(schema)
    body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain"}
    whole = body | {"metadata": {"name": name}, "spec": written}
    assert [error.message for error in validator.iter_errors(whole)] == []


def test_gpu_drivers_containers_find_a_proxy() -> None:
    """Packages of the nodes' distribution come through it at each start."""
    proxy = {"http_proxy": "http://proxy.example.com:3128"}
    stack, _ = _gpu(driver_environment=proxy, gdrcopy=True)
    env = [{"name": "http_proxy", "value": "http://proxy.example.com:3128"}]
    assert _values(stack)["driver"]["env"] == env
    assert _values(stack)["gdrcopy"] == {"enabled": True, "env": env}


def test_a_prometheus_that_selects_by_label_finds_the_gpus() -> None:
    """Prometheus of kube-prometheus-stack reads monitors with its release's label alone."""
    labels = {"release": "monitoring"}
    asked = cluster(next(c for c in cases() if c.mode == "sriov-roce")) | {
        "gpu_operator": {"service_monitor": True},
        "watching": {"kind": "prometheus-operator", "labels": labels},
    }
    monitor = _values(parse(asked, where="a case"))["dcgmExporter"]["serviceMonitor"]
    assert monitor == {"enabled": True, "additionalLabels": labels}


def test_metrics_of_gpus_are_read_by_one_process() -> None:
    """One host engine beside the exporter stays without GPUs (gpu-operator #2854)."""
    values = _values(_gpu()[0])
    assert values["dcgmExporter"]["enabled"]
    assert "dcgm" not in values


def test_no_rdma_device_comes_beside_the_fabrics() -> None:
    """NCCL takes all that it can open, and with nvidia_fs the plugin adds all of the node."""
    env = [{"name": "MOFED_ENABLED", "value": "false"}]
    for mode, more, given in (
        ("sriov-roce", {"sriov": {"rdma_mode": "shared"}}, env),
        ("sriov-roce", {}, None),
        ("host-device", {}, env),
        ("dranet", {}, env),
        ("rdma-shared", {}, None),
    ):
        case = next(
            c for c in cases() if (c.mode, c.fabric, c.platform) == (mode, "roce", "existing")
        )
        raw = cluster(case) | {"gpu_operator": {}}
        raw["fabric"] |= more
        plugin = _values(parse(raw, where="a case"))["devicePlugin"]
        assert plugin.get("env") == given, (mode, more)


def test_hosts_toolkit_runs_no_hook_that_it_may_not_know() -> None:
    """Before 1.18 it ends the container at one (k8s-device-plugin #1245)."""
    hooks = "disable-device-node-modification,update-application-profile"
    plugin = _values(_gpu(driver="host", toolkit="host")[0])["devicePlugin"]
    assert plugin["env"] == [{"name": "CDI_DISABLE_HOOKS", "value": hooks}]
    assert "env" not in _values(_gpu()[0])["devicePlugin"], "the operator's has the plugin's hooks"


def test_peermem_is_built_only_when_it_is_asked_for() -> None:
    stack, _ = _gpu()
    assert _values(stack)["driver"]["rdma"]["enabled"] is False
    stack, _ = _gpu(gpudirect="peermem")
    # The case has the NICs' driver from the network operator, not from the host.
    assert _values(stack)["driver"]["rdma"] == {
        "enabled": True,
        "useHostMofed": False,
    }
    raw = cluster(next(c for c in cases() if c.mode == "sriov-roce"))
    raw["fabric"]["network_operator"] = {}
    stack = parse(raw | {"gpu_operator": {"gpudirect": "peermem"}}, where="a case")
    assert _values(stack)["driver"]["rdma"]["useHostMofed"] is True


def test_gpu_driver_waits_for_a_nic_driver_in_a_container() -> None:
    """Fabric Manager of an HGX B200 must find the modules that the container unloads and loads."""
    raw = cluster(next(c for c in cases() if c.mode == "sriov-roce")) | {"gpu_operator": {}}
    assert "manager" not in _values(parse(raw, where="a case"))["driver"], "of an H100"
    raw["pools"][0]["instance_type"] = "dgx-b200"
    env = {"name": "GPU_DIRECT_RDMA_ENABLED", "value": "true"}
    assert _values(parse(raw, where="a case"))["driver"]["manager"] == {"env": [env]}
    raw["fabric"]["network_operator"] = {}
    assert "manager" not in _values(parse(raw, where="a case"))["driver"], "the host has it"


def test_gpu_driver_sees_switches_in_exclusive_namespaces() -> None:
    """Fabric Manager of an HGX B200 runs in the driver's pod, which must see the host's devices."""
    raw = cluster(next(c for c in cases() if c.mode == "sriov-roce")) | {"gpu_operator": {}}
    assert "hostNetwork" not in _values(parse(raw, where="a case"))["driver"], "of an H100"
    raw["pools"][0]["instance_type"] = "dgx-b200"
    assert _values(parse(raw, where="a case"))["driver"]["hostNetwork"] is True
    raw["fabric"]["sriov"] = {"rdma_mode": "shared"}
    assert "hostNetwork" not in _values(parse(raw, where="a case"))["driver"], "every pod sees them"
    native = next(c for c in cases() if (c.mode, c.fabric) == ("provider-native", "roce"))
    theirs = cluster(native) | {"gpu_operator": {}}
    theirs["pools"][0]["instance_type"] = "BM.GPU.B200.8"
    assert _values(parse(theirs, where="a case"))["driver"]["hostNetwork"] is True, "unsaid"


@pytest.mark.parametrize("gpu", [None, {}, {"nfd": "existing"}], ids=["none", "own", "existing"])
@pytest.mark.parametrize(
    "network", [None, {}, {"nfd": "existing"}], ids=["none", "own", "existing"]
)
def test_at_most_one_operator_discovers_features(
    gpu: dict[str, str] | None, network: dict[str, str] | None
) -> None:
    raw = cluster(
        next(
            c
            for c in cases()
            if c.mode == "rdma-shared" and c.fabric == "roce" and c.platform == "existing"
        )
    )
    raw["fabric"]["network_operator"] = network
    raw["gpu_operator"] = gpu
    stack = parse(raw, where="a case")
    own = []
    if stack.gpu_operator is not None:
        own.append(_values(stack)["nfd"]["enabled"])
    if stack.fabric.nic_operator is not None:
        args, fabric = arguments.fabric(stack), stack.fabric
        assert isinstance(fabric, RailedFabric)
        assert fabric.network_operator is not None
        objects = objects_of(fabric)
        assert isinstance(objects, RailedObjects)
        wanted_args = network_operator_args(args, fabric, fabric.network_operator, objects)
        own.append(network_operator.values(wanted_args)["nfd"]["enabled"])
    wanted = network == {} or (network is None and gpu == {})
    assert own.count(True) == (1 if wanted else 0)


def test_the_check_refuses_unknown_fields(schemas: dict[tuple[str, str], Any]) -> None:
    body = {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "MacvlanNetwork",
        "metadata": {"name": "x"},
        "spec": {"master": "ens0", "whereabouts": True},
    }
    assert errors(body, schemas)
