"""Controllers and operators beside a twin's API server: the real programs, as charts set them.

Each runs while its Deployment has a pod on a node, with the configuration of the ConfigMap that the
pod mounts, the pod's own arguments or feature gates, and the rights of its service account. The pod
is ready when the program is. Changed are only addresses, certificates and what needs a pod's
directory.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import ssl
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from railhead.catalog.versions import COMBINATIONS, LAB
from railhead.kube.errors import ApiError
from railhead.lab.artifacts import twin_operators
from railhead.lab.engine.provider.client import KubeClient
from railhead.lab.pki import Pair
from railhead.twin.helm import KUEUE_SPACE, OPERATORS, PROGRAM_LABEL, PROGRAMS
from railhead.twin.plane import Programs, free_port

#: Release -> the program's name among those that `railhead lab build` makes.
BINARIES: Mapping[str, str] = {"kueue": "kueue", "jobset": "jobset", "kubeflow-trainer": "trainer"}
#: Kueue's API of pending workloads has a certificate where only a pod has a directory.
WITHOUT: Mapping[str, str] = {"kueue": "VisibilityOnDemand=false"}
_CERTIFICATES = "k8s-webhook-server/serving-certs"
_DAY_S = 86400


@dataclass
class Managers:
    """The programs of a twin's controllers.

    Args:
        processes: where they run and log.
        binaries: the programs by name.
        folder: for their configuration.
        kubeconfig: the administrator's.
        certificate: of their webhooks, for 127.0.0.1.
        ports: release -> the port of its webhooks; ``aggregated`` is the aggregated API's.
    """

    processes: Programs
    binaries: Mapping[str, Path]
    folder: Path
    kubeconfig: Path
    certificate: Pair
    ports: Mapping[str, int]
    _of: dict[str, str] = field(default_factory=dict)
    _health: dict[str, int] = field(default_factory=dict)
    _ready: set[str] = field(default_factory=set)
    _aggregated: http.server.ThreadingHTTPServer | None = None

    def turn(self, client: KubeClient) -> None:
        """Start and end programs as their pods come and go; say which pods are ready."""
        path = "/api/v1/pods"
        query = {"labelSelector": PROGRAM_LABEL, "resourceVersion": "0"}
        pods = client.request("GET", path, query=query).body.get("items") or []
        if "kueue" in self._of:
            self._mount(client)
        for name in (*PROGRAMS, *OPERATORS):
            self._turn(client, name, [p for p in pods if _release(p) == name])

    def stop(self) -> None:
        """End the aggregated API; the programs end with their processes."""
        if self._aggregated is not None:
            self._aggregated.shutdown()
            self._aggregated.server_close()
            self._aggregated = None

    def _turn(self, client: KubeClient, release: str, pods: Sequence[Mapping[str, Any]]) -> None:
        placed = sorted(
            (p for p in pods if _is_placed(p)), key=lambda p: p["metadata"]["creationTimestamp"]
        )
        if not placed:
            if release in self._of:
                self._end(release)
            return
        newest = placed[-1]
        uid = newest["metadata"]["uid"]
        if self._of.get(release) != uid or release in self.processes.ended():
            self._end(release)
            begin = self._operate if release in OPERATORS else self._begin
            begin(client, release, newest)
            self._of[release] = uid
        elif uid not in self._ready and _answers(
            self._health[release], "healthz" if release in OPERATORS else "readyz"
        ):
            client.request(
                "PATCH",
                f"/api/v1/namespaces/{newest['metadata']['namespace']}/pods/"
                f"{newest['metadata']['name']}/status",
                body={"status": running(newest)},
                content_type="application/merge-patch+json",
            )
            self._ready.add(uid)

    def _mount(self, client: KubeClient) -> None:
        """Do what a kubelet does: the secret that Kueue fills appears as files."""
        folder = self.folder / "kueue" / "tmp" / _CERTIFICATES
        if (folder / "tls.crt").is_file():
            return
        path = f"/api/v1/namespaces/{KUEUE_SPACE}/secrets/kueue-webhook-server-cert"
        data = client.request("GET", path).body.get("data") or {}
        if "tls.crt" in data:
            for name in ("tls.key", "ca.crt", "tls.crt"):
                (folder / name).touch(0o600)
                (folder / name).write_bytes(base64.b64decode(data[name]))

    def _end(self, release: str) -> None:
        self.processes.stop(release)
        self._of.pop(release, None)
        if release == "kueue":
            self.stop()

    def _begin(self, client: KubeClient, release: str, pod: Mapping[str, Any]) -> None:
        home = self.folder / release
        certificates = home / "tmp" / _CERTIFICATES
        certificates.mkdir(parents=True, exist_ok=True)
        if release == "kueue":
            _own_service(client, pod)
        else:
            (certificates / "tls.crt").write_bytes(self.certificate.certificate.read_bytes())
            (certificates / "tls.key").touch(0o600)
            (certificates / "tls.key").write_bytes(self.certificate.key.read_bytes())
        self._health[release] = free_port()
        settings = configured(
            yaml.safe_load(_mounted(client, pod, "manager-config")),
            release,
            health=self._health[release],
            webhook=self.ports[release],
            certificates=certificates,
        )
        file = home / "configuration.yaml"
        file.write_text(yaml.safe_dump(settings))
        gates = [*feature_gates(pod), *([WITHOUT[release]] if release in WITHOUT else [])]
        command = [str(self.binaries[BINARIES[release]]), f"--config={file}"]
        command += [f"--feature-gates={','.join(gates)}"] if gates else []
        self.processes.start(
            release,
            command,
            {
                "KUBECONFIG": str(self._as_account(client, pod, home)),
                "TMPDIR": str(home / "tmp"),
                "GOMAXPROCS": "2",
            },
        )
        if release == "kueue" and self._aggregated is None:
            self._aggregated = aggregated(self.ports["aggregated"], self.certificate)

    def _operate(self, client: KubeClient, name: str, pod: Mapping[str, Any]) -> None:
        """Start an operator with its container's own arguments and environment."""
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        self._health[name] = free_port()
        kubeconfig = self._as_account(client, pod, home)
        words = [str(self.binaries[name]), *kept(pod["spec"]["containers"][0])]
        if name == "sriov-network-operator":
            words.append("--metrics-bind-address=0")
            words.append(f"--health-probe-bind-address=127.0.0.1:{self._health[name]}")
        else:
            words += [f"-kubeconfig={kubeconfig}", f"-port={self._health[name]}"]
        if name == "nfd-master":
            (file := home / "nfd-master.conf").write_text(_mounted(client, pod, "nfd-master-conf"))
            words.append(f"-config={file}")
        own = {"KUBECONFIG": str(kubeconfig), "GOMAXPROCS": "2"}
        # Where a pod reads its namespace from a file.
        own["KUBERNETES_NAMESPACE"] = pod["metadata"]["namespace"]
        environment = variables(pod) | own
        self.processes.start(name, words, environment, twin_operators.manifests())

    def _as_account(self, client: KubeClient, pod: Mapping[str, Any], home: Path) -> Path:
        """Write a kubeconfig of the pod's service account, by which guards know a controller."""
        space, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{space}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        body = asked | {"spec": {"expirationSeconds": _DAY_S}}
        document = yaml.safe_load(self.kubeconfig.read_text())
        document["users"][0]["user"] = {
            "token": client.request("POST", path, body=body).body["status"]["token"]
        }
        file = home / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(document))
        return file


def _own_service(client: KubeClient, pod: Mapping[str, Any]) -> None:
    """Make the service that leads to Kueue's webhooks, and the secret of their certificate."""
    metadata = {"namespace": KUEUE_SPACE}
    account = {
        "kind": "ServiceAccount",
        "name": pod["spec"]["serviceAccountName"],
        "namespace": pod["metadata"]["namespace"],
    }
    group = "rbac.authorization.k8s.io"
    made: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": KUEUE_SPACE}}),
        (
            f"/api/v1/namespaces/{KUEUE_SPACE}/services",
            {
                "kind": "Service",
                "metadata": metadata | {"name": "kueue-webhook-service"},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
        ),
        (
            f"/api/v1/namespaces/{KUEUE_SPACE}/secrets",
            {"kind": "Secret", "metadata": metadata | {"name": "kueue-webhook-server-cert"}},
        ),
        (
            f"/apis/{group}/v1/namespaces/{KUEUE_SPACE}/rolebindings",
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": metadata | {"name": "kueue"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [account],
            },
        ),
    ]
    for path, body in made:
        try:
            client.request("POST", path, body={"apiVersion": "v1", **body})
        except ApiError as error:
            if not error.already_exists:
                raise


def configured(
    given: Mapping[str, Any],
    release: str,
    *,
    health: int,
    webhook: int,
    certificates: Path,
) -> dict[str, Any]:
    """Return a program's configuration file with the addresses that a process needs."""
    settings = dict(given)
    settings["health"] = {
        **(given.get("health") or {}),
        "healthProbeBindAddress": f"127.0.0.1:{health}",
    }
    settings["metrics"] = {"bindAddress": "0"}
    settings["leaderElection"] = {"leaderElect": False}
    settings["webhook"] = {"host": "127.0.0.1", "port": webhook}
    if release != "kubeflow-trainer":
        settings["webhook"]["certDir"] = str(certificates)
    if release == "kueue":
        # Without certificates of its own it wants its metrics' in a directory that only pods have.
        settings["namespace"] = KUEUE_SPACE
        _hurry(settings)
        return settings
    key = "certManagement" if release == "kubeflow-trainer" else "internalCertManagement"
    settings[key] = {"enable": False}
    return settings


def _hurry(settings: dict[str, Any]) -> None:
    """Let evicted jobs be queued again at once: minutes of patience show nothing here."""
    ready = settings.get("waitForPodsReady")
    if ready and ready.get("requeuingStrategy"):
        strategy = ready["requeuingStrategy"] | {"backoffBaseSeconds": 1}
        settings["waitForPodsReady"] = ready | {"requeuingStrategy": strategy}


def running(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a pod all of whose containers run."""
    since = pod["metadata"]["creationTimestamp"]
    number = int(pod["metadata"]["uid"].replace("-", "")[:4], 16)
    return {
        "phase": "Running",
        "podIP": f"10.1.{number // 250 % 250}.{number % 250 + 1}",
        "startTime": since,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": since}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": since}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def aggregated(port: int, certificate: Pair) -> http.server.ThreadingHTTPServer:
    """Serve discovery of Kueue's aggregated API, with no kind in it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _Kinds)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Kinds(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer discovery of one version."""
        parts = [part for part in self.path.split("?")[0].split("/") if part]
        if len(parts) == 3 and parts[0] == "apis":
            body: dict[str, Any] = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": "/".join(parts[1:]),
                "resources": [],
            }
            self._answer(200, body)
        else:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure"})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _release(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get(PROGRAM_LABEL, ""))


def _is_placed(pod: Mapping[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and not pod["metadata"].get("deletionTimestamp")


def feature_gates(pod: Mapping[str, Any]) -> list[str]:
    """Return ``Name=true`` of each gate that the pod's arguments name and the lab's Kueue may know.

    Rows of other versions set gates that it does not have, at which it would end.
    """
    rows = {name for row in COMBINATIONS.values() for name in row.kueue.gates}
    others = rows - LAB.kueue.gates.keys()
    arguments = [a for c in pod["spec"]["containers"] for a in c.get("args") or []]
    values = [a.partition("=")[2] for a in arguments if a.startswith("--feature-gates=")]
    gates = [gate for value in values for gate in value.split(",") if gate]
    return [gate for gate in gates if gate.partition("=")[0] not in others]


def kept(container: Mapping[str, Any]) -> list[str]:
    """Return a container's arguments without those of a pod's network and of its replicas."""
    left_out = ("-port=", "-enable-leader-election")
    return [a for a in container.get("args") or () if not a.startswith(left_out)]


def variables(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a pod's first container; the API server drops empty values."""
    fields = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "spec.nodeName": pod["spec"]["nodeName"],
    }
    return {
        item["name"]: fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
        if "valueFrom" in item
        else item.get("value", "")
        for item in pod["spec"]["containers"][0].get("env") or ()
    }


def _mounted(client: KubeClient, pod: Mapping[str, Any], name: str) -> str:
    """Return the configuration file that the pod mounts by a volume of that name."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"]["volumes"]:
        if volume["name"] == name:
            path = f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}"
            (text,) = client.request("GET", path).body["data"].values()
            return str(text)
    raise ApiError(
        status=404,
        reason="NotFound",
        message=f"{pod['metadata']['name']} mounts no {name}",
        details=None,
    )


def _answers(port: int, path: str) -> bool:
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=2) as response,
    ):
        return bool(response.status == 200)
    return False
