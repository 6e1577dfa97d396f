"""Lustre over EFA: without it the node mounts over TCP, at a fraction of the speed and in silence.

What sets it up at boot leaves the number of LNet interfaces of kind ``efa`` that are up; the module
that carries them is looked at each time. `lnetctl` itself needs root.
"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import LUSTRE_EFA_RESULT, Node, number, text_of

ORDER = 50
_REMEDY = (
    "`journalctl -u railhead-lustre-efa` and `lnetctl net show --net efa` on the node tell why; "
    "a new node tries again, `lustre_efa_devices: 0` of the pool mounts over TCP"
)


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check the devices that carry Lustre, if any must."""
    return [_carried(node, expected.lustre_efa)] if expected.lustre_efa else []


def _carried(node: Node, wanted: int) -> Finding:
    subject = "Lustre over EFA"
    count = int(number(text_of(node.run / LUSTRE_EFA_RESULT.rpartition("/")[2])))
    if not (node.sys / "module" / "kefalnd").is_dir():
        text = "its driver kefalnd is not loaded: the node mounts over TCP"
    elif count < wanted:
        text = f"{count} of {wanted} devices carry it" + (
            ": the node mounts over TCP" if count == 0 else ""
        )
    else:
        return Finding(name=subject, passed=True, text=f"{count} devices")
    return Finding(name=subject, passed=False, text=text, remedy=_REMEDY)
