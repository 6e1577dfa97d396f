"""A stack for every fabric, mode and platform that the catalogue says go together."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from railhead.fabric.modes import MODES
from railhead.machines import MACHINES, Machine
from railhead.platform.registry import platforms_of
from tests.components.recording import Recording, run_stack, stack_cluster

_NAME = 'device.attributes["dra.net"].ifName'
_SELECTOR = f'has({_NAME}) && {_NAME}.startsWith("ens")'


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of the table: a fabric by a mode on a platform, and a machine that has it."""

    fabric: str
    mode: str
    platform: str
    machine: str
    variant: str = ""

    @property
    def id(self) -> str:
        plain = f"{self.mode}-{self.fabric}-{self.platform}"
        return f"{plain}-{self.variant}" if self.variant else plain


def _machine(fabric: str, platform: str) -> Machine | None:
    can = [
        machine
        for machine in MACHINES.values()
        if platform in machine.platforms and (fabric == "ethernet" or fabric in machine.fabrics)
    ]
    # What the shipped stacks are written for, else one of eight GPUs that is no stand-in.
    shipped = ("p5.48xlarge", "a3-ultragpu-8g", "a3-megagpu-8g", "hgx-h100")
    can.sort(
        key=lambda m: (m.name not in shipped, m.provider == "lab" and platform != "lab", -m.gpus)
    )
    return can[0] if can else None


def cases() -> list[Case]:
    """Return every combination that the catalogue has, in its order."""
    results = []
    for mode in MODES.values():
        for platform in ("lab", "existing", "aws", "gcp"):
            for fabric in sorted(mode.fabrics):
                machine = _machine(fabric, platform)
                if platform in platforms_of(mode) and machine is not None:
                    results.append(
                        Case(
                            fabric=fabric,
                            mode=mode.name,
                            platform=platform,
                            machine=machine.name,
                        )
                    )
    return results


_OWN = {
    "network_operator": None,
    "ipam": {"kind": "host-local", "data_dir": "/var/lib/cni/rails"},
}
#: (mode, fabric, platform) -> variant -> what its `fabric` section adds.
VARIANTS: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {
    ("rdma-shared", "roce", "existing"): {
        "own-networks": _OWN,
        "host-network": {"rails": [], "host_network": True, "ipam": None, "cluster_ranges": []},
    },
    ("ipoib", "infiniband", "existing"): {"own-networks": _OWN},
    ("host-device", "roce", "existing"): {"own-networks": _OWN},
    ("sriov-roce", "roce", "existing"): {
        "routed": {},
        "prefix": {"ipam": {"kind": "nv-ipam", "pool": "prefix", "per_node": 13}},
        "manual": {"network_operator": {"ofed": {"upgrade": "manual"}}},
        "shared": {"sriov": {"vfs": 4, "rdma_mode": "shared", "drain": True}},
    },
    ("provider-native", "roce", "existing"): {
        "functions": {
            "resource": "nvidia.com/rdma-vf",
            "network": "default/rdma-vf",
            "per_pod": None,
            "hcas": None,
        },
        "host-network": {"resource": "nvidia.com/rdma", "host_network": True},
    },
    ("efa", "efa", "aws"): {"dra": {"allocation": "dra"}},
    ("dranet", "roce", "existing"): {
        "selected": {
            "driver": "existing",
            "selector": _SELECTOR,
        }
    },
}


def every() -> list[Case]:
    """Return the cases, each followed by its variants."""
    return [
        item
        for case in cases()
        for item in (
            case,
            *(
                replace(case, variant=variant)
                for variant in VARIANTS.get((case.mode, case.fabric, case.platform), {})
            ),
        )
    ]


#: Each mode once, where it makes the most kinds of objects.
USUAL = (
    "dranet-gcp-rdma-existing",
    "efa-efa-aws-dra",
    "gcp-rdma-gcp-rdma-gcp",
    "host-device-roce-existing-own-networks",
    "ipoib-infiniband-existing",
    "none-ethernet-aws",
    "provider-native-roce-existing",
    "rdma-shared-roce-existing",
    "sriov-ib-infiniband-existing",
    "sriov-roce-roce-existing-manual",
    "tcpx-tcpx-gcp",
    "tcpxo-tcpxo-gcp",
)


def usual() -> list[Case]:
    """Return the cases that a test of a few takes."""
    return [case for case in every() if case.id in USUAL]


def in_two() -> list[Any]:
    """Return two parameters: the usual cases, and all others for a costlier target."""
    others = [case for case in every() if case.id not in USUAL]
    return [
        pytest.param(usual(), id="usual"),
        pytest.param(others, id="others", marks=pytest.mark.exhaustive),
    ]


_BASE = {"lab": "lab", "existing": "lab", "aws": "aws-p5-prod", "gcp": "gcp-a3-ultra"}


def cluster(case: Case) -> dict[str, Any]:
    """Return the raw `railhead:cluster` of a case."""
    base = _BASE[case.platform]
    if case.platform == "gcp" and case.fabric in ("tcpx", "tcpxo"):
        base = "gcp-a3-mega"
    raw = copy.deepcopy(stack_cluster(base))
    # Runtimes differ in their framework alone, which has tests of its own.
    raw["runtimes"] = raw["runtimes"][:1]
    raw["fabric"] = fabric(case)
    if case.variant:
        raw["fabric"] |= copy.deepcopy(
            VARIANTS[case.mode, case.fabric, case.platform][case.variant]
        )
    if case.variant == "routed":
        for index, rail in enumerate(raw["fabric"]["rails"]):
            rail["gateway"] = f"192.168.{16 * index}.1"
    if case.variant == "dra":
        raw["platform"]["kubernetes"] = "1.35"
    for pool in raw["pools"]:
        pool["instance_type"] = case.machine
    room = MACHINES[case.machine]
    if case.platform in ("aws", "gcp"):
        for runtime in raw["runtimes"]:
            runtime["cpu"] = str(min(int(runtime["cpu"]), room.schedulable_vcpus))
            memory = int(runtime["memory"].removesuffix("Gi"))
            runtime["memory"] = f"{min(memory, room.schedulable_memory_gib)}Gi"
    if case.platform == "existing":
        raw["versions"] = "proven"
        raw["platform"] = {"kind": "existing", "kubeconfig": "~/.kube/metal"}
        del raw["controllers"]
        del raw["runtimes"][0]["shared_memory"]
    if case.mode == "dranet" and case.platform == "gcp":
        raw["pools"][0]["networking"] = "dranet"
        raw["platform"]["gpu_networks"] = None
        raw["platform"].pop("gpu_networks")
        raw["platform"]["kubernetes"] = "1.35"
    return raw


@cache
def recorded(case: Case) -> Recording:
    """Return what the program registers for a case; it runs once for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        return run_stack("lab", Path(folder), cluster=cluster(case))


def _rails(case: Case, **fields: Any) -> Iterator[dict[str, Any]]:
    nics = MACHINES[case.machine].nics
    for index in range(len(nics)):
        yield {"name": f"rail-{index}", "subnet": f"192.168.{16 * index}.0/20"} | {
            key: value.format(index) if isinstance(value, str) else [value[0].format(index)]
            for key, value in fields.items()
        }


def fabric(case: Case) -> dict[str, Any]:
    """Return the `fabric` section of a case, with everything that its mode can have."""
    raw: dict[str, Any] = {"kind": case.fabric, "mode": case.mode}
    if case.platform == "lab" and case.mode == "rdma-shared":
        return dict(stack_cluster("lab")["fabric"])
    if case.platform == "lab" and case.mode == "host-device":
        own = stack_cluster("lab")["fabric"]
        rail = {key: value for key, value in own["rails"][0].items() if key != "master"}
        return raw | {
            "resources": False,
            "lock_memory": False,
            "rails": [rail | {"pf_names": ["rail0"]}],
            "ipam": own["ipam"],
        }
    railed = {
        "cluster_ranges": ["10.0.0.0/8"],
        "network_operator": {"ofed": {"upgrade": "rolling"}},
        "ipam": {"kind": "nv-ipam"},
    }
    hcas = [f"mlx5_{index}" for index in range(len(MACHINES[case.machine].nics))]
    if case.mode == "rdma-shared" and case.fabric == "infiniband":
        del railed["ipam"]
        return raw | railed | {"hcas": hcas}
    if case.mode in ("rdma-shared", "ipoib"):
        return raw | railed | {"rails": list(_rails(case, master="ens{}np0")), "hcas": hcas}
    if case.mode in ("sriov-roce", "sriov-ib"):
        sriov = {"vfs": 8, "rdma_mode": "exclusive", "max_unavailable": 2}
        rails = list(_rails(case, pf_names=("ens{}np0",)))
        return raw | railed | {"rails": rails, "sriov": sriov}
    if case.mode == "host-device":
        rails = list(_rails(case, pf_names=("ens{}np0",), pci_addresses=("0000:{}b:00.0",)))
        return raw | railed | {"rails": rails}
    if case.mode == "provider-native":
        return raw | {"resource": "rdma/ib", "per_pod": 1, "hcas": hcas}
    if case.mode == "dranet":
        own = {"selector": _SELECTOR}
        picked = own if case.fabric in ("roce", "infiniband") else {}
        return raw | {"driver": "managed" if case.platform == "gcp" else "install"} | picked
    return raw
