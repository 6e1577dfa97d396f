"""A kubeconfig and its credentials. This module sends no request.

It writes credentials to disk only for a moment: see :func:`_tls`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from railhead.base.errors import did_you_mean
from railhead.base.reading import read_bytes, read_text
from railhead.kube.errors import CredentialError, KubeconfigError

Object = dict[str, Any]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MEND = "mend the kubeconfig"
# The kubelet and others renew a token in its file; client-go reads it again after a minute.
FILE_LIFE = timedelta(minutes=1)
# A token that expires this soon counts as expired.
MARGIN = timedelta(seconds=30)
_FILES = (
    ("clusters", "cluster", ("certificate-authority",)),
    ("users", "user", ("client-certificate", "client-key", "tokenFile")),
)


@dataclass(frozen=True, kw_only=True)
class Kubeconfig:
    """One context of a kubeconfig.

    Args:
        document: the whole file, with absolute file names and ``context`` as the current one.
        context: the context's name.
        where: its file, for messages.
    """

    document: Object
    context: str
    where: str

    def __post_init__(self) -> None:
        self._named("context", self.context)

    def on(self, cluster: str) -> Kubeconfig:
        """Return the same with another cluster in the context."""
        self._chosen["cluster"] = cluster
        return self

    @property
    def cluster(self) -> Object:
        """The context's cluster. Raises KubeconfigError."""
        return self._named("cluster", str(self._chosen.get("cluster")))

    @property
    def user(self) -> Object:
        """The context's user; empty when it names no user. Raises KubeconfigError."""
        name = self._chosen.get("user")
        return self._named("user", str(name)) if name else {}

    @property
    def namespace(self) -> str:
        """The context's namespace; empty when it names no namespace."""
        return str(self._chosen.get("namespace") or "")

    @property
    def _chosen(self) -> Object:
        return self._named("context", self.context)

    def _named(self, kind: str, name: str) -> Object:
        entries = [e for e in self.document.get(f"{kind}s") or [] if isinstance(e, dict)]
        for entry in entries:
            if entry.get("name") == name and isinstance(entry.get(kind), dict):
                named: Object = entry[kind]
                return named
        known = [str(e.get("name")) for e in entries]
        raise KubeconfigError(
            f"{self.where}: no {kind} is called {name!r}; there are: {', '.join(known) or 'none'}"
            + did_you_mean(name, known),
            remedy="name one of them with --context" if kind == "context" else MEND,
        )


def load(path: Path, *, context: str | None = None) -> Kubeconfig:
    """Read a file. Raises KubeconfigError."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: not readable: {error}", remedy=MEND) from None
    return parse(text, where=str(path), base=path.absolute().parent, context=context)


def parse(text: str, *, where: str, base: Path, context: str | None = None) -> Kubeconfig:
    """Read a kubeconfig's text.

    Args:
        text: YAML or JSON.
        where: the name of the source, for messages.
        base: the folder that its file names are relative to.
        context: None for the current one.

    Raises:
        KubeconfigError: it is not a kubeconfig, or has no such context.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The error quotes the text, which holds credentials.
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise KubeconfigError(f"{where}: not readable: no YAML{line}", remedy=MEND) from None
    if not isinstance(document, dict):
        raise KubeconfigError(f"{where}: not a kubeconfig", remedy="name another file")
    chosen = str(context or document.get("current-context") or "")
    if not chosen:
        raise KubeconfigError(f"{where}: no current-context", remedy="name one with --context")
    for section, inner, keys in _FILES:
        for entry in document.get(section) or []:
            values = (entry.get(inner) if isinstance(entry, dict) else None) or {}
            values.update({key: str(base / values[key]) for key in keys if values.get(key)})
    document["current-context"] = chosen
    return Kubeconfig(document=document, context=chosen, where=where)


Dated = tuple[str, datetime | None]


class Token:
    """A bearer token that is renewed when it is old, or was refused.

    Args:
        ask: returns a token and its expiry; None means that it is good until it is refused.
        first: a token that was already obtained.
    """

    def __init__(self, ask: Callable[[], Dated], first: Dated | None = None) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._value, self._until = first or ask()

    def value(self, *, refused: str = "") -> str:
        """Return the token; if possible, another one than ``refused``."""
        with self._lock:
            old = self._until is not None and datetime.now(UTC) >= self._until
            if old or self._value == refused:
                self._value, self._until = self._ask()
            return self._value


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The address and the credentials of a connection.

    Args:
        server: the API server's URL.
        context: the kubeconfig's context, or a name in its place.
        tls: False for a server without TLS.
        token: None for a client certificate or an anonymous client.
        proxy: the kubeconfig's proxy.
        server_name: the name in the server's certificate, if it is not the URL's host.
        impersonate: headers that impersonate a user.
    """

    server: str
    context: str
    tls: ssl.SSLContext | bool = False
    token: Token | None = None
    proxy: str | None = None
    server_name: str | None = None
    impersonate: tuple[tuple[str, str], ...] = ()


def credentials(config: Kubeconfig) -> Credentials:
    """Return the credentials of a kubeconfig's context; run its credential plugin, if any.

    Raises:
        KubeconfigError: the context lacks something, or a certificate is not usable.
        CredentialError: the plugin gives no credentials.
    """
    cluster, user, where = config.cluster, config.user, config.where
    server = str(cluster.get("server") or "")
    if urlsplit(server).scheme not in ("http", "https"):
        raise KubeconfigError(
            f"{where}: the cluster's server is {server!r}, not a URL", remedy=MEND
        )
    for gone in {"auth-provider", "username"} & user.keys():
        raise KubeconfigError(
            f"{where}: the user has {gone}, which Kubernetes no longer takes",
            remedy="log in with the cloud's credential plugin; it writes `exec` there",
        )
    certificate = _bytes_of(user, "client-certificate", where=where)
    key = _bytes_of(user, "client-key", where=where)
    token = None
    if isinstance(user.get("exec"), dict):
        plugin = user["exec"]
        answer = _ask_plugin(plugin, where=where)
        if answer.get("token"):
            token = Token(lambda: _dated(_ask_plugin(plugin, where=where)), _dated(answer))
        if answer.get("clientCertificateData") and answer.get("clientKeyData"):
            certificate = str(answer["clientCertificateData"]).encode()
            key = str(answer["clientKeyData"]).encode()
    elif user.get("tokenFile"):
        token = _of_file(Path(user["tokenFile"]), where=where)
    elif user.get("token"):
        text = str(user["token"])
        token = Token(lambda: (text, None))
    tls: ssl.SSLContext | bool = False
    if server.startswith("https:"):
        authority = _bytes_of(cluster, "certificate-authority", where=where)
        try:
            tls = _tls(authority=authority, certificate=certificate, key=key)
        except (ssl.SSLError, ValueError) as error:
            raise KubeconfigError(
                f"{where}: a certificate or key is not usable: {error}", remedy=MEND
            ) from None
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
    return Credentials(
        server=server.rstrip("/"),
        context=config.context,
        tls=tls,
        token=token,
        proxy=str(cluster["proxy-url"]) if cluster.get("proxy-url") else None,
        server_name=cluster.get("tls-server-name"),
        impersonate=(
            *((("Impersonate-User", str(user["as"])),) if user.get("as") else ()),
            *(("Impersonate-Group", str(group)) for group in user.get("as-groups") or []),
        ),
    )


def of_service_account() -> Credentials:
    """Return a pod's own credentials."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return Credentials(
        server=f"https://{host}:{port}",
        context="service account",
        tls=ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt")),
        token=_of_file(SERVICE_ACCOUNT / "token", where=str(SERVICE_ACCOUNT)),
    )


def _of_file(path: Path, *, where: str) -> Token:
    def ask() -> Dated:
        try:
            text = read_text(path).strip()
        except OSError as error:
            raise KubeconfigError(
                f"{where}: tokenFile: {path}: {error.strerror}", remedy=MEND
            ) from None
        return text, datetime.now(UTC) + FILE_LIFE

    return Token(ask)


def _bytes_of(entry: Object, key: str, *, where: str) -> bytes | None:
    if data := entry.get(f"{key}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error:
            raise KubeconfigError(f"{where}: {key}-data is not base64", remedy=MEND) from None
    if name := entry.get(key):
        try:
            return read_bytes(Path(name))
        except OSError as error:
            raise KubeconfigError(
                f"{where}: {key}: {name}: {error.strerror}", remedy=MEND
            ) from None
    return None


def _tls(
    *, authority: bytes | None, certificate: bytes | None, key: bytes | None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    # Kubernetes' own authorities often lack what strict mode, Python's default from 3.13, asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate and key:
        # The ssl module takes a path only; the file is 0600 and gone before the first request.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _dated(answer: Object) -> Dated:
    until = answer.get("expirationTimestamp")
    return str(answer.get("token")), datetime.fromisoformat(until) - MARGIN if until else None


def _ask_plugin(spec: Object, *, where: str) -> Object:
    """Run a kubeconfig's credential plugin (client.authentication.k8s.io) and read its answer."""
    command = [str(spec.get("command", "")), *[str(a) for a in spec.get("args") or []]]
    environment = dict(os.environ)
    environment.update({str(e["name"]): str(e["value"]) for e in spec.get("env") or []})
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(
        {
            "apiVersion": spec.get("apiVersion"),
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
    )
    plugin = f"{where}: the credential plugin {command[0]!r}"
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        hint = str(spec.get("installHint") or "install it, or log in again")
        raise CredentialError(f"{plugin} did not run: {error}", remedy=hint) from None
    if done.returncode != 0:
        message = done.stderr.strip()[-400:]
        raise CredentialError(
            f"{plugin} exited {done.returncode}: {message}",
            remedy="log in to the cloud account again",
        )
    try:
        status: Object = dict(json.loads(done.stdout)["status"])
        _dated(status)
    except (ValueError, KeyError, TypeError):
        raise CredentialError(
            f"{plugin} printed no ExecCredential",
            remedy="run it by hand and look at what it prints",
        ) from None
    return status
