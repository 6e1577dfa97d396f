"""Rows of truth: what nodes are, what controllers do, what clouds refuse, each with its source.

They lie in a file a provider beside this module, and were written from upstream's sources alone.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from railhead.base.data import load
from railhead.base.errors import InputError

FOLDER = Path(__file__).resolve().parent
Sure = Literal["read", "inferred"]


class _Row(BaseModel):
    """A row with its source.

    Attributes:
        id: its name, unlike any other row's.
        source: where it was read.
        sure: ``read`` in the source, or ``inferred`` from it.
        note: what a reader should know of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    source: str = Field(min_length=8)
    sure: Sure
    note: str = ""


class Taint(BaseModel):
    """A taint of a node, as Kubernetes has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class PlatformRow(_Row):
    """Labels, taints and programs that a platform puts on every node of a kind.

    Attributes:
        platform: the stack's platform.
        labels: labels; ``{name}``, ``{machine}``, ``{zone}``, ``{region}``, ``{group}``,
            ``{capacity}`` and ``{driver}`` in a value are the node's own.
        taints: taints without anybody's asking.
        host: what the node's image has: ``gpu-driver``, ``container-toolkit``, ``nic-driver``.
        absent: what such a node does not have, though one may think so.
    """

    platform: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    host: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()


class MachineRow(_Row):
    """A machine on a platform.

    Attributes:
        platform: the stack's platform.
        machine: its type; ``*`` is every other.
        labels: labels that only this type has.
        layers: labels with its place in the network, the widest first; none where it gets none.
        placed: what of its pool gives it those labels: ``compact``, ``policy``, ``reservation`` or
            ``on-demand``; empty where any does.
        allocatable: what pods may take of it before any plugin runs.
        gpus: GPUs in it, which a device plugin may offer.
        efa: EFA interfaces that it can have.
    """

    platform: str
    machine: str
    labels: Mapping[str, str] = Field(default_factory=dict)
    layers: tuple[str, ...] = ()
    placed: frozenset[str] = frozenset()
    allocatable: Mapping[str, str]
    gpus: int = Field(ge=0)
    efa: int = Field(default=0, ge=0)


class RuleRow(_Row):
    """A controller's or a plugin's behaviour, which a player follows.

    Attributes:
        plays: the controller.
        rule: what it does.
    """

    plays: str
    rule: str


class RefusalRow(_Row):
    """A refusal of a cloud.

    Attributes:
        api: the call.
        refused_when: under what condition.
        error: what it answers.
    """

    api: str
    refused_when: str
    error: str


class Truth(BaseModel):
    """All rows of a file, or of all files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    platforms: tuple[PlatformRow, ...] = ()
    machines: tuple[MachineRow, ...] = ()
    rules: tuple[RuleRow, ...] = ()
    refusals: tuple[RefusalRow, ...] = ()

    def rows(self) -> dict[str, _Row]:
        """Return every row by its id."""
        every = (*self.platforms, *self.machines, *self.rules, *self.refusals)
        return {row.id: row for row in every}

    def platform(self, identifier: str) -> PlatformRow:
        """Return a platform's row by its id."""
        return next(row for row in self.platforms if row.id == identifier)

    def machine(self, platform: str, machine: str) -> MachineRow:
        """Return what a machine is on a platform.

        Raises:
            InputError: no row says so.
        """
        rows = [row for row in self.machines if row.platform == platform]
        for name in (machine, "*"):
            for row in rows:
                if row.machine == name:
                    return row
        known = ", ".join(sorted(row.machine for row in rows)) or "none"
        raise InputError(
            f"the twin has no row of a {machine} on {platform}; there are: {known}",
            remedy=f"add one, with its source, to railhead/twin/truth ({platform})",
        )


@functools.cache
def truth() -> Truth:
    """Return the rows of all files."""
    parts = [_read(path) for path in sorted(FOLDER.glob("*.yaml"))]
    return Truth(
        platforms=tuple(row for part in parts for row in part.platforms),
        machines=tuple(row for part in parts for row in part.machines),
        rules=tuple(row for part in parts for row in part.rules),
        refusals=tuple(row for part in parts for row in part.refusals),
    )


def _read(path: Path) -> Truth:
    return Truth.model_validate(load(path))


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node of a twin: what is in it, and what Kubernetes knows of it from the start.

    Args:
        name: the node's name.
        pool: the stack's pool; empty for a node of none.
        labels: labels of the platform, the machine and the node's maker.
        taints: taints, of the same origin.
        allocatable: what pods may take of it before any plugin runs.
        gpus: GPUs in it.
        efa: EFA interfaces that are attached to it.
        interfaces: names of its fabric NICs.
        link: what they speak, as plugins name it: ``ether`` or ``infiniband``.
        nics: VPC and subnet of each of its further interfaces.
        host: what its image has (:class:`PlatformRow`).
    """

    name: str
    pool: str = ""
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, str]
    gpus: int = 0
    efa: int = 0
    interfaces: tuple[str, ...] = ()
    link: str = "ether"
    nics: tuple[tuple[str, str], ...] = ()
    host: frozenset[str] = field(default_factory=frozenset)

    def body(self, address: str) -> dict[str, Any]:
        """Return the Node as its kubelet would register it, ready, at an IPv4 address."""
        conditions = [
            {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            *(
                {"type": kind, "status": "False", "reason": "KubeletHasSufficient"}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
            ),
        ]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            "spec": {"taints": [t.model_dump() for t in self.taints]},
            "status": {
                "phase": "Running",
                # KWOK takes the address of pods on the host's network from here, and reports a
                # pod without one as ready again each second (its stage `pod-ready`).
                "addresses": [
                    {"type": "InternalIP", "address": address},
                    {"type": "Hostname", "address": self.name},
                ],
                "allocatable": dict(self.allocatable),
                "capacity": dict(self.allocatable),
                "conditions": conditions,
                "nodeInfo": {
                    "architecture": self.labels.get("kubernetes.io/arch", "amd64"),
                    "operatingSystem": "linux",
                    **dict.fromkeys(_INFO, "twin"),
                },
            },
        }


_INFO = (
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "osImage",
    "systemUUID",
)


def filled(labels: Mapping[str, str], **values: str) -> dict[str, str]:
    """Return a row's labels with the node's own values in their places."""
    return {key: value.format_map(values) for key, value in labels.items()}
