"""The gate: what a pool's nodes must prove before jobs are placed on them."""

from __future__ import annotations

from railhead.fabric.kinds import FABRICS
from railhead.gate.expectation import Expectation, Interface, Plugin, Qos
from railhead.gate.state import LABEL, READY
from railhead.machines import MACHINES, Machine
from railhead.model.cluster import Cluster, Pool
from railhead.platform.registry import platform_of
from railhead.resolve.wiring import Wiring, wiring

#: What runs the gate where a stack names no image: its program needs Python and nothing else.
#: The digest is the index of 3.13.5-slim, as public Dockerfiles pin it and build logs pull it.
GATE_IMAGE = (
    "docker.io/library/python:3.13.5-slim"
    "@sha256:6544e0e002b40ae0f59bc3618b07c1e48064c4faed3a15ae2fbd2e8f663e8283"
)

# Whose machines have no hypervisor, which would hide links and IOMMU.
_BARE = ("metal", "oci")


def gated(cluster: Cluster) -> bool:
    """Return whether nodes must prove anything: where there is a fabric beside the pod network."""
    return cluster.gate.enabled and not FABRICS[cluster.fabric.kind].universal


def gate_labels(cluster: Cluster) -> dict[str, str]:
    """Return the labels that a node needs beside its pool's before jobs are placed on it."""
    return {LABEL: READY} if gated(cluster) else {}


def expectation(cluster: Cluster, pool: Pool) -> Expectation:
    """Return what a pool's nodes must prove, from instance type, fabric and the site's settings.

    A stand-in's rails and resources are real, its RDMA is not there.
    """
    fabric, machine = cluster.fabric, MACHINES[pool.instance_type]
    row = FABRICS[fabric.kind]
    verbs = row.rdma and not machine.stand_in
    wanted = cluster.gate.gpudirect
    rate = min((nic.rate_gbps for nic in machine.nics), default=0)
    mtu = fabric.node_mtu or 0
    wired = wiring(cluster, pool)
    bare = cluster.gate.pcie and machine.provider in _BARE
    return Expectation(
        fabric=f"{fabric.kind} in mode {fabric.mode}",
        nics=len(machine.nics) if verbs else 0,
        devices=fabric.nccl_hcas(machine) if verbs else (),
        interfaces=tuple(
            Interface(name=names[0], mtu=mtu, others=names[1:])
            for names in fabric.rail_interfaces()
        ),
        driver=row.driver,
        link_layer=row.link_layer if verbs else None,
        rate_gbps=rate if verbs and row.link_layer else 0,
        verbs=verbs,
        gpudirect=wanted if verbs and wanted != "none" else None,
        qos=_qos(cluster, machine, wired) if verbs and row.qos and not fabric.row.moves else None,
        resources=dict(wired.devices),
        movable=fabric.row.moves,
        plugin=None if machine.stand_in else _plugin(cluster),
        lustre_efa=platform_of(cluster).lustre_devices(cluster, pool),
        rdma_netns=fabric.rdma_netns if verbs else None,
        lasting_tokens=fabric.brings_multus,
        pcie=verbs and bare,
        # An Arm machine's NICs are always behind its SMMU.
        iommu=verbs and bare and machine.architecture == "amd64",
    )


def _plugin(cluster: Cluster) -> Plugin | None:
    row = cluster.fabric.node_plugin
    if row is None:
        return None
    # If the stack does not install it, its version is not known.
    ours = getattr(cluster.fabric, "install", False)
    return Plugin(
        name=row.name,
        version=row.release if ours else None,
        libraries=row.libraries,
        apertures=row.apertures,
        devices=tuple(d.removeprefix("/dev/") for d in (row.daemon.devices if row.daemon else ())),
        driver=row.qualified.driver if ours else None,
    )


def _qos(cluster: Cluster, machine: Machine, wired: Wiring) -> Qos | None:
    """Return the QoS to prove: that NCCL's packets go to the lossless priority."""
    site = cluster.gate
    if not site.demands_lossless(machine):
        return None
    sent = wired.environment.get("NCCL_IB_TC")
    return Qos(
        priority=site.priority,
        trust_dscp=site.trust_dscp,
        dscp=None if sent is None else int(sent) >> 2,
        ecn=site.ecn,
    )
