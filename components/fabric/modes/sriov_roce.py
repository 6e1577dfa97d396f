"""Virtual functions of Ethernet NICs, and the SR-IOV operator's network a rail."""

from __future__ import annotations

import json
from typing import Any

from railhead.components.fabric import cni
from railhead.components.fabric.sriov import API_VERSION, SriovObjects
from railhead.fabric.modes.sriov_roce import SriovRoceFabric
from railhead.fabric.railed import FunctionRail


class SriovRoceObjects(SriovObjects):
    """Functions whose RDMA device follows the interface."""

    def chained(
        self, rail: FunctionRail, fabric: SriovRoceFabric, *, shared_wire: bool
    ) -> list[dict[str, Any]]:
        """Add the plugin that moves the RDMA device into the pod with its interface."""
        rdma = [{"type": "rdma"}] if fabric.sriov.rdma_mode == "exclusive" else []
        return [*super().chained(rail, fabric, shared_wire=shared_wire), *rdma]

    def network(
        self, rail: FunctionRail, fabric: SriovRoceFabric, namespace: str
    ) -> dict[str, Any]:
        """SriovNetwork, which is in the operator's own namespace."""
        chained = self.chained(rail, fabric, shared_wire=len(fabric.rails) > 1)
        return {
            "apiVersion": API_VERSION,
            "kind": "SriovNetwork",
            "metadata": {"name": rail.name, "namespace": namespace},
            "spec": {
                "networkNamespace": str(fabric.networks_namespace),
                "resourceName": rail.short_resource,
                "linkState": "enable",
                "ipam": json.dumps(cni.ipam(rail, fabric), sort_keys=True),
                **cni.meta_plugins(chained),
            },
        }


OBJECTS = SriovRoceObjects()
