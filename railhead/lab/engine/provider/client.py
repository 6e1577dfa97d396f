"""The API server: authentication from a kubeconfig, discovery, requests and readable errors.

The `kubernetes` package reads the kubeconfig and obtains credentials (tokens, certificates, exec
plugins); requests go through one pooled urllib3 client that all operations share.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_DISCOVERY_TTL_S = 300.0


class UnreachableError(Exception):
    """No usable connection to the API server: bad kubeconfig, refused, timed out, no trust."""


class NoMatchError(Exception):
    """The API server serves no such kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f'no matches for kind "{kind}" in version "{api_version}"')
        self.api_version = api_version
        self.kind = kind


class ApiError(Exception):
    """The API server said no.

    Args:
        status: HTTP status code.
        reason: the machine-readable reason, such as ``AlreadyExists`` or ``Conflict``.
        message: the server's message.
        details: ``Status.details`` as the server sent it.
    """

    def __init__(
        self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = dict(details or {})

    @property
    def not_found(self) -> bool:
        """The object, or its namespace, does not exist."""
        return self.status == 404

    @property
    def already_exists(self) -> bool:
        """An object of that name exists."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """Another field manager owns a field, or the resource version moved."""
        return self.status == 409 and self.reason == "Conflict"

    @property
    def namespace_missing(self) -> bool:
        """The object's namespace does not exist."""
        return self.not_found and self.details.get("kind") == "namespaces"

    @property
    def dry_run_unsupported(self) -> bool:
        """A webhook on the way has side effects, so a dry run was refused."""
        return self.status == 400 and (
            "does not support dry run" in self.message
            or ("dryRun" in self.message and "feature is disabled" in self.message)
        )


@dataclass(frozen=True, kw_only=True)
class ResourceType:
    """Where one kind is served."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = field(default_factory=frozenset)

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection, or of the object called ``name``."""
        prefix = "/apis/" if "/" in self.api_version else "/api/"
        parts = [prefix + self.api_version]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join(parts)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A successful reply: the decoded body and the server's warnings."""

    body: Any
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Provider settings that concern the connection.

    Args:
        kubeconfig: a path, or the contents as YAML or JSON; empty for ``$KUBECONFIG``, then
            ``~/.kube/config``.
        context: the context to use; empty for the current one.
        cluster: overrides the context's cluster.
        timeout_s: for one request; zero for none of ours.
    """

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    timeout_s: float = 0.0


def load_kubeconfig(settings: ClientSettings) -> dict[str, Any]:
    """The kubeconfig as a dictionary, relative file names made absolute.

    Raises:
        UnreachableError: no kubeconfig, not readable or not one.
    """
    import yaml

    text = settings.kubeconfig
    base = Path.cwd()
    source = "the provider's kubeconfig"
    if not text or ("\n" not in text and "{" not in text):
        paths = [text] if text else os.environ.get("KUBECONFIG", "").split(os.pathsep)
        candidates = [Path(path).expanduser() for path in paths if path]
        if not candidates:
            candidates = [Path.home() / ".kube" / "config"]
        existing = [path for path in candidates if path.is_file()]
        if not existing:
            names = ", ".join(str(path) for path in candidates)
            raise UnreachableError(f"there is no kubeconfig at {names}")
        base = existing[0].absolute().parent
        source = str(existing[0])
        try:
            text = existing[0].read_text()
        except OSError as error:
            raise UnreachableError(f"{source} cannot be read: {error.strerror}") from error
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The error quotes the text, which holds credentials.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise UnreachableError(f"{source} is not valid YAML{where}") from None
    if not isinstance(config, dict) or not config.get("clusters"):
        raise UnreachableError(f"{source} names no clusters")
    _absolute_files(config, base)
    _select(config, settings)
    return config


def _absolute_files(config: dict[str, Any], base: Path) -> None:
    for section, keys in (
        ("clusters", ("certificate-authority",)),
        ("users", ("client-certificate", "client-key", "tokenFile")),
    ):
        for entry in config.get(section) or []:
            inner = entry.get("cluster" if section == "clusters" else "user") or {}
            for key in keys:
                if inner.get(key):
                    inner[key] = str(base / inner[key])


def _select(config: dict[str, Any], settings: ClientSettings) -> None:
    contexts = config.setdefault("contexts", []) or []
    name = settings.context or config.get("current-context") or ""
    names = [entry.get("name") for entry in contexts]
    if name not in names:
        known = ", ".join(str(item) for item in names) or "none"
        raise UnreachableError(f"context {name!r} is not in the kubeconfig; it has: {known}")
    config["current-context"] = name
    if settings.cluster:
        for entry in contexts:
            if entry.get("name") == name:
                entry["context"]["cluster"] = settings.cluster


def active_cluster(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The cluster entry of the current context; empty when there is none."""
    contexts = {entry.get("name"): entry.get("context") or {} for entry in config["contexts"]}
    wanted = contexts.get(config.get("current-context"), {}).get("cluster")
    for entry in config["clusters"]:
        if entry.get("name") == wanted:
            cluster: Mapping[str, Any] = entry.get("cluster") or {}
            return cluster
    return {}


def context_namespace(config: Mapping[str, Any]) -> str:
    """The namespace of the current context; empty when it names none."""
    for entry in config["contexts"]:
        if entry.get("name") == config.get("current-context"):
            return str((entry.get("context") or {}).get("namespace") or "")
    return ""


def _with_files(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    # The kubernetes package would keep files of its own for embedded certificates, and remember
    # them by content for the life of the process.
    result = copy.deepcopy(dict(config))
    sections = {
        "clusters": ("cluster", ("certificate-authority",)),
        "users": ("user", ("client-certificate", "client-key")),
    }
    for section, (inner, keys) in sections.items():
        for number, entry in enumerate(result.get(section) or []):
            values = entry.get(inner) or {}
            for key in keys:
                data = values.pop(f"{key}-data", None)
                if data:
                    path = folder / f"{inner}-{number}-{key}"
                    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                    with os.fdopen(handle, "wb") as file:
                        file.write(base64.b64decode(data))
                    values[key] = str(path)
    return result


class KubeClient:
    """Requests to one API server. Safe to use from many threads."""

    def __init__(self, config: dict[str, Any], settings: ClientSettings) -> None:
        """Read credentials; no request is made.

        Raises:
            UnreachableError: the kubeconfig's credentials or certificates are not usable.
        """
        import urllib3
        from kubernetes.client import Configuration
        from kubernetes.config import load_kube_config_from_dict

        self._settings = settings
        self._configuration = Configuration()
        # The certificates are read into memory at once, so no file of ours outlives this block.
        with tempfile.TemporaryDirectory(prefix="railhead-kube-") as folder:
            try:
                load: Any = load_kube_config_from_dict
                load(
                    _with_files(config, Path(folder)),
                    client_configuration=self._configuration,
                    persist_config=False,
                )
                tls = self._tls()
            except Exception as error:
                raise UnreachableError(f"the kubeconfig is not usable: {error}") from error
        self._host = str(self._configuration.host).rstrip("/")
        options: dict[str, Any] = {
            "maxsize": 64,
            "block": False,
            "retries": False,
            "ssl_context": tls,
        }
        server_name = getattr(self._configuration, "tls_server_name", None)
        if server_name:
            options["server_hostname"] = server_name
            options["assert_hostname"] = server_name
        if not self._configuration.verify_ssl:
            options["assert_hostname"] = False
        proxy = self._configuration.proxy
        self._pool: Any = (
            urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
        )
        self._lock = threading.Lock()
        self._discovered: dict[str, tuple[float, dict[str, ResourceType]]] = {}

    def _tls(self) -> ssl.SSLContext:
        configuration = self._configuration
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        # Kubernetes' own certificate authorities often lack what strict mode asks for.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
        return context

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._host

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout_s: float | None = None,
    ) -> Reply:
        """One request; retried when the server asks for it (429) or a read's connection broke.

        Raises:
            ApiError: the server answered with an error.
            UnreachableError: there was no answer.
        """
        import urllib3

        url = self._host + path
        if query:
            url += "?" + urlencode(query)
        data = None if body is None else json.dumps(body).encode()
        limit = timeout_s or self._settings.timeout_s or 60.0
        attempt, attempts = 0, 5
        while True:
            attempt += 1
            try:
                reply = self._pool.request(
                    method,
                    url,
                    body=data,
                    headers=self._headers(content_type if data is not None else "", accept),
                    timeout=urllib3.Timeout(connect=10.0, read=limit),
                )
            except urllib3.exceptions.HTTPError as error:
                fresh = isinstance(
                    error,
                    (
                        urllib3.exceptions.NewConnectionError,
                        urllib3.exceptions.ConnectTimeoutError,
                    ),
                )
                # A kept-alive connection that the server closed: safe to repeat a read.
                broken = isinstance(error, urllib3.exceptions.ProtocolError) and method == "GET"
                if broken and attempt < attempts:
                    continue
                verb = "connect to" if fresh else "talk to"
                cause = _short(error)
                raise UnreachableError(f"cannot {verb} {self._host}: {cause}") from error
            if reply.status == 429 and attempt < attempts:
                time.sleep(min(float(reply.headers.get("Retry-After") or 1), 5.0))
                continue
            return _read(reply)

    def _headers(self, content_type: str, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": "railhead-pulumi-kubernetes"}
        if content_type:
            headers["Content-Type"] = content_type
        settings: Mapping[str, Any] = self._configuration.auth_settings()
        for auth in settings.values():
            if auth.get("in") == "header" and auth.get("value"):
                headers[auth["key"]] = auth["value"]
        return headers

    def version(self) -> str:
        """The server's version, such as ``v1.35.8``."""
        return str(self.request("GET", "/version", timeout_s=15.0).body.get("gitVersion", ""))

    def forget_discovery(self) -> None:
        """Look kinds up afresh, for example after a CRD was applied."""
        with self._lock:
            self._discovered.clear()

    def resource_type(self, api_version: str, kind: str) -> ResourceType:
        """Where ``kind`` of ``api_version`` is served.

        Raises:
            NoMatchError: the server does not serve it.
        """
        if api_version.startswith("core/"):
            api_version = api_version.removeprefix("core/")
        found = self._types(api_version).get(kind)
        if found is None:
            # A CRD may have been established since the last look.
            found = self._types(api_version, fresh=True).get(kind)
        if found is None:
            raise NoMatchError(api_version, kind)
        return found

    def _types(self, api_version: str, *, fresh: bool = False) -> dict[str, ResourceType]:
        with self._lock:
            seen, types = self._discovered.get(api_version, (0.0, {}))
        if types and not fresh and time.monotonic() - seen < _DISCOVERY_TTL_S:
            return types
        prefix = "/apis/" if "/" in api_version else "/api/"
        try:
            listed = self.request("GET", prefix + quote(api_version, safe="/")).body
        except ApiError as error:
            if error.status in (404, 403) or error.status == 503:
                return {}
            raise
        types = {
            entry["kind"]: ResourceType(
                api_version=api_version,
                kind=entry["kind"],
                plural=entry["name"],
                namespaced=bool(entry.get("namespaced")),
                verbs=frozenset(entry.get("verbs") or ()),
            )
            for entry in listed.get("resources") or []
            if "/" not in entry["name"]
        }
        with self._lock:
            self._discovered[api_version] = (time.monotonic(), types)
        return types

    def preferred_version(self, group: str) -> str:
        """The served version of an API group, such as ``v1beta2``; empty when not served."""
        if group in ("", "core"):
            return "v1"
        try:
            body = self.request("GET", f"/apis/{quote(group, safe='')}").body
        except ApiError:
            return ""
        return str((body.get("preferredVersion") or {}).get("version") or "")


_QUOTED_POOL = re.compile(r"^HTTPS?ConnectionPool\([^)]*\): ")


def _short(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    return _QUOTED_POOL.sub("", str(reason))


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def _read(reply: Any) -> Reply:
    try:
        body = json.loads(reply.data) if reply.data else {}
    except ValueError:
        body = {"message": reply.data.decode(errors="replace").strip()}
    if reply.status >= 400:
        status = body if isinstance(body, dict) else {}
        message = str(status.get("message") or f"HTTP status {reply.status}")
        raise ApiError(
            reply.status, str(status.get("reason") or ""), message, status.get("details")
        )
    header = ", ".join(reply.headers.getlist("Warning"))
    warnings = tuple(text.replace('\\"', '"') for text in _WARNING.findall(header))
    return Reply(body=body, warnings=warnings)
