"""Client of registries: the digest of an image's tag, by the OCI distribution specification.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md, "Pulling manifests"; tokens
as in https://distribution.github.io/distribution/spec/auth/token/. Credentials are those that
``docker login`` stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from railhead.base.errors import RailheadError

# What a tag may name: an index of several platforms, or one platform's manifest.
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_SECONDS = 30.0
# The address of Docker Hub's registry, and its name in `docker login`.
_HUB, _HUB_REGISTRY, _HUB_LOGIN = (
    "docker.io",
    "registry-1.docker.io",
    "https://index.docker.io/v1/",
)


class RegistryError(RailheadError):
    """A registry did not give a digest; ``problem`` names the image and the answer."""


def parts(reference: str) -> tuple[str, str, str]:
    """Return (registry, name, tag) of an image with a tag.

    >>> parts("python:3.13")
    ('docker.io', 'library/python', '3.13')
    >>> parts("localhost:5000/team/x:1")
    ('localhost:5000', 'team/x', '1')
    """
    host, _, rest = reference.partition("/")
    if not rest or not ("." in host or ":" in host or host == "localhost"):
        host, rest = _HUB, reference
    name, _, tag = rest.rpartition(":")
    if host == _HUB and "/" not in name:
        name = f"library/{name}"
    return host, name, tag


def digest(reference: str, client: httpx.Client) -> str:
    """Return the digest of an image's tag: of the index if it has several platforms.

    Args:
        reference: registry, name and tag.
        client: sends the requests; its own credentials are not used.

    Raises:
        RegistryError: the registry has no such tag, wants credentials, or does not answer.
    """
    host, name, tag = parts(reference)
    where = f"{_scheme(host)}://{_HUB_REGISTRY if host == _HUB else host}/v2/{name}/manifests/{tag}"
    headers = {"Accept": _ACCEPT}
    try:
        answer = client.head(where, headers=headers, timeout=_SECONDS)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            challenge = answer.headers.get("WWW-Authenticate", "")
            headers["Authorization"] = _authorization(challenge, host, client)
            answer = client.head(where, headers=headers, timeout=_SECONDS)
        if answer.is_success and not answer.headers.get("Docker-Content-Digest"):
            answer = client.get(where, headers=headers, timeout=_SECONDS)
    except httpx.HTTPError as error:
        raise RegistryError(f"{reference}: {host} did not answer: {error}") from None
    if not answer.is_success:
        raise RegistryError(f"{reference}: {host} answered {answer.status_code}")
    reported = answer.headers.get("Docker-Content-Digest") or (
        f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    )
    if not _DIGEST.fullmatch(reported):
        raise RegistryError(f"{reference}: {host} called its digest {reported[:80]!r}")
    return reported


def _scheme(host: str) -> str:
    """Return HTTP for this machine and HTTPS for all others, as Docker does."""
    name = host.partition(":")[0]
    return "http" if name == "localhost" or name.startswith("127.") else "https"


def _authorization(challenge: str, host: str, client: httpx.Client) -> str:
    """Return the authorization that a refusal asks for."""
    kind, _, text = challenge.partition(" ")
    known = credentials(host)
    if kind.lower() == "basic" and known:
        return f"Basic {known}"
    asked = dict(_PARAMETER.findall(text))
    realm = asked.pop("realm", "")
    if kind.lower() != "bearer" or not realm:
        raise RegistryError(f"{host} wants credentials, and `docker login {host}` left none")
    # Never send a password in the clear, no matter where the registry points.
    url = httpx.URL(realm)
    safe = url.scheme == "https" or _scheme(url.host) == "http"
    sent = {"Authorization": f"Basic {known}"} if known and safe else {}
    answer = client.get(url, params=asked, headers=sent, timeout=_SECONDS)
    body = answer.json() if answer.is_success else {}
    token = body.get("token") or body.get("access_token")
    if not token:
        raise RegistryError(f"{host}: {url.host} gave no token, but {answer.status_code}")
    return f"Bearer {token}"


def credentials(host: str) -> str:
    """Return user and password of a registry, in base64, from ``docker login``, or nothing.

    They are in the file itself, or in a helper that it names (docker-credential-helpers).
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(config, Mapping):
        return ""
    login = _HUB_LOGIN if host == _HUB else host
    helper = config.get("credHelpers", {}).get(login) or config.get("credsStore")
    if helper:
        return _helped(str(helper), login)
    auth = config.get("auths", {}).get(login, {}).get("auth", "")
    try:
        base64.b64decode(auth, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return str(auth)


def _helped(helper: str, login: str) -> str:
    try:
        asked = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=login,
            capture_output=True,
            text=True,
            check=True,
            timeout=_SECONDS,
        )
        message = json.loads(asked.stdout)
        pair = f"{message['Username']}:{message['Secret']}"
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return ""
    return base64.b64encode(pair.encode()).decode()
