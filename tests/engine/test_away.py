"""The API server, its etcd or a webhook away in the middle of `up`: it waits, and says for what."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from railhead.kube.errors import ApiError, NoAnswerError
from railhead.lab.engine.provider.client import KubeClient
from tests.engine.conftest import Stack
from tests.engine.controlplane import ControlPlane, locate

pytestmark = pytest.mark.controlplane

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
# Each waits for the one before it, so that there is always something left to do.
CHAIN = """
    v = config.get("v") or "1"
    previous = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
    wait = {"pulumi.com/waitFor": "jsonpath={.metadata.labels.ready}=yes"}
    if config.get_bool("waited"):
        k8s.core.v1.ConfigMap(
            "waited", metadata={"name": "waited", "namespace": NS, "annotations": wait},
            opts=opts(depends_on=[previous]),
        )
    for number in range(20):
        previous = k8s.core.v1.ConfigMap(
            f"c{number}", metadata={"namespace": NS, "labels": {"v": v}},
            opts=opts(depends_on=[previous]LIMIT),
        )
"""


@pytest.fixture
def control_plane(own_plane: ControlPlane) -> ControlPlane:
    """One that no other module uses."""
    return own_plane


@pytest.fixture
def kube(own_plane: ControlPlane) -> KubeClient:
    """Return its administrator's client."""
    return own_plane.client()


def chain(stack: Stack, limit_s: int = 0) -> None:
    """Take the program; ``limit_s`` is each object's own timeout."""
    times = f'"{limit_s}s"'
    limit = f", custom_timeouts=pulumi.CustomTimeouts(create={times}, update={times})"
    stack.program(CHAIN.replace("LIMIT", limit if limit_s else ""))


def made(stack: Stack, v: str = "1") -> int:
    """Return how many of the chain's objects are as the program wants them."""
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps"
    items = stack.kube.request("GET", path, query={"labelSelector": f"v={v}"}).body["items"]
    return len(items)


def log(stack: Stack) -> str:
    """Return the lines of the `up` in the background so far."""
    return (stack.folder / "up.log").read_text()


def waits(stack: Stack, process: subprocess.Popen[bytes], told: str) -> None:
    """Wait until the `up` has said for what it waits; ``told`` is a pattern."""
    pattern = re.compile(f"waiting for the API server, 180 s at most: .*({told})")
    stack.wait_for(lambda: pattern.search(log(stack)) or process.poll() is not None, 90)
    assert process.poll() is None, log(stack)


def ends_well(stack: Stack, process: subprocess.Popen[bytes], v: str = "1") -> None:
    """Wait for the end of the `up`, after which nothing is left to do."""
    stack.wait_for(lambda: process.poll() is not None, 120)
    assert process.returncode == 0, log(stack)
    assert made(stack, v) == 20
    stack.up("--expect-no-changes").ok()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("kube-apiserver", "cannot reach the API server"),
        # At once where a request was under way to it, else after half a minute of silence.
        pytest.param(
            "etcd",
            "code = Unavailable|request did not complete",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_up_waits_for_the_control_plane(
    stack: Stack, own_plane: ControlPlane, program: str, told: str
) -> None:
    chain(stack)
    stack.set("waited", "true")
    process = stack.start_up()
    stack.wait_for(lambda: made(stack) >= 3, 60)
    again = own_plane.kill(program)
    waits(stack, process, told)
    again()
    stack.wait_for(lambda: ready(own_plane), 60)
    stack.patch(
        "/api/v1/namespaces/NS/configmaps/waited", {"metadata": {"labels": {"ready": "yes"}}}
    )
    ends_well(stack, process)


def test_up_ends_within_its_limit_and_the_next_converges(
    stack: Stack, own_plane: ControlPlane
) -> None:
    chain(stack, limit_s=3)
    process = stack.start_up()
    stack.wait_for(lambda: made(stack) >= 3, 60)
    again = own_plane.kill("kube-apiserver")
    stack.wait_for(lambda: process.poll() is not None, 60)
    assert process.returncode != 0
    assert "waited 3 s for the API server: cannot reach the API server" in log(stack)
    assert "run the command again when that is over" in log(stack)
    again()
    stack.wait_for(lambda: ready(own_plane), 60)
    ends_well(stack, stack.start_up())


def ready(plane: ControlPlane) -> Any:
    """Return the API server's word on itself; None while it has none."""
    try:
        return plane.client().request("GET", "/readyz", attempts=1)
    except (ApiError, NoAnswerError):
        return None


def webhook(namespace: str) -> dict[str, Any]:
    """Return the configuration of a webhook of the namespace's ConfigMaps whom nobody serves."""
    name = f"{namespace}.example.com"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": name,
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["configmaps"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def test_up_waits_for_a_webhook(stack: Stack) -> None:
    """Objects are created and changed while the controller that judges them starts again."""
    chain(stack)
    name = f"{stack.namespace}.example.com"
    for v in ("1", "2"):
        stack.set("v", v)
        process = stack.start_up()
        if v == "1":
            stack.wait_for(lambda: made(stack) >= 3, 60)
        stack.kube.request("POST", WEBHOOKS, body=webhook(stack.namespace))
        waits(stack, process, f'failed calling webhook "{name}"')
        stack.kube.request("DELETE", f"{WEBHOOKS}/{name}")
        ends_well(stack, process, v)


@pytest.mark.exhaustive
def test_a_release_waits_for_a_webhook(stack: Stack) -> None:
    """Helm fails at once and leaves a failed revision, from which the same `up` goes on."""
    if locate("helm") is None:
        pytest.skip("no helm: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    chart = stack.folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    (chart / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart, labels: {v: '1'}}\n"
    )
    stack.program(
        """
        space = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        k8s.helm.v3.Release(
            "small", chart="./chart", name="small", namespace=NS, opts=opts(depends_on=[space])
        )
        """
    )
    name = f"{stack.namespace}.example.com"
    stack.kube.request("POST", WEBHOOKS, body=webhook(stack.namespace))
    process = stack.start_up()
    waits(stack, process, f'failed calling webhook "{name}"')
    stack.kube.request("DELETE", f"{WEBHOOKS}/{name}")
    stack.wait_for(lambda: process.poll() is not None, 120)
    assert process.returncode == 0, log(stack)
    assert made(stack) == 1
    stack.up("--expect-no-changes").ok()
