"""Nodes in pairs over verbs, rail by rail: `ib_write_bw` and `ib_read_lat` of linux-rdma/perftest.

Each node serves the one before it and asks the next, all nodes at once and one rail after another:
so every port sends and takes, and nothing else of the job does meanwhile. Nothing is judged here:
what the programs print is passed on whole.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What is started and how, perftest's src/perftest_parameters.c of v4.5-0.20: 21 GB a rail, in
#: host memory, and 1000 reads. ``-F`` goes on where a core's frequency is not the highest. One
#: queue pair does not fill every NIC: of messages of 1 MiB one carried 284 of 400 Gbit/s, eight
#: 392 (NVIDIA/nccl#2409).
TOOLS = {
    "ib_write_bw": ("-F", "--report_gbits", "-s", "65536", "-q", "4", "-n", "80000"),
    "ib_read_lat": ("-F", "-n", "1000"),
}
_LAYERS = ("InfiniBand", "Ethernet")
# perftest's own; each node and rail has one of its own, for pods may share their host's network.
_FIRST_PORT = 18515
_SECONDS = 60.0
# A server ends with its client; by then all clients have ended.
_GRACE = 10.0
_LAST = 6000

Say = Callable[..., None]
Share = Callable[[Any], Sequence[Any]]


@dataclass(frozen=True)
class Device:
    """A port of an RDMA device; ``port`` counts from 1."""

    name: str
    port: int
    layer: str


def devices(root: Path, nodes: Path, environment: Mapping[str, str]) -> list[Device]:
    """Ports that this pod may use and NCCL would, in the order of rails.

    Args:
        root: `/sys/class/infiniband`, which may show the node's other devices too.
        nodes: `/dev/infiniband`, which holds those that the pod was given.
        environment: NCCL_IB_HCA is taken as NCCL takes it.
    """
    results = [
        Device(device.name, int(port.name), layer)
        for device in root.glob("*")
        if any((nodes / path.name).exists() for path in device.glob("device/infiniband_verbs/*"))
        for port in device.glob("ports/*")
        if (layer := _text(port / "link_layer")) in _LAYERS
        and _text(port / "state").endswith("ACTIVE")
        and wanted(environment.get("NCCL_IB_HCA", ""), device.name, int(port.name))
    ]

    def place(one: Device) -> tuple[Any, ...]:
        # A device's name is another in every pod where it is a virtual function; its interface's
        # says the rail.
        interfaces = sorted(net.name for net in (root / one.name / "device/net").glob("*"))
        return (*map(_natural, [*interfaces[:1], one.name]), one.port)

    return sorted(results, key=place)


def wanted(words: str, name: str, port: int) -> bool:
    """Return whether NCCL_IB_HCA names a port: prefixes, `=` for whole names, `^` for others."""
    reported, exact = words.lstrip("^="), "=" in words[:2]
    if not reported:
        return True
    listed = (part.partition(":") for part in reported.split(","))
    named = any(
        (name == item if exact else name.startswith(item)) and (not of or int(of) == port)
        for item, _, of in listed
    )
    return named is not words.startswith("^")


def measure(
    *,
    node: int | None,
    share: Share,
    sent: Callable[[], Mapping[str, int]],
    say: Say,
    root: Path = Path("/sys/class/infiniband"),
    nodes: Path = Path("/dev/infiniband"),
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Measure all pairs; every process of the job calls it.

    Args:
        node: this pod's number for the process that leads it, None for its others.
        share: gives what every process has given, once all have.
        sent: bytes that each port of this pod has sent until now, by ``device/port``.
        say: prints a record.
        root: as :func:`devices` has it.
        nodes: as :func:`devices` has it.
        environment: as :func:`devices` has it; PATH says where the tools are.
    """
    own = devices(root, nodes, environment) if node is not None else []
    results = {tool: shutil.which(tool, path=environment.get("PATH")) for tool in TOOLS}
    tools = {tool: path for tool, path in results.items() if path is not None}
    mine = {"devices": len(own), "tools": list(tools), "address": address(environment)}
    pods = [item for item in share(None if node is None else mine) if item is not None]
    if node is not None:
        say(
            "verbs", node=node, devices=[f"{item.name}/{item.port}" for item in own], tools=[*tools]
        )
    if len({pod["devices"] for pod in pods}) != 1:
        return
    for tool, flags in TOOLS.items():
        if any(tool not in pod["tools"] for pod in pods):
            continue
        for rail in range(pods[0]["devices"]):
            if node is None:
                share(None)
                share(None)
                continue
            to = (node + 1) % len(pods)
            words = [tools[tool], *flags, *_of(own[rail], environment)]
            server = _serve([*words, "-p", str(_port(node, rail, pods))])
            share(None)
            before = sent()
            status, output = _ask([*words, "-p", str(_port(to, rail, pods)), pods[to]["address"]])
            after = sent()
            share(None)
            served, serving = _served(server)
            say(
                "pair",
                node=node,
                to=to,
                rail=rail,
                tool=tool,
                device=own[rail].name,
                status=status,
                served=served,
                sent={name: after[name] - before.get(name, 0) for name in after},
                output=(f"{serving}\n{output}" if served else output)[-_LAST:],
            )


def address(environment: Mapping[str, str]) -> str:
    """Return this pod's address, as the job's first process reaches it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as item:
        try:
            item.connect((environment["MASTER_ADDR"], 1))
        except (OSError, KeyError):
            return ""
        return str(item.getsockname()[0])


def _port(node: int, rail: int, pods: Sequence[Mapping[str, Any]]) -> int:
    return _FIRST_PORT + node * int(pods[0]["devices"]) + rail


def _of(device: Device, environment: Mapping[str, str]) -> list[str]:
    words = ["-d", device.name, "-i", str(device.port)]
    index = environment.get("NCCL_IB_GID_INDEX", "")
    # Without one perftest looks for a RoCE v2 address itself; InfiniBand needs none.
    return [*words, "-x", index] if device.layer == "Ethernet" and index.isdigit() else words


def _serve(words: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """Start a server that listens; return None where it cannot be started."""
    try:
        server = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError:
        return None
    port, until = int(words[words.index("-p") + 1]), time.monotonic() + _SECONDS
    # A connection made to find out would be the one that it serves.
    while server.poll() is None and not _listening(port) and time.monotonic() < until:
        time.sleep(0.05)
    return server


def _listening(port: int) -> bool:
    """Return whether a socket of this pod listens there: proc(5), /proc/net/tcp, state 0A."""
    lines = (
        line.split()
        for name in ("tcp", "tcp6")
        for line in _text(Path("/proc/net") / name).splitlines()[1:]
    )
    return any(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)


def _ask(words: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
    except OSError as error:
        return -1, str(error)
    except subprocess.TimeoutExpired as error:
        return -1, f"{(error.output or b'').decode(errors='replace')}\nnot done in {_SECONDS} s"
    return done.returncode, done.stdout.decode(errors="replace")


def _served(server: subprocess.Popen[bytes] | None) -> tuple[int, str]:
    """Return a server's exit code and output; -1 where it did not start, or had to be killed."""
    if server is None:
        return -1, ""
    try:
        output, _ = server.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        output, _ = server.communicate()
        return -1, output.decode(errors="replace")
    return server.returncode, output.decode(errors="replace")


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
