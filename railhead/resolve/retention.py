"""The CronJob that removes a claim's old checkpoints, in the claim's namespace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railhead.base.names import QUEUE_LABEL
from railhead.base.placing import unplaced
from railhead.model.cluster import Cluster
from railhead.model.storage import CheckpointConfig, RetentionConfig
from railhead.platform.registry import platform_of
from railhead.resolve import cron
from railhead.resolve.gate import GATE_IMAGE
from railhead.watch import retention as program

_ROOT = "/claim"
_HOURS = 6


def cron_jobs(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """Return claim -> spec of its CronJob (batch/v1), for a namespace's claims with a rule.

    Its jobs wait in the namespace's own queue, as every job there, and take no device.
    """
    queues = [queue for queue in cluster.local_queues if queue.namespace == namespace]
    platform = platform_of(cluster)
    image = cluster.mirrored(cluster.gate.image or GATE_IMAGE)
    return {
        claim.claim_name: _cron_job(
            claim,
            claim.retention,
            queues[0].name,
            image,
            unplaced(queues[0].pools, platform.queued_pools(cluster))
            | dict(platform.mount_annotations(cluster, claim)),
        )
        for claim in cluster.checkpoints
        if claim.namespace == namespace and claim.retention is not None
    }


def _cron_job(
    claim: CheckpointConfig,
    rule: RetentionConfig,
    queue: str,
    image: str,
    annotations: Mapping[str, str],
) -> dict[str, Any]:
    delete = ["--delete"] if rule.delete else []
    container = {
        "name": "retention",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        # Kubernetes expands references to variables in it, of which it has none.
        "command": ["python3", "-I", "-c", Path(program.__file__).read_text(encoding="utf-8")],
        "args": [_ROOT, "--days", str(rule.days), "--keep", str(rule.keep), *delete],
        # As jobs write: images of frameworks run as root, which here may do nothing else.
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "volumeMounts": [{"name": "claim", "mountPath": _ROOT}],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": claim.claim_name}}],
    }
    return cron.cron_job("17 2 * * *", _HOURS * 3600, pod, {QUEUE_LABEL: queue}, annotations)
