"""Comparing what a stack says with what is live, field by field."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.differences import differences, merged_lists, surplus, undoing
from railhead.base.errors import ExitCode
from railhead.cli import run
from railhead.drift import Drift, Release, Severity, added, charts, find, metrics, objects, releases
from railhead.drift.certificates import certificates, expiry
from railhead.drift.nodes import unlabelled
from railhead.drift.objects import Discovery
from railhead.drift.uncharged import uncharged
from railhead.lab import pki
from railhead.lab.pki import Authority
from railhead.watch.metrics import METRICS
from tests.components.recording import STACKS, recorded


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ({"cpu": "2000m"}, {"cpu": "2"}),
        ({"replicas": 2.0}, {"replicas": 2, "strategy": {"type": "RollingUpdate"}}),
        ({"list": [], "flag": False, "none": None}, {}),
        ({"data": {"4dabf18193072939515e22adb298388d": "x", "ciphertext": "y"}}, {"data": "z"}),
        ({"__internal": 1, "status": {"a": 1}}, {}),
    ],
)
def test_no_difference(wanted: dict[str, Any], live: dict[str, Any]) -> None:
    assert not list(differences(wanted, live))


@pytest.mark.parametrize(
    ("wanted", "live", "row"),
    [
        ({"a": {"b": "1"}}, {"a": {"b": "2"}}, ("a.b", "1", "2")),
        ({"a": {"b": "1"}}, {}, ("a.b", "1", "None")),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ("a[0].b", "1", "2")),
        ({"a": [{"b": 1}]}, {"a": []}, ("a", "1: [{'b': 1}]", "0: []")),
        ({"a": ["x"]}, {"a": ["x", "y"]}, ("a", "", "['y']")),
        ({"a": ["x"]}, {"a": ["y"]}, ("a", "['x']", "['y']")),
        ({"a": False}, {"a": True}, ("a", "False", "True")),
        ({"a": "two\nlines"}, {"a": "x"}, ("a", "two\\nlines", "x")),
        ({"data": {"a": "1"}}, {"data": {"a": "1.0"}}, ("data.a", "1", "1.0")),
        (
            {"volumes": [{"name": "run", "emptyDir": {}}]},
            {"volumes": [{"name": "run", "hostPath": {"path": "/"}}]},
            ("volumes[0].emptyDir", "{}", "{'hostPath': {'path': '/'}}"),
        ),
        ({"a": ""}, {"a": "x"}, ("a", "nothing", "x")),
    ],
)
def test_a_difference(wanted: dict[str, Any], live: dict[str, Any], row: tuple[str, ...]) -> None:
    assert list(differences(wanted, live)) == [row]


def test_elements_of_merged_lists_are_compared_by_key() -> None:
    owned: dict[str, Any] = {
        "f:spec": {"f:env": {'k:{"name":"A"}': {"f:ports": {'k:{"port":1}': {}}}}}
    }
    live = {
        "metadata": {"managedFields": [{"fieldsV1": owned}, {"fieldsV1": {}}, {}]},
        "spec": {
            "env": [
                {"name": "B", "value": "2"},
                {"name": "A", "value": "0", "ports": [{"port": 1, "protocol": "TCP"}]},
            ]
        },
    }
    merged = merged_lists(live)
    assert merged == {"spec.env": ("name",), "spec.env[1].ports": ("port",)}
    wanted = {"spec": {"env": [{"name": "A", "value": "1", "ports": [{"port": 1}]}, {"name": "C"}]}}
    assert list(differences(wanted, live, merged=merged)) == [
        ("spec.env[1].value", "1", "0"),
        ("spec.env", "{'name': 'C'}", "None"),
        ("spec.env", "", "[{'name': 'B', 'value': '2'}]"),
    ]


@pytest.mark.parametrize(
    ("given", "has", "more"),
    [
        ({"a": 1}, {"a": 2, "b": 3}, {"b": 3}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        ({"a": [1]}, {"a": [1, 2]}, {}),
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, None, None),
        ({"a": {"b": False}}, {"a": {"b": False}}, {}),
        ({"a": 1}, {"a": 1, "b": {}}, {}),
    ],
)
def test_surplus_of_a_value(given: Any, has: Any, more: Any) -> None:
    assert surplus(given, has) == more


@pytest.mark.parametrize(
    ("kind", "given", "live", "rows"),
    [
        ("LocalQueue", {}, {"stopPolicy": "None"}, []),
        ("LocalQueue", {}, {"stopPolicy": "Hold"}, [("spec.stopPolicy", "Hold")]),
        ("LocalQueue", {"stopPolicy": "Hold"}, {"stopPolicy": "Hold"}, []),
        ("ResourceFlavor", {}, {"stopPolicy": "Hold"}, []),
        (
            "ResourceFlavor",
            {"nodeLabels": {"pool": "a"}},
            {"nodeLabels": {"pool": "a", "never": "b"}, "nodeTaints": [{"key": "x"}]},
            [("spec.nodeLabels", "{'never': 'b'}"), ("spec.nodeTaints", "[{'key': 'x'}]")],
        ),
        (
            "ClusterQueue",
            {"resourceGroups": [{"flavors": [{"resources": [{"name": "cpu"}]}]}]},
            {
                "cohortName": "theirs",
                "resourceGroups": [
                    {"flavors": [{"resources": [{"name": "cpu", "borrowingLimit": "0"}]}]}
                ],
            },
            [
                ("spec.cohortName", "theirs"),
                ("spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit", "0"),
            ],
        ),
        (
            "NetworkPolicy",
            {"ingress": [{"from": [{"podSelector": {"a": "b"}}]}]},
            {
                "egress": [{}],
                "ingress": [{"from": [{"podSelector": {"a": "b"}, "namespaceSelector": {}}]}],
            },
            [("spec.egress", "[{}]"), ("spec.ingress[0].from[0].namespaceSelector", "{}")],
        ),
        (
            "DaemonSet",
            {"template": {"spec": {"nodeSelector": {"gpu": "true"}}}},
            {
                "template": {
                    "spec": {"nodeSelector": {"gpu": "true", "never": "x"}, "hostNetwork": True}
                }
            },
            [
                ("spec.template.spec.hostNetwork", "True"),
                ("spec.template.spec.nodeSelector", "{'never': 'x'}"),
            ],
        ),
        ("Service", {"selector": {"a": "b"}}, {"selector": {"a": "b"}}, []),
        # As the API server fills a guard in.
        (
            "ValidatingAdmissionPolicy",
            {"matchConstraints": {"resourceRules": [1]}},
            {
                "matchConstraints": {
                    "resourceRules": [1],
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {},
                }
            },
            [],
        ),
        (
            "ValidatingAdmissionPolicyBinding",
            {"paramRef": {"selector": {}}},
            {"paramRef": {"selector": {"a": "b"}}, "matchResources": {"matchPolicy": "Exact"}},
            [
                ("spec.matchResources.matchPolicy", "Exact"),
                ("spec.paramRef.selector", "{'a': 'b'}"),
            ],
        ),
    ],
)
def test_fields_that_disable_an_object_are_reported(
    kind: str, given: dict[str, Any], live: dict[str, Any], rows: list[tuple[str, str]]
) -> None:
    assert list(undoing(kind, {"spec": given}, {"spec": live})) == rows


def test_only_kubernetes_objects_that_are_there_are_compared() -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    item = {"custom": True, "type": "kubernetes:core/v1:Namespace", "inputs": body}
    state = {
        "deployment": {
            "resources": [
                item,
                item | {"delete": True},
                item | {"external": True},
                item | {"custom": False},
                item | {"type": "aws:ec2/vpc:Vpc"},
                item
                | {
                    "type": "kubernetes:helm.sh/v3:Release",
                    "inputs": {"name": "kueue", "namespace": "kueue-system"},
                },
            ]
        }
    }
    assert objects(state) == [body]
    assert [release.subject for release in releases(state)] == ["Release kueue-system/kueue"]


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_stacks_provider_takes_its_fields_back(stack: str) -> None:
    """`pulumi up --refresh` would otherwise be refused as a conflict; see tests/engine."""
    providers = recorded(stack).of_type("pulumi:providers:kubernetes")
    assert providers
    assert all(str(p.inputs["enablePatchForce"]).lower() == "true" for p in providers)


class Live:
    """A cluster of one object of each kind, by its name."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = objects

    def find(self, path: str) -> dict[str, Any] | None:
        if path == "/api/v1":
            kinds = ("Namespace", "Secret", "ConfigMap", "Service")
            plurals = {kind: f"{kind.lower()}s" for kind in kinds}
            rows = [{"kind": k, "name": n, "namespaced": False} for k, n in plurals.items()]
            return {"resources": rows}
        if path == "/apis/apiextensions.k8s.io/v1":
            name = "customresourcedefinitions"
            row = {"kind": "CustomResourceDefinition", "name": name, "namespaced": False}
            return {"resources": [row]}
        if path == "/apis/admissionregistration.k8s.io/v1":
            name = "validatingwebhookconfigurations"
            row = {"kind": "ValidatingWebhookConfiguration", "name": name, "namespaced": False}
            return {"resources": [row]}
        return next(
            (o for o in self.objects if o["metadata"]["name"] == path.rpartition("/")[2]), None
        )

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        del fields
        return [o for o in self.objects if selector and path.endswith("secrets") and "data" in o]


def _record(body: dict[str, Any]) -> dict[str, Any]:
    packed = base64.b64encode(gzip.compress(json.dumps({"manifest": "", **body}).encode()))
    return {"metadata": {"name": "r"}, "data": {"release": base64.b64encode(packed).decode()}}


DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobsets.jobset.x-k8s.io}
spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {a: {type: object}}}}}]}
"""
CHART = {
    "metadata": {"name": "jobset", "version": "0.10.1"},
    "files": [
        {"name": "README.md", "data": ""},
        {"name": "crds/jobset.yaml", "data": base64.b64encode(DEFINITION.encode()).decode()},
    ],
}
SECRET = {"4dabf18193072939515e22adb298388d": "x", "ciphertext": "y"}


@pytest.mark.parametrize(
    ("given", "body", "told"),
    [
        ({"values": {"a": {"b": False}}}, {"config": {"a": {"b": False}}}, []),
        ({"values": {"a": SECRET}}, {"config": {"a": 1}}, []),
        ({"values": SECRET}, {"config": {"a": 1}}, []),
        ({"values": {"a": 1}}, {"config": {"a": 2}}, [("values.a", "`pulumi up --refresh`")]),
        ({"values": {}}, {"config": {"b": 1}}, [("values", "helm -n s history jobset")]),
        ({"version": "0.10.1"}, {"chart": CHART | {"files": []}}, []),
        ({"version": "0.10.0"}, {"chart": CHART | {"files": []}}, [("version", "--refresh")]),
        ({}, {"chart": CHART}, [("", "`railhead drift STACK --definitions | kubectl apply")]),
        ({"skipCrds": True}, {"chart": CHART}, []),
    ],
)
def test_upgraded_release_and_missing_crds_are_drift(
    given: dict[str, Any], body: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    """Helm keeps what it was given, and installs a chart's `crds` folder once."""
    item = Release(namespace="s", name="jobset", given=given)
    api = Live(_record(body))
    rows = list(charts.release(item, api, Discovery(api), []))
    assert [(row.severity, row.field) for row in rows] == [
        (Severity.GUARD, field) for field, _ in told
    ]
    for row, (_, way) in zip(rows, told, strict=True):
        assert way in row.remedy
    there = Live(_record(body), yaml.safe_load(DEFINITION))
    assert not [r for r in charts.release(item, there, Discovery(there), []) if not r.field]


def test_a_pruned_definition_is_drift() -> None:
    item = Release(namespace="s", name="jobset", given={})
    pruned = yaml.safe_load(DEFINITION)
    del pruned["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]
    api = Live(_record({"chart": CHART}), pruned)
    (row,) = charts.release(item, api, Discovery(api), [])
    assert row.severity is Severity.GUARD
    assert row.field.endswith("openAPIV3Schema.properties.a.type")
    assert "--definitions | kubectl apply --server-side --force-conflicts -f -" in row.remedy
    assert list(charts.definitions(item, api, Discovery(api))) == [yaml.safe_load(DEFINITION)]
    whole = Live(_record({"chart": CHART}), yaml.safe_load(DEFINITION))
    assert not list(charts.release(item, whole, Discovery(whole), []))


def test_certificate_of_a_webhook_that_no_longer_holds_is_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def issued(name: str, life: timedelta) -> bytes:
        monkeypatch.setattr(pki, "_LIFETIME", life)
        return Authority(tmp_path, name).pair.certificate.read_bytes()

    def hooks(certificate: bytes) -> dict[str, Any]:
        bundle = base64.b64encode(certificate).decode()
        return {"clientConfig": {"service": {"name": "s"}, "caBundle": bundle}}

    def secret(certificate: bytes) -> dict[str, Any]:
        return {"data": {"tls.crt": base64.b64encode(certificate).decode()}}

    good, far = issued("good", timedelta(days=9)), issued("far", timedelta(days=36500))
    old = issued("old", timedelta(minutes=-1))
    expired = f"expired on {expiry(old.decode()):%Y-%m-%d}"
    crd, webhooks = "CustomResourceDefinition", "MutatingWebhookConfiguration"
    bundle = "webhooks[1].clientConfig.caBundle"
    for kind, body, faults in (
        (webhooks, {"webhooks": [hooks(good), hooks(far)]}, []),
        (webhooks, {"webhooks": [hooks(good), hooks(b"")]}, [(bundle, "none")]),
        (webhooks, {"webhooks": [hooks(good), hooks(old), hooks(old)]}, [(bundle, expired)]),
        (webhooks, {"webhooks": [hooks(old + good)]}, []),
        (webhooks, {"webhooks": [{"clientConfig": {"url": "https://example.com"}}]}, []),
        (
            crd,
            {"spec": {"conversion": {"webhook": hooks(old)}}},
            [("spec.conversion.webhook.clientConfig.caBundle", expired)],
        ),
        (crd, {"spec": {"conversion": {"strategy": "None"}}}, []),
        ("Secret", secret(good + old), []),
        ("Secret", secret(old + good), [("data.tls.crt", expired)]),
        ("Secret", secret(b""), [("data.tls.crt", "none")]),
        ("Secret", secret(b"what"), [("data.tls.crt", "not a certificate")]),
        ("Secret", {"data": {"release": ""}}, []),
    ):
        live = {"kind": kind, "metadata": {"name": "kueue"}, **body}
        rows = list(certificates(live, "kueue-system"))
        assert [(row.field, row.live) for row in rows] == faults, (kind, body)
        assert all("kubectl -n kueue-system rollout restart" in row.remedy for row in rows)


def test_certificates_of_a_release_are_looked_at() -> None:
    served = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "server"}}
    api = Live(served | {"data": {"tls.crt": ""}}, _record({"manifest": json.dumps(served)}))
    (row,) = charts.release(Release(namespace="s", name="kueue"), api, Discovery(api), [])
    assert (row.severity, row.field) == (Severity.GUARD, "data.tls.crt")


def test_namespaces_that_aks_takes_from_webhooks_are_no_drift() -> None:
    head = {"apiVersion": "admissionregistration.k8s.io/v1"}
    head |= {"kind": "ValidatingWebhookConfiguration"}
    own = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    aks = [
        {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
        {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
    ]
    hook = {"clientConfig": {"url": "https://example.com"}}
    made = [hook | {"namespaceSelector": {"matchExpressions": [own]}}, hook]
    live = [
        hook | {"namespaceSelector": {"matchExpressions": [own, *aks]}},
        hook | {"namespaceSelector": {"matchExpressions": aks}},
    ]
    wanted = head | {"metadata": {"name": "kueue"}, "webhooks": made}
    for manager, drifted in (("admissionsenforcer", False), ("kubectl-edit", True)):
        metadata = {"name": "kueue", "managedFields": [{"manager": manager}]}
        there = head | {"metadata": metadata, "webhooks": live}
        api = Live(there, _record({"manifest": json.dumps(wanted)}))
        rows = charts.release(Release(namespace="s", name="kueue"), api, Discovery(api), [])
        assert any("webhooks" in row.field for row in rows) == drifted, manager


class Quotas:
    """A cluster whose namespace ``n`` has quotas of these names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find(self, path: str) -> dict[str, Any] | None:
        row = {"kind": "ResourceQuota", "name": "resourcequotas", "namespaced": True}
        return {"resources": [row]} if path == "/api/v1" else None

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        del path, selector, fields
        return [{"metadata": {"name": name, "namespace": "n"}} for name in self.names]


def test_quota_that_gke_gives_every_namespace_is_no_drift() -> None:
    api = Quotas("railhead-objects", "gke-resource-quotas", "mine")
    metadata = {"name": "railhead-objects", "namespace": "n"}
    ours = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    (row,) = added.by_hand([NAMESPACE, ours], api, Discovery(api))
    assert row.subject == "ResourceQuota n/mine"


def test_patch_compares_only_its_part_of_an_object() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "n"}, "spec": {"a": 1}}
    resource = {"custom": True, "type": "kubernetes:core/v1:ServicePatch", "inputs": service}
    live = Live(service | {"spec": {"a": 1, "selector": {"app": "theirs"}}})
    assert not find({"deployment": {"resources": [resource]}}, live)
    made = resource | {"type": "kubernetes:core/v1:Service"}
    (row,) = find({"deployment": {"resources": [made]}}, live)
    assert row.field == "spec.selector"


NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "n", "labels": {"a": "b"}},
}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/mine"]}


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"labels": {"a": "b", "c": "d"}}, []),
        ({"labels": {"a": "x"}}, ["metadata.labels.a"]),
        (LEAVING | {"labels": {"a": "b"}}, ["metadata.deletionTimestamp"]),
        (None, [""]),
    ],
)
def test_the_command_exits_0_without_drift_and_6_with(
    metadata: dict[str, Any] | None,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    resource = {"custom": True, "type": "kubernetes:core/v1:Namespace", "inputs": NAMESPACE}
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"deployment": {"resources": [resource]}}))
    live = [] if metadata is None else [NAMESPACE | {"metadata": {"name": "n", **metadata}}]
    monkeypatch.setattr("railhead.kube.client.Cluster", lambda _: Live(*live))
    monkeypatch.setattr("railhead.config.live.target", lambda *_: None)
    stack = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.lab.yaml"
    code = run(["drift", str(stack), "--state", str(file), "--json"])
    assert code == (ExitCode.REFUSED if said else ExitCode.OK)
    reported = json.loads(capsys.readouterr().out)
    assert [row["field"] for row in reported["drift"]] == said
    assert (reported["stack"], reported["compared"]) == ("lab", 1)


def test_empty_state_proves_nothing(tmp_path: Path) -> None:
    """The state is of a stack that was never made, or of another backend's."""
    file = tmp_path / "state.json"
    file.write_text('{"deployment": {"resources": []}}')
    stack = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.lab.yaml"
    assert run(["drift", str(stack), "--state", str(file)]) == ExitCode.BAD_INPUT


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"deployment": 1}'])
def test_file_without_a_state_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    stack = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.lab.yaml"
    assert run(["drift", str(stack), "--state", str(file)]) == ExitCode.BAD_INPUT


def test_metrics_tell_each_severity_and_when(tmp_path: Path) -> None:
    results = [
        Drift(severity=Severity.GUARD, subject="a"),
        Drift(severity=Severity.ADDED, subject="b"),
        Drift(severity=Severity.ADDED, subject="c"),
    ]
    text = metrics.rendered("prod", results, 1234.5)
    assert 'railhead_drift_differences{stack="prod",severity="guard"} 1\n' in text
    assert 'railhead_drift_differences{stack="prod",severity="gone"} 0\n' in text
    assert 'railhead_drift_differences{stack="prod",severity="added"} 2\n' in text
    assert 'railhead_drift_checked_timestamp_seconds{stack="prod"} 1234\n' in text
    assert {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")} == {
        metric.name for metric in METRICS.values() if metric.exporter == "drift"
    }
    metrics.write(tmp_path / "drift.prom", text)
    assert [path.name for path in tmp_path.iterdir()] == ["drift.prom"]
    assert (tmp_path / "drift.prom").read_text() == text


class InUse:
    """A training namespace whose pods are on nodes, with the Workloads that Kueue charged."""

    def __init__(self, pods: list[dict[str, Any]], workloads: list[dict[str, Any]]) -> None:
        self.listed = {"pods": pods, "workloads": workloads}

    def find(self, path: str) -> dict[str, Any] | None:
        if path.startswith("/apis/kueue.x-k8s.io"):
            return {"resources": [{"kind": "Workload", "name": "workloads", "namespaced": True}]}
        return None

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        del selector, fields
        return self.listed[path.rpartition("/")[2]]


def _pod(name: str, phase: str = "Running") -> dict[str, Any]:
    container = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"nodeName": "n", "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def _beside(pod: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the pod with an init container of as many GPUs; a sidecar runs on beside the rest."""
    (container,) = pod["spec"]["containers"]
    spec = pod["spec"] | {"initContainers": [container | more]}
    return pod | {"spec": spec}


def _workload(finished: str = "False") -> dict[str, Any]:
    assigned = {"name": "node", "resourceUsage": {"cpu": "1", "nvidia.com/gpu": "8"}}
    conditions = [{"type": "Finished", "status": finished}]
    owner = {"kind": "Job", "name": "j", "uid": "u", "controller": True}
    return {
        "kind": "Workload",
        "metadata": {
            "name": "job-j",
            "namespace": "training",
            "labels": {"kueue.x-k8s.io/job-uid": "u"},
            "ownerReferences": [owner],
        },
        "status": {"admission": {"podSetAssignments": [assigned]}, "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("pods", "workloads", "live"),
    [
        ([_pod("mine"), _pod("beside")], [_workload()], "16, by pods beside, mine"),
        ([_pod("mine")], [_workload("True")], "8, by pods mine"),
        ([_pod("mine"), _pod("begins", "Pending")], [_workload()], "16, by pods begins, mine"),
        ([_beside(_pod("mine"), restartPolicy="Always")], [_workload()], "16, by pods mine"),
        ([_beside(_pod("mine"))], [_workload()], None),
        ([_pod("mine"), _pod("over", "Succeeded")], [_workload()], None),
        ([], [_workload()], None),
    ],
)
def test_gpus_that_no_queue_is_charged_for(
    pods: list[dict[str, Any]], workloads: list[dict[str, Any]], live: str | None
) -> None:
    labels = {"railhead.dev/training": "true"}
    ours = [{"kind": "Namespace", "metadata": {"name": "training", "labels": labels}}]
    api = InUse(pods, workloads)
    assert [d.live for d in uncharged(ours, api, Discovery(api))] == ([live] if live else [])


def test_quota_held_without_a_job_is_drift() -> None:
    labels = {"railhead.dev/training": "true"}
    ours = [{"kind": "Namespace", "metadata": {"name": "training", "labels": labels}}]
    left, ended, waits = _workload(), _workload("True"), _workload()
    waits["status"] = {}
    for workload in (left, ended, waits):
        del workload["metadata"]["ownerReferences"]
    api = InUse([_pod("mine")], [left, ended, waits])
    (row,) = uncharged(ours, api, Discovery(api))
    assert (row.subject, row.severity) == ("Workload training/job-j", Severity.CHANGED)
    assert row.live == "none, and quota for 8 nvidia.com/gpu, which it holds until it is deleted"
    assert row.remedy == (
        "kubectl delete pods -n training -l batch.kubernetes.io/controller-uid=u, "
        "then kubectl delete workload -n training job-j"
    )


class Nodes:
    """A cluster that has nodes alone; each is named by its labels."""

    def __init__(self, *labels: dict[str, str]) -> None:
        self.nodes = [{"metadata": {"name": str(n), "labels": row}} for n, row in enumerate(labels)]

    def find(self, path: str) -> dict[str, Any] | None:
        raise AssertionError(path)

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        assert (path, selector, fields) == ("/api/v1/nodes", "", "")
        return self.nodes


def test_node_without_a_label_of_its_pool_is_drift() -> None:
    verdict, pool = {"railhead.dev/fabric": "ready"}, {"pool": "gpu"}
    levels = {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}
    placed = {"rack": "r1", "kubernetes.io/hostname": "n"}
    ours = [
        {"kind": "Topology", "metadata": {"name": "t"}, "spec": levels},
        {
            "kind": "ResourceFlavor",
            "metadata": {"name": "gpu"},
            "spec": {"nodeLabels": pool | verdict, "topologyName": "t"},
        },
    ]
    live = Nodes(
        # In its place, whatever the gate says of it; no node of the stack's; taken from its pool;
        # taken from its rack.
        pool | placed,
        placed,
        verdict | placed,
        pool | verdict | {"kubernetes.io/hostname": "n"},
    )
    rows = list(unlabelled(ours, live))
    assert [(row.subject, row.stack, row.live) for row in rows] == [
        ("Node 2", "pool=gpu", "none of them"),
        ("Node 3", "rack=VALUE", "no such label"),
    ]
    assert all("kubectl label node" in row.remedy for row in rows)
    assert not list(unlabelled([], live))
