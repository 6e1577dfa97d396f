"""The kernel's answers, built by linux/dcbnl.h, and the real kernel where it refuses."""

from __future__ import annotations

import socket
import struct

import pytest

from railhead.gate import dcb
from railhead.gate.dcb import DcbError


def attribute(kind: int, content: bytes, *, nested: bool = False) -> bytes:
    head = struct.pack("=HH", 4 + len(content), kind | (0x8000 if nested else 0))
    return head + content + b"\0" * (-len(content) % 4)


def answer(pfc: int | None, apps: list[tuple[int, int, int]]) -> bytes:
    """Return mlx5's answer to DCB_CMD_IEEE_GET; ``apps`` are (selector, priority, protocol)."""
    ieee = attribute(1, bytes(62))
    if pfc is not None:
        # struct ieee_pfc: cap, en, mbc, pad, delay, requests[8], indications[8].
        ieee += attribute(2, struct.pack("=BBBxHxx16Q", 8, pfc, 0, 0, *range(16)))
    table = b"".join(attribute(1, struct.pack("=BBH", *app)) for app in apps)
    ieee += attribute(3, table, nested=True)
    body = struct.pack("=BBH", 0, 21, 0)
    body += attribute(1, b"rail0\0") + attribute(13, ieee, nested=True)
    return struct.pack("=IHHII", 16 + len(body), 79, 0, 1, 0) + body


def test_pfc_and_dscp_are_read() -> None:
    # Selector 1 is an ethertype's, 5 a DSCP's.
    settings = dcb.parse(answer(0b0000_1000, [(1, 4, 0x8915), (5, 3, 26), (5, 6, 48)]))
    assert settings.pfc == {3}
    assert settings.dscp == {26: 3, 48: 6}


def test_nothing_set_is_nothing() -> None:
    settings = dcb.parse(answer(0, []))
    assert settings.pfc == set()
    assert settings.dscp == {}
    assert dcb.parse(answer(0xFF, [])).pfc == set(range(8))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (answer(None, []), "nothing of PFC"),
        (struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -95) + bytes(16), "Operation not supported"),
        (struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -19) + bytes(16), "No such device"),
        (b"", "cut short"),
        (answer(8, [])[:30], "nothing of PFC"),
    ],
)
def test_unreadable_input_is_an_error(message: bytes, words: str) -> None:
    with pytest.raises(DcbError, match=words):
        dcb.parse(message)


def test_the_request_names_the_interface() -> None:
    message = dcb.request("rail0")
    length, kind = struct.unpack_from("=IH", message)
    assert (length, kind) == (len(message), 78)
    assert message[16:20] == struct.pack("=BBH", socket.AF_UNSPEC, 21, 0)
    assert b"rail0\0" in message


def test_the_kernel_refuses_what_has_no_such_settings() -> None:
    # Loopback has no DCB; the question itself is well formed, or it would say EINVAL.
    with pytest.raises(DcbError) as refused:
        dcb.read("lo")
    assert "Invalid argument" not in str(refused.value)
