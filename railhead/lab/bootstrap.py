"""The Kubernetes objects that a lab's own parts need; everything else comes from the stack."""

from __future__ import annotations

from typing import Any

from railhead.lab import spec as lab
from railhead.lab.services import PROVISIONER, PROVISIONER_NAMESPACE
from railhead.lab.spec import LabSpec

STORAGE_CLASS = "railhead-shared"
SIMULATED_TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
LABELS = {"app.kubernetes.io/managed-by": "railhead-lab"}

Object = dict[str, Any]


def objects(*, network_crd: Object) -> list[Object]:
    """Return everything that `railhead lab up` applies, in an order that can be applied."""
    return [
        network_crd,
        namespace(PROVISIONER_NAMESPACE),
        *_dns(),
        *_multus(),
        *_node_proxier(),
        *_netpol(),
        *_volumes(),
        *_kwok(),
    ]


def simulated_nodes(spec: LabSpec) -> list[Object]:
    """Return nodes for KWOK, shaped like the real ones, with a taint that keeps pods off."""
    capacity = {
        "cpu": "96",
        "memory": "1Ti",
        "pods": "110",
        **{name: str(count) for name, count in spec.device_resources().items()},
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"{spec.name}-simulated-{i}",
                "labels": {
                    **LABELS,
                    "type": "kwok",
                    "kubernetes.io/hostname": f"{spec.name}-simulated-{i}",
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "railhead.dev/pool": "simulated",
                    "topology.railhead.dev/block": f"block-{i // 128}",
                    "topology.railhead.dev/rack": f"rack-{i // 16}",
                },
            },
            "spec": {"taints": [SIMULATED_TAINT]},
            "status": {"allocatable": capacity, "capacity": capacity},
        }
        for i in range(spec.simulated_nodes)
    ]


def namespace(name: str) -> Object:
    """Return a namespace of the lab's own."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": LABELS}}


def _dns() -> list[Object]:
    """Return a service without a selector: CoreDNS runs beside the API server, not in a pod."""
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    labels = {**LABELS, "k8s-app": "kube-dns"}
    system = {"namespace": "kube-system"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**system, "name": "kube-dns", "labels": labels},
            "spec": {
                "clusterIP": lab.DNS_SERVICE_ADDRESS,
                "ports": [{"name": n, "port": 53, "protocol": p} for n, p in ports],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                **system,
                "name": "kube-dns-lab",
                "labels": {**labels, "kubernetes.io/service-name": "kube-dns"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [lab.CONTROL_ADDRESS], "conditions": {"ready": True}}],
            "ports": [{"name": n, "port": 53, "protocol": p} for n, p in ports],
        },
        *grant(
            "railhead:coredns",
            [
                rule([""], ["endpoints", "services", "pods", "namespaces"], ["list", "watch"]),
                rule(["discovery.k8s.io"], ["endpointslices"], ["list", "watch"]),
            ],
        ),
    ]


def _multus() -> list[Object]:
    return grant(
        "railhead:multus",
        [
            rule(["k8s.cni.cncf.io"], ["*"], ["get"]),
            rule([""], ["pods"], ["get", "list"]),
            rule([""], ["pods/status"], ["get", "update"]),
            rule(["", "events.k8s.io"], ["events"], ["create", "patch", "update"]),
        ],
    )


def _node_proxier() -> list[Object]:
    """Bind kube-proxy's user to the role that Kubernetes ships for it."""
    return [_bind("railhead:kube-proxy", "system:node-proxier", user="system:kube-proxy")]


def _netpol() -> list[Object]:
    return grant(
        "railhead:netpol",
        [
            rule([""], ["pods", "namespaces"], ["list", "watch"]),
            rule([""], ["nodes"], ["get"]),
            rule(["networking.k8s.io"], ["networkpolicies"], ["list", "watch"]),
        ],
    )


def _kwok() -> list[Object]:
    every = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return grant(
        "railhead:kwok",
        [
            rule([""], ["nodes", "pods", "events"], every),
            rule([""], ["nodes/status", "pods/status"], ["get", "update", "patch"]),
            rule(["coordination.k8s.io"], ["leases"], every),
        ],
    )


def _volumes() -> list[Object]:
    """Return the objects of RWX volumes: directories that every node of the lab shares."""
    every = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": STORAGE_CLASS, "labels": LABELS},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "Immediate",
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": "volume-helper",
                "namespace": PROVISIONER_NAMESPACE,
                "labels": LABELS,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "volume-provisioner",
                "namespace": PROVISIONER_NAMESPACE,
                "labels": LABELS,
            },
            "data": {
                "setup": '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
                "teardown": '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
            },
        },
        *grant(
            "railhead:volume-provisioner",
            [
                rule([""], ["nodes", "persistentvolumeclaims", "configmaps"], every[:3]),
                rule([""], ["pods", "pods/log"], every),
                rule([""], ["persistentvolumes"], every),
                rule([""], ["events", "endpoints"], every),
                rule(["coordination.k8s.io"], ["leases"], every),
                rule(["storage.k8s.io"], ["storageclasses"], every[:3]),
            ],
        ),
    ]


def helper_pod() -> Object:
    """Return the pod that makes and removes a volume's directory; it lands on any real node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "containers": [
                {
                    "name": "helper-pod",
                    "image": "railhead.local/busybox:1",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "terminationGracePeriodSeconds": 1,
        },
    }


def rule(groups: list[str], resources: list[str], verbs: list[str]) -> Object:
    """Return a rule of a role."""
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def grant(user: str, rules: list[Object]) -> list[Object]:
    """Return a cluster role of the user's own name, and its binding."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": user, "labels": LABELS},
        "rules": rules,
    }
    return [role, _bind(user, user, user=user)]


def _bind(name: str, role: str, *, user: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
