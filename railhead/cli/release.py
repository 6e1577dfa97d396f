"""`railhead verify-release`: whether a folder is a whole release, unchanged. Asks no network."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Annotated, Any

import typer

from railhead.base.finding import Finding
from railhead.base.version import DISTRIBUTIONS

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


def verify_release(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The release's folder.")],
) -> None:
    """Check a release: checksums, that nothing is missing or added, its versions and its SBOMs.

    A checksum shows that a file is the one that was released if SHA256SUMS itself came by a way
    that you trust, such as the repository's tag.

    Example: [bold]railhead verify-release dist/0.1.0[/bold]

    Exits 0 when everything is as it was released, 5 when there is no release, 6 when not.
    """
    from railhead.base.errors import NotFoundError, RefusedError

    if not (folder / SUMS).is_file():
        raise NotFoundError(
            f"{folder} has no {SUMS}", remedy="name a release's folder, as `make release` makes it"
        )
    findings = list(checked(folder))
    for finding in findings:
        typer.echo(f"{'ok' if finding.passed else 'wrong':6} {finding.name}: {finding.text}")
    if wrong := [finding.name for finding in findings if not finding.passed]:
        raise RefusedError(
            f"{folder} is not as it was released: {', '.join(wrong)}",
            remedy="fetch it again; install nothing of it",
        )


def checked(folder: Path) -> Iterator[Finding]:
    """Yield the findings on a release's folder."""
    sums: dict[str, str] = {}
    for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
        if match := _LINE.fullmatch(line):
            sums[match[2]] = match[1]
        else:
            yield Finding(name=SUMS, passed=False, text=f"{line!r} is no checksum")
    there = {path.name for path in folder.iterdir()} - {SUMS}
    for name in sorted(there ^ sums.keys()):
        text = "is not in the release" if name in there else "is missing"
        yield Finding(name=name, passed=False, text=text)
    for name in sorted(there & sums.keys()):
        passed = sha256(folder / name) == sums[name]
        yield Finding(name=name, passed=passed, text="as released" if passed else "was changed")
    yield from _versions(folder, sums)


def _versions(folder: Path, sums: dict[str, str]) -> Iterator[Finding]:
    """Yield whether each distribution is there once, in one version, with its SBOM."""
    versions: dict[str, str] = {}
    for wheel in sorted(folder.glob("*.whl")):
        try:
            name, version = _metadata(wheel)
        except (KeyError, OSError, zipfile.BadZipFile) as error:
            yield Finding(name=wheel.name, passed=False, text=f"is no wheel: {error}")
            continue
        versions[name] = version
        bill = folder / f"{name}-{version}.cdx.json"
        problem = _unlike(bill, wheel.name, sums)
        yield Finding(
            name=bill.name, passed=not problem, text=problem or f"is the SBOM of {wheel.name}"
        )
    passed = set(versions) == set(DISTRIBUTIONS) and len(set(versions.values())) == 1
    listed = ", ".join(f"{name} {version}" for name, version in versions.items()) or "no wheel"
    yield Finding(name="versions", passed=passed, text=listed)


def _metadata(wheel: Path) -> tuple[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        [path] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(path))
    return str(metadata["Name"]), str(metadata["Version"])


def _unlike(bill: Path, wheel: str, sums: dict[str, str]) -> str:
    """Return why an SBOM is not that of a wheel; empty if it is."""
    try:
        document: dict[str, Any] = json.loads(bill.read_text(encoding="utf-8"))
        hashes = document["metadata"]["component"]["hashes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"cannot be read: {error}"
    if {"alg": "SHA-256", "content": sums.get(wheel)} not in hashes:
        return f"is of another {wheel}"
    return ""


def sha256(file: Path) -> str:
    """Return the digest of a file, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
