"""Reader of an Ethernet port's lossless settings, by the kernel's DCB netlink.

Reading needs no privilege, only the port's network namespace. The numbers are those of
linux/dcbnl.h and linux/rtnetlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_RTM_GETDCB = 78
_NLMSG_ERROR = 2
_NLM_F_REQUEST = 1
_DCB_CMD_IEEE_GET = 21
_ATTR_IFNAME = 1
_ATTR_IEEE = 13
_IEEE_PFC = 2
_IEEE_APP_TABLE = 3
_APP_SELECTOR_DSCP = 5
_NESTED_MASK = 0x3FFF


class DcbError(Exception):
    """The kernel or the driver did not answer; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Dcb:
    """The lossless settings of a port.

    Args:
        pfc: priorities that pause instead of dropping.
        dscp: DSCP to priority, as the operating system set it. The port trusts DSCP when there is
            any: in mlx5 the first DSCP entry switches the trust state, the last to go restores it.
    """

    pfc: frozenset[int]
    dscp: dict[int, int]


def request(interface: str) -> bytes:
    """Return the netlink message that asks for an interface's IEEE 802.1Qaz settings."""
    name = interface.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(name), _ATTR_IFNAME) + name
    attribute += b"\0" * (-len(attribute) % 4)
    body = struct.pack("=BBH", socket.AF_UNSPEC, _DCB_CMD_IEEE_GET, 0) + attribute
    return struct.pack("=IHHII", 16 + len(body), _RTM_GETDCB, _NLM_F_REQUEST, 1, 0) + body


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & _NESTED_MASK, data[at + 4 : at + length]
        at += (length + 3) & ~3


def parse(message: bytes) -> Dcb:
    """Read the kernel's answer.

    Raises:
        DcbError: it is an error, or has no such settings.
    """
    if len(message) < 20:
        raise DcbError("the kernel's answer is cut short")
    kind = struct.unpack_from("=H", message, 4)[0]
    if kind == _NLMSG_ERROR:
        code = -struct.unpack_from("=i", message, 16)[0]
        raise DcbError(os.strerror(code) if code else "the kernel answers with nothing")
    pfc: frozenset[int] | None = None
    dscp: dict[int, int] = {}
    for outer, value in _attributes(message[20:]):
        if outer != _ATTR_IEEE:
            continue
        for inner, content in _attributes(value):
            if inner == _IEEE_PFC and len(content) >= 2:
                # struct ieee_pfc: pfc_cap, then pfc_en, one bit per priority.
                pfc = frozenset(p for p in range(8) if content[1] >> p & 1)
            elif inner == _IEEE_APP_TABLE:
                for _, app in _attributes(content):
                    # struct dcb_app: selector, priority, protocol (for DSCP: the value).
                    selector, priority, protocol = struct.unpack_from("=BBH", app)
                    if selector == _APP_SELECTOR_DSCP:
                        dscp[protocol] = priority
    if pfc is None:
        raise DcbError("the driver says nothing of PFC")
    return Dcb(pfc=pfc, dscp=dscp)


def read(interface: str) -> Dcb:
    """Ask the kernel about one interface of this network namespace.

    Raises:
        DcbError: the kernel does not know.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            netlink.settimeout(5)
            netlink.bind((0, 0))
            netlink.send(request(interface))
            return parse(netlink.recv(65536))
    except OSError as error:
        raise DcbError(str(error)) from None
