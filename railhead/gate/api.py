"""The gate's requests to the cluster: it reads and labels its own node; its keeper reads all."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ApiError(Exception):
    """The API server refused or failed a request; the text says why."""


def server() -> str:
    """Return the API server's address, from the variables that every pod has.

    Raises:
        ApiError: this is not a pod.
    """
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise ApiError("KUBERNETES_SERVICE_HOST is not set: this is not a pod")
    address = f"[{host}]" if ":" in host else host
    return f"https://{address}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"


@dataclass(frozen=True, kw_only=True)
class Api:
    """The API server, as the pod's own service account.

    Args:
        server: its address, such as ``https://10.96.0.1:443``.
        account: the directory of the token and the authority's certificate.
    """

    server: str
    account: Path = ACCOUNT

    def label(
        self, node: str, labels: Mapping[str, str | None], annotations: Mapping[str, str]
    ) -> None:
        """Set labels and annotations of a node; None removes a label. Raises ApiError."""
        body = {"metadata": {"labels": labels, "annotations": annotations}}
        self.call("PATCH", f"/api/v1/nodes/{urllib.parse.quote(node)}", body)

    def call(
        self, method: str, path: str, body: Any = None, accept: str = "application/json"
    ) -> Mapping[str, Any]:
        """Send one request; return its answer. Raises ApiError."""
        try:
            # Read each time: the kubelet renews the token.
            token = (self.account / "token").read_text(encoding="ascii").strip()
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
            request = urllib.request.Request(  # noqa: S310 - https, by construction
                f"{self.server}{path}",
                method=method,
                data=None if body is None else json.dumps(body).encode(),
                headers={
                    "Authorization": f"Bearer {token}",
                    "Accept": accept,
                    "Content-Type": "application/merge-patch+json",
                },
            )
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(request, timeout=10) as answer:
                result: Mapping[str, Any] = json.load(answer)
                return result
        except urllib.error.HTTPError as error:
            message = _message(error.read(65536))
            raise ApiError(f"{method} of {path}: {error.code} {message}") from None
        except (OSError, ValueError) as error:
            raise ApiError(f"{method} of {path}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class NodeApi:
    """One node's object in the API server."""

    api: Api
    node: str

    @classmethod
    def in_cluster(cls, node: str) -> NodeApi:
        """Return the node's API with the pod's own account. Raises ApiError."""
        return cls(api=Api(server=server()), node=node)

    def read(self) -> Mapping[str, Any]:
        """Return the node's object. Raises ApiError."""
        return self.api.call("GET", f"/api/v1/nodes/{urllib.parse.quote(self.node)}")

    def label(self, labels: Mapping[str, str | None], annotations: Mapping[str, str]) -> None:
        """Set labels and annotations of the node; None removes a label. Raises ApiError."""
        self.api.label(self.node, labels, annotations)


def _message(body: bytes) -> str:
    """Return the message of the API server's Status of an error, or its text."""
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
