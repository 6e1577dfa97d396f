"""Digests as registries say them, of a registry of the test's own."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import yaml

from railhead import cli
from railhead.base.errors import ExitCode, InputError
from railhead.catalog import digests, registry
from railhead.config import load
from railhead.resolve.images import images, loose
from tests.shipped import document

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[3]
USER = "reader:secret"


@dataclass
class Registry:
    """Name and tag -> manifest; ``token`` what it asks for, ``says`` whether it tells digests."""

    manifests: dict[str, bytes] = field(default_factory=dict)
    says: bool = True
    kind: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    address: str = ""

    def digest(self, name: str) -> str:
        return f"sha256:{hashlib.sha256(self.manifests[name]).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """The part of the distribution API that pulls begin with."""

    state: Registry

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _answer(self, *, body: bool) -> None:
        url, text = urlsplit(self.path), self.headers.get("Authorization", "")
        self.state.asked.append((self.command, url.path))
        basic = f"Basic {base64.b64encode(USER.encode()).decode()}"
        if url.path == "/token":
            scope = parse_qs(url.query)["scope"][0]
            wanted = text == basic if self.state.kind == "private" else True
            token = json.dumps({"token": f"for {scope}"}).encode()
            return self._send(200 if wanted else 403, token if wanted else b"{}")
        name, _, tag = url.path.removeprefix("/v2/").partition("/manifests/")
        scope = f"repository:{name}:pull"
        if self.state.kind == "basic" and text != basic:
            return self._send(401, WWW_Authenticate='Basic realm="x"')
        if self.state.kind in ("open", "private") and text != f"Bearer for {scope}":
            where = f'Bearer realm="http://{self.state.address}/token",service="s",scope="{scope}"'
            return self._send(401, WWW_Authenticate=where)
        result = self.state.manifests.get(f"{name}:{tag}")
        if result is None:
            return self._send(404)
        accepted = self.headers["Accept"]
        assert "image.index.v1+json" in accepted
        assert "manifest.list.v2+json" in accepted
        digest = {"Docker_Content_Digest": self.state.digest(f"{name}:{tag}")}
        return self._send(200, result if body else b"", **(digest if self.state.says else {}))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    state = Registry(manifests={"team/x:1": b"{}", "team/y:2": b"[]"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (Handler,), {"state": state}))
    state.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def asked(reference: str) -> str:
    with httpx.Client() as client:
        return registry.digest(reference, client)


@pytest.mark.parametrize("kind", ["", "open"])
@pytest.mark.parametrize("says", [True, False], ids=["said", "of the bytes"])
def test_a_tag_has_the_digest_of_its_manifest(served: Registry, kind: str, says: bool) -> None:
    served.kind, served.says = kind, says
    assert asked(f"{served.address}/team/x:1") == served.digest("team/x:1")
    # What counts as a pull is asked only where a registry says nothing without.
    assert any(verb == "GET" and "/v2/" in path for verb, path in served.asked) is not says


def logged_in(folder: Path, config: Any) -> None:
    (folder / "none").mkdir()
    (folder / "none" / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["private", "basic"])
def test_credentials_are_those_of_docker_login(served: Registry, kind: str, tmp_path: Path) -> None:
    served.kind = kind
    with pytest.raises(registry.RegistryError, match=r"no token|wants credentials"):
        asked(f"{served.address}/team/x:1")
    auth = base64.b64encode(USER.encode()).decode()
    logged_in(tmp_path, {"auths": {served.address: {"auth": auth}}})
    assert asked(f"{served.address}/team/x:1") == served.digest("team/x:1")


def test_a_helper_keeps_them(
    served: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.kind = "basic"
    user, _, secret = USER.partition(":")
    helper = tmp_path / "docker-credential-test"
    answer = json.dumps({"Username": user, "Secret": secret})
    helper.write_text(
        f"#!/bin/sh\nread host\n[ \"$host\" = {served.address} ] && echo '{answer}'\n"
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    logged_in(tmp_path, {"credHelpers": {served.address: "test"}})
    assert asked(f"{served.address}/team/y:2") == served.digest("team/y:2")


def test_missing_images_are_named(served: Registry) -> None:
    with pytest.raises(registry.RegistryError, match=r"team/x:9: .* answered 404"):
        asked(f"{served.address}/team/x:9")
    with pytest.raises(registry.RegistryError, match="did not answer"):
        asked("127.0.0.1:9/team/x:1")


@pytest.fixture
def stack(served: Registry, tmp_path: Path) -> Iterator[Path]:
    """A shipped stack whose every registry is the test's, by the stack's own mirrors."""
    data = document("onprem-roce-shared")
    path = tmp_path / "stacks" / "Pulumi.x.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(data))
    wanted = images(load(path))
    hosts = {registry.parts(gang)[0] for gang in wanted}
    mirrors = {host: f"{served.address}/{host}" for host in hosts}
    data["config"]["railhead:cluster"]["registry_mirrors"] = mirrors
    path.write_text(yaml.safe_dump(data))
    served.manifests = {
        f"{host}/{name}:{tag}": gang.encode()
        for gang in wanted
        if "@" not in gang
        for host, name, tag in [registry.parts(gang)]
    }
    yield path
    # Nothing of it is left to the tests after.
    digests.use(tmp_path)


def pin(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.run(["config", *words])
    text = capsys.readouterr()
    return code, text.out + text.err


def test_every_image_of_a_stack_is_pinned(
    stack: Path, served: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    before = loose(load(stack))
    assert before
    code, text = pin(capsys, "check", str(stack))
    assert code == ExitCode.OK
    assert f"note: no digest is known of {len(before)} of its {len(images(load(stack)))}" in text

    # What the catalogue read in its publisher's files is another than the test's.
    code, text = pin(capsys, "pin", str(stack))
    assert code == ExitCode.REFUSED
    assert "nvidia-network-operator.clusterserviceversion.yaml" in text
    code, text = pin(capsys, "pin", str(stack), "--update")
    assert code == ExitCode.OK, text

    cluster = load(stack)
    assert loose(cluster) == ()
    assert "no digest" not in pin(capsys, "check", str(stack))[1]
    (runtime, *_) = cluster.runtimes
    host, name, tag = registry.parts(runtime.image)
    digest = served.digest(f"{host}/{name}:{tag}")
    assert cluster.mirrored(runtime.image) == f"{served.address}/{host}/{name}:{tag}@{digest}"


def test_a_tag_that_moved_is_refused_until_it_is_taken(
    stack: Path, served: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pin(capsys, "pin", str(stack), "--update")[0] == ExitCode.OK
    assert pin(capsys, "pin", str(stack))[0] == ExitCode.OK
    name = next(iter(served.manifests))
    old, served.manifests[name] = served.digest(name), b"another"
    record = stack.parent / digests.FILE
    kept = record.read_text()
    code, text = pin(capsys, "pin", str(stack))
    assert code == ExitCode.REFUSED
    assert f"is {served.digest(name)} now, and was {old}" in text
    assert record.read_text() == kept
    assert pin(capsys, "pin", str(stack), "--update")[0] == ExitCode.OK
    assert served.digest(name) in record.read_text()


def test_images_absent_from_a_registry_are_named(
    stack: Path, served: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = next(iter(served.manifests))
    del served.manifests[gone]
    code, text = pin(capsys, "pin", str(stack), "--update")
    assert code == ExitCode.REFUSED
    assert f"{served.address}/{gone}: {served.address} answered 404" in text
    assert len(digests.read(stack.parent / digests.FILE)) == len(served.manifests)


def test_images_that_are_built_here_are_asked_of_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "Pulumi.lab.yaml"
    path.write_text((REPO / "stacks" / "Pulumi.lab.yaml").read_text())
    code, text = pin(capsys, "pin", str(path))
    assert (code, text) == (ExitCode.OK, f"{tmp_path / digests.FILE}: 0 of 0 images\n")
    assert not (tmp_path / digests.FILE).exists()


@pytest.mark.parametrize(
    "text", ["[]", "digests: []", "digests: {x: sha256:0}", "other: {}", "digests: {x: 1}", "{"]
)
def test_a_file_that_says_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / digests.FILE).write_text(text)
    with pytest.raises(InputError, match=digests.FILE):
        digests.use(tmp_path)
    digests.use(tmp_path / "none")
