"""The node gate: nodes prove their fabric, and jobs are placed on those that have.

A DaemonSet a pool runs `railhead.gate` on each of its nodes, which labels its own node. The pool's
ResourceFlavor demands the label (components/queueing/queues.py): Kueue and the scheduler use no
node that has not passed or no longer does. Nothing has to be taken away from a node that fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components import program as shipped
from railhead.gate.expectation import Expectation
from railhead.gate.node import RESULTS
from railhead.gate.state import ANNOTATION, LABEL
from railhead.resolve.gate import GATE_IMAGE

NAMESPACE = "railhead-gate"
ACCOUNT = "railhead-gate"
POLICY = f"{ACCOUNT}-own-node"
# Withdraws the label of nodes that no gate looks at any more; also its account and its policy.
KEEPER = "railhead-gate-keeper"
# A gate must not go before what it watches over: the highest that is not the system's own.
PRIORITY_CLASS = "railhead-gate"
PRIORITY = 1_000_000_000
_NAME = "app.kubernetes.io/name"
# Where GKE keeps the driver's libraries and NCCL plugins on its nodes.
PLUGINS = "/home/kubernetes/bin"
_PROGRAM = "/opt/railhead-gate"
_STATE = "/run/gate"


@dataclass(frozen=True, kw_only=True)
class GatedPool:
    """A pool whose nodes must prove themselves.

    Args:
        name: the pool's name, which its DaemonSet is called after.
        node_selector: labels that each of the pool's nodes has, and no other node.
        expectation: what each node must prove (:mod:`railhead.resolve.gate` derives it from the
            machine and the fabric).
    """

    name: str
    node_selector: Mapping[str, str]
    expectation: Expectation


@dataclass(frozen=True, kw_only=True)
class NodeGateArgs:
    """Arguments of :class:`NodeGate`.

    Args:
        pools: the pools whose nodes are gated; without any, nothing is made.
        image: an image with Python 3.10 or newer, which runs the gate's program.
        period_seconds: time between two looks at a node, 1 to 3600.
        tolerations: Kubernetes tolerations of the keeper, which runs on one node of any kind. The
            gate itself tolerates everything.
        wait_for_nodes: whether `pulumi up` waits until the gate has spoken on every node; one dead
            node then holds it up.
        after: resources that must exist before the gate, such as device plugins.
    """

    pools: Sequence[GatedPool]
    image: str = GATE_IMAGE
    period_seconds: int = 30
    tolerations: Sequence[Mapping[str, Any]] = ()
    wait_for_nodes: bool = False
    after: Sequence[pulumi.Resource] = ()


def program() -> dict[str, str]:
    """Return the gate's files and the one file that it needs of the rest: path -> text."""
    root = shipped.ROOT
    return shipped.files([root / "base" / "finding.py", *sorted((root / "gate").rglob("*.py"))])


def _unchanged(field: str, but: str) -> str:
    """Return the CEL condition that one key alone of a node's labels or annotations changes."""
    new, old = f"object.metadata.{field}", f"oldObject.metadata.{field}"
    return (
        f"(has({new}) ? {new} : {{}}).all(k, k == '{but}'"
        f" || (has({old}) && k in {old} && {old}[k] == {new}[k]))"
        f" && (has({old}) ? {old} : {{}}).all(k, k == '{but}' || (has({new}) && k in {new}))"
    )


def _label_and_report() -> str:
    """Return the CEL condition that only the gate's label and report of a node change."""
    return (
        f"object.spec == oldObject.spec && {_unchanged('labels', LABEL)}"
        f" && {_unchanged('annotations', ANNOTATION)}"
    )


def _policy_of(account: str, validations: list[dict[str, str]]) -> dict[str, Any]:
    """Return the policy that limits what an account of the gate's namespace writes to nodes."""
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
                f" 'system:serviceaccount:{NAMESPACE}:{account}'",
            }
        ],
        "validations": [{**validation, "reason": "Forbidden"} for validation in validations],
    }


_UPDATE = (
    "request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '')"
)


def keeper_policy() -> dict[str, Any]:
    """Return the policy of the keeper's account: it removes nodes' label, and writes why."""
    return _policy_of(
        KEEPER,
        [
            {
                "expression": f"{_UPDATE} && {_label_and_report()}"
                f" && !(has(object.metadata.labels) && '{LABEL}' in object.metadata.labels)",
                "message": f"the gate's keeper takes the label {LABEL} away, writes the annotation "
                f"{ANNOTATION}, and changes nothing else of a node",
            }
        ],
    )


def own_node_policy() -> dict[str, Any]:
    """Return the policy of the gate's account: it writes its own node's label and report.

    RBAC knows no such thing as one's own node. The token of a pod says which node it is on, and
    nobody can give another: the API server signs it.
    """
    node = "'authentication.kubernetes.io/node-name'"
    return _policy_of(
        ACCOUNT,
        [
            {
                "expression": f"{_UPDATE} && has(request.userInfo.extra)"
                f" && {node} in request.userInfo.extra"
                f" && request.userInfo.extra[{node}] == [object.metadata.name]",
                "message": "a node gate writes to the node that its own pod runs on, and to no "
                "other: use a token of that pod",
            },
            {
                "expression": f"request.operation != 'UPDATE' || ({_label_and_report()})",
                "message": f"a node gate sets the label {LABEL} and the annotation {ANNOTATION}, "
                "and nothing else of a node",
            },
        ],
    )


def daemon_set(args: NodeGateArgs, pool: GatedPool, digest: str) -> Any:
    """Return the spec of a pool's DaemonSet; ``digest`` of its files makes a changed one roll."""
    labels = {_NAME: ACCOUNT, "railhead.dev/gate": pool.name}
    asks_ports = pool.expectation.qos is not None
    plugins = pool.expectation.plugin is not None
    results = pool.expectation.lustre_efa > 0
    module = ["python3", "-m", "railhead.gate", f"--state={_STATE}"]
    module.append(f"--period={args.period_seconds}")
    container = {
        "name": "gate",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            *module,
            f"--expectation={_PROGRAM}/expectation.json",
            "--sys=/host/sys",
            "--dev=/host/dev",
            *(["--plugins=/host/bin"] if plugins else []),
            *(["--run=/host/run"] if results else []),
        ],
        "env": [
            *shipped.environment(_PROGRAM),
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
        # Where the runtime confines containers by SELinux (CRI-O, RKE2 and K3s with `selinux`), the
        # usual type may not even ask whether a device's file is there (container-selinux 66ae652,
        # container.te: container_use_devices).
        "securityContext": shipped.unprivileged() | {"seLinuxOptions": {"type": "spc_t"}},
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
            {
                "name": "dev",
                "mountPath": "/host/dev",
                "readOnly": True,
                # What an installer binds there later on is seen as well.
                **({"mountPropagation": "HostToContainer"} if plugins else {}),
            },
            *([{"name": "plugins", "mountPath": "/host/bin", "readOnly": True}] if plugins else []),
            *([{"name": "results", "mountPath": "/host/run", "readOnly": True}] if results else []),
            {"name": "state", "mountPath": _STATE},
        ],
    }
    spec: dict[str, Any] = {
        "serviceAccountName": ACCOUNT,
        "priorityClassName": PRIORITY_CLASS,
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
            *([{"name": "plugins", "hostPath": {"path": PLUGINS}}] if plugins else []),
            *(
                [{"name": "results", "hostPath": {"path": RESULTS, "type": "DirectoryOrCreate"}}]
                if results
                else []
            ),
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


def keeper_deployment(args: NodeGateArgs, digest: str) -> Any:
    """Return the spec of the keeper's Deployment, anywhere in the cluster."""
    labels = {_NAME: KEEPER}
    period = 2 * args.period_seconds
    container = {
        "name": "keeper",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            *("python3", "-m", "railhead.gate.keeper"),
            f"--namespace={NAMESPACE}",
            f"--selector={_NAME}={ACCOUNT}",
            f"--period={period}",
            # Longer than a rollout leaves a node without its gate.
            f"--grace={max(300, 5 * period)}",
        ],
        "env": shipped.environment(_PROGRAM),
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            # The pods of all gates at once, as JSON.
            "limits": {"memory": "512Mi"},
        },
        "securityContext": shipped.unprivileged(),
        "volumeMounts": [{"name": "program", "mountPath": _PROGRAM, "readOnly": True}],
    }
    spec = {
        "serviceAccountName": KEEPER,
        "priorityClassName": PRIORITY_CLASS,
        # A cluster may have no nodes but the pools'.
        "tolerations": [dict(item) for item in args.tolerations],
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [
            {"name": "program", "projected": {"sources": [shipped.source("program", program())]}}
        ],
    }
    return {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {"railhead.dev/digest": digest}},
            "spec": spec,
        },
    }


def awaited(args: NodeGateArgs) -> dict[str, str]:
    """Return the annotation that says what `pulumi up` waits for of the gates' DaemonSets.

    The provider's own rule is a ready pod on every node (pulumi-kubernetes #2953), which one dead
    node of a thousand never has. Jobs go to nodes that have passed and to no other, so nothing
    waits for the rest; where the platform's nodes are all there, `up` ends with nodes that have.
    """
    if args.wait_for_nodes:
        return {}
    return {"pulumi.com/waitFor": "jsonpath={.status.observedGeneration}"}


def _sources(pool: GatedPool) -> list[dict[str, Any]]:
    expected = [{"key": "expectation.json", "path": "expectation.json"}]
    return [
        shipped.source("program", program()),
        {"configMap": {"name": _expectation_name(pool), "items": expected}},
    ]


def _expectation_name(pool: GatedPool) -> str:
    return f"expectation-{pool.name}"


class NodeGate(pulumi.ComponentResource):
    """A DaemonSet for each pool whose pods label nodes that proved themselves, and a keeper.

    The keeper takes the label from nodes whose gate is gone. Make what places jobs depend on the
    gate.
    """

    def __init__(
        self, name: str, args: NodeGateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:NodeGate", name, None, opts)
        if args.pools:
            self._inside(name, args)
        self.register_outputs({"pools": [pool.name for pool in args.pools]})

    def _inside(self, name: str, args: NodeGateArgs) -> None:
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
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace], deleted_with=namespace)
        access = self._access(name, ACCOUNT, "own-node", own_node_policy(), ["get"], inside)
        priority = kubernetes.scheduling.v1.PriorityClass(
            f"{name}-priority",
            metadata={"name": PRIORITY_CLASS},
            value=PRIORITY,
            description="Node gates: evicted last, placed before what they watch over.",
            opts=pulumi.ResourceOptions(parent=self, depends_on=[namespace]),
        )
        files = program()
        before = [
            *access,
            priority,
            kubernetes.core.v1.ConfigMap(
                f"{name}-program",
                metadata={"name": "program", "namespace": NAMESPACE},
                data=shipped.data(files),
                opts=inside,
            ),
        ]
        for pool in args.pools:
            text = pool.expectation.to_json()
            mine = kubernetes.core.v1.ConfigMap(
                f"{name}-expectation-{pool.name}",
                metadata={"name": _expectation_name(pool), "namespace": NAMESPACE},
                data={"expectation.json": text},
                opts=inside,
            )
            kubernetes.apps.v1.DaemonSet(
                f"{name}-pool-{pool.name}",
                metadata={
                    "name": f"gate-{pool.name}",
                    "namespace": NAMESPACE,
                    "annotations": awaited(args),
                },
                spec=daemon_set(args, pool, shipped.digest(files | {"expectation.json": text})),
                # Not with the namespace: as it ends it takes the label off its node, and must still
                # be allowed to.
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*before, mine]),
            )

        self._keeper(name, keeper_deployment(args, shipped.digest(files)), before, inside)

    def _keeper(
        self,
        name: str,
        spec: Any,
        before: Sequence[pulumi.Resource],
        inside: pulumi.ResourceOptions,
    ) -> None:
        """Make the keeper, which takes the label from nodes whose gate is gone."""
        access = self._access(
            f"{name}-keeper", KEEPER, "no-label", keeper_policy(), ["list"], inside
        )
        own: Any = {"name": KEEPER, "namespace": NAMESPACE}
        pods = kubernetes.rbac.v1.Role(
            f"{name}-keeper-pods",
            metadata=own,
            rules=[{"api_groups": [""], "resources": ["pods"], "verbs": ["list"]}],
            opts=inside,
        )
        bound = kubernetes.rbac.v1.RoleBinding(
            f"{name}-keeper-pods-binding",
            metadata=own,
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": KEEPER},
            subjects=[{"kind": "ServiceAccount", "name": KEEPER, "namespace": NAMESPACE}],
            opts=pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[pods])),
        )
        kubernetes.apps.v1.Deployment(
            f"{name}-keeper",
            metadata=own,
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*before, *access, bound]),
        )

    def _access(
        self,
        name: str,
        account: str,
        short: str,
        spec: Any,
        verbs: list[str],
        inside: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """Return an account, what it may do with nodes, and the policy that holds it to less."""
        policy_name = f"{ACCOUNT}-{short}"
        bind: Any = {"policyName": policy_name, "validationActions": ["Deny"]}
        policy = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
            f"{name}-{short}",
            metadata={"name": policy_name},
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=inside.depends_on),
        )
        bound = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            f"{name}-{short}-binding",
            metadata={"name": policy_name},
            spec=bind,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        made = kubernetes.core.v1.ServiceAccount(
            f"{name}-account",
            metadata={"name": account, "namespace": NAMESPACE},
            opts=inside,
        )
        role = kubernetes.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata={"name": account},
            rules=[{"api_groups": [""], "resources": ["nodes"], "verbs": [*verbs, "patch"]}],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[bound]),
        )
        binding = kubernetes.rbac.v1.ClusterRoleBinding(
            f"{name}-role-binding",
            metadata={"name": account},
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": account,
            },
            subjects=[{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role, made]),
        )
        return [bound, made, binding]
