"""Figures of a row that must have been read in its source, as text."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.catalog.parts import DeviceResource
from railhead.fabric.kind import FabricKind
from railhead.fabric.mode import Mode
from railhead.fabric.plugin import NodePlugin
from railhead.machines.machine import GkeMachine, Machine, Measurement, Nic

#: Where EFA goes beyond card 0 device 0: EC2 user guide, efa-acc-inst-types, written by hand.
EFA_CARDS = {
    "p4d.24xlarge": range(4),
    "p4de.24xlarge": range(4),
    "p5.4xlarge": range(1),
    "p5.48xlarge": range(32),
    "p5e.48xlarge": range(32),
    "p5en.48xlarge": range(16),
    "p6-b200.48xlarge": range(8),
    "p6-b300.48xlarge": range(1, 17),
    "p6e-gb200.36xlarge": range(1, 17, 4),
}


def of_machine(machine: Machine) -> Mapping[str, str]:
    """Counts, names and rates of an instance type, and what others measured on it."""
    results = {
        "gpus": str(machine.gpus),
        "gpu_memory_gib": str(machine.gpu_memory_gib),
        "vcpus": str(machine.vcpus),
        "memory_gib": str(machine.memory_gib),
        "schedulable": f"{machine.schedulable_vcpus}, {machine.schedulable_memory_gib}",
        "nics": _nics(machine.nics),
        "rate_gbps": ", ".join(str(rate) for rate in sorted({n.rate_gbps for n in machine.nics})),
        "hcas": ", ".join(machine.hcas) or "none",
        "nvlink_domain": str(machine.nvlink_domain),
    }
    if machine.host_nics:
        results["host_nics"] = _nics(machine.host_nics)
    if machine.rail_mtu is not None:
        results["rail_mtu"] = str(machine.rail_mtu)
    for measured in machine.published:
        name = f"published {_measurement(measured)}"
        results[name] = ", ".join(filter(None, (results.get(name, ""), str(measured.busbw))))
    return results | (_of_gke(machine.gke) if machine.gke else {})


def of_fabric(fabric: FabricKind) -> Mapping[str, str]:
    """Variables, also of single machines, the rails' MTU, and what a plugin consists of."""
    results = {variable.name: variable.value for variable in fabric.environment}
    for row in fabric.additions:
        for machine in row.machines:
            results |= {f"{v.name} on {machine}": v.value for v in row.environment}
    if fabric.mtu is not None:
        results["mtu"] = str(fabric.mtu)
    return results | (_of_plugin(fabric.plugin) if fabric.plugin else {})


def of_mode(mode: Mode) -> Mapping[str, str]:
    """Resources with their counts, huge pages, capabilities and directories of the node."""
    results = {f"resource {device.name}": _device(device) for device in mode.devices}
    results |= {f"capability {c.name}": ", ".join(sorted(c.fabrics)) for c in mode.capabilities}
    results |= {f"path {p.host} in {p.container}": p.mount for p in mode.host_paths}
    if mode.hugepages_mib:
        results["hugepages_mib"] = str(mode.hugepages_mib)
    return results


def _nics(nics: tuple[Nic, ...]) -> str:
    """Places as ``card.device``, runs of cards joined."""
    runs: list[list[Nic]] = []
    for nic in nics:
        last = runs[-1][-1] if runs else None
        if last and (last.card + 1, last.device, last.interface) == (
            nic.card,
            nic.device,
            nic.interface,
        ):
            runs[-1].append(nic)
        else:
            runs.append([nic])
    return "; ".join(
        f"{run[0].interface} at {run[0].card}.{run[0].device}"
        + (f" to {run[-1].card}.{run[-1].device}" if len(run) > 1 else "")
        for run in runs
    )


def _measurement(measured: Measurement) -> str:
    sharp = " with SHARP" if measured.sharp else ""
    return (
        f"{measured.collective} {measured.nodes} nodes {measured.size_bytes} bytes "
        f"{measured.transport}{sharp}"
    )


def _of_gke(gke: GkeMachine) -> dict[str, str]:
    return {
        "gke accelerator": gke.accelerator,
        "gke network_profile": str(gke.network_profile),
        "gke mtu": str(gke.mtu),
        "gke local_ssds": str(gke.local_ssds),
        "gke compact": f"{gke.compact}, {gke.least_max_distance}",
        "gke compact_nodes": str(gke.compact_nodes),
        "gke labelled": str(gke.labelled),
        "gke boot_disks": ", ".join(gke.boot_disks),
        "gke flex_start_compact": str(gke.flex_start_compact),
        "gke dranet": str(gke.dranet),
        "gke accelerator_topology": str(gke.accelerator_topology),
    }


def _of_plugin(plugin: NodePlugin) -> dict[str, str]:
    row = plugin.qualified
    results = {
        "plugin image": plugin.installer.reference,
        "plugin accelerators": ", ".join(plugin.accelerators),
        "plugin driver": str(row.driver),
        "plugin cuda": str(row.cuda),
        "plugin nccl": row.nccl,
        "plugin libraries": ", ".join(plugin.libraries),
    }
    if plugin.apertures:
        results["plugin apertures"] = str(plugin.apertures)
    if plugin.daemon:
        results["daemon image"] = plugin.daemon.image.reference
        results["daemon command"] = " ".join(plugin.daemon.command)
        results["daemon capabilities"] = ", ".join(plugin.daemon.capabilities)
        results["daemon devices"] = ", ".join(plugin.daemon.devices)
    return results


def _device(device: DeviceResource) -> str:
    return f"{device.per_pod} a pod, {device.per_node} a node, by {device.scope}"
