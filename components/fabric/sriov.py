"""Virtual functions on nodes: what the SR-IOV operator is told, rail by rail and pool by pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.fabric.cni import mtu_of
from components.fabric.fleet import LABEL_MOFED_WAIT, patience
from railhead.fabric.config import FunctionRail, IbFunctionRail, SriovIbFabric, SriovRoceFabric
from railhead.model.cluster import Cluster, Pool
from railhead.resolve.wiring import resource_of

API_VERSION = "sriovnetwork.openshift.io/v1"
# The operator reads one configuration of this name.
OPERATOR_CONFIG = "default"


@dataclass(frozen=True, kw_only=True)
class SriovArgs:
    """Arguments of :class:`Sriov`; ``namespace`` is the operator's."""

    cluster: Cluster
    fabric: SriovRoceFabric | SriovIbFabric
    namespace: str
    after: Sequence[pulumi.Resource] = ()


def operator_config(fabric: SriovRoceFabric | SriovIbFabric) -> dict[str, Any]:
    """SriovOperatorConfig: no webhooks of its own, and no drain of a node that trains."""
    return {
        "enableInjector": False,
        "enableOperatorWebhook": False,
        "disableDrain": not fabric.sriov.drain,
        "configurationMode": "daemon",
        "logLevel": 2,
        **(
            {"configDaemonNodeSelector": _drivers_loaded(fabric)} if _drivers_loaded(fabric) else {}
        ),
    }


def _drivers_loaded(fabric: SriovRoceFabric | SriovIbFabric) -> dict[str, str]:
    """The label that nodes get once the operator's own driver is loaded; empty with the host's."""
    operator = fabric.network_operator
    return {LABEL_MOFED_WAIT: "false"} if operator and operator.ofed else {}


def pool_config(pool: Pool, fabric: SriovRoceFabric | SriovIbFabric) -> dict[str, Any]:
    """SriovNetworkPoolConfig: how many nodes change at once, and whose RDMA devices are."""
    return {
        "nodeSelector": {"matchLabels": dict(pool.node_selector)},
        "maxUnavailable": fabric.sriov.max_unavailable,
        "rdmaMode": fabric.sriov.rdma_mode,
    }


def node_policy(
    pool: Pool, rail: FunctionRail | IbFunctionRail, fabric: SriovRoceFabric | SriovIbFabric
) -> dict[str, Any]:
    """SriovNetworkNodePolicy: the virtual functions of one rail's NIC on one pool's nodes."""
    spec: dict[str, Any] = {
        "resourceName": resource_of(rail),
        "nodeSelector": dict(pool.node_selector) | _drivers_loaded(fabric),
        "nicSelector": {"pfNames": list(rail.pf_names)},
        "numVfs": fabric.sriov.vfs,
        "priority": 90,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": "ib" if isinstance(fabric, SriovIbFabric) else "eth",
    }
    if isinstance(fabric, SriovRoceFabric) and (mtu := mtu_of(fabric)):
        spec["mtu"] = mtu
    return spec


class Sriov(pulumi.ComponentResource):
    """The operator's configuration, the pools' and the rails' policies, in this order."""

    policies: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: SriovArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Sriov", name, None, opts)
        seconds = patience(args.cluster)

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

        config = made(
            "operator-config",
            "SriovOperatorConfig",
            OPERATOR_CONFIG,
            operator_config(args.fabric),
            args.after,
        )
        pools = [
            made(
                f"pool-{pool.name}",
                "SriovNetworkPoolConfig",
                pool.name,
                pool_config(pool, args.fabric),
                [*args.after, config],
            )
            for pool in args.cluster.pools
        ]
        self.policies = [
            made(
                f"policy-{pool.name}-{rail.name}",
                "SriovNetworkNodePolicy",
                f"{pool.name}-{rail.name}",
                node_policy(pool, rail, args.fabric),
                [*args.after, config, *pools],
            )
            for pool in args.cluster.pools
            for rail in args.fabric.rails
        ]
        self.register_outputs({"policies": [p.name for p in args.cluster.pools]})
