"""The real Kueue, its webhooks and all, beside a control plane of the tests; nothing runs pods.

What the chart would put into a pod is a process here: the manager's own configuration file, with
the addresses that a process needs. Everything else of the chart is applied as it is rendered.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from railhead.base.paths import charts_dir
from railhead.catalog.versions import LAB
from railhead.twin.plane import free_port
from tests.api_server import CHARTS, Server, lab_definitions
from tests.crds import bare, job_definitions
from tests.engine.controlplane import locate, running

NAMESPACE = "kueue-system"
_SERVICE = "kueue-webhook-service"
_SECRET = "kueue-webhook-server-cert"
_T = TypeVar("_T")

#: Generous, for a machine that is busy: nothing waits for a moment that has passed.
LIMIT_S = 120.0


def eventually(what: Callable[[], _T], *, limit_s: float = LIMIT_S) -> _T:
    """Return the first value of ``what`` that is something, asked again and again."""
    deadline = time.monotonic() + limit_s
    while not (result := what()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)
    return result


def as_controller(server: Server, folder: Path, namespace: str, name: str) -> Path:
    """Return a kubeconfig of a service account with every right; guards take it for a controller.

    It lies in ``folder``.
    """
    config = yaml.safe_load(server.plane.kubeconfig.read_text())
    accounts = "system:serviceaccounts"
    groups = [accounts, f"{accounts}:{namespace}", "system:masters", "system:authenticated"]
    account = f"system:serviceaccount:{namespace}:{name}"
    config["users"][0]["user"] |= {"as": account, "as-groups": groups}
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@contextlib.contextmanager
def kueue(
    server: Server,
    folder: Path,
    configuration: Mapping[str, Any],
    definitions: Iterable[dict[str, Any]] = (),
) -> Iterator[None]:
    """Kueue's chart applied and its manager running, until the context ends.

    Args:
        server: a control plane in which nothing is defined yet.
        folder: for its log and its certificates.
        configuration: the file that the chart would mount, as a stack has it.
        definitions: other custom resources than Kueue's and those of the jobs that it admits.
    """
    program, helm = locate("kueue"), locate("helm")
    chart = charts_dir() / f"{LAB.kueue.name}-{LAB.kueue.version}"
    if program is None or helm is None or not chart.is_dir():
        pytest.skip("not built here: kueue; run `railhead lab build`")
    folder.mkdir(parents=True, exist_ok=True)
    rendered = _rendered(folder, helm, chart, configuration)
    _apply(server, rendered, definitions, port := free_port())
    health = free_port()
    certificates = folder / "certificates"
    process_settings = {
        **configuration,
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        # Its server has certificates where only a pod has a directory.
        "featureGates": {**LAB.kueue.gates, "VisibilityOnDemand": False},
    }
    config = folder / "kueue.yaml"
    config.write_text(yaml.safe_dump(process_settings))
    kubeconfig = as_controller(server, folder, NAMESPACE, "kueue-controller-manager")
    words = [str(program), f"--config={config}", f"--kubeconfig={kubeconfig}"]
    with running(words, folder / "kueue.log") as process:
        _mount(server, certificates, process, folder)
        eventually(lambda: _answers(f"http://127.0.0.1:{health}/readyz", process, folder))
        yield


def _rendered(
    folder: Path, helm: Path, chart: Path, configuration: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the chart's objects."""
    values = folder / "values.yaml"
    text = yaml.safe_dump(dict(configuration))
    values.write_text(
        yaml.safe_dump({"managerConfig": {"controllerManagerConfigYaml": text}}), encoding="utf-8"
    )
    rendered = subprocess.run(
        [str(helm), "template", "kueue", str(chart), "-n", NAMESPACE, "-f", str(values)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [body for body in yaml.load_all(rendered, Loader=yaml.CSafeLoader) if body]


def _apply(
    server: Server, bodies: list[dict[str, Any]], others: Iterable[dict[str, Any]], port: int
) -> None:
    """Apply the chart's definitions and webhooks; the service leads to a port of this machine."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for body in bodies:
        by_kind.setdefault(body["kind"], []).append(bare(body))
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    # The API server goes where the service's name leads, and asks for the service's certificate.
    server.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _SERVICE, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
    )
    server.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _SECRET, "namespace": NAMESPACE},
        }
    )
    made = by_kind["CustomResourceDefinition"]
    for body in made:
        if conversion := body["spec"].get("conversion"):
            conversion["webhook"]["clientConfig"]["service"]["port"] = port
    jobs = lab_definitions(tuple(chart for chart in CHARTS if not chart.startswith("kueue-")))
    _define(server, [*made, *(bare(b) for b in (*jobs, *job_definitions(), *others))])
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for body in by_kind[kind]:
            body["metadata"].pop("namespace", None)
            for webhook in body["webhooks"]:
                webhook["clientConfig"]["service"]["port"] = port
            server.apply(body)


def _define(server: Server, bodies: list[dict[str, Any]]) -> None:
    """Create all definitions at once: the API server serves the last one after five seconds."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for body in bodies:
        # Not applied: who owns which field of so large an object takes longer than all the rest.
        server.client.request("POST", path, body=body)
    server.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=110s")
    server.client.forget_discovery()


def _mount(
    server: Server, certificates: Path, process: subprocess.Popen[bytes], folder: Path
) -> None:
    """Write the secret that the manager fills to files, as a kubelet does."""

    def filled() -> Mapping[str, str]:
        assert process.poll() is None, (folder / "kueue.log").read_text()[-3000:]
        result = server.run("get", "secret", _SECRET, "-n", NAMESPACE, "-o", "json")
        data: Mapping[str, str] = json.loads(result.stdout).get("data") or {}
        return data if "tls.crt" in data else {}

    certificates.mkdir(exist_ok=True)
    for name, value in eventually(filled).items():
        (certificates / name).write_bytes(base64.b64decode(value))


def _answers(url: str, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "kueue.log").read_text()[-3000:]
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
        return bool(response.status == 200)
    return False
