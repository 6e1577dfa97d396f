"""Requests to one API server: retried where that is safe, with errors that people can read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from railhead.kube.errors import ApiError, NoAnswerError
from railhead.kube.kubeconfig import Credentials, Token

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
# Answers that say "not now" rather than "no".
TRANSIENT = frozenset({429, 500, 502, 503, 504})
BUSY = 429
TOO_LARGE = 413
ATTEMPTS = 4
MERGE_PATCH = "application/merge-patch+json"
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A successful answer: the decoded body and the server's warnings."""

    body: Any
    warnings: tuple[str, ...] = ()


class _Bearer(httpx.Auth):
    """Sends the token; renews a token that is refused, and sends it once more."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Follow httpx's protocol: yield requests, receive answers."""
        sent = self._token.value()
        request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code == 401 and (fresh := self._token.value(refused=sent)) != sent:
            request.headers["Authorization"] = f"Bearer {fresh}"
            yield request


class Connection:
    """One API server. Safe to use from several threads.

    Args:
        credentials: its address, and the account that sends requests.
        why: how it was chosen, for messages.
        timeout_s: the longest wait for a byte of an answer.
        agent: the client's name in requests.

    Raises, from every method:
        ApiError: the server answered with an error (``status`` says which).
        UnreachableError: there was no answer, or no credentials any more.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        why: str,
        timeout_s: float = READ_SECONDS,
        agent: str = "railhead",
    ) -> None:
        self.server = credentials.server
        self.context = credentials.context
        self._why = why
        # A proxy of the environment is for the world outside, never for this machine.
        loopback = urlsplit(self.server).hostname in ("127.0.0.1", "localhost", "::1")
        name = credentials.server_name
        self._extensions: dict[str, Any] = {"sni_hostname": name} if name else {}
        self._client = httpx.Client(
            base_url=self.server,
            headers=[("User-Agent", agent), *credentials.impersonate],
            auth=_Bearer(credentials.token) if credentials.token else None,
            verify=credentials.tls,
            proxy=credentials.proxy,
            trust_env=not loopback,
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

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
        attempts: int = ATTEMPTS,
    ) -> Reply:
        """Send one request; return its decoded answer.

        Retries, up to ``attempts``, reads that are answered with "not now" or whose connection
        breaks, and any request that the server did not accept because it is busy (429).
        """
        headers = {"Accept": accept}
        options: dict[str, Any] = {}
        if timeout_s is not None:
            options["timeout"] = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_SECONDS))
        if body is not None:
            headers["Content-Type"] = content_type
            options["content"] = json.dumps(body)
        options |= {"headers": headers, "params": dict(query or {})}
        return _reply(self._send(method, path, attempts, options))

    def text(self, path: str) -> str:
        """Return a text that is not an object, such as a page behind the API server's proxy."""
        return self._send("GET", path, ATTEMPTS, {}).text

    def _send(
        self, method: str, path: str, attempts: int, options: dict[str, Any]
    ) -> httpx.Response:
        for attempt in range(1, attempts + 1):
            again = attempt < attempts
            wait = 0.3 * attempt
            try:
                response = self._client.request(
                    method, path, extensions=self._extensions, **options
                )
            except (httpx.TransportError, httpx.InvalidURL) as error:
                if not (again and method == "GET" and _broke(error)):
                    raise self._unreachable(error) from None
            else:
                if response.is_success:
                    return response
                busy = response.status_code == BUSY
                if not again or not (
                    busy or (method == "GET" and response.status_code in TRANSIENT)
                ):
                    raise self._error(response)
                if busy:
                    wait = max(wait, _retry_after(response))
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def lines(
        self, path: str, *, query: Mapping[str, str], quiet_seconds: float
    ) -> Iterator[Iterator[str]]:
        """Yield the lines of an answer as they come.

        Raises:
            TimeoutError: from the iterator, after ``quiet_seconds`` without a byte.
        """
        timeout = httpx.Timeout(quiet_seconds, connect=CONNECT_SECONDS)
        try:
            with self._client.stream(
                "GET", path, params=dict(query), timeout=timeout, extensions=self._extensions
            ) as response:
                if not response.is_success:
                    response.read()
                    raise self._error(response)
                yield _lines(response)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            # No silence of the other side: nobody has been asked yet.
            raise self._unreachable(error) from None
        except httpx.TransportError as error:
            raise TimeoutError(str(error)) from None

    def _unreachable(self, error: Exception) -> NoAnswerError:
        return NoAnswerError(
            f"cannot reach the API server {self.server} ({self._why}): {error}",
            remedy="is it up, and is this its kubeconfig? for a lab: `railhead lab status`",
        )

    def _error(self, response: httpx.Response) -> ApiError:
        body = _reply(response).body
        status = body if isinstance(body, dict) else {}
        message = str(status.get("message") or response.reason_phrase)
        remedy = ""
        if response.status_code == 401:
            message = f"{self.server} does not accept these credentials: {message}"
            remedy = "log in again, or name another kubeconfig or context"
        elif response.status_code == 403 and "forbidden: User" in message:
            remedy = "ask the platform team for this permission"
        elif "exceeded quota" in message:
            remedy = (
                "`railhead cancel` jobs that have ended, which keep their files, or ask the "
                "platform team for more"
            )
        elif "failed calling webhook" in message or "conversion webhook" in message:
            remedy = (
                "the controller behind it does not answer: try again in a minute; the platform "
                "team sees by `kubectl get pods -A` whether it runs"
            )
        elif response.status_code == TOO_LARGE or "request is too large" in message:
            remedy = (
                "trying again does not help: carry less in the job's variables, command and files, "
                "and put data into the image or on a claim"
            )
        elif "database space exceeded" in message:
            remedy = (
                "etcd is full: the platform team deletes what fills it, then compacts, defragments "
                "and disarms its alarm (etcdctl)"
            )
        elif response.status_code == BUSY or response.status_code >= 500:
            remedy = "the API server, or what it stands on, is not well: try again in a minute"
        return ApiError(
            status=response.status_code,
            reason=str(status.get("reason") or ""),
            message=message,
            details=status.get("details"),
            remedy=remedy,
        )


def _broke(error: Exception) -> bool:
    """Return whether an open connection broke; a refused one or a timeout is an answer."""
    broke = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
    return broke and not isinstance(error, httpx.ConnectError)


def _reply(response: httpx.Response) -> Reply:
    try:
        body = response.json() if response.content else {}
    except ValueError:
        body = {"message": response.text.strip()[:400]}
    header = ", ".join(response.headers.get_list("Warning"))
    warnings = tuple(text.replace('\\"', '"') for text in _WARNING.findall(header))
    return Reply(body=body, warnings=warnings)


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds to wait: the server's, five at most, or one if it does not say."""
    wait = response.headers.get("Retry-After", "")
    return min(float(wait), 5.0) if wait.isdigit() else 1.0


def _lines(response: httpx.Response) -> Iterator[str]:
    # httpx's own line splitter breaks lines at every Unicode separator; a log line ends at \n only.
    rest = b""
    for chunk in response.iter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
