"""NVIDIA's network operator and the policy that says what it puts on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.catalog.versions import Image
from railhead.components.controllers import charts
from railhead.fabric.railed import OfedConfig
from railhead.model.node_paths import CNI_BINARIES, CNI_CONFIGURATION, USUAL, NodePaths

API_VERSION = "mellanox.com/v1alpha1"
# The operator takes one policy of this name and ignores any other.
POLICY = "nic-cluster-policy"
MELLANOX = "15b3"


@dataclass(frozen=True, kw_only=True)
class NetworkOperatorArgs:
    """Arguments of :class:`NetworkOperator`.

    Args:
        chart: the operator's chart.
        images: images of the operator's parts by name, such as ``multus-cni``; the catalogue's row
            has them as ``operands``.
        ofed: the NICs' driver that the operator loads; None where the host has it.
        networks: whether pods get networks of their own, for which Multus becomes the first CNI
            plugin of every node; without rails nothing needs it.
        nv_ipam: whether nv-ipam hands out the rails' addresses.
        runs_nfd: whether Node Feature Discovery comes with this operator; one of each cluster runs.
        jobs_label: key of the label that every pod of a job has; a rolling upgrade of the driver
            waits for those of a node to end.
        nodes: required node affinity of the operator's pods, as Kubernetes has it.
        tolerations: Kubernetes tolerations of the pods on nodes.
        paths: the nodes' directories of CNI.
        timeout_seconds: how long the release and the policy may take.
        values: values of the chart that replace those of :func:`values`.
        policy: fields of the NicClusterPolicy, beside those of :func:`policy`.
        after: resources that must exist before the operator.
    """

    chart: charts.Chart
    images: Mapping[str, Image]
    ofed: OfedConfig | None = None
    networks: bool = True
    nv_ipam: bool = False
    runs_nfd: bool = True
    jobs_label: str
    nodes: Mapping[str, Any]
    tolerations: Sequence[Mapping[str, Any]] = ()
    paths: NodePaths = USUAL
    timeout_seconds: int = charts.RELEASE_SECONDS
    values: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    after: Sequence[pulumi.Resource] = ()


def values(args: NetworkOperatorArgs) -> dict[str, Any]:
    """Return the values of the chart; what is not said is the chart's."""
    common: dict[str, Any] = {
        "upgradeCRDs": True,
        "nfd": {
            "enabled": args.runs_nfd,
            "deployNodeFeatureRules": True,
        },
        "sriovNetworkOperator": {"enabled": False},
        # The chart's own is 128Mi (v26.4.1, values.yaml).
        "operator": {"resources": charts.OPERATOR_LIMITS},
        "node-feature-discovery": {"worker": {"tolerations": _copied(args)}},
    }
    return _with_paths(common | dict(args.values), args.paths)


def _with_paths(values: dict[str, Any], paths: NodePaths) -> dict[str, Any]:
    """Return the values with the directories of CNI, for the operator and the SR-IOV operator."""
    if (paths.cni_binaries, paths.cni_configuration) == (CNI_BINARIES, CNI_CONFIGURATION):
        return values
    directories = {
        "cniBinDirectory": paths.cni_binaries,
        "cniNetworkDirectory": paths.cni_configuration,
    }
    result = values | {"operator": values.get("operator", {}) | directories}
    if functions := values.get("sriov-network-operator"):
        operator = functions["operator"] | {"cniBinPath": paths.cni_binaries}
        result["sriov-network-operator"] = functions | {"operator": operator}
    return result


def _copied(args: NetworkOperatorArgs) -> list[dict[str, Any]]:
    return [dict(toleration) for toleration in args.tolerations]


def policy(args: NetworkOperatorArgs) -> dict[str, Any]:
    """Return the NicClusterPolicy's spec."""
    own = dict(args.policy)
    spec: dict[str, Any] = {"nodeAffinity": dict(args.nodes), "tolerations": _copied(args)}
    if args.networks:
        spec["secondaryNetwork"] = {
            "multus": image(args.images, "multus-cni"),
            "cniPlugins": image(args.images, "plugins"),
        } | own.pop("secondaryNetwork", {})
    if args.nv_ipam:
        spec["nvIpam"] = image(args.images, "nvidia-k8s-ipam") | {"enableWebhook": False}
    if args.ofed is not None:
        spec["ofedDriver"] = _ofed(args.ofed, args)
    return spec | own


def image(images: Mapping[str, Image], part: str) -> dict[str, Any]:
    """Return a part's image as the policy names images."""
    image = images[part]
    repository, _, name = image.repository.rpartition("/")
    return {"image": name, "repository": repository, "version": image.tag}


def _probe(delay: int, *, failures: int) -> dict[str, int]:
    """Return a probe of the driver's container, in seconds, that bears failures in a row."""
    return {
        "initialDelaySeconds": delay,
        "periodSeconds": 30,
        "timeoutSeconds": 30,
        "failureThreshold": failures,
    }


def _ofed(config: OfedConfig, args: NetworkOperatorArgs) -> dict[str, Any]:
    driver = image(args.images, "doca-driver")
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
                "podSelector": args.jobs_label,
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
        # By default one look at lsmod that takes 10 s, as on a busy node, ends the container, and
        # one takes the device plugins off the node until the next (network-operator v26.4.1,
        # pkg/state/state_ofed.go and controllers/mofed_wait_labels.go; its #952, #1651). The next
        # container ends again while a job uses nvidia_peermem, and then unloads it; the host's
        # driver stays away (doca-driver-build v26.4.1, entrypoint.sh: unload_blocking_modules, and
        # RESTORE_DRIVER_ON_POD_TERMINATION, which is false whatever the operator's page says). That
        # a driver is gone the gate sees at once.
        "livenessProbe": _probe(30, failures=120),
        "readinessProbe": _probe(10, failures=10),
    }


class NetworkOperator(pulumi.ComponentResource):
    """The operator's release and its policy; depend on it to have its definitions served.

    Attributes:
        release: the operator's Helm release.
        policy: the NicClusterPolicy, which says what the operator puts on nodes.
    """

    release: kubernetes.helm.v3.Release
    policy: kubernetes.apiextensions.CustomResource

    def __init__(
        self, name: str, args: NetworkOperatorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:NetworkOperator", name, None, opts)
        seconds = args.timeout_seconds
        _, self.release = charts.installed(
            name,
            args.chart,
            values(args),
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
            spec=policy(args),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[self.release],
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{seconds}s", update=f"{seconds}s", delete=f"{seconds}s"
                ),
            ),
        )
        self.register_outputs({"version": args.chart.version})
