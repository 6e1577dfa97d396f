"""Whose the RDMA devices are: every network namespace's, or one's alone.

`ib_core`'s parameter says Y for shared, which is the kernel's default, and N for exclusive
(drivers/infiniband/core/device.c); what `rdma system set netns` changes is the same flag.
"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, text_of

ORDER = 15
_MODES = {"Y": "shared", "N": "exclusive"}
_ARGUMENT = "ib_core.netns_mode="


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Where the mode needs one of the two."""
    wanted = expected.rdma_netns
    if wanted is None:
        return []
    subject = "RDMA network namespaces"
    said = text_of(node.sys / "module" / "ib_core" / "parameters" / "netns_mode")
    found = _MODES.get(said, "")
    option = f"options ib_core netns_mode={int(wanted == 'shared')}"
    if found != wanted:
        return [
            Finding(
                name=subject,
                passed=False,
                text=f"devices are {found or 'of a mode that cannot be read'}, not {wanted}",
                remedy=f"`{option}` in /etc/modprobe.d/ib_core.conf of the nodes' image, which a "
                "driver in a container reads too, and in its initramfs; then a reboot",
            )
        ]
    if _ARGUMENT in text_of(node.proc / "cmdline"):
        # pkg/plugins/generic: without rdmaMode the operator takes the argument away, by a reboot.
        return [
            Finding(
                name=subject,
                passed=False,
                text=f"{wanted}, but by the kernel's command line, from which the SR-IOV operator "
                "removes it and reboots the node",
                remedy=f"`{option}` in /etc/modprobe.d/ib_core.conf in its place",
            )
        ]
    return [Finding(name=subject, passed=True, text=wanted)]
