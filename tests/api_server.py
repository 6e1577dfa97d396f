"""A real API server as a judge of objects: the control plane of a session, asked over HTTP."""

from __future__ import annotations

import functools
import itertools
import json
import secrets
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from railhead.base.names import DELETE_ANNOTATION
from railhead.base.paths import charts_dir
from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient, NoMatchError
from railhead.resolve.guards import Guard
from tests.engine.controlplane import ControlPlane, client_of, locate

CHARTS = ("kueue-0.16.2", "jobset-0.10.1", "kubeflow-trainer-2.1.0")
MANAGER = "kubectl"
# What one test's module leaves to the next.
STAY = ("Namespace", "CustomResourceDefinition")
# What the server reads by a watch, and so a moment after it was made or deleted.
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
ADMISSION = "admissionregistration.k8s.io/v1"


class Server:
    """A control plane: objects by its API, everything else by kubectl.

    As a context it takes away what was applied, but for namespaces and definitions: those are in
    nobody's way, and one in three times the server takes longer than half a minute to let a
    definition go, and refuses it meanwhile to the next test.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.kubectl = _found("kubectl")
        self.client = plane.client()
        self.applied: dict[str, Mapping[str, Any]] = {}
        self._sentinels = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        mine = [body for body in self.applied.values() if body["kind"] not in STAY]
        self.delete(mine)
        self.eventually_gone(mine)

    def run(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.kubectl), "--kubeconfig", str(self.plane.kubeconfig), *arguments],
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def path(self, body: Mapping[str, Any], *, collection: bool = False) -> str:
        """Return the URL path of an object."""
        metadata = body["metadata"]
        return self.client.resource_type(body["apiVersion"], body["kind"]).path(
            metadata.get("namespace", "default"), "" if collection else metadata["name"]
        )

    def be(self, user: str, *groups: str) -> KubeClient:
        """Return the client of a user: the administrator's in disguise."""
        config = yaml.safe_load(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] |= {"as": user, "as-groups": [*groups, "system:authenticated"]}
        return client_of(yaml.safe_dump(config))

    def account(self, namespace: str, name: str, *groups: str) -> KubeClient:
        """Return the client of a service account, which may be of more groups."""
        accounts = "system:serviceaccounts"
        return self.be(
            f"system:serviceaccount:{namespace}:{name}",
            accounts,
            f"{accounts}:{namespace}",
            *groups,
        )

    def controller(self, namespace: str, name: str) -> KubeClient:
        """Return the client of a controller, with every right: its own chart is not here."""
        return self.account(namespace, name, "system:masters")

    def apply(self, body: Mapping[str, Any]) -> None:
        """Apply an object as `kubectl apply --server-side --validate=strict` does.

        A namespace can take pods when this returns.
        """
        path = self.path(body)
        self.applied.setdefault(path, body)
        self.client.request(
            "PATCH",
            path,
            body=body,
            content_type="application/apply-patch+yaml",
            query={"fieldManager": MANAGER, "fieldValidation": "Strict"},
        )
        if body["kind"] == "Namespace":
            self._has_its_account(body["metadata"]["name"])

    def _has_its_account(self, namespace: str) -> None:
        """Wait for the account of its pods, made by serviceaccounts_controller.go."""
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        }
        deadline = time.monotonic() + 30
        while not self._found("GET", account):
            assert time.monotonic() < deadline, f"namespace {namespace} gets no default account"
            time.sleep(0.1)

    def verdict(self, body: Mapping[str, Any], by: KubeClient | None = None) -> str:
        """Empty when the server would make it, else why not; ``by`` is the administrator's."""
        try:
            (by or self.client).request(
                "POST",
                self.path(body, collection=True),
                body=body,
                query={"dryRun": "All", "fieldValidation": "Strict"},
            )
        except ApiError as error:
            return error.message
        return ""

    def eventually_refuses(self, body: Mapping[str, Any]) -> str:
        """Wait for a refusal: an admission policy takes effect a moment after it is created."""
        deadline = time.monotonic() + 30
        while not (verdict := self.verdict(body)):
            assert time.monotonic() < deadline, "the API server takes it"
            time.sleep(0.2)
        return verdict

    def guard(self, name: str, guard: Guard) -> None:
        """Apply a guard's policy and its bindings."""
        policy, binding = POLICIES
        self.apply(_named(policy, name, guard.policy))
        for called, spec in guard.bound(name).items():
            self.apply(_named(binding, called, spec))

    def define(self, bodies: Iterable[dict[str, Any]]) -> None:
        """Apply definitions of custom resources, and wait until they are served."""
        for body in bodies:
            self.apply(body)
        self.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        self.client.forget_discovery()

    def delete(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Delete objects, last one first; what is gone already is no mistake.

        A deleted policy judges no more when this returns.
        """
        bodies = list(bodies)
        for body in reversed(bodies):
            self._ask_in_words(body)
            self._let_go(body)
        if any(body["kind"] in POLICIES for body in bodies):
            self.policies_settled()

    def _let_go(self, body: Mapping[str, Any]) -> None:
        """Delete an object, once the server can ask for jobs (:mod:`railhead.resolve.ending`)."""
        deadline = time.monotonic() + 60
        while True:
            try:
                # No kubelet is there to say that a pod has ended.
                self._found("DELETE", body, gracePeriodSeconds="0")
            except ApiError as error:
                if "paramKind" not in error.message or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def policies_settled(self) -> None:
        """Wait until every policy made or deleted so far has taken effect or lost it.

        The server compiles all policies and bindings that its two watches have brought, at once,
        each second (its ``admission/plugin/policy/generic/policy_source.go``). A watch brings
        changes in their order, so a policy of our own that acts says that all before it do.
        """
        name = f"railhead-settled-{next(self._sentinels)}-{secrets.token_hex(4)}"
        policy, binding, probe = _sentinel(name)
        for body in (policy, binding):
            self.client.request("POST", self.path(body, collection=True), body=body)
        try:
            self.eventually_refuses(probe)
        finally:
            for body in (binding, policy):
                self._found("DELETE", body)

    def _ask_in_words(self, body: Mapping[str, Any]) -> None:
        """Annotate a checkpoint claim, which needs it before it can be deleted."""
        metadata = body["metadata"]
        if body["kind"] != "PersistentVolumeClaim" or not self._found("GET", body):
            return
        self.client.request(
            "PATCH",
            self.path(body),
            body={"metadata": {"annotations": {DELETE_ANNOTATION: metadata["name"]}}},
            content_type="application/merge-patch+json",
        )

    def eventually_gone(self, bodies: Iterable[Mapping[str, Any]], seconds: float = 30) -> None:
        """Wait until no finalizer holds any of them."""
        deadline = time.monotonic() + seconds
        for body in bodies:
            while self._found("GET", body):
                assert time.monotonic() < deadline, f"{self.path(body)} does not go"
                time.sleep(0.1)

    def _found(self, method: str, body: Mapping[str, Any], **query: str) -> bool:
        try:
            self.client.request(method, self.path(body), query=query)
        except NoMatchError:
            return False
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True


def _named(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _sentinel(name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a policy that refuses one ConfigMap by its name, its binding, and that ConfigMap."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"object.metadata.name != '{name}'"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    metadata = {"name": name, "namespace": "default"}
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return _named(POLICIES[0], name, policy), _named(POLICIES[1], name, binding), probe


def _found(name: str) -> Path:
    path = locate(name)
    if path is None:
        pytest.skip(f"not built here: {name}; run `railhead lab build`")
    return path


@functools.cache
def lab_definitions(charts: tuple[str, ...] = CHARTS) -> tuple[dict[str, Any], ...]:
    """Return the CRDs that the lab's own charts install, without their conversion webhooks."""
    if missing := [chart for chart in charts if not (charts_dir() / chart).is_dir()]:
        pytest.skip(f"not unpacked here: {', '.join(missing)}; run `railhead lab build`")
    return tuple(_definitions(_found("helm"), charts))


def _definitions(helm: Path, charts: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for chart in charts:
        directory = charts_dir() / chart
        texts = [p.read_text() for p in sorted((directory / "crds").glob("*.yaml"))]
        if not texts:
            texts = [
                subprocess.run(
                    [str(helm), "template", "x", str(directory)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            ]
        for document in yaml.load_all("\n---\n".join(texts), Loader=yaml.CSafeLoader):
            if document and document["kind"] == "CustomResourceDefinition":
                document["spec"].pop("conversion", None)
                yield document
