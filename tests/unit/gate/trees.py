"""A node's /sys, /dev and /proc, laid out as the kernel does it: classes are links to devices."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from railhead.gate.dcb import Dcb, DcbError
from railhead.gate.node import Node

LINK_LOCAL = "fe80:0000:0000:0000:a288:c2ff:fe12:34{:02x}"
IPV4 = "0000:0000:0000:0000:0000:ffff:0a00:00{:02x}"
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 02:17:47 UTC 2026"


def write(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))


@dataclass
class Tree:
    """The trees below ``root``, and what the port settings and the API say."""

    root: Path
    kernel: str = "6.8.0-45-generic"
    allocatable: dict[str, str] = field(default_factory=dict)
    ports: dict[str, Dcb] = field(default_factory=dict)

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    def node(self) -> Node:
        return Node(
            sys=self.sys,
            dev=self.root / "dev",
            proc=self.root / "proc",
            run=self.root / "run",
            plugins=self.root / "bin",
            token=self.root / "token",
            kernel=self.kernel,
            allocatable=self.allocatable,
            dcb=self._dcb,
        )

    def _dcb(self, interface: str) -> Dcb:
        if interface not in self.ports:
            raise DcbError("Operation not supported")
        return self.ports[interface]

    def pci(self, address: str) -> Path:
        return self.sys / "devices" / "pci0000:00" / address

    def interface(
        self, name: str, address: str | None = None, *, up: bool = True, mtu: int = 9000
    ) -> Path:
        base = self.pci(address) if address else self.sys / "devices" / "virtual"
        directory = base / "net" / name
        write(directory / "operstate", "up" if up else "down")
        write(directory / "carrier", int(up))
        write(directory / "mtu", mtu)
        if address:
            link(directory / "device", base)
        link(self.sys / "class" / "net" / name, directory)
        return directory

    def rdma(
        self,
        name: str,
        number: int,
        *,
        link_layer: str = "Ethernet",
        rate: str = "400 Gb/sec (4X NDR)",
        driver: str = "mlx5_core",
        state: str = "4: ACTIVE",
        lid: str = "0x0",
        gids: Mapping[int, tuple[str, str]] | None = None,
    ) -> Path:
        """Return a device on a PCI address of its own; returns its port's directory."""
        address = f"0000:{number + 16:02x}:00.0"
        device = self.pci(address) / "infiniband" / name
        link(device / "device", self.pci(address))
        link(self.pci(address) / "driver", self.sys / "bus" / "pci" / "drivers" / driver)
        port = device / "ports" / "1"
        write(port / "state", state)
        write(port / "phys_state", "5: LinkUp" if state == "4: ACTIVE" else "3: Disabled")
        write(port / "rate", rate)
        write(port / "link_layer", link_layer)
        write(port / "lid", lid)
        if gids is None:
            local = LINK_LOCAL.format(number)
            gids = (
                {0: (local, "IB/RoCE v1"), 1: (local, "RoCE v2")}
                if link_layer == "Ethernet"
                else {0: (local, "IB/RoCE v1")}
            )
        for index in range(8):
            gid, kind = gids.get(index, (NO_GID, ""))
            write(port / "gids" / str(index), gid)
            if kind:
                write(port / "gid_attrs" / "types" / str(index), kind)
        link(self.sys / "class" / "infiniband" / name, device)
        verbs = self.pci(address) / "infiniband_verbs" / f"uverbs{number}"
        write(verbs / "ibdev", name)
        link(self.sys / "class" / "infiniband_verbs" / f"uverbs{number}", verbs)
        write(self.root / "dev" / "infiniband" / f"uverbs{number}", "")
        return port

    def bare(self, number: int) -> None:
        """Show a device of :meth:`rdma` as a machine without a hypervisor does."""
        address = f"0000:{number + 16:02x}:00.0"
        for which in ("current", "max"):
            write(self.pci(address) / f"{which}_link_width", 16)
            write(self.pci(address) / f"{which}_link_speed", "32.0 GT/s PCIe")
        group = self.sys / "kernel" / "iommu_groups" / str(number)
        write(group / "type", "identity")
        link(self.pci(address) / "iommu_group", group)

    def count(self, interface: str, device: str) -> None:
        """Write the counters of a rail's interface and of its RDMA port."""
        port = self.sys / "class" / "infiniband" / device / "ports" / "1" / "counters"
        for counter in ("link_downed", "symbol_error", "port_rcv_errors"):
            write(port / counter, 7)
        base = self.sys / "class" / "net" / interface
        write(base / "statistics" / "rx_crc_errors", 7)
        write(base / "carrier_down_count", 7)

    def virtual_function(self, name: str, number: int, of: int) -> Path:
        port = self.rdma(name, number, state="1: DOWN")
        link(
            self.pci(f"0000:{number + 16:02x}:00.0") / "physfn",
            self.pci(f"0000:{of + 16:02x}:00.0"),
        )
        return port

    def own_token(self, seconds: int) -> None:
        """Write the gate's token as an API server makes it, for so long."""
        claims = json.dumps({"iat": 1_700_000_000, "exp": 1_700_000_000 + seconds, "aud": ["a"]})
        body = base64.urlsafe_b64encode(claims.encode()).decode().rstrip("=")
        write(self.root / "token", f"e30.{body}.c2lnbmVk")

    def gpu_driver(self, version: str = "570.124.06", *, said: str = OPEN) -> None:
        write(self.sys / "module" / "nvidia" / "version", version)
        write(self.root / "proc" / "driver" / "nvidia" / "version", said)

    def ecn(self, interface: str, priority: int, *, np: int = 1, rp: int = 1) -> None:
        directory = self.sys / "class" / "net" / interface / "ecn"
        for name, value in (("roce_np", np), ("roce_rp", rp)):
            write(directory / name / "enable" / str(priority), value)


def roce(root: Path, nics: int = 8) -> Tree:
    """ConnectX-7, RoCE, lossless, one interface a device, with a storage NIC beside them."""
    tree = Tree(root, allocatable={"rdma/rdma_shared_device_a": "63"})
    for i in range(nics):
        tree.rdma(f"mlx5_{i}", i)
        tree.interface(f"rail{i}", f"0000:{i + 16:02x}:00.0")
        tree.ports[f"rail{i}"] = Dcb(pfc=frozenset({3}), dscp={26: 3, 24: 3})
        tree.ecn(f"rail{i}", 3)
        tree.bare(i)
        tree.count(f"rail{i}", f"mlx5_{i}")
    write(tree.sys / "module" / "ib_core" / "parameters" / "netns_mode", "Y")
    write(tree.root / "proc" / "cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 iommu=pt")
    tree.rdma("mlx5_storage", 40, rate="100 Gb/sec (4X EDR)", state="1: DOWN")
    tree.gpu_driver()
    tree.own_token(31_536_000)
    return tree


def infiniband(root: Path, nics: int = 8) -> Tree:
    """ConnectX-7, InfiniBand, with an Ethernet card beside them."""
    tree = Tree(root, allocatable={"rdma/ib": "63"})
    for i in range(nics):
        tree.rdma(f"mlx5_{i}", i, link_layer="InfiniBand", lid=hex(i + 5))
    tree.rdma("mlx5_bond_0", 30, rate="25 Gb/sec (1X EDR)")
    tree.gpu_driver(said=CLOSED)
    (tree.sys / "module" / "nvidia_peermem").mkdir()
    return tree


def efa(root: Path, nics: int = 32) -> Tree:
    """Return a p5.48xlarge, as far as the gate looks."""
    tree = Tree(root, allocatable={"vpc.amazonaws.com/efa": str(nics)})
    for i in range(nics):
        tree.rdma(
            f"rdmap{i + 79}s0",
            i,
            driver="efa",
            link_layer="Unspecified",
            rate="100 Gb/sec (4X EDR)",
            gids={0: (LINK_LOCAL.format(i), "IB/RoCE v1")},
        )
    tree.gpu_driver()
    return tree


def lustre(root: Path) -> Tree:
    """Return a p5.48xlarge that mounts Lustre over eight of its EFA devices."""
    tree = efa(root)
    write(tree.sys / "module" / "kefalnd" / "refcnt", 9)
    write(root / "run" / "lustre-efa", 8)
    return tree


def lab(root: Path) -> Tree:
    """Return a node of the lab: a rail, stand-in devices, and no RDMA."""
    tree = Tree(root, kernel="6.1.0", allocatable={"rdma/rdma_shared_device_a": "63"})
    tree.interface("rail0")
    return tree


def tcpxo(root: Path) -> Tree:
    """Return an A3 Mega node with the plugin of GPUDirect-TCPXO."""
    tree = Tree(root=root)
    write(tree.sys / "module" / "nvidia" / "version", "580.159.04")
    for library in ("libnccl-net.so", "libnccl-tuner.so"):
        write(root / "bin" / "nvidia" / "lib64" / library, "")
    write(root / "bin" / "railhead" / "tcpxo", "v1.0.16")
    for address in ("06", "07", "0d", "0e", "86", "87", "8d", "8e"):
        write(root / "dev" / "aperture_devices" / f"0000:{address}:00.0" / "resource0", "")
    write(root / "dev" / "dmabuf_import_helper", "")
    return tree
