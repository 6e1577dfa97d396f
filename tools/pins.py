"""Makes what a release is installed from: requirements that pin every part by its hash.

A public index has another project's `railhead`. With a hash, pip installs our wheel or nothing.
Run by `make dist`, on the folder of the wheels.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from railhead.base.version import DISTRIBUTIONS, ROLES, __version__
from railhead.cli.release import names, sha256

REPO = Path(__file__).resolve().parents[1]
CORE = ("railhead-diagnose", "railhead")
#: Role -> extra of railhead, distributions, and the pins of what these bring.
_SETS: dict[str, tuple[str, Sequence[str], Sequence[str]]] = {
    "launch": ("", CORE, ("base.txt",)),
    "deploy": ("[deploy]", DISTRIBUTIONS, ("lab.txt",)),
    "aws": ("[aws]", DISTRIBUTIONS, ("aws.txt", "lab.txt")),
    "gcp": ("[gcp]", DISTRIBUTIONS, ("gcp.txt", "lab.txt")),
    "plugin": ("[aws,gcp]", CORE, ("aws.txt", "gcp.txt")),
    "policies": ("[deploy]", CORE, ("deploy.txt",)),
}


def requirements(role: str, wheels: Path) -> str:
    """Return the requirements of a role: the wheels of a folder, and the pinned third parties."""
    extra, distributions, files = _SETS[role]
    ours = []
    for name in distributions:
        [wheel] = wheels.glob(f"{name.replace('-', '_')}-{__version__}-*.whl")
        extras = extra if name == "railhead" else ""
        ours.append(f"{name}{extras}=={__version__} \\\n    --hash=sha256:{sha256(wheel)}")
    pins = {
        pin
        for file in files
        for pin in re.split(r"\n(?=\S)", (REPO / "requirements" / file).read_text("utf-8").strip())
    }
    return "\n".join(["--find-links .", *ours, *sorted(pins)]) + "\n"


def write(wheels: Path) -> None:
    """Write the requirements of each role beside the wheels."""
    for role in ROLES:
        (wheels / names(__version__)[role]).write_text(requirements(role, wheels), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
