"""Lossless Ethernet: PFC, trust of DSCP and ECN of the priority that carries RoCE."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.dcb import Dcb, DcbError
from railhead.gate.expectation import Expectation, Qos
from railhead.gate.node import Node, text_of

ORDER = 40


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check each interface, if the site's Ethernet is lossless."""
    if expected.qos is None:
        return []
    return [
        f for interface in expected.interfaces for f in _qos(node, expected.qos, interface.name)
    ]


def _qos(node: Node, qos: Qos, interface: str) -> list[Finding]:
    if not (node.sys / "class" / "net" / interface).exists():
        return []
    findings = []
    try:
        dcb = node.dcb(interface)
    except DcbError as error:
        findings.append(
            Finding(
                name=f"PFC and trust of {interface}",
                passed=False,
                text=f"cannot be read: {error}",
                remedy="the interface's driver must offer DCB (CONFIG_MLX5_CORE_EN_DCB)",
            )
        )
    else:
        findings.append(_pfc(dcb, qos.priority, interface))
        if qos.trust_dscp:
            findings.append(_trust(dcb, qos, interface))
    if qos.ecn:
        findings.append(_ecn(node, qos.priority, interface))
    return findings


def _pfc(dcb: Dcb, priority: int, interface: str) -> Finding:
    subject = f"PFC of {interface}"
    if priority in dcb.pfc:
        return Finding(name=subject, passed=True, text=f"on priority {priority}")
    now = ", ".join(map(str, sorted(dcb.pfc))) or "none"
    bits = ",".join("1" if p == priority else "0" for p in range(8))
    return Finding(
        name=subject,
        passed=False,
        text=f"priority {priority} drops instead of pausing; priorities with PFC: {now}",
        remedy=f"`mlnx_qos -i {interface} --pfc {bits}` on the node, and the same on the switch",
    )


def _trust(dcb: Dcb, qos: Qos, interface: str) -> Finding:
    """Check that the DSCP of NCCL's packets is sorted into the priority that pauses."""
    subject, priority = f"DSCP trust of {interface}", qos.priority
    remedy = (
        f"`mlnx_qos -i {interface} --trust dscp` on the node; `mlnx_qos -i {interface} --dscp2prio "
        f"set,{'DSCP' if qos.dscp is None else qos.dscp},{priority}`"
    )
    if not dcb.dscp:
        detail = "the port trusts PCP, not DSCP"
    elif qos.dscp is not None and dcb.dscp.get(qos.dscp) == priority:
        return Finding(
            name=subject, passed=True, text=f"sorts DSCP {qos.dscp} into priority {priority}"
        )
    elif qos.dscp is not None:
        other = dcb.dscp.get(qos.dscp)
        into = "no known priority" if other is None else f"priority {other}"
        detail = f"DSCP {qos.dscp}, which NCCL sends with, is sorted into {into}"
        remedy += ", and the same on the switch; or gate.dscp is another"
    elif priority in dcb.dscp.values():
        return Finding(name=subject, passed=True, text=f"sorts into priority {priority}")
    else:
        detail = "no DSCP is sorted into it"
    return Finding(name=subject, passed=False, text=f"priority {priority}: {detail}", remedy=remedy)


def _ecn(node: Node, priority: int, interface: str) -> Finding:
    """Check both ends of DCQCN: one answers marks, the other slows down."""
    subject = f"ECN of {interface}"
    base = node.sys / "class" / "net" / interface / "ecn"
    off = []
    for end in ("roce_np", "roce_rp"):
        now = text_of(base / end / "enable" / str(priority))
        if not now:
            return Finding(
                name=subject,
                passed=False,
                text=f"{end} of priority {priority} cannot be read: not DOCA-OFED's driver",
                remedy="install DOCA-OFED (network_operator.ofed), or set gate.ecn to false where "
                "the kernel's own driver is used and the NIC's firmware defaults are trusted",
            )
        if now != "1":
            off.append(end)
    if off:
        return Finding(
            name=subject,
            passed=False,
            text=f"{' and '.join(off)} of priority {priority} is off",
            remedy=f"`echo 1 > /sys/class/net/{interface}/ecn/{off[0]}/enable/{priority}` on the "
            "node, and ECN marking on the switch",
        )
    return Finding(name=subject, passed=True, text=f"on priority {priority}")
