"""Tests of the cluster that is chosen, how it is reached, and what stays behind."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from railhead.base.errors import InputError, PrerequisiteError
from railhead.kube import client as kube
from railhead.kube.client import ApiError, Cluster, Target, choose_target
from tests.unit.launch.fake_api import Api


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing names a cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAILHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def a_lab(home: Path, name: str) -> Path:
    path = home / "cache/labs" / name / "kubeconfig"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return path


def test_nothing_names_a_cluster(home: Path) -> None:
    with pytest.raises(PrerequisiteError, match="no cluster to talk to"):
        choose_target()


def test_the_order_of_choice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = a_lab(home, "lab")
    assert choose_target() == Target(kubeconfig=lab, context=None, why="lab lab")
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text("{}")
    assert choose_target().why == "~/.kube/config"
    (home / "other").write_text("{}")
    monkeypatch.setenv("KUBECONFIG", str(home / "other"))
    assert choose_target().why == "$KUBECONFIG"
    assert choose_target(lab="lab").kubeconfig == lab
    assert choose_target(kubeconfig=lab).kubeconfig == lab


def test_two_labs_need_a_name_and_a_wrong_name_its_near_miss(home: Path) -> None:
    a_lab(home, "lab")
    a_lab(home, "second")
    with pytest.raises(InputError, match="several labs run here: lab, second"):
        choose_target()
    with pytest.raises(InputError, match="running: lab, second; did you mean 'second'"):
        choose_target(lab="secnod")
    with pytest.raises(InputError, match="both name a cluster"):
        choose_target(lab="lab", kubeconfig=home / "x")
    with pytest.raises(InputError, match="is not a file"):
        choose_target(kubeconfig=home / "x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not a kubeconfig"),
        ("a: [", "not readable"),
        ("{}", "no current-context"),
        ("current-context: x\ncontexts: [{name: y, context: {}}]", "no context is called 'x'"),
    ],
)
def test_broken_kubeconfigs(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        Cluster(choose_target(kubeconfig=path))


def test_an_unreachable_server_is_a_sentence(api: Api, tmp_path: Path) -> None:
    path = api.kubeconfig(tmp_path)
    path.write_text(path.read_text().replace(str(api.port), "1"))
    with pytest.raises(PrerequisiteError, match=r"cannot reach the API server http://127.0.0.1:1 "):
        Cluster(choose_target(kubeconfig=path)).get("/version")


def test_a_proxy_of_the_environment_is_not_for_loopback(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kubeconfig: Path
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert Cluster(choose_target(kubeconfig=kubeconfig)).find("/api/v1/namespaces/training")


def test_credentials_and_impersonation_are_sent(api: Api, tmp_path: Path) -> None:
    path = api.kubeconfig(tmp_path, **{"as": "ada", "as-groups": ["a", "b"]})
    Cluster(choose_target(kubeconfig=path)).find("/api/v1/namespaces/training")
    sent = api.headers[-1]
    assert sent["authorization"] == "Bearer secret"
    assert sent["impersonate-user"] == "ada"
    assert sent["impersonate-group"] in ("a", "b", "a, b")


def test_requests_can_impersonate_another_user(api: Api, tmp_path: Path) -> None:
    path = api.kubeconfig(tmp_path, **{"as": "ada", "as-groups": ["admins"]})
    target = choose_target(kubeconfig=path)
    Cluster(target, user="eve", groups=("a",)).find("/api/v1/namespaces/training")
    sent = api.headers[-1]
    assert (sent["impersonate-user"], sent["impersonate-group"]) == ("eve", "a")


def test_an_exec_plugin_gives_the_token(api: Api, tmp_path: Path) -> None:
    answer = json.dumps({"kind": "ExecCredential", "status": {"token": "from-plugin"}})
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({answer!r})"],
    }
    Cluster(choose_target(kubeconfig=api.kubeconfig(tmp_path, exec=spec))).find("/api/v1/x/ys")
    assert api.headers[-1]["authorization"] == "Bearer from-plugin"
    spec["args"] = ["-c", "import sys; sys.exit('expired')"]
    with pytest.raises(PrerequisiteError, match="exited 1: expired"):
        Cluster(choose_target(kubeconfig=api.kubeconfig(tmp_path, exec=spec)))


def _plugin(api: Api, tmp_path: Path, *, until: str | None = None) -> Cluster:
    """Return a cluster whose credential plugin gives token-1, token-2 and so on."""
    code = (
        "import json, pathlib; n = pathlib.Path({!r}); i = int(n.read_text() or 0) + 1;"
        "n.write_text(str(i)); print(json.dumps({{'status': {{'token': f'token-{{i}}',"
        "'expirationTimestamp': {!r}}}}}))"
    ).format(str(tmp_path / "asked"), until)
    (tmp_path / "asked").touch()
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable}
    path = api.kubeconfig(tmp_path, exec=spec | {"args": ["-c", code]})
    return Cluster(choose_target(kubeconfig=path))


def test_a_token_that_has_run_out_is_asked_for_again(api: Api, tmp_path: Path) -> None:
    """A job is followed for hours, a cloud's token is good for minutes."""
    sent = []
    for until in ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", None):
        cluster = _plugin(api, tmp_path, until=until)
        for _ in range(2):
            cluster.find("/api/v1/x/ys")
        sent.append([h["authorization"].removeprefix("Bearer ") for h in api.headers[-2:]])
        (tmp_path / "asked").unlink()
    assert sent == [["token-2", "token-3"], ["token-1"] * 2, ["token-1"] * 2]


def test_a_token_that_is_refused_is_renewed_once(api: Api, tmp_path: Path) -> None:
    cluster = _plugin(api, tmp_path)
    path = "/api/v1/namespaces/training/configmaps"
    api.refusals[("POST", path)] = (401, "Unauthorized")
    with pytest.raises(ApiError, match="does not accept these credentials: Unauthorized"):
        cluster.create(path, {"metadata": {"name": "x"}})
    assert [h["authorization"] for h in api.headers] == ["Bearer token-1", "Bearer token-2"]


def test_a_token_of_a_file_is_read_again_when_it_is_refused(api: Api, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    path = api.kubeconfig(tmp_path, tokenFile="token")
    cluster = Cluster(choose_target(kubeconfig=path))
    (tmp_path / "token").write_text("new\n")
    api.refusals[("GET", "/api/v1/x/ys")] = (401, "Unauthorized")
    with pytest.raises(ApiError):
        cluster.find("/api/v1/x/ys")
    assert [h["authorization"] for h in api.headers] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize("gone", ["auth-provider", "username"])
def test_outdated_credentials_are_reported(api: Api, tmp_path: Path, gone: str) -> None:
    path = api.kubeconfig(tmp_path, **{gone: "x"})
    with pytest.raises(InputError, match=f"the user has {gone}, which"):
        Cluster(choose_target(kubeconfig=path))


def test_kubeconfig_that_is_not_yaml_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text("users:\n- token: hush\n  : [")
    with pytest.raises(InputError, match="no YAML at line 3") as caught:
        Cluster(choose_target(kubeconfig=path))
    assert "hush" not in str(caught.value)


def test_a_private_key_is_not_left_behind(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import base64
    import datetime
    import tempfile

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day + datetime.timedelta(days=9999))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def connect(key_data: bytes) -> None:
        path = api.kubeconfig(
            tmp_path,
            **{
                "client-certificate-data": base64.b64encode(certificate.public_bytes(pem)).decode(),
                "client-key-data": base64.b64encode(key_data).decode(),
            },
        )
        path.write_text(path.read_text().replace("http:", "https:"))
        Cluster(choose_target(kubeconfig=path)).close()

    connect(private)
    assert list(temporary.iterdir()) == []
    with pytest.raises(InputError, match="a certificate or key is not usable"):
        connect(b"no key")
    assert list(temporary.iterdir()) == []


def test_names_cannot_reach_other_paths() -> None:
    assert kube.trainjobs("a/b", "../x") == (
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/a%2Fb/trainjobs/..%2Fx"
    )
    assert kube.core("n", "pods", "p").endswith("/namespaces/n/pods/p")
    assert kube.kueue("", "clusterqueues", "c") == "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/c"
    assert kube.jobset("n", "") == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/n/jobsets"


@pytest.mark.slow
def test_a_server_that_is_busy_is_asked_again(api: Api, cluster: Cluster) -> None:
    path = "/api/v1/namespaces/training"
    api.refusals[("GET", path)] = (503, "leader changed")
    threading.Timer(0.4, api.refusals.clear).start()
    assert cluster.get(path)["metadata"]["name"] == "training"


@pytest.mark.slow
def test_a_write_that_a_busy_server_did_not_take_is_sent_again(api: Api, cluster: Cluster) -> None:
    path = "/api/v1/namespaces/training/configmaps"
    api.refusals[("POST", path)] = (429, "try later")
    threading.Timer(0.5, api.refusals.clear).start()
    assert cluster.create(path, {"metadata": {"name": "x"}})["metadata"]["name"] == "x"


def test_a_write_is_never_sent_twice(api: Api, cluster: Cluster) -> None:
    path = "/api/v1/namespaces/training/configmaps"
    api.refusals[("POST", path)] = (503, "leader changed")
    with pytest.raises(ApiError, match="leader changed"):
        cluster.create(path, {"metadata": {"name": "x"}})
    assert len([a for a in api.asked if a[0] == "POST"]) == 1
