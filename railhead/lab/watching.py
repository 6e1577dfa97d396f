"""Monitoring of a lab: Prometheus, Alertmanager, kube-state-metrics, node exporters, as pods.

They stand for what the owner of a cluster has. The rules and whom to scrape for them are the
stack's, from the ConfigMaps of ``watching: {kind: files}``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

import yaml

from railhead.catalog.versions import KUBE_STATE_METRICS
from railhead.lab.artifacts.watching import PROMETHEUS_IMAGE
from railhead.lab.bootstrap import LABELS, STORAGE_CLASS, Object, grant, namespace, rule

NAMESPACE = "monitoring"
#: Deployments and the DaemonSet that must be ready.
WORKLOADS = (
    "deployment/prometheus",
    "deployment/kube-state-metrics",
    "daemonset/node-exporter",
)
#: ConfigMaps of the stack, each with one file.
RULES, SCRAPES = "railhead-rules", "railhead-scrapes"
_FILES = "/etc/prometheus"
_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:default"
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - where it lies
_PORTS = {"prometheus": 9090, "alertmanager": 9093, "kube-state-metrics": 8080}
_KINDS = {"": ["nodes", "pods"], "apps": ["deployments"], "batch": ["cronjobs"]}


class Asked(Protocol):
    """A lab, as far as it is asked here."""

    def raw(self, path: str) -> str:
        """Return the API server's answer; empty when it does not answer."""
        ...


def of_stack(lab: Asked, name: str) -> str:
    """Return the files in the stack's ConfigMaps of that name; empty without any."""
    answer = lab.raw(f"/api/v1/configmaps?fieldSelector=metadata.name%3D{name}")
    items = json.loads(answer)["items"] if answer else []
    return "".join(text for item in items for text in item["data"].values())


def objects(rules: str, scrapes: str, webhook: str | None) -> list[Object]:
    """Everything that `railhead lab watch` applies, in an order that can be applied.

    Args:
        rules: a rule file of Prometheus; empty when no stack has one.
        scrapes: a file with ``scrape_configs``; empty when no stack has one.
        webhook: the address for alerts that fire or are over; None for no posts.
    """
    files = {
        "prometheus.yml": yaml.safe_dump(prometheus(), sort_keys=False),
        "rules.yml": rules,
        "scrapes.yml": scrapes,
        "alertmanager.yml": yaml.safe_dump(alertmanager(webhook), sort_keys=False),
    }
    return [
        namespace(NAMESPACE),
        *grant(_ACCOUNT, _rights()),
        _object("v1", "ConfigMap", "prometheus", data=files),
        _object("v1", "PersistentVolumeClaim", "prometheus", spec=_storage()),
        # Both containers read their files when they start: other files make another pod.
        _workload("Deployment", "prometheus", _prometheus_pod(), **_ALONE, digest=_digest(files)),
        _workload("Deployment", "kube-state-metrics", _state_pod()),
        _workload("DaemonSet", "node-exporter", _node_pod()),
        *(_service(name, port) for name, port in _PORTS.items()),
    ]


def prometheus() -> dict[str, Any]:
    """Prometheus' configuration: the stack's files, and the scrapes that every cluster has."""
    own = {"authorization": {"credentials_file": _TOKEN}, "tls_config": _ANY_CERTIFICATE}
    kubelet = {"scheme": "https", "kubernetes_sd_configs": [{"role": "node"}], **own}
    pods = {"role": "pod", "namespaces": {"names": [NAMESPACE]}}
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": [f"{_FILES}/rules.yml"],
        "scrape_config_files": [f"{_FILES}/scrapes.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [_target("alertmanager")]}]},
        "scrape_configs": [
            {
                "job_name": "kube-state-metrics",
                # Its samples are of other namespaces' objects.
                "honor_labels": True,
                "static_configs": [_target("kube-state-metrics")],
            },
            {"job_name": "kubelet", **kubelet},
            {"job_name": "cadvisor", "metrics_path": "/metrics/cadvisor", **kubelet},
            {
                "job_name": "node-exporter",
                "kubernetes_sd_configs": [pods],
                "relabel_configs": [
                    {
                        "action": "keep",
                        "source_labels": ["__meta_kubernetes_pod_label_app"],
                        "regex": "node-exporter",
                    },
                    {
                        "source_labels": ["__meta_kubernetes_pod_node_name"],
                        "target_label": "instance",
                    },
                ],
            },
        ],
    }


#: A kubelet's certificate is for its name; Prometheus asks by its address.
_ANY_CERTIFICATE = {"insecure_skip_verify": True}


def _target(service: str) -> dict[str, Any]:
    return {"targets": [f"{service}.{NAMESPACE}:{_PORTS[service]}"]}


def alertmanager(webhook: str | None) -> dict[str, Any]:
    """Return Alertmanager's configuration: all alerts to one receiver, without delay."""
    receiver: dict[str, Any] = {"name": "lab"}
    if webhook is not None:
        receiver["webhook_configs"] = [{"url": webhook, "send_resolved": True}]
    route = {"receiver": "lab", "group_wait": "1s", "group_interval": "5s", "group_by": ["..."]}
    return {"route": route, "receivers": [receiver]}


def _rights() -> list[Object]:
    """Return the rights of Prometheus to discover and scrape, and of kube-state-metrics to list."""
    watch = ["get", "list", "watch"]
    return [
        *(rule([group], kinds, watch) for group, kinds in _KINDS.items()),
        rule([""], ["services", "endpoints"], watch),
        rule([""], ["nodes/metrics"], ["get"]),
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]


def _object(version: str, kind: str, name: str, **body: Any) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": LABELS}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


def _storage() -> Object:
    return {
        "storageClassName": STORAGE_CLASS,
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    }


def _workload(kind: str, name: str, pod: Object, *, digest: str = "", **spec: Any) -> Object:
    metadata = {"labels": {**LABELS, "app": name}, "annotations": {"railhead.dev/digest": digest}}
    template = {"metadata": metadata, "spec": {"enableServiceLinks": False, **pod}}
    selector = {"matchLabels": {"app": name}}
    return _object("apps/v1", kind, name, spec={"selector": selector, "template": template, **spec})


#: Of two pods on one storage the second would not start.
_ALONE = {"strategy": {"type": "Recreate"}}


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


def _service(name: str, port: int) -> Object:
    # Alertmanager is in Prometheus' pod.
    app = "prometheus" if name == "alertmanager" else name
    return _object(
        "v1", "Service", name, spec={"selector": {"app": app}, "ports": [{"port": port}]}
    )


def _container(name: str, port: int, *command: str, mounts: Mapping[str, str]) -> Object:
    return {
        "name": name,
        "image": PROMETHEUS_IMAGE,
        "command": list(command),
        "ports": [{"containerPort": port}],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [{"name": key, "mountPath": path} for key, path in mounts.items()],
    }


def _prometheus_pod() -> Object:
    return {
        "containers": [
            _container(
                "prometheus",
                _PORTS["prometheus"],
                "/bin/prometheus",
                f"--config.file={_FILES}/prometheus.yml",
                "--storage.tsdb.path=/data/prometheus",
                mounts={"config": _FILES, "data": "/data"},
            ),
            _container(
                "alertmanager",
                _PORTS["alertmanager"],
                "/bin/prometheus-alertmanager",
                f"--config.file={_FILES}/alertmanager.yml",
                "--storage.path=/data/alertmanager",
                "--cluster.listen-address=",
                mounts={"config": _FILES, "data": "/data"},
            ),
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": "prometheus"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "prometheus"}},
        ],
    }


def _state_pod() -> Object:
    kinds = ",".join(kind for kinds in _KINDS.values() for kind in kinds)
    own = _container(
        "kube-state-metrics",
        _PORTS["kube-state-metrics"],
        "/kube-state-metrics",
        f"--resources={kinds}",
        mounts={},
    )
    return {"containers": [own | {"image": KUBE_STATE_METRICS.reference}]}


def _node_pod() -> Object:
    own = _container("node-exporter", 9100, "/bin/prometheus-node-exporter", mounts={})
    return {"containers": [own]}
