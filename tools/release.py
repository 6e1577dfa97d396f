"""Makes a release: wheels and source distributions, SBOMs and checksums. Run by `make release`.

Everything is built twice and compared: the same sources give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from railhead.base.version import __version__
from railhead.cli.release import SUMS, sha256

REPO = Path(__file__).resolve().parents[1]
#: Distribution -> the folder that builds it, and the pins of what it brings.
FOLDERS = {
    "railhead-diagnose": ("distributions/diagnose", "nccl.txt"),
    "railhead": (".", "deploy.txt"),
    "railhead-accept": ("distributions/accept", "base.txt"),
    "railhead-lab": ("distributions/lab", "lab.txt"),
}
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", re.MULTILINE)


def main() -> int:
    """Make the release of a version; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--into", type=Path, default=REPO / "dist")
    arguments = parser.parse_args()
    if arguments.version != __version__:
        print(
            f"error: the sources are version {__version__}, not {arguments.version!r}\n"
            "  fix: set it in railhead/base/version.py, the pins of pyproject.toml's and "
            "plugin/requirements.txt",
            file=sys.stderr,
        )
        return 3
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name, "first"), Path(name, "second")
        build(first, umask=0o022, zone="UTC")
        build(second, umask=0o077, zone="Asia/Tokyo")
        if different := differing(first, second):
            print(f"error: not reproducible: {', '.join(different)}", file=sys.stderr)
            return 1
        for wheel in sorted(first.glob("*.whl")):
            distribution = wheel.name.split("-")[0].replace("_", "-")
            bill = first / f"{distribution}-{__version__}.cdx.json"
            bill.write_text(sbom(distribution, wheel), encoding="utf-8")
        sums = [f"{sha256(path)}  {path.name}\n" for path in sorted(first.iterdir())]
        (first / SUMS).write_text("".join(sums), encoding="utf-8")
        target = arguments.into / __version__
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(first, target)
    print(f"{target}: {len(sums)} files of {len(FOLDERS)} distributions, built twice, equal")
    return 0


def build(into: Path, *, umask: int, zone: str) -> None:
    """Build wheel and source distribution of each distribution, as some machine would."""
    for folder, _ in FOLDERS.values():
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", str(into)],
            cwd=REPO / folder,
            env={**os.environ, "TZ": zone},
            umask=umask,
            check=True,
            capture_output=True,
        )


def differing(one: Path, other: Path) -> list[str]:
    """Return the names of files that are not the same in two folders."""
    names = {path.name for path in (*one.iterdir(), *other.iterdir())}
    return sorted(name for name in names if _content(one / name) != _content(other / name))


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def sbom(distribution: str, wheel: Path) -> str:
    """Return a CycloneDX 1.6 document: a wheel, and the pinned parts that it was tested with."""
    pins = (REPO / "requirements" / FOLDERS[distribution][1]).read_text(encoding="utf-8")
    parts = [_component(name.lower(), version) for name, version in sorted(set(_PIN.findall(pins)))]
    digest = sha256(wheel)
    subject = {
        **_component(distribution, __version__),
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Of the content, so that the same sources give the same document.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {"component": subject},
        "components": parts,
        "dependencies": [
            {"ref": subject["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }


if __name__ == "__main__":
    sys.exit(main())
