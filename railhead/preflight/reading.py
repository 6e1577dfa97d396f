"""The one way from here to a cloud or a cluster: calls that read.

Nothing else of this package sends anything, as a test holds. What is not a reading call is refused
before it is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import httpx

from railhead.base.errors import ExitCode, PrerequisiteError, RailheadError, RefusedError
from railhead.base.version import installing
from railhead.kube import client as kube
from railhead.kube.connection import Reply

#: How the name of an operation of AWS begins that reads; all others are refused.
AWS_VERBS = ("Describe", "Get", "Head", "List", "Simulate")
#: HTTP's method that reads, and the one thing that is asked of Google by another.
METHOD = "GET"
GOOGLE_TEST = ":testIamPermissions"
GOOGLE = "https://{service}.googleapis.com"
#: The one scope that every method here takes: those of Compute Engine, GKE, IAM, Filestore do not
#: take `cloud-platform.read-only` (their discovery documents, `scopes`).
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

CONNECT_SECONDS = 5
READ_SECONDS = 10
_DENIED = frozenset(
    {"403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "OptInRequired"}
)
_NOT_THERE = ("NotFound", "NoSuch")
_LOG_IN = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


class UnaskedError(RailheadError):
    """A question that got no answer: no right to ask, or nobody who answers."""

    exit_code = ExitCode.UNPROVEN


def _require(reads: bool, call: str, over: threading.Event) -> None:
    if over.is_set():
        raise UnaskedError(f"{call}: not asked any more")
    if not reads:
        raise RefusedError(
            f"{call}: preflight makes reading calls alone", remedy="this is a bug; report it"
        )


class Aws:
    """AWS, one account and region, by the credentials that the AWS CLI would use.

    Safe to use from several threads. Nothing is asked any more once ``over`` is set.

    Raises, from every method:
        UnaskedError: these credentials may not make the call, or nobody answered.
        PrerequisiteError: there are no credentials, or they are not accepted.
    """

    def __init__(self, region: str) -> None:
        try:
            import botocore.session
        except ImportError:
            raise PrerequisiteError(
                "the package botocore is not installed",
                remedy=installing("aws"),
            ) from None
        self._session = botocore.session.Session()
        self.region = region
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.asked: set[str] = set()
        self.over = threading.Event()

    def ask(self, call: str, **parameters: Any) -> dict[str, Any] | None:
        """Make a call, such as ``ec2:DescribeSubnets``, and return all pages of its answer.

        None where what the parameters name does not exist.
        """
        service, _, operation = call.partition(":")
        _require(operation.startswith(AWS_VERBS), call, self.over)
        from botocore import xform_name
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        self.asked.add(call)
        method = xform_name(operation)
        try:
            client = self._client(service)
            # An account may hide what AWS' services manage, such as interfaces, which count to
            # quotas all the same (EC2 API reference, ModifyManagedResourceVisibility).
            if "IncludeManagedResources" in _fields(client, operation):
                parameters = {"IncludeManagedResources": True, **parameters}
            if client.can_paginate(method):
                pages = client.get_paginator(method).paginate(**parameters)
                answer: dict[str, Any] = pages.build_full_result()
            else:
                answer = getattr(client, method)(**parameters)
        except ClientError as error:
            if raised := _aws_error(call, error.response):
                raise raised from None
            return None
        except (BotoCoreError, ResponseParserError) as error:
            raise _no_answer(call, error) from None
        return answer

    def require(self, call: str, **parameters: Any) -> dict[str, Any]:
        """Make a call whose answer is there in any case."""
        answer = self.ask(call, **parameters)
        if answer is None:
            raise UnaskedError(f"{call}: AWS says that it does not exist")
        return answer

    def _client(self, service: str) -> Any:
        from botocore.config import Config

        # Clients may be shared by threads, a session may not.
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._session.create_client(
                    service,
                    region_name=self.region,
                    config=Config(
                        connect_timeout=CONNECT_SECONDS,
                        read_timeout=READ_SECONDS,
                        retries={"total_max_attempts": 2, "mode": "standard"},
                    ),
                )
            return self._clients[service]


def _fields(client: Any, operation: str) -> Mapping[str, Any]:
    """Return the parameters that the installed botocore knows of an operation."""
    shape = client.meta.service_model.operation_model(operation).input_shape
    return shape.members if shape else {}


def _aws_error(call: str, response: Mapping[str, Any]) -> RailheadError | None:
    """Return what an error of AWS means here; None where what was named does not exist."""
    error = response.get("Error", {})
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    if code == "404" or any(sign in code for sign in _NOT_THERE):
        return None
    if code in _LOG_IN:
        return PrerequisiteError(
            f"AWS does not accept these credentials: {code}: {message}",
            remedy="log in again, such as with `aws sso login`",
        )
    if code in _DENIED:
        return UnaskedError(
            f"these credentials may not call {call}",
            remedy="ask for the managed policy ReadOnlyAccess, or run it as another role",
        )
    return UnaskedError(f"{call} failed: {code}: {message}")


def _no_answer(call: str, error: Exception) -> RailheadError:
    if "Credentials" in type(error).__name__ or "Token" in type(error).__name__:
        return PrerequisiteError(
            f"there are no credentials of AWS here: {error}",
            remedy="log in as for the AWS CLI (`aws sso login`, AWS_PROFILE), or use --offline",
        )
    return UnaskedError(f"{call}: no answer: {error}")


class Google:
    """Google Cloud, by the application default credentials. Safe to use from several threads.

    Args:
        base: an API's address, with ``{service}`` for its name.

    Raises, from every method:
        UnaskedError: these credentials may not make the call, or nobody answered.
        PrerequisiteError: there are no credentials, or they are not accepted.
    """

    def __init__(self, base: str = GOOGLE) -> None:
        try:
            import google.auth
            from google.auth.exceptions import DefaultCredentialsError
        except ImportError:
            raise PrerequisiteError(
                "the package google-auth is not installed",
                remedy=installing("gcp"),
            ) from None
        self._base = base
        self._http = httpx.Client(timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS))
        self._lock = threading.Lock()
        self.asked: set[str] = set()
        self.over = threading.Event()
        try:
            self._credentials, _ = google.auth.default(scopes=[GOOGLE_SCOPE])
        except DefaultCredentialsError as error:
            raise PrerequisiteError(
                f"there are no credentials of Google Cloud here: {error}",
                remedy="`gcloud auth application-default login`, or use --offline",
            ) from None

    def get(self, service: str, path: str, **query: Any) -> dict[str, Any] | None:
        """Read one object, such as ``("compute", "compute/v1/projects/p")``.

        None where it does not exist.
        """
        return self._send(METHOD, service, path, params=query)

    def may(self, project: str, permissions: list[str]) -> frozenset[str]:
        """Return those of the permissions that the credentials have in a project."""
        path = f"v3/projects/{project}{GOOGLE_TEST}"
        answer = self._send("POST", "cloudresourcemanager", path, json={"permissions": permissions})
        return frozenset((answer or {}).get("permissions", ()))

    def _send(self, method: str, service: str, path: str, **more: Any) -> dict[str, Any] | None:
        call = f"{method} {service}.googleapis.com/{path}"
        reads = method == METHOD or (method == "POST" and path.endswith(GOOGLE_TEST))
        _require(reads, call, self.over)
        self.asked.add(service)
        base = self._base.format(service=service)
        headers = self.headers()
        try:
            response = self._http.request(method, f"{base}/{path}", headers=headers, **more)
        except httpx.TransportError as error:
            raise UnaskedError(f"{call}: no answer: {error}") from None
        if response.status_code == 404:
            return None
        if not response.is_success:
            raise _google_error(call, response)
        try:
            answer: dict[str, Any] = response.json()
        except ValueError:
            raise UnaskedError(f"{call}: the answer is not JSON") from None
        return answer

    def headers(self) -> dict[str, str]:
        """Return a token that is valid now, and the project whose quota calls count against.

        Some APIs refuse a user's calls without that project (google-auth, credentials.py, apply).
        """
        from google.auth.exceptions import GoogleAuthError

        with self._lock:
            if not self._credentials.valid:
                try:
                    self._credentials.refresh(  # type: ignore[no-untyped-call]
                        _transport(self._http)
                    )
                except GoogleAuthError as error:
                    raise PrerequisiteError(
                        f"Google does not accept these credentials: {error}",
                        remedy="`gcloud auth application-default login`",
                    ) from None
            headers: dict[str, str] = {}
            self._credentials.apply(headers)  # type: ignore[no-untyped-call]
            return headers


def _transport(http: httpx.Client) -> Callable[..., SimpleNamespace]:
    """Return how google-auth gets a token: by its own protocol, over our client."""
    from google.auth.exceptions import TransportError

    def request(
        url: str,
        method: str = METHOD,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> SimpleNamespace:
        try:
            answer = http.request(method, url, content=body, headers=dict(headers or {}))
        except httpx.TransportError as error:
            raise TransportError(str(error)) from None  # type: ignore[no-untyped-call]
        return SimpleNamespace(
            status=answer.status_code, headers=answer.headers, data=answer.content
        )

    return request


def _google_error(call: str, response: httpx.Response) -> RailheadError:
    try:
        error = response.json().get("error", {})
    except ValueError:
        error = {}
    message = str(error.get("message") or response.reason_phrase)
    if response.status_code == 401:
        return PrerequisiteError(
            f"Google does not accept these credentials: {message}",
            remedy="`gcloud auth application-default login`",
        )
    if response.status_code == 403:
        return UnaskedError(
            f"these credentials may not call {call}: {message}",
            remedy="ask for roles/viewer on the project, and that the API is enabled",
        )
    return UnaskedError(f"{call} failed: {response.status_code}: {message}")


class Kubernetes(kube.Cluster):
    """A cluster, of which objects are read and nothing else."""

    def __init__(self, target: kube.Target) -> None:
        super().__init__(target)
        self.over = threading.Event()

    def request(self, method: str, path: str, **more: Any) -> Reply:
        """Send a request that reads."""
        _require(method == METHOD, f"{method} {path}", self.over)
        return super().request(method, path, **more)
