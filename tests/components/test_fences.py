"""Pod Security levels of each fabric, by the API server's own verdict; logins that stay secret."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest

from railhead import config
from railhead.base.errors import InputError
from railhead.model.cluster import Cluster
from railhead.model.pod_security import BASELINE_CAPABILITIES, beyond_baseline
from railhead.resolve.fences import fences, pod_security
from railhead.resolve.pod_guards import HARMLESS_CAPABILITIES, demand
from railhead.resolve.runtimes import runtimes
from tests.api_server import Server
from tests.components.fabrics import Case, every
from tests.components.fabrics import cluster as raw
from tests.components.recording import (
    Recording,
    fake_lab,
    lab_cluster,
    run_program,
)
from tests.components.recording import _whole_program as whole_program
from tests.engine.controlplane import ControlPlane

BASELINE = "level-baseline"


def parsed(case: Case) -> Cluster:
    # The level that follows, whatever the stack that the case is made of says.
    return config.parse(raw(case) | {"access": {}}, where="test")


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        server.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": BASELINE,
                    "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
                },
            }
        )
        yield server


@pytest.mark.controlplane
def test_a_level_is_the_strictest_that_the_runtimes_pods_pass(server: Server) -> None:
    """Above it pods would not start; below it the namespace would be open for nothing."""
    for case in every():
        cluster = parsed(case)
        level = pod_security(cluster)
        for runtime in runtimes(cluster):
            verdict = server.verdict(in_baseline(runtime.pod))
            if level.level == "baseline":
                assert verdict == "", case.id
            else:
                assert 'violates PodSecurity "baseline' in verdict, case.id
                assert level.beyond, case.id


def in_baseline(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod of a template, without its claims, in the namespace of the level."""
    spec = json.loads(json.dumps(template["spec"]))
    spec.pop("resourceClaims", None)
    for container in spec["containers"]:
        container.get("resources", {}).pop("claims", None)
    metadata = {"name": "rank", "namespace": BASELINE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_level_asks_of_a_fabric_what_the_guard_lets_through() -> None:
    for case in every():
        cluster = parsed(case)
        asked = demand(cluster)
        beyond = sorted(set(asked.capabilities) - BASELINE_CAPABILITIES)
        assert beyond_baseline(cluster.fabric) == (
            *(f"the capability {name}" for name in beyond),
            *(f"the host path {p}" for p in dict.fromkeys(p.path for p in asked.host_paths)),
            *(("the node's network",) if asked.host_network is not None else ()),
        ), case.id
    assert set(HARMLESS_CAPABILITIES) == BASELINE_CAPABILITIES | {"SYS_PTRACE"}


REFUSED = [
    ({"pod_security": "restricted"}, "access.pod_security: 'restricted' refuses the stack's own"),
    ({"pod_security": "none"}, "access.pod_security"),
    ({"leads": ["system:masters"]}, "access.leads[0]: 'system:masters' is Kubernetes' own"),
    ({"viewers": ["system:authenticated"]}, "access.viewers[0]"),
    ({"viewers": [" x"]}, "access.viewers[0]"),
    ({"exec": "everybody"}, "access.exec"),
    ({"objects": 0}, "access.objects"),
    ({"image_pull_secrets": [{"name": "Login"}]}, "access.image_pull_secrets[0].name"),
    ({"image_pull_secrets": [{"name": "a", "config": "a b"}]}, "image_pull_secrets[0].config"),
    ({"image_pull_secrets": [{"name": "a"}, {"name": "a"}]}, "access.image_pull_secrets[1]"),
    ({"image_pull_secrets": [{"name": "a", "password": "x"}]}, "image_pull_secrets[0].password"),
]


@pytest.mark.parametrize(("access", "words"), REFUSED, ids=[w for _, w in REFUSED])
def test_nonsense_is_refused_by_its_field(access: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        config.parse(lab_cluster() | {"access": access}, where="test")
    assert words in str(refused.value)


def test_pod_security_too_strict_for_the_fabric_is_refused() -> None:
    cluster = lab_cluster() | {"access": {"pod_security": "baseline"}}
    assert pod_security(config.parse(cluster, where="test")).level == "baseline"
    cluster["fabric"] = cluster["fabric"] | {"lock_memory": True}
    with pytest.raises(InputError, match="the fabric needs the capability IPC_LOCK"):
        config.parse(cluster, where="test")


def test_both_levels_are_in_use_and_the_version_does_not_move() -> None:
    levels = {case.id: pod_security(parsed(case)).level for case in every() if not _cloud(case)}
    assert set(levels.values()) == {"baseline", "privileged"}
    labels = fences(config.parse(lab_cluster(), where="test")).labels
    assert labels["pod-security.kubernetes.io/enforce-version"].startswith("v1.")


def _cloud(case: Case) -> bool:
    return case.platform in ("aws", "gcp")


def test_the_quota_never_stops_a_gang_halfway() -> None:
    """Kueue alone counts GPUs, CPU, memory and jobs; the quota counts other objects."""
    hard = fences(config.parse(lab_cluster(), where="test")).quota["hard"]
    assert set(hard) == {
        "count/configmaps",
        "count/secrets",
        "count/jobs.batch",
        "count/services",
        "pods",
        "services.loadbalancers",
        "services.nodeports",
    }
    assert int(hard["pods"]) >= 2 * 110


DOCKER = json.dumps({"auths": {"registry.example.com": {"auth": "aHVudGVyMjpodW50ZXIy"}}})
WITH_LOGIN = {"image_pull_secrets": [{"name": "login", "config": "registryLogin"}]}


def recorded(tmp_path: Path, *, secret: bool, value: str | None = DOCKER) -> Recording:
    fake_lab(tmp_path)

    def program() -> None:
        settings = {"railhead:cluster": json.dumps(lab_cluster() | {"access": WITH_LOGIN})}
        keys = []
        if value is not None:
            settings["railhead:registryLogin"] = value
            keys = ["railhead:registryLogin"] if secret else []
        pulumi.runtime.set_all_config(settings, keys)
        whole_program()

    return run_program(lab_cluster(), tmp_path, program=program)


def _plain(value: Any) -> str:
    """Return all that the engine gets in plain text; a secret is marked and goes encrypted."""
    if isinstance(value, dict):
        if "4dabf18193072939515e22adb298388d" in value:
            return ""
        return " ".join(_plain(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return " ".join(_plain(inner) for inner in value)
    if isinstance(value, pulumi.Output) or type(value).__name__ == "Secret":
        return ""
    return str(value)


def test_registry_login_is_registered_as_a_secret(tmp_path: Path) -> None:
    recording = recorded(tmp_path, secret=True)
    secret = recording.one("Secret", "login")
    assert secret.inputs["type"] == "kubernetes.io/dockerconfigjson"
    everything = [(r.name, _plain(dict(r.inputs))) for r in recording.resources.values()]
    everything += [(urn, _plain(outputs)) for urn, outputs in recording.outputs.items()]
    assert not [name for name, text in everything if "aHVudGVyMjpodW50ZXIy" in text]
    (patch,) = [r for r in recording.resources.values() if r.type.endswith("ServiceAccountPatch")]
    assert patch.inputs["imagePullSecrets"] == [{"name": "login"}]
    assert patch.inputs["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("secret", "value", "words"),
    [(False, DOCKER, "in plain text"), (True, None, "railhead:registryLogin is missing")],
)
def test_invalid_registry_login_is_refused(
    tmp_path: Path, secret: bool, value: str | None, words: str
) -> None:
    with pytest.raises(pulumi.RunError, match=words) as refused:
        recorded(tmp_path, secret=secret, value=value)
    assert "aHVudGVyMjpodW50ZXIy" not in str(refused.value)


def test_existing_registry_secret_is_named_and_not_created(tmp_path: Path) -> None:
    fake_lab(tmp_path)
    access = {"image_pull_secrets": [{"name": "theirs"}]}
    recording = run_program(lab_cluster() | {"access": access}, tmp_path)
    assert not recording.kind("Secret")
