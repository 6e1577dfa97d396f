"""Facts of every stack that one deleted line would break in silence."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.components.order import assert_first
from tests.components.recording import Recording, Registered, run_stack, stack_cluster
from tests.components.variants import VARIANTS, variant

RELEASE = "kubernetes:helm.sh/v3:Release"
# The clouds' SDKs take seconds to import; their own order has tests of its own.
STACKS = ("lab", "onprem-ib-sriov", "onprem-roce-shared")
# Component below the cluster -> components of which everything is there before any of it. What a
# stack does not have is left out.
AFTER = {
    "trainer": ("jobset",),
    "queues": ("kueue",),
    "runtimes": ("jobset", "trainer", "fabric"),
    "gate": ("fabric",),
    "guards": ("runtimes",),
    "researchers": ("queues", "runtimes"),
    "namespace": ("kueue", "jobset", "trainer", "queues", "runtimes", "guards", "gate"),
    "contract": ("researchers", "namespace"),
}


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def recording(stack: str) -> Recording:
    with tempfile.TemporaryDirectory() as folder:
        return run_stack(stack, Path(folder))


def parts(recording: Recording, stack: str) -> dict[str, list[Registered]]:
    """Return the resources of each component right below the cluster; namespaces' together."""
    cluster = f"{stack_cluster(stack)['name']}-"
    results: dict[str, list[Registered]] = {}
    for resource in recording.resources.values():
        if not resource.custom or not resource.name.startswith(cluster):
            continue
        part = resource.name.removeprefix(cluster).partition("-")[0]
        results.setdefault(part, []).append(resource)
    return results


@pytest.mark.slow
def test_guards_deny_and_what_they_cannot_evaluate_they_deny_too(recording: Recording) -> None:
    bindings = recording.kind("ValidatingAdmissionPolicyBinding")
    assert len(bindings) >= 4
    for binding in bindings:
        assert binding.inputs["spec"]["validationActions"] == ["Deny"], binding.name
    policies = recording.kind("ValidatingAdmissionPolicy")
    assert {b.inputs["spec"]["policyName"] for b in bindings} == {
        p.inputs["metadata"]["name"] for p in policies
    }
    for policy in policies:
        assert policy.inputs["spec"]["failurePolicy"] == "Fail", policy.name


@pytest.mark.slow
def test_a_gang_that_does_not_start_gives_its_quota_back(recording: Recording, stack: str) -> None:
    [kueue] = [r for r in recording.of_type(RELEASE) if r.inputs["name"] == "kueue"]
    reported = yaml.safe_load(
        kueue.inputs["values"]["managerConfig"]["controllerManagerConfigYaml"]
    )
    seconds = stack_cluster(stack).get("ready_timeout_seconds", 600)
    waits = reported["waitForPodsReady"]
    assert waits.get("enable", True)
    assert (waits["timeout"], waits["recoveryTimeout"]) == (f"{seconds}s", f"{seconds}s")
    assert waits["blockAdmission"] is False
    assert waits["requeuingStrategy"]["timestamp"] == "Eviction"
    assert waits["requeuingStrategy"]["backoffBaseSeconds"] >= 1


def pods(value: Any) -> list[dict[str, Any]]:
    """Return every pod's spec anywhere below a value."""
    if isinstance(value, dict):
        own = [value] if isinstance(value.get("containers"), list) else []
        return own + [pod for inner in value.values() for pod in pods(inner)]
    if isinstance(value, list):
        return [pod for inner in value for pod in pods(inner)]
    return []


def test_no_training_pod_has_a_token_of_a_service_account(recording: Recording) -> None:
    for runtime in recording.kind("ClusterTrainingRuntime"):
        result = pods(runtime.inputs["spec"])
        assert result
        for pod in result:
            assert pod["automountServiceAccountToken"] is False
            assert pod["enableServiceLinks"] is False
            for container in pod["containers"]:
                assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_training_namespaces_enforce_pod_security(recording: Recording) -> None:
    labels = [r.inputs["metadata"]["labels"] for r in recording.kind("Namespace")]
    training = [label for label in labels if label.get("railhead.dev/training") == "true"]
    assert training
    for item in training:
        assert item["pod-security.kubernetes.io/enforce"] in (
            "restricted",
            "baseline",
            "privileged",
        )


def test_a_gang_goes_to_nodes_that_proved_their_fabric(recording: Recording) -> None:
    if not recording.kind("DaemonSet"):
        return
    for flavor in recording.kind("ResourceFlavor"):
        assert flavor.inputs["spec"]["nodeLabels"]["railhead.dev/fabric"] == "ready", flavor.name


def test_rails_are_distinct(recording: Recording) -> None:
    """Rails share no interface of a node, no device of a pod and no addresses."""
    seen: set[tuple[str, str]] = set()
    networks = recording.kind("NetworkAttachmentDefinition")
    for network in networks:
        metadata = network.inputs["metadata"]
        reported = json.loads(network.inputs["spec"]["config"])
        first = (reported.get("plugins") or [reported])[0]
        device = (metadata.get("annotations") or {}).get("k8s.v1.cni.cncf.io/resourceName")
        on = first.get("master") or device
        assert on, network.name
        # Verbs need no address on InfiniBand.
        addresses = json.dumps(first.get("ipam", metadata["name"]))
        seen |= {(metadata["namespace"], on), (metadata["namespace"], addresses)}
    assert len(seen) == 2 * len(networks)


def test_everything_is_there_before_what_needs_it(recording: Recording, stack: str) -> None:
    result = parts(recording, stack)
    for later, earlier in AFTER.items():
        for part in earlier:
            needed = [r for r in result.get(part, []) if r.type == RELEASE] or result.get(part, [])
            for step in result[later] if needed else ():
                assert_first(recording, needed, step)


# Kind -> the release that serves it.
SERVED = {
    "NicClusterPolicy": "network-operator",
    "SriovNetworkNodePolicy": "network-operator",
    "SriovNetworkPoolConfig": "network-operator",
    "SriovIBNetwork": "network-operator",
    "SriovNetwork": "network-operator",
    "MacvlanNetwork": "network-operator",
    "IPPool": "network-operator",
    "CIDRPool": "network-operator",
    "ClusterPolicy": "gpu-operator",
    "ClusterQueue": "kueue",
    "LocalQueue": "kueue",
    "ResourceFlavor": "kueue",
    "Topology": "kueue",
    "ClusterTrainingRuntime": "kubeflow-trainer",
}


def test_what_an_operator_serves_waits_for_the_operator(recording: Recording) -> None:
    releases = {str(r.inputs["name"]): r for r in recording.of_type(RELEASE)}
    seen = set()
    for resource in recording.resources.values():
        served = SERVED.get(str(resource.inputs.get("kind")))
        if served is None or served not in releases:
            continue
        seen.add(served)
        assert_first(recording, [releases[served]], resource)
    assert {"kueue", "kubeflow-trainer"} <= seen


@pytest.mark.slow
def test_what_the_api_server_fixes_is_replaced(tmp_path: Path) -> None:
    """Kubernetes or a definition fixes the spec; the provider knows of neither."""
    recording = run_stack(VARIANTS["dranet"], tmp_path, cluster=variant("dranet"))
    for kind in ("ComputeDomain", "ResourceClaimTemplate"):
        resources = recording.kind(kind)
        assert resources
        for resource in resources:
            assert resource.manner["replaced for"] == ["spec"], resource.name
            assert resource.manner["deleted before it is replaced"], resource.name
