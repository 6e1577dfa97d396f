"""NVIDIA's network operator and the policy that says what it puts on nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.controllers.gpu_operator import nfd_owner
from components.fabric.fleet import affinity, patience, tolerations
from railhead.catalog.versions import Controller
from railhead.fabric.config import (
    HostDeviceFabric,
    IpoibFabric,
    NetworkOperatorConfig,
    NvIpam,
    OfedConfig,
    RailedFabric,
    RdmaSharedFabric,
    SriovIbFabric,
    SriovRoceFabric,
)
from railhead.fabric.rows import MODES
from railhead.model.cluster import Cluster
from railhead.resolve.wiring import DEVICE_PREFIX, resource_of

API_VERSION = "mellanox.com/v1alpha1"
# The operator takes one policy of this name and ignores any other.
POLICY = "nic-cluster-policy"
MELLANOX = "15b3"
# Pods of a training job, whoever made it: what a driver upgrade waits for.
TRAINING_PODS = "kueue.x-k8s.io/podset"


@dataclass(frozen=True, kw_only=True)
class NetworkOperatorArgs:
    """Arguments of :class:`NetworkOperator`."""

    cluster: Cluster
    fabric: RailedFabric
    config: NetworkOperatorConfig
    operator: Controller
    after: Sequence[pulumi.Resource] = ()


def values(cluster: Cluster, fabric: RailedFabric, operator: Controller) -> dict[str, Any]:
    """Values of the chart; what is not said is the chart's."""
    found: dict[str, Any] = {
        "upgradeCRDs": True,
        "nfd": {
            "enabled": nfd_owner(cluster) == "network-operator",
            "deployNodeFeatureRules": True,
        },
        "sriovNetworkOperator": {"enabled": "sriov" in MODES[fabric.mode].operators},
        "node-feature-discovery": {"worker": {"tolerations": tolerations(cluster)}},
    }
    if "sriov" in MODES[fabric.mode].operators:
        found["sriov-network-operator"] = {
            "operator": {"resourcePrefix": DEVICE_PREFIX},
            # The stack writes it, so that what it says and when it goes are the stack's.
            "sriovOperatorConfig": {"deploy": False},
        }
    if isinstance(fabric, (SriovRoceFabric, SriovIbFabric)) and (
        fabric.sriov.rdma_mode == "exclusive"
    ):
        # The one plugin that the chart leaves out: without it no RDMA device follows its interface.
        rdma_cni = operator.operands["rdma-cni"].reference
        found["sriov-network-operator"]["images"] = {"rdmaCni": rdma_cni}
    return found


def policy(
    cluster: Cluster, fabric: RailedFabric, config: NetworkOperatorConfig, operator: Controller
) -> dict[str, Any]:
    """The NicClusterPolicy's spec."""
    spec: dict[str, Any] = {
        "nodeAffinity": affinity(cluster),
        "tolerations": tolerations(cluster),
        "secondaryNetwork": {
            "multus": _image(operator, "multus-cni"),
            "cniPlugins": _image(operator, "plugins"),
        },
    }
    if isinstance(fabric, IpoibFabric):
        spec["secondaryNetwork"]["ipoib"] = _image(operator, "ipoib-cni")
    if isinstance(fabric.ipam, NvIpam):
        spec["nvIpam"] = _image(operator, "nvidia-k8s-ipam") | {"enableWebhook": False}
    if config.ofed is not None:
        spec["ofedDriver"] = _ofed(config.ofed, operator)
    if isinstance(fabric, (RdmaSharedFabric, IpoibFabric)):
        spec["rdmaSharedDevicePlugin"] = _image(operator, "k8s-rdma-shared-dev-plugin") | {
            "config": json.dumps(shared_devices(fabric), sort_keys=True)
        }
    if isinstance(fabric, HostDeviceFabric) and fabric.resources:
        spec["sriovDevicePlugin"] = _image(operator, "sriov-network-device-plugin") | {
            "config": json.dumps(host_devices(fabric), sort_keys=True)
        }
    return spec


def _image(operator: Controller, operand: str) -> dict[str, Any]:
    image = operator.operands[operand]
    repository, _, name = image.repository.rpartition("/")
    return {"image": name, "repository": repository, "version": image.tag}


def _ofed(config: OfedConfig, operator: Controller) -> dict[str, Any]:
    driver = _image(operator, "doca-driver")
    if config.version is not None:
        driver["version"] = config.version
    rolling = config.upgrade == "rolling"
    return driver | {
        "upgradePolicy": {
            # Manual: a new version is loaded on a node when a person restarts its driver pod.
            "autoUpgrade": rolling,
            "maxParallelUpgrades": 1,
            "safeLoad": False,
            # Rolling: no node is touched while a training pod is on it, however long that takes.
            "waitForCompletion": {"podSelector": TRAINING_PODS, "timeoutSeconds": 0},
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


def shared_devices(fabric: RdmaSharedFabric | IpoibFabric) -> dict[str, Any]:
    """The RDMA shared device plugin's own configuration: one resource over every rail's HCA."""
    prefix, _, name = fabric.resource.partition("/")
    selectors: dict[str, Any] = (
        {"ifNames": [rail.master for rail in fabric.rails]}
        if fabric.rails
        else {"vendors": [MELLANOX], "linkTypes": ["infiniband"]}
    )
    return {
        "configList": [
            {
                "resourcePrefix": prefix,
                "resourceName": name,
                "rdmaHcaMax": fabric.shares,
                "selectors": selectors,
            }
        ]
    }


def host_devices(fabric: HostDeviceFabric) -> dict[str, Any]:
    """The SR-IOV device plugin's own configuration: one resource a rail, the NIC itself."""
    return {
        "resourceList": [
            {
                "resourcePrefix": DEVICE_PREFIX,
                "resourceName": resource_of(rail),
                "selectors": {"pfNames": list(rail.pf_names), "isRdma": True},
            }
            for rail in fabric.rails
        ]
    }


class NetworkOperator(pulumi.ComponentResource):
    """The operator's release and its policy; depend on it to have drivers and CNI on nodes."""

    release: kubernetes.helm.v3.Release
    policy: kubernetes.apiextensions.CustomResource

    def __init__(
        self, name: str, args: NetworkOperatorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:NetworkOperator", name, None, opts)
        seconds = patience(args.cluster)
        namespace = charts.namespace(
            f"{name}-namespace",
            args.operator.namespace,
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            privileged=True,
        )
        self.release = charts.release(
            f"{name}-release",
            args.operator,
            values(args.cluster, args.fabric, args.operator),
            pulumi.ResourceOptions(parent=self, depends_on=[*args.after, namespace]),
            timeout=seconds,
        )
        self.policy = kubernetes.apiextensions.CustomResource(
            f"{name}-policy",
            api_version=API_VERSION,
            kind="NicClusterPolicy",
            metadata={
                "name": POLICY,
                "annotations": {
                    # What depends on it needs drivers and CNI on nodes, not the object.
                    "pulumi.com/waitFor": "jsonpath={.status.state}=ready",
                    "pulumi.com/timeoutSeconds": str(seconds),
                },
            },
            spec=policy(args.cluster, args.fabric, args.config, args.operator),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[self.release],
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{seconds}s", update=f"{seconds}s", delete=f"{seconds}s"
                ),
            ),
        )
        self.register_outputs({"version": args.operator.version})
