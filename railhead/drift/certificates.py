"""Certificates of webhooks that no longer hold: without them nothing that they judge is created.

The controllers of the stack make their own (open-policy-agent/cert-controller v0.15.0,
pkg/rotator/rotator.go): a Secret with ``tls.crt``, and its authority as ``caBundle`` in their
webhooks. They renew them 90 days ahead, when they start and every 12 hours.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

from railhead.drift.objects import Drift, Object, Severity, subject

_PEM = re.compile(f"{ssl.PEM_HEADER}.+?{ssl.PEM_FOOTER}", re.DOTALL)
_SERVED = "data.tls.crt"


def certificates(live: Object, namespace: str) -> Iterator[Drift]:
    """Yield the first certificate of a release's object that is missing, expired or unreadable.

    Args:
        live: the object, with its kind.
        namespace: that of the release.
    """
    for field, encoded in _encoded(live):
        if fault := _fault(field, encoded):
            yield Drift(
                severity=Severity.GUARD,
                subject=subject(live),
                field=field,
                stack="a certificate that is valid",
                live=fault,
                remedy=f"kubectl -n {namespace} rollout restart deployment: controllers renew "
                "theirs when they start; where cert-manager issues them, kubectl -n "
                f"{namespace} describe certificate says why it did not",
            )
            return


def _encoded(live: Object) -> Iterator[tuple[str, str]]:
    """Yield the field and the base64 text of each certificate that an object holds or trusts."""
    spec = live.get("spec") or {}
    clients = {
        f"webhooks[{number}].clientConfig": webhook["clientConfig"]
        for number, webhook in enumerate(live.get("webhooks") or ())
    }
    if converter := (spec.get("conversion") or {}).get("webhook"):
        clients["spec.conversion.webhook.clientConfig"] = converter.get("clientConfig") or {}
    for field, client in clients.items():
        # A URL may well have a certificate that the API server's own roots vouch for.
        if "service" in client or "caBundle" in client:
            yield f"{field}.caBundle", client.get("caBundle") or ""
    if live["kind"] == "Secret" and "tls.crt" in (live.get("data") or {}):
        yield _SERVED, live["data"]["tls.crt"]


def _fault(field: str, encoded: str) -> str:
    """Return what is wrong with the certificates of a base64 text; empty if nothing is."""
    if not encoded:
        return "none"
    try:
        every = _PEM.findall(base64.b64decode(encoded).decode())
        # A server's own comes first; of those that are trusted one is enough.
        end = max(map(expiry, every[:1] if field == _SERVED else every))
    except (ValueError, IndexError):
        return "not a certificate"
    return f"expired on {end:%Y-%m-%d}" if end < datetime.now(UTC) else ""


def expiry(pem: str) -> datetime:
    """Return when a certificate expires.

    Its fields are a version, a number, an algorithm, an issuer and the validity (RFC 5280, 4.1).

    Raises:
        ValueError: it is no certificate.
        IndexError: it ends too early.
    """
    ((_, certificate),) = _elements(ssl.PEM_cert_to_DER_cert(pem))
    signed = next(_elements(certificate), (0, b""))[1]
    fields = [content for tag, content in _elements(signed) if tag != 0xA0]
    _, (tag, end) = _elements(fields[3])
    text = end.decode()
    if tag == 0x17:  # UTCTime, of two digits for the year
        text = f"{'19' if text >= '5' else '20'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element (X.690, 8.1)."""
    while der:
        begin, size = 2, der[1]
        if size & 0x80:
            begin += size & 0x7F
            size = int.from_bytes(der[2:begin], "big")
        yield der[0], der[begin : begin + size]
        der = der[begin + size :]
