"""Virtual functions on nodes: the SR-IOV operator's configuration, by rail and pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.catalog.versions import Controller
from railhead.components.controllers import charts
from railhead.components.fabric.fleet import LABEL_MOFED_WAIT, patience
from railhead.components.fabric.objects import FabricArgs
from railhead.components.fabric.railed import RailedObjects
from railhead.fabric.railed import DEVICE_PREFIX, NicRail
from railhead.fabric.sriov import SriovFabric
from railhead.model.cluster import Pool

API_VERSION = "sriovnetwork.openshift.io/v1"
# The operator reads one configuration of this name.
OPERATOR_CONFIG = "default"
# Nodes that get the config daemon. Without a selector that is
# ``node-role.kubernetes.io/worker: ""``, which neither kubeadm nor RKE2, K3s or a cloud puts on
# nodes (sriov-network-operator v1.6.0, controllers/helper.go and
# sriovnetworknodepolicy_controller.go). NVIDIA's operator labels each node that has its NICs, and
# with ``false`` at once where it loads no driver (network-operator v26.4.1,
# nicclusterpolicy_controller.go, handleMOFEDWaitLabelsNoConfig).
_DRIVER_READY = {LABEL_MOFED_WAIT: "false"}


@dataclass(frozen=True, kw_only=True)
class SriovArgs:
    """Arguments of :class:`Sriov`.

    Args:
        fabric: the fabric's section of a stack: its rails' NICs and its ``sriov`` settings.
        pools: the nodes whose NICs get virtual functions, by their labels.
        namespace: the SR-IOV operator's namespace.
        timeout_seconds: how long the removal of each object may take.
        after: resources that must exist before the policies, such as the operator.
    """

    fabric: SriovFabric
    pools: Sequence[Pool]
    namespace: str
    timeout_seconds: int = charts.RELEASE_SECONDS
    after: Sequence[pulumi.Resource] = ()


def operator_config(fabric: SriovFabric) -> dict[str, Any]:
    """Return SriovOperatorConfig's spec: no webhooks, and a node is drained before it changes.

    With drain disabled `handleDrain` returns at once, and a pool's maxUnavailable is never asked
    (sriov-network-operator, pkg/daemon/daemon.go, v1.6.0 and network-operator-v26.4).
    """
    return {
        "enableInjector": False,
        "enableOperatorWebhook": False,
        "disableDrain": not fabric.sriov.drain,
        "configurationMode": "daemon",
        "logLevel": 2,
        # Its plugin writes firmware, which fails under the kernel's lockdown (Secure Boot).
        **({} if fabric.sriov.firmware else {"disablePlugins": ["mellanox"]}),
        "configDaemonNodeSelector": dict(_DRIVER_READY),
    }


def _drivers_loaded(fabric: SriovFabric) -> dict[str, str]:
    """Return the label of nodes that have the operator's driver loaded; empty with the host's."""
    operator = fabric.network_operator
    return dict(_DRIVER_READY) if operator and operator.ofed else {}


def pool_config(pool: Pool, fabric: SriovFabric) -> dict[str, Any]:
    """Return SriovNetworkPoolConfig's spec: how many nodes change at once.

    No rdmaMode: with it the operator wants ``ib_core.netns_mode`` on the kernel's command line and
    reboots every node; upstream's kargs.sh cannot add it on Ubuntu, and the reboots never end
    (pkg/plugins/generic, syncDesiredKernelArgs; sriov-network-operator #959).
    """
    return {
        "nodeSelector": {"matchLabels": dict(pool.node_selector)},
        "maxUnavailable": fabric.sriov.max_unavailable,
    }


def node_policy(pool: Pool, rail: NicRail, fabric: SriovFabric) -> dict[str, Any]:
    """Return SriovNetworkNodePolicy's spec: virtual functions of a rail's NIC on a pool's nodes."""
    spec: dict[str, Any] = {
        "resourceName": rail.short_resource,
        "nodeSelector": dict(pool.node_selector) | _drivers_loaded(fabric),
        "nicSelector": {"pfNames": list(rail.pf_names)},
        "numVfs": fabric.sriov.vfs,
        "priority": 90,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": fabric.link_type,
        # A pod takes a function of each rail, of NICs at every socket, and no set of sockets is the
        # preferred one of all: kubelet's topology manager would refuse each pod where its policy is
        # `restricted` (kubernetes, pkg/kubelet/cm/topologymanager: mergePermutation and
        # policy_restricted.go; sriov-network-operator #435).
        "excludeTopology": True,
    }
    if fabric.sriov.externally_managed:
        spec["externallyManaged"] = True
    if fabric.link_type == "eth" and fabric.node_mtu:
        spec["mtu"] = fabric.node_mtu
    return spec


class Sriov(pulumi.ComponentResource):
    """The pools' and the rails' policies, then the operator's configuration, in this order.

    Attributes:
        policies: the SriovNetworkNodePolicies: one for each pool and rail.
    """

    policies: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: SriovArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Sriov", name, None, opts)
        seconds = args.timeout_seconds

        def made(
            short: str, kind: str, object_name: str, spec: dict[str, Any], after: Sequence[Any]
        ) -> kubernetes.apiextensions.CustomResource:
            return kubernetes.apiextensions.CustomResource(
                f"{name}-{short}",
                api_version=API_VERSION,
                kind=kind,
                metadata={"name": object_name, "namespace": args.namespace},
                spec=spec,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=list(after),
                    custom_timeouts=pulumi.CustomTimeouts(delete=f"{seconds}s"),
                ),
            )

        pools = [
            made(
                f"pool-{pool.name}",
                "SriovNetworkPoolConfig",
                pool.name,
                pool_config(pool, args.fabric),
                args.after,
            )
            for pool in args.pools
        ]
        self.policies = [
            made(
                f"policy-{pool.name}-{rail.name}",
                "SriovNetworkNodePolicy",
                f"{pool.name}-{rail.name}",
                node_policy(pool, rail, args.fabric),
                [*args.after, *pools],
            )
            for pool in args.pools
            for rail in args.fabric.rails
        ]
        # The operator does nothing without it (v1.6.0, sriovnetworknodepolicy_controller.go). It
        # comes last, so that nodes change once for all rails, and goes first: policies that go
        # before it take functions away by a drain, and its own end leaves such nodes cordoned.
        # An operator of others has its own, of the one name that there is.
        if args.fabric.network_operator is not None:
            made(
                "operator-config",
                "SriovOperatorConfig",
                OPERATOR_CONFIG,
                operator_config(args.fabric),
                [*args.after, *pools, *self.policies],
            )
        self.register_outputs({"policies": [p.name for p in args.pools]})


class SriovObjects(RailedObjects):
    """Virtual functions on nodes, then a network a rail over them."""

    def values(self, fabric: SriovFabric, operator: Controller) -> Mapping[str, Any]:  # noqa: ARG002
        """Turn the SR-IOV operator on, with the stack's configuration in place of the chart's."""
        own: dict[str, Any] = {
            "operator": {"resourcePrefix": DEVICE_PREFIX},
            # The stack writes it, so that what it says and when it goes are the stack's.
            "sriovOperatorConfig": {"deploy": False},
        }
        return {"sriovNetworkOperator": {"enabled": True}, "sriov-network-operator": own}

    def devices(
        self,
        name: str,
        args: FabricArgs,
        namespace: str,
        after: list[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """Return the operator's policies."""
        fabric = args.fabric
        if not isinstance(fabric, SriovFabric):
            return []
        wanted = SriovArgs(
            fabric=fabric,
            pools=args.pools,
            namespace=namespace,
            timeout_seconds=patience(args.pools),
            after=after,
        )
        return [Sriov(f"{name}-sriov", wanted, opts=opts)]
