"""Makes a release of everything that a user installs or reads. Run by `make release`.

Everything is built twice and compared: the same sources give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railhead.base.version import __version__
from railhead.cli import release as released
from railhead.cli.release import SUMS, sha256
from railhead.cli.repository import pack
from railhead.provider.schema import package_schema
from tools import pins

REPO = Path(__file__).resolve().parents[1]
#: Distribution -> the folder that builds it, and the pins of what it brings.
FOLDERS = {
    "railhead-diagnose": ("distributions/diagnose", "nccl.txt"),
    "railhead": (".", "deploy.txt"),
    "railhead-accept": ("distributions/accept", "base.txt"),
    "railhead-lab": ("distributions/lab", "lab.txt"),
}
#: Files of the plugin's folder; in a checkout the engine leaves an environment beside them.
PLUGIN = ("PulumiPlugin.yaml", "__main__.py")
#: Of every file in an archive: hatch's own, for the same reason.
EPOCH = 1580601600
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
            "  fix: set it in railhead/base/version.py and the pins of pyproject.toml's",
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
        statement = first / released.names(__version__)["provenance"]
        statement.write_text(provenance(first), encoding="utf-8")
        sums = [f"{sha256(path)}  {path.name}\n" for path in sorted(first.iterdir())]
        (first / SUMS).write_text("".join(sums), encoding="utf-8")
        target = arguments.into / __version__
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(first, target)
    print(f"{target}: {len(sums)} files, built twice, equal")
    return 0


def build(into: Path, *, umask: int, zone: str) -> None:
    """Build everything but what describes it, as some machine would."""

    def run(folder: str, *words: str) -> None:
        subprocess.run(
            [sys.executable, *words],
            cwd=REPO / folder,
            env={**os.environ, "TZ": zone, "PYTHONPATH": str(REPO)},
            umask=umask,
            check=True,
            capture_output=True,
        )

    for folder, _ in FOLDERS.values():
        run(folder, "-m", "hatchling", "build", "-d", str(into))
    names = released.names(__version__)
    with tempfile.TemporaryDirectory() as site:
        run(".", "tools/site.py", "--into", site)
        archive(into / names["site"], _contents(Path(site, __version__)), __version__)
    # The engine unpacks a plugin into a folder of its own.
    plugin = {name: (REPO / "plugin" / name).read_bytes() for name in PLUGIN}
    archive(into / names["plugin"], plugin | _pins("plugin", into), "")
    rules = {name: text.encode() for name, text in pack("railhead", "venv").items()}
    archive(into / names["policies"], rules | _pins("policies", into), "railhead-policies")
    pins.write(into)
    schema = json.dumps(package_schema(), indent=1) + "\n"
    (into / names["schema"]).write_text(schema, encoding="utf-8")
    (into / names["notes"]).write_text(notes(), encoding="utf-8")


def _pins(role: str, wheels: Path) -> dict[str, bytes]:
    return {"requirements.txt": pins.requirements(role, wheels).encode()}


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if "__pycache__" not in path.parts
    }


def archive(file: Path, contents: Mapping[str, bytes], folder: str) -> None:
    """Write an archive of files in a folder of it, with nothing of this machine or this day."""
    with (
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=EPOCH) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as made,
    ):
        for name in sorted(contents):
            item = tarfile.TarInfo(str(Path(folder, name)))
            item.size, item.mtime, item.mode = len(contents[name]), EPOCH, 0o644
            made.addfile(item, io.BytesIO(contents[name]))


def notes() -> str:
    """Return the changelog's section of this version; before its day, of what is unreleased."""
    text = (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    title, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    del title
    by_name = {section.split()[0].strip("[]"): section for section in sections}
    section = by_name.get(__version__) or by_name["Unreleased"]
    _, _, changes = section.partition("\n")
    return f"# Railhead {__version__}\n{changes.rstrip()}\n\n{upgrade_notes()}"


def upgrade_notes() -> str:
    """Return what an upgrade changes in each shipped stack, as the engine's tests hold it."""
    lines = [
        "## What an upgrade changes",
        "",
        "Read from previews of the shipped stacks on the state that an earlier version left; "
        "`railhead upgrade` reads it from your own.",
    ]
    for file in sorted((REPO / "tests/engine/before").glob("*.expected.txt")):
        lines += ["", f"### {file.name.partition('.')[0]}", ""]
        for group in file.read_text(encoding="utf-8").strip().split("\n\n"):
            why, *operations = group.splitlines()
            counts = Counter(line.split()[0] for line in operations)
            listed = ", ".join(f"{count} {name}d" for name, count in sorted(counts.items()))
            lines.append(f"- {why.lstrip('# ')} ({listed})")
    return "\n".join([*lines, ""])


def provenance(folder: Path) -> str:
    """Return an in-toto statement of what a release's files were made of (SLSA provenance 1).

    https://slsa.dev/spec/v1.0/provenance. The times of a build are left out, so that it is the same
    each time.
    """
    sources = [
        {"uri": f"requirements/{path.name}", "digest": {"sha256": sha256(path)}}
        for path in sorted((REPO / "requirements").glob("*.txt"))
    ]
    subjects = [
        {"name": path.name, "digest": {"sha256": sha256(path)}} for path in sorted(folder.iterdir())
    ]
    commit = [{"uri": "git+railhead", "digest": {"gitCommit": head}}] if (head := _head()) else []
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": released.PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:railhead:make-release:1",
                "externalParameters": {"version": __version__},
                "internalParameters": {},
                "resolvedDependencies": [*commit, *sources],
            },
            "runDetails": {"builder": {"id": os.environ.get("RAILHEAD_BUILDER", "urn:by-hand")}},
        },
    }
    return json.dumps(document, indent=1) + "\n"


def _head() -> str:
    """Return the commit that is built; empty if the tree differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=REPO, check=True, capture_output=True, text=True
        ).stdout.strip()

    return "" if git("status", "--porcelain") else git("rev-parse", "HEAD")


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
