"""Kueue: gangs are admitted whole against real capacity, or wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from railhead.base.names import TRAINING_LABEL
from railhead.components.controllers import charts

# Frameworks without their CRD are skipped by Kueue until it appears. Ray's two need no pod family:
# Kueue marks their pods as it does a Job's (jobframework/reconciler.go).
FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "trainer.kubeflow.org/trainjob",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "ray.io/raycluster",
    "ray.io/rayjob",
)
# Only where a stack asks for it: with these every pod of a training namespace that no job owns is
# held back until a queue admits it, and none is made while Kueue is away (chart, mpod.kb.io).
# LeaderWorkerSet needs the first (kueue v0.16.2, ImplicitlyEnabledFrameworkNames).
POD_FRAMEWORKS = ("pod", "leaderworkerset.x-k8s.io/leaderworkerset")


@dataclass(frozen=True, kw_only=True)
class KueueArgs(charts.ControllerArgs):
    """Arguments of :class:`Kueue`.

    Args:
        settings: keys of Kueue's configuration file that replace those of :func:`configuration`,
            such as ``waitForPodsReady`` (:mod:`railhead.resolve.queues`).
        gates: Kueue's feature gates that are not at their default: name -> whether it is on.
        pod_groups: whether Kueue also admits LeaderWorkerSets and pods that no job owns.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    pod_groups: bool = False


def configuration(settings: Mapping[str, Any], *, pod_groups: bool = False) -> dict[str, Any]:
    """Kueue's own configuration file, ``config.kueue.x-k8s.io/v1beta2``."""
    frameworks = (*FRAMEWORKS, *POD_FRAMEWORKS) if pod_groups else FRAMEWORKS
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                # Upstream's since kueue PR 12440: workers that wait for the client's limit block
                # others.
                "Workload.kueue.x-k8s.io": 10,
                "LocalQueue.kueue.x-k8s.io": 5,
                "ClusterQueue.kueue.x-k8s.io": 5,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        "clientConnection": {"qps": 300, "burst": 500},
        # A job without a queue in a training namespace stays suspended: nothing there runs unpaid.
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": {TRAINING_LABEL: "true"}},
        "integrations": {"frameworks": list(frameworks)},
        **settings,
    }


def values(args: KueueArgs) -> dict[str, Any]:
    """Values of Kueue's chart."""
    manager: dict[str, Any] = {"image": charts.image(args)}
    if args.resources is not None:
        manager["resources"] = args.resources.rendered()
    return {
        "controllerManager": {
            "manager": manager,
            "featureGates": [{"name": name, "enabled": on} for name, on in args.gates.items()],
            # The chart takes this for the period as well.
            "readinessProbe": {"initialDelaySeconds": 2},
        },
        "managerConfig": {
            "controllerManagerConfigYaml": yaml.safe_dump(
                configuration(args.settings, pod_groups=args.pod_groups), sort_keys=True
            )
        },
    }


class Kueue(charts.ControllerRelease):
    """Kueue's release; depend on it to have its webhooks and its aggregated API answer."""

    def __init__(
        self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Kueue", name, args, values(args), opts=opts)
        # While this API is unavailable no namespace can be deleted, ours included, so an `up` that
        # cannot reach it must say so rather than leave a cluster that cannot be destroyed.
        kubernetes.apiregistration.v1.APIServicePatch(
            f"{name}-visibility",
            metadata={
                "name": "v1beta2.visibility.kueue.x-k8s.io",
                "annotations": {
                    "railhead.dev/aggregated-api": "available",
                    "pulumi.com/waitFor": "condition=Available",
                    "pulumi.com/timeoutSeconds": str(charts.WEBHOOK_SECONDS),
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
        )
        self.register_outputs({"version": args.chart.version})
