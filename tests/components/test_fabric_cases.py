"""Every mode on every platform that has it: configuration, objects, order, pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from railhead.config import Cluster, parse
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.machines import MACHINES
from railhead.platform.registry import platforms_of
from tests.components.fabrics import Case, cases, cluster, recorded
from tests.components.recording import Recording, Registered, run_stack

pytestmark = pytest.mark.slow

CASES = cases()


@pytest.fixture(params=CASES, ids=lambda case: case.id, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    result: Case = request.param
    return result


@pytest.fixture(scope="module")
def stack(case: Case) -> Cluster:
    return parse(cluster(case), where="a case")


@pytest.fixture(scope="module")
def recording(case: Case) -> Recording:
    return recorded(case)


def test_every_mode_and_every_platform_of_it_has_a_case() -> None:
    have = {(case.mode, case.platform) for case in CASES}
    want = {(mode.name, platform) for mode in MODES.values() for platform in platforms_of(mode)}
    # No machine of the catalogue is an existing cluster's lab stand-in with InfiniBand, say: what
    # the catalogue promises without a machine to do it on would be an empty promise.
    assert have == want


def template(recording: Recording) -> dict[str, Any]:
    # A stack may have more; all of them have the fabric alike.
    runtime, *_ = recording.kind("ClusterTrainingRuntime")
    (job,) = runtime.inputs["spec"]["template"]["spec"]["replicatedJobs"]
    result: dict[str, Any] = job["template"]["spec"]["template"]
    return result


def trainer(recording: Recording) -> dict[str, Any]:
    (container,) = template(recording)["spec"]["containers"]
    result: dict[str, Any] = container
    return result


def test_nothing_falls_back_to_tcp(case: Case, recording: Recording) -> None:
    env = {e["name"]: e["value"] for e in trainer(recording)["env"]}
    pinned = next(v for v in FABRICS[case.fabric].environment if v.name == "NCCL_NET")
    assert env["NCCL_NET"] == pinned.value
    assert env["NCCL_SOCKET_IFNAME"].startswith("=")
    # Of several, gloo would connect all processes on each (ProcessGroupGloo.cpp).
    assert env["GLOO_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"].removeprefix("=").split(",")[0]
    assert not set(env) & set(FABRICS[case.fabric].not_set)
    assert not any("{" in value for value in env.values())


def test_every_variable_of_the_row_is_set_or_has_nothing_to_say(
    case: Case, recording: Recording
) -> None:
    env = {e["name"] for e in trainer(recording)["env"]}
    row = {v.name for v in FABRICS[case.fabric].environment_on(case.machine)}
    # What may be left out: devices that are a pod's own, or a lab's none, need no list, and the
    # lab's bridge has no lossless class. The rails here have IPv4, NCCL's own choice, and some
    # modes none, or one.
    listed = MODES[case.mode].hcas and case.platform != "lab"
    silent = {"NCCL_IB_ADDR_FAMILY", "NCCL_CROSS_NIC"}
    silent |= {"NCCL_IB_TC"} if case.platform == "lab" else set()
    assert row - env <= silent | (set() if listed else {"NCCL_IB_HCA"})


def test_devices_are_requested_as_limits_and_charged(case: Case, recording: Recording) -> None:
    resources = trainer(recording)["resources"]
    (queue,) = recording.kind("ClusterQueue")
    (group,) = queue.inputs["spec"]["resourceGroups"]
    quota = {r["name"]: r["nominalQuota"] for r in group["flavors"][0]["resources"]}
    # A pod may hold more memory than it is charged for.
    devices = {name: value for name, value in resources["limits"].items() if name != "memory"}
    for name, quantity in devices.items():
        assert resources["requests"][name] == quantity
        assert name in group["coveredResources"]
        assert int(quota[name].rstrip("Mi")) >= int(quantity.rstrip("Mi")) > 0
    nics = len(MACHINES[case.machine].nics)
    fabric = {k: v for k, v in devices.items() if k != "nvidia.com/gpu"}
    if case.mode == "efa":
        assert fabric["vpc.amazonaws.com/efa"] == str(nics)
        assert fabric["hugepages-2Mi"] == f"{160 * nics}Mi"
    elif case.mode in ("sriov-roce", "sriov-ib") or (
        case.mode == "host-device" and case.platform != "lab"
    ):
        assert fabric == {f"nvidia.com/rail_{index}": "1" for index in range(nics)}
    elif case.mode in ("rdma-shared", "ipoib"):
        assert fabric == {"rdma/rdma_shared_device_a": "1"}
    elif case.mode == "provider-native":
        assert fabric == {"rdma/ib": "1"}
    else:
        assert not fabric


def test_a_pod_has_one_interface_for_each_nic(case: Case, recording: Recording) -> None:
    annotations = template(recording)["metadata"]["annotations"]
    nics = len(MACHINES[case.machine].nics)
    networks = json.loads(annotations.get("k8s.v1.cni.cncf.io/networks", "[]"))
    gke = json.loads(annotations.get("networking.gke.io/interfaces", "[]"))
    attachment = MODES[case.mode].attachment
    if attachment == "gke":
        assert len(gke) == nics + 1
        assert gke[0] == {"interfaceName": "eth0", "network": "default"}
        assert (
            len({i["interfaceName"] for i in gke}) == len({i["network"] for i in gke}) == nics + 1
        )
    elif attachment == "multus" and not (case.mode == "rdma-shared" and case.fabric != "roce"):
        assert [n["interface"] for n in networks] == [f"net{i + 1}" for i in range(nics)]
    else:
        assert not networks
        assert not gke


def test_the_networks_that_pods_name_are_made(case: Case, recording: Recording) -> None:
    annotations = template(recording)["metadata"]["annotations"]
    for network in json.loads(annotations.get("k8s.v1.cni.cncf.io/networks", "[]")):
        made = [
            r
            for kind in (
                "NetworkAttachmentDefinition",
                "MacvlanNetwork",
                "HostDeviceNetwork",
                "IPoIBNetwork",
                "SriovNetwork",
                "SriovIBNetwork",
            )
            for r in recording.kind(kind)
            if r.inputs["metadata"]["name"] == network["name"]
        ]
        assert len(made) == 1, network
        (body,) = made
        namespace = (
            body.inputs["spec"].get("networkNamespace") or (body.inputs["metadata"]["namespace"])
        )
        assert namespace == network.get("namespace", "training")


def test_privilege_is_what_the_mode_needs_and_no_more(case: Case, recording: Recording) -> None:
    spec = template(recording)["spec"]
    mode = MODES[case.mode]
    wanted = [c.name for c in mode.capabilities_on(case.fabric)]
    if case.platform == "lab":
        wanted = []
    security = trainer(recording)["securityContext"]
    assert security.get("capabilities", {}).get("add", []) == wanted
    assert security["allowPrivilegeEscalation"] is False
    assert not any(c.get("securityContext", {}).get("privileged") for c in spec["containers"])
    assert spec.get("hostNetwork", False) is (mode.host_network is not None)
    assert bool(mode.capabilities) is not bool(mode.unprivileged)
    hosts = {v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
    assert hosts == {p.host for p in mode.host_paths_on(case.fabric)}


def test_shared_memory_is_the_stacks_or_sized_from_the_node(
    case: Case, stack: Cluster, recording: Recording
) -> None:
    volumes = {v["name"]: v for v in template(recording)["spec"]["volumes"]}
    memory = MACHINES[case.machine].schedulable_memory_gib
    wanted = stack.runtimes[0].shared_memory or f"{memory // 2}Gi"
    assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": wanted}
    if case.platform == "existing":
        assert stack.runtimes[0].shared_memory is None


def test_claims_have_their_template_in_the_namespace(case: Case, recording: Recording) -> None:
    claims = template(recording)["spec"].get("resourceClaims", [])
    assert bool(claims) is (MODES[case.mode].attachment == "claim")
    for claim in claims:
        body = recording.one("ResourceClaimTemplate", claim["resourceClaimTemplateName"]).inputs
        assert body["metadata"]["namespace"] == "training"
        (request,) = body["spec"]["spec"]["devices"]["requests"]
        assert request["exactly"]["count"] == len(MACHINES[case.machine].nics)
        assert trainer(recording)["resources"]["claims"] == [{"name": claim["name"]}]


def test_daemons_run_beside_the_trainer_and_end_with_it(case: Case, recording: Recording) -> None:
    spec = template(recording)["spec"]
    sidecars = spec.get("initContainers", [])
    assert bool(sidecars) is (case.mode in ("tcpx", "tcpxo"))
    for sidecar in sidecars:
        assert sidecar["restartPolicy"] == "Always"
        annotation = f"devices.gke.io/container.{sidecar['name']}"
        listed = json.loads(template(recording)["metadata"]["annotations"][annotation])
        devices = {device["path"] for device in listed}
        assert {f"/dev/nvidia{i}" for i in range(8)} < devices
    volumes = {v["name"] for v in spec["volumes"]}
    for container in [*spec["containers"], *sidecars]:
        assert {m["name"] for m in container["volumeMounts"]} <= volumes


def test_the_profile_is_there_for_the_pods_that_mount_it(case: Case, recording: Recording) -> None:
    profile = recording.one("ConfigMap", "railhead-nccl").inputs
    assert profile["metadata"]["namespace"] == "training"
    env = {e["name"]: e["value"] for e in trainer(recording)["env"]}
    lines = dict(line.split("=", 1) for line in profile["data"]["nccl.conf"].splitlines())
    assert lines.items() <= env.items()
    assert lines["NCCL_NET"] == env["NCCL_NET"]
    assert all(name in profile["data"]["reasons.txt"] for name in lines)
    mounts = {m["mountPath"]: m for m in trainer(recording)["volumeMounts"]}
    assert mounts["/etc/nccl.conf"]["subPath"] == "nccl.conf"


def test_operators_come_before_what_only_they_can_serve(case: Case, recording: Recording) -> None:
    served = {
        "NicClusterPolicy": "network-operator",
        "SriovOperatorConfig": "network-operator",
        "SriovNetworkPoolConfig": "network-operator",
        "SriovNetworkNodePolicy": "network-operator",
        "SriovNetwork": "network-operator",
        "SriovIBNetwork": "network-operator",
        "MacvlanNetwork": "network-operator",
        "HostDeviceNetwork": "network-operator",
        "IPoIBNetwork": "network-operator",
        "IPPool": "network-operator",
        "CIDRPool": "network-operator",
    }
    releases = {r.inputs["name"]: r.urn for r in recording.of_type("kubernetes:helm.sh/v3:Release")}
    for kind, operator in served.items():
        for body in recording.kind(kind):
            assert releases[operator] in recording.before(body.urn), body.name


def _of(recording: Recording, *kinds: str) -> list[Registered]:
    return [body for kind in kinds for body in recording.kind(kind)]


def test_networks_wait_for_cni_and_devices_and_runtimes_for_all(
    case: Case, recording: Recording
) -> None:
    networks = _of(
        recording,
        "MacvlanNetwork",
        "HostDeviceNetwork",
        "IPoIBNetwork",
        "SriovNetwork",
        "SriovIBNetwork",
    )
    policies = {p.urn for p in _of(recording, "NicClusterPolicy", "SriovNetworkNodePolicy")}
    for network in networks:
        assert policies <= recording.before(network.urn)
    fabric = {
        r.urn
        for r in recording.resources.values()
        if r.custom and _below(recording, r, "railhead:index:Fabric")
    }
    for waiting in _of(recording, "ClusterTrainingRuntime", "LocalQueue"):
        assert fabric <= recording.before(waiting.urn)


def _below(recording: Recording, resource: Registered, kind: str) -> bool:
    at: Registered | None = resource
    while at is not None:
        if at.type == kind:
            return True
        at = recording.resources.get(at.parent)
    return False


@pytest.mark.exhaustive
@pytest.mark.slow
def test_previewed_unknown_it_plans_the_same(case: Case, tmp_path: Path) -> None:
    known = run_stack("lab", tmp_path / "known", cluster=cluster(case))
    unknown = run_stack("lab", tmp_path / "unknown", cluster=cluster(case), known=False)
    assert set(known.resources) == set(unknown.resources)
