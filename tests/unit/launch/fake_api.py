"""An API server's storage and nothing else, for tests of what launch says to one and hears.

It keeps objects by path, hands out uids, honours label selectors, dry runs, owner references and
merge patches, and streams logs. It validates nothing: what the real one accepts is tests/lab's.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from railhead.kube.errors import ApiError

Object = dict[str, Any]
STAMP = "2026-01-02T03:04:05Z"


@dataclass
class Api:
    """Fake server: the objects it stores, the requests it refuses, those it was sent."""

    objects: dict[str, Object] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    # Pods whose log stream stays open after its last line.
    open_logs: set[str] = field(default_factory=set)
    refusals: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    on_create: Callable[[str, Object], None] = lambda path, body: None
    # Subresources that a review of access does not allow.
    denied: set[str] = field(default_factory=set)
    # A foreground delete waits for pods; these paths stay until they are popped.
    reluctant: set[str] = field(default_factory=set)
    port: int = 0
    counter: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, path: str, body: Object) -> Object:
        """Store an object under a collection's or its own path."""
        with self.lock:
            self.counter += 1
            metadata = body.setdefault("metadata", {})
            metadata.setdefault("uid", f"uid-{self.counter}")
            metadata.setdefault("creationTimestamp", STAMP)
            key = path if path.endswith("/" + metadata["name"]) else f"{path}/{metadata['name']}"
            if "/namespaces/" in key:
                metadata.setdefault("namespace", key.split("/namespaces/")[1].split("/")[0])
            self.objects[key] = body
            return body

    def remove(self, path: str) -> None:
        """Delete an object and whatever it owns."""
        with self.lock:
            gone = self.objects.pop(path)
            uid = gone["metadata"]["uid"]
            for key, value in list(self.objects.items()):
                owners = value["metadata"].get("ownerReferences") or []
                if key in self.objects and any(o["uid"] == uid for o in owners):
                    self.remove(key)

    def kubeconfig(self, directory: Path, **user: Any) -> Path:
        """Write a kubeconfig that leads here."""
        path = directory / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
            "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "me", "user": {"token": "secret"} | user}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


def _matches(obj: Object, selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


class Stored:
    """A cluster of what an API stores, asked without a server; paths may be refused."""

    def __init__(self, api: Api, refused: Mapping[str, int]) -> None:
        self.api, self.refused = api, refused

    def _ask(self, path: str) -> None:
        if status := self.refused.get(path):
            remedy = "ask who may" if status == 403 else ""
            raise ApiError(status=status, reason="", message=f"answer {status}", remedy=remedy)

    def find(self, path: str) -> Object | None:
        self._ask(path)
        return self.api.objects.get(path)

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[Object]:
        self._ask(path)
        result = (v for k, v in self.api.objects.items() if k.rpartition("/")[0] == path)
        return [item for item in result if _matches(item, selector)]

    def create(self, path: str, body: Object, *, dry_run: bool = False) -> None:
        self._ask(path)
        if not dry_run:
            self.api.put(path, body)


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


class _Handler(BaseHTTPRequestHandler):
    api: Api
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        pass

    def _send(self, status: int, body: Object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _fail(self, status: int, message: str, reason: str = "") -> None:
        self._send(status, {"kind": "Status", "message": message, "reason": reason})

    def _handle(self) -> None:
        url = urlsplit(self.path)
        params = {key: values[0] for key, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        api, method, path = self.api, self.command, url.path
        if method == "DELETE":
            params |= {"propagationPolicy": str(body.get("propagationPolicy"))}
        with api.lock:
            api.asked.append((method, path, params))
            api.headers.append({k.lower(): v for k, v in self.headers.items()})
            refusal = api.refusals.get((method, path))
        if refusal:
            self._fail(refusal[0], refusal[1], "Forbidden" if refusal[0] == 403 else "")
        elif path.endswith("/log"):
            self._log(path.split("/")[-2], params)
        else:
            with api.lock:
                getattr(self, f"_{method.lower()}")(path, params, body)

    def __getattr__(self, name: str) -> Any:
        # http.server asks for do_GET, do_POST and so on.
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def _get(self, path: str, params: dict[str, str], body: Object) -> None:
        if path in self.api.objects:
            self._send(200, self.api.objects[path])
            return
        items = [v for k, v in self.api.objects.items() if k.rpartition("/")[0] == path]
        if "limit" in params:
            kept = [i for i in items if _matches(i, params.get("labelSelector", ""))]
            _, _, uid = params.get("fieldSelector", "").partition("involvedObject.uid=")
            kept = [i for i in kept if not uid or i["involvedObject"]["uid"] == uid]
            self._send(200, {"items": kept, "metadata": {}})
            return
        self._fail(404, f"{path} not found", "NotFound")

    def _post(self, path: str, params: dict[str, str], body: Object) -> None:
        if path.endswith("/selfsubjectreviews"):
            self._send(201, body | {"status": {"userInfo": {"username": "ada"}}})
            return
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"].get("subresource")
            self._send(201, body | {"status": {"allowed": asked not in self.api.denied}})
            return
        key = f"{path}/{body['metadata']['name']}"
        if key in self.api.objects:
            self._fail(409, f"{key} already exists", "AlreadyExists")
        elif params.get("dryRun"):
            self._send(201, body)
        else:
            stored = self.api.put(path, body)
            self.api.on_create(key, stored)
            self._send(201, stored)

    def _delete(self, path: str, params: dict[str, str], body: Object) -> None:
        if path not in self.api.objects:
            self._fail(404, f"{path} not found", "NotFound")
            return
        if path in self.api.reluctant:
            self.api.objects[path]["metadata"]["deletionTimestamp"] = STAMP
        else:
            self.api.remove(path)
        self._send(200, {"status": "Success"})

    def _patch(self, path: str, params: dict[str, str], body: Object) -> None:
        _merge(self.api.objects[path], body)
        self._send(200, self.api.objects[path])

    def _log(self, pod: str, params: dict[str, str]) -> None:
        if params.get("previous") == "true":
            pod = f"{pod} before"
            if pod not in self.api.logs:
                self._fail(400, "previous terminated container not found", "BadRequest")
                return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = 0
        while True:
            lines = self.api.logs.get(pod, [])
            for line in lines[sent:]:
                if line.split(" ")[0][:19] >= params.get("sinceTime", "")[:19]:
                    data = f"{line}\n".encode()
                    self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            sent = len(lines)
            if params.get("follow") != "true" or pod not in self.api.open_logs:
                break
            time.sleep(0.02)
        self.wfile.write(b"0\r\n\r\n")


class _Server(ThreadingHTTPServer):
    """Says nothing of who went away in the middle of an answer, as no real one does on stderr."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serve() -> Iterator[Api]:
    """Yield a server on a free port of the loopback interface."""
    api = Api()
    handler = type("Handler", (_Handler,), {"api": api})
    server = _Server(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
