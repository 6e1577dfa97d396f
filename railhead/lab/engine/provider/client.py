"""The provider's API server: the client that all of Railhead has, with discovery of kinds."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from railhead.kube.connection import Connection
from railhead.kube.errors import ApiError, KubeconfigError
from railhead.kube.kubeconfig import Kubeconfig, credentials, load, parse

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_DISCOVERY_TTL_S = 300.0
_TIMEOUT_S = 60.0


class NoMatchError(Exception):
    """The API server serves no such kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f'no matches for kind "{kind}" in version "{api_version}"')
        self.api_version = api_version
        self.kind = kind


def dry_run_unsupported(error: ApiError) -> bool:
    """Return whether a dry run was refused because a webhook has side effects."""
    return error.status == 400 and (
        "does not support dry run" in error.message
        or ("dryRun" in error.message and "feature is disabled" in error.message)
    )


@dataclass(frozen=True, kw_only=True)
class ResourceType:
    """The place at which the API server serves a kind."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = field(default_factory=frozenset)

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the URL path of the collection, or of the object called ``name``."""
        prefix = "/apis/" if "/" in self.api_version else "/api/"
        parts = [prefix + self.api_version]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join(parts)


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


def load_kubeconfig(settings: ClientSettings) -> Kubeconfig:
    """Return the kubeconfig that the provider is given, or the one of the environment.

    Raises:
        KubeconfigError: no kubeconfig, not readable or not one.
    """
    text, context = settings.kubeconfig, settings.context or None
    if "\n" in text or "{" in text:
        result = parse(text, where="the provider's kubeconfig", base=Path.cwd(), context=context)
    else:
        paths = [text] if text else os.environ.get("KUBECONFIG", "").split(os.pathsep)
        candidates = [Path(path).expanduser() for path in paths if path]
        candidates = candidates or [Path.home() / ".kube" / "config"]
        existing = [path for path in candidates if path.is_file()]
        if not existing:
            names = ", ".join(str(path) for path in candidates)
            raise KubeconfigError(f"there is no kubeconfig at {names}")
        result = load(existing[0], context=context)
    return result.on(settings.cluster) if settings.cluster else result


class KubeClient(Connection):
    """Requests to one API server, and where it serves which kind."""

    def __init__(self, config: Kubeconfig, settings: ClientSettings) -> None:
        """Read credentials; no request is made.

        Raises:
            UnreachableError: the kubeconfig's credentials or certificates are not usable.
        """
        super().__init__(
            credentials(config),
            why=config.where,
            timeout_s=settings.timeout_s or _TIMEOUT_S,
            agent="railhead-pulumi-kubernetes",
        )
        self._lock = threading.Lock()
        self._discovered: dict[str, tuple[float, dict[str, ResourceType]]] = {}

    def version(self) -> str:
        """Return the server's version, such as ``v1.35.8``."""
        return str(
            self.request("GET", "/version", timeout_s=15.0, attempts=1).body.get("gitVersion", "")
        )

    def forget_discovery(self) -> None:
        """Look kinds up afresh, for example after a CRD was applied."""
        with self._lock:
            self._discovered.clear()

    def resource_type(self, api_version: str, kind: str) -> ResourceType:
        """Return where the server serves ``kind`` of ``api_version``.

        Raises:
            NoMatchError: the server does not serve it.
        """
        if api_version.startswith("core/"):
            api_version = api_version.removeprefix("core/")
        result = self._types(api_version).get(kind)
        if result is None:
            # A CRD may have been established since the last look.
            result = self._types(api_version, fresh=True).get(kind)
        if result is None:
            raise NoMatchError(api_version, kind)
        return result

    def _types(self, api_version: str, *, fresh: bool = False) -> dict[str, ResourceType]:
        with self._lock:
            seen, types = self._discovered.get(api_version, (0.0, {}))
        if types and not fresh and time.monotonic() - seen < _DISCOVERY_TTL_S:
            return types
        prefix = "/apis/" if "/" in api_version else "/api/"
        try:
            path = prefix + quote(api_version, safe="/")
            # An aggregated API that does not answer must not hold up requests for other APIs.
            listed = self.request("GET", path, attempts=1).body
        except ApiError as error:
            if error.status in (403, 404, 503):
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
