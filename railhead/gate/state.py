"""The decision from findings to the node's label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from railhead.base.finding import Finding

#: The label that a pool's ResourceFlavor demands, and the annotation with the reasons.
LABEL = "railhead.dev/fabric"
ANNOTATION = "railhead.dev/fabric-report"

State = Literal["ready", "failed"]
READY: State = "ready"
FAILED: State = "failed"

# A link that flaps must hold for this many checks before jobs are placed on the node again.
_SETTLE = 3


@dataclass
class Gate:
    """The state that decides whether a node that failed has settled.

    ``published``: the findings that were last published. ``label``: the last decision.
    ``counted``: the node's counters (:class:`railhead.gate.node.Node`).
    """

    good: int = _SETTLE
    published: set[Finding] | None = None
    label: State | None = None
    counted: dict[str, tuple[float, int]] = field(default_factory=dict)
    _failed: bool = field(default=False, repr=False)

    def decide(self, findings: Iterable[Finding], now: str | None) -> State:
        """Return ``ready`` or ``failed``; ``now`` is the node's present label.

        Without findings nothing is proven. A device that a pod uses neither proves nor fails: a
        node that was ready stays ready, any other is not ready until the device is seen.
        """
        passed = {finding.passed for finding in findings}
        if False in passed or not passed:
            self._failed, self.good = True, 0
            return FAILED
        if None in passed:
            return READY if now == READY else FAILED
        self.good += 1
        if self._failed and self.good < _SETTLE:
            return FAILED
        self._failed = False
        return READY


def verdict(finding: Finding) -> str:
    """Return the finding's verdict in the gate's words; ``held`` means in use by a pod."""
    return {True: "proven", False: "failed", None: "held"}[finding.passed]


def label_before(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str | None:
    """Return the node's label, or the one that the previous gate withdrew.

    In mode host-device, pods give NICs back switched off, and nothing can be proven until the next
    pod: without the old label, every rollout of the gate would fail such a node for good.
    """
    if LABEL in labels:
        return labels[LABEL]
    try:
        was = json.loads(annotations.get(ANNOTATION, "{}"))["was"]
    except (ValueError, KeyError, TypeError):
        return None
    return was if was in (READY, FAILED) else None


def report(findings: Iterable[Finding], at: str, note: str, was: str | None = None) -> str:
    """Return the annotation: since when, and everything that is not proven, with its remedy.

    ``was``: the node's label before it was withdrawn.
    """
    open_ = [
        {"name": f.name, "verdict": verdict(f), "text": f.text}
        | ({"remedy": f.remedy} if f.remedy else {})
        for f in findings
        if not f.passed
    ]
    annotation: dict[str, object] = {"since": at, "open": open_}
    annotation |= {key: value for key, value in (("note", note), ("was", was)) if value}
    return json.dumps(annotation)
