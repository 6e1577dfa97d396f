"""The readiness rules, case by case."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from railhead.kube.connection import Reply
from railhead.kube.errors import ApiError, KubeconfigError, NoAnswerError
from railhead.lab.engine.provider import awaiting, readiness
from railhead.lab.engine.provider.awaiting import Waiter
from railhead.lab.engine.provider.client import KubeClient, NoMatchError, ResourceType
from railhead.lab.engine.provider.helm import PULL_SECONDS, Pulls
from railhead.lab.engine.provider.patience import StillAwayError, is_away, patiently
from railhead.lab.engine.provider.readiness import Look


class FakeClient(KubeClient):
    """An API server of a dictionary of paths."""

    def __init__(self, replies: Mapping[str, Any] | None = None) -> None:
        self.replies = dict(replies or {})
        self.calls: list[str] = []

    def request(self, method: str, path: str, **_: Any) -> Reply:
        self.calls.append(f"{method} {path}")
        result = self.replies.get(path)
        if isinstance(result, list):
            result = result.pop(0) if len(result) > 1 else result[0]
        if result is None:
            raise ApiError(status=404, reason="NotFound", message=f"{path} not found")
        return Reply(body=result)

    def resource_type(self, api_version: str, kind: str) -> ResourceType:
        if kind == "Unserved":
            raise NoMatchError(api_version, kind)
        return ResourceType(
            api_version=api_version, kind=kind, plural=f"{kind.lower()}s", namespaced=True
        )


class Notes:
    """A log that remembers."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.warnings: list[str] = []

    def status(self, message: str, urn: str) -> None:
        self.statuses.append(message)

    def warning(self, message: str, urn: str = "") -> None:
        self.warnings.append(message)


def verdict(
    kind: str, live: dict[str, Any], client: KubeClient | None = None
) -> readiness.Readiness:
    api_version, _, name = kind.rpartition(" ")
    obj = {"apiVersion": api_version, "kind": name, **live}
    obj.setdefault("metadata", {"name": "n", "namespace": "ns"})
    entry = readiness.entry_for(obj)
    assert entry is not None
    return entry.rule(Look(client=client or FakeClient(), live=obj))


def condition(kind: str, status: str, **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **more}]}


DONE = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
META = {"name": "n", "namespace": "ns", "generation": 2}


@pytest.mark.parametrize(
    ("kind", "live", "ready"),
    [
        ("apps/v1 Deployment", {"metadata": META, "spec": {"replicas": 2}, "status": DONE}, True),
        (
            "apps/v1 Deployment",
            {"metadata": META, "spec": {"replicas": 2}, "status": {**DONE, "replicas": 3}},
            False,
        ),
        (
            "apps/v1 Deployment",
            {
                "metadata": META,
                "spec": {"replicas": 2},
                "status": {**DONE, "observedGeneration": 1},
            },
            False,
        ),
        (
            "apps/v1 Deployment",
            {"metadata": META, "spec": {"replicas": 2}, "status": {**DONE, "availableReplicas": 1}},
            False,
        ),
        (
            "apps/v1 Deployment",
            {"metadata": META, "spec": {"replicas": 0}, "status": {"observedGeneration": 2}},
            True,
        ),
        (
            "apps/v1 StatefulSet",
            {
                "metadata": META,
                "spec": {"replicas": 1},
                "status": {
                    "observedGeneration": 2,
                    "readyReplicas": 1,
                    "currentRevision": "a",
                    "updateRevision": "a",
                },
            },
            True,
        ),
        (
            "apps/v1 StatefulSet",
            {
                "metadata": META,
                "spec": {"replicas": 1},
                "status": {
                    "observedGeneration": 2,
                    "readyReplicas": 1,
                    "currentRevision": "a",
                    "updateRevision": "b",
                },
            },
            False,
        ),
        (
            "apps/v1 DaemonSet",
            {
                "metadata": META,
                "status": {
                    "observedGeneration": 2,
                    "desiredNumberScheduled": 2,
                    "updatedNumberScheduled": 2,
                    "numberAvailable": 2,
                },
            },
            True,
        ),
        (
            "apps/v1 DaemonSet",
            {
                "metadata": META,
                "status": {
                    "observedGeneration": 2,
                    "desiredNumberScheduled": 2,
                    "updatedNumberScheduled": 1,
                    "numberAvailable": 2,
                },
            },
            False,
        ),
        ("v1 Pod", {"status": {"phase": "Running", **condition("Ready", "True")}}, True),
        ("v1 Pod", {"status": {"phase": "Running", **condition("Ready", "False")}}, False),
        ("v1 Pod", {"status": {"phase": "Succeeded"}}, True),
        ("batch/v1 Job", {"status": {}}, False),
        ("batch/v1 Job", {"status": {"startTime": "t", **condition("Complete", "True")}}, True),
        ("batch/v1 Job", {"status": {"startTime": "t", "active": 1}}, False),
        ("v1 Service", {"spec": {"type": "ExternalName", "selector": {"a": "b"}}}, True),
        ("v1 Service", {"spec": {"clusterIP": "None", "selector": {"a": "b"}}}, True),
        ("v1 Service", {"spec": {"clusterIP": "10.0.0.1"}}, True),
        ("v1 Service", {"spec": {"type": "LoadBalancer"}}, False),
        (
            "v1 Service",
            {
                "spec": {"type": "LoadBalancer"},
                "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
            },
            True,
        ),
        ("v1 PersistentVolumeClaim", {"status": {"phase": "Bound"}}, True),
        ("v1 PersistentVolumeClaim", {"status": {"phase": "Pending"}}, False),
        ("v1 PersistentVolume", {"status": {"phase": "Available"}}, True),
        ("v1 PersistentVolume", {"status": {"phase": "Pending"}}, False),
        ("v1 ResourceQuota", {"spec": {"hard": {"a": 1}}, "status": {"hard": {"a": 1}}}, True),
        ("v1 ResourceQuota", {"spec": {"hard": {"a": 1}}, "status": {}}, False),
        ("v1 Secret", {"type": "Opaque"}, True),
        ("v1 Secret", {"type": "kubernetes.io/service-account-token"}, False),
        (
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            {"status": condition("Established", "True")},
            True,
        ),
        ("apiextensions.k8s.io/v1 CustomResourceDefinition", {"status": {}}, False),
    ],
)
def test_rules(kind: str, live: dict[str, Any], ready: bool) -> None:
    result = verdict(kind, live)
    assert result.ready is ready
    assert ready or result.message or result.errors


def test_a_failed_pod_says_why() -> None:
    status = {
        "phase": "Failed",
        "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}],
    }
    result = verdict("v1 Pod", {"status": status})
    assert result.failed
    assert result.errors == ("[Pod n]: container 'c' completed with exit code 3",)


def test_a_pod_that_cannot_pull_says_so() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    assert verdict("v1 Pod", {"status": status}).errors == (
        "[Pod n]: [ImagePullBackOff] no such image",
    )


def test_a_claim_that_waits_for_its_first_consumer_is_done() -> None:
    client = FakeClient(
        {
            "/apis/storage.k8s.io/v1/storageclasss/lazy": {
                "volumeBindingMode": "WaitForFirstConsumer"
            }
        }
    )
    live = {"spec": {"storageClassName": "lazy"}, "status": {"phase": "Pending"}}
    assert verdict("v1 PersistentVolumeClaim", live, client).ready


@pytest.mark.parametrize(
    ("endpoints", "ready"),
    [
        ([{"addresses": ["1.1.1.1"], "conditions": {"ready": True}}], True),
        ([{"addresses": ["1.1.1.1"], "conditions": {"ready": False}}], False),
        (
            [
                {"addresses": ["1.1.1.1"], "conditions": {"ready": True}},
                {"addresses": ["1.1.1.2"], "conditions": {"ready": False}},
            ],
            False,
        ),
        ([], False),
    ],
)
def test_a_service_needs_endpoints(endpoints: list[Any], ready: bool) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
    client = FakeClient({path: {"items": [{"endpoints": endpoints}]}})
    live = {"spec": {"selector": {"a": "b"}, "clusterIP": "10.0.0.1"}}
    result = verdict("v1 Service", live, client)
    assert result.ready is ready
    if not endpoints:
        assert "does not target any Pods" in result.errors[0]


def look(live: dict[str, Any]) -> Look:
    return Look(client=FakeClient(), live=live)


@pytest.mark.parametrize(
    ("expression", "live", "ready"),
    [
        ("jsonpath={.status.phase}", {"status": {"phase": "x"}}, True),
        ("jsonpath={.status.phase}", {"status": {}}, False),
        ("jsonpath={.status.phase}=Running", {"status": {"phase": "Running"}}, True),
        ("jsonpath={.status.phase}=Running", {"status": {"phase": "Pending"}}, False),
        ("jsonpath={.status.ready}=true", {"status": {"ready": True}}, True),
        ("jsonpath={.status.count}=3", {"status": {"count": 3}}, True),
        (
            "jsonpath={.status.conditions[?(@.type=='Ready')].status}=True",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            True,
        ),
        (
            "jsonpath={.status[?@ == 'Running' || @ == 'Succeeded']}",
            {"status": {"phase": "Succeeded"}},
            True,
        ),
        ("jsonpath={.status.list}", {"status": {"list": [1]}}, True),
        (
            "condition=Ready",
            {"status": {"conditions": [{"type": "ready", "status": "True"}]}},
            True,
        ),
        (
            "condition=Ready=False",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            True,
        ),
        (
            "condition=Ready",
            {"status": {"conditions": [{"type": "Other", "status": "True"}]}},
            False,
        ),
        (
            "condition=Ready",
            {
                "metadata": {"generation": 2},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]
                },
            },
            False,
        ),
        ('["condition=A", "condition=B"]', {"status": condition("A", "True")}, False),
    ],
)
def test_wait_for_expressions(expression: str, live: dict[str, Any], ready: bool) -> None:
    rules = readiness.parse_wait_for(expression)
    assert all(rule(look(live)).ready for rule in rules) is ready


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("status.phase", "prefix"),
        ("jsonpath=.status.phase", "brackets"),
        ("jsonpath='{.status.phase}'", "shell quotes"),
        ("jsonpath={.status.phase}=", "format should be"),
        ("jsonpath={.status[}", "parsing"),
        ("[]", "at least one"),
        ("[1]", "expected strings"),
        ("condition=", "names no condition"),
    ],
)
def test_bad_wait_for_is_named(expression: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        readiness.parse_wait_for(expression)


def annotated(**annotations: str) -> dict[str, Any]:
    keys = {f"pulumi.com/{key}": value for key, value in annotations.items()}
    return {"metadata": {"name": "n", "annotations": keys}}


@pytest.mark.parametrize(
    ("inputs", "custom", "seconds"),
    [
        (annotated(), 0, 600),
        (annotated(timeoutSeconds="30"), 0, 30),
        (annotated(timeoutSeconds="30"), 5, 5),
        (annotated(timeoutSeconds="soon"), 0, 600),
    ],
)
def test_timeout_of_a_wait(inputs: dict[str, Any], custom: float, seconds: float) -> None:
    assert readiness.timeout_of(inputs, custom, readiness.DEFAULT_TIMEOUT_S) == seconds


def waiter(client: FakeClient, notes: Notes, cancel: threading.Event | None = None) -> Waiter:
    return Waiter(
        client=client, report=notes, cancel=cancel or threading.Event(), urn="u", path="/o"
    )


def config_map(ready: str = "") -> dict[str, Any]:
    labels = {"ready": ready} if ready else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "n", "uid": "1", "labels": labels},
    }


WAITING = annotated(waitFor="jsonpath={.metadata.labels.ready}=yes")


@pytest.mark.slow
def test_a_wait_ends_when_the_object_is_ready() -> None:
    notes = Notes()
    client = FakeClient({"/o": [config_map(), config_map("no"), config_map("yes")]})
    live = waiter(client, notes).until_ready(
        WAITING, config_map(), custom_timeout_s=0, updating=False
    )
    assert live["metadata"]["labels"] == {"ready": "yes"}
    assert 'found "no"' in " ".join(notes.statuses)
    assert notes.statuses[-1] == ""


@pytest.mark.slow
def test_a_wait_times_out_with_reasons() -> None:
    obj = {**config_map(), "status": condition("Ready", "False", reason="Because", message="of it")}
    client = FakeClient({"/o": obj})
    with pytest.raises(awaiting.NotReadyError, match="timed out") as caught:
        waiter(client, Notes()).until_ready(WAITING, obj, custom_timeout_s=0.3, updating=False)
    assert "condition Ready=False (Because: of it)" in caught.value.reasons
    assert caught.value.live["metadata"]["uid"] == "1"


def test_a_wait_ends_at_once_when_cancelled() -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(awaiting.CancelledError):
        waiter(FakeClient({"/o": config_map()}), Notes(), cancel).until_ready(
            WAITING, config_map(), custom_timeout_s=60, updating=False
        )


def test_a_wait_for_something_deleted_ends() -> None:
    with pytest.raises(awaiting.NotReadyError, match="was deleted"):
        waiter(FakeClient(), Notes()).until_ready(
            WAITING, config_map(), custom_timeout_s=60, updating=False
        )


def test_deletion_ends_when_the_name_belongs_to_another_object() -> None:
    other = config_map()
    other["metadata"]["uid"] = "2"
    waiter(FakeClient({"/o": [config_map(), other]}), Notes()).until_gone(
        {}, config_map(), custom_timeout_s=5
    )


def test_deletion_names_the_finalizers() -> None:
    obj = config_map()
    obj["metadata"]["finalizers"] = ["example.com/hold"]
    with pytest.raises(awaiting.NotReadyError) as caught:
        waiter(FakeClient({"/o": obj}), Notes()).until_gone({}, obj, custom_timeout_s=0.2)
    assert caught.value.reasons == ["finalizers might be preventing deletion (example.com/hold)"]


def test_a_namespace_that_hangs_is_explained() -> None:
    namespace = {
        "kind": "Namespace",
        "metadata": {"name": "n"},
        "status": condition(
            "NamespaceDeletionDiscoveryFailure", "True", message="visibility.kueue.x-k8s.io/v1beta1"
        ),
    }
    (reason,) = awaiting.deletion_reasons(namespace)
    assert "visibility.kueue.x-k8s.io" in reason
    assert "APIService" in reason


def test_release_fails_after_a_minute_of_refused_pulls() -> None:
    def pod(reason: str) -> dict[str, Any]:
        waiting = {"state": {"waiting": {"reason": reason}}}
        return {"status": {"containerStatuses": [{"state": {"running": {}}}, waiting]}}

    pulls = Pulls()
    assert pulls.hopeless([pod("ContainerCreating")], 10) == ""
    assert pulls.hopeless([pod("ErrImagePull")], 20) == ""
    assert pulls.hopeless([pod("ImagePullBackOff")], 20 + PULL_SECONDS - 1) == ""
    # The image arrived, and the time starts again.
    assert pulls.hopeless([pod("CrashLoopBackOff")], 20 + PULL_SECONDS) == ""
    assert pulls.hopeless([pod("ImagePullBackOff")], 100) == ""
    assert "an image cannot be pulled" in pulls.hopeless([pod("ErrImagePull")], 100 + PULL_SECONDS)


def answer(status: int, message: str = "") -> ApiError:
    return ApiError(status=status, reason="", message=message)


def test_what_is_away_may_come_back() -> None:
    rows = [
        (NoAnswerError("refused"), True),
        (KubeconfigError("no file"), False),
        (answer(500, 'failed calling webhook "w": connection refused'), True),
        (answer(500, 'admission webhook "w" denied the request: no'), False),
        (
            answer(500, "failed to create typed patch object (a/b; /v1, Kind=C): .x: not declared"),
            False,
        ),
        (
            answer(
                500, "failed to convert new object (a/b; v1) to smd typed: .spec.x: expected map"
            ),
            False,
        ),
        (
            answer(
                500,
                "failed to convert live object (a/b; v2) to proper version: conversion webhook for "
                "v1 failed: connection refused",
            ),
            True,
        ),
        (answer(500, "etcdserver: request is too large"), False),
        (answer(500, "trying to send message larger than max (2097353 vs. 2097152)"), False),
        (answer(504, "request did not complete within requested timeout"), True),
        (answer(404), False),
        (answer(422), False),
        (ValueError("a fault of ours"), False),
    ]
    for error, away in rows:
        assert is_away(error) is away, error


def test_patience_says_each_reason_once_and_ends() -> None:
    notes, left = Notes(), [answer(503, "one\ntwo"), answer(503, "one\ntwo"), NoAnswerError("x")]

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    class Hasty(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return False

    def run(limit_s: float) -> str:
        return patiently(attempt, report=notes, cancel=Hasty(), urn="u", limit_s=limit_s)

    assert run(9) == "done"
    reasons = [f"waiting for the API server, 9 s at most: {text}" for text in ("one two", "x")]
    assert notes.statuses == [*reasons, ""]
    left += [answer(503, "gone")] * 9
    with pytest.raises(StillAwayError, match="waited 0 s for the API server: gone; run the"):
        run(0)
    left[:] = [answer(403, "no")]
    with pytest.raises(ApiError, match="no"):
        run(9)
