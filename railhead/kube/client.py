"""A small Kubernetes client: a kubeconfig in, JSON objects and log lines out.

It exists because a launcher needs four verbs, a fast start and errors that people can act on, and
must leave no copy of a private key behind: client libraries write a kubeconfig's key into temporary
files that outlive the command.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import yaml

from railhead.base import paths
from railhead.base.errors import (
    ExitCode,
    InputError,
    PrerequisiteError,
    RailheadError,
    did_you_mean,
)

Object = dict[str, Any]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
# Answers that say "not now" rather than "no".
TRANSIENT = frozenset({429, 500, 502, 503, 504})
ATTEMPTS = 4


class ApiError(RailheadError):
    """The API server answered with an error.

    Args:
        status: the HTTP status.
        reason: Kubernetes' reason, such as ``NotFound`` or ``Forbidden``; may be empty.
        message: the server's own words.
    """

    exit_code = ExitCode.REFUSED

    def __init__(self, *, status: int, reason: str, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which cluster to talk to, and why that one."""

    kubeconfig: Path | None
    context: str | None
    why: str


def running_labs() -> list[str]:
    """Names of the labs that have a kubeconfig on this machine."""
    directory = paths.labs_dir()
    if not directory.is_dir():
        return []
    return sorted(p.parent.name for p in directory.glob("*/kubeconfig") if p.is_file())


def choose_target(
    *, kubeconfig: Path | None = None, context: str | None = None, lab: str | None = None
) -> Target:
    """Decide which cluster a command talks to.

    The order: ``--kubeconfig`` or ``--lab``, then ``$KUBECONFIG``, then ``~/.kube/config``, then a
    pod's own service account, then the lab that runs on this machine if there is exactly one.

    Raises:
        InputError: two of the flags contradict each other, or the named file or lab is not there.
        PrerequisiteError: nothing names a cluster.
    """
    if kubeconfig and lab:
        raise InputError("--kubeconfig and --lab both name a cluster", remedy="give one of the two")
    if kubeconfig:
        return Target(
            kubeconfig=_existing(kubeconfig, "--kubeconfig"),
            context=context,
            why=f"--kubeconfig {kubeconfig}",
        )
    labs = running_labs()
    if lab:
        if lab not in labs:
            known = ", ".join(labs) or "none"
            raise InputError(
                f"--lab {lab}: no lab of that name runs here; running: {known}"
                + did_you_mean(lab, labs),
                remedy=f"start it with `railhead lab up --name {lab}`, or name a running one",
            )
        return Target(kubeconfig=paths.lab_kubeconfig(lab), context=context, why=f"lab {lab}")
    if variable := os.environ.get("KUBECONFIG"):
        return Target(
            kubeconfig=_existing(Path(variable), "KUBECONFIG"), context=context, why="$KUBECONFIG"
        )
    home = Path.home() / ".kube" / "config"
    if home.is_file():
        return Target(kubeconfig=home, context=context, why="~/.kube/config")
    if (SERVICE_ACCOUNT / "token").is_file() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Target(kubeconfig=None, context=None, why="this pod's service account")
    if len(labs) == 1:
        return Target(
            kubeconfig=paths.lab_kubeconfig(labs[0]), context=context, why=f"lab {labs[0]}"
        )
    if labs:
        raise InputError(
            f"several labs run here: {', '.join(labs)}", remedy="name one with --lab NAME"
        )
    raise PrerequisiteError(
        "no cluster to talk to: no --kubeconfig, $KUBECONFIG or ~/.kube/config, and no lab runs",
        remedy="name a kubeconfig, or start a lab with `railhead lab up`",
    )


def _existing(path: Path, source: str) -> Path:
    # kubectl merges a list of files; one is enough here, and a wrong guess would be worse.
    parts = [Path(p) for p in str(path).split(os.pathsep) if p]
    if len(parts) > 1:
        found = [p for p in parts if p.expanduser().is_file()]
        if len(found) != 1:
            raise InputError(
                f"{source} lists {len(parts)} files, {len(found)} of which exist",
                remedy="name one file with --kubeconfig",
            )
        return found[0].expanduser()
    path = path.expanduser()
    if not path.is_file():
        raise InputError(f"{source}: {path} is no file", remedy="name an existing kubeconfig")
    return path


@dataclass(frozen=True, kw_only=True)
class _Credentials:
    server: str
    context: str
    verify: ssl.SSLContext | bool
    token: str | None
    proxy: str | None
    server_name: str | None
    impersonate: tuple[tuple[str, str], ...] = ()


def _named(config: Object, kind: str, name: str, *, where: str) -> Object:
    entries = [e for e in config.get(f"{kind}s") or [] if isinstance(e, dict)]
    for entry in entries:
        if entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: Object = entry[kind]
            return found
    known = [str(e.get("name")) for e in entries]
    raise InputError(
        f"{where}: no {kind} is called {name!r}; there are: {', '.join(known) or 'none'}"
        + did_you_mean(name, known),
        remedy="name one of them with --context" if kind == "context" else "mend the kubeconfig",
    )


def _bytes_of(entry: Object, key: str, *, base: Path, where: str) -> bytes | None:
    if data := entry.get(f"{key}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error:
            raise InputError(
                f"{where}: {key}-data is not base64", remedy="mend the kubeconfig"
            ) from None
    if name := entry.get(key):
        path = base / str(name)
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(
                f"{where}: {key}: {path}: {error.strerror}", remedy="mend the kubeconfig"
            ) from None
    return None


def _exec_credential(spec: Object, *, where: str) -> Object:
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
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError(
            f"{where}: the credential plugin {command[0]!r} did not run: {error}",
            remedy=str(spec.get("installHint") or "install it, or log in again"),
        ) from None
    if done.returncode != 0:
        raise PrerequisiteError(
            f"{where}: the credential plugin {command[0]!r} exited {done.returncode}: "
            f"{done.stderr.strip()[-400:]}",
            remedy="log in to the cloud account again",
        )
    try:
        status: Object = json.loads(done.stdout)["status"]
    except (ValueError, KeyError, TypeError):
        raise PrerequisiteError(
            f"{where}: the credential plugin {command[0]!r} printed no ExecCredential",
            remedy="run it by hand and look at what it prints",
        ) from None
    return status


def _tls(
    cluster: Object, *, authority: bytes | None, certificate: bytes | None, key: bytes | None
) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cadata=authority.decode() if authority is not None else None
    )
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate and key:
        # The ssl module takes a path only; the file is 0600 and gone before the first request.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _read_kubeconfig(path: Path, context_name: str | None) -> _Credentials:
    where = str(path)
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{where}: not readable: {error}", remedy="mend the kubeconfig") from None
    if not isinstance(config, dict):
        raise InputError(f"{where}: not a kubeconfig", remedy="name another file")
    chosen = context_name or config.get("current-context")
    if not chosen:
        raise InputError(f"{where}: no current-context", remedy="name one with --context")
    context = _named(config, "context", str(chosen), where=where)
    cluster = _named(config, "cluster", str(context.get("cluster")), where=where)
    user = _named(config, "user", str(context.get("user")), where=where)
    server = str(cluster.get("server") or "")
    if urlsplit(server).scheme not in ("http", "https"):
        raise InputError(
            f"{where}: the cluster's server is {server!r}, not a URL", remedy="mend the kubeconfig"
        )
    token = user.get("token")
    if not token and user.get("tokenFile"):
        data = _bytes_of(
            {"tokenFile": user["tokenFile"]}, "tokenFile", base=path.parent, where=where
        )
        token = (data or b"").decode().strip()
    certificate = _bytes_of(user, "client-certificate", base=path.parent, where=where)
    key = _bytes_of(user, "client-key", base=path.parent, where=where)
    if isinstance(user.get("exec"), dict):
        answer = _exec_credential(user["exec"], where=where)
        token = answer.get("token", token)
        if answer.get("clientCertificateData") and answer.get("clientKeyData"):
            certificate = str(answer["clientCertificateData"]).encode()
            key = str(answer["clientKeyData"]).encode()
    authority = _bytes_of(cluster, "certificate-authority", base=path.parent, where=where)
    verify: ssl.SSLContext | bool = False
    try:
        if server.startswith("https:"):
            verify = _tls(cluster, authority=authority, certificate=certificate, key=key)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            f"{where}: a certificate or key is not usable: {error}", remedy="mend the kubeconfig"
        ) from None
    return _Credentials(
        server=server.rstrip("/"),
        context=str(chosen),
        verify=verify,
        token=str(token) if token else None,
        proxy=str(cluster["proxy-url"]) if cluster.get("proxy-url") else None,
        impersonate=(
            *((("Impersonate-User", str(user["as"])),) if user.get("as") else ()),
            *(("Impersonate-Group", str(group)) for group in user.get("as-groups") or []),
        ),
        server_name=cluster.get("tls-server-name"),
    )


def _read_service_account() -> _Credentials:
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return _Credentials(
        server=f"https://{host}:{port}",
        context="service account",
        verify=ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt")),
        token=(SERVICE_ACCOUNT / "token").read_text().strip(),
        proxy=None,
        server_name=None,
    )


class Cluster:
    """One API server. Safe to use from several threads.

    Raises, from every method:
        ApiError: the server answered with an error (``status`` says which).
        PrerequisiteError: the server cannot be reached.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        credentials = (
            _read_kubeconfig(target.kubeconfig, target.context)
            if target.kubeconfig
            else _read_service_account()
        )
        self.server = credentials.server
        self.context = credentials.context
        headers = [("Accept", "application/json"), ("User-Agent", "railhead")]
        headers += credentials.impersonate
        if credentials.token:
            headers.append(("Authorization", f"Bearer {credentials.token}"))
        # A proxy of the environment is for the world outside, never for this machine.
        loopback = urlsplit(self.server).hostname in ("127.0.0.1", "localhost", "::1")
        self._extensions: dict[str, Any] = (
            {"sni_hostname": credentials.server_name} if credentials.server_name else {}
        )
        self._client = httpx.Client(
            base_url=self.server,
            headers=headers,
            verify=credentials.verify,
            proxy=credentials.proxy,
            trust_env=not loopback,
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _unreachable(self, error: Exception) -> PrerequisiteError:
        return PrerequisiteError(
            f"cannot reach the API server {self.server} ({self.target.why}): {error}",
            remedy="is it up, and is this its kubeconfig? for a lab: `railhead lab status`",
        )

    def _error(self, response: httpx.Response) -> ApiError:
        try:
            body = response.json()
        except ValueError:
            body = {}
        body = body if isinstance(body, dict) else {}
        message = str(body.get("message") or response.text.strip()[:400] or response.reason_phrase)
        remedy = ""
        if response.status_code == 401:
            message = f"{self.server} does not accept these credentials: {message}"
            remedy = "log in again, or name another kubeconfig or context"
        elif response.status_code == 403 and "forbidden: User" in message:
            remedy = "ask the platform team for this permission"
        return ApiError(
            status=response.status_code,
            reason=str(body.get("reason") or ""),
            message=message,
            remedy=remedy,
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Object | None = None,
    ) -> Object:
        """One request; an answer of "not now" or a lost connection is tried again for reads."""
        attempts = ATTEMPTS if method == "GET" else 1
        for attempt in range(1, attempts + 1):
            try:
                response = self._client.request(
                    method, path, params=dict(params or {}), json=body, extensions=self._extensions
                )
            except (httpx.TransportError, httpx.InvalidURL) as error:
                # Nobody listening is an answer, a connection that breaks is an accident.
                if attempt == attempts or isinstance(error, httpx.ConnectError | httpx.InvalidURL):
                    raise self._unreachable(error) from None
            else:
                if response.is_success:
                    answer: Object = response.json()
                    return answer
                if response.status_code not in TRANSIENT or attempt == attempts:
                    raise self._error(response)
            time.sleep(0.3 * attempt)
        raise AssertionError("the last attempt returns or raises")

    def get(self, path: str) -> Object:
        """Read one object."""
        return self.request("GET", path)

    def text(self, path: str) -> str:
        """Read what is no object, such as a page behind the API server's proxy."""
        try:
            response = self._client.get(path, extensions=self._extensions)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        if not response.is_success:
            raise self._error(response)
        return response.text

    def find(self, path: str) -> Object | None:
        """Read one object; None where there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[Object]:
        """Read all objects of a collection that match the label and the field selector."""
        items: list[Object] = []
        params = {"limit": "500"} | ({"labelSelector": selector} if selector else {})
        if fields:
            params["fieldSelector"] = fields
        while True:
            page = self.request("GET", path, params=params)
            items.extend(page.get("items") or [])
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            params["continue"] = token

    def create(self, path: str, body: Object, *, dry_run: bool = False) -> Object:
        """Create an object; fields that the server does not know are an error, not dropped."""
        params = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        return self.request("POST", path, params=params, body=body)

    def patch(self, path: str, body: Object) -> Object:
        """Merge ``body`` into an object (JSON merge patch)."""
        try:
            response = self._client.patch(
                path,
                content=json.dumps(body),
                headers={"Content-Type": "application/merge-patch+json"},
                extensions=self._extensions,
            )
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        if not response.is_success:
            raise self._error(response)
        answer: Object = response.json()
        return answer

    def delete(self, path: str, *, propagation: str = "Background") -> bool:
        """Delete an object; False when there was none."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        try:
            self.request("DELETE", path, body=body)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    @contextmanager
    def log_lines(
        self,
        namespace: str,
        pod: str,
        *,
        container: str,
        follow: bool,
        since_time: str | None = None,
        tail: int | None = None,
        quiet_seconds: float = 10.0,
    ) -> Iterator[Iterator[str]]:
        """The lines of a container's log, each with its timestamp in front.

        Raises:
            TimeoutError: from the iterator, after ``quiet_seconds`` without a byte; call again.
        """
        params = {
            "container": container,
            "timestamps": "true",
            "follow": "true" if follow else "false",
        }
        if since_time:
            params["sinceTime"] = since_time
        if tail is not None:
            params["tailLines"] = str(tail)
        timeout = httpx.Timeout(quiet_seconds, connect=CONNECT_SECONDS)
        path = core(namespace, "pods", pod) + "/log"
        try:
            with self._client.stream(
                "GET", path, params=params, timeout=timeout, extensions=self._extensions
            ) as response:
                if not response.is_success:
                    response.read()
                    raise self._error(response)
                yield _lines(response)
        except httpx.ConnectError as error:
            raise self._unreachable(error) from None
        except httpx.TransportError as error:
            raise TimeoutError(str(error)) from None


@contextmanager
def opened(kubeconfig: Path | None, context: str | None, lab: str | None) -> Iterator[Cluster]:
    """The cluster that a command's options mean, closed at the end."""
    cluster = Cluster(choose_target(kubeconfig=kubeconfig, context=context, lab=lab))
    try:
        yield cluster
    finally:
        cluster.close()


def _lines(response: httpx.Response) -> Iterator[str]:
    # httpx's own line splitter breaks lines at every Unicode separator; a log line ends at \n only.
    rest = b""
    for chunk in response.iter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def _join(base: str, *names: str) -> str:
    # A name comes from a command line; quoted, it can never reach another path.
    return "/".join([base, *(quote(name, safe="") for name in names if name)])


def trainjobs(namespace: str, name: str = "") -> str:
    """The path of a namespace's TrainJobs, or of one of them."""
    base = _join("/apis/trainer.kubeflow.org/v1alpha1/namespaces", namespace)
    return _join(f"{base}/trainjobs", name)


def core(namespace: str, kind: str, name: str = "") -> str:
    """The path of a core object, such as ``core("training", "configmaps", "x")``."""
    return _join(_join("/api/v1/namespaces", namespace) + f"/{kind}", name)


def kueue(namespace: str, kind: str, name: str = "") -> str:
    """The path of one of Kueue's objects; an empty namespace for those that have none."""
    base = "/apis/kueue.x-k8s.io/v1beta2"
    if namespace:
        base = _join(f"{base}/namespaces", namespace)
    return _join(f"{base}/{kind}", name)


def training_runtime(name: str) -> str:
    """The path of a ClusterTrainingRuntime."""
    return _join("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes", name)


def jobset(namespace: str, name: str) -> str:
    """The path of a JobSet."""
    base = _join("/apis/jobset.x-k8s.io/v1alpha2/namespaces", namespace)
    return _join(f"{base}/jobsets", name)
