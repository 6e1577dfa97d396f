"""NVIDIA's network operator and the policy that says what it puts on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.controllers.gpu_operator import nfd_owner
from components.fabric.fleet import affinity, patience, tolerations
from railhead.catalog.versions import Controller
from railhead.fabric.railed import NetworkOperatorConfig, NvIpam, OfedConfig, RailedFabric
from railhead.model.cluster import Cluster
from railhead.resolve.schedulers import scheduler_of

API_VERSION = "mellanox.com/v1alpha1"
# The operator takes one policy of this name and ignores any other.
POLICY = "nic-cluster-policy"
MELLANOX = "15b3"


@dataclass(frozen=True, kw_only=True)
class NetworkOperatorArgs:
    """Arguments of :class:`NetworkOperator`; ``values`` and ``policy`` are what the mode adds."""

    cluster: Cluster
    fabric: RailedFabric
    config: NetworkOperatorConfig
    operator: Controller
    values: Mapping[str, Any]
    policy: Mapping[str, Any]
    after: Sequence[pulumi.Resource] = ()


def values(cluster: Cluster, of_mode: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the chart; what is not said is the chart's."""
    common: dict[str, Any] = {
        "upgradeCRDs": True,
        "nfd": {
            "enabled": nfd_owner(cluster) == "network-operator",
            "deployNodeFeatureRules": True,
        },
        "sriovNetworkOperator": {"enabled": False},
        "node-feature-discovery": {"worker": {"tolerations": tolerations(cluster)}},
    }
    return common | dict(of_mode)


def policy(
    cluster: Cluster,
    fabric: RailedFabric,
    config: NetworkOperatorConfig,
    operator: Controller,
    of_mode: Mapping[str, Any],
) -> dict[str, Any]:
    """The NicClusterPolicy's spec."""
    own = dict(of_mode)
    networks = {
        "multus": image(operator, "multus-cni"),
        "cniPlugins": image(operator, "plugins"),
    } | own.pop("secondaryNetwork", {})
    spec: dict[str, Any] = {
        "nodeAffinity": affinity(cluster),
        "tolerations": tolerations(cluster),
        "secondaryNetwork": networks,
    }
    if isinstance(fabric.ipam, NvIpam):
        spec["nvIpam"] = image(operator, "nvidia-k8s-ipam") | {"enableWebhook": False}
    if config.ofed is not None:
        spec["ofedDriver"] = _ofed(cluster, config.ofed, operator)
    return spec | own


def image(operator: Controller, operand: str) -> dict[str, Any]:
    """An operand as the policy names images."""
    image = operator.operands[operand]
    repository, _, name = image.repository.rpartition("/")
    return {"image": name, "repository": repository, "version": image.tag}


def _ofed(cluster: Cluster, config: OfedConfig, operator: Controller) -> dict[str, Any]:
    driver = image(operator, "doca-driver")
    if config.version is not None:
        driver["version"] = config.version
    if config.environment:
        driver["env"] = [{"name": name, "value": v} for name, v in config.environment.items()]
    rolling = config.upgrade == "rolling"
    return driver | {
        "upgradePolicy": {
            # Manual: a new version is loaded on a node when a person restarts its driver pod.
            "autoUpgrade": rolling,
            "maxParallelUpgrades": 1,
            "safeLoad": config.safe_load,
            # Rolling: no node is touched while a training pod is on it, however long that takes.
            "waitForCompletion": {
                "podSelector": scheduler_of(cluster).pods,
                "timeoutSeconds": 0,
            },
            "drain": {
                "enable": rolling,
                # Never a pod that nothing would make again.
                "force": False,
                "deleteEmptyDir": True,
                "timeoutSeconds": 300,
            },
        },
        "terminationGracePeriodSeconds": 300,
        "startupProbe": {"initialDelaySeconds": 10, "periodSeconds": 20},
        "livenessProbe": {"initialDelaySeconds": 30, "periodSeconds": 30},
        "readinessProbe": {"initialDelaySeconds": 10, "periodSeconds": 30},
    }


class NetworkOperator(pulumi.ComponentResource):
    """The operator's release and its policy; depend on it to have its definitions served."""

    release: kubernetes.helm.v3.Release
    policy: kubernetes.apiextensions.CustomResource

    def __init__(
        self, name: str, args: NetworkOperatorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:NetworkOperator", name, None, opts)
        seconds = patience(args.cluster)
        _, self.release = charts.installed(
            name,
            args.operator,
            values(args.cluster, args.values),
            self,
            args.after,
            on_every_node=True,
            timeout=seconds,
        )
        self.policy = kubernetes.apiextensions.CustomResource(
            f"{name}-policy",
            api_version=API_VERSION,
            kind="NicClusterPolicy",
            metadata={
                "name": POLICY,
                "annotations": {
                    # That it answered once: what depends on it needs the definitions that it makes.
                    # `ready` is a driver pod of the wanted version on every node
                    # (pkg/state/state_skel.go), which one dead node of a thousand never has, nor a
                    # manual upgrade until a person is through; nodes prove themselves to the gate.
                    "pulumi.com/waitFor": "jsonpath={.status.state}",
                    "pulumi.com/timeoutSeconds": str(seconds),
                },
            },
            spec=policy(args.cluster, args.fabric, args.config, args.operator, args.policy),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[self.release],
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{seconds}s", update=f"{seconds}s", delete=f"{seconds}s"
                ),
            ),
        )
        self.register_outputs({"version": args.operator.version})
