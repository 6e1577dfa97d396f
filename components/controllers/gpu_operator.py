"""NVIDIA's GPU operator: driver, toolkit, device plugin and metrics on every GPU node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.controllers import charts
from railhead.fabric.modes import FabricConfig
from railhead.model.gpu import GpuOperatorConfig
from railhead.model.node_paths import KUBELET, USUAL, NodePaths

# A tenth of the fleet at once: one by one took 45 minutes on 180 nodes (METR/hawk #1367).
MAX_UNAVAILABLE = "10%"
# What the device plugin has the nodes' toolkit run in each container with GPUs (v0.20.0, which has
# pkg/nvcdi of nvidia-container-toolkit v1.20.0). A toolkit before 1.18 ends with "No help topic
# for" one that it does not know, and the container with it (its cmd/nvidia-cdi-hook; k8s-device-
# plugin #1245). The first keeps NVML from making files of devices, which open no GPU that is not
# the container's (nvidia-container-toolkit #927); the second is for graphics.
_LATER_HOOKS = ("disable-device-node-modification", "update-application-profile")


@dataclass(frozen=True, kw_only=True)
class GpuOperatorArgs:
    """Arguments of :class:`GpuOperator`.

    Args:
        config: what the operator brings to nodes: driver, toolkit, allocation, MIG, metrics.
        operator: the operator's chart.
        dra_driver: the chart of the DRA driver, which is installed where ``config`` allocates GPUs
            by DRA or asks for compute domains.
        runs_nfd: whether Node Feature Discovery comes with this operator; one of each cluster runs.
        operator_loads_nic_driver: whether the network operator loads the NICs' driver. False where
            the host has it, for nvidia-peermem to be built against.
        switches_need_nic_driver: whether NVSwitches are reached through that driver's modules, for
            which the GPUs' driver then waits.
        rdma_on_host_alone: whether RDMA namespaces may be exclusive, so that those switches are
            seen in the node's own network namespace only.
        rdma_devices_unlisted: whether pods see every RDMA device of their node and no list says
            which are theirs, so that NCCL takes all that they can open.
        tolerations: Kubernetes tolerations of the pods on GPU nodes.
        monitor_labels: labels by which a Prometheus selects the metrics' ServiceMonitor.
        paths: the nodes' directories of kubelet and containerd.
        timeout_seconds: how long each release may take.
        after: resources that must exist before the operator.
    """

    config: GpuOperatorConfig
    operator: charts.Chart
    dra_driver: charts.Chart
    runs_nfd: bool = True
    operator_loads_nic_driver: bool = False
    switches_need_nic_driver: bool = False
    rdma_on_host_alone: bool = False
    rdma_devices_unlisted: bool = False
    tolerations: Sequence[Mapping[str, Any]] = ()
    monitor_labels: Mapping[str, str] = field(default_factory=dict)
    paths: NodePaths = USUAL
    timeout_seconds: int = charts.RELEASE_SECONDS
    after: Sequence[pulumi.Resource] = ()


def nfd_owner(fabric: FabricConfig, gpu_operator: GpuOperatorConfig | None) -> str:
    """Return who runs Node Feature Discovery: one of the operators, or the cluster itself."""
    network = fabric.nic_operator
    if network is not None:
        return "network-operator" if network.nfd == "operator" else "existing"
    if gpu_operator is not None and gpu_operator.nfd == "operator":
        return "gpu-operator"
    return "existing"


def values(args: GpuOperatorArgs) -> dict[str, Any]:
    """Return the values of the chart; what is not said is the chart's."""
    config, tolerations = args.config, [dict(item) for item in args.tolerations]
    driver: dict[str, Any] = {"enabled": config.driver == "operator"}
    if config.driver == "operator":
        driver |= {
            # DMA-BUF is a matter of the open kernel modules; `auto` takes them where GPUs can.
            "kernelModuleType": "auto" if config.gpudirect == "peermem" else "open",
            "rdma": {
                "enabled": config.gpudirect == "peermem",
                "useHostMofed": config.gpudirect == "peermem"
                and not args.operator_loads_nic_driver,
            },
            "upgradePolicy": {
                # A driver upgrade ends every job of its node: by a person's hand only.
                "autoUpgrade": False,
            },
        }
        if args.operator_loads_nic_driver and args.switches_need_nic_driver:
            # The manager then waits for that driver's container, which unloads the modules: Fabric
            # Manager takes a wrong path where they are away as it starts (k8s-driver-manager
            # v0.12.0, waitForMofedDriver; gpu-driver-container 06a208c, ubuntu24.04/nvidia-driver:
            # _assert_nvlink5_system). Only there: it waits on every node of the cluster that has
            # such a NIC, also on those to which the stack brings no driver.
            driver["manager"] = {"env": [{"name": "GPU_DIRECT_RDMA_ENABLED", "value": "true"}]}
        if args.switches_need_nic_driver and args.rdma_on_host_alone:
            # The driver's container looks for the switches in /sys/class/infiniband, and Fabric
            # Manager opens /dev/infiniband/umad*: another namespace has neither (Linux,
            # drivers/infiniband/core/user_mad.c: ib_umad_open), the container takes the machine for
            # an older one and starts no Fabric Manager, and all CUDA ends with "system not yet
            # initialized" (gpu-driver-container 06a208c, ubuntu24.04/nvidia-driver:
            # _assert_nvlink5_system).
            driver["hostNetwork"] = True
        if config.driver_version is not None:
            driver["version"] = config.driver_version
        if config.driver_environment:
            driver["env"] = _variables(config.driver_environment)
    return {
        "nfd": {"enabled": args.runs_nfd},
        # It labels nodes for the rest: where it does not run, nothing of the operator does, and no
        # GPU is offered. The chart's own list has nvidia.com/gpu alone.
        "node-feature-discovery": {"worker": {"tolerations": tolerations}},
        "daemonsets": {
            "tolerations": tolerations,
            "updateStrategy": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": MAX_UNAVAILABLE},
        },
        # The chart's own hook brings new CRDs, and its own takes them away.
        "operator": {
            "upgradeCRD": True,
            "cleanupCRD": True,
            "resources": charts.OPERATOR_LIMITS,
        },
        "driver": driver,
        "toolkit": _toolkit(args),
        **(
            {"hostPaths": {"kubeletRootDir": args.paths.kubelet}}
            if args.paths.kubelet != KUBELET
            else {}
        ),
        "devicePlugin": _device_plugin(args),
        # With its own host engine, the chart's default: one in a pod beside it, if it starts while
        # the driver is away, sees no GPU until someone restarts it, and no metric says so
        # (gpu-operator #2854, mended after v26.7.0). The exporter ends without NVML, and is started
        # again (dcgm-exporter, pkg/cmd/app.go).
        "dcgmExporter": {
            "enabled": config.dcgm_exporter,
            "serviceMonitor": _monitor(args),
        },
        "gdrcopy": _gdrcopy(config),
        "mig": {"strategy": config.mig},
        "migManager": {"enabled": config.mig != "none"},
    }


def _device_plugin(args: GpuOperatorArgs) -> dict[str, Any]:
    """Return its values, by which it adds no RDMA device where NCCL would take it.

    By default it adds all of the node where nvidia_fs is loaded (gpu-operator v26.7.0,
    assets/state-device-plugin), and NCCL took NICs that were not the pod's (its release notes of
    26.3.3).
    """
    given = {"MOFED_ENABLED": "false"} if args.rdma_devices_unlisted else {}
    if args.config.toolkit == "host":
        given["CDI_DISABLE_HOOKS"] = ",".join(_LATER_HOOKS)
    enabled = args.config.allocation == "device-plugin"
    return {"enabled": enabled} | ({"env": _variables(given)} if given else {})


def _monitor(args: GpuOperatorArgs) -> dict[str, Any]:
    """Return the monitor's values; kube-prometheus-stack's Prometheus reads none without a label.

    By default it selects those of its own release (templates/prometheus/prometheus.yaml there,
    serviceMonitorSelectorNilUsesHelmValues).
    """
    labels = dict(args.monitor_labels) if args.config.service_monitor else {}
    return {"enabled": args.config.service_monitor} | (
        {"additionalLabels": labels} if labels else {}
    )


def _variables(given: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in given.items()]


def _gdrcopy(config: GpuOperatorConfig) -> dict[str, Any]:
    """Return GDRCopy's values: its container fetches the kernel's headers, as the driver's does.

    Without its module the validator never lets the device plugin start (gpu-operator v26.7.0,
    controllers/object_controls.go: transformGDRCopyContainer, which hands it the driver's package
    repositories and no variable; cmd/nvidia-validator: GDRCOPY_ENABLED).
    """
    env = _variables(config.driver_environment) if config.gdrcopy else []
    return {"enabled": config.gdrcopy} | ({"env": env} if env else {})


def _toolkit(args: GpuOperatorArgs) -> dict[str, Any]:
    if args.config.toolkit == "host":
        return {"enabled": False}
    env = _variables(args.paths.toolkit)
    return {"enabled": True} | ({"env": env} if env else {})


def dra_values(args: GpuOperatorArgs) -> dict[str, Any]:
    """Return the values of the DRA driver's chart."""
    config = args.config
    gpus = config.allocation == "dra"
    results: dict[str, Any] = {
        "nvidiaDriverRoot": "/run/nvidia/driver" if config.driver == "operator" else "/",
        "resources": {
            "gpus": {"enabled": gpus},
            "computeDomains": {"enabled": config.compute_domains},
        },
        "kubeletPlugin": {"tolerations": [dict(item) for item in args.tolerations]},
    }
    if gpus:
        # The chart's own question whether the device plugin is off; it is, above.
        results["gpuResourcesEnabledOverride"] = True
    return results


class GpuOperator(pulumi.ComponentResource):
    """The operator's release, and the DRA driver's where GPUs are allocated by it.

    Attributes:
        release: the operator's Helm release.
    """

    release: kubernetes.helm.v3.Release

    def __init__(
        self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:GpuOperator", name, None, opts)
        _, self.release = charts.installed(
            name,
            args.operator,
            values(args),
            self,
            args.after,
            on_every_node=True,
            timeout=args.timeout_seconds,
        )
        if args.config.allocation == "dra" or args.config.compute_domains:
            charts.installed(
                f"{name}-dra",
                args.dra_driver,
                dra_values(args),
                self,
                [*args.after, self.release],
                on_every_node=True,
                timeout=args.timeout_seconds,
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
    """Return a DeviceClass of whole GPUs that serves the extended resource of the device plugin.

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
