"""NVIDIA's GPU operator: driver, toolkit, device plugin and metrics on every GPU node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.fabric.fleet import patience, tolerations
from railhead.catalog.versions import Controller
from railhead.model.cluster import Cluster
from railhead.model.gpu import GpuOperatorConfig

# A tenth of the fleet at once: one by one took 45 minutes on 180 nodes (METR/hawk #1367).
MAX_UNAVAILABLE = "10%"


@dataclass(frozen=True, kw_only=True)
class GpuOperatorArgs:
    """Arguments of :class:`GpuOperator`; ``cluster.gpu_operator`` is there."""

    cluster: Cluster
    config: GpuOperatorConfig
    operator: Controller
    dra_driver: Controller
    after: Sequence[pulumi.Resource] = ()


def nfd_owner(cluster: Cluster) -> str:
    """Who runs Node Feature Discovery: exactly one of the operators, or the cluster itself."""
    network = cluster.fabric.nic_operator
    if network is not None:
        return "network-operator" if network.nfd == "operator" else "existing"
    if cluster.gpu_operator is not None and cluster.gpu_operator.nfd == "operator":
        return "gpu-operator"
    return "existing"


def values(cluster: Cluster, config: GpuOperatorConfig) -> dict[str, Any]:
    """Values of the chart; what is not said is the chart's."""
    network = cluster.fabric.nic_operator
    operator_ofed = network is not None and network.loads_driver
    driver: dict[str, Any] = {"enabled": config.driver == "operator"}
    if config.driver == "operator":
        driver |= {
            # DMA-BUF is a matter of the open kernel modules; `auto` takes them where GPUs can.
            "kernelModuleType": "auto" if config.gpudirect == "peermem" else "open",
            "rdma": {
                "enabled": config.gpudirect == "peermem",
                "useHostMofed": config.gpudirect == "peermem" and not operator_ofed,
            },
            "upgradePolicy": {
                # A driver upgrade ends every job of its node: by a person's hand only.
                "autoUpgrade": False,
            },
        }
        if config.driver_version is not None:
            driver["version"] = config.driver_version
    return {
        "nfd": {"enabled": nfd_owner(cluster) == "gpu-operator"},
        # It labels nodes for the rest: where it does not run, nothing of the operator does, and no
        # GPU is offered. The chart's own list has nvidia.com/gpu alone.
        "node-feature-discovery": {"worker": {"tolerations": tolerations(cluster)}},
        "daemonsets": {
            "tolerations": tolerations(cluster),
            "updateStrategy": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": MAX_UNAVAILABLE},
        },
        # The chart's own hook brings new CRDs, and its own takes them away.
        "operator": {"upgradeCRD": True, "cleanupCRD": True},
        "driver": driver,
        "toolkit": {"enabled": config.toolkit == "operator"},
        "devicePlugin": {"enabled": config.allocation == "device-plugin"},
        "dcgm": {"enabled": config.dcgm_exporter},
        "dcgmExporter": {
            "enabled": config.dcgm_exporter,
            "serviceMonitor": {"enabled": config.service_monitor},
        },
        "gdrcopy": {"enabled": config.gdrcopy},
        "mig": {"strategy": config.mig},
        "migManager": {"enabled": config.mig != "none"},
    }


def dra_values(cluster: Cluster, config: GpuOperatorConfig) -> dict[str, Any]:
    """Values of the DRA driver's chart."""
    gpus = config.allocation == "dra"
    found: dict[str, Any] = {
        "nvidiaDriverRoot": "/run/nvidia/driver" if config.driver == "operator" else "/",
        "resources": {
            "gpus": {"enabled": gpus},
            "computeDomains": {"enabled": config.compute_domains},
        },
        "kubeletPlugin": {"tolerations": tolerations(cluster)},
    }
    if gpus:
        # The chart's own question whether the device plugin is off; it is, above.
        found["gpuResourcesEnabledOverride"] = True
    return found


class GpuOperator(pulumi.ComponentResource):
    """The operator's release, and the DRA driver's where the stack takes it."""

    release: kubernetes.helm.v3.Release

    def __init__(
        self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:GpuOperator", name, None, opts)
        _, self.release = charts.installed(
            name,
            args.operator,
            values(args.cluster, args.config),
            self,
            args.after,
            on_every_node=True,
            timeout=patience(args.cluster),
        )
        if args.config.allocation == "dra" or args.config.compute_domains:
            charts.installed(
                f"{name}-dra",
                args.dra_driver,
                dra_values(args.cluster, args.config),
                self,
                [*args.after, self.release],
                on_every_node=True,
                timeout=patience(args.cluster),
            )
        if args.config.allocation == "dra":
            # Pods go on asking for nvidia.com/gpu; the scheduler turns it into a claim.
            kubernetes.apiextensions.CustomResource(
                f"{name}-device-class",
                api_version="resource.k8s.io/v1",
                kind="DeviceClass",
                metadata={"name": "railhead-gpu"},
                spec=gpu_class(),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
            )
        self.register_outputs({"version": args.operator.version})


def gpu_class() -> dict[str, Any]:
    """A DeviceClass of whole GPUs that serves the extended resource of the device plugin.

    The gate DRAExtendedResource must be on, which is Kubernetes' default from 1.36 on.
    """
    return {
        "extendedResourceName": "nvidia.com/gpu",
        "selectors": [
            {
                "cel": {
                    "expression": "device.driver == 'gpu.nvidia.com'"
                    " && device.attributes['gpu.nvidia.com'].type == 'gpu'"
                }
            }
        ],
    }
