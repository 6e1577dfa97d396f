"""The plugins' own affairs: launchers, interpreters, locks, names, settings."""

from __future__ import annotations

import base64
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2_grpc, provider_pb2, provider_pb2_grpc

from railhead.base import backend
from railhead.base.errors import PrerequisiteError
from railhead.kube.errors import UnreachableError
from railhead.lab.engine import serving
from railhead.lab.engine.install import PLUGINS, install
from railhead.lab.engine.interpreter import find_python
from railhead.lab.engine.provider import config, invokes, manifests, naming, properties
from railhead.lab.engine.provider.client import ClientSettings, KubeClient, load_kubeconfig
from railhead.lab.engine.provider.helm import merge_values, resource_names
from railhead.lab.engine.provider.servicer import KubernetesProvider

pytestmark = pytest.mark.slow

URN = "urn:pulumi:dev::proj::a:b:Component$kubernetes:core/v1:ConfigMap::settings"


# Launchers


def start(launcher: Path, *arguments: str, cwd: Path) -> tuple[subprocess.Popen[bytes], int]:
    process = subprocess.Popen(
        [str(launcher), *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.fixture
def launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    report = install(tmp_path / "bin", python=Path(sys.executable), helm=None)
    assert [line.split(":")[0] for line in report] == [plugin.executable for plugin in PLUGINS]
    assert all("stand-in" in line for line in report)
    return tmp_path / "bin"


def test_launchers_work_from_any_directory_and_end_quietly(launchers: Path, tmp_path: Path) -> None:
    # A module of this name in the working directory must not be taken for the real one.
    (tmp_path / "kubernetes.py").write_text("raise SystemExit('shadowed')\n")
    (tmp_path / "railhead.py").write_text("raise SystemExit('shadowed')\n")
    for name in ("pulumi-resource-kubernetes", "pulumi-language-python"):
        process, port = start(launchers / name, "127.0.0.1:1", cwd=tmp_path)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub: Any = (
                provider_pb2_grpc.ResourceProviderStub(channel)
                if "resource" in name
                else language_pb2_grpc.LanguageRuntimeStub(channel)
            )
            assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=60).version
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert errors == b""


def test_a_plugin_ends_with_its_engine(launchers: Path, tmp_path: Path) -> None:
    script = (
        f"{launchers / 'pulumi-resource-kubernetes'} 127.0.0.1:1 & echo $!; sleep 1; kill -9 $$"
    )
    engine = subprocess.Popen(
        ["/bin/bash", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
    )
    assert engine.stdout is not None
    pid = int(engine.stdout.readline())
    engine.wait()
    deadline = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()


def test_official_plugins_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    installed = home / "plugins" / "resource-kubernetes-v4.34.2"
    installed.mkdir(parents=True)
    official = tmp_path / "official"
    official.mkdir()
    for file in (
        installed / "pulumi-resource-kubernetes",
        official / "pulumi-language-python",
    ):
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    monkeypatch.setenv("PULUMI_HOME", str(home))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    folder = tmp_path / "bin"
    install(folder, python=Path(sys.executable), helm=None)
    assert not (folder / "pulumi-resource-kubernetes").exists()
    assert (folder / "pulumi-language-python").exists()
    # An official one turns up later: the stand-in goes.
    monkeypatch.setenv("PATH", f"{folder}:{official}:/usr/bin:/bin")
    report = install(folder, python=Path(sys.executable), helm=None)
    assert not (folder / "pulumi-language-python").exists()
    assert f"pulumi-language-python: official, {official / 'pulumi-language-python'}" in report
    # A stand-in elsewhere on PATH is no official plugin.
    other = tmp_path / "other"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    install(folder, python=Path(sys.executable), helm=None)
    assert any(
        "stand-in" in line for line in install(other, python=Path(sys.executable), helm=None)
    )


def test_paths_with_spaces_and_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    folder = tmp_path / "it's a dir; $(touch x)"
    helm = folder / "my helm"
    install(folder, python=Path(sys.executable), helm=helm)
    helm.write_text("#!/bin/sh\n")
    helm.chmod(0o755)
    process, _ = start(folder / "pulumi-resource-kubernetes", "127.0.0.1:1", cwd=tmp_path)
    environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    process.terminate()
    process.communicate(timeout=60)
    assert f"RAILHEAD_HELM={helm}".encode() in environment
    assert not (tmp_path / "x").exists()


def test_engine_address_among_arguments() -> None:
    assert serving.engine_address(["-v=9", "--logflow", "127.0.0.1:4321"]) == "127.0.0.1:4321"
    assert serving.engine_address(["--tracing", "file:x"]) == ""


# Interpreters


def test_interpreter_of_a_program(tmp_path: Path) -> None:
    assert find_python({}, tmp_path) == Path(sys.executable)
    with pytest.raises(PrerequisiteError, match="no Python"):
        find_python({"virtualenv": "venv"}, tmp_path)
    with pytest.raises(PrerequisiteError, match="'conda'"):
        find_python({"toolchain": "conda"}, tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert find_python({"virtualenv": "venv"}, tmp_path) == python
    assert find_python({"virtualenv": str(tmp_path / "venv")}, Path("/")) == python


# Locks


def test_what_a_killed_pulumi_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / ".pulumi" / "locks" / "organization" / "p" / "s"
    states = tmp_path / ".pulumi" / "stacks" / "p"
    folder.mkdir(parents=True)
    states.mkdir(parents=True)
    dead = subprocess.Popen(["true"])
    dead.wait()
    past = time.time() - 60

    def lock(name: str, pid: int, host: str) -> Path:
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"pid": pid, "hostname": host, "username": "u"}))
        return path

    def empty(path: Path, *, settled: bool) -> Path:
        path.touch()
        if settled:
            os.utime(path, (past, past))
        return path

    mine = lock("mine", dead.pid, socket.gethostname())
    begun = empty(folder / "new.json.17a.tmp", settled=True)
    beginning = empty(folder / "newer.json.17b.tmp", settled=False)
    sidecar = empty(states / "s.json.attrs", settled=True)
    torn = states / "t.json"
    torn.write_text("{")
    torn.with_name("t.json.bak").write_text("{}")
    elsewhere = lock("elsewhere", dead.pid, "another-machine")
    alive = lock("alive", os.getpid(), socket.gethostname())
    # A sidecar may be its owner's, as long as there is one.
    assert {fault.file for fault in backend.mend(tmp_path)} == {mine, begun}
    held = {fault.file: fault.text for fault in backend.faults(tmp_path)}
    assert set(held) == {elsewhere, alive}
    assert "another-machine" in held[elsewhere]
    assert "which runs" in held[alive]
    elsewhere.unlink()
    alive.unlink()
    assert [fault.file for fault in backend.mend(tmp_path)] == [sidecar]
    (left,) = backend.faults(tmp_path)
    assert left.file == torn
    assert left.remedy == f"the state before it: cp {torn}.bak {torn}"
    assert beginning.exists()


def test_no_guard_waits_for_a_process_that_never_ends() -> None:
    assert backend.start_guard(1) is None


def test_a_labs_pulumi_mends_its_backend_first(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text('#!/bin/sh\necho "$@" "$(ls "$STATE/.pulumi/stacks")"\n')
    engine.chmod(0o755)
    tools = tmp_path / "tools"
    install(tools, python=Path(sys.executable), helm=None, pulumi=engine)
    sidecar = tmp_path / "state" / ".pulumi" / "stacks" / "lab.json.attrs"
    sidecar.parent.mkdir(parents=True)
    sidecar.touch()
    os.utime(sidecar, (0, 0))
    state = str(tmp_path / "state")
    done = subprocess.run(
        [str(tools / "pulumi"), "up", "-s", "lab"],
        env={"PULUMI_BACKEND_URL": f"file://{state}?metadata=skip", "STATE": state},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "up -s lab \n"
    assert done.stderr == ""


def test_the_backend_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    monkeypatch.chdir(project / "sub")
    assert backend.backend_folder() is None
    text = "name: p\nbackend:\n  url: file://./state?create_dir=true  # here\nruntime: python\n"
    (project / "Pulumi.yaml").write_text(text)
    assert backend.backend_folder() == project / "state"
    (project / "Pulumi.yaml").write_text("name: p\nbackend:\n  url: 's3://bucket'\n")
    assert backend.backend_folder() is None
    (project / "Pulumi.yaml").write_text("name: p\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "credentials.json").write_text('{"current": "file:///a%20b"}')
    assert backend.backend_folder() == Path("/a b")


def test_the_guard_waits_for_the_stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    engine = subprocess.Popen(["sleep", "60"])
    plugin = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, backend.ENGINE_PID: str(engine.pid)}
    )
    lock = tmp_path / ".pulumi" / "locks" / "lock.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": engine.pid, "hostname": socket.gethostname()}))
    guard = backend.start_guard(engine.pid)
    assert guard is not None
    try:
        assert backend.siblings(engine.pid) == [plugin.pid]
        engine.kill()
        engine.wait()
        time.sleep(0.6)
        assert lock.exists()
        assert guard.poll() is None
        plugin.kill()
        plugin.wait()
        guard.wait(timeout=60)
        assert not lock.exists()
    finally:
        for process in (engine, plugin, guard):
            process.kill()
            process.wait()


# Names


def test_names_are_stable_and_distinct() -> None:
    first = naming.autoname(URN)
    assert first == naming.autoname(URN)
    assert first.startswith("settings-")
    assert len(first) == len("settings-") + 8
    assert naming.autoname(URN, first) != first
    assert naming.autoname(URN.replace("dev", "prod")) != first
    assert naming.field_manager(URN).startswith("pulumi-kubernetes-")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("kubernetes:core/v1:ConfigMap", ("v1", "ConfigMap")),
        ("kubernetes:apps/v1:Deployment", ("apps/v1", "Deployment")),
        (
            "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue",
            ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
        ),
    ],
)
def test_kinds_from_tokens(token: str, expected: tuple[str, str]) -> None:
    assert naming.token_kind(f"urn:pulumi:s::p::{token}::n") == expected


def test_bad_tokens_are_named() -> None:
    with pytest.raises(ValueError, match="kubernetes:nonsense"):
        naming.token_kind("urn:pulumi:s::p::kubernetes:nonsense::n")


@pytest.mark.parametrize(
    ("token", "kind", "patch"),
    [
        ("kubernetes:core/v1:NodePatch", "Node", True),
        ("kubernetes:core/v1:Node", "Node", False),
        ("kubernetes:example.com/v1:DogPatch", "DogPatch", False),
    ],
)
def test_patch_kinds(token: str, kind: str, patch: bool) -> None:
    assert naming.is_patch(f"urn:pulumi:s::p::{token}::n", kind) is patch


def test_ids() -> None:
    assert naming.parse_id("ns/name") == ("ns", "name")
    assert naming.parse_id("name") == ("", "name")


# Settings and kubeconfigs


def kubeconfig(server: str = "https://one:6443", context: str = "c") -> str:
    return json.dumps(
        {
            "current-context": context,
            "clusters": [{"name": "k", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "hush", "client-key": "rel/key"}}],
            "contexts": [
                {"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}
            ],
        }
    )


def test_kubeconfig_as_text_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kubeconfig()
    assert load_kubeconfig(ClientSettings(kubeconfig=text)).cluster["server"]
    path = tmp_path / "config"
    path.write_text(text)
    loaded = load_kubeconfig(ClientSettings(kubeconfig=str(path)))
    assert loaded.user["client-key"] == str(tmp_path / "rel" / "key")
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert load_kubeconfig(ClientSettings()).namespace == "ns"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/no/such/file", "there is no kubeconfig at /no/such/file"),
        ("{}", "no current-context"),
        ('{"a": hush', "no YAML at line 1"),
        (kubeconfig(context="gone"), "no context is called 'gone'; there are: c"),
    ],
)
def test_bad_kubeconfigs_are_named_without_their_contents(text: str, words: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        load_kubeconfig(ClientSettings(kubeconfig=text))
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)


def test_settings_from_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config.parse({"namespace": "n", "enableServerSideApply": False}, {})
    assert settings.namespace == "n"
    assert not settings.server_side
    settings = config.parse({}, {"kubernetes:config:enableServerSideApply": "false"})
    assert not settings.server_side
    assert config.parse({}, {}).server_side
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    assert config.parse({}, {}).delete_unreachable
    assert not config.parse({"deleteUnreachable": "false"}, {}).delete_unreachable
    nested = config.parse({"kubeClientSettings": '{"timeout": 7}'}, {})
    assert nested.client.timeout_s == 7
    with pytest.raises(ValueError, match="kubeClientSettings"):
        config.parse({"kubeClientSettings": "{"}, {})


@pytest.mark.parametrize(
    ("old", "new", "replacing"),
    [
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig()}, []),
        (
            {"kubeconfig": kubeconfig()},
            {"kubeconfig": kubeconfig("https://two:6443")},
            ["kubeconfig"],
        ),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig().replace("hush", "x")}, []),
        (
            {"kubeconfig": kubeconfig(), "clusterIdentifier": "a"},
            {"kubeconfig": kubeconfig("https://two:6443"), "clusterIdentifier": "a"},
            [],
        ),
        (
            {"kubeconfig": kubeconfig(), "clusterIdentifier": "a"},
            {"kubeconfig": kubeconfig(), "clusterIdentifier": "b"},
            ["clusterIdentifier"],
        ),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": "/gone"}, []),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": properties.UNKNOWN}, ["kubeconfig"]),
    ],
)
def test_when_the_provider_is_replaced(
    old: dict[str, Any], new: dict[str, Any], replacing: list[str]
) -> None:
    assert config.replaces(old, new)[1] == replacing


def test_embedded_certificates_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "admin")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()
    private = base64.b64encode(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    ).decode()
    document = json.loads(kubeconfig("https://127.0.0.1:1"))
    document["clusters"][0]["cluster"]["certificate-authority-data"] = pem
    document["users"][0]["user"] = {"client-certificate-data": pem, "client-key-data": private}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = ClientSettings(kubeconfig=json.dumps(document))
    client = KubeClient(load_kubeconfig(settings), settings)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UnreachableError, match=r"cannot reach the API server https://127\.0"):
        client.version()
    document["users"][0]["user"]["client-key-data"] = pem
    settings = ClientSettings(kubeconfig=json.dumps(document))
    with pytest.raises(UnreachableError, match="a certificate or key is not usable"):
        KubeClient(load_kubeconfig(settings), settings)


# Manifests and Helm's small parts


def test_manifests_are_read_as_kubernetes_does() -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, data: {1: a}}\n"
        "---\n---\napiVersion: v1\nkind: Pod\nmetadata: {creationTimestamp: 2020-01-02T03:04:05Z}\n"
    )
    first, second = manifests.decode(text)
    assert first["data"] == {"1": "a"}
    assert second["metadata"]["creationTimestamp"] == "2020-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [", "not valid YAML"), ("a: b", "no kind"), ("kind: Pod", "no apiVersion")],
)
def test_bad_manifests_are_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        manifests.decode(text)


def test_decode_function() -> None:
    provider = KubernetesProvider()
    result = invokes.call(
        "kubernetes:yaml:decode", {"text": "apiVersion: v1\nkind: Pod\n"}, provider
    )
    assert result == {"result": [{"apiVersion": "v1", "kind": "Pod"}]}
    with pytest.raises(ValueError, match="'text'"):
        invokes.call("kubernetes:yaml:decode", {}, provider)
    with pytest.raises(ValueError, match="no function 'kubernetes:x:y'"):
        invokes.call("kubernetes:x:y", {}, provider)


def test_values_are_merged_as_helm_does() -> None:
    base = {"a": {"b": 1, "c": 2}, "l": [1, 2]}
    assert merge_values(base, {"a": {"b": None, "d": 3}, "l": [3]}) == {
        "a": {"b": None, "c": 2, "d": 3},
        "l": [3],
    }


def test_resource_names_are_grouped_as_in_the_official_provider() -> None:
    manifest = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\n"
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: n}\n"
    )
    assert resource_names(manifest) == {"Deployment.apps/apps/v1": ["n/a"], "Service/v1": ["b"]}


# The service itself, without a cluster


class Refusing:
    """Just enough of gRPC's context to see an abort."""

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise AssertionError(details)


CONTEXT: Any = Refusing()


def check(
    provider: KubernetesProvider, news: dict[str, Any], olds: dict[str, Any] | None = None
) -> dict[str, Any]:
    request = provider_pb2.CheckRequest(
        urn=URN, news=properties.encode(news), olds=properties.encode(olds or {})
    )
    return properties.decode(provider.Check(request, CONTEXT).inputs)


CONFIG_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def offline() -> KubernetesProvider:
    """A provider whose cluster nobody answers for."""
    provider = KubernetesProvider()
    request = provider_pb2.ConfigureRequest(
        acceptSecrets=True,
        args=properties.encode({"kubeconfig": kubeconfig("https://127.0.0.1:1")}),
    )
    response = provider.Configure(request, CONTEXT)
    assert response.supportsPreview
    assert response.acceptSecrets
    return provider


def test_check_names_and_places_the_object(offline: KubernetesProvider) -> None:
    checked = check(offline, CONFIG_MAP)
    assert checked["metadata"]["name"] == naming.autoname(URN)
    assert checked["metadata"]["annotations"] == {naming.AUTONAMED: "true"}
    assert checked["metadata"]["namespace"] == "ns"
    again = check(
        offline, CONFIG_MAP, {**CONFIG_MAP, "metadata": {**checked["metadata"], "name": "kept"}}
    )
    assert again["metadata"]["name"] == "kept"
    named = check(offline, {**CONFIG_MAP, "metadata": {"name": "mine", "namespace": "other"}})
    assert named["metadata"] == {"name": "mine", "namespace": "other"}
    unknown = check(offline, {**CONFIG_MAP, "metadata": {"name": properties.UNKNOWN}})
    assert unknown["metadata"]["name"] is properties.UNKNOWN


def test_check_keeps_secrets(offline: KubernetesProvider) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": properties.Secret({"a": "b"}),
    }
    assert check(offline, secret)["data"] == properties.Secret({"a": "Yg=="})


@pytest.mark.parametrize(
    ("type_token", "news", "words"),
    [
        ("kubernetes:core/v1:ConfigMapList", {"apiVersion": "v1", "kind": "ConfigMapList"}, "list"),
        ("kubernetes:core/v1:NodePatch", {"apiVersion": "v1", "kind": "Node"}, "metadata.name"),
        (
            "kubernetes:core/v1:Pod",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}},
            "generateName",
        ),
    ],
)
def test_check_refuses(
    offline: KubernetesProvider, type_token: str, news: dict[str, Any], words: str
) -> None:
    request = provider_pb2.CheckRequest(
        urn=f"urn:pulumi:s::p::{type_token}::n", news=properties.encode(news)
    )
    with pytest.raises(AssertionError, match=words):
        offline.Check(request, CONTEXT)


def test_diff_says_how_to_replace(offline: KubernetesProvider) -> None:
    inputs = {**CONFIG_MAP, "metadata": {"name": "n", "namespace": "ns"}, "data": {"a": "1"}}
    state = {**inputs, "__inputs": inputs, "__initialApiVersion": "v1", "__fieldManager": "m"}

    def diff(news: dict[str, Any], ignore: list[str] | None = None) -> provider_pb2.DiffResponse:
        request = provider_pb2.DiffRequest(
            urn=URN,
            id="ns/n",
            olds=properties.encode(state),
            news=properties.encode(news),
            ignoreChanges=ignore or [],
        )
        return offline.Diff(request, CONTEXT)

    assert diff(inputs).changes == provider_pb2.DiffResponse.DIFF_NONE
    replaced = diff({**inputs, "data": {"a": "2"}})
    assert list(replaced.replaces) == ["data.a"]
    assert replaced.deleteBeforeReplace
    moved = diff({**inputs, "metadata": {"name": "other", "namespace": "ns"}})
    assert list(moved.replaces) == ["metadata.name"]
    assert not moved.deleteBeforeReplace
    labelled = diff({**inputs, "metadata": {**inputs["metadata"], "labels": {"a": "b"}}})
    assert not labelled.replaces
    assert list(labelled.detailedDiff) == ["metadata.labels"]
    ignored = diff({**inputs, "data": {"a": "2"}}, ["data"])
    assert ignored.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_rendering_is_refused_with_its_reason(offline: KubernetesProvider) -> None:
    request = provider_pb2.CheckRequest(
        urn="urn:pulumi:s::p::pulumi:providers:kubernetes::k",
        news=properties.encode({"renderYamlToDirectory": "out"}),
    )
    (failure,) = offline.CheckConfig(request, CONTEXT).failures
    assert failure.property == "renderYamlToDirectory"
