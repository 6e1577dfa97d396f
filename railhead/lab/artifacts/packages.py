"""Debian packages that the lab runs on: only what is missing is installed, nothing is removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from railhead.base.errors import PrerequisiteError
from railhead.lab.artifacts.commands import CommandError, Runner, log_path
from railhead.lab.artifacts.steps import Lane, Step, Tell

#: Where administrators' programs are, which a root shell may lack on its PATH.
_SEARCH = os.pathsep.join(
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
)


@dataclass(frozen=True, kw_only=True)
class Package:
    """A Debian package, and the files that show that it is installed.

    The probes, not the package's name, decide: a machine whose containerd comes from elsewhere
    keeps it.

    Args:
        name: the package.
        probes: program names, or absolute paths; each must exist.
    """

    name: str
    probes: tuple[str, ...]


#: Where Debian's package puts the CNI plugins.
CNI_BIN_DIR = Path("/usr/lib/cni")

PACKAGES: tuple[Package, ...] = (
    Package(name="containerd", probes=("containerd", "containerd-shim-runc-v2", "ctr")),
    Package(name="runc", probes=("runc",)),
    Package(
        name="containernetworking-plugins",
        probes=tuple(
            str(CNI_BIN_DIR / plugin)
            for plugin in ("bridge", "host-local", "loopback", "macvlan", "portmap")
        ),
    ),
    Package(name="conntrack", probes=("conntrack",)),
    Package(name="iproute2", probes=("ip",)),
    Package(name="iptables", probes=("iptables", "iptables-save")),
    Package(name="ipset", probes=("ipset",)),
    Package(name="kmod", probes=("modprobe",)),
    Package(name="procps", probes=("sysctl",)),
    Package(name="ethtool", probes=("ethtool",)),
    Package(name="tcpdump", probes=("tcpdump",)),
    Package(name="socat", probes=("socat",)),
    Package(name="tini", probes=("tini",)),
    Package(name="busybox-static", probes=("/bin/busybox",)),
)


def program(name: str) -> Path | None:
    """Return the path of an installed program, also from the administrators' directories."""
    result = shutil.which(name, path=os.environ.get("PATH", "") + os.pathsep + _SEARCH)
    return Path(result) if result else None


def require_program(name: str) -> Path:
    """Return the path of an installed program.

    Raises:
        PrerequisiteError: it is not installed.
    """
    result = program(name)
    if result is None:
        package = next((p.name for p in PACKAGES if name in p.probes), name)
        raise PrerequisiteError(
            f"{name} is not installed", remedy=f"apt-get install --no-install-recommends {package}"
        )
    return result


def missing() -> tuple[str, ...]:
    """Return the names of the packages that must be installed."""
    return tuple(
        p.name
        for p in PACKAGES
        if not all(
            Path(probe).exists() if probe.startswith("/") else program(probe) for probe in p.probes
        )
    )


def apt_environment() -> dict[str, str]:
    """Return the environment in which apt asks nothing and starts no service on the host."""
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


def require_apt() -> None:
    """Refuse a machine without apt.

    Raises:
        PrerequisiteError: it has none.
    """
    if program("apt-get") is None or program("dpkg-deb") is None:
        raise PrerequisiteError(
            "there is no apt-get here; the lab takes containerd, the CNI plugins and PyTorch from "
            "Debian's or Ubuntu's packages",
            remedy="use a Debian (12 or newer) or Ubuntu (24.04 or newer) machine",
        )


def update(runner: Runner, tell: Tell) -> None:
    """Update the package lists; a fresh image has no lists, and those of an old one are stale."""
    require_apt()
    tell(None, "reading the package lists")
    try:
        runner.run(
            ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", "update"],
            log=log_path("packages"),
            env=apt_environment(),
            patient=True,
        )
    except CommandError as error:
        raise PrerequisiteError(
            f"apt-get update failed:\n{error.tail}",
            remedy="mend the machine's package sources (/etc/apt), then run the command again",
        ) from error


def lists_step() -> Step:
    """Return the step that comes before packages are downloaded."""
    return Step(
        name="packages",
        title="Debian package lists",
        expected_s=5,
        lane=Lane.FILES,
        action=update,
    )


def install(names: tuple[str, ...], runner: Runner, tell: Tell) -> None:
    """Install packages without recommendations; refuse where that would remove another.

    Raises:
        PrerequisiteError: apt refused or failed; carries its own words.
    """
    tell(None, ", ".join(names))
    try:
        runner.run(
            [
                "apt-get",
                *("-q", "-y", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0"),
                *("install", "--no-install-recommends", "--no-remove", *names),
            ],
            log=log_path("packages"),
            env=apt_environment(),
            patient=True,
        )
    except CommandError as error:
        raise PrerequisiteError(
            f"apt-get could not install {', '.join(names)}:\n{error.tail}",
            remedy="install them by hand, then run the command again",
        ) from error


def os_release(path: Path = Path("/etc/os-release")) -> Mapping[str, str]:
    """Return the machine's release, as ``{"ID": "debian", "VERSION_CODENAME": "bookworm"}``."""
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    return {key: value.strip().strip('"') for key, value in pairs}
