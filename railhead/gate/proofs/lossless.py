"""Lossless Ethernet: PFC, trust of DSCP and ECN of the priority that carries RoCE."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.dcb import Dcb, DcbError
from railhead.gate.expectation import Expectation, Qos
from railhead.gate.node import Node, text_of

ORDER = 40


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Of each interface, where the site's Ethernet is lossless."""
    if expected.qos is None:
        return []
    return [f for one in expected.interfaces for f in _qos(node, expected.qos, one.name)]


def _qos(node: Node, qos: Qos, interface: str) -> list[Finding]:
    if not (node.sys / "class" / "net" / interface).exists():
        return []
    found = []
    try:
        dcb = node.dcb(interface)
    except DcbError as error:
        found.append(
            Finding(
                name=f"PFC and trust of {interface}",
                passed=False,
                text=f"cannot be read: {error}",
                remedy="the interface's driver must offer DCB (CONFIG_MLX5_CORE_EN_DCB)",
            )
        )
    else:
        found.append(_pfc(dcb, qos.priority, interface))
        if qos.trust_dscp:
            found.append(_trust(dcb, qos.priority, interface))
    if qos.ecn:
        found.append(_ecn(node, qos.priority, interface))
    return found


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


def _trust(dcb: Dcb, priority: int, interface: str) -> Finding:
    subject = f"DSCP trust of {interface}"
    if any(p == priority for p in dcb.dscp.values()):
        return Finding(name=subject, passed=True, text=f"sorts into priority {priority}")
    detail = "no DSCP is sorted into it" if dcb.dscp else "the port trusts PCP, not DSCP"
    return Finding(
        name=subject,
        passed=False,
        text=f"priority {priority}: {detail}",
        remedy=f"`mlnx_qos -i {interface} --trust dscp` on the node; "
        f"`mlnx_qos -i {interface} --dscp2prio set,DSCP,{priority}` for a DSCP of your own",
    )


def _ecn(node: Node, priority: int, interface: str) -> Finding:
    """Both ends of DCQCN: the notification point answers marks, the reaction point slows down."""
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
