"""Objects of a stack fit the API and each other: each field is known, each name refers to one.

One stack of each kind is checked, with all its monitoring. A real API server checks one stack in
minutes (test_api_server.py); here a misspelled field or name shows in seconds.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi._types
import pytest

from tests.components.recording import Recording, Registered
from tests.components.test_watching import watched

pytestmark = pytest.mark.slow

# What a cluster, a release or a cloud brings.
GIVEN_ROLES = frozenset({"admin", "cluster-admin", "edit", "view"})
GIVEN_CLASSES = frozenset({"system-node-critical", "system-cluster-critical"})
GIVEN_SPACES = frozenset({"kube-system", "default"})


@pytest.fixture(scope="module", params=["lab", "onprem-ib-sriov", "gcp-a3-mega"])
def recording(request: pytest.FixtureRequest) -> Recording:
    return watched(request.param, "files")


def inputs(recording: Recording, *kinds: str) -> Iterator[tuple[Registered, Mapping[str, Any]]]:
    for resource in recording.resources.values():
        if resource.inputs.get("kind") in kinds and not resource.type.endswith("Patch"):
            yield resource, resource.inputs


# -- fields ---------------------------------------------------------------------------------------


def unknown(value: Any, kind: Any, path: str) -> Iterator[str]:
    """Fields of a value that the SDK's own type of it does not have."""
    arguments = typing.get_args(kind)
    results = [kind, *arguments]
    while any(typing.get_args(item) for item in results):
        results = [inner for item in results for inner in (typing.get_args(item) or [item])]
    classes = [
        item for item in results if isinstance(item, type) and pulumi._types.is_input_type(item)
    ]
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from unknown(element, kind, f"{path}[{index}]")
    elif isinstance(value, Mapping) and classes:
        known = pulumi._types.input_type_types(classes[0])
        for key, inner in value.items():
            if key in known:
                yield from unknown(inner, known[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"


def test_every_field_is_one_that_kubernetes_has(recording: Recording) -> None:
    seen = set()
    wrong: list[str] = []
    for resource in recording.resources.values():
        kind, _, name = resource.type.removeprefix("kubernetes:").partition(":")
        group, _, version = kind.partition("/")
        if not resource.type.startswith("kubernetes:") or name in ("Release", "CustomResource"):
            continue
        module = f"pulumi_kubernetes.{group.partition('.')[0]}.{version}"
        try:
            given = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue  # A custom resource's: schemas of its own (test_schemas.py).
        own = getattr(importlib.import_module(f"{module}.{name}"), f"{name}InitArgs", None)
        assert given, name
        seen.add(name)
        wrong += [f"{resource.name}: {item}" for item in unknown(dict(resource.inputs), own, name)]
    assert wrong == []
    assert {"Deployment", "ConfigMap", "ValidatingAdmissionPolicy", "NetworkPolicy"} <= seen


# -- names ----------------------------------------------------------------------------------------


def named(recording: Recording, kind: str) -> set[tuple[str, str]]:
    return {
        (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        for _, body in inputs(recording, kind)
    }


WORKLOADS = ("Deployment", "DaemonSet")


def pods(recording: Recording) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(logical name, namespace, template) of each workload that the stack makes itself."""
    for resource, body in inputs(recording, *WORKLOADS):
        yield resource.name, body["metadata"]["namespace"], body["spec"]["template"]


def test_workloads_select_their_own_pods(recording: Recording) -> None:
    for resource, body in inputs(recording, *WORKLOADS):
        wanted = body["spec"]["selector"]["matchLabels"]
        labels = body["spec"]["template"]["metadata"]["labels"]
        assert wanted, resource.name
        assert wanted.items() <= labels.items(), resource.name


def test_what_pods_mount_is_there(recording: Recording) -> None:
    maps = {
        (body["metadata"]["namespace"], body["metadata"]["name"]): body.get("data", {})
        for _, body in inputs(recording, "ConfigMap")
    }
    for name, space, template in pods(recording):
        spec = template["spec"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        used = set()
        for container in [*spec["containers"], *spec.get("initContainers", ())]:
            for mount in container.get("volumeMounts", ()):
                assert mount["name"] in volumes, (name, mount)
                used.add(mount["name"])
        assert used == set(volumes), f"{name}: a volume that nothing mounts"
        for volume in volumes.values():
            sources = [volume, *(volume.get("projected") or {}).get("sources", ())]
            for source in (entry["configMap"] for entry in sources if "configMap" in entry):
                data = maps[(space, source["name"])]
                for item in source.get("items", ()):
                    assert item["key"] in data, (name, item)


def test_pods_run_as_accounts_and_priorities_that_there_are(recording: Recording) -> None:
    accounts = named(recording, "ServiceAccount")
    classes = {name for _, name in named(recording, "PriorityClass")} | GIVEN_CLASSES
    for name, space, template in pods(recording):
        spec = template["spec"]
        if (account := spec.get("serviceAccountName")) is not None:
            assert (space, account) in accounts, name
        assert spec.get("priorityClassName", "system-node-critical") in classes, name


def test_bindings_bind_accounts_and_roles_that_there_are(recording: Recording) -> None:
    accounts = named(recording, "ServiceAccount")
    wide = {name for _, name in named(recording, "ClusterRole")} | GIVEN_ROLES
    roles = named(recording, "Role")
    for resource, body in inputs(recording, "RoleBinding", "ClusterRoleBinding"):
        role, space = body["roleRef"], body["metadata"].get("namespace", "")
        assert role["apiGroup"] == "rbac.authorization.k8s.io", resource.name
        there = role["name"] in wide if role["kind"] == "ClusterRole" else None
        assert there or (space, role["name"]) in roles, resource.name
        for subject in body["subjects"]:
            if subject["kind"] == "ServiceAccount":
                at = (subject["namespace"], subject["name"])
                assert at in accounts or subject["name"] == "default", resource.name
            else:
                assert subject["kind"] in ("Group", "User"), resource.name
                assert subject["apiGroup"] == "rbac.authorization.k8s.io", resource.name


def test_who_has_rights_has_them_by_a_binding(recording: Recording) -> None:
    bound = {
        (body["roleRef"]["kind"], body["metadata"].get("namespace", ""), body["roleRef"]["name"])
        for _, body in inputs(recording, "RoleBinding", "ClusterRoleBinding")
    }
    for kind in ("Role", "ClusterRole"):
        for space, name in named(recording, kind):
            held = {(k, n) for k, s, n in bound if k == "ClusterRole" or s == space}
            assert (kind, name) in held, name


def test_services_lead_to_a_port_of_pods_that_there_are(recording: Recording) -> None:
    made = [(space, template) for _, space, template in pods(recording)]
    spaces = {space for space, _ in made}
    for resource, body in inputs(recording, "Service"):
        selector, space = body["spec"]["selector"], body["metadata"]["namespace"]
        if space not in spaces or resource.name.endswith("-trainer-metrics"):
            continue  # A release's own pods.
        behind = [
            template
            for other, template in made
            if other == space and selector.items() <= template["metadata"]["labels"].items()
        ]
        assert len(behind) == 1, resource.name
        ports = {
            port["containerPort"]
            for container in behind[0]["spec"]["containers"]
            for port in container.get("ports", ())
        }
        assert {port["targetPort"] for port in body["spec"]["ports"]} <= ports, resource.name


def test_namespaces_are_the_stacks_or_were_there(recording: Recording) -> None:
    spaces = {name for _, name in named(recording, "Namespace")}
    for resource in recording.resources.values():
        metadata = resource.inputs.get("metadata") or {}
        if isinstance(metadata, Mapping) and (space := metadata.get("namespace")):
            assert space in spaces | GIVEN_SPACES, resource.name


def test_probes_and_requests_are_ones_that_a_kubelet_takes(recording: Recording) -> None:
    for name, space, template in pods(recording):
        # Installers as a cloud ships them.
        for container in template["spec"]["containers"] if space not in GIVEN_SPACES else ():
            ports = {port["containerPort"] for port in container.get("ports", ())}
            for probe in ("readinessProbe", "livenessProbe"):
                asked = (container.get(probe) or {}).get("httpGet")
                assert asked is None or asked["port"] in ports, name
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}, name
            assert container["resources"]["limits"]["memory"], name
            assert container["imagePullPolicy"] == "IfNotPresent", name
            assert "/" in container["image"], name


def test_guard_limits_the_gates_accounts_on_nodes(recording: Recording) -> None:
    """The guard holds even where someone widens RBAC: deleting a node drops its jobs."""
    held = [
        body["spec"]
        for _, body in inputs(recording, "ValidatingAdmissionPolicy")
        if body["metadata"]["name"].startswith("railhead-gate-")
    ]
    roles = [
        body["rules"]
        for _, body in inputs(recording, "ClusterRole")
        if body["metadata"]["name"].startswith("railhead-gate")
    ]
    assert len(held) == len(roles)
    for spec in held:
        (rule,) = spec["matchConstraints"]["resourceRules"]
        assert {*rule["operations"]} == {"CREATE", "UPDATE", "DELETE"}
        assert {*rule["resources"]} == {"nodes", "nodes/*"}
        (account,) = spec["matchConditions"]
        assert account["expression"].startswith("request.userInfo.username == 'system:service")
        assert {validation["reason"] for validation in spec["validations"]} == {"Forbidden"}
    for rules in roles:
        (rule,) = rules
        assert rule["resources"] == ["nodes"]
        assert {"delete", "create", "update", "*"}.isdisjoint(rule["verbs"])
