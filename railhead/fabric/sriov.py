"""Modes in which pods get virtual functions: what the SR-IOV operator is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from railhead.base.fields import Model, Positive
from railhead.catalog.machine import Machine
from railhead.catalog.parts import DeviceResource
from railhead.fabric.mode import NETWORKS_NAMESPACE
from railhead.fabric.railed import RailDevices
from railhead.fabric.site import Check, Problem, Site


class SriovConfig(Model):
    """How the SR-IOV operator prepares nodes.

    ``vfs`` is the number of virtual functions a NIC. ``drain``: whether the operator drains a node
    to change it; a training fleet is not drained by surprise, so nodes are changed before jobs
    come. ``max_unavailable`` is how many nodes it may change at once.
    """

    vfs: Annotated[int, Field(strict=True, ge=1, le=127)] = 1
    rdma_mode: Literal["exclusive", "shared"] = "exclusive"
    drain: bool = False
    max_unavailable: Positive = 1


class SriovFabric(RailDevices):
    """A virtual function of each rail's NIC in every pod."""

    #: What the operator calls the ports, and the kind of its network objects.
    link_type: ClassVar[Literal["eth", "ib"]]
    network_kind: ClassVar[str]

    sriov: SriovConfig = SriovConfig()

    @property
    def networks_namespace(self) -> str | None:
        """The operator makes the networks, whoever installed it."""
        return NETWORKS_NAMESPACE

    def per_node(self, device: DeviceResource, machine: Machine) -> int:  # noqa: ARG002
        """One for each virtual function."""
        return self.sriov.vfs

    def pods_at_once(self, most: int) -> int:
        """A pod takes a function of each NIC."""
        return self.pods_per_node or min(most, self.sriov.vfs)

    def checks(self) -> tuple[Check, ...]:
        """There are functions for every pod."""
        return (*super().checks(), self._functions)

    def _functions(self, _: Site) -> Iterator[Problem]:
        if self.pods_per_node is not None and self.pods_per_node > self.sriov.vfs:
            yield (
                "fabric.pods_per_node",
                f"{self.pods_per_node} is more than the {self.sriov.vfs} virtual functions a NIC "
                "of fabric.sriov.vfs",
            )
