"""The one thing the gate does in the cluster: read its own node and label it."""

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
    """The API server did not do as asked; the text says why."""


@dataclass(frozen=True, kw_only=True)
class NodeApi:
    """The API server, as the pod's own service account.

    Args:
        server: its address, such as ``https://10.96.0.1:443``.
        node: the node's name.
        account: the directory of the token and the authority's certificate.
    """

    server: str
    node: str
    account: Path = ACCOUNT

    @classmethod
    def in_cluster(cls, node: str) -> NodeApi:
        """From the variables that every pod has.

        Raises:
            ApiError: this is no pod.
        """
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        if not host:
            raise ApiError("KUBERNETES_SERVICE_HOST is not set: this is not a pod")
        address = f"[{host}]" if ":" in host else host
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        return cls(server=f"https://{address}:{port}", node=node)

    def read(self) -> Mapping[str, Any]:
        """The node's object. Raises ApiError."""
        return self._call("GET", None)

    def label(self, labels: Mapping[str, str | None], annotations: Mapping[str, str]) -> None:
        """Set labels and annotations of the node; None takes a label away. Raises ApiError."""
        self._call("PATCH", {"metadata": {"labels": labels, "annotations": annotations}})

    def _call(self, method: str, body: Any) -> Mapping[str, Any]:
        url = f"{self.server}/api/v1/nodes/{urllib.parse.quote(self.node)}"
        try:
            # Read each time: the kubelet renews the token.
            token = (self.account / "token").read_text(encoding="ascii").strip()
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
            request = urllib.request.Request(  # noqa: S310 - https, by construction
                url,
                method=method,
                data=None if body is None else json.dumps(body).encode(),
                headers={
                    "Authorization": f"Bearer {token}",
                    "Accept": "application/json",
                    "Content-Type": "application/merge-patch+json",
                },
            )
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(request, timeout=10) as answer:
                found: Mapping[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            said = _message(error.read(65536))
            raise ApiError(f"{method} of node {self.node}: {error.code} {said}") from None
        except (OSError, ValueError) as error:
            raise ApiError(f"{method} of node {self.node}: {error}") from None


def _message(body: bytes) -> str:
    """What the API server says of an error: the message of its Status, or the text."""
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
