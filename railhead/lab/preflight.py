"""Checks of what a lab needs of the machine, before anything is changed."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path

from railhead.base.errors import PrerequisiteError
from railhead.lab import cgroups
from railhead.lab.supervisor import SOCKET_PATH_LIMIT

FREE_GIB = 2
COMMANDS = ("containerd", "ctr", "runc", "ip", "iptables", "conntrack", "mount", "sysctl")
CAP_SYS_RESOURCE = 24


def check_machine() -> None:
    """Run the checks that need no package.

    Raises:
        PrerequisiteError: naming the thing and the remedy.
    """
    if platform.system() != "Linux":
        raise PrerequisiteError(
            f"a lab needs Linux; this is {platform.system()}",
            remedy="run it on a Debian or Ubuntu machine, a virtual one will do",
        )
    if os.geteuid() != 0:
        raise PrerequisiteError(
            f"a lab needs root: namespaces, mounts and cgroups; this is uid {os.geteuid()}",
            remedy="run the same command as root, for example with sudo",
        )
    if missing := cgroups.missing_controllers():
        raise PrerequisiteError(
            f"cgroup controllers are missing below {cgroups.ROOT}: {', '.join(missing)}",
            remedy="boot a kernel with them, or in a container run it with the host's cgroups "
            "mounted read-write (for Docker: --privileged --cgroupns=host)",
        )
    if not os.access(cgroups.ROOT, os.W_OK) or _read_only(cgroups.ROOT):
        raise PrerequisiteError(
            f"{cgroups.ROOT} is mounted read-only",
            remedy="remount it read-write, or run the container privileged",
        )


def check_kernel() -> None:
    """Try each kernel feature for real, in namespaces that are thrown away.

    Raises:
        PrerequisiteError: naming the missing feature.
    """
    isolated = ["unshare", "--mount", "--net", "--pid", "--fork", "--ipc", "--uts"]
    veth = ["ip", "link", "add", "rh0", "type", "veth", "peer", "name", "rh1"]
    trials: tuple[tuple[str, str, list[list[str]]], ...] = (
        ("namespaces (mount, network, PID, IPC, UTS)", "CONFIG_NAMESPACES", [["true"]]),
        ("bridge interfaces", "bridge", [["ip", "link", "add", "rh0", "type", "bridge"]]),
        ("veth interfaces", "veth", [veth]),
        (
            "macvlan interfaces",
            "macvlan",
            [veth, ["ip", "link", "add", "rh2", "link", "rh0", "type", "macvlan"]],
        ),
        ("iptables NAT", "iptable_nat or nft_nat", [["iptables", "-t", "nat", "-L", "-n"]]),
    )
    for feature, module, commands in trials:
        # Each trial's commands share one throw-away namespace; no data is spliced into the script.
        script = " && ".join(" ".join(command) for command in commands)
        result = subprocess.run(
            [*isolated, "sh", "-c", script], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise PrerequisiteError(
                f"this kernel or sandbox does not give {feature}: {result.stderr.strip()}",
                remedy=f"load the kernel module (modprobe {module}) or use a kernel that has it",
            )
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        raise PrerequisiteError(
            "this kernel has no overlay file system",
            remedy="load it with `modprobe overlay` or use a kernel that has it",
        )


def has_ip_sets() -> bool:
    """Return whether the kernel has the IP sets that enforce network policies.

    A lab also starts without them: everything else in it works.
    """
    trial = ["ipset create rh hash:ip", "ipset create rh6 hash:net"]
    trial.append("iptables -A FORWARD -m set --match-set rh src -j DROP")
    result = subprocess.run(
        ["unshare", "--net", "sh", "-c", " && ".join(trial)], capture_output=True, check=False
    )
    return result.returncode == 0


def check_commands() -> None:
    """Raise PrerequisiteError when a command of the Debian packages is still missing."""
    if missing := [name for name in COMMANDS if shutil.which(name) is None]:
        raise PrerequisiteError(
            f"commands are missing: {', '.join(missing)}",
            remedy="apt-get install containerd runc iproute2 iptables ipset conntrack mount procps",
        )


def check_space(directory: Path, *, need_gib: float = FREE_GIB) -> None:
    """Raise PrerequisiteError when ``directory``'s file system has less free than needed."""
    existing = directory
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free / 2**30
    if free < need_gib:
        raise PrerequisiteError(
            f"{existing} has {free:.1f} GiB free; a lab needs {need_gib:g} GiB there",
            remedy="free some space, or set RAILHEAD_CACHE to a directory on a larger disk",
        )


def check_paths(directory: Path, cache: Path) -> None:
    """Raise PrerequisiteError if the lab's mounts would hide its files or a path is too long."""
    longest = directory / "run" / "node-0.sock"
    if len(str(longest)) > SOCKET_PATH_LIMIT:
        raise PrerequisiteError(
            f"{longest} is {len(str(longest))} bytes long; a socket's path may have "
            f"{SOCKET_PATH_LIMIT}",
            remedy="set RAILHEAD_CACHE to a directory with a shorter path",
        )
    for hidden in ("/run", "/var/run", "/proc", "/sys", "/dev"):
        if cache.is_relative_to(hidden):
            raise PrerequisiteError(
                f"the cache {cache} is below {hidden}, over which a lab mounts its own",
                remedy="set RAILHEAD_CACHE to a directory on an ordinary disk",
            )


def listen(port: int) -> socket.socket:
    """Return a listening socket on the host's loopback for the API server; port 0 takes a free one.

    Raises:
        PrerequisiteError: the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise PrerequisiteError(
            f"port {port} of 127.0.0.1, for the API server, cannot be had: {error.strerror}",
            remedy="end what listens there (`ss -ltnp` names it) or choose with --api-port",
        ) from None
    return listener


def lacks_sys_resource() -> bool:
    """Return whether root may not raise resource limits, as in some sandboxes; runc must know."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return not int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1
    return True


def _read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
