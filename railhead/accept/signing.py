"""A report's seal: a digest over all its data, and a signature where there is a key.

The digest is SHA-256 over the report's canonical JSON (keys sorted, no blanks, ASCII), ``accepted``
included; a page has a second one, over all its bytes but the seal's. A digest tells an edit. It
does not show that a page was written again: that takes a key (Ed25519, RFC 8032), or the digest
noted elsewhere when the report was made.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from railhead import __version__
from railhead.accept import document
from railhead.accept.model import Model, Report
from railhead.accept.report import END, REPORT_BEGIN, SEAL_BEGIN, embedded, page
from railhead.base.errors import InputError, NotFoundError, PrerequisiteError, RefusedError
from railhead.base.reading import read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

# What a signature is made over begins with this, so that it is good for nothing else.
CONTEXT = b"railhead accept report v1\n"
_HEX = r"^[0-9a-f]{64}$"


class Seal(Model):
    """The seal, which shows a change.

    ``report`` and ``page`` are SHA-256 in hexadecimal, ``page`` empty beside plain JSON; ``signer``
    is a public key as OpenSSH writes it, ``signature`` is in base64.
    """

    report: str = Field(pattern=_HEX)
    page: str = Field(default="", pattern=_HEX + "|^$")
    signer: str = ""
    signature: str = ""

    @property
    def signed(self) -> bytes:
        """Return the bytes that are signed."""
        return CONTEXT + document.canonical(self.model_dump(exclude={"signature"}))


class ChangedError(RefusedError):
    """The file is not what was sealed."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A report whose seal holds; ``trusted`` says that its signer is a key that was given."""

    report: Report
    seal: Seal
    page: bool
    trusted: bool


def sealed(report: Report, key: Ed25519PrivateKey | None = None) -> dict[str, Any]:
    """Return the report as a JSON document with its seal under ``seal``."""
    seal = _signed(Seal(report=document.digest(report)), key)
    return {**document.body(report), "seal": seal.model_dump()}


def sealed_page(report: Report, key: Ed25519PrivateKey | None = None) -> str:
    """Return the report as one HTML page that holds its own JSON and its seal."""
    text = page(report, signer=fingerprint(public_text(key.public_key())) if key else "")
    seal = _signed(Seal(report=document.digest(report), page=_page_digest(text)), key)
    head, _, tail = text.partition(SEAL_BEGIN)
    return head + SEAL_BEGIN + embedded(seal.model_dump()) + tail


def check(raw: bytes, *, key: Ed25519PublicKey | None = None, digest: str | None = None) -> Checked:
    """Read a sealed report, and refuse it where anything in it was changed.

    Args:
        raw: a page, or a JSON document, as bytes.
        key: the public key that must have signed it.
        digest: as it was noted elsewhere, SHA-256 of the report in hexadecimal.

    Raises:
        ChangedError: it is not what was sealed, or not signed by that key.
        PrerequisiteError: it is signed, and `cryptography` is not there to say by whom.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _changed("it is not UTF-8", None) from error
    is_page = text.lstrip()[:1] != "{"
    held, seal = _of_page(text) if is_page else _of_json(text)
    try:
        result = document.sha256(held)
        report = Report.model_validate({k: v for k, v in held.items() if k != "accepted"})
    except ValueError as error:
        raise _changed("what it holds is no report", None) from error
    if result != seal.report:
        raise _changed(f"its verdicts and evidence have digest {result}", seal.report)
    if document.digest(report) != result:
        raise _changed("its `accepted` or its writing is not what its checks say", seal.report)
    if is_page:
        _check_page(text, report, seal)
    _check_signature(seal, key)
    if digest is not None and digest.lower().removeprefix("sha256:") != seal.report:
        raise ChangedError(
            f"this is another report: its digest is {seal.report}, not {digest}",
            remedy="take the file that was made with the digest",
        )
    return Checked(report=report, seal=seal, page=is_page, trusted=key is not None)


def _check_page(text: str, report: Report, seal: Seal) -> None:
    """Check that the bytes are those that were sealed, and that they show what the data says."""
    if (result := _page_digest(text)) != seal.page:
        raise _changed(f"the page's bytes have digest {result}", seal.page)
    # Another version draws otherwise; for its pages the digest, and the signature, must do.
    if report.railhead == __version__ and _unsealed(text) != page(
        report, signer=fingerprint(seal.signer)
    ):
        raise _changed("what the page shows is not what its own data says", seal.page)


def _check_signature(seal: Seal, key: Ed25519PublicKey | None) -> None:
    if not seal.signer and not seal.signature:
        if key is not None:
            raise ChangedError(
                "nobody signed this report",
                remedy="ask for one that was signed with the key, or check it without --key",
            )
        return
    try:
        signer = public_key(seal.signer.encode(), "its seal")
    except InputError as error:
        raise _changed("its seal names no key", None) from error
    from cryptography.exceptions import InvalidSignature

    try:
        signer.verify(base64.b64decode(seal.signature, validate=True), seal.signed)
    except (InvalidSignature, ValueError) as error:
        raise _changed("its signature does not hold", None) from error
    if key is not None and public_text(key) != seal.signer:
        raise ChangedError(
            f"this report was signed by {fingerprint(seal.signer)}, not by the key given, "
            f"{fingerprint(public_text(key))}",
            remedy="name the public key of who was to sign it",
        )


def _changed(why: str, sealed_as: str | None) -> ChangedError:
    text = f", not {sealed_as} as sealed" if sealed_as else ""
    return ChangedError(
        f"this report was changed after it was made: {why}{text}",
        remedy="ask for the file as `railhead accept` wrote it, or run it again",
    )


# -- where a seal stands --------------------------------------------------------------------------


def _of_json(text: str) -> tuple[dict[str, Any], Seal]:
    held = _object(text)
    if "seal" not in held:
        raise ChangedError(
            "this report has no seal", remedy="take the file as `railhead accept` wrote it"
        )
    seal = _seal(held.pop("seal"))
    if seal.page:
        raise _changed("its seal is that of a page", None)
    return held, seal


def _of_page(text: str) -> tuple[dict[str, Any], Seal]:
    return _object(_inside(text, REPORT_BEGIN)), _seal(_object(_inside(text, SEAL_BEGIN)))


def _inside(text: str, begin: str) -> str:
    if text.count(begin) != 1 or END not in text.partition(begin)[2]:
        raise _changed("its data or its seal is not in it once", None)
    return text.partition(begin)[2].partition(END)[0]


def _unsealed(text: str) -> str:
    """Return the page with its seal's place empty."""
    head, _, tail = text.partition(SEAL_BEGIN)
    return head + SEAL_BEGIN + END + tail.partition(END)[2]


def _page_digest(text: str) -> str:
    return hashlib.sha256(_unsealed(text).encode()).hexdigest()


def _object(text: str) -> dict[str, Any]:
    try:
        return document.read(text)
    except ValueError as error:
        raise _changed(f"its JSON cannot be read ({error})", None) from error


def _seal(value: Any) -> Seal:
    try:
        return Seal.model_validate(value, strict=True)
    except ValidationError as error:
        raise _changed("its seal cannot be read", None) from error


# -- keys -----------------------------------------------------------------------------------------


def _signed(seal: Seal, key: Ed25519PrivateKey | None) -> Seal:
    if key is None:
        return seal
    seal = seal.model_copy(update={"signer": public_text(key.public_key())})
    signature = base64.b64encode(key.sign(seal.signed)).decode()
    return seal.model_copy(update={"signature": signature})


def private_key(path: Path) -> Ed25519PrivateKey:
    """Return the key of who signs: Ed25519 without a passphrase, as OpenSSH or OpenSSL write it.

    Raises:
        InputError: it is not such a key, or others may read it.
        NotFoundError: there is no such file.
        PrerequisiteError: `cryptography` is not installed.
    """
    serialization = _serialization()
    data = _read(path)
    if path.stat().st_mode & 0o077:
        raise InputError(
            f"others may read the signing key {path} (mode {path.stat().st_mode & 0o777:04o})",
            remedy=f"chmod 600 {path}",
        )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    load = (
        serialization.load_ssh_private_key
        if b"OPENSSH PRIVATE KEY" in data
        else serialization.load_pem_private_key
    )
    try:
        result = load(data, password=None)
    except TypeError as error:
        raise InputError(
            f"the signing key {path} has a passphrase, which nobody asks for here",
            remedy="make one for reports alone: ssh-keygen -t ed25519 -N '' -f accept-key",
        ) from error
    except Exception as error:
        raise _no_key(str(path)) from error
    if not isinstance(result, Ed25519PrivateKey):
        raise _no_key(str(path))
    return result


def public_key_file(path: Path) -> Ed25519PublicKey:
    """Return the key of who must have signed; a private key's file does too.

    Raises:
        InputError: it is not such a key.
        NotFoundError: there is no such file.
        PrerequisiteError: `cryptography` is not installed.
    """
    data = _read(path)
    if b"PRIVATE KEY" in data:
        return private_key(path).public_key()
    return public_key(data, str(path))


def public_key(data: bytes, where: str) -> Ed25519PublicKey:
    """Return an Ed25519 public key as OpenSSH or OpenSSL write it.

    Raises:
        InputError: it is not such a key.
        PrerequisiteError: `cryptography` is not installed.
    """
    serialization = _serialization()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    pem = data.lstrip().startswith(b"-----")
    load = serialization.load_pem_public_key if pem else serialization.load_ssh_public_key
    try:
        result = load(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _no_key(where) from error
    if not isinstance(result, Ed25519PublicKey):
        raise _no_key(where)
    return result


def public_text(key: Ed25519PublicKey) -> str:
    """``ssh-ed25519 AAAA...``, without a comment."""
    serialization = _serialization()
    return key.public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    ).decode()


def fingerprint(public: str) -> str:
    """Return the fingerprint of ``ssh-ed25519 AAAA...`` as ``ssh-keygen -l`` prints it."""
    try:
        raw = base64.b64decode(public.split()[1], validate=True)
    except (ValueError, IndexError):
        return public
    return "SHA256:" + base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


def _no_key(where: str) -> InputError:
    return InputError(
        f"{where} holds no Ed25519 key",
        remedy="make one: ssh-keygen -t ed25519 -N '' -f accept-key; others check with "
        "accept-key.pub",
    )


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise NotFoundError(
            f"the key {path} cannot be read: {error.strerror}", remedy="name a file that is there"
        ) from error


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise PrerequisiteError(
            "signatures need the Python package cryptography, which is not installed",
            remedy="pip install 'cryptography>=45'",
        ) from error
    return serialization
