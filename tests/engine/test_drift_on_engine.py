"""Drift on a real API server: made by the real engine, changed by hand, found, put back."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import drift
from railhead.drift import Drift, Severity
from railhead.kube import client as kube
from railhead.lab.pki import Authority
from tests.engine.conftest import Stack

pytestmark = pytest.mark.controlplane

PROGRAM = """
taking_back = k8s.Provider(
    "taking-back", kubeconfig=os.environ["TEST_KUBECONFIG"], cluster_identifier="test",
    enable_patch_force=FORCE,
)
def mine(*after):
    return ResourceOptions(provider=taking_back, depends_on=list(after))

ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=mine())
meta = lambda name: {"name": name, "namespace": NS}
k8s.core.v1.ConfigMap(
    "settings", metadata=meta("settings"), data={"a": "1", "b": "2"}, opts=mine(ns)
)
k8s.core.v1.ResourceQuota(
    "quota", metadata=meta("quota"), spec={"hard": {"cpu": "2000m", "memory": "1Gi"}}, opts=mine(ns)
)
k8s.rbac.v1.Role(
    "reader", metadata=meta("reader"),
    rules=[{"api_groups": [""], "resources": ["pods"], "verbs": ["get"]}], opts=mine(ns),
)
k8s.rbac.v1.RoleBinding(
    "bound", metadata=meta("bound"),
    role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    subjects=[{"kind": "Group", "name": NS + "-people", "api_group": "rbac.authorization.k8s.io"}],
    opts=mine(ns),
)
policy = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
    "guard", metadata={"name": NS},
    spec={
        "failure_policy": "Fail",
        "match_constraints": {"resource_rules": [{
            "api_groups": ["batch"], "api_versions": ["v1"], "operations": ["CREATE"],
            "resources": ["jobs"],
        }]},
        "validations": [{"expression": "false", "message": "no"}],
    },
    opts=mine(ns),
)
k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
    "guard-binding", metadata={"name": NS},
    spec={
        "policy_name": NS, "validation_actions": ["Deny"],
        "match_resources": {"namespace_selector": {"match_labels": {"none": NS}}},
    },
    opts=mine(policy),
)
"""
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CORE = "/api/v1/namespaces/NS"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/NS"
NETWORK = "/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies"
BINDING = f"{ADMISSION}/validatingadmissionpolicybindings/NS"


#: More kinds of a stack's, for a program that makes them after those above.
MORE = """
labels = {"app": NS}
k8s.apps.v1.DaemonSet(
    "gate", metadata=meta("gate"),
    spec={
        "selector": {"match_labels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "node_selector": {"gpu": "true"},
                "containers": [{
                    "name": "gate", "image": "gate:1", "env": [{"name": "A", "value": "1"}],
                    "volume_mounts": [{"name": "run", "mount_path": "/run"}],
                }],
                "volumes": [{"name": "run", "empty_dir": {}}],
            },
        },
    },
    opts=ResourceOptions.merge(mine(ns), ResourceOptions(custom_timeouts={"create": "1s"})),
)
k8s.networking.v1.NetworkPolicy(
    "closed", metadata=meta("closed"),
    spec={"pod_selector": {}, "policy_types": ["Ingress", "Egress"]}, opts=mine(ns),
)
k8s.scheduling.v1.PriorityClass("high", metadata={"name": NS}, value=7, opts=mine(ns))
k8s.storage.v1.StorageClass(
    "kept", metadata={"name": NS}, provisioner="example.com/x", reclaim_policy="Retain",
    opts=mine(ns),
)
k8s.core.v1.ConfigMap(
    "held", metadata=meta("held") | {"labels": {"kept": "1"}}, data={"a": "1"}, opts=mine(ns)
)
"""


def found(stack: Stack, **more: Any) -> list[Drift]:
    state = json.loads(stack.run("stack", "export").ok().text)
    state["deployment"]["resources"] += more.get("resources", [])
    kubeconfig = stack.environment["TEST_KUBECONFIG"]
    target = kube.Target(kubeconfig=Path(kubeconfig), context=None, why="the test")
    rows = drift.find(state, kube.Cluster(target))
    # Other tests leave guards of theirs in the same cluster.
    return [row for row in rows if row.severity < Severity.ADDED or stack.namespace in row.subject]


def delete(stack: Stack, path: str) -> None:
    stack.kube.request("DELETE", path.replace("NS", stack.namespace))


def post(stack: Stack, path: str, body: dict[str, Any]) -> None:
    stack.kube.request("POST", path.replace("NS", stack.namespace), body=body)


def edit(stack: Stack) -> None:
    """Change a value, a rule, a guard and an object by hand."""
    stack.patch(f"{CORE}/configmaps/settings", {"data": {"a": "other"}})
    more = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}
    role = stack.get(f"{RBAC}/roles/reader")
    assert role is not None
    stack.patch(f"{RBAC}/roles/reader", {"rules": [*role["rules"], more]})
    delete(stack, BINDING)
    delete(stack, f"{RBAC}/rolebindings/bound")


def test_drift_is_found_the_worst_first_and_refresh_puts_it_back(stack: Stack) -> None:
    stack.program(f"FORCE = True\n{PROGRAM}")
    stack.up().ok()
    # Defaults, quantities in another form and what controllers write are no drift.
    stack.patch(f"{CORE}/resourcequotas/quota", {"spec": {"hard": {"cpu": "2"}}})
    assert found(stack) == []
    edit(stack)
    post(
        stack,
        f"{RBAC}/rolebindings",
        {
            "metadata": {"name": "by-hand"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [{"kind": "User", "name": "me", "apiGroup": "rbac.authorization.k8s.io"}],
        },
    )
    rows = found(stack)
    ns = stack.namespace
    assert [(r.severity, r.subject, r.field) for r in rows] == [
        (Severity.GUARD, f"ValidatingAdmissionPolicyBinding {ns}", ""),
        (Severity.GONE, f"RoleBinding {ns}/bound", ""),
        (Severity.CHANGED, f"ConfigMap {ns}/settings", "data.a"),
        (Severity.CHANGED, f"Role {ns}/reader", "rules"),
        (Severity.ADDED, f"RoleBinding {ns}/by-hand", ""),
    ]
    assert (rows[2].stack, rows[2].live) == ("1", "other")
    assert "no update removes it" in rows[4].remedy
    stack.up().ok()
    assert len(found(stack)) == 5, "an update without --refresh believes its state"
    stack.up("--refresh").ok()
    assert [r.subject for r in found(stack)] == [f"RoleBinding {ns}/by-hand"]


def by_hand(stack: Stack) -> None:
    """Add two objects of several kinds, of which only the first concerns the stack."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    ns = stack.namespace
    for name, group in (("ours", f"{ns}-people"), ("theirs", f"{ns}-others")):
        who = {"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}
        body = {"metadata": {"name": f"{ns}-{name}"}, "roleRef": role, "subjects": [who]}
        post(stack, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)
    for name, where in (("here", ns), ("elsewhere", "kube-system")):
        policy = {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["example.com"],
                        "apiVersions": ["*"],
                        "operations": ["CREATE"],
                        "resources": ["*"],
                    }
                ]
            },
            "validations": [{"expression": "true"}],
        }
        only = {"matchLabels": {"kubernetes.io/metadata.name": where}}
        bound = {
            "policyName": f"{ns}-{name}",
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": only},
        }
        metadata = {"name": f"{ns}-{name}"}
        post(
            stack,
            f"{ADMISSION}/validatingadmissionpolicies",
            {"metadata": metadata, "spec": policy},
        )
        post(
            stack,
            f"{ADMISSION}/validatingadmissionpolicybindings",
            {"metadata": metadata, "spec": bound},
        )
    post(
        stack,
        f"{ADMISSION}/validatingadmissionpolicybindings",
        {
            "metadata": {"name": f"{ns}-second"},
            "spec": {"policyName": ns, "validationActions": ["Audit"]},
        },
    )
    post(stack, f"{CORE}/limitranges", {"metadata": {"name": "small"}, "spec": {"limits": []}})
    for labels in ({}, {"app.kubernetes.io/managed-by": "someone"}):
        quota = {"metadata": {"name": f"more-{len(labels)}", "labels": labels}, "spec": {}}
        post(stack, f"{CORE}/resourcequotas", quota)
    # What anybody makes.
    post(stack, f"{CORE}/configmaps", {"metadata": {"name": "notes"}, "data": {"a": "b"}})


def test_objects_added_beside_the_stack_are_reported(stack: Stack) -> None:
    stack.program(f"FORCE = True\n{PROGRAM}")
    stack.up().ok()
    by_hand(stack)
    ns = stack.namespace
    rows = found(stack)
    assert {row.severity for row in rows} == {Severity.ADDED}
    assert sorted(row.subject for row in rows) == [
        f"ClusterRoleBinding {ns}-ours",
        f"LimitRange {ns}/small",
        f"ResourceQuota {ns}/more-0",
        f"ValidatingAdmissionPolicy {ns}-here",
        f"ValidatingAdmissionPolicyBinding {ns}-here",
        f"ValidatingAdmissionPolicyBinding {ns}-second",
    ]


@pytest.mark.exhaustive
def test_guard_with_another_scope_is_the_worst_drift(stack: Stack) -> None:
    stack.program(f"FORCE = True\n{PROGRAM}")
    stack.up().ok()
    assert found(stack) == []
    never = [{"name": "never", "expression": "false"}]
    policy = f"{ADMISSION}/validatingadmissionpolicies/NS"
    stack.patch(policy, {"spec": {"matchConditions": never}})
    few = {"objectSelector": {"matchLabels": {"watched": "true"}}}
    stack.patch(BINDING, {"spec": {"matchResources": few}})
    rows = found(stack)
    assert [(row.severity, row.subject.split()[0], row.field, row.stack) for row in rows] == [
        (Severity.GUARD, "ValidatingAdmissionPolicy", "spec.matchConditions", ""),
        (
            Severity.GUARD,
            "ValidatingAdmissionPolicyBinding",
            "spec.matchResources.objectSelector",
            "",
        ),
    ]
    assert f"kubectl edit validatingadmissionpolicy {stack.namespace}" in rows[0].remedy


@pytest.mark.exhaustive
def test_without_force_the_server_refuses_to_take_a_field_back(stack: Stack) -> None:
    """The stack's provider sets `enable_patch_force` for this reason."""
    stack.program(f"FORCE = False\n{PROGRAM}")
    stack.up().ok()
    edit(stack)
    failed = stack.up("--refresh")
    assert failed.status != 0
    assert "conflict" in failed.text
    stack.program(f"FORCE = True\n{PROGRAM}")
    stack.up("--refresh").ok()
    assert found(stack) == []


def test_guard_that_only_audits_is_the_worst_drift(stack: Stack) -> None:
    stack.program(f"FORCE = True\n{PROGRAM}")
    stack.up().ok()
    stack.patch(BINDING, {"spec": {"validationActions": ["Audit"]}})
    (row,) = found(stack)
    assert (row.severity, row.field) == (Severity.GUARD, "spec.validationActions")
    assert (row.stack, row.live) == ("['Deny']", "['Audit']")
    stack.up("--refresh").ok()
    # Deny is back. The list is a set: another value that someone added stays theirs.
    (row,) = found(stack)
    assert (row.stack, row.live) == ("", "['Audit']")
    assert "another client added it" in row.remedy


# As Helm keeps it: what has no namespace is in the release's.
CHART = """
apiVersion: v1
kind: ConfigMap
metadata: {name: manager-config, creationTimestamp: null}
data: {config: waits for pods}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NS-webhooks, namespace: NS}
webhooks:
  - name: jobs.example.com
    clientConfig: {service: {name: webhooks, namespace: NS, path: /x}}
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
    rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [jobs]}]
---
apiVersion: v1
kind: Secret
metadata: {name: certificate}
data: {key: b2xk}
"""
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def record(stack: Stack, manifest: str) -> None:
    """Helm's record of a release, and what it made."""
    manifest = manifest.replace("NS", stack.namespace)
    settings, webhooks, secret = yaml.safe_load_all(manifest)
    post(stack, f"{CORE}/configmaps", settings)
    webhooks["metadata"].pop("namespace")
    authority = Authority(stack.folder, "ca").pair.certificate.read_bytes()
    webhooks["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
    post(stack, WEBHOOKS, webhooks)
    post(stack, f"{CORE}/secrets", secret | {"data": {"key": "bmV3"}})
    packed = base64.b64encode(gzip.compress(json.dumps({"manifest": manifest}).encode()))
    labels = {"owner": "helm", "name": "kueue", "status": "deployed", "version": "3"}
    post(
        stack,
        f"{CORE}/secrets",
        {
            "metadata": {"name": "sh.helm.release.v1.kueue.v1", "labels": labels},
            "data": {"release": base64.b64encode(packed).decode()},
        },
    )


@pytest.mark.exhaustive
def test_a_release_s_controller_scaled_to_zero_is_found(stack: Stack) -> None:
    stack.program(f"FORCE = True\n{PROGRAM}")
    stack.up().ok()
    ns = stack.namespace
    labels = {"app": "controller"}
    post(
        stack,
        "/apis/apps/v1/namespaces/NS/deployments",
        {
            "metadata": {
                "name": "controller",
                "annotations": {"meta.helm.sh/release-name": "kueue"},
            },
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "x"}]},
                },
            },
        },
    )
    release = {
        "custom": True,
        "type": "kubernetes:helm.sh/v3:Release",
        "inputs": {"name": "kueue", "namespace": ns},
    }
    (gone,) = found(stack, resources=[release])
    assert gone.subject == f"Release {ns}/kueue"
    record(stack, CHART)
    assert found(stack, resources=[release]) == []
    stack.patch("/apis/apps/v1/namespaces/NS/deployments/controller", {"spec": {"replicas": 0}})
    (row,) = found(stack, resources=[release])
    assert (row.severity, row.subject) == (Severity.GUARD, f"Deployment {ns}/controller")
    assert "scale deployment controller" in row.remedy
    stack.patch("/apis/apps/v1/namespaces/NS/deployments/controller", {"spec": {"replicas": 1}})
    stack.patch(f"{CORE}/configmaps/manager-config", {"data": {"config": "waits for nothing"}})
    open_ = stack.get(f"{WEBHOOKS}/NS-webhooks")
    assert open_ is not None
    open_["webhooks"][0]["failurePolicy"] = "Ignore"
    stack.patch(f"{WEBHOOKS}/NS-webhooks", {"webhooks": open_["webhooks"]})
    fails, settings = found(stack, resources=[release])
    assert (fails.severity, fails.field) == (Severity.GUARD, "webhooks[0].failurePolicy")
    assert (fails.stack, fails.live) == ("Fail", "Ignore")
    assert (settings.severity, settings.field) == (Severity.CHANGED, "data.config")
    assert f"helm -n {ns} rollback kueue 3" in settings.remedy
    # What the stack itself patches of it is the stack's to say.
    patched = {
        "custom": True,
        "type": "kubernetes:core/v1:ConfigMapPatch",
        "inputs": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "manager-config", "namespace": ns},
            "data": {"config": "waits for nothing"},
        },
    }
    assert found(stack, resources=[release, patched]) == [fails]
    del open_["webhooks"][0]["clientConfig"]["caBundle"]
    stack.patch(f"{WEBHOOKS}/NS-webhooks", {"webhooks": open_["webhooks"]})
    untrusted = found(stack, resources=[release, patched])[0]
    assert (untrusted.field, untrusted.live) == ("webhooks[0].clientConfig.caBundle", "none")
    # Such an end of a test, that no other test's requests wait for it.
    delete(stack, f"{WEBHOOKS}/NS-webhooks")


def kubectl_replaces(stack: Stack, path: str, **fields: Any) -> None:
    """Delete an object that cannot be changed and create another, as kubectl replace does."""
    live = stack.get(path)
    assert live is not None
    delete(stack, path)
    metadata = {key: live["metadata"][key] for key in ("name", "labels") if key in live["metadata"]}
    post(stack, path.rpartition("/")[0], {**live, "metadata": metadata, **fields})


def test_each_difference_is_reported_with_its_remedy(stack: Stack) -> None:
    stack.program(f"FORCE = True\n{PROGRAM}\n{MORE}")
    stack.up().ok()
    assert found(stack) == []
    gate, closed = "/apis/apps/v1/namespaces/NS/daemonsets/gate", f"{NETWORK}/closed"
    stack.patch(
        gate,
        {
            "spec": {
                "template": {
                    "spec": {
                        "nodeSelector": {"never": "true"},
                        "containers": [
                            {
                                "name": "gate",
                                "image": "gate:1",
                                "env": [{"name": "A", "value": "1.0"}, {"name": "B", "value": "2"}],
                                "volumeMounts": [{"name": "run", "mountPath": "/run"}],
                            }
                        ],
                        "volumes": [{"name": "run", "hostPath": {"path": "/run"}}],
                    }
                }
            }
        },
    )
    stack.patch(closed, {"spec": {"ingress": [{}]}})
    stack.patch(f"{CORE}/resourcequotas/quota", {"spec": {"hard": {"pods": "0"}}})
    stack.patch(f"{CORE}/configmaps/settings", {"data": {"a": "1.0"}})
    kubectl_replaces(stack, "/apis/scheduling.k8s.io/v1/priorityclasses/NS", value=8)
    kubectl_replaces(stack, "/apis/storage.k8s.io/v1/storageclasses/NS", reclaimPolicy="Delete")
    stack.patch(f"{CORE}/configmaps/held", {"metadata": {"finalizers": ["example.com/mine"]}})
    delete(stack, f"{CORE}/configmaps/held")

    ns, container = stack.namespace, "spec.template.spec.containers[0]"
    volume = "spec.template.spec.volumes[0]"
    rows = found(stack)
    reported = {(r.severity.name, r.subject, r.field): r.remedy for r in rows}
    assert len(reported) == len(rows)
    again, edit, recreate = "puts it back", "no update takes it out: kubectl edit", "kubectl delete"
    ways = {
        ("GONE", f"ConfigMap {ns}/held", "metadata.deletionTimestamp"): "then `pulumi up --refresh",
        ("CHANGED", f"ConfigMap {ns}/settings", "data.a"): again,
        ("CHANGED", f"DaemonSet {ns}/gate", f"{container}.env[0].value"): again,
        ("ADDED", f"DaemonSet {ns}/gate", f"{container}.env"): "unless another client added it",
        ("CHANGED", f"DaemonSet {ns}/gate", f"{volume}.emptyDir"): "kubectl delete",
        ("ADDED", f"DaemonSet {ns}/gate", f"{volume}.hostPath"): edit,
        ("ADDED", f"DaemonSet {ns}/gate", "spec.template.spec.nodeSelector"): edit,
        ("ADDED", f"NetworkPolicy {ns}/closed", "spec.ingress"): edit,
        ("ADDED", f"ResourceQuota {ns}/quota", "spec.hard"): edit,
        ("CHANGED", f"PriorityClass {ns}", "value"): recreate,
        ("CHANGED", f"StorageClass {ns}", "reclaimPolicy"): recreate,
    }
    assert set(reported) == set(ways)
    for row, way in ways.items():
        assert way in reported[row], row

    # Each remedy works.
    stack.patch(f"{CORE}/configmaps/held", {"metadata": {"finalizers": None}})
    delete(stack, "/apis/scheduling.k8s.io/v1/priorityclasses/NS")
    delete(stack, "/apis/storage.k8s.io/v1/storageclasses/NS")
    delete(stack, gate)
    stack.patch(closed, {"spec": {"ingress": None}})
    stack.patch(f"{CORE}/resourcequotas/quota", {"spec": {"hard": {"pods": None}}})
    stack.up("--refresh").ok()
    assert [(r.field, r.live) for r in found(stack)] == []
