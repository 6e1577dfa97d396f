"""Modes in which pods get virtual functions, and the settings of the SR-IOV operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from railhead.base.fields import Model, NodeCount
from railhead.base.sections import known
from railhead.catalog.parts import DeviceResource
from railhead.fabric.railed import RailDevices
from railhead.fabric.site import Check, FabricSite, Problem
from railhead.machines.machine import Machine

#: What is recorded of a pool whose SR-IOV operator the stack does not install.
OTHERS = "SR-IOV operator"
# What the API server lets a ConfigMap hold, in bytes.
_CONFIG_MAP = 1 << 20


class SriovConfig(Model):
    """The SR-IOV operator's preparation of nodes.

    ``vfs`` is the number of virtual functions per NIC. ``rdma_mode`` is the nodes' RDMA namespace
    mode, as their image sets it (``options ib_core netns_mode=0`` in /etc/modprobe.d/
    ib_core.conf is ``exclusive``); the node gate proves it, and the operator does not set it, since
    it would reboot every node. ``drain``: whether the operator drains a node before it changes or
    reboots it, ``max_unavailable`` of them at once; without it all nodes of a pool change at once,
    under running pods. ``firmware``: whether the operator sets SR-IOV in the NICs' firmware, which
    Secure Boot forbids; without it the firmware must have as many functions already.
    ``externally_managed``: the functions exist already, and the operator only hands them out.
    """

    vfs: Annotated[int, Field(strict=True, ge=1, le=127)] = 1
    rdma_mode: Literal["exclusive", "shared"] = "exclusive"
    drain: bool = True
    max_unavailable: NodeCount = 1
    firmware: bool = True
    externally_managed: bool = False


class SriovFabric(RailDevices):
    """A virtual function of each rail's NIC in every pod."""

    #: The operator's name of the ports' link type.
    link_type: ClassVar[Literal["eth", "ib"]]

    sriov: SriovConfig = SriovConfig()

    def taken_down_for(self, most_gpus: int) -> dict[str, Any]:
        """Return a policy's NICs and functions too (sriov-network-operator, pkg/daemon: drain).

        An operator of others is said alone, which is compared with nothing: :mod:`edits' doubts
        <railhead.config.edits.doubts>` ask whose configuration there was.
        """
        others = {} if self.network_operator else {OTHERS: "others'"}
        return (
            super().taken_down_for(most_gpus)
            | others
            | {
                "fabric.sriov.vfs": self.sriov.vfs,
                "fabric.node_mtu": self.node_mtu,
                "NICs of fabric.rails": " ".join(
                    sorted(name for rail in self.rails for name in rail.pf_names)
                ),
            }
        )

    @property
    def rdma_netns(self) -> str | None:
        """The RDMA mode that the stack states of the nodes' image."""
        return self.sriov.rdma_mode

    def per_node(self, device: DeviceResource, machine: Machine) -> int:  # noqa: ARG002
        """Return one device for each virtual function."""
        return self.sriov.vfs

    def pods_at_once(self, most: int) -> int:
        """Return at most one pod per virtual function: a pod takes one of each NIC."""
        return self.pods_per_node or min(most, self.sriov.vfs)

    def checks(self) -> tuple[Check, ...]:
        """Return the checks: functions for every pod, nodes that are left, room for them all."""
        return (*super().checks(), self._functions, self._drained, self._one_config_map)

    def _drained(self, site: FabricSite) -> Iterator[Problem]:
        nodes, most = sum(pool.nodes for pool in site.pools), self.sriov.max_unavailable
        # A pair of nodes is a trial.
        if most >= nodes > 2:
            yield (
                "fabric.sriov.max_unavailable",
                f"{most} is every one of the {nodes} nodes at once; a change would end all jobs",
            )

    def _functions(self, _: FabricSite) -> Iterator[Problem]:
        if self.pods_per_node is not None and self.pods_per_node > self.sriov.vfs:
            yield (
                "fabric.pods_per_node",
                f"{self.pods_per_node} is more than the {self.sriov.vfs} virtual functions a NIC "
                "of fabric.sriov.vfs",
            )

    def _one_config_map(self, site: FabricSite) -> Iterator[Problem]:
        """Yield more nodes than the operator's ConfigMap holds, which has a line for each.

        Beyond that it updates none, and the device plugins of nodes that join offer nothing; where
        all come at once, those of no node do (sriov-network-operator v1.6.0,
        sriovnetworknodepolicy_controller.go: syncDevicePluginConfigMap).
        """
        line = known(self._line)
        nodes, most = sum(pool.nodes for pool in site.pools), _CONFIG_MAP // len(line or " ")
        if line is not None and nodes > most:
            yield (
                "fabric.mode",
                f"{self.mode!r} is for {most} nodes at most with these rails, and there are "
                f"{nodes}: the SR-IOV operator keeps what each offers in one ConfigMap; take "
                "several clusters, or a mode without virtual functions",
            )

    def _line(self) -> str:
        """Return what the operator writes of a node (createDevicePluginResource there)."""
        rows = [
            {
                "resourceName": rail.short_resource,
                "excludeTopology": True,
                "selectors": {
                    "pfNames": list(rail.pf_names),
                    "linkTypes": ["infiniband" if self.link_type == "ib" else "ether"],
                    "IsRdma": True,
                    "NeedVhostNet": False,
                },
                "SelectorObj": None,
            }
            for rail in self.rails
        ]
        return json.dumps({"resourceList": rows}, separators=(",", ":"))
