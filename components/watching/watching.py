"""Rules, dashboards, and the exporters of metrics that only this cluster has.

A kube-state-metrics that tells custom resources alone, and `railhead.watch.exporter`: once for
guards and nodes, once for each claim with checkpoints. :mod:`railhead.resolve.watching` decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from railhead.base.names import physical_name
from railhead.catalog.versions import KUBE_STATE_METRICS
from railhead.components import program as shipped
from railhead.components.namespaces.network_policies import egress_rule
from railhead.model.watching import WatchingConfig
from railhead.resolve import acceptance
from railhead.resolve.acceptance import Acceptance
from railhead.resolve.gate import GATE_IMAGE
from railhead.resolve.watching import (
    PART_OF,
    Claim,
    Watching,
    scrape_config,
    service_monitor,
)
from railhead.watch import objects
from railhead.watch.dashboards import DASHBOARDS
from railhead.watch.exporter import PORT

_NAME = "app.kubernetes.io/name"
_OBJECTS = "railhead-objects"
_GUARDS = "railhead-guards"
_PROGRAM = "/opt/railhead-watch"
_CHECKPOINTS = "/checkpoints"
_MADE = "/etc/made"
#: What the exporter is: files of ours, below the package.
_FILES = (
    "gate/__init__.py",
    "gate/api.py",
    "gate/state.py",
    "gate/words.py",
    "base/differences.py",
    "base/finding.py",
    "base/quantity.py",
    "watch/__init__.py",
    "watch/exporter.py",
)


@dataclass(frozen=True, kw_only=True)
class WatchedArgs:
    """Arguments of :class:`Watched`.

    Args:
        config: how a Prometheus gets the rules, the labels that it selects them by, the namespace
            of all of it, and whether dashboards are made.
        watching: the rules, scrapes and checks themselves (:mod:`railhead.resolve.watching`).
        kinds: kind -> API version and plural of the objects whose drift is measured.
        controllers: Deployments without which no job runs -> their namespaces.
        trainer: name of Trainer's release.
        trainer_namespace: namespace of Trainer's release.
        network_policies: whether training namespaces refuse what is not allowed, so that scrapes
            need a policy.
        exporter_image: an image with Python 3.10 or newer, which runs the exporter's program.
        objects_image: the image of kube-state-metrics.
        acceptance_image: the image that runs `railhead accept`, where ``watching`` asks for it.
        tolerations: Kubernetes tolerations of the pods.
        after: resources that must exist before any of it.
    """

    config: WatchingConfig
    watching: Watching
    kinds: Mapping[str, tuple[str, str]]
    controllers: Mapping[str, str]
    trainer: str
    trainer_namespace: str
    network_policies: bool = True
    exporter_image: str = GATE_IMAGE
    objects_image: str = KUBE_STATE_METRICS.reference
    acceptance_image: str | None = None
    tolerations: Sequence[Mapping[str, Any]] = ()
    after: Sequence[pulumi.Resource] = ()


def program() -> dict[str, str]:
    """Return the exporter's files: path -> text."""
    return shipped.files(shipped.ROOT / name for name in _FILES)


def _deployment(
    args: WatchedArgs,
    name: str,
    container: Mapping[str, Any],
    volumes: Sequence[Mapping[str, Any]],
    account: str | None,
    digest: str,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    labels = {_NAME: name, **PART_OF}
    spec: dict[str, Any] = {
        "enableServiceLinks": False,
        "tolerations": [dict(item) for item in args.tolerations],
        "containers": [dict(container) | {"securityContext": shipped.unprivileged()}],
        "volumes": list(volumes),
        "automountServiceAccountToken": account is not None,
    }
    if account is not None:
        spec["serviceAccountName"] = account
    return {
        "replicas": 1,
        "selector": {"matchLabels": {_NAME: name}},
        "template": {
            "metadata": {
                "labels": labels,
                "annotations": {"railhead.dev/digest": digest} | dict(annotations or {}),
            },
            "spec": spec,
        },
    }


def objects_deployment(args: WatchedArgs, digest: str) -> dict[str, Any]:
    """Return the spec of kube-state-metrics' Deployment."""
    container = {
        "name": "kube-state-metrics",
        "image": args.objects_image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "--custom-resource-state-only=true",
            "--custom-resource-state-config-file=/etc/objects/objects.yaml",
            f"--port={PORT}",
            "--telemetry-port=8081",
        ],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"memory": "512Mi"},
        },
        "volumeMounts": [{"name": "objects", "mountPath": "/etc/objects", "readOnly": True}],
    }
    volumes = [{"name": "objects", "configMap": {"name": "objects"}}]
    return _deployment(args, _OBJECTS, container, volumes, _OBJECTS, digest)


def exporter(args: WatchedArgs, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the exporter's container, which mounts its program from the volume ``program``."""
    return {
        "name": "exporter",
        "image": args.exporter_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "railhead.watch.exporter", *arguments],
        "env": shipped.environment(_PROGRAM),
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 5},
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "256Mi"},
        },
        "volumeMounts": [{"name": "program", "mountPath": _PROGRAM, "readOnly": True}],
    }


def _program_volume() -> dict[str, Any]:
    return {"name": "program", **shipped.source("railhead-watch-program", program())}


def guards_deployment(args: WatchedArgs, digest: str) -> dict[str, Any]:
    """Return the spec of the exporter of guards and nodes."""
    arguments = [f"--guard={name}" for name in args.watching.guards]
    arguments += [f"--nodes={selector}" for selector in args.watching.selectors]
    arguments += [f"--controller={space}/{name}" for name, space in args.controllers.items()]
    container = exporter(args, [*arguments, f"--made={_MADE}/made.json"])
    container["volumeMounts"].append({"name": "made", "mountPath": _MADE, "readOnly": True})
    volumes = [_program_volume(), {"name": "made", "configMap": {"name": "made"}}]
    return _deployment(args, _GUARDS, container, volumes, _GUARDS, digest)


def made_text(watching: Watching) -> str:
    """Return the file that the exporter's ``--made`` reads."""
    rows = [{"kind": m.kind, "path": m.path, "objects": m.objects} for m in watching.made]
    return json.dumps(rows, sort_keys=True, default=dict)


def checkpoints_deployment(args: WatchedArgs, claim: Claim, digest: str) -> dict[str, Any]:
    """Return the spec of the exporter of one claim's checkpoints; it has no account's token."""
    container = exporter(
        args,
        [
            f"--checkpoints={_CHECKPOINTS}",
            f"--namespace={claim.namespace}",
            f"--claim={claim.name}",
            "--period=60",
        ],
    )
    container["volumeMounts"].append(
        {"name": "checkpoints", "mountPath": _CHECKPOINTS, "readOnly": True}
    )
    mounted = {
        "name": "checkpoints",
        "persistentVolumeClaim": {"claimName": claim.name, "readOnly": True},
    }
    name = checkpoints_name(claim)
    volumes = [_program_volume(), mounted]
    return _deployment(args, name, container, volumes, None, digest, claim.annotations)


def checkpoints_name(claim: Claim) -> str:
    """Return the exporter's Deployment and Service."""
    return physical_name("railhead-checkpoints", claim.name)


def checkpoints_policy(claim: Claim) -> dict[str, Any]:
    """Return the spec of the exporter's NetworkPolicy: scrapes come in; a mount's sidecar gets out.

    The namespace's own egress is of jobs' pods alone.
    """
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": {_NAME: checkpoints_name(claim)}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": PORT}]}],
    }
    if claim.egress:
        spec["policyTypes"].append("Egress")
        spec["egress"] = [egress_rule(destination) for destination in claim.egress]
    return spec


class Watched(pulumi.ComponentResource):
    """Alerts, dashboards and exporters; nothing depends on them, and they change nothing."""

    def __init__(
        self, name: str, args: WatchedArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Watched", name, None, opts)
        config = args.config
        self._space = config.namespace
        namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": config.namespace, "labels": {"railhead.dev/managed": "true"}},
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        self._inside = pulumi.ResourceOptions(
            parent=self, depends_on=[namespace], deleted_with=namespace
        )
        self._of_objects(name, args)
        self._of_guards(name, args)
        for claim in args.watching.claims:
            self._of_checkpoints(name, args, claim)
        self._trainer_service(name, args)
        if config.kind == "prometheus-operator":
            self._operator(name, args)
        else:
            self._files(name, args)
        if config.dashboards:
            self._dashboards(name, args)
        if args.watching.acceptance is not None:
            self._acceptance(name, args, args.watching.acceptance)
        self.register_outputs({"alerts": sum(len(g["rules"]) for g in args.watching.groups)})

    def _after(self, *more: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(
            self._inside, pulumi.ResourceOptions(depends_on=list(more))
        )

    def _of_objects(self, name: str, args: WatchedArgs) -> None:
        text = yaml.safe_dump(dict(args.watching.objects), sort_keys=True)
        config = kubernetes.core.v1.ConfigMap(
            f"{name}-objects",
            metadata={"name": "objects", "namespace": self._space},
            data={"objects.yaml": text},
            opts=self._inside,
        )
        rules = [
            {"api_groups": [group], "resources": [plural], "verbs": ["list", "watch"]}
            for group, plural in objects.READS
        ]
        access = self._account(f"{name}-objects", _OBJECTS, rules)
        spec: Any = objects_deployment(args, shipped.digest(text))
        kubernetes.apps.v1.Deployment(
            f"{name}-objects",
            metadata={"name": _OBJECTS, "namespace": self._space},
            spec=spec,
            opts=self._after(config, *access),
        )
        self._service(f"{name}-objects", _OBJECTS, self._space, self._inside)

    def _of_guards(self, name: str, args: WatchedArgs) -> None:
        files, text = program(), made_text(args.watching)
        config = self._program(f"{name}-program", self._space, self._inside)
        made = kubernetes.core.v1.ConfigMap(
            f"{name}-made",
            metadata={"name": "made", "namespace": self._space},
            data={"made.json": text},
            opts=self._inside,
        )
        rules: list[dict[str, Any]] = [
            {"api_groups": [api.partition("/")[0]], "resources": [plural], "verbs": ["list"]}
            for api, plural in args.kinds.values()
        ]
        rules += [
            {"api_groups": [""], "resources": ["nodes"], "verbs": ["list"]},
            {
                "api_groups": ["apps"],
                "resources": ["deployments"],
                # Listed by name, which is how the server knows that it is of these.
                "resource_names": list(args.controllers),
                "verbs": ["list"],
            },
        ]
        access = self._account(f"{name}-guards", _GUARDS, rules)
        digest = shipped.digest(files | {"made.json": text})
        spec: Any = guards_deployment(args, digest)
        kubernetes.apps.v1.Deployment(
            f"{name}-guards",
            metadata={"name": _GUARDS, "namespace": self._space},
            spec=spec,
            opts=self._after(config, made, *access),
        )
        self._service(f"{name}-guards", _GUARDS, self._space, self._inside)

    def _of_checkpoints(self, name: str, args: WatchedArgs, claim: Claim) -> None:
        own = f"{name}-checkpoints-{claim.namespace}-{claim.name}"
        opts = pulumi.ResourceOptions(parent=self, depends_on=list(args.after))
        config = None
        first = next(item for item in args.watching.claims if item.namespace == claim.namespace)
        if claim == first:
            config = self._program(f"{name}-program-{claim.namespace}", claim.namespace, opts)
        called = checkpoints_name(claim)
        spec: Any = checkpoints_deployment(args, claim, shipped.digest(program()))
        kubernetes.apps.v1.Deployment(
            own,
            # A claim whose server is away must not hold up an update.
            metadata={
                "name": called,
                "namespace": claim.namespace,
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec=spec,
            opts=pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(depends_on=[config] if config else [])
            ),
        )
        self._service(own, called, claim.namespace, opts)
        if args.network_policies:
            policy: Any = checkpoints_policy(claim)
            kubernetes.networking.v1.NetworkPolicy(
                own,
                metadata={"name": called, "namespace": claim.namespace},
                spec=policy,
                opts=opts,
            )

    def _program(
        self, name: str, namespace: str, opts: pulumi.ResourceOptions
    ) -> kubernetes.core.v1.ConfigMap:
        return kubernetes.core.v1.ConfigMap(
            name,
            metadata={"name": "railhead-watch-program", "namespace": namespace},
            data=shipped.data(program()),
            opts=opts,
        )

    def _account(self, name: str, account: str, rules: Any) -> list[pulumi.Resource]:
        made = kubernetes.core.v1.ServiceAccount(
            f"{name}-account",
            metadata={"name": account, "namespace": self._space},
            opts=self._inside,
        )
        role = kubernetes.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata={"name": account},
            rules=rules,
            opts=pulumi.ResourceOptions(parent=self),
        )
        binding = kubernetes.rbac.v1.ClusterRoleBinding(
            f"{name}-role-binding",
            metadata={"name": account},
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": account,
            },
            subjects=[{"kind": "ServiceAccount", "name": account, "namespace": self._space}],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role, made]),
        )
        return [made, binding]

    def _service(
        self, name: str, called: str, namespace: str, opts: pulumi.ResourceOptions
    ) -> None:
        kubernetes.core.v1.Service(
            f"{name}-metrics",
            metadata={
                "name": called,
                "namespace": namespace,
                "labels": {_NAME: called, **PART_OF},
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec={
                "selector": {_NAME: called},
                "ports": [{"name": "metrics", "port": PORT, "target_port": PORT}],
            },
            opts=opts,
        )

    def _trainer_service(self, name: str, args: WatchedArgs) -> None:
        """Trainer's own Service leads to a port that its manager does not listen on (v2.1.0)."""
        called = "railhead-trainer-metrics"
        kubernetes.core.v1.Service(
            f"{name}-trainer-metrics",
            metadata={
                "name": called,
                "namespace": args.trainer_namespace,
                "labels": {_NAME: called},
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec={
                "selector": {
                    _NAME: args.trainer,
                    "app.kubernetes.io/component": "manager",
                },
                "ports": [{"name": "https", "port": 8443, "target_port": 8443}],
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )

    def _operator(self, name: str, args: WatchedArgs) -> None:
        labels = dict(args.config.labels)
        kubernetes.apiextensions.CustomResource(
            f"{name}-rules",
            api_version="monitoring.coreos.com/v1",
            kind="PrometheusRule",
            metadata={"name": "railhead", "namespace": self._space, "labels": labels},
            spec={"groups": [dict(group) for group in args.watching.groups]},
            opts=self._inside,
        )
        for scrape in args.watching.scrapes:
            kubernetes.apiextensions.CustomResource(
                f"{name}-monitor-{scrape.name}",
                api_version="monitoring.coreos.com/v1",
                kind="ServiceMonitor",
                metadata={
                    "name": f"railhead-{scrape.name}",
                    "namespace": self._space,
                    "labels": labels,
                },
                spec=service_monitor(scrape),
                opts=self._inside,
            )

    def _files(self, name: str, args: WatchedArgs) -> None:
        groups = {"groups": [dict(group) for group in args.watching.groups]}
        scrapes = {"scrape_configs": [scrape_config(scrape) for scrape in args.watching.scrapes]}
        for short, text in (("rules", groups), ("scrapes", scrapes)):
            kubernetes.core.v1.ConfigMap(
                f"{name}-{short}",
                metadata={
                    "name": f"railhead-{short}",
                    "namespace": self._space,
                    "labels": dict(args.config.labels),
                },
                data={f"railhead-{short}.yaml": yaml.safe_dump(text, sort_keys=False, width=100)},
                opts=self._inside,
            )

    def _dashboards(self, name: str, args: WatchedArgs) -> None:
        for dashboard in DASHBOARDS:
            kubernetes.core.v1.ConfigMap(
                f"{name}-dashboard-{dashboard.uid.removeprefix('railhead-')}",
                metadata={
                    "name": f"railhead-dashboard-{dashboard.uid.removeprefix('railhead-')}",
                    "namespace": self._space,
                    "labels": dict(args.config.dashboard_labels),
                },
                data={f"{dashboard.uid}.json": dashboard.text(args.watching.site)},
                opts=self._inside,
            )

    def _acceptance(self, name: str, args: WatchedArgs, wanted: Acceptance) -> None:
        own = f"{name}-acceptance"
        access = self._account(own, acceptance.NAME, list(wanted.cluster_rules))
        metadata: Any = {"name": acceptance.NAME, "namespace": wanted.namespace}
        rules: Any = list(wanted.rules)
        role = kubernetes.rbac.v1.Role(
            f"{own}-jobs",
            metadata=metadata,
            rules=rules,
            opts=self._after(*access),
        )
        binding = kubernetes.rbac.v1.RoleBinding(
            f"{own}-jobs-binding",
            metadata=metadata,
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": acceptance.NAME,
            },
            subjects=[
                {"kind": "ServiceAccount", "name": acceptance.NAME, "namespace": self._space}
            ],
            opts=self._after(role),
        )
        image = args.acceptance_image or wanted.config.image
        spec: Any = acceptance.cron_job(wanted, image, shipped.unprivileged())
        kubernetes.batch.v1.CronJob(
            own,
            metadata={"name": acceptance.NAME, "namespace": self._space, "labels": PART_OF},
            spec=spec,
            opts=self._after(binding),
        )
