"""Readiness of objects: a table of rules, one for each kind.

:data:`RULES` is the table: a function that looks at the live object and says what it waits for. The
rules follow what the official provider documents for each kind; a kind without a rule is ready as
soon as it exists. `pulumi.com/waitFor` replaces the rule, `pulumi.com/skipAwait` skips it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from railhead.kube.errors import ApiError
from railhead.lab.engine.provider import naming
from railhead.lab.engine.provider.client import KubeClient, NoMatchError
from railhead.lab.engine.provider.diffing import split_api_version

DEFAULT_TIMEOUT_S = 600.0
# The official provider waits this long after the last change of a Service's endpoints for others.
ENDPOINTS_SETTLE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """The verdict of a rule on a live object.

    Args:
        ready: the wait is over.
        message: what the wait is for, for the progress line.
        errors: the obstacles, for the error when time runs out.
        failed: it will never be ready; stop waiting.
    """

    ready: bool
    message: str = ""
    errors: tuple[str, ...] = ()
    failed: bool = False


READY = Readiness(ready=True)


@dataclass(kw_only=True)
class Look:
    """The input of a rule.

    Args:
        client: the API server.
        live: the object now.
        updating: the object existed before this operation.
        memory: kept from one look to the next.
    """

    client: KubeClient
    live: Mapping[str, Any]
    updating: bool = False
    memory: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return ``spec``, or empty."""
        return self.live.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """Return ``status``, or empty."""
        return self.live.get("status") or {}

    def condition(self, name: str) -> Mapping[str, Any]:
        """Return a status condition by type, case-insensitive; empty when absent."""
        return condition_of(self.live, name)

    def observed(self) -> bool:
        """Return whether the controller has seen the current generation."""
        generation = (self.live.get("metadata") or {}).get("generation", 0)
        return bool(self.status.get("observedGeneration", 0) >= generation)


Rule = Callable[[Look], Readiness]


def condition_of(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a status condition by type, case-insensitive; empty when absent."""
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for condition in conditions or []:
        if isinstance(condition, Mapping) and str(condition.get("type")).lower() == name.lower():
            return condition
    return {}


def _fully_qualified(obj: Mapping[str, Any]) -> str:
    namespace = naming.object_namespace(obj)
    name = naming.object_name(obj)
    return f"{namespace}/{name}" if namespace not in ("", "default") else name


def _deployment(look: Look) -> Readiness:
    desired = int(look.spec.get("replicas", 1))
    status = look.status
    if not look.observed():
        return Readiness(ready=False, message="Waiting for app Deployment to be observed")
    if look.spec.get("paused"):
        return READY
    updated = int(status.get("updatedReplicas", 0))
    available = int(status.get("availableReplicas", 0))
    total = int(status.get("replicas", 0))
    errors = []
    progressing = look.condition("Progressing")
    if progressing.get("status") == "False":
        errors.append(f"[{progressing.get('reason')}] {progressing.get('message')}")
    unavailable = look.condition("Available")
    if unavailable.get("status") == "False":
        errors.append(f"[{unavailable.get('reason')}] {unavailable.get('message')}")
    failure = look.condition("ReplicaFailure")
    if failure.get("status") == "True":
        errors.append(f"[{failure.get('reason')}] {failure.get('message')}")
    if updated < desired:
        message = (
            f"[1/2] Waiting for app ReplicaSet be available ({updated}/{desired} Pods updated)"
        )
    elif total > updated:
        message = f"[1/2] Waiting for {total - updated} old Pods to end"
    elif available < desired:
        message = (
            f"[1/2] Waiting for app ReplicaSet be available ({available}/{desired} Pods available)"
        )
        errors.append(f"Minimum number of live Pods was not attained ({available}/{desired})")
    else:
        return READY
    return Readiness(ready=False, message=message, errors=tuple(errors))


def _stateful_set(look: Look) -> Readiness:
    if not look.observed():
        return Readiness(ready=False, message="Waiting for StatefulSet to be observed")
    desired = int(look.spec.get("replicas", 1))
    status = look.status
    ready = int(status.get("readyReplicas", 0))
    strategy = look.spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        current = True
    else:
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        updated = int(status.get("updatedReplicas", 0))
        current = (
            updated >= desired - partition
            if partition
            else status.get("updateRevision") == status.get("currentRevision") or updated >= desired
        )
    if ready >= desired and current:
        return READY
    return Readiness(
        ready=False,
        message=f"[1/3] Waiting for StatefulSet to create Pods ({ready}/{desired} Pods ready)",
        errors=(f"{desired - ready} out of {desired} replicas are not ready",)
        if ready < desired
        else ("the StatefulSet's Pods are not at its current revision",),
    )


def _daemon_set(look: Look) -> Readiness:
    if not look.observed():
        return Readiness(ready=False, message="Waiting for DaemonSet to be observed")
    if (look.spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        return READY
    status = look.status
    desired = int(status.get("desiredNumberScheduled", 0))
    updated = int(status.get("updatedNumberScheduled", 0))
    available = int(status.get("numberAvailable", 0))
    if updated >= desired and available >= desired:
        return READY
    text = f"{updated}/{desired} Pods updated, {available}/{desired} available"
    return Readiness(ready=False, message=f"Waiting for DaemonSet ({text})", errors=(text,))


def _replication_controller(look: Look) -> Readiness:
    desired = int(look.spec.get("replicas", 1))
    available = int(look.status.get("availableReplicas", 0))
    if available == desired:
        return READY
    text = f"{available}/{desired} replicas available"
    return Readiness(ready=False, message=f"Waiting for replicas ({text})", errors=(text,))


# What a kubelet says of an image that it does not get (pkg/kubelet/images/types.go).
_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


def lacks_image(pod: Mapping[str, Any]) -> bool:
    """Return whether a container of it waits for an image that its node does not get."""
    status = pod.get("status") or {}
    return any(
        ((container.get("state") or {}).get("waiting") or {}).get("reason") in _NO_IMAGE
        for group in ("initContainerStatuses", "containerStatuses")
        for container in status.get(group) or []
    )


def pod_problems(pod: Mapping[str, Any]) -> list[str]:
    """Return a pod's problems: unschedulable, image pull errors, crashes, failed containers."""
    name = naming.object_name(pod)
    status = pod.get("status") or {}
    problems = []
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("message"):
        problems.append(f"[Pod {name}]: {scheduled['message']}")
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or []:
            state = container.get("state") or {}
            waiting = state.get("waiting") or {}
            if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                text = f"[{waiting['reason']}] {waiting.get('message', '')}".strip()
                problems.append(f"[Pod {name}]: {text}")
            ended = state.get("terminated") or {}
            if ended.get("exitCode"):
                problems.append(
                    f"[Pod {name}]: container {container.get('name')!r} completed with exit code "
                    f"{ended['exitCode']}"
                )
    if status.get("phase") == "Failed" and status.get("message"):
        problems.append(f"[Pod {name}]: {status['message']}")
    return problems


def _pod(look: Look) -> Readiness:
    phase = look.status.get("phase")
    if phase == "Succeeded" or look.condition("Ready").get("status") == "True":
        return READY
    name = _fully_qualified(look.live)
    problems = pod_problems(look.live)
    if phase == "Failed":
        return Readiness(
            ready=False,
            failed=True,
            message=f'Pod "{name}" failed',
            errors=tuple(problems or [f"phase Failed: {look.status.get('reason', '')}"]),
        )
    if look.condition("PodScheduled").get("status") != "True":
        message = f'Waiting for Pod "{name}" to be scheduled'
    elif look.condition("Initialized").get("status") != "True":
        message = f'Waiting for Pod "{name}" to be initialized'
    else:
        message = f'Waiting for Pod "{name}" to be ready'
    unready = look.condition("Ready").get("message")
    if unready and not problems:
        problems.append(f"[Pod {name}]: {unready}")
    return Readiness(ready=False, message=message, errors=tuple(problems))


def _job(look: Look) -> Readiness:
    name = _fully_qualified(look.live)
    failed = look.condition("Failed")
    if failed.get("status") == "True":
        return Readiness(
            ready=False,
            failed=True,
            message=f'Job "{name}" failed',
            errors=(f"[{failed.get('reason')}] {failed.get('message')}",),
        )
    if not look.status.get("startTime"):
        suspended = " (suspended)" if look.spec.get("suspend") else ""
        text = f'Waiting for Job "{name}" to start{suspended}'
        return Readiness(ready=False, message=text, errors=(text,))
    if look.condition("Complete").get("status") == "True":
        return READY
    counts = " | ".join(
        f"{label}: {int(look.status.get(label.lower(), 0))}"
        for label in ("Active", "Succeeded", "Failed")
    )
    text = f'Waiting for Job "{name}" to succeed ({counts})'
    return Readiness(ready=False, message=text, errors=(text,))


def _service(look: Look) -> Readiness:
    kind = look.spec.get("type", "ClusterIP")
    errors: list[str] = []
    allocated = bool((look.status.get("loadBalancer") or {}).get("ingress"))
    if kind == "LoadBalancer" and not allocated:
        errors.append(
            "Service was not allocated an IP address; does your cloud provider support this?"
        )
    targets_pods = (
        kind != "ExternalName"
        and look.spec.get("clusterIP") != "None"
        and bool(look.spec.get("selector"))
    )
    if not targets_pods:
        return (
            Readiness(
                ready=False, message="Attempting to allocate IP address", errors=tuple(errors)
            )
            if errors
            else READY
        )
    ready, pending, seen = _endpoints(look)
    state = (ready, pending, seen)
    if look.memory.get("endpoints") != state:
        look.memory["endpoints"] = state
        look.memory["since"] = time.monotonic()
    settled = seen and time.monotonic() - look.memory["since"] >= ENDPOINTS_SETTLE_S
    if not ready:
        errors.insert(
            0,
            "Service does not target any Pods. Selected Pods may not be ready, or field "
            "'.spec.selector' may not match labels on any Pods",
        )
    # Ready endpoints and none pending need no settling: later stragglers change nothing for users.
    if not errors and not pending:
        return READY
    # As in the official provider, a Service whose endpoints stay empty is let through once settled.
    if settled and not pending and len(errors) == int(not ready):
        return READY
    message = "[1/3] Finding Pods to direct traffic to"
    if ready and errors:
        message = "[2/3] Attempting to allocate IP address to Service"
    return Readiness(ready=False, message=message, errors=tuple(errors))


def _endpoints(look: Look) -> tuple[int, int, bool]:
    namespace = naming.object_namespace(look.live)
    resource = look.client.resource_type("discovery.k8s.io/v1", "EndpointSlice")
    name = naming.object_name(look.live)
    body = look.client.request(
        "GET",
        resource.path(namespace),
        query={"labelSelector": f"kubernetes.io/service-name={name}"},
    ).body
    ready = pending = 0
    slices = body.get("items") or []
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.get("endpoints") or []:
            addresses = len(endpoint.get("addresses") or [])
            conditions = endpoint.get("conditions") or {}
            if conditions.get("ready", True):
                ready += addresses
            elif not conditions.get("terminating"):
                pending += addresses
    return ready, pending, bool(slices)


def _persistent_volume(look: Look) -> Readiness:
    phase = look.status.get("phase")
    if phase in ("Available", "Bound"):
        return READY
    return Readiness(
        ready=False,
        message=f"Waiting for the PersistentVolume to be available (phase {phase})",
        errors=(f"phase is {phase}: {look.status.get('message', '')}",),
        failed=phase == "Failed",
    )


def _persistent_volume_claim(look: Look) -> Readiness:
    phase = look.status.get("phase")
    if phase == "Bound":
        return READY
    if "mode" not in look.memory:
        look.memory["mode"] = _binding_mode(look)
    if look.memory["mode"] == "WaitForFirstConsumer" and phase == "Pending":
        return READY
    text = f"Waiting for the claim to be bound (phase {phase})"
    return Readiness(ready=False, message=text, errors=(f"phase is {phase}",))


def _binding_mode(look: Look) -> str:
    name = look.spec.get("storageClassName")
    if not name:
        return ""
    try:
        resource = look.client.resource_type("storage.k8s.io/v1", "StorageClass")
        body = look.client.request("GET", resource.path(name=str(name))).body
    except (ApiError, NoMatchError):
        return ""
    return str(body.get("volumeBindingMode") or "")


def _resource_quota(look: Look) -> Readiness:
    if look.spec.get("hard") == look.status.get("hard"):
        return READY
    text = "Waiting for the quota's status.hard to equal spec.hard"
    return Readiness(ready=False, message=text, errors=(text,))


def _secret(look: Look) -> Readiness:
    if look.live.get("type") != "kubernetes.io/service-account-token" or look.live.get("data"):
        return READY
    text = "Waiting for the service account token to be filled in"
    return Readiness(ready=False, message=text, errors=(text,))


def _ingress(look: Look) -> Readiness:
    namespace = naming.object_namespace(look.live)
    resource = look.client.resource_type("v1", "Service")
    missing = []
    for rule in look.spec.get("rules") or []:
        for path in (rule.get("http") or {}).get("paths") or []:
            name = ((path.get("backend") or {}).get("service") or {}).get("name")
            if not name:
                continue
            try:
                look.client.request("GET", resource.path(namespace, name))
            except ApiError as error:
                if not error.not_found:
                    raise
                where = path.get("path") or "/"
                missing.append(f"No matching service found for ingress rule: {where} -> {name}")
    if missing:
        return Readiness(
            ready=False, message="[1/3] Finding a matching service", errors=tuple(missing)
        )
    if not (look.status.get("loadBalancer") or {}).get("ingress"):
        text = "Ingress .status.loadBalancer field was not updated with a hostname/IP address"
        return Readiness(ready=False, message="[2/3] Waiting for an address", errors=(text,))
    return READY


def _custom_resource_definition(look: Look) -> Readiness:
    rejected = look.condition("NamesAccepted")
    if rejected.get("status") == "False":
        return Readiness(
            ready=False,
            failed=True,
            message="the CRD's names were not accepted",
            errors=(str(rejected.get("message")),),
        )
    if look.condition("Established").get("status") == "True":
        return READY
    text = "Waiting for the CustomResourceDefinition to be established"
    return Readiness(ready=False, message=text, errors=(text,))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of the table.

    Args:
        rule: says when the object is ready.
        timeout_s: how long to wait unless the program says otherwise.
        on_refresh: an object found not ready on refresh is reported, as the official provider does.
    """

    rule: Rule
    timeout_s: float = DEFAULT_TIMEOUT_S
    on_refresh: bool = False


RULES: Mapping[tuple[str, str], Entry] = {
    ("apps", "Deployment"): Entry(rule=_deployment, on_refresh=True),
    ("apps", "StatefulSet"): Entry(rule=_stateful_set, on_refresh=True),
    ("apps", "DaemonSet"): Entry(rule=_daemon_set, on_refresh=True),
    ("batch", "Job"): Entry(rule=_job, on_refresh=True),
    ("", "Pod"): Entry(rule=_pod, on_refresh=True),
    ("", "Service"): Entry(rule=_service, on_refresh=True),
    ("", "ReplicationController"): Entry(rule=_replication_controller),
    ("", "PersistentVolume"): Entry(rule=_persistent_volume, timeout_s=300.0),
    ("", "PersistentVolumeClaim"): Entry(rule=_persistent_volume_claim, timeout_s=300.0),
    ("", "ResourceQuota"): Entry(rule=_resource_quota, timeout_s=60.0),
    ("", "Secret"): Entry(rule=_secret, timeout_s=30.0),
    ("networking.k8s.io", "Ingress"): Entry(rule=_ingress, on_refresh=True),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): Entry(
        rule=_custom_resource_definition, timeout_s=60.0
    ),
}


def entry_for(obj: Mapping[str, Any]) -> Entry | None:
    """Return the table's row for an object, by API group and kind."""
    group, _ = split_api_version(str(obj.get("apiVersion", "")))
    return RULES.get((group, str(obj.get("kind", ""))))


def _generic(look: Look) -> Readiness:
    # The common conventions of controllers (kstatus): used with PULUMI_K8S_AWAIT_ALL=true only.
    if "observedGeneration" in look.status and not look.observed():
        return Readiness(ready=False, message="Waiting for the controller")
    stalled = look.condition("Stalled")
    if stalled.get("status") == "True":
        return Readiness(
            ready=False, failed=True, message="stalled", errors=(str(stalled.get("message")),)
        )
    if look.condition("Reconciling").get("status") == "True":
        return Readiness(ready=False, message="Waiting for the controller to reconcile")
    ready = look.condition("Ready")
    if ready and ready.get("status") != "True":
        text = str(ready.get("message") or "Waiting for readiness")
        return Readiness(ready=False, message=text, errors=(text,))
    return READY


class _JsonPath:
    """``jsonpath={.path}`` or ``jsonpath={.path}=value``, RFC 9535 inside the braces."""

    def __init__(self, expression: str) -> None:
        import jsonpath

        text = expression.removeprefix("jsonpath=")
        brace = text.rfind("}")
        path, rest = text[: brace + 1], text[brace + 1 :]
        if path.startswith("'") or text.startswith("'"):
            raise ValueError(f"{text} should omit shell quotes")
        match = re.fullmatch(r"\s*\{\s*(.*?)\s*\}", path, re.DOTALL)
        if match is None:
            raise ValueError(f"{text} should be wrapped in brackets {{ ... }}")
        if rest and (not rest.startswith("=") or rest == "="):
            raise ValueError(f"format should be {{.path}}=value or {{.path}}, got {text!r}")
        self.value = rest[1:] if rest else ""
        self.path = path.strip()
        inner = match[1] if match[1].startswith("$") else f"${match[1]}"
        try:
            # `?(@.a=='b')` is how kubectl spells a filter; RFC 9535 allows the parentheses too.
            self._query = jsonpath.compile(inner)
        except jsonpath.JSONPathError as error:
            raise ValueError(f"parsing {path!r}: {error}") from error

    def __call__(self, look: Look) -> Readiness:
        if "observedGeneration" in look.status and not look.observed():
            return Readiness(ready=False, message=f"Waiting for {self}")
        result = self._query.findall(dict(look.live))
        if not result:
            text = f"{self.path} selected nothing"
            return Readiness(ready=False, message=text, errors=(text,))
        value = result[0]
        if not self.value:
            return READY
        if isinstance(value, (dict, list)):
            text = f'"{self.path}" has a non-primitive value ({value})'
            return Readiness(ready=False, failed=True, message=text, errors=(text,))
        spelled = str(value).lower() if isinstance(value, bool) else str(value)
        if spelled == self.value:
            return READY
        text = f'Waiting for {self} (found "{spelled}")'
        return Readiness(ready=False, message=text, errors=(text,))

    def __str__(self) -> str:
        return f"{self.path}={self.value}" if self.value else self.path


class _Condition:
    """``condition=Type`` or ``condition=Type=Status``."""

    def __init__(self, expression: str) -> None:
        name, _, wanted = expression.removeprefix("condition=").partition("=")
        if not name:
            raise ValueError(f"{expression!r} names no condition")
        self.name = name
        self.wanted = wanted or "True"

    def __call__(self, look: Look) -> Readiness:
        condition = look.condition(self.name)
        if not condition:
            text = f"Waiting for condition {self.name}={self.wanted} (the object has none)"
            return Readiness(ready=False, message=text, errors=(text,))
        generation = (look.live.get("metadata") or {}).get("generation", 0)
        observed = condition.get("observedGeneration", look.status.get("observedGeneration"))
        if observed is not None and observed < generation:
            text = f"Generation {observed} is less than expected {generation}"
            return Readiness(ready=False, message=text, errors=(text,))
        status = str(condition.get("status"))
        if status.lower() == self.wanted.lower():
            return READY
        text = f"Resource has condition {self.name}={status} (want {self.wanted})"
        detail = condition.get("message")
        return Readiness(
            ready=False, message=text, errors=(f"{text}: {detail}" if detail else text,)
        )


def parse_wait_for(text: str) -> list[Rule]:
    """Return the rules of a ``pulumi.com/waitFor`` annotation, an expression or a JSON list.

    Raises:
        ValueError: an expression has no known prefix or does not parse.
    """
    expressions: Any = None
    try:
        expressions = json.loads(text)
    except ValueError:
        expressions = [text]
    if not isinstance(expressions, list):
        expressions = [text]
    if not expressions:
        raise ValueError(f"{naming.WAIT_FOR}: at least one condition must be specified")
    rules: list[Rule] = []
    for expression in expressions:
        if not isinstance(expression, str):
            raise ValueError(f"{naming.WAIT_FOR}: expected strings, got {expression!r}")
        if expression.startswith("jsonpath="):
            rules.append(_JsonPath(expression))
        elif expression.startswith("condition="):
            rules.append(_Condition(expression))
        else:
            raise ValueError(
                f'{naming.WAIT_FOR}: expected a "jsonpath=" or "condition=" prefix, '
                f"got {expression!r}"
            )
    return rules


def _all(rules: Sequence[Rule]) -> Rule:
    def rule(look: Look) -> Readiness:
        verdicts = [item(look) for item in rules]
        waiting = [verdict for verdict in verdicts if not verdict.ready]
        if not waiting:
            return READY
        return Readiness(
            ready=False,
            message=waiting[0].message,
            errors=tuple(error for verdict in waiting for error in verdict.errors),
            failed=any(verdict.failed for verdict in waiting),
        )

    return rule


def ready_rule(inputs: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Rule | None, float]:
    """Return the rule to wait for, and the default time; no rule means ready at once.

    Raises:
        ValueError: the ``pulumi.com/waitFor`` annotation is malformed.
    """
    if naming.is_true(inputs, naming.SKIP_AWAIT):
        return None, 0.0
    wanted = naming.annotation(inputs, naming.WAIT_FOR)
    if wanted:
        return _all(parse_wait_for(wanted)), DEFAULT_TIMEOUT_S
    entry = entry_for(live)
    if entry is not None:
        return entry.rule, entry.timeout_s
    if os.environ.get("PULUMI_K8S_AWAIT_ALL") == "true":
        return _generic, DEFAULT_TIMEOUT_S
    return None, 0.0


def timeout_of(inputs: Mapping[str, Any], custom_s: float, default_s: float) -> float:
    """Return the seconds to wait: the resource option, else the annotation, else the default."""
    if custom_s:
        return custom_s
    text = naming.annotation(inputs, naming.TIMEOUT_SECONDS)
    try:
        return float(int(text))
    except ValueError:
        return default_s
