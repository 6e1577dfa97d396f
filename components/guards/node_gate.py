"""The node gate: nodes prove their fabric, and jobs are placed on those that have.

A DaemonSet a pool runs `railhead.gate` on each of its nodes, which labels its own node. The pool's
ResourceFlavor demands the label (components/queueing/queues.py): Kueue and the scheduler use no
node that has not passed or no longer does. Nothing has to be taken away from a node that fails.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

import railhead
from railhead.gate.state import ANNOTATION, LABEL
from railhead.model.cluster import Cluster, Pool
from railhead.resolve.gate import GATE_IMAGE, expectation, gated

NAMESPACE = "railhead-gate"
ACCOUNT = "railhead-gate"
POLICY = "railhead-gate-own-node"
_PROGRAM = "/opt/railhead-gate"
_STATE = "/run/gate"
# Nobody: everything that is looked at may be read by all.
_NOBODY = 65534


@dataclass(frozen=True, kw_only=True)
class NodeGateArgs:
    """Arguments of :class:`NodeGate`."""

    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def program() -> dict[str, str]:
    """The gate's files and the one file that it needs of the rest: path -> text."""
    root = Path(railhead.__file__).parent
    paths = [root / "base" / "finding.py", *sorted((root / "gate").rglob("*.py"))]
    return {str(p.relative_to(root.parent)): p.read_text(encoding="utf-8") for p in paths}


def _key(path: str) -> str:
    """A file's key in a ConfigMap, which may have no slash."""
    return path.replace("/", ".")


def own_node_policy() -> dict[str, Any]:
    """The gate's account may write to the node it runs on, and of that only label and report.

    RBAC knows no such thing as one's own node. The token of a pod says which node it is on, and
    nobody can give another: the API server signs it.
    """
    node = "'authentication.kubernetes.io/node-name'"
    same = (
        "(has(object.metadata.{0}) ? object.metadata.{0} : {{}}).all(k, k == '{1}'"
        " || (has(oldObject.metadata.{0}) && k in oldObject.metadata.{0}"
        " && oldObject.metadata.{0}[k] == object.metadata.{0}[k]))"
        " && (has(oldObject.metadata.{0}) ? oldObject.metadata.{0} : {{}}).all(k, k == '{1}'"
        " || (has(object.metadata.{0}) && k in object.metadata.{0}))"
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["nodes", "nodes/*"],
                }
            ]
        },
        "matchConditions": [
            {
                "name": "the-gate",
                "expression": "request.userInfo.username =="
                f" 'system:serviceaccount:{NAMESPACE}:{ACCOUNT}'",
            }
        ],
        "validations": [
            {
                "expression": "request.operation == 'UPDATE'"
                " && (!has(request.subResource) || request.subResource == '')"
                f" && has(request.userInfo.extra) && {node} in request.userInfo.extra"
                f" && request.userInfo.extra[{node}] == [object.metadata.name]",
                "message": "a node gate writes to the node that its own pod runs on, and to no "
                "other: use a token of that pod",
                "reason": "Forbidden",
            },
            {
                "expression": "request.operation != 'UPDATE' || (object.spec == oldObject.spec"
                f" && {same.format('labels', LABEL)} && {same.format('annotations', ANNOTATION)})",
                "message": f"a node gate sets the label {LABEL} and the annotation {ANNOTATION}, "
                "and nothing else of a node",
                "reason": "Forbidden",
            },
        ],
    }


def daemon_set(cluster: Cluster, pool: Pool, digest: str) -> Any:
    """The spec of a pool's DaemonSet; ``digest`` of its files makes a changed one roll."""
    labels = {"app.kubernetes.io/name": "railhead-gate", "railhead.dev/gate": pool.name}
    asks_ports = expectation(cluster, pool).qos is not None
    module = ["python3", "-m", "railhead.gate", f"--state={_STATE}"]
    module.append(f"--period={cluster.gate.period_seconds}")
    container = {
        "name": "gate",
        "image": cluster.gate.image or GATE_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            *module,
            f"--expectation={_PROGRAM}/expectation.json",
            "--sys=/host/sys",
            "--dev=/host/dev",
        ],
        "env": [
            {"name": "PYTHONPATH", "value": _PROGRAM},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Ready is who has spoken, whatever was said: a failed node must not hold up the stack.
        "readinessProbe": {
            "exec": {"command": ["test", "-e", f"{_STATE}/spoken"]},
            "periodSeconds": 2,
        },
        "livenessProbe": {
            "exec": {"command": [*module, "--alive"]},
            "initialDelaySeconds": 60,
            "periodSeconds": 60,
            "timeoutSeconds": 20,
        },
        "volumeMounts": [
            {"name": "program", "mountPath": _PROGRAM, "readOnly": True},
            {"name": "sys", "mountPath": "/host/sys", "readOnly": True},
            {"name": "dev", "mountPath": "/host/dev", "readOnly": True},
            {"name": "state", "mountPath": _STATE},
        ],
    }
    spec: dict[str, Any] = {
        "serviceAccountName": ACCOUNT,
        "nodeSelector": dict(pool.node_selector),
        # It runs on nodes that nobody else may be on yet.
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 15,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [
            {"name": "program", "projected": {"sources": _sources(pool)}},
            {"name": "sys", "hostPath": {"path": "/sys", "type": "Directory"}},
            {"name": "dev", "hostPath": {"path": "/dev", "type": "Directory"}},
            {"name": "state", "emptyDir": {}},
        ],
    }
    if asks_ports:
        # A port answers in its own network namespace only. The gate listens on nothing there.
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {
            "metadata": {"labels": labels, "annotations": {"railhead.dev/digest": digest}},
            "spec": spec,
        },
    }


def _sources(pool: Pool) -> list[dict[str, Any]]:
    items = [{"key": _key(path), "path": path} for path in program()]
    expected = [{"key": "expectation.json", "path": "expectation.json"}]
    return [
        {"configMap": {"name": "program", "items": items}},
        {"configMap": {"name": _expectation_name(pool), "items": expected}},
    ]


def _expectation_name(pool: Pool) -> str:
    return f"expectation-{pool.name}"


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


class NodeGate(pulumi.ComponentResource):
    """Everything of the gate; make what places jobs depend on it."""

    def __init__(
        self, name: str, args: NodeGateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:NodeGate", name, None, opts)
        cluster = args.cluster
        if gated(cluster):
            self._inside(name, cluster, args.after)
        self.register_outputs({"pools": [p.name for p in cluster.pools] if gated(cluster) else []})

    def _inside(self, name: str, cluster: Cluster, after: Sequence[pulumi.Resource]) -> None:
        namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": NAMESPACE,
                "labels": {
                    "railhead.dev/managed": "true",
                    # It mounts /sys and /dev of its node, read-only; nothing below lets it.
                    "pod-security.kubernetes.io/enforce": "privileged",
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace], deleted_with=namespace)
        access = self._access(name, namespace, inside)
        files = program()
        maps = [
            kubernetes.core.v1.ConfigMap(
                f"{name}-program",
                metadata={"name": "program", "namespace": NAMESPACE},
                data={_key(path): text for path, text in files.items()},
                opts=inside,
            )
        ]
        for pool in cluster.pools:
            text = expectation(cluster, pool).to_json()
            mine = kubernetes.core.v1.ConfigMap(
                f"{name}-expectation-{pool.name}",
                metadata={"name": _expectation_name(pool), "namespace": NAMESPACE},
                data={"expectation.json": text},
                opts=inside,
            )
            kubernetes.apps.v1.DaemonSet(
                f"{name}-pool-{pool.name}",
                metadata={"name": f"gate-{pool.name}", "namespace": NAMESPACE},
                spec=daemon_set(cluster, pool, _digest(files | {"expectation.json": text})),
                # Not with the namespace: as it ends it takes the label off its node, and must still
                # be allowed to.
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*access, *maps, mine]),
            )

    def _access(
        self,
        name: str,
        namespace: kubernetes.core.v1.Namespace,
        inside: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """The account, what it may, and the policy that holds it to its own node."""
        spec: Any = own_node_policy()
        bind: Any = {"policyName": POLICY, "validationActions": ["Deny"]}
        policy = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
            f"{name}-own-node",
            metadata={"name": POLICY},
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[namespace]),
        )
        bound = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            f"{name}-own-node-binding",
            metadata={"name": POLICY},
            spec=bind,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        account = kubernetes.core.v1.ServiceAccount(
            f"{name}-account",
            metadata={"name": ACCOUNT, "namespace": NAMESPACE},
            opts=inside,
        )
        role = kubernetes.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata={"name": ACCOUNT},
            rules=[{"api_groups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[bound]),
        )
        binding = kubernetes.rbac.v1.ClusterRoleBinding(
            f"{name}-role-binding",
            metadata={"name": ACCOUNT},
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": ACCOUNT,
            },
            subjects=[{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role, account]),
        )
        return [bound, account, binding]
