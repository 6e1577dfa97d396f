"""The owner of RDMA devices: every network namespace, or only one.

`ib_core`'s parameter says Y for shared, which is the kernel's default, and N for exclusive
(drivers/infiniband/core/device.c); `rdma system set netns` changes the same flag.
"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, text_of

ORDER = 15
_MODES = {"Y": "shared", "N": "exclusive"}
_ARGUMENT = "ib_core.netns_mode="


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check the mode, if one of the two is needed."""
    wanted = expected.rdma_netns
    if wanted is None:
        return []
    subject = "RDMA network namespaces"
    value = text_of(node.sys / "module" / "ib_core" / "parameters" / "netns_mode")
    mode = _MODES.get(value, "")
    option = f"options ib_core netns_mode={int(wanted == 'shared')}"
    if mode != wanted:
        return [
            Finding(
                name=subject,
                passed=False,
                text=f"devices are {mode or 'of a mode that cannot be read'}, not {wanted}",
                remedy=f"`{option}` in /etc/modprobe.d/ib_core.conf of the nodes' image, which a "
                "driver in a container reads too, and in its initramfs; then a reboot",
            )
        ]
    if _ARGUMENT in text_of(node.proc / "cmdline"):
        # pkg/plugins/generic: without rdmaMode the operator removes the argument, by a reboot.
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
