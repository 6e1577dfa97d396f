"""Waiting until an object is ready or gone, with progress, reasons and a prompt end on cancel."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from railhead.kube.errors import ApiError, UnreachableError
from railhead.lab.engine.provider import naming
from railhead.lab.engine.provider.client import KubeClient, NoMatchError
from railhead.lab.engine.provider.readiness import (
    DEFAULT_TIMEOUT_S,
    ENDPOINTS_SETTLE_S,
    READY,
    Look,
    Readiness,
    condition_of,
    entry_for,
    pod_problems,
    ready_rule,
    timeout_of,
)

_FIRST_POLL_S = 0.2
_SLOWEST_POLL_S = 1.5
_EVENTS_AFTER_S = 5.0
_EXPLAIN_DELETE_AFTER_S = 20.0


class StatusLog(Protocol):
    """A receiver of progress."""

    def status(self, message: str, urn: str) -> None:
        """Report progress that the next message replaces."""

    def warning(self, message: str, urn: str = "") -> None:
        """Report a permanent warning."""


class NotReadyError(Exception):
    """The object exists and is not ready.

    Args:
        problem: one sentence.
        reasons: conditions, pod states and events of the object.
        live: the object as last seen.
    """

    def __init__(self, problem: str, reasons: Sequence[str], live: Mapping[str, Any]) -> None:
        super().__init__(problem)
        self.problem = problem
        self.reasons = list(reasons)
        self.live = dict(live)


class CancelledError(NotReadyError):
    """The user cancelled the wait."""


@dataclass(kw_only=True)
class Waiter:
    """Waits for one object.

    Args:
        client: the API server.
        log: where progress goes.
        cancel: set when the user cancels; every wait ends promptly.
        urn: the resource, for the log.
        path: the object's URL path.
    """

    client: KubeClient
    report: StatusLog
    cancel: threading.Event
    urn: str
    path: str

    def get(self) -> dict[str, Any] | None:
        """Return the live object; None when it is gone."""
        try:
            body: dict[str, Any] = self.client.request("GET", self.path).body
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return body

    def until_ready(
        self,
        inputs: Mapping[str, Any],
        live: Mapping[str, Any],
        *,
        custom_timeout_s: float,
        updating: bool,
    ) -> dict[str, Any]:
        """Wait until the object's rule is content; returns the live object.

        Raises:
            NotReadyError: time ran out, the object failed or vanished.
            CancelledError: the user cancelled.
            ValueError: the ``pulumi.com/waitFor`` annotation is malformed.
        """
        rule, default_s = ready_rule(inputs, live)
        if rule is None:
            return dict(live)
        limit_s = timeout_of(inputs, custom_timeout_s, default_s)
        started = time.monotonic()
        look = Look(client=self.client, live=live, updating=updating)
        poll_s = _FIRST_POLL_S
        text = ""
        events_told: set[str] = set()
        verdict = Readiness(ready=False)
        while True:
            try:
                verdict = rule(look)
                if verdict.ready:
                    if text:
                        self.report.status("", self.urn)
                    return dict(look.live)
            except (ApiError, UnreachableError) as error:
                # One lost request must not lose a wait of minutes.
                verdict = Readiness(ready=False, message=str(error), errors=(str(error),))
            if verdict.failed:
                raise self._not_ready(
                    f"{naming.object_name(look.live)!r} failed", verdict, look.live
                )
            if verdict.message and verdict.message != text:
                text = verdict.message
                self.report.status(text, self.urn)
            elapsed = time.monotonic() - started
            if elapsed > limit_s:
                raise self._not_ready(
                    f"'{naming.object_name(look.live)}' timed out waiting to be Ready "
                    f"after {limit_s:g} s",
                    verdict,
                    look.live,
                )
            if elapsed > _EVENTS_AFTER_S:
                self._tell_events(look.live, events_told)
            if self.cancel.wait(min(poll_s, max(limit_s - elapsed, 0.0) + 0.05)):
                raise CancelledError(
                    f"Resource operation was cancelled for {naming.object_name(look.live)!r}",
                    verdict.errors,
                    look.live,
                )
            poll_s = min(poll_s * 1.5, _SLOWEST_POLL_S)
            try:
                fresh = self.get()
            except (ApiError, UnreachableError):
                continue
            if fresh is None:
                raise NotReadyError(
                    f"'{naming.object_name(look.live)}' was deleted while waiting for it",
                    [],
                    look.live,
                )
            look.live = fresh

    def verdict_now(self, live: Mapping[str, Any], inputs: Mapping[str, Any]) -> Readiness:
        """Return the built-in rule's verdict for a refresh; ready for kinds that have no rule."""
        entry = entry_for(live)
        if (
            entry is None
            or not entry.on_refresh
            or naming.is_true(inputs, naming.SKIP_AWAIT)
            or naming.annotation(inputs, naming.WAIT_FOR)
        ):
            return READY
        look = Look(client=self.client, live=live, updating=True)
        # A refresh looks once; what has been so for longer than the settling time has settled.
        look.memory["since"] = time.monotonic() - 2 * ENDPOINTS_SETTLE_S
        try:
            verdict = entry.rule(look)
            if not verdict.ready and "endpoints" in look.memory:
                look.memory["since"] = time.monotonic() - 2 * ENDPOINTS_SETTLE_S
                verdict = entry.rule(look)
        except (ApiError, NoMatchError, UnreachableError):
            return READY
        return verdict

    def until_gone(
        self, inputs: Mapping[str, Any], live: Mapping[str, Any], *, custom_timeout_s: float
    ) -> None:
        """Wait until the object, or the object of that identity, is gone.

        Raises:
            NotReadyError: time ran out; the reasons name finalizers and namespace conditions.
            CancelledError: the user cancelled.
        """
        limit_s = timeout_of(inputs, custom_timeout_s, DEFAULT_TIMEOUT_S)
        uid = (live.get("metadata") or {}).get("uid")
        started = time.monotonic()
        poll_s = 0.05
        explained = ""
        current: Mapping[str, Any] = live
        while True:
            try:
                fresh = self.get()
                if fresh is None:
                    break
                if uid and (fresh.get("metadata") or {}).get("uid") != uid:
                    break
                current = fresh
            except (ApiError, UnreachableError) as error:
                self.report.status(f"cannot look at the object: {error}", self.urn)
            elapsed = time.monotonic() - started
            reasons = deletion_reasons(current)
            if elapsed > _EXPLAIN_DELETE_AFTER_S and reasons and "; ".join(reasons) != explained:
                explained = "; ".join(reasons)
                self.report.warning(
                    f"still being deleted after {elapsed:.0f} s: {explained}", self.urn
                )
            elif reasons and elapsed > 2:
                self.report.status(reasons[0], self.urn)
            if elapsed > limit_s:
                raise NotReadyError(
                    f"'{naming.object_name(current)}' was not deleted within {limit_s:g} s",
                    reasons or ["the API server still returns the object"],
                    current,
                )
            if self.cancel.wait(poll_s):
                raise CancelledError(
                    f"Resource operation was cancelled for {naming.object_name(current)!r}",
                    reasons,
                    current,
                )
            poll_s = min(poll_s * 1.6, _SLOWEST_POLL_S)
        self.report.status("", self.urn)

    def _not_ready(
        self, problem: str, verdict: Readiness, live: Mapping[str, Any]
    ) -> NotReadyError:
        reasons = list(dict.fromkeys([*verdict.errors, *self._pod_reasons(live)]))
        if not reasons:
            reasons = [verdict.message] if verdict.message else []
        reasons += [reason for reason in condition_reasons(live) if reason not in reasons]
        reasons += [event for event in self._events(live) if event not in reasons]
        return NotReadyError(problem, reasons, live)

    def _pod_reasons(self, live: Mapping[str, Any]) -> list[str]:
        spec = live.get("spec") or {}
        selector = (spec.get("selector") or {}) if isinstance(spec, Mapping) else {}
        labels = selector.get("matchLabels") if isinstance(selector, Mapping) else None
        if live.get("kind") not in ("Deployment", "StatefulSet", "DaemonSet", "Job") or not labels:
            return []
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
        try:
            path = self.client.resource_type("v1", "Pod").path(naming.object_namespace(live))
            pods = self.client.request("GET", path, query=query).body.get("items") or []
        except (ApiError, NoMatchError, UnreachableError):
            return []
        return [problem for pod in pods[:20] for problem in pod_problems(pod)][:10]

    def _events(self, live: Mapping[str, Any]) -> list[str]:
        uid = (live.get("metadata") or {}).get("uid")
        if not uid:
            return []
        try:
            path = self.client.resource_type("v1", "Event").path(
                naming.object_namespace(live) or "default"
            )
            query = {"fieldSelector": f"involvedObject.uid={uid},type=Warning"}
            items = self.client.request("GET", path, query=query).body.get("items") or []
        except (ApiError, NoMatchError, UnreachableError):
            return []
        texts = [f"[{item.get('reason')}] {item.get('message')}" for item in items]
        return list(dict.fromkeys(texts))[-5:]

    def _tell_events(self, live: Mapping[str, Any], told: set[str]) -> None:
        now = time.monotonic()
        last = getattr(self, "_events_at", 0.0)
        if now - last < 5.0:
            return
        self._events_at = now
        for text in self._events(live):
            if text not in told:
                told.add(text)
                self.report.warning(text, self.urn)


def condition_reasons(obj: Mapping[str, Any]) -> list[str]:
    """Return the object's status conditions, one line each."""
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    lines = []
    for condition in conditions or []:
        if isinstance(condition, Mapping):
            text = f"condition {condition.get('type')}={condition.get('status')}"
            detail = ": ".join(
                str(condition[key]) for key in ("reason", "message") if condition.get(key)
            )
            lines.append(f"{text} ({detail})" if detail else text)
    return lines


_NAMESPACE_TROUBLE = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)


def deletion_reasons(obj: Mapping[str, Any]) -> list[str]:
    """Return what delays an object's deletion: namespace conditions and finalizers."""
    reasons = []
    for name in _NAMESPACE_TROUBLE:
        condition = condition_of(obj, name)
        if obj.get("kind") == "Namespace" and condition.get("status") == "True":
            text = f"{name}: {condition.get('message')}"
            if name == "NamespaceDeletionDiscoveryFailure":
                text += (
                    " (an aggregated API does not answer, so the API server cannot list what the "
                    "namespace holds: bring its Service back, or delete its APIService)"
                )
            reasons.append(text)
    finalizers = (obj.get("metadata") or {}).get("finalizers") or []
    if finalizers:
        names = ", ".join(str(item) for item in finalizers)
        reasons.append(f"finalizers might be preventing deletion ({names})")
    return reasons
