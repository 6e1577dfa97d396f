"""`railhead verify-release`: whether a folder is a whole release, unchanged. Asks no network."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import tarfile
import zipfile
from collections.abc import Generator, Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Annotated, Any

import typer

from railhead.base.errors import NotFoundError, PrerequisiteError, RefusedError
from railhead.base.finding import Finding
from railhead.base.reading import read_text
from railhead.base.version import DISTRIBUTIONS, ROLES
from railhead.cli.findings import show

SUMS = "SHA256SUMS"
#: Made by a release's workflow, and by nobody else: it signs the checksums.
SIGNATURE = "SHA256SUMS.sigstore.json"
#: Who vouches for the identity of a workflow on GitHub.
GITHUB = "https://token.actions.githubusercontent.com"
PROVENANCE = "https://slsa.dev/provenance/v1"
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
_OURS = re.compile(r"^(railhead[a-z-]*).*(?:\n +--hash=sha256:([0-9a-f]{64})$)?", re.MULTILINE)


def verify_release(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The release's folder.")],
    commit: Annotated[
        str, typer.Option("--commit", metavar="SHA", help="The commit that it must be made of.")
    ] = "",
    identity: Annotated[
        str,
        typer.Option(
            "--identity", metavar="WORKFLOW", help="The workflow that must have signed SHA256SUMS."
        ),
    ] = "",
    issuer: Annotated[
        str, typer.Option("--issuer", metavar="URL", help="Who vouches for that identity.")
    ] = GITHUB,
) -> None:
    """Check a release: that it is whole and unchanged, of one version, and made of a commit.

    It compares checksums, SBOMs, the provenance statement, and what the plugin, the policy pack and
    the requirements install. With `--identity` it checks who signed SHA256SUMS, by Sigstore's
    roots of trust as the installed package `sigstore` has them: no network is asked.

    Example: [bold]railhead verify-release dist/0.1.0[/bold]

    Exits 0 when everything is as it was released, 4 when `sigstore` is not installed or cannot
    write its folder, 5 when there is no release, 6 when not.
    """
    if not (folder / SUMS).is_file():
        raise NotFoundError(
            f"{folder} has no {SUMS}", remedy="name a release's folder, as `make release` makes it"
        )
    if odd := sorted(path.name for path in folder.iterdir() if not path.is_file()):
        raise RefusedError(
            f"{folder} holds what is no file: {', '.join(odd)}",
            remedy="fetch it again; install nothing of it",
        )
    try:
        findings = [*checked(folder, commit), signed(folder, identity, issuer)]
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(
            f"{folder} cannot be read: {error}", remedy="fetch it again; install nothing of it"
        ) from None
    show(findings, {True: "ok", None: "unasked", False: "wrong"})
    if wrong := [finding.name for finding in findings if finding.passed is False]:
        raise RefusedError(
            f"{folder} is not as it was released: {', '.join(wrong)}",
            remedy="fetch it again; install nothing of it",
        )


def names(version: str) -> dict[str, str]:
    """Return what a release has beside distributions and SBOMs, by what it is."""
    return {
        "notes": f"railhead-{version}.notes.md",
        "plugin": f"pulumi-resource-railhead-v{version}.tar.gz",
        "policies": f"railhead-policies-{version}.tar.gz",
        "provenance": f"railhead-{version}.intoto.json",
        "schema": f"railhead-{version}.schema.json",
        "site": f"railhead-site-{version}.tar.gz",
        **{part: f"requirements-{part}.txt" for part in ROLES},
    }


def checked(folder: Path, commit: str = "") -> Iterator[Finding]:
    """Yield the findings on a release's folder; an empty commit is any."""
    sums: dict[str, str] = {}
    for line in read_text(folder / SUMS).splitlines():
        if match := _LINE.fullmatch(line):
            sums[match[2]] = match[1]
        else:
            yield Finding(name=SUMS, passed=False, text=f"{line!r} is no checksum")
    there = {path.name for path in folder.iterdir()} - {SUMS, SIGNATURE}
    for name in sorted(there ^ sums.keys()):
        text = "is not in the release" if name in there else "is missing"
        yield Finding(name=name, passed=False, text=text)
    for name in sorted(there & sums.keys()):
        passed = sha256(folder / name) == sums[name]
        yield Finding(name=name, passed=passed, text="as released" if passed else "was changed")
    versions = yield from _versions(folder, sums)
    if len(versions) == 1:
        yield from _parts(folder, sums, versions.pop(), commit)


def signed(folder: Path, identity: str, issuer: str) -> Finding:
    """Return whether an identity signed the checksums; an empty one is not asked for."""
    if identity:
        problem = _unsigned(folder, identity, issuer)
        return Finding(name=SIGNATURE, passed=not problem, text=problem or f"is by {identity}")
    if not (folder / SIGNATURE).is_file():
        return Finding(
            name=SIGNATURE,
            passed=None,
            text="is not in the folder",
            remedy=f"take {SUMS} by a way that you trust",
        )
    return Finding(
        name=SIGNATURE,
        passed=None,
        text="is there; whose it is was not asked",
        remedy="--identity https://github.com/OWNER/REPOSITORY/.github/workflows/release.yml"
        "@refs/tags/vVERSION",
    )


def _unsigned(folder: Path, identity: str, issuer: str) -> str:
    """Return why the checksums are not signed by an identity; empty if they are.

    ``offline=True`` takes the trusted root that the package ships, or that an earlier run of
    sigstore's own command renewed (sigstore 4.5.1, sigstore/_internal/tuf.py).
    """
    try:
        from sigstore.errors import Error
        from sigstore.models import Bundle
        from sigstore.verify import Verifier
        from sigstore.verify.policy import Identity
    except ImportError as error:
        raise PrerequisiteError(
            f"--identity needs the package sigstore: {error}",
            remedy="pip install 'sigstore>=4.5,<5'",
        ) from error
    # It warns that nothing is renewed, which is what is asked for.
    logging.getLogger("sigstore").setLevel(logging.ERROR)
    try:
        text, sums = (folder / SIGNATURE).read_bytes(), (folder / SUMS).read_bytes()
    except FileNotFoundError:
        return "is not in the folder"
    try:
        Verifier.production(offline=True).verify_artifact(
            sums, Bundle.from_json(text), Identity(identity=identity, issuer=issuer)
        )
    except OSError as error:
        raise PrerequisiteError(
            f"--identity: sigstore cannot write its folder of roots of trust: {error}",
            remedy="set HOME, or XDG_CACHE_HOME where it is set, to a folder that you may write",
        ) from error
    except (Error, ValueError) as error:
        return f"does not prove {identity}: {error}"
    return ""


def _parts(folder: Path, sums: dict[str, str], version: str, commit: str) -> Iterator[Finding]:
    """Yield whether the other parts are there, of the same version and of the commit."""
    parts = names(version)
    if missing := [name for name in parts.values() if name not in sums]:
        yield Finding(name="parts", passed=False, text=f"{', '.join(missing)}: not in the release")
        return
    for part in ("plugin", "policies", *ROLES):
        problem = _installs(folder, parts[part], sums)
        yield Finding(name=parts[part], passed=not problem, text=problem or "installs this release")
    problem, made = _provenance(folder / parts["provenance"], sums)
    if commit and not problem and made != commit:
        problem = f"is made of {made or 'a tree with uncommitted changes'}, not of commit {commit}"
    text = problem or f"is of all files, and of {made or 'a tree with uncommitted changes'}"
    yield Finding(name=parts["provenance"], passed=not problem, text=text)


def _installs(folder: Path, name: str, sums: dict[str, str]) -> str:
    """Return why a file's requirements do not install these wheels alone; empty if they do."""
    try:
        pins = _OURS.findall(_requirements(folder / name))
    except (KeyError, OSError, ValueError, tarfile.TarError) as error:
        return f"cannot be read: {error}"
    wheels = {file.partition("-")[0]: digest for file, digest in sums.items() if ".whl" in file}
    wrong = [pin for pin, digest in pins if digest != wheels.get(pin.replace("-", "_"))]
    if wrong or not pins:
        return f"installs another {', '.join(wrong) or 'package'}"
    return ""


def _requirements(file: Path) -> str:
    if file.suffix == ".txt":
        return read_text(file)
    with tarfile.open(file) as archive:
        [member] = [m for m in archive.getmembers() if m.name.endswith("requirements.txt")]
        content = archive.extractfile(member)
        return content.read().decode() if content else ""


def _provenance(file: Path, sums: dict[str, str]) -> tuple[str, str]:
    """Return why a statement is not that of a release, or else its commit."""
    try:
        document: dict[str, Any] = json.loads(read_text(file))
        stated = {item["name"]: item["digest"]["sha256"] for item in document["subject"]}
        sources = document["predicate"]["buildDefinition"]["resolvedDependencies"]
        commits = [c for source in sources if (c := source["digest"].get("gitCommit"))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"cannot be read: {error}", ""
    if document.get("predicateType") != PROVENANCE:
        return "is no provenance statement", ""
    if stated != {name: digest for name, digest in sums.items() if name != file.name}:
        return "is of other files", ""
    return "", commits[0] if commits else ""


def _versions(folder: Path, sums: dict[str, str]) -> Generator[Finding, None, set[str]]:
    """Yield whether each distribution is there once, with its SBOM; return their versions."""
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
    return set(versions.values())


def _metadata(wheel: Path) -> tuple[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        [path] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(path))
    return str(metadata["Name"]), str(metadata["Version"])


def _unlike(bill: Path, wheel: str, sums: dict[str, str]) -> str:
    """Return why an SBOM is not that of a wheel; empty if it is."""
    try:
        document: dict[str, Any] = json.loads(read_text(bill))
        hashes = document["metadata"]["component"]["hashes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"cannot be read: {error}"
    if {"alg": "SHA-256", "content": sums.get(wheel)} not in hashes:
        return f"is of another {wheel}"
    return ""


def sha256(file: Path) -> str:
    """Return the digest of a file, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
