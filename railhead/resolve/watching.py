"""The monitoring of a stack: its alerts, what is scraped for them, and what exports metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from railhead.base.names import JOBSET_DEPLOYMENT, TRAINER_DEPLOYMENT
from railhead.fabric.kinds import FABRICS
from railhead.machines import MACHINES
from railhead.model.cluster import CheckpointConfig, Cluster
from railhead.model.network_policy import Destination
from railhead.platform.registry import platform_of
from railhead.resolve.acceptance import Acceptance, acceptance
from railhead.resolve.gate import gated
from railhead.resolve.made import ObjectsOfKind
from railhead.resolve.namespaces import Namespace
from railhead.resolve.schedulers import scheduler_of
from railhead.watch import objects
from railhead.watch.alerts import ALERTS, Alert, AlertValues
from railhead.watch.metrics import METRICS, Exporter

_CONTROLLERS: Mapping[str, str] = {
    JOBSET_DEPLOYMENT: "jobset-system",
    TRAINER_DEPLOYMENT: "kubeflow-system",
}
#: What holds the gate's accounts to their label, where there is a gate.
GATE_GUARDS = ("railhead-gate-no-label", "railhead-gate-own-node")
#: On whatever of the stack's own is scraped.
PART_OF = {"app.kubernetes.io/part-of": "railhead-watching"}
_OWN: tuple[Exporter, ...] = ("controllers", "objects", "railhead")


@dataclass(frozen=True, kw_only=True)
class Scrape:
    """A Service that is scraped.

    Args:
        name: the name of the scrape job.
        namespace: where the Service is; None for any namespace.
        labels: labels of the Service.
        port: the name of its port.
        token: whether it is scraped by HTTPS with the Prometheus' own token; its certificate is
            self-signed.
    """

    name: str
    namespace: str | None
    labels: Mapping[str, str]
    port: str
    token: bool


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim whose checkpoints' age is read.

    ``annotations`` are of pods that mount it, and ``egress`` is what the mount connects to from
    inside the pod.
    """

    namespace: str
    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    egress: tuple[Destination, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Watching:
    """All that watches a stack.

    Args:
        site: what of the stack stands in queries.
        sources: who gives metrics.
        groups: rule groups, as Prometheus' rule files and PrometheusRules have them.
        scrapes: whom the stack adds to what the Prometheus scrapes.
        objects: kube-state-metrics' configuration of custom resources.
        guards: names of the policies that must deny.
        made: objects that must be as the stack defines them.
        selectors: labels of each pool's nodes, if nodes must prove their fabric.
        claims: claims with checkpoints.
        acceptance: checks that are repeated; None if the stack's file does not ask for them.
    """

    site: AlertValues
    sources: frozenset[Exporter]
    groups: tuple[Mapping[str, Any], ...]
    scrapes: tuple[Scrape, ...]
    objects: Mapping[str, Any]
    guards: tuple[str, ...]
    made: tuple[ObjectsOfKind, ...]
    selectors: tuple[str, ...]
    claims: tuple[Claim, ...]
    acceptance: Acceptance | None = None


def watching(
    cluster: Cluster,
    spaces: Sequence[Namespace],
    guards: Sequence[str],
    made: Sequence[ObjectsOfKind],
) -> Watching | None:
    """Return the monitoring of the stack; None if its file says so."""
    config = cluster.watching
    if config.kind == "none":
        return None
    where, given = site(cluster, [space.name for space in spaces]), sources(cluster)
    kept = [alert for alert in ALERTS if published(cluster, where, alert, given)]
    return Watching(
        site=where,
        sources=given,
        groups=tuple(
            {"name": f"railhead-{group}", "rules": [row.rule(where) for row in rows]}
            for group, rows in groupby(kept, key=lambda alert: alert.group)
        ),
        scrapes=tuple(row for row in _SCRAPES if row.name != "kueue" or "kueue" in given),
        objects=objects.configuration(),
        guards=(*guards, *(GATE_GUARDS if gated(cluster) else ())),
        made=tuple(made),
        selectors=tuple(
            ",".join(f"{key}={value}" for key, value in pool.node_selector.items())
            for pool in cluster.pools
        )
        if gated(cluster)
        else (),
        claims=tuple(
            _claim(cluster, claim)
            for space in spaces
            for claim in cluster.checkpoints
            if claim.namespace == space.name and claim.claim_name in space.checkpoints
        )
        if config.checkpoints
        else (),
        acceptance=acceptance(cluster),
    )


def _claim(cluster: Cluster, claim: CheckpointConfig) -> Claim:
    platform = platform_of(cluster)
    annotations = platform.mount_annotations(cluster, claim)
    return Claim(
        namespace=claim.namespace,
        name=claim.claim_name,
        annotations=annotations,
        # A mount that annotates its pod has a sidecar in it, and so in the pod's network.
        egress=platform.egress(cluster, claim.namespace) if annotations else (),
    )


def controllers(cluster: Cluster) -> dict[str, str]:
    """Return the Deployments without which no job runs -> their namespaces."""
    return dict(sorted((dict(_CONTROLLERS) | dict(scheduler_of(cluster).deployments)).items()))


def sources(cluster: Cluster) -> frozenset[Exporter]:
    """Return the exporters: the stack's own, and the others that its Prometheus scrapes."""
    own: tuple[Exporter, ...] = ("kueue", *_OWN) if scheduler_of(cluster).workloads else _OWN
    if cluster.watching.sources is not None:
        return frozenset((*own, *cluster.watching.sources))
    fabric = FABRICS[cluster.fabric.kind]
    names: list[Exporter] = [*own, "kubernetes", "kubelet", "nodes"]
    real = not any(MACHINES[pool.instance_type].stand_in for pool in cluster.pools)
    if real and fabric.link_layer is not None:
        names.append("rdma")
    if real and fabric.name == "efa":
        names.append("efa")
    if cluster.gpu_operator is not None and cluster.gpu_operator.dcgm_exporter:
        names.append("dcgm")
    return frozenset(names)


def exporters(expression: str) -> frozenset[Exporter]:
    """Return the exporters of the metrics that an expression names."""
    named = set()
    for word in re.findall(r"[A-Za-z_]\w*", expression):
        metric = METRICS.get(word) or METRICS.get(re.sub(r"_(bucket|count|sum)$", "", word))
        if metric is not None:
            named.add(metric.exporter)
    return frozenset(named)


def published(
    cluster: Cluster, where: AlertValues, alert: Alert, given: frozenset[Exporter]
) -> bool:
    """Return whether a stack has an alert: its metrics are there, and mean there what it says."""
    if not exporters(alert.expr) <= given:
        return False
    if alert.fabric and FABRICS[cluster.fabric.kind].universal:
        return False
    if alert.acceptance and cluster.watching.acceptance is None:
        return False
    return not alert.named or where.rail_bytes > 0


def site(cluster: Cluster, namespaces: Sequence[str]) -> AlertValues:
    """Return the values of the stack that stand in queries."""
    machines = [MACHINES[pool.instance_type] for pool in cluster.pools]
    devices = sorted({name for machine in machines for name in machine.hcas})
    named = all(machine.hcas for machine in machines)
    again = cluster.watching.acceptance
    rates = [nic.rate_gbps for machine in machines for nic in machine.nics]
    return AlertValues(
        namespaces=_any(namespaces),
        controllers=_any(list(controllers(cluster))),
        controller_count=len(controllers(cluster)),
        devices=_any(devices) if named else ".+",
        # sysfs says Gbit/s, and node exporter makes bytes of it.
        rail_bytes=min(rates, default=0) * 125_000_000 if named else 0,
        off_fabric_bytes=cluster.watching.off_fabric_megabytes * 1_000_000,
        checkpoint_seconds=cluster.watching.checkpoint_minutes * 60,
        acceptance_seconds=again.minutes * 60 if again else 0,
    )


def _any(names: Sequence[str]) -> str:
    # Names of Kubernetes objects and devices have nothing that a regular expression takes amiss
    # but the dot, which then stands for any.
    return "|".join(sorted(names))


_SCRAPES = (
    Scrape(
        name="kueue",
        namespace="kueue-system",
        labels={
            "app.kubernetes.io/name": "kueue",
            "app.kubernetes.io/component": "metrics-service",
        },
        port="https",
        token=True,
    ),
    Scrape(
        name="jobset",
        namespace="jobset-system",
        labels={"app.kubernetes.io/name": "jobset", "app.kubernetes.io/component": "controller"},
        port="https",
        token=True,
    ),
    Scrape(
        name="trainer",
        namespace="kubeflow-system",
        labels={"app.kubernetes.io/name": "railhead-trainer-metrics"},
        port="https",
        token=True,
    ),
    Scrape(name="railhead", namespace=None, labels=PART_OF, port="metrics", token=False),
)


def service_monitor(scrape: Scrape) -> dict[str, Any]:
    """Return the spec of a ServiceMonitor (monitoring.coreos.com/v1)."""
    endpoint: dict[str, Any] = {"port": scrape.port, "path": "/metrics", "interval": "30s"}
    if scrape.token:
        endpoint |= {
            "scheme": "https",
            # As Kueue's and JobSet's own charts ask.
            "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "tlsConfig": {"insecureSkipVerify": True},
        }
    else:
        # Its samples are of other namespaces' objects.
        endpoint["honorLabels"] = True
    where = {"any": True} if scrape.namespace is None else {"matchNames": [scrape.namespace]}
    return {
        "namespaceSelector": where,
        "selector": {"matchLabels": dict(scrape.labels)},
        "endpoints": [endpoint],
    }


def scrape_config(scrape: Scrape) -> dict[str, Any]:
    """Return an element of ``scrape_configs`` for a Prometheus in the cluster, without operator."""
    place: dict[str, Any] = {"role": "endpoints"}
    if scrape.namespace is not None:
        place["namespaces"] = {"names": [scrape.namespace]}
    keep = [
        {
            "action": "keep",
            "source_labels": [
                f"__meta_kubernetes_service_label_{re.sub(r'[^a-zA-Z0-9_]', '_', key)}"
            ],
            "regex": value,
        }
        for key, value in scrape.labels.items()
    ]
    keep.append(
        {
            "action": "keep",
            "source_labels": ["__meta_kubernetes_endpoint_port_name"],
            "regex": scrape.port,
        }
    )
    config: dict[str, Any] = {
        "job_name": f"railhead-{scrape.name}",
        "scrape_interval": "30s",
        "kubernetes_sd_configs": [place],
        "relabel_configs": [
            *keep,
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        ],
    }
    if scrape.token:
        config |= {
            "scheme": "https",
            "authorization": {
                "credentials_file": "/var/run/secrets/kubernetes.io/serviceaccount/token"
            },
            "tls_config": {"insecure_skip_verify": True},
        }
    else:
        config["honor_labels"] = True
    return config
