"""Acceptance again and again: a CronJob of `railhead accept`, and what its account may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from railhead.model.cluster import Cluster
from railhead.model.watching import AcceptanceConfig
from railhead.resolve import cron
from railhead.resolve.access import cluster_rights, rights
from railhead.watch.alerts import ACCEPTANCE

#: Everything of it is called so, its CronJob too, by which alerts know it.
NAME = ACCEPTANCE
_OUT = "/tmp"  # noqa: S108 - a volume of the pod's own
# Its jobs are taken away meanwhile.
_GRACE_SECONDS = 180
# Its account looks on and submits; it goes into no pod.
_WITHOUT = frozenset({"pods/exec", "pods/portforward"})


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """The objects by which a stack repeats `railhead accept`.

    Args:
        namespace: where the jobs of acceptance wait.
        rules: rights of its account in the namespace.
        cluster_rules: rights of its account outside of namespaces.
        config: the section of the stack's file.
    """

    namespace: str
    rules: tuple[dict[str, Any], ...]
    cluster_rules: tuple[dict[str, Any], ...]
    config: AcceptanceConfig


def acceptance(cluster: Cluster) -> Acceptance | None:
    """Return the objects that repeat acceptance; None if the stack's file does not ask for it."""
    config = cluster.watching.acceptance
    if config is None:
        return None
    namespace = config.namespace or cluster.training_namespaces[0]
    return Acceptance(
        namespace=namespace,
        rules=tuple(
            right.rule()
            for right in rights(cluster, namespace)
            if "researchers" in right.personas and not _WITHOUT & set(right.resources)
        ),
        cluster_rules=tuple(
            right.rule() for right in cluster_rights(cluster) if "researchers" in right.personas
        ),
        config=config,
    )


def command(wanted: Acceptance) -> list[str]:
    """Return the command of the CronJob, which asks no questions and exits by the result."""
    asked = [word for check in wanted.config.checks for word in ("--only", check)]
    where = ["--namespace", wanted.namespace]
    return ["railhead", "accept", "--quick", "--yes", "--partial", *asked, *where, "--out", _OUT]


def cron_job(wanted: Acceptance, image: str, security: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of the CronJob."""
    config = wanted.config
    container = {
        "name": "accept",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command(wanted),
        "env": [{"name": "HOME", "value": _OUT}],
        "securityContext": security,
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        },
        "volumeMounts": [{"name": "out", "mountPath": _OUT}],
    }
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "containers": [container],
        "volumes": [{"name": "out", "emptyDir": {}}],
    }
    return cron.cron_job(config.schedule, config.minutes * 60, pod)
