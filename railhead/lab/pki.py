"""A lab's certificates: random keys of its own, files of mode 0600, valid for a year."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A certificate and its key, as paths."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority below ``directory``; made once, read again afterwards."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.pair = Pair(certificate=directory / f"{name}.crt", key=directory / f"{name}.key")
        if not (self.pair.certificate.exists() and self.pair.key.exists()):
            key = ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"railhead-{name}")])
            certificate = (
                _builder(subject, subject, key)
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(_key_usage(sign=True), critical=True)
                .sign(key, hashes.SHA256())
            )
            _write(self.pair, certificate, key)
        self._certificate = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
        loaded = serialization.load_pem_private_key(self.pair.key.read_bytes(), None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self.pair.key} holds no elliptic curve key")
        self._key = loaded

    def issue(
        self,
        name: str,
        *,
        common_name: str,
        organization: str = "",
        hosts: tuple[str, ...] = (),
    ) -> Pair:
        """Return a certificate for clients, and for servers too where ``hosts`` names it.

        Args:
            name: file name without suffix; an existing pair of it is kept.
            common_name: the user, as Kubernetes reads it.
            organization: the group, as Kubernetes reads it.
            hosts: DNS names and IP addresses.
        """
        pair = Pair(certificate=self.directory / f"{name}.crt", key=self.directory / f"{name}.key")
        if pair.certificate.exists() and pair.key.exists():
            return pair
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        builder = (
            _builder(x509.Name(attributes), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]),
                critical=False,
            )
        _write(pair, builder.sign(self._key, hashes.SHA256()), key)
        return pair


def signing_key(directory: Path, name: str) -> Pair:
    """Return a key pair for service account tokens: PEM private key and public key."""
    pair = Pair(certificate=directory / f"{name}.pub", key=directory / f"{name}.key")
    if not (pair.certificate.exists() and pair.key.exists()):
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write_private(pair.key, _pem(key))
        _write_private(pair.certificate, public)
    return pair


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour back, for clocks that are set while the lab runs.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _key_usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not sign,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign,
        crl_sign=sign,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    # The key first: a certificate that exists has its key, whenever this is interrupted.
    _write_private(pair.key, _pem(key))
    _write_private(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))


def _write_private(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
